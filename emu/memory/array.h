/* Arrays: device memory that only copies reach, by rows and slices. Inside libcuda.so.1 only. */
#pragma once
#include "emu/driver/driver.h"

/* A part of an array. */
struct array_box {
    size_t x_bytes, y, z;
    size_t width_bytes, height, depth;
};

/* Under process.lock: where the part begins, and how far rows and slices are apart.
 * CUDA_ERROR_INVALID_VALUE when it is not inside the array, CUDA_ERROR_INVALID_HANDLE. */
int array_find(struct array *array, const struct array_box *box, unsigned char **ret_at,
               size_t *ret_row_bytes, size_t *ret_slice_bytes);
/* Under process.lock: the arrays of a context that ends. */
void array_discard_all(struct context *context);
