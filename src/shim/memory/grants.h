/*
 * The steps of every hook that allocates device memory. The hook reserves the bytes, calls the
 * driver, and records the granted bytes or returns the refused bytes to the quota. A hook that
 * frees memory takes the memory's record first, since the driver may give the address to another
 * thread at once. Then the hook calls the driver and returns the bytes to the quota.
 *
 * If a reservation does not fit, the process's own pools release unused memory, and the shim tries
 * once more.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "shim/life/process.h"
#include "shim/memory/quota.h"

/* Reserves bytes. Returns false, and counts an out-of-memory result, if the call must fail with
 * CUDA_ERROR_OUT_OF_MEMORY. */
bool grants_reserve(struct process *p, int device, uint64_t bytes);
/* Changes a reservation from `from_bytes` to `to_bytes`. If the bytes do not fit, releases the
 * whole reservation and returns false. */
bool grants_adjust(struct process *p, int device, uint64_t from_bytes, uint64_t to_bytes);
/* Releases the reservation of a call that the driver refused, and counts an out-of-memory
 * result. */
void grants_give_back(struct process *p, CUresult result, int device, uint64_t bytes);
/* Records the granted bytes as memory of the current context, or releases the refused bytes.
 * Returns the driver's result. */
CUresult grants_end(struct process *p, CUresult result, uint64_t address, int device,
                    uint64_t bytes);

/* Takes the record of an address before a free. Returns true if the address has a record; the
 * caller then owns the record until grants_end_free(). */
bool grants_begin_free(struct process *p, uint64_t address, struct allocation *ret_allocation);
void grants_end_free(struct process *p, const struct allocation *allocation, CUresult result);
/* Releases all bytes of a context that has ended. */
void grants_forget_context(struct process *p, CUcontext context);
