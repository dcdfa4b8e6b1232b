/* Arrays: device memory in rows and slices, which only copies can access. Internal to
 * libcuda.so.1. */
#pragma once
#include "emu/driver/driver.h"

/* A part of an array: its origin, and its size. */
struct array_box {
    size_t x_bytes, y, z;
    size_t width_bytes, height, depth;
};

/* Finds the start of a part of the array, and the distances between rows and between slices. Call
 * under process.lock. Errors: CUDA_ERROR_INVALID_VALUE (not inside the array),
 * CUDA_ERROR_INVALID_HANDLE. */
int array_find(struct array *array, const struct array_box *box, unsigned char **ret_at,
               size_t *ret_row_bytes, size_t *ret_slice_bytes);
/* Frees the arrays of a context that ends. Call under process.lock. */
void array_discard_all(struct context *context);
