/*
 * Undo log: changes to shared memory that are made whole or not at all, though the process may be
 * killed at any instruction. The holder of the lock saves the old bytes of what it is about to
 * change, changes it, and commits; whoever gets the lock after an owner that died rolls back. The
 * log lies in the same shared memory, and remembers positions from `base`, the start of the
 * mapping, which differs from process to process.
 */
#pragma once
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { UNDO_BYTES_MAX = 2 << 20 };

struct undo_log {
    _Atomic uint64_t used_bytes; /* 0: nothing to undo */
    unsigned char records[UNDO_BYTES_MAX] __attribute__((aligned(16)));
};

/* Remembers `bytes` at `at`. What is saved between two commits must fit UNDO_BYTES_MAX with 16
 * bytes for each record: a bug otherwise. */
void undo_save(struct undo_log *log, const void *base, const void *at, size_t bytes);
void undo_commit(struct undo_log *log);
/* How much of UNDO_BYTES_MAX is taken. */
size_t undo_used_bytes(const struct undo_log *log);
/* Puts back what was saved since the last commit. May itself be cut short and done again. */
void undo_roll_back(struct undo_log *log, void *base);
