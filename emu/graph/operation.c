#include "emu/graph/operation.h"

#include <stdlib.h>
#include <string.h>

#include "emu/graph/capture.h"
#include "emu/graph/graph.h"

int operation_submit_to(struct stream *stream, const struct operation *operation)
{
    if (stream->capture)
        return capture_add(stream, operation);
    int r = capture_check_legacy(stream);
    return r == CUDA_SUCCESS ? operation_run(stream, operation) : r;
}

int operation_run(struct stream *stream, const struct operation *operation)
{
    int r = CUDA_SUCCESS;
    switch (operation->type) {
    case CUDA_NODE_KERNEL:
        return stream_push(stream, &operation->kernel.cost, NULL);
    case CUDA_NODE_COPY:
        return copy_run(stream, &operation->copy, false);
    case CUDA_NODE_FILL:
        return fill_run(stream, &operation->fill);
    case CUDA_NODE_HOST:
        return host_work_call(stream, &operation->host);
    case CUDA_NODE_WAIT_EVENT:
        return event_wait_run(stream, operation->event);
    case CUDA_NODE_RECORD_EVENT:
        return event_record_run(operation->event, stream);
    case CUDA_NODE_ALLOCATE:
        return graph_memory_allocate(operation->memory);
    case CUDA_NODE_FREE:
        return graph_memory_free(operation->memory);
    case CUDA_NODE_WORDS:
        for (unsigned i = 0; i < operation->words.count && r == CUDA_SUCCESS; i++)
            r = host_work_word(stream, &operation->words.list[i]);
        return r;
    case CUDA_NODE_EMPTY:
        return CUDA_SUCCESS;
    case CUDA_NODE_GRAPH: /* expanded when the outer graph was instantiated */
        break;
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* The pointers to the parameters, then the parameters themselves, in one piece of memory. */
static int copy_parameters(struct kernel_call *call)
{
    CUDA_KERNEL_NODE_PARAMS *node = &call->as_given;
    const struct ptx_entry *entry = &node->func->entry;
    void **from = node->kernelParams;
    node->kernelParams = NULL;
    if (!from || entry->parameter_count == 0)
        return CUDA_SUCCESS;
    size_t pointers_bytes = entry->parameter_count * sizeof(void *);
    void **parameters = malloc(pointers_bytes + entry->buffer_bytes);
    if (!parameters)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < entry->parameter_count; i++) {
        parameters[i] = (char *)parameters + pointers_bytes + entry->parameters[i].offset;
        memcpy(parameters[i], from[i], entry->parameters[i].bytes);
    }
    node->kernelParams = parameters;
    return CUDA_SUCCESS;
}

int operation_copy(const struct operation *from, struct operation *ret_operation)
{
    struct operation copy = *from;
    int r = CUDA_SUCCESS;
    switch (from->type) {
    case CUDA_NODE_KERNEL:
        copy.kernel.as_given.extra = NULL;
        r = copy_parameters(&copy.kernel);
        break;
    case CUDA_NODE_WAIT_EVENT:
    case CUDA_NODE_RECORD_EVENT:
        event_retain(copy.event);
        break;
    case CUDA_NODE_ALLOCATE:
    case CUDA_NODE_FREE:
        graph_memory_retain(copy.memory);
        break;
    case CUDA_NODE_GRAPH:
        r = graph_clone(from->graph, &copy.graph);
        break;
    case CUDA_NODE_WORDS:
        copy.words.list = malloc(from->words.count * sizeof(*copy.words.list));
        if (copy.words.list)
            memcpy(copy.words.list, from->words.list, from->words.count * sizeof(*copy.words.list));
        else
            r = CUDA_ERROR_OUT_OF_MEMORY;
        break;
    default:
        break;
    }
    if (r == CUDA_SUCCESS)
        *ret_operation = copy;
    return r;
}

void operation_done(struct operation *operation)
{
    switch (operation->type) {
    case CUDA_NODE_KERNEL:
        free(operation->kernel.as_given.kernelParams);
        break;
    case CUDA_NODE_WAIT_EVENT:
    case CUDA_NODE_RECORD_EVENT:
        event_release(operation->event);
        break;
    case CUDA_NODE_ALLOCATE:
    case CUDA_NODE_FREE:
        graph_memory_release(operation->memory);
        break;
    case CUDA_NODE_GRAPH:
        graph_free(operation->graph);
        break;
    case CUDA_NODE_WORDS:
        free(operation->words.list);
        break;
    default:
        break;
    }
    operation->type = CUDA_NODE_EMPTY;
}

int operation_replace(struct operation *copy, const struct operation *by)
{
    struct operation made;
    int r = operation_copy(by, &made);
    if (r != CUDA_SUCCESS)
        return r;
    operation_done(copy);
    *copy = made;
    return CUDA_SUCCESS;
}
