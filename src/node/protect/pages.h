/*
 * The memory that the agent shares with the processes of an attempt (abi/page.h), from the agent's
 * side: it makes the limits and the ledger, and takes what processes send. Nothing that came from a
 * process is read before its size can no longer change.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "abi/page.h"
#include "base/error.h"

/* A page and the descriptor that is sent to others. Closed and unmapped by its _done. */
struct limits_mapping {
    int fd; /* -1: none */
    struct limits_page *page;
};

struct ledger_mapping {
    int fd; /* -1: none */
    uint64_t inode;
    struct ledger_page *page;
};

struct status_mapping {
    int fd; /* -1: none */
    const struct status_page *page;
    struct status_page *writable; /* the same; NULL: an agent before this one sealed it */
};

/* New ones, empty but for their headers; sealed, and so written by this process alone (limits), or
 * by whoever it is given to (ledger). */
int pages_make_limits(struct error *e, struct limits_mapping *ret);
int pages_make_ledger(struct error *e, struct ledger_mapping *ret);

/* What a process sent, or an agent before this one left. The descriptor is the mapping's from now
 * on; on failure it stays the caller's. -ERR_PROTOCOL: not sealed as it must be, too short, another
 * page. */
int pages_take_ledger(int fd, struct ledger_mapping *ret);
int pages_take_status(int fd, struct status_mapping *ret);

void limits_done(struct limits_mapping *limits);
void ledger_done(struct ledger_mapping *ledger);
void status_done(struct status_mapping *status);

/* Its process has ended: no stream of it is busy, whoever still looks. */
void status_clear_marks(const struct status_mapping *status);

/* The 16 bytes of "GPU-xxxxxxxx-xxxx-…", as the driver gives them. False: not such a name. */
bool pages_parse_uuid(const char *text, uint8_t ret_uuid[16]);
