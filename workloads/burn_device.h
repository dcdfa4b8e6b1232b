/*
 * The device of gpumux-burn: the CUDA driver, loaded at run time, one context, one stream and the
 * kernel gpumux_burn, on a real GPU and on an emulated GPU alike. All times are device times: on an
 * emulated device with a speed of S, a second of the host is S seconds of the device. GPUMUX_EMU or
 * GPUMUX_EMU_DEVICES in the environment marks a device as emulated, and GPUMUX_EMU_SPEED sets its
 * speed.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "workloads/burn_kernels.h"

struct burn_device;

/* Opens the first visible device and allocates `memory_bytes` of device memory. The caller owns the
 * device and frees it with burn_device_close(). Errors: -ERR_NO_DEVICE, -ERR_NO_MEMORY,
 * -ERR_UNSUPPORTED. */
int burn_device_open(struct error *e, size_t memory_bytes, struct burn_device **ret_device);
void burn_device_close(struct burn_device *device);
/* Call instead of burn_device_close() just before the process ends. Frees the memory of the
 * process, and leaves outstanding work on the device. */
void burn_device_abandon(struct burn_device *device);
double burn_device_speed(const struct burn_device *device);

/* Queues a kernel, in waves of blocks of kernel->block_ms. Returns -ERR_IO if the driver returned
 * an error. */
int burn_device_launch(struct error *e, struct burn_device *device,
                       const struct burn_kernel *kernel);
/* Creates a graph of the kernels, in their order, for burn_device_launch_graph(). A device has one
 * graph: the next burn_device_make_graph() replaces the graph. */
int burn_device_make_graph(struct error *e, struct burn_device *device,
                           const struct burn_kernels *kernels);
int burn_device_launch_graph(struct error *e, struct burn_device *device);
/* A mark is a point in the queue; burn_device_elapsed_ms() compares the times of two marks. */
enum { BURN_MARKS = 256 };
int burn_device_mark(struct error *e, struct burn_device *device, unsigned mark);
/* Waits until the device has reached the mark. */
int burn_device_wait(struct error *e, struct burn_device *device, unsigned mark);
bool burn_device_is_reached(struct burn_device *device, unsigned mark);
/* Sets *ret_ms to the device time between two marks that the device has reached. */
int burn_device_elapsed_ms(struct error *e, struct burn_device *device, unsigned from, unsigned to,
                           double *ret_ms);
