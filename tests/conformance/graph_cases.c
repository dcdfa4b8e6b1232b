/* Capturing streams, and the graphs that they make. */
#include "conformance.h"

enum { GLOBAL = 0, RELAXED = 2, NO_MODE = 99, NONE = 0, ACTIVE = 1, INVALIDATED = 2 };
#define KERNEL_NS UINT64_C(50000000)

void case_captured_graph_repeats_work(struct conformance *t)
{
    void *stream = NULL, *graph = NULL, *exec = NULL, *start = NULL, *end = NULL;
    size_t count = 0;
    int status = -1;
    float ms = 0;
    conformance_open_device(t);
    EXPECT(t, cuStreamCreate, CUDA_SUCCESS, (&stream, CUDA_STREAM_NON_BLOCKING));
    EXPECT(t, cuEventCreate, CUDA_SUCCESS, (&start, 0));
    EXPECT(t, cuEventCreate, CUDA_SUCCESS, (&end, 0));
    EXPECT(t, cuStreamBeginCapture_v2, CUDA_SUCCESS, (stream, GLOBAL));
    EXPECT(t, cuStreamIsCapturing, CUDA_SUCCESS, (stream, &status));
    CHECK(t, cuStreamIsCapturing, status == ACTIVE);
    CHECK(t, cuLaunchKernel, conformance_burn(t, stream, KERNEL_NS) == CUDA_SUCCESS);
    CHECK(t, cuLaunchKernel, conformance_burn(t, stream, KERNEL_NS) == CUDA_SUCCESS);
    EXPECT(t, cuStreamEndCapture, CUDA_SUCCESS, (stream, &graph));
    EXPECT(t, cuStreamIsCapturing, CUDA_SUCCESS, (stream, &status));
    CHECK(t, cuStreamEndCapture, status == NONE && graph != NULL);
    EXPECT(t, cuStreamQuery, CUDA_SUCCESS, (stream)); /* the stream has executed nothing */
    EXPECT(t, cuGraphGetNodes, CUDA_SUCCESS, (graph, NULL, &count));
    CHECK(t, cuGraphGetNodes, count == 2);
    EXPECT(t, cuGraphGetNodes, CUDA_ERROR_INVALID_VALUE, (NULL, NULL, &count));
    EXPECT(t, cuGraphInstantiateWithFlags, CUDA_SUCCESS, (&exec, graph, 0));
    EXPECT(t, cuGraphDestroy, CUDA_SUCCESS, (graph));

    EXPECT(t, cuEventRecord, CUDA_SUCCESS, (start, stream));
    EXPECT(t, cuGraphLaunch, CUDA_SUCCESS, (exec, stream));
    EXPECT(t, cuGraphLaunch, CUDA_SUCCESS, (exec, stream));
    EXPECT(t, cuEventRecord, CUDA_SUCCESS, (end, stream));
    EXPECT(t, cuStreamSynchronize, CUDA_SUCCESS, (stream));
    EXPECT(t, cuEventElapsedTime, CUDA_SUCCESS, (&ms, start, end));
    CHECK(t, cuGraphLaunch, ms > 195 && ms < 2000); /* four kernels, one after another */
    EXPECT(t, cuGraphExecDestroy, CUDA_SUCCESS, (exec));
    EXPECT(t, cuGraphLaunch, CUDA_ERROR_INVALID_VALUE, (NULL, stream));
    EXPECT(t, cuGraphInstantiateWithFlags, CUDA_ERROR_INVALID_VALUE, (&exec, NULL, 0));
    EXPECT(t, cuGraphDestroy, CUDA_ERROR_INVALID_VALUE, (NULL));
    EXPECT(t, cuGraphExecDestroy, CUDA_ERROR_INVALID_VALUE, (NULL));
}

void case_forbidden_calls_break_captures(struct conformance *t)
{
    void *stream = NULL, *graph = t;
    uint64_t address = 0;
    int status = -1;
    conformance_open_device(t);
    EXPECT(t, cuStreamCreate, CUDA_SUCCESS, (&stream, CUDA_STREAM_NON_BLOCKING));
    EXPECT(t, cuStreamBeginCapture_v2, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
           (STREAM_LEGACY, GLOBAL));
    EXPECT(t, cuStreamBeginCapture_v2, CUDA_ERROR_INVALID_VALUE, (stream, NO_MODE));
    EXPECT(t, cuStreamIsCapturing, CUDA_ERROR_INVALID_VALUE, (stream, NULL));
    EXPECT(t, cuStreamEndCapture, CUDA_ERROR_ILLEGAL_STATE, (stream, &graph));

    /* Waiting for a capturing stream would never end. */
    EXPECT(t, cuStreamBeginCapture_v2, CUDA_SUCCESS, (stream, RELAXED));
    EXPECT(t, cuStreamBeginCapture_v2, CUDA_ERROR_ILLEGAL_STATE, (stream, RELAXED));
    EXPECT(t, cuStreamSynchronize, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, (stream));
    EXPECT(t, cuStreamIsCapturing, CUDA_SUCCESS, (stream, &status));
    CHECK(t, cuStreamIsCapturing, status == INVALIDATED);
    EXPECT(t, cuStreamEndCapture, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, (stream, &graph));
    CHECK(t, cuStreamEndCapture, graph == NULL);

    /* An allocation may wait for the device: the global mode forbids it, the relaxed mode does
     * not. */
    EXPECT(t, cuStreamBeginCapture_v2, CUDA_SUCCESS, (stream, RELAXED));
    EXPECT(t, cuMemAlloc_v2, CUDA_SUCCESS, (&address, 4096));
    EXPECT(t, cuStreamEndCapture, CUDA_SUCCESS, (stream, &graph));
    EXPECT(t, cuGraphDestroy, CUDA_SUCCESS, (graph));
    EXPECT(t, cuStreamBeginCapture_v2, CUDA_SUCCESS, (stream, GLOBAL));
    EXPECT(t, cuMemAlloc_v2, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, (&address, 4096));
    EXPECT(t, cuStreamEndCapture, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, (stream, &graph));
}
