/*
 * A list of abandoned children that must still be reaped. A child inside the driver may take long
 * to die, so the agent never waits for a child.
 */
#pragma once
#include <stddef.h>
#include <sys/types.h>

enum { REAPER_MAX = 64 }; /* further children are left to init */

struct reaper {
    size_t count;
    pid_t pids[REAPER_MAX];
};

void reaper_take(struct reaper *r, pid_t pid);
/* Reaps children that have ended; to be called periodically. */
void reaper_look(struct reaper *r);
