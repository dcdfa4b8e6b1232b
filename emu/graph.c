/*
 * Graphs, made by capturing a stream. What can be captured is launches: any other call on a stream
 * that captures answers CUDA_ERROR_NOT_SUPPORTED (stream_resolve), as does all that would build or
 * change a graph by its nodes. A graph runs its launches in the order in which they were captured.
 */
#include <stdlib.h>
#include <string.h>

#include "emu/driver.h"

enum capture_mode { CAPTURE_GLOBAL = 0, CAPTURE_THREAD_LOCAL = 1, CAPTURE_RELAXED = 2 };
enum capture_status { CAPTURE_NONE = 0, CAPTURE_ACTIVE = 1, CAPTURE_INVALIDATED = 2 };
enum { GRAPH_NODES_MAX = 1 << 16 };

/* Graphs and what is instantiated from them. */
struct graph {
    uint32_t magic; /* GRAPH_MAGIC or GRAPH_EXEC_MAGIC */
    struct visible_device *visible;
    struct emu_entry *entries;
    size_t count, capacity;
};

struct capture {
    struct list link; /* process.captures */
    enum capture_mode mode;
    pthread_t thread;
    bool is_invalid;
    struct graph *graph; /* owned until the capture ends */
};

static void free_graph(struct graph *graph)
{
    graph->magic = DEAD_MAGIC;
    free(graph->entries);
    free(graph);
}

static struct graph *make_graph(enum driver_magic magic, struct visible_device *visible)
{
    struct graph *graph = calloc(1, sizeof(*graph));
    if (graph) {
        graph->magic = magic;
        graph->visible = visible;
    }
    return graph;
}

static int append(struct graph *graph, const struct emu_entry *entry)
{
    if (graph->count == graph->capacity) {
        size_t capacity = graph->capacity ? graph->capacity * 2 : 64;
        struct emu_entry *entries = capacity <= GRAPH_NODES_MAX
                                        ? realloc(graph->entries, capacity * sizeof(*entries))
                                        : NULL;
        if (!entries)
            return CUDA_ERROR_OUT_OF_MEMORY;
        graph->entries = entries;
        graph->capacity = capacity;
    }
    graph->entries[graph->count++] = *entry;
    return CUDA_SUCCESS;
}

int capture_add(struct stream *stream, const struct emu_entry *entry)
{
    struct process *process = stream->context->process;
    pthread_mutex_lock(&process->lock);
    int r = stream->capture->is_invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                        : append(stream->capture->graph, entry);
    pthread_mutex_unlock(&process->lock);
    return r;
}

int capture_refuse(struct stream *stream)
{
    struct process *process = stream->context->process;
    pthread_mutex_lock(&process->lock);
    stream->capture->is_invalid = true;
    pthread_mutex_unlock(&process->lock);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

int capture_check_unsafe(struct process *process)
{
    int r = CUDA_SUCCESS;
    pthread_mutex_lock(&process->lock);
    list_for_each (it, &process->captures) {
        struct capture *capture = list_entry(it, struct capture, link);
        if (capture->mode == CAPTURE_GLOBAL || (capture->mode == CAPTURE_THREAD_LOCAL &&
                                                pthread_equal(capture->thread, pthread_self()))) {
            capture->is_invalid = true;
            r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    pthread_mutex_unlock(&process->lock);
    return r;
}

void capture_discard(struct stream *stream)
{
    struct capture *capture = stream->capture;
    stream->capture = NULL;
    list_remove(&capture->link);
    free_graph(capture->graph);
    free(capture);
}

CUDA_API int cuStreamBeginCapture_v2(struct stream *handle, int mode);
CUDA_API int cuStreamBeginCapture_v2(struct stream *handle, int mode)
{
    struct stream *stream;
    int r = stream_resolve_capturing(handle, &stream);
    if (r != CUDA_SUCCESS)
        return r;
    if (mode < CAPTURE_GLOBAL || mode > CAPTURE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream == &stream->context->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct capture *capture = calloc(1, sizeof(*capture));
    struct graph *graph = make_graph(GRAPH_MAGIC, stream->context->visible);
    if (!capture || !graph) {
        free(capture);
        free(graph);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    capture->mode = (enum capture_mode)mode;
    capture->thread = pthread_self();
    capture->graph = graph;
    struct process *process = stream->context->process;
    pthread_mutex_lock(&process->lock);
    list_append(&process->captures, &capture->link);
    stream->capture = capture;
    pthread_mutex_unlock(&process->lock);
    return CUDA_SUCCESS;
}

CUDA_API int cuStreamEndCapture(struct stream *handle, struct graph **ret_graph);
CUDA_API int cuStreamEndCapture(struct stream *handle, struct graph **ret_graph)
{
    struct stream *stream;
    int r = stream_resolve_capturing(handle, &stream);
    if (r != CUDA_SUCCESS)
        return r;
    struct capture *capture = stream->capture;
    if (!ret_graph)
        return CUDA_ERROR_INVALID_VALUE;
    if (!capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->mode != CAPTURE_RELAXED && !pthread_equal(capture->thread, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    struct process *process = stream->context->process;
    pthread_mutex_lock(&process->lock);
    *ret_graph = NULL;
    if (capture->is_invalid) {
        capture_discard(stream);
        r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else {
        *ret_graph = capture->graph;
        list_remove(&capture->link);
        free(capture);
        stream->capture = NULL;
    }
    pthread_mutex_unlock(&process->lock);
    return r;
}

CUDA_API int cuStreamIsCapturing(struct stream *handle, int *ret_status);
CUDA_API int cuStreamIsCapturing(struct stream *handle, int *ret_status)
{
    struct stream *stream;
    int r = stream_resolve_capturing(handle, &stream);
    if (r == CUDA_SUCCESS && !ret_status)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    struct process *process = stream->context->process;
    pthread_mutex_lock(&process->lock);
    *ret_status = !stream->capture              ? CAPTURE_NONE
                  : stream->capture->is_invalid ? CAPTURE_INVALIDATED
                                                : CAPTURE_ACTIVE;
    pthread_mutex_unlock(&process->lock);
    return CUDA_SUCCESS;
}

static int graph_resolve(const struct graph *graph, enum driver_magic magic)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    return graph && graph->magic == (uint32_t)magic ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUDA_API int cuGraphDestroy(struct graph *graph);
CUDA_API int cuGraphDestroy(struct graph *graph)
{
    int r = graph_resolve(graph, GRAPH_MAGIC);
    if (r == CUDA_SUCCESS)
        free_graph(graph);
    return r;
}

CUDA_API int cuGraphExecDestroy(struct graph *exec);
CUDA_API int cuGraphExecDestroy(struct graph *exec)
{
    int r = graph_resolve(exec, GRAPH_EXEC_MAGIC);
    if (r == CUDA_SUCCESS)
        free_graph(exec);
    return r;
}

/* How many there are; nodes have no handles here. */
CUDA_API int cuGraphGetNodes(struct graph *graph, void **nodes, size_t *count);
CUDA_API int cuGraphGetNodes(struct graph *graph, void **nodes, size_t *count)
{
    int r = graph_resolve(graph, GRAPH_MAGIC);
    if (r == CUDA_SUCCESS && !count)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && nodes)
        r = CUDA_ERROR_NOT_SUPPORTED;
    if (r == CUDA_SUCCESS)
        *count = graph->count;
    return r;
}

CUDA_API int cuGraphInstantiateWithFlags(struct graph **ret_exec, struct graph *graph,
                                         uint64_t flags);
CUDA_API int cuGraphInstantiateWithFlags(struct graph **ret_exec, struct graph *graph,
                                         uint64_t flags)
{
    int r = graph_resolve(graph, GRAPH_MAGIC);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_exec)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct graph *exec = make_graph(GRAPH_EXEC_MAGIC, graph->visible);
    if (!exec)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < graph->count && r == CUDA_SUCCESS; i++)
        r = append(exec, &graph->entries[i]);
    if (r == CUDA_SUCCESS)
        *ret_exec = exec;
    else
        free_graph(exec);
    return r;
}

CUDA_API int cuGraphLaunch(struct graph *exec, struct stream *handle);
CUDA_API int cuGraphLaunch(struct graph *exec, struct stream *handle)
{
    struct stream *stream;
    int r = stream_resolve(handle, &stream);
    if (r == CUDA_SUCCESS)
        r = graph_resolve(exec, GRAPH_EXEC_MAGIC);
    if (r == CUDA_SUCCESS && exec->visible != stream->context->visible)
        r = CUDA_ERROR_NOT_SUPPORTED;
    for (size_t i = 0; r == CUDA_SUCCESS && i < exec->count; i++)
        r = stream_push(stream, &exec->entries[i], NULL);
    return r;
}
