/*
 * Instantiated graphs. Instantiation puts the operations into one order that respects every
 * dependency, and a launch queues them in that order in its stream: branches run one after another.
 */
#include <stdlib.h>
#include <string.h>

#include "emu/graph/capture.h"

enum { GRAPH_DEPTH_MAX = 16 }; /* largest depth of graphs within graphs */

struct exec_node {
    const struct graph_node *source; /* only for comparison: its graph may be gone */
    struct operation operation;
    size_t dependency_count;
    bool is_disabled;
};

struct graph_exec {
    uint32_t magic; /* GRAPH_EXEC_MAGIC */
    struct process *process;
    struct exec_node *nodes;
    size_t count, capacity;
    uint64_t flags;
    struct list user_objects;
};

static void free_exec(struct graph_exec *exec)
{
    for (size_t i = 0; i < exec->count; i++)
        operation_done(&exec->nodes[i].operation);
    user_objects_done(&exec->user_objects);
    exec->magic = DEAD_MAGIC;
    free(exec->nodes);
    free(exec);
}

static int append(struct graph_exec *exec, const struct graph_node *node)
{
    if (exec->count == exec->capacity) {
        size_t capacity = exec->capacity ? exec->capacity * 2 : 64;
        struct exec_node *nodes =
            capacity <= GRAPH_NODES_MAX ? realloc(exec->nodes, capacity * sizeof(*nodes)) : NULL;
        if (!nodes)
            return CUDA_ERROR_OUT_OF_MEMORY;
        exec->nodes = nodes;
        exec->capacity = capacity;
    }
    struct exec_node *added = &exec->nodes[exec->count];
    *added = (struct exec_node){.source = node, .dependency_count = node->dependencies.count};
    int r = operation_copy(&node->operation, &added->operation);
    exec->count += r == CUDA_SUCCESS;
    return r;
}

/* Appends the graph's operations, including those of graphs in it. */
static int append_graph(struct graph_exec *exec, const struct graph *graph, unsigned depth)
{
    struct graph_node **sorted;
    if (depth == GRAPH_DEPTH_MAX)
        return CUDA_ERROR_NOT_SUPPORTED;
    int r = graph_sort(graph, &sorted);
    if (r != CUDA_SUCCESS)
        return r;
    for (size_t i = 0; i < graph->node_count && r == CUDA_SUCCESS; i++) {
        if (sorted[i]->operation.type == CUDA_NODE_GRAPH)
            r = append_graph(exec, sorted[i]->operation.graph, depth + 1);
        else
            r = append(exec, sorted[i]);
    }
    free(sorted);
    return r;
}

static int instantiate(const struct graph *graph, uint64_t flags, struct graph_exec **ret_exec)
{
    struct graph_exec *exec = calloc(1, sizeof(*exec));
    if (!exec)
        return CUDA_ERROR_OUT_OF_MEMORY;
    exec->magic = GRAPH_EXEC_MAGIC;
    exec->process = graph->process;
    exec->flags = flags;
    list_init(&exec->user_objects);
    int r = append_graph(exec, graph, 0);
    if (r == CUDA_SUCCESS)
        r = user_objects_copy(&graph->user_objects, &exec->user_objects);
    if (r == CUDA_SUCCESS)
        *ret_exec = exec;
    else
        free_exec(exec);
    return r;
}

static int check_instantiate(struct graph_exec **ret_exec, const struct graph *graph,
                             uint64_t flags)
{
    int r = graph_resolve(graph);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_exec || flags > 2 * CUDA_INSTANTIATE_USE_NODE_PRIORITY - 1)
        return CUDA_ERROR_INVALID_VALUE;
    return flags & CUDA_INSTANTIATE_DEVICE_LAUNCH ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

CUDA_API int cuGraphInstantiateWithFlags(struct graph_exec **ret_exec, struct graph *graph,
                                         unsigned long long flags)
{
    int r = check_instantiate(ret_exec, graph, flags);
    if (r == CUDA_SUCCESS && (flags & CUDA_INSTANTIATE_UPLOAD))
        r = CUDA_ERROR_INVALID_VALUE; /* an upload needs a stream */
    return r == CUDA_SUCCESS ? instantiate(graph, flags, ret_exec) : r;
}

CUDA_API int cuGraphInstantiateWithParams(struct graph_exec **ret_exec, struct graph *graph,
                                          CUDA_GRAPH_INSTANTIATE_PARAMS *wanted)
{
    enum { INSTANTIATE_SUCCESS = 0, INSTANTIATE_ERROR = 1 };
    struct stream *stream;
    if (!wanted)
        return CUDA_ERROR_INVALID_VALUE;
    int r = check_instantiate(ret_exec, graph, wanted->flags);
    if (r == CUDA_SUCCESS && (wanted->flags & CUDA_INSTANTIATE_UPLOAD))
        r = stream_resolve(wanted->hUploadStream, &stream);
    if (r == CUDA_SUCCESS)
        r = instantiate(graph, wanted->flags, ret_exec);
    wanted->hErrNode_out = NULL;
    wanted->result_out = r == CUDA_SUCCESS ? INSTANTIATE_SUCCESS : INSTANTIATE_ERROR;
    return r;
}

/* Before CUDA 11.4; the error text is always empty. */
CUDA_API int cuGraphInstantiate_v2(struct graph_exec **ret_exec, struct graph *graph,
                                   struct graph_node **ret_error_node, char *text,
                                   size_t text_bytes)
{
    if (ret_error_node)
        *ret_error_node = NULL;
    if (text && text_bytes > 0)
        text[0] = '\0';
    return cuGraphInstantiateWithFlags(ret_exec, graph, 0);
}

CUDA_API int cuGraphInstantiate(struct graph_exec **ret_exec, struct graph *graph,
                                struct graph_node **ret_error_node, char *text, size_t text_bytes)
{
    return cuGraphInstantiate_v2(ret_exec, graph, ret_error_node, text, text_bytes);
}

static int exec_resolve(const struct graph_exec *exec)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    return exec && exec->magic == GRAPH_EXEC_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUDA_API int cuGraphExecDestroy(struct graph_exec *exec)
{
    int r = exec_resolve(exec);
    if (r == CUDA_SUCCESS)
        free_exec(exec);
    return r;
}

CUDA_API int cuGraphExecGetFlags(struct graph_exec *exec, uint64_t *ret_flags)
{
    int r = exec_resolve(exec);
    if (r == CUDA_SUCCESS && !ret_flags)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *ret_flags = exec->flags;
    return r;
}

/* Handles memory that an earlier launch allocated and no node freed: frees it if the graph was
 * instantiated with that flag. */
static int free_leftovers(struct graph_exec *exec)
{
    for (size_t i = 0; i < exec->count; i++) {
        const struct operation *operation = &exec->nodes[i].operation;
        if (operation->type != CUDA_NODE_ALLOCATE || !graph_memory_is_allocated(operation->memory))
            continue;
        if ((exec->flags & CUDA_INSTANTIATE_AUTO_FREE) == 0)
            return CUDA_ERROR_INVALID_VALUE;
        (void)graph_memory_free(operation->memory);
    }
    return CUDA_SUCCESS;
}

CUDA_API int cuGraphLaunch(struct graph_exec *exec, struct stream *handle)
{
    struct stream *stream;
    int r = stream_resolve_capturing(handle, &stream);
    if (r == CUDA_SUCCESS)
        r = exec_resolve(exec);
    if (r == CUDA_SUCCESS && stream->capture)
        r = CUDA_ERROR_NOT_SUPPORTED; /* a launch inside a capture */
    if (r == CUDA_SUCCESS)
        r = capture_check_legacy(stream);
    if (r == CUDA_SUCCESS)
        r = free_leftovers(exec);
    for (size_t i = 0; r == CUDA_SUCCESS && i < exec->count; i++) {
        if (!exec->nodes[i].is_disabled)
            r = operation_run(stream, &exec->nodes[i].operation);
    }
    return r;
}

/* An instantiated graph is on its device already. */
CUDA_API int cuGraphUpload(struct graph_exec *exec, struct stream *handle)
{
    struct stream *stream;
    int r = stream_resolve(handle, &stream);
    return r == CUDA_SUCCESS ? exec_resolve(exec) : r;
}

static int find_node(struct graph_exec *exec, const struct graph_node *source,
                     enum cuda_node_type type, struct exec_node **ret_node)
{
    int r = exec_resolve(exec);
    if (r != CUDA_SUCCESS)
        return r;
    for (size_t i = 0; source && i < exec->count; i++) {
        if (exec->nodes[i].source == source && exec->nodes[i].operation.type == type) {
            *ret_node = &exec->nodes[i];
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUDA_API int cuGraphExecKernelNodeSetParams_v2(struct graph_exec *exec, struct graph_node *node,
                                               const CUDA_KERNEL_NODE_PARAMS *wanted)
{
    struct context *context;
    struct exec_node *found;
    int r = find_node(exec, node, CUDA_NODE_KERNEL, &found);
    if (r == CUDA_SUCCESS && !wanted)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = context_current(&context);
    if (r != CUDA_SUCCESS)
        return r;
    struct operation operation = {.type = CUDA_NODE_KERNEL, .kernel = {.as_given = *wanted}};
    r = launch_prepare(context->visible, &operation.kernel);
    return r == CUDA_SUCCESS ? operation_replace(&found->operation, &operation) : r;
}

/* Until CUDA 12 the structure ended before `kernel`. */
CUDA_API int cuGraphExecKernelNodeSetParams(struct graph_exec *exec, struct graph_node *node,
                                            const CUDA_KERNEL_NODE_PARAMS *wanted)
{
    CUDA_KERNEL_NODE_PARAMS wide = {0};
    if (wanted)
        memcpy(&wide, wanted, offsetof(CUDA_KERNEL_NODE_PARAMS, kern));
    return cuGraphExecKernelNodeSetParams_v2(exec, node, wanted ? &wide : NULL);
}

CUDA_API int cuGraphExecMemcpyNodeSetParams(struct graph_exec *exec, struct graph_node *node,
                                            const CUDA_MEMCPY3D *copy, struct context *context)
{
    struct exec_node *found;
    (void)context;
    int r = find_node(exec, node, CUDA_NODE_COPY, &found);
    if (r == CUDA_SUCCESS)
        r = copy ? copy_check(copy) : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        found->operation.copy = *copy;
    return r;
}

CUDA_API int cuGraphExecMemsetNodeSetParams(struct graph_exec *exec, struct graph_node *node,
                                            const CUDA_MEMSET_NODE_PARAMS *fill,
                                            struct context *context)
{
    struct exec_node *found;
    (void)context;
    int r = find_node(exec, node, CUDA_NODE_FILL, &found);
    if (r == CUDA_SUCCESS)
        r = fill ? fill_check(fill) : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        found->operation.fill = *fill;
    return r;
}

CUDA_API int cuGraphExecHostNodeSetParams(struct graph_exec *exec, struct graph_node *node,
                                          const CUDA_HOST_NODE_PARAMS *host)
{
    struct exec_node *found;
    int r = find_node(exec, node, CUDA_NODE_HOST, &found);
    if (r == CUDA_SUCCESS && (!host || !host->fn))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        found->operation.host = *host;
    return r;
}

static struct exec_node *find_switchable(struct graph_exec *exec, const struct graph_node *source)
{
    for (size_t i = 0; source && i < exec->count; i++) {
        struct exec_node *node = &exec->nodes[i];
        enum cuda_node_type type = node->operation.type;
        if (node->source == source &&
            (type == CUDA_NODE_KERNEL || type == CUDA_NODE_COPY || type == CUDA_NODE_FILL))
            return node;
    }
    return NULL;
}

CUDA_API int cuGraphNodeSetEnabled(struct graph_exec *exec, struct graph_node *node,
                                   unsigned is_enabled)
{
    int r = exec_resolve(exec);
    if (r != CUDA_SUCCESS)
        return r;
    struct exec_node *found = find_switchable(exec, node);
    if (!found)
        return CUDA_ERROR_INVALID_VALUE;
    found->is_disabled = is_enabled == 0;
    return CUDA_SUCCESS;
}

CUDA_API int cuGraphNodeGetEnabled(struct graph_exec *exec, struct graph_node *node,
                                   unsigned *ret_is_enabled)
{
    int r = exec_resolve(exec);
    if (r != CUDA_SUCCESS)
        return r;
    const struct exec_node *found = find_switchable(exec, node);
    if (!found || !ret_is_enabled)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_is_enabled = !found->is_disabled;
    return CUDA_SUCCESS;
}

/* Returns whether the two have the same shape, as far as the order of their operations shows it. */
static enum cuda_update_result compare(const struct graph_exec *exec,
                                       const struct graph_exec *other)
{
    if (exec->count != other->count)
        return CUDA_UPDATE_TOPOLOGY_CHANGED;
    for (size_t i = 0; i < exec->count; i++) {
        enum cuda_node_type type = exec->nodes[i].operation.type;
        if (type != other->nodes[i].operation.type)
            return CUDA_UPDATE_NODE_TYPE_CHANGED;
        if (exec->nodes[i].dependency_count != other->nodes[i].dependency_count)
            return CUDA_UPDATE_TOPOLOGY_CHANGED;
        if (type == CUDA_NODE_ALLOCATE || type == CUDA_NODE_FREE)
            return CUDA_UPDATE_NOT_SUPPORTED;
    }
    return CUDA_UPDATE_SUCCESS;
}

CUDA_API int cuGraphExecUpdate_v2(struct graph_exec *exec, struct graph *graph,
                                  CUgraphExecUpdateResultInfo *ret_update)
{
    struct graph_exec *other;
    int r = exec_resolve(exec);
    if (r == CUDA_SUCCESS)
        r = graph_resolve(graph);
    if (r == CUDA_SUCCESS && !ret_update)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = instantiate(graph, exec->flags, &other);
    if (r != CUDA_SUCCESS)
        return r;
    *ret_update = (CUgraphExecUpdateResultInfo){.result = (int)compare(exec, other)};
    if (ret_update->result == CUDA_UPDATE_SUCCESS) {
        /* The operations are swapped, so that `other` frees the old ones. */
        for (size_t i = 0; i < exec->count; i++) {
            struct operation old = exec->nodes[i].operation;
            exec->nodes[i].operation = other->nodes[i].operation;
            other->nodes[i].operation = old;
        }
    } else {
        r = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    free_exec(other);
    return r;
}

CUDA_API int cuGraphExecUpdate(struct graph_exec *exec, struct graph *graph,
                               struct graph_node **ret_error_node, int *ret_result)
{
    CUgraphExecUpdateResultInfo update = {0};
    int r = cuGraphExecUpdate_v2(exec, graph, &update);
    if (ret_error_node)
        *ret_error_node = update.errorNode;
    if (ret_result)
        *ret_result = update.result;
    return r;
}
