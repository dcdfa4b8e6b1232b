/*
 * Moves the device memory of attempts to their host's and back, as their machines say: finds the
 * processes, checks that the host has room, and runs a mover (checkpoint.h) for one attempt at a
 * time. A lock, suspended/W.A.lock, keeps the mover of this agent and one that an agent before it
 * left apart.
 *
 * Before anything is moved the agent's own record says which processes it concerns. On the loop's
 * thread.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct agent;
struct run;

/* ATTEMPT_MOVED answers. again: of the processes that are in the record. */
void suspend_move(struct run *r, bool off, bool again);
/* Device memory that lies in the host's. */
uint64_t suspend_bytes(const struct run *r);
/* It has ended. */
void suspend_end(struct run *r);
/* Removes locks of movers, as far as those have ended. From time to time. */
void suspend_tidy(struct agent *a);
/* This agent goes, or the run does: what is under way goes on. */
void suspend_forget(struct run *r);
