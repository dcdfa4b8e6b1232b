/*
 * Undo log: a change to shared memory is made completely or not at all, even if the process is
 * killed at any instruction. The holder of the lock saves the old bytes before it changes them, and
 * commits afterwards; the next holder after an owner that died rolls back. The log lies in the same
 * shared memory and stores positions relative to `base`, the start of the mapping, which differs
 * between processes.
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

/* Saves `bytes` at `at`. All records between two commits, plus 16 bytes each, must fit into
 * UNDO_BYTES_MAX; more is a bug. */
void undo_save(struct undo_log *log, const void *base, const void *at, size_t bytes);
void undo_commit(struct undo_log *log);
/* Returns the used part of UNDO_BYTES_MAX. */
size_t undo_used_bytes(const struct undo_log *log);
/* Restores the bytes that were saved since the last commit. An interrupted roll-back can be
 * repeated. */
void undo_roll_back(struct undo_log *log, void *base);
