#include "emu/device/undo.h"

#include <assert.h>
#include <string.h>

/*
 * Records follow one another; each is the saved bytes, padded to 16, and a trailer, so that a
 * roll-back can walk from the last to the first: where two records overlap, the older wins.
 * `used_bytes` grows only when a record is complete, and the bytes change only after that. A killed
 * process has executed exactly the instructions before the kill, so compiler order suffices for the
 * roll-back; the release stores also preserve the order for the next owner on another processor.
 */
struct undo_trailer {
    uint64_t offset;
    uint64_t bytes;
};

static size_t padded(size_t bytes)
{
    return (bytes + 15) & ~(size_t)15;
}

void undo_save(struct undo_log *log, const void *base, const void *at, size_t bytes)
{
    uint64_t used = atomic_load_explicit(&log->used_bytes, memory_order_relaxed);
    size_t length = padded(bytes);
    assert(used + length + sizeof(struct undo_trailer) <= UNDO_BYTES_MAX);
    struct undo_trailer trailer = {
        .offset = (uint64_t)((const char *)at - (const char *)base),
        .bytes = bytes,
    };
    memcpy(log->records + used, at, bytes);
    memcpy(log->records + used + length, &trailer, sizeof(trailer));
    atomic_store_explicit(&log->used_bytes, used + length + sizeof(trailer), memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
}

void undo_commit(struct undo_log *log)
{
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&log->used_bytes, 0, memory_order_release);
}

size_t undo_used_bytes(const struct undo_log *log)
{
    return (size_t)atomic_load_explicit(&log->used_bytes, memory_order_relaxed);
}

void undo_roll_back(struct undo_log *log, void *base)
{
    uint64_t at = atomic_load_explicit(&log->used_bytes, memory_order_acquire);
    while (at > 0) {
        struct undo_trailer trailer;
        at -= sizeof(trailer);
        memcpy(&trailer, log->records + at, sizeof(trailer));
        at -= padded(trailer.bytes);
        memcpy((char *)base + trailer.offset, log->records + at, trailer.bytes);
    }
    undo_commit(log);
}
