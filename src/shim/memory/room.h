/*
 * A service's allocation on a full device waits for memory that tasks can free, instead of failing.
 * The shim writes the missing bytes to the status page. The agent makes tasks give way (swap.h),
 * and answers in the limits page; the shim then repeats the allocation. The wait ends after
 * room_wait_ms of the limits page, or when no task can free any more.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "abi/cuda.h"
#include "shim/life/process.h"

struct room_wait {
    uint64_t begun_ns;      /* 0: the call has not failed yet */
    uint64_t lacking_bytes; /* part of the status page's sum */
    uint32_t tries;         /* repeated calls although the driver reports enough free memory */
};

bool room_await_slowly(struct process *p, CUresult result, int device, uint64_t bytes,
                       struct room_wait *wait);
/* Returns whether to repeat a call that allocates so many bytes and returned this result. Call
 * after every call, also after the last. *wait is all zero at first. */
static inline bool room_await(struct process *p, CUresult result, int device, uint64_t bytes,
                              struct room_wait *wait)
{
    return __builtin_expect(result == CUDA_ERROR_OUT_OF_MEMORY || wait->begun_ns != 0, 0) &&
           room_await_slowly(p, result, device, bytes, wait);
}
