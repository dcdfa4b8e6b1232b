/*
 * Activity of services on this node (device/share.h), by workload. The file `activity` of the state
 * directory has a fixed size and is mapped, so that a later agent continues with it. After a crash
 * of the machine the file may be out of date; implausible entries are dropped.
 */
#pragma once
#include <stdint.h>

#include "base/error.h"
#include "device/share.h"

enum { HISTORY_SERVICES_MAX = 128 };

struct history;

int history_open(struct error *e, int directory_fd, struct history **ret);
/* The file stays. */
void history_close(struct history *h);
/* The entry of a service; a new one replaces the least recently used. Valid until the next call;
 * never NULL. */
struct share_service *history_get(struct history *h, uint64_t workload);
/* NULL: no entry. */
const struct share_service *history_find(const struct history *h, uint64_t workload);
