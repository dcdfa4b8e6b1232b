/* All policies, one in each file and listed in registry.c, and functions that some policies
 * share. */
#pragma once
#include "policy/fleet.h"
#include "policy/policy.h"

extern const struct policy policy_firstfit;
extern const struct policy policy_exclusive;
extern const struct policy policy_random;
extern const struct policy policy_gpumux;
extern const struct policy policy_iadeep;
extern const struct policy policy_mudi;
extern const struct policy policy_muxflow;
extern const struct policy policy_antman;
extern const struct policy policy_mps;
extern const struct policy policy_kernelest;
extern const struct policy policy_gslice;
extern const struct policy policy_oracle;

/* Returns the booked fraction of a device's memory, 0 to 1. */
static inline double policy_fullness(const struct policy_snapshot *snapshot,
                                     const struct fleet_class *c)
{
    const struct policy_device *d = &snapshot->devices[c->first];
    return d->memory_bytes ? (double)d->quota_bytes / (double)d->memory_bytes : 0;
}

enum { POLICY_ROUND_MS = 60 * 1000 };

/* gpumux.c: judge and match by the speed that a placement adds. */
int policy_round_gain(const struct policy_snapshot *snapshot, struct policy_round *ret_round);
void policy_judge_gain(const struct policy_snapshot *snapshot, const struct policy_waiting *waiting,
                       struct policy_candidate *candidate);
