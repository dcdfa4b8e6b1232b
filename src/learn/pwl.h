/*
 * Latency of a service's batch as a function of its share of the device: two linear pieces that
 * meet at a knee, steep below the knee and flat above it, never rising with the share.
 *
 *   latency(share) = left_slope  · (share − knee_share) + knee_latency   up to the knee
 *                     right_slope · (share − knee_share) + knee_latency   beyond it
 *   left_slope ≤ right_slope ≤ 0
 *
 * Latencies may have any unit; shares are in percent.
 */
#pragma once
#include <stddef.h>

#include "base/error.h"
#include "base/str.h"

enum {
    PWL_SAMPLES_MAX = 32,
    PWL_SAMPLES_MIN = 2,
    PWL_STORED_MAX = 128, /* upper limit of the bytes of a saved curve */
};

struct pwl_sample {
    double share_percent, latency;
};

struct pwl_curve {
    double knee_share, knee_latency, left_slope, right_slope;
};

/*
 * Fits the curve with the smallest sum of squared relative errors. Samples may have any order.
 * Returns -ERR_INVALID unless shares are in (0, 100], latencies are > 0 and at least two shares
 * differ; -ERR_TOO_LARGE beyond PWL_SAMPLES_MAX.
 */
int pwl_fit(const struct pwl_sample *samples, size_t count, struct pwl_curve *ret_curve);
double pwl_latency(const struct pwl_curve *c, double share_percent);
/* Returns the smallest share in (0, 100] with at most this latency; INFINITY if there is none. */
double pwl_share(const struct pwl_curve *c, double latency_max);

/* Appends the saved curve, at most PWL_STORED_MAX bytes. */
void pwl_save(const struct pwl_curve *c, struct str *to);
/* Returns -ERR_CORRUPT or -ERR_TOO_NEW, as described in stored.h. */
int pwl_load(struct error *e, const void *bytes, size_t length, struct pwl_curve *ret_curve);
