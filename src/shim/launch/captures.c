/* Hooks of calls that destroy streams, and that begin and end captures. */
#include "shim/life/process.h"

/* Returns the result of `call`, which begins a capture on `stream`. The stream is looked up before
 * the call, since a capturing stream answers fewer queries. */
#define BEGIN(stream, is_per_thread, call)                                                         \
    struct process *p = process_enter();                                                           \
    struct place place = find(p, stream, is_per_thread);                                           \
    bool is_counted = begin(p, &place);                                                            \
    CUresult r = p->calls.real.call;                                                               \
    if (r != CUDA_SUCCESS && is_counted)                                                           \
        take_back(p, &place);                                                                      \
    return r
/* Like BEGIN, for a call that ends a capture. */
#define END(stream, is_per_thread, call)                                                           \
    struct process *p = process_enter();                                                           \
    struct place place = find(p, stream, is_per_thread);                                           \
    bool is_alone = is_counted_alone(p, &place);                                                   \
    CUresult r = p->calls.real.call;                                                               \
    end(p, &place, is_alone, r);                                                                   \
    return r

/* The stream on which a capture begins or ends. A capture on a stream without a record is counted
 * too, since the capture may include streams that have one. */
struct place {
    CUstream handle;       /* handle for calls without a variant */
    struct stream *record; /* NULL: all slots are taken */
};

static struct place find(struct process *p, CUstream handle, bool is_per_thread)
{
    struct place place = {.handle = handle};
    if (!process_is_ready(p))
        return place;
    uint64_t key = streams_key(p, &place.handle, is_per_thread);
    place.record = streams_find_slowly(p, key, place.handle);
    return place;
}

static void count_down(struct launch *launch)
{
    uint32_t captures = atomic_load(&launch->captures);
    while (captures > 0 &&
           !atomic_compare_exchange_weak(&launch->captures, &captures, captures - 1))
        continue;
}

/* Returns whether a failure of the driver's call must be undone. False: the stream captures
 * already, and continues. */
static bool begin(struct process *p, const struct place *place)
{
    if (place->record)
        return streams_begin_capture(p, place->record);
    if (!process_is_ready(p))
        return false;
    atomic_fetch_add(&p->launch->captures, 1);
    return true;
}

static void take_back(struct process *p, const struct place *place)
{
    if (place->record)
        streams_end_capture(p, place->record);
    else
        count_down(p->launch);
}

/* Returns, before the end of a capture, whether no record knows of it. The stream may have got a
 * record since the capture began. */
static bool is_counted_alone(struct process *p, const struct place *place)
{
    return process_is_ready(p) && !(place->record && atomic_load(&place->record->is_capturing)) &&
           streams_is_capturing(p, place->handle);
}

/* An invalid capture also ends, but not if the driver refused the call from a wrong thread. */
static void end(struct process *p, const struct place *place, bool is_alone, CUresult r)
{
    if (is_alone) {
        if (!streams_is_capturing(p, place->handle))
            count_down(p->launch);
    } else if (place->record && r != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD) {
        streams_end_capture(p, place->record);
    }
}

CUresult hook_cuStreamBeginCapture(CUstream stream)
{
    BEGIN(stream, false, cuStreamBeginCapture(stream));
}

CUresult hook_cuStreamBeginCapture_ptsz(CUstream stream)
{
    BEGIN(stream, true, cuStreamBeginCapture_ptsz(stream));
}

CUresult hook_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    BEGIN(stream, false, cuStreamBeginCapture_v2(stream, mode));
}

CUresult hook_cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode)
{
    BEGIN(stream, true, cuStreamBeginCapture_v2_ptsz(stream, mode));
}

CUresult hook_cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *nodes,
                                          const CUgraphEdgeData *edges, size_t count,
                                          CUstreamCaptureMode mode)
{
    BEGIN(stream, false, cuStreamBeginCaptureToGraph(stream, graph, nodes, edges, count, mode));
}

CUresult hook_cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
                                               const CUgraphNode *nodes,
                                               const CUgraphEdgeData *edges, size_t count,
                                               CUstreamCaptureMode mode)
{
    BEGIN(stream, true, cuStreamBeginCaptureToGraph_ptsz(stream, graph, nodes, edges, count, mode));
}

CUresult hook_cuStreamEndCapture(CUstream stream, CUgraph *ret_graph)
{
    END(stream, false, cuStreamEndCapture(stream, ret_graph));
}

CUresult hook_cuStreamEndCapture_ptsz(CUstream stream, CUgraph *ret_graph)
{
    END(stream, true, cuStreamEndCapture_ptsz(stream, ret_graph));
}

CUresult hook_cuStreamDestroy(CUstream stream)
{
    struct process *p = process_enter();
    if (process_is_ready(p))
        streams_forget(p, stream);
    return p->calls.real.cuStreamDestroy(stream);
}

CUresult hook_cuStreamDestroy_v2(CUstream stream)
{
    struct process *p = process_enter();
    if (process_is_ready(p))
        streams_forget(p, stream);
    return p->calls.real.cuStreamDestroy_v2(stream);
}
