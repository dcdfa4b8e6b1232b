/*
 * driver/ is libcuda.so.1 without the calls of memory/ and graph/: contexts, streams, events,
 * modules, launches, and the state of the process. It uses base, abi/, device/, mps/mps_join.h,
 * memory/ and graph/.
 *
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

/* Nodes of one graph, each once (graph.h). */
struct node_set {
    struct graph_node **nodes;
    size_t count, capacity;
};

/* The memory that graphs of this process hold on a device (graph_memory.c). */
struct graph_reserve {
    uint64_t opened;         /* visible_device.opened when the numbers below were true */
    uint64_t reserved_bytes; /* accounted to the device */
    uint64_t used_bytes;     /* of them, allocated now */
    uint64_t mapped_bytes; /* of them, behind the addresses of some graph, which need not be used */
    uint64_t reserved_high_bytes, mapped_high_bytes;
    unsigned mapping_count; /* graph_memory with a share in mapped_bytes */
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
    struct pool *default_pool; /* made when first asked for, then kept */
    struct pool *current_pool; /* set by the program, or NULL: the default one */
    struct graph_reserve graph_reserve;
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
    _Atomic uint64_t last_id;
    _Atomic uint64_t held_devices; /* bit i: there is a slot on devices[i] */
    struct allocations allocations;
    struct host_queue host_queue;
    struct list captures;           /* of struct capture */
    _Atomic unsigned capture_count; /* of them */
    uint64_t last_capture_id;
    struct list orphan_graphs;                          /* of struct graph (graph.c) */
    struct list pools;                                  /* of struct pool */
    struct list reservations, physicals, mapped_ranges; /* virtual_memory.c */
    struct hash_map host_memory;                        /* address → bytes, of cuMemHostAlloc */
    struct hash_map registered_memory;                  /* the same of cuMemHostRegister */
};

enum { CONTEXT_LIMITS = 3, STREAM_ATTRIBUTES = 11, STREAM_ATTRIBUTE_BYTES = 64 };

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
    struct node_set captured;  /* of the capture: what the next operation comes after */
    char attributes[STREAM_ATTRIBUTES][STREAM_ATTRIBUTE_BYTES]; /* kept, without effect */
    const struct thread_state *thread; /* whose default stream it is, or NULL */
    uint64_t id;
};

struct context {
    uint32_t magic;
    bool destroyed;
    bool is_primary;
    uint64_t id;
    uint64_t opened; /* how often it was opened: a primary context is one again after its end */
    unsigned ordinal;
    unsigned flags;
    size_t limits[CONTEXT_LIMITS]; /* 0: as they were at first */
    int cache_config;
    struct visible_device *visible;
    struct process *process;
    struct list link; /* process.contexts */
    struct list streams, events, modules, arrays, mipmapped_arrays;
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
    _Atomic unsigned references; /* the program's, and those of graphs */
    uint64_t capture_id;         /* of the capture it was last recorded in; 0: none */
    struct node_set captured;    /* and behind which nodes */
    struct event_share *share;   /* of an event between processes (ipc.c), or NULL */
};

/* module.c: what launch.c needs to know of a kernel. */
struct function {
    uint32_t magic;
    bool is_burn;    /* its parameters say what it costs (launch.c) */
    bool is_illegal; /* it does an illegal address (launch.h) */
    struct module *module;
    struct list link;                          /* module.functions */
    int dynamic_shared_bytes, shared_carveout; /* kept, without effect */
    struct ptx_entry entry;
};

/* process.c: the state behind this library, ready for use, or why not: CUDA_ERROR_NOT_INITIALIZED,
 * also in a child that was forked after cuInit. */
int process_ready(struct process **ret_process);

enum { CONTEXT_STACK_MAX = 32 };
struct context_stack {
    struct context *contexts[CONTEXT_STACK_MAX];
    unsigned depth;
};

/* What the driver knows of the calling thread. */
struct thread_state {
    struct context_stack stack;
    int capture_mode;     /* of cuThreadExchangeStreamCaptureMode */
    bool has_own_default; /* in a call for which stream 0 is the thread's own (per_thread.c) */
    bool is_watched;      /* its end will be noticed */
    struct context
        *own_context;    /* the context whose own stream was last asked for, its `opened`, */
    uint64_t own_opened; /* and that stream */
    struct stream *own_stream;
};
struct thread_state *process_thread(void);
/* Makes sure that stream_discard_thread() is called when the calling thread ends. */
void process_watch_thread(void);
/* Where the thread's stack of current contexts is. */
struct context_stack *process_context_stack(void);
/* A number that this process has not used before, from 1. */
uint64_t process_next_id(struct process *process);

/* context.c: the thread's current context, alive. CUDA_ERROR_INVALID_CONTEXT,
 * CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_NOT_INITIALIZED, or its error (context_error). */
int context_current(struct context **ret_context);
/* A context given by the program, alive; NULL is the current one. */
int context_resolve(struct context **context);
/* Waits for all that the process has launched on the context's device. */
int context_wait(struct context *context);
struct emu_client *context_client(const struct context *context);
/* The error that a living context has for good, or CUDA_SUCCESS. */
int context_error(const struct context *context);

/* stream.c */
/* Turns a handle from the program into a stream of a living context: 0 and CUDA_STREAM_LEGACY are
 * the current context's, CUDA_STREAM_PER_THREAD the thread's own there. For calls that cannot be
 * captured: one that captures gives CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the capture is
 * invalid. */
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
/* Ends the streams that a thread has had of its own. */
void stream_discard_thread(const struct thread_state *thread);

/* event.c, module.c: the same for those. */
void event_discard_all(struct context *context);
void event_discard(struct event *event); /* under process.lock */
int event_make(struct context *context, unsigned flags, struct event **ret_event);
/* The number of a record that the process itself will make. */
uint64_t event_reserve_record(struct event *event);
void module_discard_all(struct context *context);

/* memory.c: forgets the device memory of a context that ends; the slot's bytes are the caller's. */
void memory_discard_all(struct context *context);
