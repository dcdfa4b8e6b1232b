/*
 * oracle: the search of `gpumux`, for a simulator that passes in true speeds and durations as the
 * forecast. A strong reference, but no proof of an optimum: others are compared with the better of
 * its runs with and without matching.
 */
#include "policy/policy_internal.h"

const struct policy policy_oracle = {
    .name = "oracle",
    .summary = "as gpumux, but with the true speeds and durations; for simulations",
    .needs_truth = true,
    .shortest_first = true,
    .waits = true,
    .by_end_times = true,
    .round_ms = POLICY_ROUND_MS,
    .tunes = true,
    .gates = true,
    .shares = true,
    .judge = policy_judge_gain,
    .round = policy_round_gain,
};
