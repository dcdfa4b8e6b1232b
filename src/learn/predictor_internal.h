/* Result of the training, which prediction reads. */
#pragma once
#include "learn/forest.h"
#include "learn/mlp.h"
#include "learn/predictor.h"
#include "learn/smooth.h"

/* Trust in the prediction for a task that was never measured. */
struct trust {
    double part; /* weight of the smooth function against the median, 0 to 1 */
    /* Largest smooth_outside of a held-out point; the prediction was not tested beyond this
     * distance. */
    double reach;
    double error; /* root mean square error of the logarithm on held-out programs */
};

struct predictor {
    uint64_t id;
    double median;      /* of the measured logarithms */
    double least, most; /* range of the measured logarithms, to which predictions are clamped */
    double deviation;   /* deviation of the measured logarithms from the median */
    double span;        /* distance beyond which a point counts as far from all measurements */
    struct trust trust;
    struct smooth *smooth;
    struct forest *trees; /* trained on the residuals of `smooth` */
    struct mlp *network;  /* NULL unless the network validated better */
    size_t family_count;
    uint64_t families[PREDICTOR_FAMILIES_MAX]; /* measured families, ascending */
};

/* Measurements in the form that the learners take. `of` points to borrowed observations. */
struct training_table {
    size_t count;
    const struct observation **of;
    double *rows; /* count × FEATURES_ALL numbers */
    double *targets;
};

/* The points to which the smooth function was fitted. */
struct smooth_points {
    size_t count;
    const struct observation *of[SMOOTH_POINTS_MAX];
    double values[SMOOTH_POINTS_MAX];
    double *inverse; /* from smooth_fit(); owned */
};

/* Measures the trust by holding out the programs one by one. */
int trust_measure(const struct smooth *smooth, const struct smooth_points *points,
                  struct trust *ret_trust);
bool observation_has_family(const struct observation *o, uint64_t family);
