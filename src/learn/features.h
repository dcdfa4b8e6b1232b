/*
 * A task and its neighbours as one vector of numbers, the same for any number of neighbours in any
 * order: its own features, the sum of the neighbours', the largest of the neighbours', and for SM,
 * DRAM and PCIe its own times the sum.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum {
#define FEATURE(name, field, transform, what) FEATURE_##name,
#include "learn/features.def"
#undef FEATURE
    FEATURES_OWN,
    FEATURES_PRODUCTS = 3,
    FEATURES_ALL = 3 * FEATURES_OWN + FEATURES_PRODUCTS,
    FEATURES_NEIGHBOURS_MAX = 16,
};

/* One task, measured alone where possible; 0 what is not known. Finite, and not negative but for
 * batch_log2. */
struct task_profile {
    uint64_t family; /* equal in the runs of one program, at any batch size; 0: not known */
#define FEATURE(name, field, transform, what) double field; /* what */
#include "learn/features.def"
#undef FEATURE
};

/* At most FEATURES_NEIGHBOURS_MAX neighbours. */
void features_combine(const struct task_profile *own, const struct task_profile *neighbours,
                      size_t neighbour_count, double ret_features[FEATURES_ALL]);
/* The interference to expect when nothing was ever measured: max(1, ΣSM, ΣDRAM) of all the tasks
 * in the vector. Not logarithmic. */
double features_cold_start(const double features[FEATURES_ALL]);
