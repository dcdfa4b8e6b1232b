/* Streams that end, and captures that begin and end. */
#include "shim/process.h"

/* Returns the result of `call`, which begins a capture on `stream`. What is known of the stream is asked
 * before: one that captures answers less. */
#define BEGIN(stream, is_per_thread, call)                                                         \
    struct process *p = process_enter();                                                           \
    struct stream *record = find(p, stream, is_per_thread);                                        \
    if (record)                                                                                    \
        streams_note_capture(p, record, true);                                                     \
    CUresult r = p->calls.real.call;                                                               \
    if (record && r != CUDA_SUCCESS)                                                               \
        streams_note_capture(p, record, false);                                                    \
    return r
/* The same for one that ends it. It also ends when it turns out to be invalid; but not by a thread that has no
 * right to. */
#define END(stream, is_per_thread, call)                                                           \
    struct process *p = process_enter();                                                           \
    struct stream *record = find(p, stream, is_per_thread);                                        \
    CUresult r = p->calls.real.call;                                                               \
    if (record && r != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)                                     \
        streams_note_capture(p, record, false);                                                    \
    return r

static struct stream *find(struct process *p, CUstream handle, bool is_per_thread)
{
    if (!process_is_ready(p))
        return NULL;
    uint64_t key = streams_key(p, &handle, is_per_thread);
    return streams_find_slowly(p, key, handle);
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
