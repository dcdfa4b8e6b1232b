/*
 * An operation of a stream, as a value. A stream queues an operation at once; a capturing stream
 * adds the operation to a graph as a node, and each launch of the graph queues the operation.
 * Internal to libcuda.so.1.
 */
#pragma once
#include "emu/driver/driver.h"

enum { OPERATION_WORDS_MAX = 256 }; /* words that one operation writes or waits for */

/* A kernel with its parameters, ready for launch. */
struct kernel_call {
    CUDA_KERNEL_NODE_PARAMS as_given; /* `kernelParams` point into the operation's own memory */
    struct emu_entry cost;
    bool cooperative;
};

struct operation {
    enum cuda_node_type type;
    union {
        struct kernel_call kernel;
        CUDA_MEMCPY3D copy;
        CUDA_MEMSET_NODE_PARAMS fill;
        CUDA_HOST_NODE_PARAMS host;
        struct event *event;         /* a counted reference */
        struct graph_memory *memory; /* a counted reference; CUDA_NODE_ALLOCATE, CUDA_NODE_FREE */
        struct graph *graph;         /* owned */
        struct {
            CUstreamBatchMemOpParams *list; /* owned */
            unsigned count;
        } words;
    };
};

/* Queues the operation in the stream or, if the stream captures, adds it to the graph. */
int operation_submit_to(struct stream *stream, const struct operation *operation);
/* Queues the operation. The stream must not capture. */
int operation_run(struct stream *stream, const struct operation *operation);
/* Makes a copy with its own memory and references. Returns CUDA_SUCCESS or
 * CUDA_ERROR_OUT_OF_MEMORY. */
int operation_copy(const struct operation *from, struct operation *ret_operation);
/* Replaces one copy by a copy of another operation. Returns the results of operation_copy(). */
int operation_replace(struct operation *copy, const struct operation *by);
/* Releases the memory and references of a copy. Call without a lock. */
void operation_done(struct operation *operation);

/* launch.c: checks a kernel's shape and parameters, and computes its cost on the device.
 * `kernelParams` and `extra` of as_given may point to the program's memory. */
int launch_prepare(const struct visible_device *visible, struct kernel_call *call);

/* copy.c, fill.c: checks and runs copies and fills. */
int copy_check(const CUDA_MEMCPY3D *copy);
int copy_run(struct stream *stream, const CUDA_MEMCPY3D *copy, bool wait);
int fill_check(const CUDA_MEMSET_NODE_PARAMS *fill);
int fill_run(struct stream *stream, const CUDA_MEMSET_NODE_PARAMS *fill);

/* Functions of host_work.c. */
int host_work_call(struct stream *stream, const CUDA_HOST_NODE_PARAMS *host);
int host_work_word(struct stream *stream, const CUstreamBatchMemOpParams *word);
int host_work_check_word(const CUstreamBatchMemOpParams *word);
/* Makes the stream wait until an event of another device has reached that record. */
int host_work_wait_event(struct stream *stream, struct event *event, uint64_t record);
/* Makes the stream write the event's word, or wait until the word is `value` or more. */
int host_work_flag(struct stream *stream, struct event *event, _Atomic uint64_t *word,
                   uint64_t value, bool wait);

/* Functions of event.c. */
int event_resolve(const struct event *event);
int event_record_run(struct event *event, struct stream *stream);
int event_wait_run(struct stream *stream, struct event *event);
struct event *event_retain(struct event *event);
void event_release(struct event *event);

/* graph_memory.c: memory that a graph allocates. The address is fixed from the start. Device memory
 * is behind the address from a launch of the allocating node until a launch of a freeing node. */
int graph_memory_make(struct context *context, size_t bytes, struct graph_memory **ret_memory);
struct graph_memory *graph_memory_retain(struct graph_memory *memory);
void graph_memory_release(struct graph_memory *memory);
uint64_t graph_memory_address(const struct graph_memory *memory);
int graph_memory_ordinal(const struct graph_memory *memory); /* number of its device */
size_t graph_memory_bytes(const struct graph_memory *memory);
/* Returns the memory that starts at the address, or NULL. */
struct graph_memory *graph_memory_find(struct process *process, uint64_t address);
/* Allocate and free the memory. Return CUDA_ERROR_INVALID_VALUE if the memory is already allocated,
 * or is not allocated. */
int graph_memory_allocate(struct graph_memory *memory);
int graph_memory_free(struct graph_memory *memory);
bool graph_memory_is_allocated(const struct graph_memory *memory);
