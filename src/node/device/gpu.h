/*
 * The devices of this node: what there is, and what they do. Calls may block in the driver, so
 * after the inventory a thread of the sampler's makes them.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "model/node.h"

struct gpu;

enum { GPU_PROCESSES_MAX = 1024 };

struct gpu_process {
    pid_t pid;
    int device; /* index in gpu_sample.devices */
    uint64_t memory_used_bytes;
};

struct gpu_sample {
    int64_t taken_ms; /* boot clock, before the processes were asked for; 0: never */
    size_t device_count;
    struct device_usage devices[NODE_DEVICES_MAX];
    /* The driver does not say which processes use the device, or what they hold: who is not below may still be there. */
    bool is_unlisted[NODE_DEVICES_MAX];
    size_t process_count; /* over all devices; a process on two of them is there twice */
    struct gpu_process processes[GPU_PROCESSES_MAX];
};

/*
 * Opens NVML, or with `libraries` the emulated one of that directory, whose devices live in the
 * file `emulate`. -ERR_NO_DEVICE, with a sentence, where there is none or it finds no device.
 */
int gpu_open(struct error *e, const char *emulate, const char *libraries, struct gpu **ret);
void gpu_close(struct gpu *g);
/* Fills devices; returns how many (at most NODE_DEVICES_MAX). */
int gpu_inventory(struct gpu *g, struct device *devices);
/* How a device is, in one look. */
struct gpu_reading {
    bool valid; /* it answered */
    bool lost;  /* it did not, and never will: it has fallen off the bus */
    uint64_t memory_used_bytes, memory_bytes;
    uint64_t slowdown; /* reasons for slow clocks, bits as NVML has them */
    double sm_percent; /* SM activity since the last look; -1: not known */
};
/* Looks must be more than 100 ms apart to find a new activity. */
void gpu_read(struct gpu *g, int device, struct gpu_reading *ret);
/* Waits for the driver to tell of an Xid, at most that long. True: there was one. */
bool gpu_wait_xid(struct gpu *g, int timeout_ms, int *ret_device, int *ret_xid);
/* What happened since the last call, which must be more than 100 ms ago. */
void gpu_sample(struct gpu *g, struct gpu_sample *ret);
/* The processes alone, at any time; the rest of *ret stays. */
void gpu_sample_processes(struct gpu *g, struct gpu_sample *ret);
