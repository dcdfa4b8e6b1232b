/*
 * Rounds of matching (MuxFlow): many waiting tasks, and running ones that can move, are given to
 * many devices at once so that the sum of the weights is largest; one new task a device.
 *
 *   weight = speed gained (its own, less what its neighbours lose)
 *            + min(age / 1 h, 0.2)
 *            − [it moves] · restart / min(R, 600 s)
 *
 * An edge only where the weight is positive and the policy does not object; a running task always
 * has its edge to stay. Exact up to ROUNDS_DENSE_MAX rows and columns; above that each row has
 * edges to its ROUNDS_BEST best devices, not the same for equal rows, and to ROUNDS_RANDOM others
 * by lot, and the result is within ROUNDS_GAP of the best.
 */
#pragma once
#include "policy/fleet.h"

enum {
    ROUNDS_DENSE_MAX = 2000,
    ROUNDS_BEST = 32,
    ROUNDS_RANDOM = 32,
    ROUNDS_GROUPS_MAX = 512, /* of rows that are alike; what is beyond waits for the next round */
    ROUNDS_MOVERS_MAX = 256,
    ROUNDS_MOVER_GROUPS_MAX = 64, /* that are only for running tasks */
    ROUNDS_RESTART_MS = 30 * 1000,
};
#define ROUNDS_GAP 0.01

/* `policy` judges the edges. Moves only if `moves`. -ERR_NO_MEMORY. */
int policy_match_round(const struct policy *policy, const struct policy_snapshot *snapshot,
                       bool moves, struct policy_round *ret_round);
