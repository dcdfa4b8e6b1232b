#include "learn/features.h"

#include <assert.h>
#include <math.h>

static const int product_of[FEATURES_PRODUCTS] = {FEATURE_SM, FEATURE_DRAM, FEATURE_PCIE};

static inline double transform_PLAIN(double value)
{
    return value;
}

static inline double transform_LOG(double value)
{
    return log1p(value);
}

static void transform(const struct task_profile *task, double ret[FEATURES_OWN])
{
#define FEATURE(name, field, transform, what)                                                      \
    ret[FEATURE_##name] = transform_##transform(task->field);
#include "learn/features.def"
#undef FEATURE
}

void features_combine(const struct task_profile *own, const struct task_profile *neighbours,
                      size_t neighbour_count, double ret_features[FEATURES_ALL])
{
    assert(neighbour_count <= FEATURES_NEIGHBOURS_MAX);
    double *sum = ret_features + FEATURES_OWN, *largest = sum + FEATURES_OWN;
    double *product = largest + FEATURES_OWN;
    transform(own, ret_features);
    for (int i = 0; i < FEATURES_OWN; i++)
        sum[i] = largest[i] = 0;
    for (size_t k = 0; k < neighbour_count; k++) {
        double one[FEATURES_OWN];
        transform(&neighbours[k], one);
        for (int i = 0; i < FEATURES_OWN; i++) {
            sum[i] += one[i];
            largest[i] = k == 0 ? one[i] : fmax(largest[i], one[i]);
        }
    }
    for (int i = 0; i < FEATURES_PRODUCTS; i++)
        product[i] = ret_features[product_of[i]] * sum[product_of[i]];
}

double features_cold_start(const double features[FEATURES_ALL])
{
    double sm = features[FEATURE_SM] + features[FEATURES_OWN + FEATURE_SM];
    double dram = features[FEATURE_DRAM] + features[FEATURES_OWN + FEATURE_DRAM];
    return fmax(1, fmax(sm, dram));
}
