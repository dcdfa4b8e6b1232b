/* Order statistics. Sorts `values` (count > 0, no NaN) in place. */
#pragma once
#include <stddef.h>

double order_median(double *values, size_t count);
