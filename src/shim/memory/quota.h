/*
 * memory/ keeps device memory within the quota: the ledger, and the hooks of every call that takes,
 * frees or shows device memory, by kinds of it. It uses sys/, hook/ and life/.
 *
 * The memory quota of an attempt over all its processes, without a lock and without a total that a
 * killed process could leave wrong: each process has a slot in the ledger, and only its own.
 *
 * To reserve is to add to the own slot, then to sum all slots: if the sum is above the quota, the
 * addition is taken back. Additions and sums are in one order for all (seq_cst), so of two
 * processes that race at least one sees the other's addition: never more than the quota is granted.
 * Both may see it and fail where one would fit; so it is tried twice.
 *
 * `device` is an index of devices.h everywhere; with a negative one nothing is counted.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "shim/life/client.h"

/* What the driver takes of the device for an allocation: pieces of 4 KiB below 1 MiB, else of 2
 * MiB. */
uint64_t quota_charged(uint64_t bytes);

/* True if the bytes are now the process's, to be released when they are freed. With DEVICES_UNKNOWN
 * only an attempt whose limits name no devices gets any. */
bool quota_reserve(const struct client *client, int device, uint64_t bytes);
/* Counts what the driver has taken already, also beyond the limit. */
void quota_force(const struct client *client, int device, uint64_t bytes);
/* Never below 0. */
void quota_release(const struct client *client, int device, uint64_t bytes);

/* The same for a context that is about to be made, and has been, or not. One thread at a time for a
 * device. Until the agent has measured what it costs, it counts with what the limits say. */
bool quota_begin_context(const struct client *client, int device);
void quota_end_context(const struct client *client, int device, bool is_made);
/* One of the process's contexts is gone. */
void quota_forget_context(const struct client *client, int device);

/* What the whole attempt holds on the device, with what the agent measured besides. */
uint64_t quota_held(const struct client *client, int device);
/* This process's part of it. */
uint64_t quota_held_by_process(const struct client *client, int device);
/* What a program is shown. `left` is 0 where more is held than the limit says. */
struct quota_view {
    uint64_t limit, held, left; /* all 0: there is no limit */
};
struct quota_view quota_view(const struct client *client, int device);
/* The limit; 0: none. */
uint64_t quota_limit(const struct client *client, int device);
