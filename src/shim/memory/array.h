/* What an array is made of. */
#pragma once
#include <stdint.h>

#include "shim/hook/cuda_types.h"

struct process;

/* Of an element of the array, at least; 1 if the driver does not know the array. */
uint64_t array_element_bytes(struct process *p, CUarray array);
