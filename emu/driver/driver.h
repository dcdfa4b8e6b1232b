/*
 * driver/ implements libcuda.so.1, except the calls of memory/ and graph/: contexts, streams,
 * events, modules, launches, and the state of the process. driver/ uses base, abi/, device/,
 * mps/mps_join.h, memory/ and graph/.
 *
 * This header declares the state of the emulated driver in a process: visible devices, contexts,
 * streams, events and modules. process.lock protects a struct process; process_ready() finds the
 * library's own struct process. Lock order: process.lock, stream.lock, a device's lock.
 *
 * Handles of the program are pointers to these structures. The driver detects invalid handles by
 * their `magic`, as far as possible without reading freed memory. To make more checks possible, the
 * driver frees contexts only when the process ends.
 *
 * This folder contains the contexts, streams and launches of the emulated driver. Files of the
 * folder emu/driver may include base, abi, emu/abi, emu/device, emu/memory, emu/graph.
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

/* The memory of this process's graphs on a device (graph_memory.c). */
struct graph_reserve {
    uint64_t opened;         /* visible_device.opened for which the numbers below are valid */
    uint64_t reserved_bytes; /* bytes charged to the device */
    uint64_t used_bytes;     /* part of reserved_bytes that is allocated */
    /* Part of reserved_bytes that is mapped at addresses of graphs, allocated or not. */
    uint64_t mapped_bytes;
    uint64_t reserved_high_bytes, mapped_high_bytes;
    unsigned mapping_count; /* number of struct graph_memory with a part of mapped_bytes */
};

/* A device as this process sees the device, numbered in the order of CUDA_VISIBLE_DEVICES. */
struct visible_device {
    struct device device;
    _Atomic uint64_t launches; /* launches of all streams; the source of emu_entry.order */
    /* Number of contexts on the device; above 0, the process has a slot. */
    unsigned context_count;
    uint64_t opened;           /* number of times that the slot was taken */
    struct client_terms terms; /* terms on which the slot is taken */
    int lost_error;            /* error that outlives contexts and prevents new contexts */
    struct context *primary;   /* created at the first retain, then kept */
    unsigned primary_references;
    unsigned primary_flags;
    struct pool *default_pool; /* created at the first query, then kept */
    struct pool *current_pool; /* set by the program; NULL: the default pool */
    struct graph_reserve graph_reserve;
    uint64_t event_records[EMU_EVENTS_MAX]; /* by index: highest assigned record number */
};

/* Work of streams on the host (host_work.c), and the thread that does this work. */
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
    _Atomic uint64_t held_devices; /* bit i: the process has a slot on devices[i] */
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

enum { CONTEXT_LIMITS = 3, STREAM_ATTRIBUTES = 11 };

struct stream {
    uint32_t magic;
    unsigned index; /* index in the client's slot */
    struct context *context;
    struct list link;     /* link in context.streams; unused in the legacy stream */
    pthread_mutex_t lock; /* one producer at a time */
    unsigned flags;
    int priority;
    /* Protects `gate` and the entries of one host operation; taken before `lock`. */
    pthread_mutex_t host_lock;
    struct event *gate;       /* NULL: the stream never had host work */
    struct capture *capture;  /* NULL: the stream does not capture */
    struct node_set captured; /* captured nodes on which the next operation depends */
    CUstreamAttrValue attributes[STREAM_ATTRIBUTES]; /* stored without effect */
    const struct thread_state *thread; /* owner of a per-thread default stream, or NULL */
    uint64_t id;
};

struct context {
    uint32_t magic;
    bool destroyed;
    bool is_primary;
    uint64_t id;
    /* Number of times opened: a primary context can be opened again after its end. */
    uint64_t opened;
    unsigned ordinal;
    unsigned flags;
    size_t limits[CONTEXT_LIMITS]; /* 0: the initial value */
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
    uint64_t records;            /* number of records of this event; 0: never recorded */
    uint64_t records_before;     /* number of records of earlier events with this index */
    unsigned stream;             /* index of the last record's stream */
    uint64_t stream_position;    /* number of entries in that stream up to the record */
    _Atomic unsigned references; /* the program's reference, and one reference per graph node */
    uint64_t capture_id;         /* capture of the last record; 0: none */
    struct node_set captured;    /* nodes of that capture before the record */
    struct event_share *share;   /* shared state of an event between processes (ipc.c), or NULL */
};

/* module.c: a kernel, as launch.c needs it. */
struct function {
    uint32_t magic;
    bool is_burn;    /* the kernel's parameters state its cost (launch.c) */
    bool is_illegal; /* the kernel accesses an illegal address (launch.h) */
    struct module *module;
    struct list link;                          /* link in module.functions */
    int dynamic_shared_bytes, shared_carveout; /* stored without effect */
    struct ptx_entry entry;
};

/* process.c: finds the state of this library, ready for use. Returns CUDA_ERROR_NOT_INITIALIZED
 * before cuInit, and in a child that was forked after cuInit. */
int process_ready(struct process **ret_process);
/* Like process_ready(), and finds a device of the process. Returns CUDA_ERROR_INVALID_DEVICE beyond
 * the last device. */
int process_device(int ordinal, struct process **ret_process, struct visible_device **ret_visible);

enum { CONTEXT_STACK_MAX = 32 };
struct context_stack {
    struct context *contexts[CONTEXT_STACK_MAX];
    unsigned depth;
};

/* The driver's state of the calling thread. */
struct thread_state {
    struct context_stack stack;
    int capture_mode; /* mode of cuThreadExchangeStreamCaptureMode */
    /* The present call treats stream 0 as the per-thread default stream (per_thread.c). */
    bool has_own_default;
    bool is_watched;             /* process_watch_thread() was called */
    struct context *own_context; /* context of the thread's latest own stream */
    uint64_t own_opened;         /* `opened` of that context */
    struct stream *own_stream;   /* the thread's latest own stream */
};
struct thread_state *process_thread(void);
/* Ensures a call of stream_discard_thread() when the calling thread ends. */
void process_watch_thread(void);
/* Returns the thread's stack of current contexts. */
struct context_stack *process_context_stack(void);
/* Returns a number that this process has not used before, from 1. */
uint64_t process_next_id(struct process *process);

/* context.c: finds the thread's current context and checks that the context is alive. Errors:
 * CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_NOT_INITIALIZED, or the
 * context's own error (context_error()). */
int context_current(struct context **ret_context);
/* Checks that a context given by the program is alive; NULL becomes the current context. */
int context_resolve(struct context **context);
/* Waits for all work that the process has launched on the context's device. */
int context_wait(struct context *context);
struct emu_client *context_client(const struct context *context);
/* Returns the permanent error of a living context, or CUDA_SUCCESS. */
int context_error(const struct context *context);

/* stream.c: turns a handle of the program into a stream of a living context. 0 and
 * STREAM_LEGACY are the current context's legacy stream, STREAM_PER_THREAD is the
 * thread's own stream. For calls that cannot be captured: for a capturing stream, invalidates the
 * capture and returns CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED. */
int stream_resolve(struct stream *handle, struct stream **ret_stream);
/* Like stream_resolve(), for calls that handle a capturing stream. */
int stream_resolve_capturing(struct stream *handle, struct stream **ret_stream);
void stream_init(struct stream *stream, struct context *context, unsigned index, unsigned flags,
                 int priority);
/* Queues a copy of *entry with its time and order; waits while the queue is full. Unless the queue
 * is full, makes no system call and takes no lock shared with other processes. Sets *ret_position
 * to the number of entries up to and including the new entry, for stream_wait(); ret_position may
 * be NULL. */
int stream_push(struct stream *stream, const struct emu_entry *entry, uint64_t *ret_position);
/* Waits until the first `position` entries ever queued in the context's stream number `index` have
 * finished. If another stream gets the number meanwhile, positions continue. */
int stream_wait(struct context *context, unsigned index, uint64_t position);
uint64_t stream_tail(const struct stream *stream);
/* Frees the streams of a context that ends; the slot keeps its state. */
void stream_discard_all(struct context *context);
/* Ends the per-thread default streams of a thread. */
void stream_discard_thread(const struct thread_state *thread);

/* event.c, module.c: free the events and modules of a context that ends. */
void event_discard_all(struct context *context);
void event_discard(struct event *event); /* call under process.lock */
int event_make(struct context *context, unsigned flags, struct event **ret_event);
/* Returns the number for a record that the process itself will write. */
uint64_t event_reserve_record(struct event *event);
void module_discard_all(struct context *context);

/* memory.c: forgets the device memory of a context that ends; the caller returns the slot's
 * bytes. */
void memory_discard_all(struct context *context);
