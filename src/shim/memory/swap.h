/*
 * A swappable task gives way: the shim moves the contents of chunks (chunks.h) to host memory and
 * releases the device memory, so that a service can allocate it. Later the shim moves the contents
 * back, to the same addresses.
 *
 *   open ── away_bytes of the limits page grew ─▶ closing ── all work is done ──────▶ shut
 *    ▲                                              │                                 │
 *    ├───────────── work outlasts SWAP_DRAIN_MS ────┘                                 │
 *    └───────────── away_bytes is 0, and all memory is back on the device ────────────┘
 *
 * While not open, threads wait at the beginning of each call that could start work or change
 * memory; a thread inside such a call is counted, and the move waits for it. Partial moves are
 * useless to the task, which cannot run without all its memory, so a task returns as a whole.
 *
 * A thread of the shim makes the moves. If the process ends, the thread stops between two pieces.
 * Calls fail then instead of waiting, unless all memory is on the device: a kernel that finds its
 * memory missing would be a fault, which harms all clients of MPS.
 *
 * Host memory. The contents go through pinned buffers (SWAP_BUFFER_BYTES for each copying thread,
 * made ahead) to ordinary memory, which is taken during the move and freed after it. Pinned memory
 * for the whole task would be faster (50 GiB/s), but to pin 8 GiB takes 3 s, and pinned memory that
 * is made ahead is lost to everybody else all the time. Several threads copy at the same time,
 * since one thread moves only about 5 GiB/s into fresh memory.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/cuda.h"
#include "shim/sys/lock.h"

struct process;
struct chunk;

enum {
    SWAP_COPIERS_MAX = 8,
    SWAP_BUFFER_BYTES = 8 << 20,
    SWAP_DRAIN_MS = 1000, /* longest wait for outstanding work before a move is given up */
    SWAP_AGAIN_MS = 100,  /* pause after a move that failed */
    SWAP_LOOK_MS = 100,   /* interval of checks for a new agent, besides the futex */
};

enum swap_state { SWAP_OPEN = 0, SWAP_CLOSING, SWAP_SHUT };

/* A thread that copies. */
struct swap_copier {
    CUstream stream;
    void *buffer; /* pinned */
};

struct swap {
    _Atomic uint32_t state;      /* enum swap_state; waiting threads sleep on this word */
    _Atomic uint32_t is_started; /* the thread exists, or could not be started */
    _Atomic uint32_t is_over;    /* the process ends: no further move */
    _Atomic uint64_t inside;     /* threads inside calls that wait for the gate */
    _Atomic uint64_t closing_ns; /* time at which the state became closing */
    struct lock moving;          /* held during a move, and while a context ends */
    CUcontext context;           /* context of the copiers; NULL: not made */
    uint32_t copier_count;
    struct swap_copier copiers[SWAP_COPIERS_MAX];
};

/* Starts the thread if there is none. Call with a current context, after an allocation. */
void swap_start(struct process *p);

/* For swap_enter() and swap_leave() (process.h). */
bool swap_enter_slowly(struct process *p);
void swap_leave_slowly(struct process *p);

/* Call before the driver may end a context: waits for the end of a move. Returns whether the caller
 * must call swap_finish_end(). */
bool swap_begin_end(struct process *p);
/* has_ended: the context ended, with its chunks. */
void swap_finish_end(struct process *p, CUcontext context, bool has_ended);
/* Ends the moves, since the process ends: returns when no move is under way, at latest at
 * until_ns. */
void swap_end(struct process *p, uint64_t until_ns);
/* Resets the state in a forked child. */
void swap_reset(struct swap *swap);

/* ---- swap_copy.c ---- */

/* One chunk to copy. */
struct swap_job {
    uint64_t address, bytes;
    void *host;
};
/* Makes the copiers for a context, which must be current. Returns false if the driver refuses. */
bool swap_make_copiers(struct process *p, CUcontext context);
/* Copies all jobs to host memory, or from it. Returns false if a copy failed, or the process ends:
 * the destination is then incomplete. */
bool swap_copy(struct process *p, const struct swap_job *jobs, size_t count, bool is_out);
