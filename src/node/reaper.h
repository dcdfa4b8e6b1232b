/*
 * Children of this process that nobody wants to hear of any more, and that must be waited for all
 * the same. Inside the driver one may not even die, so that is never done by waiting.
 */
#pragma once
#include <stddef.h>
#include <sys/types.h>

enum { REAPER_MAX = 64 }; /* beyond, they are left to whoever inherits them */

struct reaper {
    size_t count;
    pid_t pids[REAPER_MAX];
};

void reaper_take(struct reaper *r, pid_t pid);
/* Those that have ended are gone. From time to time. */
void reaper_look(struct reaper *r);
