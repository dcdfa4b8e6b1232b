/*
 * Moves the device memory of attempts to the host's memory and back, as the attempts' state
 * machines demand: finds the processes, checks that the host has enough memory, and runs a mover
 * (checkpoint.h) for one attempt at a time. A lock, suspended/W.A.lock, separates this agent's
 * mover from the mover of an earlier agent.
 *
 * Before a move, the agent lists the processes in its own record (own_record.h). Everything runs on
 * the loop's thread.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct agent;
struct run;

/* Starts a move; ATTEMPT_MOVED reports the result. off: to the host's memory. again: moves the
 * processes that the record lists. */
void suspend_move(struct run *r, bool off, bool again);
/* Returns the amount of device memory that was moved to the host's memory. */
uint64_t suspend_bytes(const struct run *r);
/* Ends suspension of an attempt that has ended. */
void suspend_end(struct run *r);
/* Removes locks of movers that have ended; to be called periodically. */
void suspend_tidy(struct agent *a);
/* Forgets the run; a move in flight continues. */
void suspend_forget(struct run *r);
