#include "node/reaper.h"

#include <stdbool.h>
#include <sys/wait.h>

/* Returns whether the child has ended, or is no child of this process. */
static bool has_ended(pid_t pid)
{
    return waitpid(pid, NULL, WNOHANG) != 0;
}

void reaper_take(struct reaper *r, pid_t pid)
{
    if (!has_ended(pid) && r->count < REAPER_MAX)
        r->pids[r->count++] = pid;
}

void reaper_look(struct reaper *r)
{
    for (size_t i = r->count; i > 0; i--)
        if (has_ended(r->pids[i - 1]))
            r->pids[i - 1] = r->pids[--r->count];
}
