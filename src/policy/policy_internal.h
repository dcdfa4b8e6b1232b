/* Every policy, one a file; registry.c lists them. */
#pragma once
#include "policy/policy.h"

extern const struct policy policy_firstfit;
extern const struct policy policy_exclusive;
extern const struct policy policy_random;
