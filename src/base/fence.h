/*
 * The fence against a second daemon on the same state: an flock, which the kernel releases when its
 * last holder is gone, however it went.
 */
#pragma once
#include <stdbool.h>

enum { FENCE_PATIENCE_MS = 1000 };

/*
 * Locks the open file. A daemon that was killed while it started a process leaves a child that
 * holds the lock until its exec, a moment later: so one that is taken is asked for again, for
 * FENCE_PATIENCE_MS. False: somebody has it.
 */
bool fence_take(int fd);
/* Whether somebody has it; false also if that cannot be told. It is asked by having a part in it
 * for a moment, for which fence_take() waits. */
bool fence_is_taken(const char *path);
