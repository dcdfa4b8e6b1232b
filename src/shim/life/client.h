/*
 * Where the process's limits come from and where it reports: its three pages (abi/page.h). With an
 * agent (GPUMUX_REGISTER) they are shared with it; without one they are the process's own, and the
 * limits page says what the environment does. So they are where an agent is promised and there is
 * no sign of it, as in a container without its socket, if there is a quota in the environment:
 *
 *   GPUMUX_QUOTA_BYTES   device memory that this process may hold on each device, decimal
 *   GPUMUX_KIND          service, or task (the default)
 *   GPUMUX_WINDOW_US     GPU time that a task may have outstanding on each device
 *   GPUMUX_GATE_US       how long a launch of a task waits for a busy service at most
 *   GPUMUX_LINGER_US     how long a service must have been idle
 *   GPUMUX_RATE_PERMILLE part of each device's time that a task may use
 *
 * So whoever asks for a limit need not know where it comes from.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/page.h"
#include "shim/life/neighbours.h"
#include "shim/sys/lock.h"

enum {
    CLIENT_WAIT_MS = 2000, /* for an agent that was promised, at the first call of CUDA */
    CLIENT_AWAY_MS =
        15000, /* for one that is slow, or left its socket: its service manager starts it again */
    CLIENT_CHECK_EVERY = 1024, /* launches: is the agent still there? */
    CLIENT_WINDOW_US =
        20000, /* of a task whose agent gives no sign: what is harmless when it is killed */
};

/* A descriptor that the process's own code may have closed, as daemons do with all they find, and
 * opened as something else: it is used only while it is still the same file. */
struct client_file {
    int fd; /* -1: none */
    uint64_t inode;
};

struct client {
    const struct limits_page *limits;
    struct status_page *status;
    _Atomic uint64_t messages_seen; /* of those below the lock */
    struct neighbours neighbours;
    struct ledger_page *ledger;
    uint32_t slot;      /* in the ledger */
    bool is_registered; /* with an agent */
    struct lock
        lock; /* of what follows: whoever finds it taken leaves the work to the one that has it */
    int64_t tried_ms; /* when it last looked for a new agent */
    struct client_file socket, status_file, ledger_file;
};

/* Makes the pages. False if limits are promised and not to be had: the process must not run without
 * them. Waits for the agent at most wait_ms, and CLIENT_AWAY_MS where it is or has been. *client is
 * undefined before, and afterwards if it failed. */
bool client_start(struct client *client, int wait_ms);
/* In a child: lets go of the parent's pages and socket, leaving them as they are for the parent. */
void client_leave(struct client *client);

/* Shows the agent the device's files that the process has open (REGISTER_FILES). */
void client_show_files(struct client *client);
/* Takes what the agent has sent: neighbours that came and went. */
void client_listen(struct client *client);
/* Looks whether the agent is still there, and for a new one if it is not, at most once a second:
 * the process keeps its pages, its slot and the limits it had until the new agent says others.
 * True: it has. */
bool client_check(struct client *client);

/* At every launch or copy, `count` of which came before. */
static inline void client_poll(struct client *client, uint64_t count)
{
    if (__builtin_expect(atomic_load_explicit(&client->limits->messages, memory_order_acquire) !=
                             atomic_load_explicit(&client->messages_seen, memory_order_relaxed),
                         0))
        client_listen(client);
    if (__builtin_expect(count % CLIENT_CHECK_EVERY == 0, 0))
        (void)client_check(client);
}
