/*
 * memory/ has the calls about memory, a file for each kind of memory, and copies and fills. memory/
 * uses abi/, device/, driver/ and the captures of graph/.
 *
 * This header is shared by these calls: the accounting of device memory, pools, copies and host
 * memory. Internal to libcuda.so.1.
 */
#pragma once
#include "emu/driver/driver.h"

/* Returns the device memory that an allocation takes: whole pages of 2 MiB as on the real device,
 * and of 4 KiB for small allocations, as if they shared a larger page. */
uint64_t memory_charged(uint64_t bytes);
/* Charges bytes to this process, which has a context on the device, and discharges them. Error:
 * CUDA_ERROR_OUT_OF_MEMORY. */
int memory_charge(struct visible_device *visible, uint64_t bytes);
void memory_discharge(struct visible_device *visible, uint64_t bytes);

/* memory.c: captures an allocation in a capturing stream as a node. */
int memory_capture_allocation(struct stream *stream, size_t bytes, uint64_t *ret_address);

/* pool.c. Returns an allocation's bytes to its pool, in the order of that stream or, if NULL, at
 * once. Call under process.lock. */
void pool_take_back(struct pool *pool, uint64_t charged_bytes, const struct stream *stream);
/* Makes the device's pools release memory beyond their thresholds, as pools do whenever the program
 * synchronises. Call under process.lock. */
void pool_shrink_all(struct process *process, struct visible_device *visible);
/* Shrinks pools like pool_shrink_all(), after a wait for the context's work. Returns the wait's
 * result. */
int pool_synchronized(struct context *context, int result);
/* Returns the pool that cuMemAllocAsync uses in a context. */
struct pool *pool_of_context(struct context *context);
int pool_allocate(struct context *context, struct pool *pool, size_t bytes, uint64_t *ret_address);

/* copy.c. Queue the time that `bytes` take between host and device, or in the device's memory. */
int copy_spend_host(struct stream *stream, uint64_t bytes, enum emu_direction direction);
int copy_spend_device(struct stream *stream, uint64_t bytes);
/* Copy in the default stream, waiting if the host takes part, and in a given stream. */
int copy_now(const struct cuda_copy_3d *copy);
int copy_later(const struct cuda_copy_3d *copy, struct stream *handle);
/* Finds the contents of an address of the device, or of host memory that the device can access.
 * Call under process.lock. Errors: CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED. */
int copy_contents(struct process *process, uint64_t address, size_t bytes,
                  unsigned char **ret_contents);
/* host_memory.c. Returns whether the driver knows the range as host memory. Call under
 * process.lock. */
bool host_memory_holds(const struct process *process, uint64_t address, size_t bytes);
