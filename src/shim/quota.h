/*
 * The memory quota of an attempt over all its processes, without a lock and without a total that a
 * killed process could leave wrong: each process has a slot in the ledger, and only its own.
 *
 * To reserve is to add to the own slot, then to sum all slots: if the sum is above the quota, the
 * addition is taken back. Additions and sums are in one order for all (seq_cst), so of two processes that
 * race at least one sees the other's addition: never more than the quota is granted. Both may
 * see it and fail where one would fit; so it is tried twice.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "shim/client.h"

/* `device` is an index of devices.h. True if the bytes are now the process's, to be released when
 * they are freed. With DEVICES_UNKNOWN only an attempt without limits gets any. */
bool quota_reserve(const struct client *client, int device, uint64_t bytes);
/* Never below 0. */
void quota_release(const struct client *client, int device, uint64_t bytes);
/* What the whole attempt holds on the device, with what the agent measured besides. */
uint64_t quota_held(const struct client *client, int device);
/* The limit; 0: none. */
uint64_t quota_limit(const struct client *client, int device);
