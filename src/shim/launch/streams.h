/*
 * The streams that the process launches into. Each has a slot of the status page, where `started`
 * says what was handed to the driver and `completed` what the device has done of it (abi/page.h);
 * this keeps what else belongs to a slot. A stream is known from its first launch on, until it or
 * its context is destroyed.
 *
 * A slot whose stream was destroyed is given to another once it is idle; both numbers go on from
 * where they are.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/page.h"
#include "shim/hook/cuda_types.h"
#include "shim/sys/lock.h"

struct process;

enum {
    STREAMS_SHARED_SLOT =
        PAGE_STREAMS_MAX - 1, /* of streams beyond those with a slot of their own */
    STREAMS_MAX = STREAMS_SHARED_SLOT,
    STREAMS_CACHE = 64, /* a power of two */
    STREAMS_ENDING = 2, /* no stream's key: it is less than what a pointer is */
};

struct stream {
    /* What a launch needs, in a line of the cache. */
    _Atomic uint64_t key;          /* 0: the slot is free, or waits to be idle; or STREAMS_ENDING */
    _Atomic uint64_t launched;     /* `started`, as far as the driver has it */
    _Atomic uint64_t marked;       /* the last value that the device was told to write */
    _Atomic uint64_t unguarded_ns; /* launched since the last wait of keeper.h; 0: there was none */
    uint32_t slot;
    int32_t device;                /* index of devices.h, or negative */
    _Atomic uint32_t unmarked;     /* launches since the last mark */
    _Atomic uint32_t is_capturing; /* begun on this stream, and not ended */
    CUstream handle;               /* as the driver's calls without a variant take it */
    struct lock lock;              /* marks go to the driver in order */

    _Alignas(64) CUcontext context; /* NULL: not known */
    uint64_t ending_key;            /* the key that it had before, and may get back */
    _Atomic uint64_t collective;    /* `launched` with the last collective in it; 0: never one */
    _Atomic uint64_t given_up;      /* counts as completed: waited for, or for too long */
    _Atomic uint64_t given_up_at;   /* while `completed` is still this, what it was then */
};
_Static_assert(offsetof(struct stream, context) == 64, "what is before it is a line of the cache");

struct streams {
    struct lock lock;                     /* for a stream to come or go */
    _Atomic uint64_t sole_key;            /* of launch.sole, when it was last known; 0: never */
    _Atomic uint8_t cache[STREAMS_CACHE]; /* where a key was last found: a slot */
    struct stream slots[STREAMS_MAX];
};

/* The key, 0 without a context; *handle becomes one for calls without a variant. `is_per_thread`:
 * it is of a call for which stream 0 is the thread's own. */
uint64_t streams_key(struct process *p, CUstream *handle, bool is_per_thread);
/* The record of a stream, made if there is none. NULL if all slots are taken, the key is 0, or a
 * signal came while one was made. */
struct stream *streams_find_slowly(struct process *p, uint64_t key, CUstream handle);
/* Before the driver destroys it. */
void streams_forget(struct process *p, CUstream handle);
/* Before the driver may end the context: its streams get no more marks. */
void streams_begin_end(struct process *p, CUcontext context);
/* After that. They ended with it, with all that was outstanding; or they live on. */
void streams_finish_end(struct process *p, CUcontext context, bool has_ended);
/* The stream captures, or other streams' capture forbids to use it: nothing of the shim's may be
 * added. */
bool streams_is_capturing(struct process *p, CUstream handle);
/* A capture begins on the stream. False: one is open there. */
bool streams_begin_capture(struct process *p, struct stream *stream);
/* It has ended, if one was open. */
void streams_end_capture(struct process *p, struct stream *stream);
/* In a child. */
void streams_reset(struct streams *streams);

/* How far the stream counts as done, its mark being `completed`. */
static inline uint64_t streams_done(const struct stream *stream, uint64_t completed)
{
    uint64_t given_up = atomic_load_explicit(&stream->given_up, memory_order_relaxed);
    uint64_t given_up_at = atomic_load_explicit(&stream->given_up_at, memory_order_relaxed);
    return given_up > completed && given_up_at == completed ? given_up : completed;
}

/* Whether the driver may be given its handle. */
static inline bool streams_is_there(const struct stream *stream)
{
    return atomic_load_explicit(&stream->key, memory_order_acquire) > STREAMS_ENDING;
}

/* By its key: of a context, and not of a thread. */
static inline bool streams_is_default(uint64_t key)
{
    return (key & 3) == 1;
}

static inline uint32_t streams_place(uint64_t key)
{
    return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 58) & (STREAMS_CACHE - 1);
}
