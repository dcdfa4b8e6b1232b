/* Status pages of the services that share a device with this process, as received from the
 * agent. */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

#include "abi/page.h"
#include "abi/register.h"

/* A neighbour keeps its place, and its page is never unmapped while threads may read the page. The
 * page of a neighbour that has ended reads as idle. */
struct neighbours {
    _Atomic uint64_t present; /* bit i: pages[i] and devices[i] are set */
    const struct status_page *pages[REGISTER_NEIGHBOURS_MAX];
    uint32_t devices[REGISTER_NEIGHBOURS_MAX]; /* index in limits_page.devices */
};
_Static_assert(REGISTER_NEIGHBOURS_MAX <= 64, "one bit each");

/* Adds or removes a neighbour. For one thread at a time, while other threads read. The caller keeps
 * the descriptor. */
void neighbours_add(struct neighbours *neighbours, uint32_t number, uint32_t device, int fd);
void neighbours_remove(struct neighbours *neighbours, uint32_t number);
/* Removes all neighbours in a forked child, which has no other reader. */
void neighbours_forget(struct neighbours *neighbours);
