/* The process's contexts, as far as the quota needs them (context.c). */
#pragma once
#include <stdatomic.h>

#include "abi/page.h"
#include "abi/cuda.h"
#include "shim/sys/lock.h"

/* Arrays are indexed as in devices.h. All zero: no contexts. */
struct contexts {
    struct lock locks[PAGE_DEVICES_MAX]; /* protects the creation of a context on the device */
    _Atomic(CUcontext) primaries[PAGE_DEVICES_MAX];
    _Atomic uint32_t made; /* number of contexts ever created, including ended contexts */
};
