/*
 * The guard sees to it that no MPS daemon stays behind when its agent does not come back.
 *
 * While an agent lives, mps.c ends the daemons that nobody needs. The guard is a process,
 * `gpumux mps-guard`, that sleeps until its agent has ended. Then it looks once a second, and ends
 * each daemon that no living attempt needs. It ends when no daemon is left, or when another agent
 * has come, which has a guard of its own.
 *
 * It is a process of its own because supervisors cannot do it: they have the rights of their
 * workload's user, do not know each other, and may be killed.
 *
 * An attempt needs a daemon if it is noted in the daemon's directory, as an empty file W.A, and its
 * supervisor lives, which the lock locks/W.A tells. The lock mps.lock keeps agents and guards
 * apart: an agent has it for life, a guard while it ends daemons.
 */
#pragma once
#include "node/mps/mps_control.h"

struct mps;

struct mps_guard {
    const char *state;   /* the agent's directory; NULL: never opened, for which all is fine */
    const char *program; /* nvidia-cuda-mps-control; NULL: there is none, daemons are killed */
    const char *emulate, *libraries; /* as in agent_options */
    char directory[MPS_PATH_MAX];    /* where every daemon has one of its own */
    int lock_fd, alive_fd;           /* -1: closed */
};

enum { MPS_GUARD_OPERANDS = 4 };

/* Takes the lock. The caller has set the four strings, which stay its own. Returns 0, -ERR_IO, or
 * -ERR_BUSY for a guard that does not end; mps_guard_close() in any case. */
int mps_guard_open(struct error *e, struct mps_guard *g);
/* The agent ends in an orderly way, starts no daemon any more, and lets go of the lock. What no
 * attempt needs is ended. */
void mps_guard_close(struct mps_guard *g);
/* Starts the process, unless it was started. Before a daemon is. */
int mps_guard_start(struct error *e, struct mps_guard *g);

/* The attempt ("W.A"), whose lock is taken, needs the daemon of this device, or does not any more.
 * The daemon's directory is there. */
int mps_guard_note(struct error *e, const struct mps_guard *g, const char *uuid,
                   const char *attempt, bool needs);
/* A living attempt needs the daemon of this directory. Forgets attempts that have ended. */
bool mps_guard_is_needed(const struct mps_guard *g, const char *directory);
enum { MPS_GUARD_ALL = 1 << 16 };
/* Ends the daemons, with their servers, that no attempt needs and that m (or NULL) does not use: at
 * most `max` of them, each in 11 s at most. False: none is left. */
bool mps_guard_sweep(const struct mps_guard *g, const struct mps *m, size_t max);

/* The process; the operands are those of the command. Returns its exit code. */
int mps_guard_run(char *const operands[MPS_GUARD_OPERANDS]);
