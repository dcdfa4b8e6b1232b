/*
 * The pattern of every call that takes device memory: reserve, call the driver, give back what it
 * refused; record what it granted. Of one that frees: take the record first (the address may be
 * another thread's as soon as the driver has it), call the driver, then give back.
 *
 * What fails for want of quota is tried once more after the process's own pools have let go of what
 * they only keep.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "shim/life/process.h"
#include "shim/memory/quota.h"

/* Reserves. False: the answer is CUDA_ERROR_OUT_OF_MEMORY, and is counted. */
bool grants_reserve(struct process *p, int device, uint64_t bytes);
/* Makes `from_bytes` that are reserved `to_bytes`. False, with all given back: they do not fit. */
bool grants_adjust(struct process *p, int device, uint64_t from_bytes, uint64_t to_bytes);
/* Gives back what was reserved for a call that the driver refused, and counts an out-of-memory
 * answer. */
void grants_give_back(struct process *p, CUresult result, int device, uint64_t bytes);
/* Records what the driver granted, as memory of the thread's context, or gives back what it
 * refused. Returns the driver's result. */
CUresult grants_end(struct process *p, CUresult result, uint64_t address, int device,
                    uint64_t bytes);

/* A free: true if it is known, and then the record is the caller's until grants_end_free(). */
bool grants_begin_free(struct process *p, uint64_t address, struct allocation *ret_allocation);
void grants_end_free(struct process *p, const struct allocation *allocation, CUresult result);
/* Gives back all that went with a context. */
void grants_forget_context(struct process *p, CUcontext context);
