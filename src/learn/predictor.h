/*
 * How much slower a task runs beside its neighbours (interference: time of an iteration beside
 * them, of that alone), from features of all of them.
 *
 * In this order it answers with
 *   alone    1, when there is no neighbour
 *   pattern  the mean of what was measured, when just this was measured often enough
 *   cold     max(1, ΣSM, ΣDRAM), while there is no model, as far as the first measurements
 *            bear it out
 *   forest   when all the tasks were seen before, in whatever company; or network, when that
 *            clearly predicted better what neither was shown
 *   guess    when one of them was not: a smooth function of the features, pulled towards the median
 *            of all measurements as far as was best when the programs seen were held out one by
 *            one. Where that was no better than the median, it is the median
 *   median   when it is far from everything seen
 *   sum      of what each neighbour by itself adds, in place of a guess or the median when
 *            there are several
 * so that it is never much worse than knowing nothing.
 *
 * The forest is grown on what a smooth function leaves (learn/smooth.h). Models do not change once
 * trained; the same measurements and seed train the same model.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "learn/features.h"
#include "learn/observations.h"

enum {
    PREDICTOR_OBSERVATIONS_MIN = 12, /* below that no model is trained */
    PREDICTOR_FAMILIES_MAX = 1024,
    PREDICTOR_STORED_MAX = 16 << 20, /* bytes of a saved model, at most */
};

#define PREDICTOR_SOURCES(X)                                                                       \
    X(ALONE, "alone")                                                                              \
    X(PATTERN, "pattern")                                                                          \
    X(COLD, "cold")                                                                                \
    X(FOREST, "forest")                                                                            \
    X(NETWORK, "network")                                                                          \
    X(GUESS, "guess")                                                                              \
    X(MEDIAN, "median")                                                                            \
    X(SUM, "sum")
enum predictor_source {
#define X(name, text) PREDICTOR_##name,
    PREDICTOR_SOURCES(X)
#undef X
        PREDICTOR_SOURCE_END
};
const char *predictor_source_name(enum predictor_source source);

struct prediction {
    double interference;
    double spread; /* how unsure it is: a standard deviation of its logarithm */
    enum predictor_source source;
};

struct predictor;

enum predictor_learners {
    PREDICTOR_FOREST_ALONE,
    PREDICTOR_FOREST_OR_NETWORK, /* takes ten times as long */
};

/* -ERR_UNAVAILABLE with fewer than PREDICTOR_OBSERVATIONS_MIN observations; -ERR_NO_MEMORY. */
int predictor_train(const struct observations *o, enum predictor_learners learners, uint64_t seed,
                    struct predictor **ret_predictor);
void predictor_free(struct predictor *p);
/* Of the measurements and seed it was trained with; what a decision records. */
uint64_t predictor_id(const struct predictor *p);

/* p and o may be NULL: no model, no measurements yet. At most FEATURES_NEIGHBOURS_MAX
 * neighbours. */
void predictor_predict(const struct predictor *p, const struct observations *o,
                       const struct task_profile *own, const struct task_profile *neighbours,
                       size_t neighbour_count, struct prediction *ret_prediction);

/* Appends at most PREDICTOR_STORED_MAX bytes. */
void predictor_save(const struct predictor *p, struct str *to);
/* -ERR_CORRUPT, -ERR_TOO_NEW: see learn/stored.h; the owner then trains anew. -ERR_NO_MEMORY. */
int predictor_load(struct error *e, const void *bytes, size_t length,
                   struct predictor **ret_predictor);
