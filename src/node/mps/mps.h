/*
 * MPS on this node: one daemon for each device, in a directory of its own, for as long as attempts
 * use the daemon. The agent takes over a running daemon of an earlier agent. This module or the
 * guard (mps_guard.h) ends a daemon that no attempt needs. Each daemon has a thread that sends
 * requests to the daemon, because an answer may take a second or never come; the thread reports
 * changes to the loop.
 *
 *   off → starting → ready ⇄ faulted
 *                      ⇅
 *                    silent → broken → starting → …
 *
 * An unused daemon goes from ready through draining to off.
 *
 * This folder contains the control of the MPS daemons, and the guard. Files of the folder node/mps
 * may include base, model, node/supervisor.
 */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/log.h"
#include "model/node.h"

struct event_base;
struct mps;
struct mps_guard;

enum {
    MPS_CLIENTS_MAX = 64, /* pids in one request; an H200 supports 48 clients */
    MPS_TEXT_MAX = 160,
};

enum mps_state {
    MPS_OFF,
    MPS_STARTING,
    MPS_READY,
    MPS_FAULTED, /* a client faulted: the daemon accepts no client until all clients left */
    MPS_SILENT,  /* no answer in time, or a request failed; the daemon may be merely slow */
    /* the daemon or its server is gone or hangs: its clients are lost, and a new daemon is
     * starting */
    MPS_BROKEN,
    /* the daemon does not start, so the device is time-sliced; the start is retried when all users
     * have left */
    MPS_FAILED,
    MPS_DRAINING,
};
const char *mps_state_name(enum mps_state state);

struct mps_options {
    struct event_base *base;
    const struct log *log;
    struct mps_guard *guard; /* open; outlives the struct mps */
    /* Called on the loop's thread. text: the reason, or "". */
    void (*on_change)(void *arg, const char *uuid, enum mps_state state, const char *text);
    /* Called when the last mps_terminate() was carried out, or cannot be carried out. */
    void (*on_terminated)(void *arg, const char *uuid);
    void *arg;
};

int mps_new(struct error *e, const struct mps_options *options, struct mps **ret);
/* Ends the daemons that no live attempt needs; the other daemons keep running for the next agent.
 * Waits for 10 s at most, also for a silent or starting daemon. NULL is allowed. */
void mps_free(struct mps *m);

/* Counts an attempt of this user as a user of the device's daemon, which is started if needed. Each
 * use ends with mps_release(). Returns 0, -ERR_NO_MEMORY, -ERR_TOO_LARGE or another error. */
int mps_use(struct error *e, struct mps *m, const char *uuid, uid_t user);
/* Counts an attempt that already runs as a user of the daemon; a missing daemon then counts as
 * lost. */
int mps_use_again(struct error *e, struct mps *m, const char *uuid, uid_t user);
void mps_release(struct mps *m, const char *uuid);
enum mps_state mps_state_of(const struct mps *m, const char *uuid);
/* Returns whether the daemon failed to start and the start is not retried yet, so that new attempts
 * run without MPS. */
bool mps_has_failed(const struct mps *m, const char *uuid);
/* Returns whether this user's processes can be clients. A daemon that serves one user at a time
 * belongs to the first user until its last use ends. Only a ready daemon shows whether it serves
 * one user at a time. */
bool mps_takes(const struct mps *m, const char *uuid, uid_t user);
/* Returns whether the daemon of this directory is in use or being ended. m may be NULL. */
bool mps_has(const struct mps *m, const char *directory);
/* Writes the directory by which a client finds its daemon. Returns false if the path is too long
 * for a socket. */
bool mps_directory(const char *directory, const char *uuid, char *path, size_t size);

/* Returns whether the daemon and all its servers answered after this moment (boot clock); true
 * without a daemon, also if the daemon cannot start. If the answers are older, the thread soon
 * sends a request. */
bool mps_is_well_since(struct mps *m, const char *uuid, int64_t since_ms);

/* Ends the GPU work of these processes soon, so that a kill of the processes harms no other
 * process; on_terminated() follows. Returns false without a daemon. */
bool mps_terminate(struct mps *m, const char *uuid, const pid_t *pids, size_t count);
