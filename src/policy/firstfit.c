#include "policy/policy_internal.h"

static size_t decide(const struct policy_snapshot *snapshot, struct policy_device *scratch,
                     struct policy_decision *out)
{
    return policy_decide_first(snapshot, scratch, snapshot->max_neighbours, out);
}

const struct policy policy_firstfit = {
    .name = "firstfit",
    .summary = "the first device with enough memory, share and room for a neighbour",
    .decide = decide,
};
