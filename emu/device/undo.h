/*
 * Undo log: a change to shared memory is made completely or not at all, even if the process is
 * killed at any instruction. The owner of the lock saves the old bytes before changing the bytes,
 * and commits afterwards. If an owner dies, the next owner rolls back. The log is in the same
 * shared memory. It stores positions relative to `base`, the start of the mapping, because
 * processes map the memory at different addresses.
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

/* Saves `bytes` at `at`. All saved bytes between two commits, plus 16 bytes for each record, must
 * fit into UNDO_BYTES_MAX; more is a bug. */
void undo_save(struct undo_log *log, const void *base, const void *at, size_t bytes);
void undo_commit(struct undo_log *log);
/* Returns the used part of UNDO_BYTES_MAX. */
size_t undo_used_bytes(const struct undo_log *log);
/* Restores the bytes that were saved since the last commit. An interrupted roll-back can be
 * repeated. */
void undo_roll_back(struct undo_log *log, void *base);
