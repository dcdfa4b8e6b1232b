/*
 * memory/ implements the calls for memory, copies and fills, with a file for each kind of memory.
 * memory/ uses abi/, device/, driver/ and the captures of graph/.
 *
 * This header declares the functions that these calls share: the accounting of device memory,
 * pools, copies and host memory. Internal to libcuda.so.1.
 *
 * This folder contains the emulated driver's calls for memory. Files of the folder emu/memory may
 * include base, emu/device, emu/driver, emu/graph.
 */
#pragma once
#include "emu/driver/driver.h"

/* Returns the device memory that an allocation takes: whole pages of 2 MiB as on the real device,
 * or of 4 KiB for small allocations, as if several of them shared a larger page. */
uint64_t memory_charged(uint64_t bytes);
/* Charges bytes to this process, which has a context on the device. Error:
 * CUDA_ERROR_OUT_OF_MEMORY. */
int memory_charge(struct visible_device *visible, uint64_t bytes);
/* Reverses memory_charge(). */
void memory_discharge(struct visible_device *visible, uint64_t bytes);

/* memory.c: adds an allocation in a capturing stream to the capture, as a node. */
int memory_capture_allocation(struct stream *stream, size_t bytes, uint64_t *ret_address);

/* pool.c. Returns an allocation's bytes to its pool, in the order of the stream or, if `stream` is
 * NULL, at once. Call under process.lock. */
void pool_take_back(struct pool *pool, uint64_t charged_bytes, const struct stream *stream);
/* Makes the device's pools release memory beyond their thresholds, as at every synchronisation of
 * the program. Call under process.lock. */
void pool_shrink_all(struct process *process, struct visible_device *visible);
/* Call after a wait for the context's work, with the wait's result. If the wait succeeded, shrinks
 * pools like pool_shrink_all(). Returns `result`. */
int pool_synchronized(struct context *context, int result);
/* Returns the pool that cuMemAllocAsync uses in a context. */
struct pool *pool_of_context(struct context *context);
int pool_allocate(struct context *context, struct pool *pool, size_t bytes, uint64_t *ret_address);

/* copy.c. Enqueues an operation that lasts as long as a copy of `bytes` between host and device. */
int copy_spend_host(struct stream *stream, uint64_t bytes, enum emu_direction direction);
/* Enqueues an operation that lasts as long as a copy of `bytes` within device memory. */
int copy_spend_device(struct stream *stream, uint64_t bytes);
/* Returns the parameters of a copy of one row, without addresses. */
CUDA_MEMCPY3D copy_row(int to_type, int from_type, size_t bytes);
/* Copies in the default stream; a copy to or from the host is complete on return. */
int copy_now(const CUDA_MEMCPY3D *copy);
/* Copies in the given stream. */
int copy_later(const CUDA_MEMCPY3D *copy, struct stream *handle);
/* Finds the contents of an address of the device, or of host memory that the device can access.
 * Call under process.lock. Errors: CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED. */
int copy_contents(struct process *process, uint64_t address, size_t bytes,
                  unsigned char **ret_contents);
/* host_memory.c. Returns whether the driver knows the range as host memory. Call under
 * process.lock. */
bool host_memory_holds(const struct process *process, uint64_t address, size_t bytes);
