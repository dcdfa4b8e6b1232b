/*
 * Feature vector of a task and its neighbours, independent of the number and order of the
 * neighbours: the task's own features, the sum over the neighbours, the maximum over the
 * neighbours, and for SM, DRAM and PCIe the product of the task's feature and that sum.
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

/* Profile of one task, measured alone where possible; 0: unknown. All values are finite, and
 * non-negative except batch_log2. */
struct task_profile {
    uint64_t family; /* same for all runs of one program, at any batch size; 0: unknown */
#define FEATURE(name, field, transform, what) double field;
#include "learn/features.def"
#undef FEATURE
};

/* Accepts at most FEATURES_NEIGHBOURS_MAX neighbours. */
void features_combine(const struct task_profile *own, const struct task_profile *neighbours,
                      size_t neighbour_count, double ret_features[FEATURES_ALL]);
/* Returns the expected interference without any measurement, not as a logarithm: max(1, ΣSM, ΣDRAM)
 * over all tasks in the vector. */
double features_cold_start(const double features[FEATURES_ALL]);
