/* Maps a device of the process to its index in the limits page. */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

#include "abi/cuda.h"

struct process;

enum {
    DEVICES_MAX = 64,     /* devices of a process, by the process's numbering */
    DEVICES_UNKNOWN = -1, /* the limits list devices, but not this device */
    /* No current context, or no such device: the driver's call reports the error. */
    DEVICES_NO_CONTEXT = -2
};

struct devices {
    _Atomic uint8_t places[DEVICES_MAX]; /* index + 1; 0: not found yet; 255: DEVICES_UNKNOWN */
};

/* Return the device's index in limits_page.devices and in the ledger, or a negative constant.
 * devices_current() returns the index of the current context's device. */
int devices_current(struct process *p);
int devices_index(struct process *p, CUdevice device);
/* Like devices_index(), for the device with this UUID. Also works before the driver has started. */
int devices_by_uuid(struct process *p, const uint8_t uuid[16]);
/* Like devices_index(), for the device of the stream's context; default streams belong to the
 * current context. */
int devices_of_stream(struct process *p, CUstream stream, CUdevice *ret_device);
