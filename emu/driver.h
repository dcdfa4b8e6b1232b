/*
 * What a process keeps of the emulated driver: the visible devices, contexts, streams, events,
 * modules. A struct process hangs together under its lock; the one of this library is found by
 * process_ready(). Lock order: process.lock, stream.lock, a device's lock.
 *
 * Handles given to the program are pointers to these structures. A handle that was never one, or is
 * one no more, is recognised by its `magic` where that can be done without reading freed memory
 * (contexts are kept until the process ends for that reason).
 */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"
#include "emu/cuda_abi.h"
#include "emu/allocations.h"
#include "emu/client.h"
#include "emu/device.h"
#include "emu/ptx.h"

enum driver_magic {
    CONTEXT_MAGIC = 0x63746d78,
    STREAM_MAGIC = 0x73746d78,
    EVENT_MAGIC = 0x65746d78,
    MODULE_MAGIC = 0x6d746d78,
    FUNCTION_MAGIC = 0x66746d78,
    POOL_MAGIC = 0x70746d78,
    LIBRARY_MAGIC = 0x6c746d78,
    PHYSICAL_MAGIC = 0x79746d78,
    GRAPH_MAGIC = 0x67746d78,
    GRAPH_EXEC_MAGIC = 0x78746d78,
    DEAD_MAGIC = 0x64656164,
};

/* A device as this process sees it; its number is its place after CUDA_VISIBLE_DEVICES. */
struct visible_device {
    struct device device;
    _Atomic uint64_t launches; /* over all streams; the source of emu_entry.order */
    unsigned context_count;    /* the slot is held while it is above 0 */
    uint64_t opened;           /* how often the slot was taken */
    struct client_terms terms; /* on which it is taken */
    int lost_error;            /* an error that outlives contexts; then none can be made */
    struct context *primary;   /* made at the first retain, then kept */
    unsigned primary_references;
    unsigned primary_flags;
    struct pool *default_pool;              /* made when first asked for, then kept */
    struct pool *current_pool;              /* set by the program, or NULL: the default one */
    uint64_t event_records[EMU_EVENTS_MAX]; /* the highest record number given out, by index */
};

/* Work of streams for the host (host_work.c), and the thread that does it. */
struct host_queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct list works; /* of struct host_work */
    bool is_served;    /* the thread runs */
};

struct process {
    pthread_mutex_t lock;
    struct mapping mapping;
    struct visible_device devices[EMU_DEVICES_MAX];
    unsigned device_count;
    struct list contexts; /* of struct context, destroyed ones too */
    struct allocations allocations;
    struct host_queue host_queue;
    struct list captures;                               /* of struct capture */
    struct list pools;                                  /* of struct pool */
    struct list reservations, physicals, mapped_ranges; /* virtual_memory.c */
    struct hash_map host_memory;                        /* address → bytes, of cuMemHostAlloc */
    struct hash_map registered_memory;                  /* the same of cuMemHostRegister */
};

struct stream {
    uint32_t magic;
    unsigned index; /* in the client's slot */
    struct context *context;
    struct list link;     /* context.streams; the legacy stream is in no list */
    pthread_mutex_t lock; /* one producer at a time */
    unsigned flags;
    int priority;
    pthread_mutex_t host_lock; /* before `lock`; around gate and the entries of one host work */
    struct event *gate;        /* NULL: never had host work */
    struct capture *capture;   /* NULL: it does not capture */
};

struct context {
    uint32_t magic;
    bool destroyed;
    bool is_primary;
    unsigned ordinal;
    unsigned flags;
    struct visible_device *visible;
    struct process *process;
    struct list link; /* process.contexts */
    struct list streams, events, modules;
    struct stream legacy;
};

struct event {
    uint32_t magic;
    unsigned index; /* in the client's slot */
    struct context *context;
    struct list link; /* context.events */
    unsigned flags;
    uint64_t records;        /* how often it was recorded; 0: never in this life */
    uint64_t records_before; /* of earlier events with this index */
    unsigned stream;         /* where it was last recorded, and behind how many entries */
    uint64_t stream_position;
};

/* module.c: what launch.c needs to know of a kernel. */
struct function {
    uint32_t magic;
    bool is_burn;    /* its parameters say what it costs (launch.c) */
    bool is_illegal; /* it does an illegal address (launch.h) */
    struct module *module;
    struct list link; /* module.functions */
    struct ptx_entry entry;
};

/* process.c: the state behind this library, ready for use, or why not: CUDA_ERROR_NOT_INITIALIZED,
 * also in a child that was forked after cuInit. */
int process_ready(struct process **ret_process);
/* Where the thread's stack of current contexts is. */
struct context_stack *process_context_stack(void);

enum { CONTEXT_STACK_MAX = 32 };
struct context_stack {
    struct context *contexts[CONTEXT_STACK_MAX];
    unsigned depth;
};

/* context.c: the thread's current context, alive. CUDA_ERROR_INVALID_CONTEXT,
 * CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_NOT_INITIALIZED, or its error (context_error). */
int context_current(struct context **ret_context);
struct emu_client *context_client(const struct context *context);
/* The error that a living context has for good, or CUDA_SUCCESS. */
int context_error(const struct context *context);

/* stream.c */
/* Turns a handle from the program into a stream of a living context: 0 and CUDA_STREAM_LEGACY are
 * the current context's. CUDA_ERROR_NOT_SUPPORTED for one that captures: few calls can be. */
int stream_resolve(struct stream *handle, struct stream **ret_stream);
/* The same for calls that know what to do with a stream that captures. */
int stream_resolve_capturing(struct stream *handle, struct stream **ret_stream);
void stream_init(struct stream *stream, struct context *context, unsigned index, unsigned flags,
                 int priority);
/* Queues a copy of *entry (its time and order are filled in); waits while the queue is full. No
 * lock shared with other processes and no system call unless it is. ret_position, if not NULL: the
 * number of entries up to and with it, for stream_wait. */
int stream_push(struct stream *stream, const struct emu_entry *entry, uint64_t *ret_position);
/* Returns when the first `position` entries ever queued in the context's stream number `index` have
 * finished. The number may meanwhile go to another stream: positions go on. */
int stream_wait(struct context *context, unsigned index, uint64_t position);
uint64_t stream_tail(const struct stream *stream);
/* Frees the process's side, without touching the slot: for a context that ends. */
void stream_discard_all(struct context *context);

/* event.c, module.c: the same for those. */
void event_discard_all(struct context *context);
void event_discard(struct event *event); /* under process.lock */
int event_make(struct context *context, unsigned flags, struct event **ret_event);
/* The number of a record that the process itself will make. */
uint64_t event_reserve_record(struct event *event);
void module_discard_all(struct context *context);

/* graph.c: captures. */
int capture_add(struct stream *stream, const struct emu_entry *entry);
/* A call that makes no sense on a stream that captures: ends the capture's use, and says so. */
int capture_refuse(struct stream *stream);
/* Before a call that could disturb a capture, by the capture's mode: CUDA_SUCCESS, or it is refused
 * and the captures are invalid. */
int capture_check_unsafe(struct process *process);
void capture_discard(struct stream *stream); /* under process.lock */

/* memory.c: forgets the device memory of a context that ends; the slot's bytes are the caller's. */
void memory_discard_all(struct context *context);
