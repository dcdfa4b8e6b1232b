/*
 * What this node has learned of services (device/share.h), by their workloads' numbers. A mapped file of fixed
 * size, `activity` in the state directory: the next agent goes on with it, and nothing is ever written out.
 * After a crash of the machine it may be older than it was, never of no use: what is not sane is forgotten.
 */
#pragma once
#include <stdint.h>

#include "base/error.h"
#include "device/share.h"

enum { HISTORY_SERVICES_MAX = 128 };

struct history;

int history_open(struct error *e, int directory_fd, struct history **ret);
/* What it knows stays in the file. */
void history_close(struct history *h);
/* Of that service, or a new one in place of the one that was not seen for longest. Valid until the next call;
 * never NULL. */
struct share_service *history_get(struct history *h, uint64_t workload);
/* NULL: nothing is known. */
const struct share_service *history_find(const struct history *h, uint64_t workload);
