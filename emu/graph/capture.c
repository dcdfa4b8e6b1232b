/*
 * Captures. A capture begins in a stream and spreads to others by events: a stream that waits for
 * an event recorded in a capture joins it. Each stream of a capture remembers the nodes that
 * precede its next operation. All state here changes under process.lock.
 */
#include "emu/graph/capture.h"

#include <stdlib.h>

enum capture_mode { CAPTURE_GLOBAL = 0, CAPTURE_THREAD_LOCAL = 1, CAPTURE_RELAXED = 2 };
enum capture_status { CAPTURE_NONE = 0, CAPTURE_ACTIVE = 1, CAPTURE_INVALIDATED = 2 };

struct capture {
    struct list link; /* link in process.captures */
    uint64_t id;
    enum capture_mode mode;
    pthread_t thread;
    bool is_invalid;
    struct stream *origin;
    struct graph *graph;
    bool owns_graph; /* false: the program's own graph, which stays */
};

/* Returns the open capture in which the event was last recorded, or NULL. Call under
 * process.lock. */
static struct capture *capture_of_event(const struct process *process, const struct event *event)
{
    list_for_each (it, &process->captures) {
        struct capture *capture = list_entry(it, struct capture, link);
        if (capture->id == event->capture_id)
            return capture;
    }
    return NULL;
}

int capture_add(struct stream *stream, const struct operation *operation)
{
    struct process *process = stream->context->process;
    struct graph_node *node;
    pthread_mutex_lock(&process->lock);
    struct capture *capture = stream->capture;
    int r = capture->is_invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                : graph_add(capture->graph, operation, stream->captured.nodes,
                                            stream->captured.count, &node);
    if (r == CUDA_SUCCESS) {
        stream->captured.count = 0;
        r = node_set_add(&stream->captured, node);
    }
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

/* Call under process.lock. */
static bool is_blocking_capture(const struct context *context, const struct capture *capture)
{
    list_for_each (it, &context->streams) {
        const struct stream *stream = list_entry(it, struct stream, link);
        if (stream->capture == capture && (stream->flags & CUDA_STREAM_NON_BLOCKING) == 0)
            return true;
    }
    return false;
}

/* Returns whether the legacy stream would wait for a capture. Call under process.lock. */
static bool waits_for_capture(const struct context *context, bool invalidate)
{
    bool found = false;
    list_for_each (it, &context->process->captures) {
        struct capture *capture = list_entry(it, struct capture, link);
        if (!is_blocking_capture(context, capture))
            continue;
        capture->is_invalid = capture->is_invalid || invalidate;
        found = true;
    }
    return found;
}

static int check_legacy(const struct stream *stream, bool invalidate)
{
    struct process *process = stream->context->process;
    if (stream != &stream->context->legacy || atomic_load(&process->capture_count) == 0)
        return CUDA_SUCCESS;
    pthread_mutex_lock(&process->lock);
    bool waits = waits_for_capture(stream->context, invalidate);
    pthread_mutex_unlock(&process->lock);
    return waits ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

int capture_check_legacy(const struct stream *stream)
{
    return check_legacy(stream, true);
}

int capture_check_unsafe(struct process *process)
{
    int thread_mode = process_thread()->capture_mode;
    int r = CUDA_SUCCESS;
    if (thread_mode == CAPTURE_RELAXED || atomic_load(&process->capture_count) == 0)
        return CUDA_SUCCESS;
    pthread_mutex_lock(&process->lock);
    list_for_each (it, &process->captures) {
        struct capture *capture = list_entry(it, struct capture, link);
        bool is_own = pthread_equal(capture->thread, pthread_self());
        if ((is_own && capture->mode != CAPTURE_RELAXED) ||
            (!is_own && thread_mode == CAPTURE_GLOBAL && capture->mode == CAPTURE_GLOBAL)) {
            capture->is_invalid = true;
            r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    pthread_mutex_unlock(&process->lock);
    return r;
}

CUDA_API int cuThreadExchangeStreamCaptureMode(int *mode)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    /* Accepts unknown modes, as the driver does; an unknown mode acts like none of the others. */
    struct thread_state *thread = process_thread();
    int before = thread->capture_mode;
    thread->capture_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

int capture_record_event(struct event *event, struct stream *stream)
{
    struct process *process = stream->context->process;
    pthread_mutex_lock(&process->lock);
    int r = stream->capture->is_invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                        : node_set_copy(&event->captured, &stream->captured);
    if (r == CUDA_SUCCESS)
        event->capture_id = stream->capture->id;
    pthread_mutex_unlock(&process->lock);
    return r;
}

void capture_leave_event(struct event *event)
{
    event->capture_id = 0;
    node_set_done(&event->captured);
}

/* Call under process.lock. */
static int join(struct stream *stream, const struct event *event, struct capture *capture)
{
    if (capture->is_invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream == &stream->context->legacy) {
        capture->is_invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (stream->capture && stream->capture != capture) {
        stream->capture->is_invalid = capture->is_invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    stream->capture = capture;
    int r = CUDA_SUCCESS;
    for (size_t i = 0; i < event->captured.count && r == CUDA_SUCCESS; i++)
        r = node_set_add(&stream->captured, event->captured.nodes[i]);
    return r;
}

int capture_wait_event(struct stream *stream, struct event *event)
{
    struct process *process = stream->context->process;
    int r;
    pthread_mutex_lock(&process->lock);
    struct capture *capture = capture_of_event(process, event);
    if (capture) {
        r = join(stream, event, capture);
    } else if (event->capture_id != 0) {
        r = CUDA_ERROR_CAPTURED_EVENT; /* the event's capture has ended */
    } else {
        /* Work outside the capture cannot precede a node of it. */
        stream->capture->is_invalid = true;
        r = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    pthread_mutex_unlock(&process->lock);
    return r;
}

bool capture_has_event(const struct event *event)
{
    return event->capture_id != 0;
}

int capture_refuse_event(const struct event *event)
{
    struct process *process = event->context->process;
    pthread_mutex_lock(&process->lock);
    struct capture *capture = capture_of_event(process, event);
    if (capture)
        capture->is_invalid = true;
    pthread_mutex_unlock(&process->lock);
    return CUDA_ERROR_CAPTURED_EVENT;
}

/* Ends the capture: its streams execute work again, and it no longer owns its graph. Call under
 * process.lock. */
static void end_capture(struct process *process, struct capture *capture)
{
    list_for_each (c, &process->contexts) {
        struct context *context = list_entry(c, struct context, link);
        if (context->destroyed)
            continue;
        list_for_each (it, &context->streams) {
            struct stream *stream = list_entry(it, struct stream, link);
            if (stream->capture != capture)
                continue;
            stream->capture = NULL;
            node_set_done(&stream->captured);
        }
    }
    list_remove(&capture->link);
    atomic_fetch_sub(&process->capture_count, 1);
    free(capture);
}

void capture_discard(struct stream *stream)
{
    struct process *process = stream->context->process;
    struct capture *capture = stream->capture;
    stream->capture = NULL;
    node_set_done(&stream->captured);
    if (capture->origin != stream) {
        capture->is_invalid = true; /* a branch of the capture is lost */
        return;
    }
    if (capture->owns_graph)
        list_append(&process->orphan_graphs, &capture->graph->link);
    end_capture(process, capture);
}

static int begin(struct stream *stream, struct graph *graph, bool owns_graph,
                 enum capture_mode mode)
{
    struct capture *capture = calloc(1, sizeof(*capture));
    if (!capture)
        return CUDA_ERROR_OUT_OF_MEMORY;
    capture->mode = mode;
    capture->thread = pthread_self();
    capture->origin = stream;
    capture->graph = graph;
    capture->owns_graph = owns_graph;
    struct process *process = stream->context->process;
    pthread_mutex_lock(&process->lock);
    capture->id = ++process->last_capture_id;
    list_append(&process->captures, &capture->link);
    atomic_fetch_add(&process->capture_count, 1);
    stream->capture = capture;
    pthread_mutex_unlock(&process->lock);
    return CUDA_SUCCESS;
}

static int check_begin(struct stream *handle, int mode, struct stream **ret_stream)
{
    int r = stream_resolve_capturing(handle, ret_stream);
    if (r != CUDA_SUCCESS)
        return r;
    if (mode < CAPTURE_GLOBAL || mode > CAPTURE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (*ret_stream == &(*ret_stream)->context->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return (*ret_stream)->capture ? CUDA_ERROR_ILLEGAL_STATE : CUDA_SUCCESS;
}

CUDA_API int cuStreamBeginCapture_v2(struct stream *handle, int mode)
{
    struct stream *stream;
    struct graph *graph;
    int r = check_begin(handle, mode, &stream);
    if (r == CUDA_SUCCESS)
        r = graph_make(stream->context->process, &graph);
    if (r != CUDA_SUCCESS)
        return r;
    r = begin(stream, graph, true, (enum capture_mode)mode);
    if (r != CUDA_SUCCESS)
        graph_free(graph);
    return r;
}

/* Before CUDA 10.1: always in the global mode. */
CUDA_API int cuStreamBeginCapture(struct stream *handle)
{
    return cuStreamBeginCapture_v2(handle, CAPTURE_GLOBAL);
}

CUDA_API int cuStreamBeginCaptureToGraph(struct stream *handle, struct graph *graph,
                                         struct graph_node *const *dependencies,
                                         const CUgraphEdgeData *data, size_t count, int mode)
{
    struct stream *stream;
    int r = check_begin(handle, mode, &stream);
    if (r != CUDA_SUCCESS)
        return r;
    r = graph_resolve(graph);
    if (r == CUDA_SUCCESS && count > 0 && !dependencies)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && data)
        r = CUDA_ERROR_NOT_SUPPORTED;
    for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
        if (node_resolve(dependencies[i]) != CUDA_SUCCESS || dependencies[i]->graph != graph)
            r = CUDA_ERROR_INVALID_VALUE;
        else
            r = node_set_add(&stream->captured, dependencies[i]);
    }
    if (r == CUDA_SUCCESS)
        r = begin(stream, graph, false, (enum capture_mode)mode);
    if (r != CUDA_SUCCESS && !stream->capture)
        node_set_done(&stream->captured);
    return r;
}

/* Marks the nodes of the set and their predecessors. Captured nodes stand after all their
 * dependencies. */
static void mark_ancestors(struct graph *graph, const struct node_set *set)
{
    list_for_each (it, &graph->nodes)
        list_entry(it, struct graph_node, link)->place = 0;
    for (size_t i = 0; i < set->count; i++)
        set->nodes[i]->place = 1;
    for (struct list *it = graph->nodes.prev; it != &graph->nodes; it = it->prev) {
        const struct graph_node *node = list_entry(it, struct graph_node, link);
        for (size_t i = 0; node->place && i < node->dependencies.count; i++)
            node->dependencies.nodes[i]->place = 1;
    }
}

/* Returns whether all work of every stream precedes the end of the stream in which the capture
 * began. Call under process.lock. */
static bool is_joined(struct process *process, struct capture *capture)
{
    mark_ancestors(capture->graph, &capture->origin->captured);
    list_for_each (c, &process->contexts) {
        const struct context *context = list_entry(c, struct context, link);
        if (context->destroyed)
            continue;
        list_for_each (it, &context->streams) {
            const struct stream *stream = list_entry(it, struct stream, link);
            for (size_t i = 0; stream->capture == capture && i < stream->captured.count; i++) {
                if (stream->captured.nodes[i]->place == 0)
                    return false;
            }
        }
    }
    return true;
}

/* Returns the result of ending the capture in this thread. Call under process.lock. */
static int end_result(struct process *process, struct capture *capture)
{
    if (capture->is_invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (capture->mode != CAPTURE_RELAXED && !pthread_equal(capture->thread, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    return is_joined(process, capture) ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}

/* The capture ends with any result, unless it began in another stream. */
CUDA_API int cuStreamEndCapture(struct stream *handle, struct graph **ret_graph)
{
    struct stream *stream;
    int r = stream_resolve_capturing(handle, &stream);
    if (r != CUDA_SUCCESS)
        return r;
    struct process *process = stream->context->process;
    struct graph *lost = NULL;
    struct capture *capture = stream->capture;
    if (!ret_graph)
        return CUDA_ERROR_INVALID_VALUE;
    if (!capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    *ret_graph = NULL;
    pthread_mutex_lock(&process->lock);
    if (capture->origin != stream) {
        capture->is_invalid = true;
        r = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    } else {
        r = end_result(process, capture);
        if (r == CUDA_SUCCESS)
            *ret_graph = capture->graph;
        else if (capture->owns_graph)
            lost = capture->graph;
        end_capture(process, capture);
    }
    pthread_mutex_unlock(&process->lock);
    if (lost)
        graph_free(lost);
    return r;
}

/* Call under process.lock. */
static enum capture_status status_of(const struct stream *stream)
{
    if (!stream->capture)
        return CAPTURE_NONE;
    return stream->capture->is_invalid ? CAPTURE_INVALIDATED : CAPTURE_ACTIVE;
}

CUDA_API int cuStreamIsCapturing(struct stream *handle, int *ret_status)
{
    struct stream *stream;
    int r = stream_resolve_capturing(handle, &stream);
    if (r == CUDA_SUCCESS && !ret_status)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = check_legacy(stream, false);
    if (r != CUDA_SUCCESS)
        return r;
    struct process *process = stream->context->process;
    pthread_mutex_lock(&process->lock);
    *ret_status = (int)status_of(stream);
    pthread_mutex_unlock(&process->lock);
    return CUDA_SUCCESS;
}

CUDA_API int cuStreamGetCaptureInfo_v2(struct stream *handle, int *ret_status, uint64_t *ret_id,
                                       struct graph **ret_graph,
                                       struct graph_node *const **ret_dependencies,
                                       size_t *ret_count)
{
    int r = cuStreamIsCapturing(handle, ret_status);
    struct stream *stream;
    if (r == CUDA_SUCCESS)
        r = stream_resolve_capturing(handle, &stream);
    if (r != CUDA_SUCCESS || *ret_status != CAPTURE_ACTIVE)
        return r;
    struct process *process = stream->context->process;
    pthread_mutex_lock(&process->lock);
    if (ret_id)
        *ret_id = stream->capture->id;
    if (ret_graph)
        *ret_graph = stream->capture->graph;
    if (ret_dependencies)
        *ret_dependencies = stream->captured.nodes;
    if (ret_count)
        *ret_count = stream->captured.count;
    pthread_mutex_unlock(&process->lock);
    return CUDA_SUCCESS;
}

/* Since CUDA 12.3 with data of edges; there are none. */
CUDA_API int cuStreamGetCaptureInfo_v3(struct stream *handle, int *ret_status, uint64_t *ret_id,
                                       struct graph **ret_graph,
                                       struct graph_node *const **ret_dependencies,
                                       const CUgraphEdgeData **ret_data, size_t *ret_count)
{
    int r = cuStreamGetCaptureInfo_v2(handle, ret_status, ret_id, ret_graph, ret_dependencies,
                                      ret_count);
    if (r == CUDA_SUCCESS && ret_data)
        *ret_data = NULL;
    return r;
}

CUDA_API int cuStreamGetCaptureInfo(struct stream *handle, int *ret_status, uint64_t *ret_id)
{
    return cuStreamGetCaptureInfo_v2(handle, ret_status, ret_id, NULL, NULL, NULL);
}

CUDA_API int cuStreamUpdateCaptureDependencies(struct stream *handle,
                                               struct graph_node **dependencies, size_t count,
                                               unsigned flags)
{
    enum { ADD = 0, SET = 1 };
    struct stream *stream;
    int r = stream_resolve_capturing(handle, &stream);
    if (r != CUDA_SUCCESS)
        return r;
    if (flags > SET || (count > 0 && !dependencies))
        return CUDA_ERROR_INVALID_VALUE;
    if (!stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct process *process = stream->context->process;
    pthread_mutex_lock(&process->lock);
    for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
        if (node_resolve(dependencies[i]) != CUDA_SUCCESS ||
            dependencies[i]->graph != stream->capture->graph)
            r = CUDA_ERROR_INVALID_VALUE;
    }
    if (r == CUDA_SUCCESS && flags == SET)
        stream->captured.count = 0;
    for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++)
        r = node_set_add(&stream->captured, dependencies[i]);
    pthread_mutex_unlock(&process->lock);
    return r;
}

CUDA_API int cuStreamUpdateCaptureDependencies_v2(struct stream *handle,
                                                  struct graph_node **dependencies,
                                                  const CUgraphEdgeData *data, size_t count,
                                                  unsigned flags)
{
    if (data)
        return CUDA_ERROR_NOT_SUPPORTED;
    return cuStreamUpdateCaptureDependencies(handle, dependencies, count, flags);
}
