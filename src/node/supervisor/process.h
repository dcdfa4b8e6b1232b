/* Processes as /proc shows them: identity, parents, usage. */
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
    bool member; /* of the tree that was marked last */
};

struct process_table {
    struct process *items; /* by pid, ascending */
    size_t count;
};

/* 0, -ERR_IO or -ERR_NO_MEMORY. */
int process_table_read(struct process_table *ret);
void process_table_done(struct process_table *table);
/* NULL: it is not there. */
const struct process *process_table_find(const struct process_table *table, pid_t pid);
/* Marks every descendant of root, and root itself, as `member`; returns how many there are. */
size_t process_table_mark_tree(struct process_table *table, pid_t root);

/* Start time of a process, which identifies it together with its pid; 0: no such process. */
uint64_t process_start(pid_t pid);
/* A zombie is not alive. */
bool process_is_alive(pid_t pid);
/* pid is a descendant of root. */
bool process_descends(pid_t pid, pid_t root);
/* This boot's id. False only where /proc is missing. */
bool process_boot_id(char ret_id[BOOT_ID_MAX]);

/*
 * Signals all descendants of root (not root itself). ret_failed (may be NULL): how many there were
 * that we may not signal. Returns how many were signalled.
 */
size_t process_signal_descendants(pid_t root, int signal, size_t *ret_failed);

/*
 * Kills every process that was started with `mark` ("KEY=value") in its environment.
 * For what a killed supervisor left behind. Returns how many there were.
 */
size_t process_kill_marked(const char *mark);
