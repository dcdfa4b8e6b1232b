/*
 * The device as gpumux-burn uses it: the CUDA driver, loaded at run time, one context, one stream
 * and the kernel gpumux_burn. The same on a real GPU and on an emulated one. Times are the
 * device's: on an emulated device that runs `speed` times as fast as the clock on the wall, a
 * second of the host is `speed` seconds of the device. Emulated devices are recognised by
 * GPUMUX_EMU or GPUMUX_EMU_DEVICES in the environment, and GPUMUX_EMU_SPEED is their speed.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "workloads/burn_kernels.h"

struct burn_device;

/* Opens the first visible device and takes `memory_bytes` of its memory. The caller owns what it
 * gets and ends it with burn_device_close(). -ERR_NO_DEVICE, -ERR_NO_MEMORY, -ERR_UNSUPPORTED. */
int burn_device_open(struct error *e, size_t memory_bytes, struct burn_device **ret_device);
void burn_device_close(struct burn_device *device);
/* In its place when the process ends next: the device is asked nothing, whatever it has
 * still to do. */
void burn_device_abandon(struct burn_device *device);
double burn_device_speed(const struct burn_device *device);

/* Queues a kernel, in as many waves of blocks as it has. -ERR_IO when the driver refuses. */
int burn_device_launch(struct error *e, struct burn_device *device,
                       const struct burn_kernel *kernel);
/* Makes a graph of the kernels, in their order, and queues it. One graph a device: made anew by the
 * next burn_device_make_graph(). */
int burn_device_make_graph(struct error *e, struct burn_device *device,
                           const struct burn_kernels *kernels);
int burn_device_launch_graph(struct error *e, struct burn_device *device);
/* Marks: points in the queue whose times can be compared. */
enum { BURN_MARKS = 256 };
int burn_device_mark(struct error *e, struct burn_device *device, unsigned mark);
/* Waits for a mark. */
int burn_device_wait(struct error *e, struct burn_device *device, unsigned mark);
bool burn_device_is_reached(struct burn_device *device, unsigned mark);
/* Device time between two marks that were reached. */
int burn_device_elapsed_ms(struct error *e, struct burn_device *device, unsigned from, unsigned to,
                           double *ret_ms);
