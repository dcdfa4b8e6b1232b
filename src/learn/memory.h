/*
 * Device memory of a task at a batch size that the task has not used yet. The model is a polynomial
 * in the batch size without negative coefficients. The fit minimises the relative error at the
 * batch sizes measured so far; the degree grows with the number of sizes. (The cubic that IADeep
 * fits through four points can predict negative memory at twice the largest measured batch size.)
 *
 * The booked amount is the prediction plus a margin. Callers should not try a batch above
 * memory_batch_max(), because the prediction does not extrapolate further.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum {
    MEMORY_SIZES_MAX = 32, /* batch sizes that a model keeps */
    MEMORY_DEGREE_MAX = 3,
    MEMORY_STORED_MAX = 1024, /* upper limit of the bytes of a saved model */
};

struct memory_sample {
    uint32_t batch;
    uint64_t bytes;
};

/* Plain data; all zero means no measurements. Sorted by batch, each size once. */
struct memory_model {
    struct memory_sample samples[MEMORY_SIZES_MAX];
    size_t count;
    double coefficients[MEMORY_DEGREE_MAX + 1]; /* in bytes, over powers of batch / largest batch */
    uint64_t margin_bytes;
};

/*
 * Records that the task used `bytes` at `batch` (both > 0), and fits again. For a known size the
 * larger figure counts. Beyond MEMORY_SIZES_MAX sizes, drops the size nearest to its neighbours,
 * but never the smallest or largest. Returns -ERR_INVALID for a zero.
 */
int memory_observe(struct memory_model *m, uint32_t batch, uint64_t bytes);
/* Returns 0 without measurements; the caller then uses the amount that the task declared. */
uint64_t memory_predict(const struct memory_model *m, uint32_t batch);
/* Returns the prediction plus the margin; 0 without measurements. */
uint64_t memory_booking(const struct memory_model *m, uint32_t batch);
/* Returns 1.25 times the largest measured batch; 0 without measurements. */
uint32_t memory_batch_max(const struct memory_model *m);

/* Appends the saved model, at most MEMORY_STORED_MAX bytes. */
void memory_save(const struct memory_model *m, struct str *to);
/* Returns -ERR_CORRUPT or -ERR_TOO_NEW, as described in stored.h. */
int memory_load(struct error *e, const void *bytes, size_t length, struct memory_model *ret_model);
