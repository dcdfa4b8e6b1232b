/* Which device of its limits a device of the process is. */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

#include "shim/hook/cuda_types.h"

struct process;

enum {
    DEVICES_MAX = 64,     /* of a process, by its own numbers */
    DEVICES_UNKNOWN = -1, /* limits name devices, and this is none of them */
    DEVICES_NO_CONTEXT =
        -2 /* the thread has none, or it is no device: the call will say so itself */
};

struct devices {
    _Atomic uint8_t places[DEVICES_MAX]; /* index + 1; 0: not looked up yet; 255: unknown */
};

/* The index in limits_page.devices and in the ledger; or a negative constant. */
int devices_current(struct process *p);
int devices_index(struct process *p, CUdevice device);
/* The same by its UUID, also before the driver has started. */
int devices_by_uuid(struct process *p, const uint8_t uuid[16]);
/* Of the stream's context; of the thread's for the streams that are no pointers. */
int devices_of_stream(struct process *p, CUstream stream, CUdevice *ret_device);
