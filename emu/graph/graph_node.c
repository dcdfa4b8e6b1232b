/* Graph nodes added by calls: one call for each kind of node, and queries of their parameters. */
#include <stdlib.h>
#include <string.h>

#include "emu/graph/graph.h"

/* The first checks of every call that adds a node. */
static int check_place(struct graph_node *const *ret_node, const struct graph *graph,
                       struct graph_node *const *dependencies, size_t count)
{
    int r = graph_resolve(graph);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_node || (count > 0 && !dependencies))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (node_resolve(dependencies[i]) != CUDA_SUCCESS || dependencies[i]->graph != graph)
            return CUDA_ERROR_INVALID_VALUE;
        for (size_t j = 0; j < i; j++) {
            if (dependencies[j] == dependencies[i])
                return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
}

/* Prepares a node's operation before the node is in a graph: checks it and computes its cost. */
static int prepare_kernel(const CUDA_KERNEL_NODE_PARAMS *wanted, struct operation *ret_operation)
{
    struct context *context;
    int r = context_current(&context);
    if (r != CUDA_SUCCESS)
        return r;
    if (!wanted)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_operation = (struct operation){
        .type = CUDA_NODE_KERNEL,
        .kernel = {.as_given = *wanted},
    };
    CUDA_KERNEL_NODE_PARAMS *given = &ret_operation->kernel.as_given;
    if (!given->func)
        given->func = given->kern;
    r = launch_prepare(context->visible, &ret_operation->kernel);
    return r == CUDA_ERROR_INVALID_HANDLE ? CUDA_ERROR_INVALID_VALUE : r;
}

CUDA_API int cuGraphAddKernelNode_v2(struct graph_node **ret_node, struct graph *graph,
                                     struct graph_node *const *dependencies, size_t count,
                                     const CUDA_KERNEL_NODE_PARAMS *wanted)
{
    struct operation operation;
    int r = check_place(ret_node, graph, dependencies, count);
    if (r == CUDA_SUCCESS)
        r = prepare_kernel(wanted, &operation);
    return r == CUDA_SUCCESS ? graph_add(graph, &operation, dependencies, count, ret_node) : r;
}

/* Until CUDA 12 the structure ended before `kernel`. */
static void widen(const CUDA_KERNEL_NODE_PARAMS *narrow, CUDA_KERNEL_NODE_PARAMS *ret_wide)
{
    *ret_wide = (CUDA_KERNEL_NODE_PARAMS){0};
    memcpy(ret_wide, narrow, offsetof(CUDA_KERNEL_NODE_PARAMS, kern));
}

CUDA_API int cuGraphAddKernelNode(struct graph_node **ret_node, struct graph *graph,
                                  struct graph_node *const *dependencies, size_t count,
                                  const CUDA_KERNEL_NODE_PARAMS *wanted)
{
    CUDA_KERNEL_NODE_PARAMS wide;
    if (wanted)
        widen(wanted, &wide);
    return cuGraphAddKernelNode_v2(ret_node, graph, dependencies, count, wanted ? &wide : NULL);
}

CUDA_API int cuGraphAddMemcpyNode(struct graph_node **ret_node, struct graph *graph,
                                  struct graph_node *const *dependencies, size_t count,
                                  const CUDA_MEMCPY3D *copy, struct context *context)
{
    (void)context;
    int r = check_place(ret_node, graph, dependencies, count);
    if (r == CUDA_SUCCESS && !copy)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = copy_check(copy);
    if (r != CUDA_SUCCESS)
        return r;
    const struct operation operation = {.type = CUDA_NODE_COPY, .copy = *copy};
    return graph_add(graph, &operation, dependencies, count, ret_node);
}

CUDA_API int cuGraphAddMemsetNode(struct graph_node **ret_node, struct graph *graph,
                                  struct graph_node *const *dependencies, size_t count,
                                  const CUDA_MEMSET_NODE_PARAMS *fill, struct context *context)
{
    (void)context;
    int r = check_place(ret_node, graph, dependencies, count);
    if (r == CUDA_SUCCESS && !fill)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = fill_check(fill);
    if (r != CUDA_SUCCESS)
        return r;
    const struct operation operation = {.type = CUDA_NODE_FILL, .fill = *fill};
    return graph_add(graph, &operation, dependencies, count, ret_node);
}

CUDA_API int cuGraphAddHostNode(struct graph_node **ret_node, struct graph *graph,
                                struct graph_node *const *dependencies, size_t count,
                                const CUDA_HOST_NODE_PARAMS *host)
{
    int r = check_place(ret_node, graph, dependencies, count);
    if (r == CUDA_SUCCESS && (!host || !host->fn))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    const struct operation operation = {.type = CUDA_NODE_HOST, .host = *host};
    return graph_add(graph, &operation, dependencies, count, ret_node);
}

CUDA_API int cuGraphAddEmptyNode(struct graph_node **ret_node, struct graph *graph,
                                 struct graph_node *const *dependencies, size_t count)
{
    const struct operation operation = {.type = CUDA_NODE_EMPTY};
    int r = check_place(ret_node, graph, dependencies, count);
    return r == CUDA_SUCCESS ? graph_add(graph, &operation, dependencies, count, ret_node) : r;
}

CUDA_API int cuGraphAddChildGraphNode(struct graph_node **ret_node, struct graph *graph,
                                      struct graph_node *const *dependencies, size_t count,
                                      struct graph *child)
{
    int r = check_place(ret_node, graph, dependencies, count);
    if (r == CUDA_SUCCESS)
        r = graph_resolve(child);
    if (r != CUDA_SUCCESS)
        return r;
    const struct operation operation = {.type = CUDA_NODE_GRAPH, .graph = child};
    return graph_add(graph, &operation, dependencies, count, ret_node);
}

static int add_event_node(struct graph_node **ret_node, struct graph *graph,
                          struct graph_node *const *dependencies, size_t count,
                          const struct operation *operation)
{
    int r = check_place(ret_node, graph, dependencies, count);
    if (r == CUDA_SUCCESS && (!operation->event || operation->event->magic != EVENT_MAGIC))
        r = CUDA_ERROR_INVALID_VALUE;
    return r == CUDA_SUCCESS ? graph_add(graph, operation, dependencies, count, ret_node) : r;
}

CUDA_API int cuGraphAddEventRecordNode(struct graph_node **ret_node, struct graph *graph,
                                       struct graph_node *const *dependencies, size_t count,
                                       struct event *event)
{
    const struct operation operation = {.type = CUDA_NODE_RECORD_EVENT, .event = event};
    return add_event_node(ret_node, graph, dependencies, count, &operation);
}

CUDA_API int cuGraphAddEventWaitNode(struct graph_node **ret_node, struct graph *graph,
                                     struct graph_node *const *dependencies, size_t count,
                                     struct event *event)
{
    const struct operation operation = {.type = CUDA_NODE_WAIT_EVENT, .event = event};
    return add_event_node(ret_node, graph, dependencies, count, &operation);
}

CUDA_API int cuGraphAddMemAllocNode(struct graph_node **ret_node, struct graph *graph,
                                    struct graph_node *const *dependencies, size_t count,
                                    CUDA_MEM_ALLOC_NODE_PARAMS *wanted)
{
    struct context *context;
    int r = check_place(ret_node, graph, dependencies, count);
    if (r == CUDA_SUCCESS)
        r = context_current(&context);
    if (r != CUDA_SUCCESS)
        return r;
    if (!wanted || wanted->bytesize == 0 || wanted->poolProps.allocType != CUDA_ALLOCATION_PINNED ||
        wanted->poolProps.handleTypes != 0 ||
        wanted->poolProps.location.type != CUDA_LOCATION_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (wanted->poolProps.location.id != (int)context->ordinal)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct operation operation = {.type = CUDA_NODE_ALLOCATE};
    r = graph_memory_make(context, wanted->bytesize, &operation.memory);
    if (r != CUDA_SUCCESS)
        return r;
    r = graph_add(graph, &operation, dependencies, count, ret_node);
    if (r == CUDA_SUCCESS)
        wanted->dptr = graph_memory_address(operation.memory);
    graph_memory_release(operation.memory);
    return r;
}

CUDA_API int cuGraphAddMemFreeNode(struct graph_node **ret_node, struct graph *graph,
                                   struct graph_node *const *dependencies, size_t count,
                                   uint64_t address)
{
    int r = check_place(ret_node, graph, dependencies, count);
    if (r != CUDA_SUCCESS)
        return r;
    const struct operation operation = {
        .type = CUDA_NODE_FREE,
        .memory = graph_memory_find(graph->process, address),
    };
    if (!operation.memory)
        return CUDA_ERROR_INVALID_VALUE;
    return graph_add(graph, &operation, dependencies, count, ret_node);
}

CUDA_API int cuGraphAddBatchMemOpNode(struct graph_node **ret_node, struct graph *graph,
                                      struct graph_node *const *dependencies, size_t count,
                                      const CUDA_BATCH_MEM_OP_NODE_PARAMS *words)
{
    int r = check_place(ret_node, graph, dependencies, count);
    if (r == CUDA_SUCCESS && (!words || words->count == 0 || !words->paramArray ||
                              words->count > OPERATION_WORDS_MAX || words->flags != 0))
        r = CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; r == CUDA_SUCCESS && i < words->count; i++)
        r = host_work_check_word(&words->paramArray[i]);
    if (r != CUDA_SUCCESS)
        return r;
    const struct operation operation = {
        .type = CUDA_NODE_WORDS,
        .words = {.list = words->paramArray, .count = words->count},
    };
    return graph_add(graph, &operation, dependencies, count, ret_node);
}

static int resolve_type(const struct graph_node *node, enum cuda_node_type type, const void *answer)
{
    int r = node_resolve(node);
    if (r != CUDA_SUCCESS)
        return r;
    return answer && node->operation.type == type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUDA_API int cuGraphKernelNodeGetParams_v2(struct graph_node *node, CUDA_KERNEL_NODE_PARAMS *ret)
{
    int r = resolve_type(node, CUDA_NODE_KERNEL, ret);
    if (r == CUDA_SUCCESS)
        *ret = node->operation.kernel.as_given;
    return r;
}

CUDA_API int cuGraphKernelNodeGetParams(struct graph_node *node, CUDA_KERNEL_NODE_PARAMS *ret)
{
    int r = resolve_type(node, CUDA_NODE_KERNEL, ret);
    if (r == CUDA_SUCCESS)
        memcpy(ret, &node->operation.kernel.as_given, offsetof(CUDA_KERNEL_NODE_PARAMS, kern));
    return r;
}

CUDA_API int cuGraphKernelNodeSetParams_v2(struct graph_node *node,
                                           const CUDA_KERNEL_NODE_PARAMS *wanted)
{
    struct operation operation;
    int r = resolve_type(node, CUDA_NODE_KERNEL, wanted);
    if (r == CUDA_SUCCESS)
        r = prepare_kernel(wanted, &operation);
    return r == CUDA_SUCCESS ? operation_replace(&node->operation, &operation) : r;
}

CUDA_API int cuGraphKernelNodeSetParams(struct graph_node *node,
                                        const CUDA_KERNEL_NODE_PARAMS *wanted)
{
    CUDA_KERNEL_NODE_PARAMS wide;
    if (wanted)
        widen(wanted, &wide);
    return cuGraphKernelNodeSetParams_v2(node, wanted ? &wide : NULL);
}

CUDA_API int cuGraphMemcpyNodeGetParams(struct graph_node *node, CUDA_MEMCPY3D *ret_copy)
{
    int r = resolve_type(node, CUDA_NODE_COPY, ret_copy);
    if (r == CUDA_SUCCESS)
        *ret_copy = node->operation.copy;
    return r;
}

CUDA_API int cuGraphMemcpyNodeSetParams(struct graph_node *node, const CUDA_MEMCPY3D *copy)
{
    int r = resolve_type(node, CUDA_NODE_COPY, copy);
    if (r == CUDA_SUCCESS)
        r = copy_check(copy);
    if (r == CUDA_SUCCESS)
        node->operation.copy = *copy;
    return r;
}

CUDA_API int cuGraphMemsetNodeGetParams(struct graph_node *node, CUDA_MEMSET_NODE_PARAMS *ret_fill)
{
    int r = resolve_type(node, CUDA_NODE_FILL, ret_fill);
    if (r == CUDA_SUCCESS)
        *ret_fill = node->operation.fill;
    return r;
}

CUDA_API int cuGraphMemsetNodeSetParams(struct graph_node *node,
                                        const CUDA_MEMSET_NODE_PARAMS *fill)
{
    int r = resolve_type(node, CUDA_NODE_FILL, fill);
    if (r == CUDA_SUCCESS)
        r = fill_check(fill);
    if (r == CUDA_SUCCESS)
        node->operation.fill = *fill;
    return r;
}

CUDA_API int cuGraphHostNodeGetParams(struct graph_node *node, CUDA_HOST_NODE_PARAMS *ret_host)
{
    int r = resolve_type(node, CUDA_NODE_HOST, ret_host);
    if (r == CUDA_SUCCESS)
        *ret_host = node->operation.host;
    return r;
}

CUDA_API int cuGraphHostNodeSetParams(struct graph_node *node, const CUDA_HOST_NODE_PARAMS *host)
{
    int r = resolve_type(node, CUDA_NODE_HOST, host);
    if (r == CUDA_SUCCESS && !host->fn)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        node->operation.host = *host;
    return r;
}

CUDA_API int cuGraphChildGraphNodeGetGraph(struct graph_node *node, struct graph **ret_graph)
{
    int r = resolve_type(node, CUDA_NODE_GRAPH, ret_graph);
    if (r == CUDA_SUCCESS)
        *ret_graph = node->operation.graph;
    return r;
}

CUDA_API int cuGraphEventRecordNodeGetEvent(struct graph_node *node, struct event **ret_event)
{
    int r = resolve_type(node, CUDA_NODE_RECORD_EVENT, ret_event);
    if (r == CUDA_SUCCESS)
        *ret_event = node->operation.event;
    return r;
}

CUDA_API int cuGraphEventWaitNodeGetEvent(struct graph_node *node, struct event **ret_event)
{
    int r = resolve_type(node, CUDA_NODE_WAIT_EVENT, ret_event);
    if (r == CUDA_SUCCESS)
        *ret_event = node->operation.event;
    return r;
}

CUDA_API int cuGraphMemAllocNodeGetParams(struct graph_node *node,
                                          CUDA_MEM_ALLOC_NODE_PARAMS *ret_allocation)
{
    int r = resolve_type(node, CUDA_NODE_ALLOCATE, ret_allocation);
    if (r != CUDA_SUCCESS)
        return r;
    const struct graph_memory *memory = node->operation.memory;
    *ret_allocation = (CUDA_MEM_ALLOC_NODE_PARAMS){
        .poolProps =
            {
                .allocType = CUDA_ALLOCATION_PINNED,
                .location = {CUDA_LOCATION_DEVICE, graph_memory_ordinal(memory)},
            },
        .bytesize = graph_memory_bytes(memory),
        .dptr = graph_memory_address(memory),
    };
    return CUDA_SUCCESS;
}

CUDA_API int cuGraphMemFreeNodeGetParams(struct graph_node *node, uint64_t *ret_address)
{
    int r = resolve_type(node, CUDA_NODE_FREE, ret_address);
    if (r == CUDA_SUCCESS)
        *ret_address = graph_memory_address(node->operation.memory);
    return r;
}

CUDA_API int cuGraphEventRecordNodeSetEvent(struct graph_node *node, struct event *event)
{
    const struct operation operation = {.type = CUDA_NODE_RECORD_EVENT, .event = event};
    int r = resolve_type(node, CUDA_NODE_RECORD_EVENT, event);
    if (r == CUDA_SUCCESS && event->magic != EVENT_MAGIC)
        r = CUDA_ERROR_INVALID_VALUE;
    return r == CUDA_SUCCESS ? operation_replace(&node->operation, &operation) : r;
}

CUDA_API int cuGraphEventWaitNodeSetEvent(struct graph_node *node, struct event *event)
{
    const struct operation operation = {.type = CUDA_NODE_WAIT_EVENT, .event = event};
    int r = resolve_type(node, CUDA_NODE_WAIT_EVENT, event);
    if (r == CUDA_SUCCESS && event->magic != EVENT_MAGIC)
        r = CUDA_ERROR_INVALID_VALUE;
    return r == CUDA_SUCCESS ? operation_replace(&node->operation, &operation) : r;
}

/* Adds any kind of node: `wanted` has the type, and the parameters that the other calls take. */
CUDA_API int cuGraphAddNode(struct graph_node **ret_node, struct graph *graph,
                            struct graph_node *const *dependencies, size_t count,
                            CUgraphNodeParams *wanted)
{
    if (!wanted)
        return CUDA_ERROR_INVALID_VALUE;
    switch (wanted->type) {
    case CUDA_NODE_KERNEL:
        return cuGraphAddKernelNode_v2(ret_node, graph, dependencies, count, &wanted->kernel);
    case CUDA_NODE_COPY:
        return cuGraphAddMemcpyNode(ret_node, graph, dependencies, count,
                                    &wanted->memcpy.copyParams, wanted->memcpy.copyCtx);
    case CUDA_NODE_FILL:
        return cuGraphAddMemsetNode(ret_node, graph, dependencies, count, &wanted->memset.params,
                                    wanted->memset.ctx);
    case CUDA_NODE_HOST:
        return cuGraphAddHostNode(ret_node, graph, dependencies, count, &wanted->host);
    case CUDA_NODE_GRAPH:
        return cuGraphAddChildGraphNode(ret_node, graph, dependencies, count, wanted->graph);
    case CUDA_NODE_EMPTY:
        return cuGraphAddEmptyNode(ret_node, graph, dependencies, count);
    case CUDA_NODE_WAIT_EVENT:
        return cuGraphAddEventWaitNode(ret_node, graph, dependencies, count, wanted->eventWait);
    case CUDA_NODE_RECORD_EVENT:
        return cuGraphAddEventRecordNode(ret_node, graph, dependencies, count, wanted->eventRecord);
    case CUDA_NODE_ALLOCATE:
        return cuGraphAddMemAllocNode(ret_node, graph, dependencies, count, &wanted->alloc);
    case CUDA_NODE_FREE:
        return cuGraphAddMemFreeNode(ret_node, graph, dependencies, count, wanted->free);
    case CUDA_NODE_WORDS:
        return cuGraphAddBatchMemOpNode(ret_node, graph, dependencies, count, &wanted->memOp);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

/* Since CUDA 12.3 with data for the edges, which is not emulated. */
CUDA_API int cuGraphAddNode_v2(struct graph_node **ret_node, struct graph *graph,
                               struct graph_node *const *dependencies, const CUgraphEdgeData *data,
                               size_t count, CUgraphNodeParams *wanted)
{
    if (data)
        return CUDA_ERROR_NOT_SUPPORTED;
    return cuGraphAddNode(ret_node, graph, dependencies, count, wanted);
}
