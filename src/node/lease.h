/*
 * The lease of a node's tasks: the boot-clock time until which tasks may run without contact to
 * control. The lease is a file of 8 bytes. The agent maps the file and extends the lease;
 * supervisors map the file and obey the lease.
 */
#pragma once
#include <stdint.h>

#include "base/error.h"

struct lease {
    int read_fd; /* read-only, inherited by supervisors */
    _Atomic uint64_t *deadline_ms;
};

/* Opens the file `lease` in the directory, or creates it. The call keeps an existing deadline. */
int lease_open(struct error *e, int directory_fd, struct lease *ret);
void lease_close(struct lease *lease);
/* Extends the deadline; an earlier deadline is ignored. */
void lease_extend(struct lease *lease, int64_t deadline_ms);
/* Returns the current deadline. */
int64_t lease_deadline(const struct lease *lease);
/* Clears the deadline, which may date from another boot. No task may be alive. */
void lease_reset(struct lease *lease);
