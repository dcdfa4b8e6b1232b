/* Reads processes from /proc: identity, parents, usage. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "node/supervisor/attempt_file.h"

enum { PROCESS_TABLE_MAX = 1 << 20, PROCESS_MARK_MAX = 128 };

struct process {
    pid_t pid, parent;
    uint64_t start;     /* clock ticks since boot */
    uint64_t cpu_ticks; /* user and system, with reaped children */
    uint64_t resident_bytes;
    bool zombie;
    bool member; /* part of the tree that was marked last */
};

struct process_table {
    struct process *items; /* by pid, ascending */
    size_t count;
};

/* Reads all processes. Returns 0, -ERR_IO or -ERR_NO_MEMORY. */
int process_table_read(struct process_table *ret);
void process_table_done(struct process_table *table);
/* Returns the process with this pid, or NULL. */
const struct process *process_table_find(const struct process_table *table, pid_t pid);
/* Marks root and every descendant of root as `member`. Returns their number. */
size_t process_table_mark_tree(struct process_table *table, pid_t root);

/* Returns the start time of a process, which identifies the process together with its pid; 0: no
 * such process. */
uint64_t process_start(pid_t pid);
/* Returns whether the process is alive; a zombie counts as ended. */
bool process_is_alive(pid_t pid);
/* Returns whether the process with this pid and start time has certainly ended; a zombie counts as
 * ended. */
bool process_has_ended(pid_t pid, uint64_t start);
/* Returns whether pid is a descendant of root. */
bool process_descends(pid_t pid, pid_t root);
/* Reads the id of this boot. Returns false only without /proc. */
bool process_boot_id(char ret_id[BOOT_ID_MAX]);

/*
 * Signals all descendants of the process `root` that started at `start`, but not root itself.
 * *ret_failed (may be NULL) is the number of processes that the caller may not signal. Returns the
 * number of signalled processes.
 */
size_t process_signal_descendants(pid_t root, uint64_t start, int signal, size_t *ret_failed);

/*
 * Kills every process of the user that was started with `mark` ("KEY=value") in its environment,
 * because a killed supervisor leaves processes behind. Returns the number of killed processes.
 */
size_t process_kill_marked(const char *mark, uid_t uid);
