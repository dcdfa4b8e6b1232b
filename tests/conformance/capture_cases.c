/* Captures over several streams, in their modes, and into an existing graph; and errors that
 * invalidate captures. */
#include <pthread.h>
#include <stdatomic.h>

#include "conformance.h"

enum { GLOBAL = 0, THREAD_LOCAL = 1, RELAXED = 2, NO_MODE = 99 };
enum { NONE = 0, ACTIVE = 1, INVALIDATED = 2, EXTERNAL = 1 };
enum { BYTES = 4096, SET_DEPENDENCIES = 1 };
#define SHORT_NS UINT64_C(1000000)

struct streams {
    void *first, *second;
    void *fork, *join;
};

static void open_streams(struct conformance *t, struct streams *s)
{
    conformance_open_device(t);
    EXPECT(t, cuStreamCreate, CUDA_SUCCESS, (&s->first, CUDA_STREAM_NON_BLOCKING));
    EXPECT(t, cuStreamCreate, CUDA_SUCCESS, (&s->second, CUDA_STREAM_NON_BLOCKING));
    EXPECT(t, cuEventCreate, CUDA_SUCCESS, (&s->fork, CUDA_EVENT_DISABLE_TIMING));
    EXPECT(t, cuEventCreate, CUDA_SUCCESS, (&s->join, CUDA_EVENT_DISABLE_TIMING));
}

static void count_call(void *argument)
{
    ++*(_Atomic int *)argument;
}

/* Every kind of call that can be captured, over two streams that fork and join. */
void case_forked_streams_join_one_graph(struct conformance *t)
{
    static _Atomic int calls;
    static unsigned char to[BYTES];
    struct streams s = {0};
    void *graph = NULL, *exec = NULL, *done = NULL;
    size_t count = 0;
    uint64_t device = 0;
    int status = -1;
    open_streams(t, &s);
    EXPECT(t, cuMemAlloc_v2, CUDA_SUCCESS, (&device, BYTES));
    EXPECT(t, cuEventCreate, CUDA_SUCCESS, (&done, CUDA_EVENT_DISABLE_TIMING));
    EXPECT(t, cuStreamBeginCapture, CUDA_SUCCESS, (s.first));
    CHECK(t, cuLaunchKernel, conformance_burn(t, s.first, SHORT_NS) == CUDA_SUCCESS);
    EXPECT(t, cuEventRecord, CUDA_SUCCESS, (s.fork, s.first));
    EXPECT(t, cuStreamWaitEvent, CUDA_SUCCESS, (s.second, s.fork, 0));
    EXPECT(t, cuStreamIsCapturing, CUDA_SUCCESS, (s.second, &status));
    CHECK(t, cuStreamWaitEvent, status == ACTIVE);
    EXPECT(t, cuMemsetD8Async, CUDA_SUCCESS, (device, 5, BYTES, s.second));
    EXPECT(t, cuMemcpyDtoHAsync_v2, CUDA_SUCCESS, (to, device, BYTES, s.second));
    EXPECT(t, cuEventRecord, CUDA_SUCCESS, (s.join, s.second));
    CHECK(t, cuLaunchKernel, conformance_burn(t, s.first, SHORT_NS) == CUDA_SUCCESS);
    EXPECT(t, cuStreamWaitEvent, CUDA_SUCCESS, (s.first, s.join, 0));
    EXPECT(t, cuLaunchHostFunc, CUDA_SUCCESS, (s.first, count_call, (void *)&calls));
    EXPECT(t, cuEventRecordWithFlags, CUDA_SUCCESS, (done, s.first, EXTERNAL));
    EXPECT(t, cuStreamEndCapture, CUDA_SUCCESS, (s.first, &graph));
    EXPECT(t, cuStreamIsCapturing, CUDA_SUCCESS, (s.second, &status));
    CHECK(t, cuStreamEndCapture, status == NONE && to[0] == 0 && calls == 0);
    EXPECT(t, cuGraphGetNodes, CUDA_SUCCESS, (graph, NULL, &count));
    CHECK(t, cuGraphGetNodes, count == 6);
    EXPECT(t, cuGraphGetEdges, CUDA_SUCCESS, (graph, NULL, NULL, &count));
    CHECK(t, cuGraphGetEdges, count == 6);
    EXPECT(t, cuGraphInstantiateWithFlags, CUDA_SUCCESS, (&exec, graph, 0));
    EXPECT(t, cuGraphLaunch, CUDA_SUCCESS, (exec, s.first));
    EXPECT(t, cuStreamSynchronize, CUDA_SUCCESS, (s.first));
    CHECK(t, cuGraphLaunch, to[0] == 5 && to[BYTES - 1] == 5 && calls == 1);
    EXPECT(t, cuEventQuery, CUDA_SUCCESS, (done));
    EXPECT(t, cuGraphExecDestroy, CUDA_SUCCESS, (exec));
    EXPECT(t, cuGraphDestroy, CUDA_SUCCESS, (graph));
    EXPECT(t, cuMemFree_v2, CUDA_SUCCESS, (device));
    EXPECT(t, cuStreamBeginCapture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, (STREAM_LEGACY));
}

/* Streams that forked and did not join, that began elsewhere, or that belong to two captures. */
void case_inconsistent_captures_are_refused(struct conformance *t)
{
    struct streams s = {0};
    void *graph = NULL;
    open_streams(t, &s);
    EXPECT(t, cuStreamBeginCapture_v2, CUDA_SUCCESS, (s.first, GLOBAL));
    EXPECT(t, cuEventRecord, CUDA_SUCCESS, (s.fork, s.first));
    EXPECT(t, cuStreamWaitEvent, CUDA_SUCCESS, (s.second, s.fork, 0));
    CHECK(t, cuLaunchKernel, conformance_burn(t, s.second, SHORT_NS) == CUDA_SUCCESS);
    EXPECT(t, cuStreamEndCapture, CUDA_ERROR_STREAM_CAPTURE_UNJOINED, (s.first, &graph));
    CHECK(t, cuStreamEndCapture, graph == NULL);

    EXPECT(t, cuStreamBeginCapture_v2, CUDA_SUCCESS, (s.first, GLOBAL));
    EXPECT(t, cuEventRecord, CUDA_SUCCESS, (s.fork, s.first));
    EXPECT(t, cuStreamWaitEvent, CUDA_SUCCESS, (s.second, s.fork, 0));
    EXPECT(t, cuStreamEndCapture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, (s.second, &graph));
    EXPECT(t, cuStreamEndCapture, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, (s.first, &graph));

    EXPECT(t, cuStreamBeginCapture_v2, CUDA_SUCCESS, (s.first, GLOBAL));
    EXPECT(t, cuStreamBeginCapture_v2, CUDA_SUCCESS, (s.second, GLOBAL));
    EXPECT(t, cuEventRecord, CUDA_SUCCESS, (s.fork, s.first));
    EXPECT(t, cuStreamWaitEvent, CUDA_ERROR_STREAM_CAPTURE_MERGE, (s.second, s.fork, 0));
    EXPECT(t, cuStreamEndCapture, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, (s.first, &graph));
    EXPECT(t, cuStreamEndCapture, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, (s.second, &graph));
}

/* Events between captured and other work. */
void case_captured_events_cannot_be_queried(struct conformance *t)
{
    struct streams s = {0};
    void *graph = NULL;
    open_streams(t, &s);
    EXPECT(t, cuEventRecord, CUDA_SUCCESS, (s.join, s.second));
    EXPECT(t, cuStreamBeginCapture_v2, CUDA_SUCCESS, (s.first, RELAXED));
    EXPECT(t, cuStreamWaitEvent, CUDA_ERROR_STREAM_CAPTURE_ISOLATION, (s.first, s.join, 0));
    EXPECT(t, cuStreamEndCapture, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, (s.first, &graph));

    EXPECT(t, cuStreamBeginCapture_v2, CUDA_SUCCESS, (s.first, RELAXED));
    EXPECT(t, cuEventRecord, CUDA_SUCCESS, (s.fork, s.first));
    EXPECT(t, cuEventQuery, CUDA_ERROR_CAPTURED_EVENT, (s.fork));
    EXPECT(t, cuStreamEndCapture, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, (s.first, &graph));
    EXPECT(t, cuStreamBeginCapture_v2, CUDA_SUCCESS, (s.first, RELAXED));
    EXPECT(t, cuEventRecord, CUDA_SUCCESS, (s.fork, s.first));
    EXPECT(t, cuEventSynchronize, CUDA_ERROR_CAPTURED_EVENT, (s.fork));
    EXPECT(t, cuStreamEndCapture, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, (s.first, &graph));

    /* Recorded again outside a capture, it is an event like any other. */
    EXPECT(t, cuEventRecord, CUDA_SUCCESS, (s.fork, s.second));
    EXPECT(t, cuEventSynchronize, CUDA_SUCCESS, (s.fork));
    EXPECT(t, cuEventQuery, CUDA_SUCCESS, (s.fork));
}

/* The legacy stream waits for every blocking stream, but not for a capturing one. */
void case_legacy_stream_breaks_implicit_capture(struct conformance *t)
{
    void *blocking = NULL, *graph = NULL;
    uint64_t device = 0, id = 0;
    int status = -1;
    conformance_open_device(t);
    EXPECT(t, cuMemAlloc_v2, CUDA_SUCCESS, (&device, BYTES));
    EXPECT(t, cuStreamCreate, CUDA_SUCCESS, (&blocking, 0));
    EXPECT(t, cuStreamBeginCapture_v2, CUDA_SUCCESS, (blocking, RELAXED));
    EXPECT(t, cuStreamIsCapturing, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, (STREAM_LEGACY, &status));
    EXPECT(t, cuStreamGetCaptureInfo, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
           (STREAM_LEGACY, &status, &id));
    EXPECT(t, cuStreamIsCapturing, CUDA_SUCCESS, (blocking, &status));
    CHECK(t, cuStreamIsCapturing, status == ACTIVE);
    EXPECT(t, cuMemsetD8Async, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
           (device, 1, BYTES, STREAM_LEGACY));
    EXPECT(t, cuStreamIsCapturing, CUDA_SUCCESS, (blocking, &status));
    CHECK(t, cuMemsetD8Async, status == INVALIDATED);
    EXPECT(t, cuStreamEndCapture, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, (blocking, &graph));
    EXPECT(t, cuMemFree_v2, CUDA_SUCCESS, (device));
}

/* The predecessors of the next node, queried and changed. */
void case_capture_dependencies_can_be_changed(struct conformance *t)
{
    struct streams s = {0};
    void *graph = NULL, *own = NULL, *first_node = NULL;
    void *const *nodes = NULL;
    const CUgraphEdgeData *edges = NULL;
    uint64_t id = 0, again = 0;
    size_t count = 0;
    int status = -1;
    open_streams(t, &s);
    EXPECT(t, cuStreamUpdateCaptureDependencies, CUDA_ERROR_ILLEGAL_STATE, (s.first, NULL, 0, 0));
    EXPECT(t, cuStreamUpdateCaptureDependencies_v2, CUDA_ERROR_ILLEGAL_STATE,
           (s.first, NULL, NULL, 0, 0));
    EXPECT(t, cuGraphCreate, CUDA_SUCCESS, (&own, 0));
    EXPECT(t, cuGraphAddEmptyNode, CUDA_SUCCESS, (&first_node, own, NULL, 0));
    EXPECT(t, cuStreamBeginCaptureToGraph, CUDA_SUCCESS,
           (s.first, own, &first_node, NULL, 1, THREAD_LOCAL));
    EXPECT(t, cuStreamBeginCaptureToGraph, CUDA_ERROR_INVALID_VALUE,
           (s.second, NULL, NULL, NULL, 0, THREAD_LOCAL));
    EXPECT(t, cuStreamGetCaptureInfo, CUDA_SUCCESS, (s.first, &status, &id));
    CHECK(t, cuStreamGetCaptureInfo, status == ACTIVE && id != 0);
    EXPECT(t, cuStreamGetCaptureInfo_v2, CUDA_SUCCESS,
           (s.first, &status, &again, &graph, &nodes, &count));
    CHECK(t, cuStreamGetCaptureInfo_v2, again == id && graph == own && count == 1);
    CHECK(t, cuStreamGetCaptureInfo_v2, nodes && nodes[0] == first_node);
    EXPECT(t, cuStreamGetCaptureInfo_v2, CUDA_ERROR_INVALID_VALUE,
           (s.first, NULL, NULL, NULL, NULL, NULL));
    CHECK(t, cuLaunchKernel, conformance_burn(t, s.first, SHORT_NS) == CUDA_SUCCESS);
    EXPECT(t, cuStreamGetCaptureInfo_v3, CUDA_SUCCESS,
           (s.first, &status, &again, &graph, &nodes, &edges, &count));
    CHECK(t, cuStreamGetCaptureInfo_v3, count == 1 && nodes && nodes[0] != first_node);
    EXPECT(t, cuStreamGetCaptureInfo_v3, CUDA_ERROR_INVALID_VALUE,
           (s.first, NULL, NULL, NULL, NULL, NULL, NULL));
    EXPECT(t, cuStreamUpdateCaptureDependencies, CUDA_SUCCESS, (s.first, &first_node, 1, 0));
    EXPECT(t, cuStreamGetCaptureInfo_v2, CUDA_SUCCESS,
           (s.first, &status, NULL, NULL, NULL, &count));
    CHECK(t, cuStreamUpdateCaptureDependencies, count == 2);
    EXPECT(t, cuStreamUpdateCaptureDependencies_v2, CUDA_SUCCESS,
           (s.first, &first_node, NULL, 1, SET_DEPENDENCIES));
    EXPECT(t, cuStreamGetCaptureInfo_v2, CUDA_SUCCESS,
           (s.first, &status, NULL, NULL, NULL, &count));
    CHECK(t, cuStreamUpdateCaptureDependencies_v2, count == 1);
    EXPECT(t, cuStreamEndCapture, CUDA_SUCCESS, (s.first, &graph));
    CHECK(t, cuStreamBeginCaptureToGraph, graph == own);
    EXPECT(t, cuGraphDestroy, CUDA_SUCCESS, (own));
}

struct other_thread {
    struct conformance *t;
    void *stream, *graph;
    int mode; /* mode of the thread */
    int allocated, ended;
};

/* Allocates memory, which may disturb a capture. */
static void *disturb(void *argument)
{
    struct other_thread *other = argument;
    struct conformance *t = other->t;
    uint64_t address = 0;
    int mode = other->mode;
    (void)t->cuCtxSetCurrent(t->context);
    (void)t->cuThreadExchangeStreamCaptureMode(&mode);
    other->allocated = t->cuMemAlloc_v2(&address, BYTES);
    return NULL;
}

/* Ends the capture of another thread. */
static void *end(void *argument)
{
    struct other_thread *other = argument;
    struct conformance *t = other->t;
    (void)t->cuCtxSetCurrent(t->context);
    other->graph = NULL;
    other->ended = t->cuStreamEndCapture(other->stream, &other->graph);
    return NULL;
}

static void in_other_thread(struct other_thread *other, void *(*run)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, other) == 0)
        pthread_join(thread, NULL);
}

/* A capture's mode and a thread's mode together decide which calls are refused. */
void case_capture_modes_decide_refused_calls(struct conformance *t)
{
    struct streams s = {0};
    void *graph = NULL;
    uint64_t address = 0;
    int mode = RELAXED;
    open_streams(t, &s);
    struct other_thread other = {.t = t, .mode = GLOBAL};

    EXPECT(t, cuStreamBeginCapture_v2, CUDA_SUCCESS, (s.first, GLOBAL));
    in_other_thread(&other, disturb);
    CHECK(t, cuMemAlloc_v2, other.allocated == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT(t, cuStreamEndCapture, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, (s.first, &graph));

    other.mode = THREAD_LOCAL;
    EXPECT(t, cuStreamBeginCapture_v2, CUDA_SUCCESS, (s.first, GLOBAL));
    in_other_thread(&other, disturb);
    CHECK(t, cuThreadExchangeStreamCaptureMode, other.allocated == CUDA_SUCCESS);
    EXPECT(t, cuStreamEndCapture, CUDA_SUCCESS, (s.first, &graph));
    EXPECT(t, cuGraphDestroy, CUDA_SUCCESS, (graph));

    other.mode = GLOBAL;
    EXPECT(t, cuStreamBeginCapture_v2, CUDA_SUCCESS, (s.first, THREAD_LOCAL));
    in_other_thread(&other, disturb);
    CHECK(t, cuStreamBeginCapture_v2, other.allocated == CUDA_SUCCESS);
    EXPECT(t, cuMemAlloc_v2, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, (&address, BYTES));
    EXPECT(t, cuStreamEndCapture, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, (s.first, &graph));

    EXPECT(t, cuThreadExchangeStreamCaptureMode, CUDA_SUCCESS, (&mode));
    CHECK(t, cuThreadExchangeStreamCaptureMode, mode == GLOBAL);
    EXPECT(t, cuStreamBeginCapture_v2, CUDA_SUCCESS, (s.first, GLOBAL));
    EXPECT(t, cuMemAlloc_v2, CUDA_SUCCESS, (&address, BYTES));
    EXPECT(t, cuStreamEndCapture, CUDA_SUCCESS, (s.first, &graph));
    EXPECT(t, cuGraphDestroy, CUDA_SUCCESS, (graph));
    EXPECT(t, cuThreadExchangeStreamCaptureMode, CUDA_SUCCESS, (&mode));
    CHECK(t, cuThreadExchangeStreamCaptureMode, mode == RELAXED);
    mode = NO_MODE;
    /* The driver does not check the mode. */
    EXPECT(t, cuThreadExchangeStreamCaptureMode, CUDA_SUCCESS, (&mode));
    EXPECT(t, cuMemFree_v2, CUDA_SUCCESS, (address));
}

/* A capture is over when another thread has ended it, whatever result that thread got. */
void case_capture_ends_for_all_threads(struct conformance *t)
{
    static const int modes[] = {GLOBAL, THREAD_LOCAL, RELAXED};
    struct streams s = {0};
    void *graph = NULL;
    int status = -1;
    open_streams(t, &s);
    struct other_thread other = {.t = t, .stream = s.first, .mode = GLOBAL};
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
        EXPECT(t, cuStreamBeginCapture_v2, CUDA_SUCCESS, (s.first, modes[i]));
        in_other_thread(&other, end);
        CHECK(t, cuStreamEndCapture,
              other.ended == CUDA_SUCCESS ||
                  (modes[i] != RELAXED && other.ended == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD));
        if (other.ended == CUDA_SUCCESS)
            EXPECT(t, cuGraphDestroy, CUDA_SUCCESS, (other.graph));
        EXPECT(t, cuStreamIsCapturing, CUDA_SUCCESS, (s.first, &status));
        CHECK(t, cuStreamEndCapture, status == NONE);
        EXPECT(t, cuStreamEndCapture, CUDA_ERROR_ILLEGAL_STATE, (s.first, &graph));
    }
    EXPECT(t, cuStreamBeginCapture_v2, CUDA_SUCCESS, (s.first, GLOBAL));
    in_other_thread(&other, disturb);
    CHECK(t, cuMemAlloc_v2, other.allocated == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    in_other_thread(&other, end);
    CHECK(t, cuStreamEndCapture, other.ended == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT(t, cuStreamEndCapture, CUDA_ERROR_ILLEGAL_STATE, (s.first, &graph));
}
