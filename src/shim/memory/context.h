/* The contexts of the process, as far as the quota must know them (context.c). */
#pragma once
#include <stdatomic.h>

#include "abi/page.h"
#include "shim/hook/cuda_types.h"
#include "shim/sys/lock.h"

/* By index of devices.h. All zero: none. */
struct contexts {
    struct lock locks[PAGE_DEVICES_MAX]; /* one is made at a time */
    _Atomic(CUcontext) primaries[PAGE_DEVICES_MAX];
    _Atomic uint32_t made; /* in all, also those that have ended */
};
