/*
 * Predicts interference, the ratio of a task's time per iteration beside its neighbours to its time
 * alone, from the features of all these tasks.
 *
 * The prediction comes from the first source that applies:
 *   alone    1, without neighbours
 *   pattern  mean of the measurements, if this combination was measured often enough
 *   cold     without a model: max(1, ΣSM, ΣDRAM), corrected by the first measurements
 *   forest   all tasks were measured before, in any combination. The network replaces the
 *            forest if the error of the network was clearly smaller on combinations with
 *            which neither was trained
 *   guess    a task was never measured: smooth function of the features, shrunk towards the
 *            median of all measurements. Cross-validation over the known programs chooses the
 *            amount of shrinkage; if no amount helps, the guess is the median
 *   median   the features are far from all measurements
 *   sum      several neighbours, instead of a guess or a median: sum of the slowdowns
 *            predicted beside each single neighbour
 * So a prediction is never much worse than a prediction without a model.
 *
 * The forest is trained on the residuals of a smooth function (learn/smooth.h). A trained model
 * never changes. The same measurements and seed train the same model.
 *
 * This folder contains all code that learns from measurements; the code is pure. Files of the
 * folder learn may include base, model.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "learn/features.h"
#include "learn/observations.h"

enum {
    PREDICTOR_OBSERVATIONS_MIN = 12, /* observations needed to train a model */
    PREDICTOR_FAMILIES_MAX = 1024,
    PREDICTOR_STORED_MAX = 16 << 20, /* upper limit of the bytes of a saved model */
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
    double spread; /* uncertainty: standard deviation of the logarithm */
    enum predictor_source source;
};

struct predictor;

enum predictor_learners {
    PREDICTOR_FOREST_ALONE,
    PREDICTOR_FOREST_OR_NETWORK, /* ten times slower to train */
};

/* Returns -ERR_UNAVAILABLE below PREDICTOR_OBSERVATIONS_MIN observations, or -ERR_NO_MEMORY. */
int predictor_train(const struct observations *o, enum predictor_learners learners, uint64_t seed,
                    struct predictor **ret_predictor);
void predictor_free(struct predictor *p);
/* Returns the hash of the model's measurements and seed, which decisions record. */
uint64_t predictor_id(const struct predictor *p);

/* p and o may be NULL: no model, no measurements yet. Accepts at most FEATURES_NEIGHBOURS_MAX
 * neighbours. */
void predictor_predict(const struct predictor *p, const struct observations *o,
                       const struct task_profile *own, const struct task_profile *neighbours,
                       size_t neighbour_count, struct prediction *ret_prediction);

/* Appends at most PREDICTOR_STORED_MAX bytes. */
void predictor_save(const struct predictor *p, struct str *to);
/* Returns -ERR_NO_MEMORY, or -ERR_CORRUPT or -ERR_TOO_NEW as described in learn/stored.h; the owner
 * then trains a new model. */
int predictor_load(struct error *e, const void *bytes, size_t length,
                   struct predictor **ret_predictor);
