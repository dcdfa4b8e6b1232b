/*
 * The devices of this node: inventory, activity, health. Calls may block in the driver, so the
 * threads of sampler.h and watch.h make all calls after the inventory.
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
    int64_t taken_ms; /* boot clock, before the processes were listed; 0: never */
    size_t device_count;
    struct device_usage devices[NODE_DEVICES_MAX];
    /* The driver does not list the processes of this device, so that `processes` may be
     * incomplete. */
    bool is_unlisted[NODE_DEVICES_MAX];
    size_t process_count; /* over all devices; a process on two devices counts twice */
    struct gpu_process processes[GPU_PROCESSES_MAX];
};

/*
 * Opens NVML, or with `libraries` the emulated NVML of that directory, whose devices are stored in
 * the file `emulate`. Returns 0, or -ERR_NO_DEVICE with a sentence if there is no NVML or no
 * device.
 */
int gpu_open(struct error *e, const char *emulate, const char *libraries, struct gpu **ret);
void gpu_close(struct gpu *g);
/* Lists the devices. Returns their number, at most NODE_DEVICES_MAX. */
int gpu_inventory(struct gpu *g, struct device *devices);
/* One sample of a device. */
struct gpu_reading {
    bool valid; /* the device answered */
    bool lost;  /* the device has fallen off the bus for good */
    uint64_t memory_used_bytes, memory_bytes;
    uint64_t slowdown; /* reasons for slow clocks, as bits of NVML */
    double sm_percent; /* SM activity since the last sample; -1: unknown */
};
/* Reads one device. Activity needs samples that are more than 100 ms apart. */
void gpu_read(struct gpu *g, int device, struct gpu_reading *ret);
/* Waits for an Xid of the driver. Returns true if an Xid arrived within timeout_ms. */
bool gpu_wait_xid(struct gpu *g, int timeout_ms, int *ret_device, int *ret_xid);
/* Samples all devices; activity is measured since the last call, which must be more than 100 ms
 * ago. */
void gpu_sample(struct gpu *g, struct gpu_sample *ret);
/* Reads only the processes, at any time; the other fields of *ret stay unchanged. */
void gpu_sample_processes(struct gpu *g, struct gpu_sample *ret);
