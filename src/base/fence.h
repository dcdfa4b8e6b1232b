/*
 * Fence against a second daemon on the same state. The fence is an flock, which the kernel releases
 * as soon as the last process with the open file has ended, even after a crash.
 */
#pragma once
#include <stdbool.h>

enum { FENCE_PATIENCE_MS = 1000 };

/*
 * Locks the open file; returns false if another process holds the lock. Retries for
 * FENCE_PATIENCE_MS: when a daemon is killed while starting a process, its child keeps the lock
 * until exec, a moment later.
 */
bool fence_take(int fd);
/* Returns whether a process holds the lock; false also if the file cannot be opened. The call takes
 * a shared lock for a moment; a concurrent fence_take() retries. */
bool fence_is_taken(const char *path);
