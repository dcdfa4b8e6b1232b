/*
 * How much device memory a task takes at a batch size it has not run at. From the sizes it has run
 * at: a polynomial in the batch with no negative coefficient, fitted on relative error, of a
 * degree that so many sizes can bear. A cubic through four points, as IADeep has it, predicts
 * negative memory at twice the batch.
 *
 * What is booked is the prediction plus the margin. No batch above memory_batch_max() should be
 * tried: the prediction is of what was seen.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum {
    MEMORY_SIZES_MAX = 32, /* batch sizes that a model remembers */
    MEMORY_DEGREE_MAX = 3,
    MEMORY_STORED_MAX = 1024, /* bytes of a saved model, at most */
};

struct memory_sample {
    uint32_t batch;
    uint64_t bytes;
};

/* Plain data; all zero is a task of which nothing is known. Sorted by batch, each size once. */
struct memory_model {
    struct memory_sample samples[MEMORY_SIZES_MAX];
    size_t count;
    double coefficients[MEMORY_DEGREE_MAX + 1]; /* bytes, over powers of batch / largest batch */
    uint64_t margin_bytes;
};

/*
 * Learns that the task took `bytes` at `batch` (both > 0) and fits again. At a size already known
 * the larger figure stays. When MEMORY_SIZES_MAX are known the size nearest to its neighbours is
 * forgotten, never the smallest or largest. -ERR_INVALID for a zero.
 */
int memory_observe(struct memory_model *m, uint32_t batch, uint64_t bytes);
/* 0 when nothing is known: the caller takes what the task declared. */
uint64_t memory_predict(const struct memory_model *m, uint32_t batch);
/* The prediction and the margin; 0 when nothing is known. */
uint64_t memory_booking(const struct memory_model *m, uint32_t batch);
/* 1.25 times the largest batch seen; 0 when nothing is known. */
uint32_t memory_batch_max(const struct memory_model *m);

/* Appends the saved model; at most MEMORY_STORED_MAX bytes. */
void memory_save(const struct memory_model *m, struct str *to);
/* -ERR_CORRUPT, -ERR_TOO_NEW: see stored.h. */
int memory_load(struct error *e, const void *bytes, size_t length, struct memory_model *ret_model);
