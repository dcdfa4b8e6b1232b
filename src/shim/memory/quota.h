/*
 * memory/ keeps device memory within the quota: the ledger, and the hooks of every call that
 * allocates, frees or reports device memory, a file for each kind of memory. memory/ uses sys/,
 * hook/ and life/.
 *
 * This header has the memory quota of an attempt, over all its processes. It needs no lock, and no
 * total that a killed process could leave wrong: each process writes only its own slot of the
 * ledger.
 *
 * A reservation adds to the process's own slot and then sums all slots; if the sum exceeds the
 * quota, the reservation subtracts again. Additions and sums are in one order for all processes
 * (seq_cst), so of two processes that race at least one sees the other's addition: the attempt
 * never holds more than the quota. Both may see the other's addition and fail although one would
 * fit; each therefore tries twice.
 *
 * `device` is an index of devices.h in every call; nothing is counted for a negative index.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "shim/life/client.h"

/* Returns the device memory that the driver takes for an allocation: whole pieces of 4 KiB below 1
 * MiB, and of 2 MiB from there on. */
uint64_t quota_charged(uint64_t bytes);

/* Reserves bytes for the process. Returns true on success; the caller returns the bytes with
 * quota_release() when they are freed. DEVICES_UNKNOWN succeeds only in an attempt whose limits
 * name no devices. */
bool quota_reserve(const struct client *client, int device, uint64_t bytes);
/* Counts bytes that the driver has already granted, even beyond the quota. */
void quota_force(const struct client *client, int device, uint64_t bytes);
/* Returns bytes to the quota. The count never falls below 0. */
void quota_release(const struct client *client, int device, uint64_t bytes);

/* Call before and after a context is made, one thread at a time for each device. `is_made`: the
 * context was made. It counts with the size in the limits page until the agent has measured it. */
bool quota_begin_context(const struct client *client, int device);
void quota_end_context(const struct client *client, int device, bool is_made);
/* Notes that one of the process's contexts has ended. */
void quota_forget_context(const struct client *client, int device);

/* Returns the bytes that the whole attempt holds on the device, including the measured overhead. */
uint64_t quota_held(const struct client *client, int device);
/* Returns this process's part of quota_held(). */
uint64_t quota_held_by_process(const struct client *client, int device);
/* The memory that a program is shown. `left` is 0 if the attempt holds more than the limit. */
struct quota_view {
    uint64_t limit, held, left; /* all 0: no limit */
};
struct quota_view quota_view(const struct client *client, int device);
/* Returns the limit; 0: none. */
uint64_t quota_limit(const struct client *client, int device);
