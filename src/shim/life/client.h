/*
 * The process's three pages (abi/page.h), which contain its limits and its reports.
 *
 * With an agent (GPUMUX_REGISTER) the process shares the pages with the agent. Without an agent the
 * pages belong to the process alone, and the shim fills the limits page from the environment. The
 * shim also uses the environment if GPUMUX_REGISTER is set but no agent ever answered, as in a
 * container without the agent's socket, provided that GPUMUX_QUOTA_BYTES is set:
 *
 *   GPUMUX_QUOTA_BYTES    device memory that this process may allocate on each device, in bytes
 *   GPUMUX_KIND           service, or task (the default)
 *   GPUMUX_WINDOW_US      GPU time that a task may have outstanding on each device, in us
 *   GPUMUX_GATE_US        longest wait of a task's launch for a busy service, in us
 *   GPUMUX_LINGER_US      time that a service must have been idle before a task continues, in us
 *   GPUMUX_RATE_PERMILLE  part of each device's time that a task may use, in thousandths
 *
 * The code that reads a limit does not depend on the source of the limit.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/page.h"
#include "shim/life/neighbours.h"
#include "shim/sys/lock.h"

enum {
    CLIENT_WAIT_MS = 2000, /* longest wait for an agent, at the first CUDA call */
    /* Wait for an agent that is slow, or whose socket remains until the agent is restarted. */
    CLIENT_AWAY_MS = 15000,
    CLIENT_CHECK_EVERY = 1024, /* launches between two checks that the agent is alive */
    /* Window of a task without an agent: harmless if the task is killed. */
    CLIENT_WINDOW_US = 20000,
};

/* A file descriptor of the shim. The shim uses the descriptor only while it refers to the same
 * file: a program that becomes a daemon closes all unknown descriptors and reuses their numbers. */
struct client_file {
    int fd; /* -1: none */
    uint64_t inode;
};

struct client {
    const struct limits_page *limits;
    struct status_page *status;
    _Atomic uint64_t messages_seen; /* limits_page.messages as of the last read of the socket */
    struct neighbours neighbours;
    struct ledger_page *ledger;
    uint32_t slot;      /* index in the ledger */
    bool is_registered; /* an agent has accepted the process */
    /* Protects the fields below; a thread that finds the lock taken leaves the work to the
     * owner. */
    struct lock lock;
    int64_t tried_ms; /* time of the latest attempt to register with a new agent */
    struct client_file socket, status_file, ledger_file;
};

/* Creates the pages. Waits for an agent at most wait_ms, and at most CLIENT_AWAY_MS if an agent's
 * socket exists. Returns false if limits were promised but are not available: the process must not
 * use the device. *client need not be initialised, and is undefined after a failure. */
bool client_start(struct client *client, int wait_ms);
/* Releases the parent's pages and socket in a forked child, without effect on the parent. */
void client_leave(struct client *client);

/* Sends the agent the device files that the process has open (REGISTER_FILES). */
void client_show_files(struct client *client);
/* Reads the agent's messages: new neighbours, and the end of neighbours. */
void client_listen(struct client *client);
/* Checks whether the agent is alive and, if not, tries to register with a new agent, at most once
 * per second. The process keeps its pages, its slot and its limits until a new agent changes the
 * limits. Returns true if the process has registered with a new agent. */
bool client_check(struct client *client);

/* Reads new messages, and checks the agent once in CLIENT_CHECK_EVERY calls. Call at every launch
 * or copy; `count` is the number of earlier calls. */
static inline void client_poll(struct client *client, uint64_t count)
{
    if (__builtin_expect(atomic_load_explicit(&client->limits->messages, memory_order_acquire) !=
                             atomic_load_explicit(&client->messages_seen, memory_order_relaxed),
                         0))
        client_listen(client);
    if (__builtin_expect(count % CLIENT_CHECK_EVERY == 0, 0))
        (void)client_check(client);
}
