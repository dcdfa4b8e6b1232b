/*
 * What a run teaches of who slows whom: the predictor of learn/, trained on what was measured as it
 * goes, as control does it with what its nodes report.
 *
 * Interference is relative to a task alone at the batch size that suits it there; so are its
 * features. Until enough was measured the answer is that of a cold start.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "learn/features.h"

struct lessons;

/* The seed decides what is forgotten and how trees grow. NULL when memory is out. */
struct lessons *lessons_new(uint64_t seed);
void lessons_free(struct lessons *l);

/* How many times as long as alone it took beside the others. -ERR_INVALID. */
int lessons_add(struct lessons *l, const struct task_profile *own,
                const struct task_profile *others, size_t other_count, double interference);
/* Trains where that is due. 0, or -ERR_NO_MEMORY; the model of before stays then. */
int lessons_revise(struct lessons *l);
/* As long as it stays, a question has one answer; but for what was measured of just these
 * two since. */
uint64_t lessons_version(const struct lessons *l);
/* What to expect of that. */
double lessons_predict(const struct lessons *l, const struct task_profile *own,
                       const struct task_profile *other);
