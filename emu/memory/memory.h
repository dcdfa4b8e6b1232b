/*
 * memory/ has the calls about memory, a file for each kind of it, and copies and fills. It uses
 * abi/, device/, driver/ and the captures of graph/.
 *
 * What the calls about memory share: the accounting of device memory, and taking an allocation out
 * of the table. Inside libcuda.so.1 only.
 */
#pragma once
#include "emu/driver/driver.h"

/* What an allocation costs: whole pages of 2 MiB as on the real device, but small ones only 4 KiB,
 * as if they shared such a page. */
uint64_t memory_charged(uint64_t bytes);
/* Accounts bytes to this process, which has a context on the device. CUDA_ERROR_OUT_OF_MEMORY. */
int memory_charge(struct visible_device *visible, uint64_t bytes);
void memory_discharge(struct visible_device *visible, uint64_t bytes);

/* memory.c: an allocation in a stream that captures becomes a node. */
int memory_capture_allocation(struct stream *stream, size_t bytes, uint64_t *ret_address);

/* pool.c. Under process.lock: an allocation of a pool goes, in the order of that stream of the
 * device, or at once. */
void pool_take_back(struct pool *pool, uint64_t charged_bytes, const struct stream *stream);
/* Under process.lock: the device's pools give back what they hold beyond their thresholds, as they
 * do whenever the program synchronizes. */
void pool_shrink_all(struct process *process, struct visible_device *visible);
/* The same, at the end of a wait for the context's work; returns the wait's result. */
int pool_synchronized(struct context *context, int result);
/* The pool that cuMemAllocAsync uses in a context. */
struct pool *pool_of_context(struct context *context);
int pool_allocate(struct context *context, struct pool *pool, size_t bytes, uint64_t *ret_address);

/* copy.c. Queues the time that moving `bytes` between host and device, or to or from the device's
 * memory takes. */
int copy_spend_host(struct stream *stream, uint64_t bytes, enum emu_direction direction);
int copy_spend_device(struct stream *stream, uint64_t bytes);
/* Copies in the default stream, and waits if the host takes part in it; copies in a stream. */
int copy_now(const struct cuda_copy_3d *copy);
int copy_later(const struct cuda_copy_3d *copy, struct stream *handle);
/* Under process.lock: host memory that holds what is at an address of the device, or of host memory
 * that the device may use. CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED. */
int copy_contents(struct process *process, uint64_t address, size_t bytes,
                  unsigned char **ret_contents);
/* host_memory.c. Under process.lock: the range is host memory that the driver knows. */
bool host_memory_holds(const struct process *process, uint64_t address, size_t bytes);
