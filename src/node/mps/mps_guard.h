/*
 * The guard ends MPS daemons whose agent has ended and does not restart.
 *
 * While an agent lives, mps.c ends the daemons that no attempt needs. The guard is a process,
 * `gpumux mps-guard`, that sleeps until its agent has ended. Then the guard checks once per second,
 * and ends each daemon that no live attempt needs. The guard exits when no daemon is left, or when
 * a new agent has started, because each agent starts its own guard.
 *
 * Supervisors cannot do this work: they have the rights of their workload's user, do not know each
 * other, and may be killed. So the guard is a process of its own.
 *
 * An attempt needs a daemon if the daemon's directory has an empty file W.A, and the attempt's
 * supervisor lives, that is, holds the lock locks/W.A. The lock mps.lock separates agents and
 * guards: an agent holds the lock until the agent ends, a guard while the guard ends daemons.
 */
#pragma once
#include "node/mps/mps_control.h"

struct mps;

struct mps_guard {
    /* the agent's directory; NULL: never opened, and every call does nothing */
    const char *state;
    const char *program; /* nvidia-cuda-mps-control; NULL: not installed, and daemons are killed */
    const char *emulate, *libraries; /* as in agent_options */
    char directory[MPS_PATH_MAX];    /* parent of the daemons' directories */
    int lock_fd, alive_fd;           /* -1: closed */
};

enum { MPS_GUARD_OPERANDS = 4 };

/* Takes the lock. The caller sets the four strings and keeps ownership. Returns 0, -ERR_IO, or
 * -ERR_BUSY if another guard does not end; the caller calls mps_guard_close() in any case. */
int mps_guard_open(struct error *e, struct mps_guard *g);
/* Ends the daemons that no attempt needs and releases the lock, when the agent ends in an orderly
 * way and starts no more daemons. */
void mps_guard_close(struct mps_guard *g);
/* Starts the guard's process unless it runs; to be called before a daemon is started. */
int mps_guard_start(struct error *e, struct mps_guard *g);

/* Records whether the attempt ("W.A"), whose lock is held, needs the daemon of this device. The
 * daemon's directory must exist. */
int mps_guard_note(struct error *e, const struct mps_guard *g, const char *uuid,
                   const char *attempt, bool needs);
/* Returns whether a live attempt needs the daemon of this directory. Removes records of ended
 * attempts. */
bool mps_guard_is_needed(const struct mps_guard *g, const char *directory);
enum { MPS_GUARD_ALL = 1 << 16 };
/* Ends at most `max` daemons, with their servers, that no attempt needs and that m (may be NULL)
 * does not use; each takes 11 s at most. Returns false if no daemon is left. */
bool mps_guard_sweep(const struct mps_guard *g, const struct mps *m, size_t max);

/* Runs the guard's process with the operands of its command. Returns the exit code. */
int mps_guard_run(char *const operands[MPS_GUARD_OPERANDS]);
