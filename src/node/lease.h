/*
 * The lease of a node's tasks: the boot-clock time until which tasks may run without contact to
 * control. A file of 8 bytes, mapped by the agent, which extends the lease, and by supervisors,
 * which obey it.
 */
#pragma once
#include <stdint.h>

#include "base/error.h"

struct lease {
    int read_fd; /* read-only, inherited by supervisors */
    _Atomic uint64_t *deadline_ms;
};

/* Opens `lease` in the directory, or creates it; keeps its value. */
int lease_open(struct error *e, int directory_fd, struct lease *ret);
void lease_close(struct lease *lease);
/* Never moves the deadline back. */
void lease_extend(struct lease *lease, int64_t deadline_ms);
/* The current deadline. */
int64_t lease_deadline(const struct lease *lease);
/* No task is alive: clears the deadline, which may be of another boot. */
void lease_reset(struct lease *lease);
