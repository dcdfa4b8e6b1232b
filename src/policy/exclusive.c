#include "policy/policy_internal.h"

static size_t decide(const struct policy_snapshot *snapshot, struct policy_device *scratch,
                     struct policy_decision *out)
{
    return policy_decide_first(snapshot, scratch, 1, out);
}

const struct policy policy_exclusive = {
    .name = "exclusive",
    .summary = "one workload on each device",
    .one_a_device = true,
    .decide = decide,
};
