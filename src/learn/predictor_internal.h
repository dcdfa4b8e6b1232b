/* What training makes and predicting reads. */
#pragma once
#include "learn/forest.h"
#include "learn/mlp.h"
#include "learn/predictor.h"
#include "learn/smooth.h"

/* How far a guess about tasks never seen may be trusted. */
struct trust {
    double part;  /* of the way from the median to the smooth function, 0 to 1 */
    double reach; /* how far outside of what was seen (smooth_outside) that was tried */
    double error; /* of the logarithm, root mean square, when it was */
};

struct predictor {
    uint64_t id;
    double median;      /* of the measured logarithms */
    double least, most; /* of theirs: no answer is outside */
    double deviation;   /* of theirs from the median */
    double span;        /* distance beyond which all that was seen is far */
    struct trust trust;
    struct smooth *smooth;
    struct forest *trees; /* on what the smooth function leaves */
    struct mlp *network;  /* NULL unless it validated better */
    size_t family_count;
    uint64_t families[PREDICTOR_FAMILIES_MAX]; /* seen, ascending */
};

/* Measurements as the learners take them; `of` are borrowed from the observations. */
struct training_table {
    size_t count;
    const struct observation **of;
    double *rows; /* count × FEATURES_ALL */
    double *targets;
};

/* The points that the smooth function was fitted to. */
struct smooth_points {
    size_t count;
    const struct observation *of[SMOOTH_POINTS_MAX];
    double values[SMOOTH_POINTS_MAX];
    double *inverse; /* smooth_fit()'s; owned */
};

/* Holds out the programs one by one. */
int trust_measure(const struct smooth *smooth, const struct smooth_points *points,
                  struct trust *ret_trust);
bool observation_has_family(const struct observation *o, uint64_t family);
