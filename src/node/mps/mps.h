/*
 * MPS on this node: one daemon a device, in a directory of its own, for as long as attempts use it.
 * A daemon that an agent before this one started is found there and taken over; one that nobody
 * needs is ended, here or by the guard (mps_guard.h). Each has a thread that talks to it, because
 * such talk may take a second or hang; the loop is told when something changed.
 *
 *   off → starting → ready ⇄ faulted
 *                      ⇅
 *                    silent → broken → starting → …
 *
 * and from ready, when nobody uses it: draining → off.
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
    MPS_CLIENTS_MAX = 64, /* in one word to the daemon; an H200 takes 48 */
    MPS_TEXT_MAX = 160,
};

enum mps_state {
    MPS_OFF,
    MPS_STARTING,
    MPS_READY,
    MPS_FAULTED, /* a client faulted: it takes nobody new until all have left */
    MPS_SILENT,  /* it did not answer in time, or could not be asked; it may have been slow */
    MPS_BROKEN,  /* it, or its server, is gone or silent: its clients are lost, a new one is on its
                    way */
    MPS_FAILED,  /* it cannot be started: its device is time-sliced; tried again when all who were
                    told so have left */
    MPS_DRAINING,
};
const char *mps_state_name(enum mps_state state);

struct mps_options {
    struct event_base *base;
    const struct log *log;
    struct mps_guard *guard; /* open; outlives this */
    /* On the loop's thread. text: why, "" if there is nothing to say. */
    void (*on_change)(void *arg, const char *uuid, enum mps_state state, const char *text);
    /* What mps_terminate() was asked for last has been done, or cannot be. */
    void (*on_terminated)(void *arg, const char *uuid);
    void *arg;
};

int mps_new(struct error *e, const struct mps_options *options, struct mps **ret);
/* Ends the daemons that no living attempt needs, whoever uses them; the others run on, for the next
 * agent. Waits for 10 s at most, also for a daemon that is silent or starting. NULL is fine. */
void mps_free(struct mps *m);

/* An attempt of this user may use the device from now on: the daemon is started, or stays. Each use
 * is ended by a release. -ERR_NO_MEMORY, -ERR_TOO_LARGE. */
int mps_use(struct error *e, struct mps *m, const char *uuid, uid_t user);
/* The same for an attempt that runs already: if its daemon is not there any more, that is a loss.
 * */
int mps_use_again(struct error *e, struct mps *m, const char *uuid, uid_t user);
void mps_release(struct mps *m, const char *uuid);
enum mps_state mps_state_of(const struct mps *m, const char *uuid);
/* It is not tried again yet: who comes now does without. */
bool mps_has_failed(const struct mps *m, const char *uuid);
/* This user's processes can be its clients. Where it is for one user at a time, it is the first
 * one's until nobody uses it; which of both it is, is known when it is ready. */
bool mps_takes(const struct mps *m, const char *uuid, uid_t user);
/* The daemon of this directory is used, or is just ended. m may be NULL. */
bool mps_has(const struct mps *m, const char *directory);
/* The directory that a client finds its daemon by. False: too long for a socket. */
bool mps_directory(const char *directory, const char *uuid, char *path, size_t size);

/* The daemon answered for all it has after this moment (boot clock); or there is none, also because
 * it cannot be started. Else it is asked soon. */
bool mps_is_well_since(struct mps *m, const char *uuid, int64_t since_ms);

/* Ends the GPU work of these processes, so that killing them harms nobody else. Done soon:
 * on_terminated() follows. False: there is no daemon. */
bool mps_terminate(struct mps *m, const char *uuid, const pid_t *pids, size_t count);
