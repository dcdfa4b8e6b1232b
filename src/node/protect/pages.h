/*
 * The memory that the agent shares with the processes of an attempt (abi/page.h), from the agent's
 * side: the agent makes the limits and the ledger, and maps the pages that processes send. The
 * agent reads a page only after the page's size is sealed.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "abi/page.h"
#include "base/error.h"

/* A page and the descriptor that is sent to other processes. The _done function unmaps and
 * closes. */
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
    struct status_page *writable; /* the same page; NULL: an earlier agent sealed it */
};

/* Make new pages, empty except for their headers. The pages are sealed: only this process can write
 * limits, and only processes with the descriptor can write the ledger. */
int pages_make_limits(struct error *e, struct limits_mapping *ret);
int pages_make_ledger(struct error *e, struct ledger_mapping *ret);

/* Map a page that a process sent or an earlier agent made. On success return 0, and the mapping
 * owns the descriptor. For a page that lacks seals, is too small or is of another kind, return
 * -ERR_PROTOCOL, and the caller keeps the descriptor. */
int pages_take_ledger(int fd, struct ledger_mapping *ret);
int pages_take_status(int fd, struct status_mapping *ret);

void limits_done(struct limits_mapping *limits);
void ledger_done(struct ledger_mapping *ledger);
void status_done(struct status_mapping *status);

/* Marks all streams of an ended process as idle, for the processes that read the page. */
void status_clear_marks(const struct status_mapping *status);

/* Parses the 16 bytes of "GPU-xxxxxxxx-xxxx-…", as the driver reports them. Returns false for
 * another name. */
bool pages_parse_uuid(const char *text, uint8_t ret_uuid[16]);
