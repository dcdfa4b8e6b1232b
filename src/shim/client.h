/*
 * Where the process's limits come from and where it reports: its three pages (abi/page.h). With an
 * agent (GPUMUX_REGISTER) they are shared with it; without one they are the process's own, and the
 * limits page says what the environment does:
 *
 *   GPUMUX_QUOTA_BYTES   device memory that this process may hold on each device, decimal
 *
 * So whoever asks for a limit need not know where it comes from.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "abi/page.h"

enum { CLIENT_WAIT_MS = 2000 }; /* for an agent that was promised, at the first call of CUDA */

struct client {
    const struct limits_page *limits;
    struct status_page *status;
    struct ledger_page *ledger;
    uint32_t slot;        /* in the ledger */
    bool is_registered;   /* with an agent, through `socket` */
    int socket;           /* non-blocking; its end says nothing, a child may hold it too */
    uint64_t socket_file; /* its inode: a program may close descriptors that are not its own */
};

/* Makes the pages. False if limits are promised and not to be had: the process must not run without them. Waits for
 * the agent at most wait_ms. *client is undefined before, and afterwards if it failed. */
bool client_start(struct client *client, int wait_ms);
/* In a child: lets go of the parent's pages and socket, leaving them as they are for the parent. */
void client_leave(struct client *client);
