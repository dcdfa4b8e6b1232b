/*
 * The pattern of every call that allocates device memory: reserve, call the driver, return the
 * bytes that the driver refused, and record those that it granted. A call that frees takes the
 * record first, since the address may belong to another thread as soon as the driver has it; then
 * the hook calls the driver and returns the bytes to the quota.
 *
 * A reservation that does not fit is tried once more after the process's own pools have released
 * unused memory.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "shim/life/process.h"
#include "shim/memory/quota.h"

/* Reserves bytes. False: the call must fail with CUDA_ERROR_OUT_OF_MEMORY, which is counted. */
bool grants_reserve(struct process *p, int device, uint64_t bytes);
/* Changes a reservation from `from_bytes` to `to_bytes`. Returns false, with the whole reservation
 * returned, if the bytes do not fit. */
bool grants_adjust(struct process *p, int device, uint64_t from_bytes, uint64_t to_bytes);
/* Returns the reservation of a call that the driver refused, and counts an out-of-memory result. */
void grants_give_back(struct process *p, CUresult result, int device, uint64_t bytes);
/* Records the bytes that the driver granted as memory of the current context, or returns the bytes
 * that it refused. Returns the driver's result. */
CUresult grants_end(struct process *p, CUresult result, uint64_t address, int device,
                    uint64_t bytes);

/* Begins a free. Returns true if the address is known; the caller owns the record until
 * grants_end_free(). */
bool grants_begin_free(struct process *p, uint64_t address, struct allocation *ret_allocation);
void grants_end_free(struct process *p, const struct allocation *allocation, CUresult result);
/* Returns all bytes that a context held when it ended. */
void grants_forget_context(struct process *p, CUcontext context);
