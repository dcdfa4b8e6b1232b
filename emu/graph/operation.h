/*
 * What a stream can be asked to do, as a value. It is done (queued) at once, or, on a stream that
 * captures, becomes a node of a graph and is done by each launch of that graph. Inside libcuda.so.1
 * only.
 */
#pragma once
#include "emu/driver/driver.h"

enum { OPERATION_WORDS_MAX = 256 }; /* words of memory written or waited for by one operation */

/* A kernel with its parameters, as it will be launched. */
struct kernel_call {
    struct cuda_kernel_node as_given; /* `parameters` point into the operation's own memory */
    struct emu_entry cost;
    bool cooperative;
};

struct operation {
    enum cuda_node_type type;
    union {
        struct kernel_call kernel;
        struct cuda_copy_3d copy;
        struct cuda_fill_node fill;
        struct cuda_host_node host;
        struct event *event;         /* a reference */
        struct graph_memory *memory; /* a reference; of CUDA_NODE_ALLOCATE and CUDA_NODE_FREE */
        struct graph *graph;         /* owned */
        struct {
            struct cuda_word_operation *list; /* owned */
            unsigned count;
        } words;
    };
};

/* Queues it in the stream or, if that captures, adds it to the graph. */
int operation_submit(struct stream *handle, const struct operation *operation);
/* The same for a stream that is known. */
int operation_submit_to(struct stream *stream, const struct operation *operation);
/* Queues it; the stream does not capture. */
int operation_run(struct stream *stream, const struct operation *operation);
/* A copy that owns what it holds: CUDA_SUCCESS or CUDA_ERROR_OUT_OF_MEMORY. */
int operation_copy(const struct operation *from, struct operation *ret_operation);
/* Under no lock: gives back what a copy holds. */
void operation_done(struct operation *operation);

/* launch.c: checks a kernel's shape and parameters and says what it costs on the device.
 * `parameters` and `extra` of as_given may be the program's own. */
int launch_prepare(const struct visible_device *visible, struct kernel_call *call);

/* copy.c, fill.c. Whether they are possible, and doing them. */
int copy_check(const struct cuda_copy_3d *copy);
int copy_run(struct stream *stream, const struct cuda_copy_3d *copy, bool wait);
int fill_check(const struct cuda_fill_node *fill);
int fill_run(struct stream *stream, const struct cuda_fill_node *fill);

/* host_work.c. */
int host_work_call(struct stream *stream, const struct cuda_host_node *host);
int host_work_word(struct stream *stream, const struct cuda_word_operation *word);
int host_work_check_word(const struct cuda_word_operation *word);
/* The stream waits until an event of another device has had that record. */
int host_work_wait_event(struct stream *stream, struct event *event, uint64_t record);
/* The stream writes the word that belongs to the event, or waits until it is `value` or more. */
int host_work_flag(struct stream *stream, struct event *event, _Atomic uint64_t *word,
                   uint64_t value, bool wait);

/* event.c. */
int event_resolve(const struct event *event);
int event_record_run(struct event *event, struct stream *stream);
int event_wait_run(struct stream *stream, struct event *event);
struct event *event_retain(struct event *event);
void event_release(struct event *event);

/* graph_memory.c: memory that a graph allocates. Its address is fixed from the start, device memory
 * is behind it from a launch of the node that allocates it to one that frees it. */
int graph_memory_make(struct context *context, size_t bytes, struct graph_memory **ret_memory);
struct graph_memory *graph_memory_retain(struct graph_memory *memory);
void graph_memory_release(struct graph_memory *memory);
uint64_t graph_memory_address(const struct graph_memory *memory);
int graph_memory_ordinal(const struct graph_memory *memory); /* of its device */
size_t graph_memory_bytes(const struct graph_memory *memory);
/* The memory that starts there, or NULL. */
struct graph_memory *graph_memory_find(struct process *process, uint64_t address);
/* CUDA_ERROR_INVALID_VALUE when it is there already, or not. */
int graph_memory_allocate(struct graph_memory *memory);
int graph_memory_free(struct graph_memory *memory);
bool graph_memory_is_allocated(const struct graph_memory *memory);
