/*
 * Rounds of matching (MuxFlow): assigns many waiting tasks, and running tasks that can move, to
 * many devices at once, such that the sum of the weights is maximal. A device receives at most one
 * new task per round.
 *
 *   weight = speed gained (the task's own, minus the loss of its neighbours)
 *            + min(age / 1 h, 0.2)
 *            − [running task] · restart / min(R, 600 s)
 *
 * R is the remaining time of the running task. An edge exists where the weight is positive and the
 * policy has no objection. A running task always has an edge to its present device. Up to
 * ROUNDS_DENSE_MAX rows and columns the result is exact. For larger problems, each row has edges to
 * ROUNDS_BEST of its best devices, rotated among equal rows, and to ROUNDS_RANDOM random devices;
 * the result is then within ROUNDS_GAP of the optimum of these edges.
 */
#pragma once
#include "policy/fleet.h"

enum {
    ROUNDS_DENSE_MAX = 2000,
    ROUNDS_BEST = 32,
    ROUNDS_RANDOM = 32,
    ROUNDS_GROUPS_MAX = 512, /* groups of equal rows; further rows wait for the next round */
    ROUNDS_MOVERS_MAX = 256,
    ROUNDS_MOVER_GROUPS_MAX = 64, /* groups that consist of running tasks only */
    ROUNDS_RESTART_MS = 30 * 1000,
};
#define ROUNDS_GAP 0.01

/* `policy` judges the edges. Running tasks move only if `moves` is true. Returns -ERR_NO_MEMORY. */
int policy_match_round(const struct policy *policy, const struct policy_snapshot *snapshot,
                       bool moves, struct policy_round *ret_round);
