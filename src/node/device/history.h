/*
 * Activity of services on this node (device/share.h), by workload. The file `activity` of the state
 * directory has a fixed size and is mapped, so that a later agent continues with the file. After a
 * crash of the machine the file may be out of date; implausible entries are dropped.
 */
#pragma once
#include <stdint.h>

#include "base/error.h"
#include "device/share.h"

enum { HISTORY_SERVICES_MAX = 128 };

struct history;

int history_open(struct error *e, int directory_fd, struct history **ret);
/* Closes the history; the file stays. */
void history_close(struct history *h);
/* Returns the entry of a service; a new entry replaces the least recently used. The result is valid
 * until the next call, and never NULL. */
struct share_service *history_get(struct history *h, uint64_t workload);
/* Returns the entry of a service, or NULL. */
const struct share_service *history_find(const struct history *h, uint64_t workload);
