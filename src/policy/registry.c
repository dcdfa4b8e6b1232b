#include <string.h>

#include "policy/policy_internal.h"

static const struct policy *const policies[] = {
    &policy_gpumux,   &policy_iadeep,    &policy_mudi,   &policy_muxflow,
    &policy_firstfit, &policy_exclusive, &policy_random, &policy_antman,
    &policy_mps,      &policy_kernelest, &policy_gslice, &policy_oracle,
};

enum { POLICY_COUNT = sizeof policies / sizeof policies[0] };

const char *policy_part_name(enum policy_part part)
{
#define X(name, text) text,
    static const char *const names[] = {POLICY_PARTS(X)};
#undef X
    return names[part];
}

int policy_part_parse(const char *text, enum policy_part *ret_part)
{
    for (int p = 0; p < POLICY_PART_END; p++)
        if (strcmp(policy_part_name((enum policy_part)p), text) == 0) {
            *ret_part = (enum policy_part)p;
            return 0;
        }
    return -ERR_INVALID;
}

bool policy_has_part(const struct policy *policy, enum policy_part part)
{
    switch (part) {
    case POLICY_PART_TUNER:
        return policy->tunes;
    case POLICY_PART_PREDICTOR:
        /* The simple baselines judge by the workloads' properties alone. */
        return policy->judge && (policy->waits || policy->round || policy->shares);
    case POLICY_PART_OPTIMIZER:
        return policy->waits;
    case POLICY_PART_MATCHING:
        return policy->round != NULL;
    case POLICY_PART_GATE:
        return policy->gates;
    case POLICY_PART_END:
        break;
    }
    return false;
}

const struct policy *policy_at(size_t index)
{
    return index < POLICY_COUNT ? policies[index] : NULL;
}

const struct policy *policy_find(const char *name)
{
    for (size_t i = 0; i < POLICY_COUNT; i++)
        if (strcmp(policies[i]->name, name) == 0)
            return policies[i];
    return NULL;
}
