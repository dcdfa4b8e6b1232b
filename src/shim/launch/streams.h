/*
 * The streams that the process launches into. Each stream has a slot of the status page, where
 * `started` is the work handed to the driver and `completed` the work that the device has done
 * (abi/page.h); struct stream is the rest of a slot's state. The shim knows a stream from its first
 * launch until the stream or its context is destroyed.
 *
 * The slot of a destroyed stream is reused once the slot is idle; `started` and `completed`
 * continue from their values.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/page.h"
#include "abi/cuda.h"
#include "shim/sys/lock.h"

struct process;

enum {
    /* Slot shared by all streams that have no slot of their own. */
    STREAMS_SHARED_SLOT = PAGE_STREAMS_MAX - 1,
    STREAMS_MAX = STREAMS_SHARED_SLOT,
    STREAMS_CACHE = 64, /* a power of two */
    STREAMS_ENDING = 2, /* key that no stream has: smaller than any pointer */
};

struct stream {
    /* Fields that a launch needs, in one cache line. */
    _Atomic uint64_t key;      /* 0: the slot is free, or will be when idle; or STREAMS_ENDING */
    _Atomic uint64_t launched; /* part of `started` that was launched */
    _Atomic uint64_t marked;   /* value of the latest mark put into the stream */
    _Atomic uint64_t unguarded_ns; /* GPU time since the last wait (keeper.h); 0: no wait yet */
    uint32_t slot;
    int32_t device;                /* index of devices.h, or negative */
    _Atomic uint32_t unmarked;     /* launches since the last mark */
    _Atomic uint32_t is_capturing; /* a capture began on this stream and has not ended */
    CUstream handle;               /* handle for driver calls without a per-thread variant */
    struct lock lock; /* protects the writing of marks, so that marks reach the driver in order */

    _Alignas(64) CUcontext context; /* NULL: unknown */
    uint64_t ending_key;            /* earlier key, which the stream may get back */
    _Atomic uint64_t collective;    /* `launched` including the latest collective; 0: none */
    _Atomic uint64_t given_up;      /* value up to which work counts as completed without a mark */
    _Atomic uint64_t given_up_at;   /* value of `completed` for which given_up holds */
};
_Static_assert(offsetof(struct stream, context) == 64, "fields before `context` fill a cache line");

struct streams {
    struct lock lock;          /* protects adding and removing streams */
    _Atomic uint64_t sole_key; /* latest key of the stream in launch.sole; 0: never known */
    _Atomic uint8_t cache[STREAMS_CACHE]; /* by streams_place(): latest slot of a key */
    struct stream slots[STREAMS_MAX];
};

/* Returns the stream's key, or 0 without a context. Sets *handle to the handle for driver calls
 * without a per-thread variant. `is_per_thread`: the program's call treats stream 0 as the
 * per-thread default stream. */
uint64_t streams_key(struct process *p, CUstream *handle, bool is_per_thread);
/* Returns the record of a stream, and creates the record if necessary. Returns NULL if all slots
 * are taken, if the key is 0, or in a signal handler that interrupted this function. */
struct stream *streams_find_slowly(struct process *p, uint64_t key, CUstream handle);
/* Forgets the stream, before the driver destroys the stream. */
void streams_forget(struct process *p, CUstream handle);
/* Stops marking the streams of a context, before the driver may end the context. */
void streams_begin_end(struct process *p, CUcontext context);
/* Ends streams_begin_end(). has_ended: the context ended with its streams and all outstanding work;
 * otherwise the streams continue. */
void streams_finish_end(struct process *p, CUcontext context, bool has_ended);
/* Returns whether the stream captures, or another stream's capture forbids its use. The shim must
 * then add nothing to the stream. */
bool streams_is_capturing(struct process *p, CUstream handle);
/* Notes that a capture begins on the stream. Returns false if a capture is already open there. */
bool streams_begin_capture(struct process *p, struct stream *stream);
/* Notes the end of the stream's capture, if a capture was open. */
void streams_end_capture(struct process *p, struct stream *stream);
/* Resets the state in a forked child. */
void streams_reset(struct streams *streams);

/* Returns the value of `started` up to which the stream's work counts as done. `completed` is the
 * stream's latest mark. */
static inline uint64_t streams_done(const struct stream *stream, uint64_t completed)
{
    uint64_t given_up = atomic_load_explicit(&stream->given_up, memory_order_relaxed);
    uint64_t given_up_at = atomic_load_explicit(&stream->given_up_at, memory_order_relaxed);
    return given_up > completed && given_up_at == completed ? given_up : completed;
}

/* Returns whether the stream's handle may be passed to the driver. */
static inline bool streams_is_there(const struct stream *stream)
{
    return atomic_load_explicit(&stream->key, memory_order_acquire) > STREAMS_ENDING;
}

/* Returns whether the key belongs to a context's default stream, not to a thread's. */
static inline bool streams_is_default(uint64_t key)
{
    return (key & 3) == 1;
}

static inline uint32_t streams_place(uint64_t key)
{
    return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 58) & (STREAMS_CACHE - 1);
}
