/*
 * The lease of a node's tasks: until when (boot clock) they may run without word from control. One
 * file of 8 bytes, mapped by the agent that extends it and by the supervisors that obey it.
 */
#pragma once
#include <stdint.h>

#include "base/error.h"

struct lease {
    int read_fd; /* read-only: what supervisors inherit */
    _Atomic uint64_t *deadline_ms;
};

/* Opens or makes `lease` in the directory; what it says stays. */
int lease_open(struct error *e, int directory_fd, struct lease *ret);
void lease_close(struct lease *lease);
/* Only ever forward. */
void lease_extend(struct lease *lease, int64_t deadline_ms);
/* Until when it holds, as it is now. */
int64_t lease_deadline(const struct lease *lease);
/* Nothing runs that it was given to: what it says may be of another boot. */
void lease_reset(struct lease *lease);
