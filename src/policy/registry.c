#include <string.h>

#include "policy/policy_internal.h"

static const struct policy *const policies[] = {&policy_firstfit, &policy_exclusive,
                                                &policy_random};

enum { POLICY_COUNT = sizeof policies / sizeof policies[0] };

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
