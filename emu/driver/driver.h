/*
 * driver/ is libcuda.so.1 without the calls of memory/ and graph/: contexts, streams, events,
 * modules, launches, and the state of the process. driver/ uses base, abi/, device/,
 * mps/mps_join.h, memory/ and graph/.
 *
 * This header is the state of the emulated driver in a process: visible devices, contexts, streams,
 * events and modules. process.lock protects a struct process; process_ready() finds that of this
 * library. Lock order: process.lock, stream.lock, a device's lock.
 *
 * Handles of the program are pointers to these structures. `magic` identifies a pointer that was
 * never a handle, or no longer is one, where that is possible without reading freed memory; for
 * that reason contexts are kept until the process ends.
 */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"
#include "emu/device/client.h"
#include "emu/device/device.h"
#include "emu/driver/calls.h"
#include "emu/driver/ptx.h"
#include "emu/memory/allocations.h"

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
    GRAPH_NODE_MAGIC = 0x6e746d78,
    USER_OBJECT_MAGIC = 0x75746d78,
    ARRAY_MAGIC = 0x61746d78,
    MIPMAPPED_ARRAY_MAGIC = 0x69746d78,
    DEAD_MAGIC = 0x64656164,
};

/* A set of nodes of one graph (graph.h). */
struct node_set {
    struct graph_node **nodes;
    size_t count, capacity;
};

/* The memory that graphs of this process hold on a device (graph_memory.c). */
struct graph_reserve {
    uint64_t opened;         /* visible_device.opened for which the numbers below are valid */
    uint64_t reserved_bytes; /* bytes charged to the device */
    uint64_t used_bytes;     /* part of reserved_bytes that is allocated */
    /* Part of reserved_bytes behind addresses of some graph, allocated or not. */
    uint64_t mapped_bytes;
    uint64_t reserved_high_bytes, mapped_high_bytes;
    unsigned mapping_count; /* graph memories that have a part of mapped_bytes */
};

/* A device as this process sees it; its number is its index after CUDA_VISIBLE_DEVICES. */
struct visible_device {
    struct device device;
    _Atomic uint64_t launches; /* launches of all streams; the source of emu_entry.order */
    /* Contexts on the device; the process holds the slot while this is above 0. */
    unsigned context_count;
    uint64_t opened;           /* number of times that the slot was taken */
    struct client_terms terms; /* terms on which the slot is taken */
    int lost_error;            /* error that outlives contexts; no context can be made any more */
    struct context *primary;   /* made at the first retain, then kept */
    unsigned primary_references;
    unsigned primary_flags;
    struct pool *default_pool; /* made at the first query, then kept */
    struct pool *current_pool; /* set by the program; NULL: the default pool */
    struct graph_reserve graph_reserve;
    uint64_t event_records[EMU_EVENTS_MAX]; /* by index: highest record number given out */
};

/* Work of streams for the host (host_work.c), and the thread that does the work. */
struct host_queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct list works; /* list of struct host_work */
    bool is_served;    /* the thread runs */
};

struct process {
    pthread_mutex_t lock;
    struct mapping mapping;
    struct visible_device devices[EMU_DEVICES_MAX];
    unsigned device_count;
    struct list contexts; /* list of struct context, including destroyed contexts */
    _Atomic uint64_t last_id;
    _Atomic uint64_t held_devices; /* bit i: the process holds a slot on devices[i] */
    struct allocations allocations;
    struct host_queue host_queue;
    struct list captures;           /* list of struct capture */
    _Atomic unsigned capture_count; /* length of `captures` */
    uint64_t last_capture_id;
    struct list orphan_graphs;                          /* list of struct graph (graph.c) */
    struct list pools;                                  /* list of struct pool */
    struct list reservations, physicals, mapped_ranges; /* lists of virtual_memory.c */
    struct hash_map host_memory;                        /* address → bytes, for cuMemHostAlloc */
    struct hash_map registered_memory; /* address → bytes, for cuMemHostRegister */
};

enum { CONTEXT_LIMITS = 3, STREAM_ATTRIBUTES = 11, STREAM_ATTRIBUTE_BYTES = 64 };

struct stream {
    uint32_t magic;
    unsigned index; /* index in the client's slot */
    struct context *context;
    struct list link;     /* link in context.streams; unused in the legacy stream */
    pthread_mutex_t lock; /* one producer at a time */
    unsigned flags;
    int priority;
    /* Taken before `lock`, around gate and the entries of one host work. */
    pthread_mutex_t host_lock;
    struct event *gate;       /* NULL: the stream never had host work */
    struct capture *capture;  /* NULL: the stream does not capture */
    struct node_set captured; /* nodes of the capture after which the next operation comes */
    char attributes[STREAM_ATTRIBUTES][STREAM_ATTRIBUTE_BYTES]; /* stored without effect */
    const struct thread_state *thread; /* thread whose default stream this is, or NULL */
    uint64_t id;
};

struct context {
    uint32_t magic;
    bool destroyed;
    bool is_primary;
    uint64_t id;
    uint64_t opened; /* times opened: a primary context can be opened again after its end */
    unsigned ordinal;
    unsigned flags;
    size_t limits[CONTEXT_LIMITS]; /* 0: initial value */
    int cache_config;
    struct visible_device *visible;
    struct process *process;
    struct list link; /* link in process.contexts */
    struct list streams, events, modules, arrays, mipmapped_arrays;
    struct stream legacy;
};

struct event {
    uint32_t magic;
    unsigned index; /* index in the client's slot */
    struct context *context;
    struct list link; /* link in context.events */
    unsigned flags;
    uint64_t records;            /* records of this event; 0: never recorded */
    uint64_t records_before;     /* records of earlier events with this index */
    unsigned stream;             /* index of the last record's stream */
    uint64_t stream_position;    /* number of entries in that stream up to the record */
    _Atomic unsigned references; /* one for the program, and one for each use in a graph */
    uint64_t capture_id;         /* capture of the last record; 0: none */
    struct node_set captured;    /* nodes of that capture before the record */
    struct event_share *share;   /* shared state of an event between processes (ipc.c), or NULL */
};

/* module.c: a kernel, as launch.c needs it. */
struct function {
    uint32_t magic;
    bool is_burn;    /* its parameters give its cost (launch.c) */
    bool is_illegal; /* it accesses an illegal address (launch.h) */
    struct module *module;
    struct list link;                          /* link in module.functions */
    int dynamic_shared_bytes, shared_carveout; /* stored without effect */
    struct ptx_entry entry;
};

/* process.c: finds the state of this library, ready for use. CUDA_ERROR_NOT_INITIALIZED before
 * cuInit, and in a child that was forked after cuInit. */
int process_ready(struct process **ret_process);

enum { CONTEXT_STACK_MAX = 32 };
struct context_stack {
    struct context *contexts[CONTEXT_STACK_MAX];
    unsigned depth;
};

/* The driver's state of the calling thread. */
struct thread_state {
    struct context_stack stack;
    int capture_mode; /* mode of cuThreadExchangeStreamCaptureMode */
    /* In a call in which stream 0 is the per-thread default stream (per_thread.c). */
    bool has_own_default;
    bool is_watched;             /* process_watch_thread() was called */
    struct context *own_context; /* context of the thread's latest own stream */
    uint64_t own_opened;         /* `opened` of that context */
    struct stream *own_stream;   /* the thread's latest own stream */
};
struct thread_state *process_thread(void);
/* Ensures that stream_discard_thread() is called when the calling thread ends. */
void process_watch_thread(void);
/* Returns the thread's stack of current contexts. */
struct context_stack *process_context_stack(void);
/* Returns a number that this process has not used before, from 1. */
uint64_t process_next_id(struct process *process);

/* context.c: finds the thread's current context, alive. Errors: CUDA_ERROR_INVALID_CONTEXT,
 * CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_NOT_INITIALIZED, or its error (context_error). */
int context_current(struct context **ret_context);
/* Checks that a context given by the program is alive; NULL becomes the current context. */
int context_resolve(struct context **context);
/* Waits for all work that the process has launched on the context's device. */
int context_wait(struct context *context);
struct emu_client *context_client(const struct context *context);
/* Returns the permanent error of a living context, or CUDA_SUCCESS. */
int context_error(const struct context *context);

/* stream.c: turns a handle of the program into a stream of a living context. 0 and
 * CUDA_STREAM_LEGACY are the current context's, CUDA_STREAM_PER_THREAD is the thread's own. For
 * calls that cannot be captured: a capturing stream gives CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED and
 * an invalid capture. */
int stream_resolve(struct stream *handle, struct stream **ret_stream);
/* Like stream_resolve(), for calls that handle a capturing stream. */
int stream_resolve_capturing(struct stream *handle, struct stream **ret_stream);
void stream_init(struct stream *stream, struct context *context, unsigned index, unsigned flags,
                 int priority);
/* Queues a copy of *entry, filling in its time and order; waits while the queue is full. Otherwise
 * makes no system call and takes no lock shared with other processes. ret_position may be NULL: the
 * number of entries up to and including this one, for stream_wait(). */
int stream_push(struct stream *stream, const struct emu_entry *entry, uint64_t *ret_position);
/* Waits until the first `position` entries ever queued in the context's stream number `index` have
 * finished. Positions continue when the number goes to another stream meanwhile. */
int stream_wait(struct context *context, unsigned index, uint64_t position);
uint64_t stream_tail(const struct stream *stream);
/* Frees the streams of a context that ends, without changing the slot. */
void stream_discard_all(struct context *context);
/* Ends the per-thread default streams of a thread. */
void stream_discard_thread(const struct thread_state *thread);

/* event.c, module.c: free the events and modules of a context that ends. */
void event_discard_all(struct context *context);
void event_discard(struct event *event); /* call under process.lock */
int event_make(struct context *context, unsigned flags, struct event **ret_event);
/* Returns the number of a record that the process itself will make. */
uint64_t event_reserve_record(struct event *event);
void module_discard_all(struct context *context);

/* memory.c: forgets the device memory of a context that ends; the caller returns the slot's
 * bytes. */
void memory_discard_all(struct context *context);
