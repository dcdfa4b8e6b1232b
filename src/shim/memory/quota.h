/*
 * memory/ keeps device memory within the quota. memory/ contains the ledger, and the hooks of every
 * call that allocates, frees or reports device memory, with a file for each kind of memory. memory/
 * uses sys/, hook/ and life/.
 *
 * This header declares the memory quota of an attempt, over all its processes. The quota needs no
 * lock, and no total that a killed process could leave wrong: each process writes only its own slot
 * of the ledger.
 *
 * To reserve bytes, a process adds the bytes to its own slot and then sums all slots; if the sum
 * exceeds the quota, the process subtracts the bytes again. All processes see additions and sums in
 * one order (seq_cst). If two processes race, at least one process sees the other's addition, so
 * the attempt never exceeds the quota. If both processes see the other's addition, both fail
 * although one reservation would fit; a reservation is therefore tried twice.
 *
 * `device` is an index of devices.h in every call; a negative index counts nothing.
 *
 * This folder contains the memory quota. Files of the folder shim/memory may include abi, shim/sys,
 * shim/hook, shim/life.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "shim/life/client.h"

/* Returns the device memory that the driver takes for an allocation: whole pieces of 4 KiB below 1
 * MiB, and of 2 MiB otherwise. */
uint64_t quota_charged(uint64_t bytes);

/* Reserves bytes for the process. Returns true on success; the caller releases the bytes with
 * quota_release() when the memory is freed. For DEVICES_UNKNOWN, returns true only if the limits
 * list no devices. */
bool quota_reserve(const struct client *client, int device, uint64_t bytes);
/* Counts bytes that the driver has already granted, even if they exceed the quota. */
void quota_force(const struct client *client, int device, uint64_t bytes);
/* Releases bytes of the process. The count never falls below 0. */
void quota_release(const struct client *client, int device, uint64_t bytes);

/* Call before and after the creation of a context, one thread at a time for each device. `is_made`:
 * the context was created. A context counts with the size in the limits page until the agent has
 * measured the context. */
bool quota_begin_context(const struct client *client, int device);
void quota_end_context(const struct client *client, int device, bool is_made);
/* Notes that one of the process's contexts has ended. */
void quota_forget_context(const struct client *client, int device);

/* Returns the bytes of the whole attempt on the device, including the measured overhead. */
uint64_t quota_held(const struct client *client, int device);
/* Returns this process's part of quota_held(). */
uint64_t quota_held_by_process(const struct client *client, int device);
/* The memory that the shim reports to a program. `left` is 0 if `held` exceeds `limit`. */
struct quota_view {
    uint64_t limit, held, left; /* all 0: no limit */
};
struct quota_view quota_view(const struct client *client, int device);
/* Returns the limit; 0: none. */
uint64_t quota_limit(const struct client *client, int device);
