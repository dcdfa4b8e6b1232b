/*
 * The latency of a service's batch over its share of the device: two straight pieces that meet at a
 * knee, steep below it, flat above, never rising with the share.
 *
 *   latency(share) = left_slope  · (share − knee_share) + knee_latency   up to the knee
 *                    right_slope · (share − knee_share) + knee_latency   beyond it
 *   left_slope ≤ right_slope ≤ 0
 *
 * Any unit of latency; shares in percent.
 */
#pragma once
#include <stddef.h>

#include "base/error.h"
#include "base/str.h"

enum {
    PWL_SAMPLES_MAX = 32,
    PWL_SAMPLES_MIN = 2,
    PWL_STORED_MAX = 128, /* bytes of a saved curve, at most */
};

struct pwl_sample {
    double share_percent, latency;
};

struct pwl_curve {
    double knee_share, knee_latency, left_slope, right_slope;
};

/*
 * The curve of the smallest sum of squared relative errors at the samples, in any order. Shares are
 * in (0, 100], latencies > 0, two shares at least differ; else -ERR_INVALID. -ERR_TOO_LARGE.
 */
int pwl_fit(const struct pwl_sample *samples, size_t count, struct pwl_curve *ret_curve);
double pwl_latency(const struct pwl_curve *c, double share_percent);
/* The smallest share in (0, 100] whose latency is at most that; INFINITY when there is none. */
double pwl_share(const struct pwl_curve *c, double latency_max);

/* Appends the saved curve, PWL_STORED_MAX bytes at most. */
void pwl_save(const struct pwl_curve *c, struct str *to);
/* -ERR_CORRUPT, -ERR_TOO_NEW: see stored.h. */
int pwl_load(struct error *e, const void *bytes, size_t length, struct pwl_curve *ret_curve);
