/*
 * Learning of interference during a run: the predictor of learn/, trained on measurements as the
 * run proceeds, just as control trains on its nodes' reports.
 *
 * Interference and features are relative to the task alone on a device, at the batch size that is
 * best for the task alone. Predictions are cold-start predictions until enough measurements exist.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "learn/features.h"

struct lessons;

/* The seed determines the dropped measurements and the growth of the trees. Returns NULL if out of
 * memory. */
struct lessons *lessons_new(uint64_t seed);
void lessons_free(struct lessons *l);

/* Records the ratio of a task's time beside the others to its time alone. Returns -ERR_INVALID. */
int lessons_add(struct lessons *l, const struct task_profile *own,
                const struct task_profile *others, size_t other_count, double interference);
/* Trains a new model when one is due. Returns 0, or -ERR_NO_MEMORY and keeps the previous model. */
int lessons_revise(struct lessons *l);
/* Returns a version. While the version is unchanged, predictions are unchanged, except for a pair
 * that was measured meanwhile. */
uint64_t lessons_version(const struct lessons *l);
/* Returns the predicted interference of the pair. */
double lessons_predict(const struct lessons *l, const struct task_profile *own,
                       const struct task_profile *other);
