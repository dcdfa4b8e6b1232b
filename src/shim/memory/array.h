/* The size of an array's elements. */
#pragma once
#include <stdint.h>

#include "abi/cuda.h"

struct process;

/* Returns the size of an element or a lower bound, in bytes; 1 if the driver does not know the
 * array. */
uint64_t array_element_bytes(struct process *p, CUarray array);
