/* Streams and events. */
#include <stdatomic.h>
#include <time.h>

#include "conformance.h"

#define LONG_NS  UINT64_C(300000000) /* still runs after a few calls; see may_be_over() */
#define SHORT_NS UINT64_C(20000000)

static void check_stream_facts(struct conformance *t, void *stream)
{
    void *context = NULL;
    int priority = 1;
    unsigned flags = 0;
    EXPECT(t, cuStreamGetCtx, CUDA_SUCCESS, (stream, &context));
    CHECK(t, cuStreamGetCtx, context == t->context);
    EXPECT(t, cuStreamGetCtx, CUDA_ERROR_INVALID_VALUE, (stream, NULL));
    EXPECT(t, cuStreamGetFlags, CUDA_SUCCESS, (stream, &flags));
    CHECK(t, cuStreamGetFlags, flags == CUDA_STREAM_NON_BLOCKING);
    EXPECT(t, cuStreamGetFlags, CUDA_ERROR_INVALID_VALUE, (stream, NULL));
    EXPECT(t, cuStreamGetPriority, CUDA_SUCCESS, (stream, &priority));
    CHECK(t, cuStreamGetPriority, priority == -5);
    EXPECT(t, cuStreamGetPriority, CUDA_ERROR_INVALID_VALUE, (stream, NULL));
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Returns whether a kernel of LONG_NS launched after begun_ns may be over: the machine may stall
 * between two calls. */
static bool may_be_over(uint64_t begun_ns)
{
    return now_ns() - begun_ns >= LONG_NS;
}

void case_streams_report_outstanding_work(struct conformance *t)
{
    void *plain = NULL, *high = NULL;
    conformance_open_device(t);
    EXPECT(t, cuStreamCreate, CUDA_SUCCESS, (&plain, 0));
    EXPECT(t, cuStreamCreate, CUDA_ERROR_INVALID_VALUE, (&high, 0x100));
    EXPECT(t, cuStreamCreate, CUDA_ERROR_INVALID_VALUE, (NULL, 0));
    EXPECT(t, cuStreamCreateWithPriority, CUDA_SUCCESS, (&high, CUDA_STREAM_NON_BLOCKING, -100));
    EXPECT(t, cuStreamCreateWithPriority, CUDA_ERROR_INVALID_VALUE, (NULL, 0, 0));
    check_stream_facts(t, high);
    EXPECT(t, cuStreamQuery, CUDA_SUCCESS, (plain));
    uint64_t begun_ns = now_ns();
    CHECK(t, cuLaunchKernel, conformance_burn(t, plain, LONG_NS) == CUDA_SUCCESS);
    CHECK(t, cuStreamQuery,
          t->cuStreamQuery(plain) == CUDA_ERROR_NOT_READY || may_be_over(begun_ns));
    EXPECT(t, cuStreamSynchronize, CUDA_SUCCESS, (plain));
    EXPECT(t, cuStreamQuery, CUDA_SUCCESS, (plain));
    _Atomic uint32_t *hold = conformance_hold(t, plain);
    CHECK(t, cuLaunchKernel, conformance_burn(t, plain, SHORT_NS) == CUDA_SUCCESS);
    EXPECT(t, cuStreamQuery, CUDA_ERROR_NOT_READY, (plain));
    EXPECT(t, cuStreamQuery, CUDA_SUCCESS, (high));
    conformance_let_go(hold);
    EXPECT(t, cuStreamSynchronize, CUDA_SUCCESS, (plain));
    EXPECT(t, cuStreamQuery, CUDA_SUCCESS, (plain));
    EXPECT(t, cuStreamQuery, CUDA_SUCCESS, (NULL));
    EXPECT(t, cuStreamDestroy, CUDA_SUCCESS, (plain));
    EXPECT(t, cuStreamDestroy_v2, CUDA_SUCCESS, (high));
    EXPECT(t, cuStreamDestroy, CUDA_ERROR_INVALID_HANDLE, (NULL));
    EXPECT(t, cuStreamDestroy_v2, CUDA_ERROR_INVALID_HANDLE, (NULL));
}

/* Events of a kernel of known length, before, during and after its run. */
static void check_event_times(struct conformance *t, void *stream, void *start, void *end)
{
    float ms = -1;
    EXPECT(t, cuEventElapsedTime, CUDA_ERROR_INVALID_HANDLE,
           (&ms, start, end)); /* never recorded */
    EXPECT(t, cuEventElapsedTime_v2, CUDA_ERROR_INVALID_HANDLE, (&ms, start, end));
    EXPECT(t, cuEventQuery, CUDA_SUCCESS, (end));
    _Atomic uint32_t *hold = conformance_hold(t, stream);
    EXPECT(t, cuEventRecord, CUDA_SUCCESS, (start, stream));
    CHECK(t, cuLaunchKernel, conformance_burn(t, stream, LONG_NS) == CUDA_SUCCESS);
    EXPECT(t, cuEventRecordWithFlags, CUDA_SUCCESS, (end, stream, 0));
    EXPECT(t, cuEventQuery, CUDA_ERROR_NOT_READY, (end));
    EXPECT(t, cuEventElapsedTime, CUDA_ERROR_NOT_READY, (&ms, start, end));
    EXPECT(t, cuEventElapsedTime_v2, CUDA_ERROR_NOT_READY, (&ms, start, end));
    conformance_let_go(hold);
    EXPECT(t, cuEventSynchronize, CUDA_SUCCESS, (end));
    EXPECT(t, cuEventQuery, CUDA_SUCCESS, (end));
    EXPECT(t, cuEventElapsedTime, CUDA_SUCCESS, (&ms, start, end));
    CHECK(t, cuEventElapsedTime, ms > 295 && ms < 2000);
    ms = -1;
    EXPECT(t, cuEventElapsedTime_v2, CUDA_SUCCESS, (&ms, start, end));
    CHECK(t, cuEventElapsedTime_v2, ms > 295 && ms < 2000);
}

void case_events_order_and_time_work(struct conformance *t)
{
    void *start = NULL, *end = NULL, *untimed = NULL, *first = NULL, *second = NULL;
    float ms;
    conformance_open_device(t);
    EXPECT(t, cuStreamCreate, CUDA_SUCCESS, (&first, CUDA_STREAM_NON_BLOCKING));
    EXPECT(t, cuStreamCreate, CUDA_SUCCESS, (&second, CUDA_STREAM_NON_BLOCKING));
    EXPECT(t, cuEventCreate, CUDA_SUCCESS, (&start, 0));
    EXPECT(t, cuEventCreate, CUDA_SUCCESS, (&end, 1));
    EXPECT(t, cuEventCreate, CUDA_SUCCESS, (&untimed, CUDA_EVENT_DISABLE_TIMING));
    EXPECT(t, cuEventCreate, CUDA_ERROR_INVALID_VALUE, (&start, 0x1000));
    EXPECT(t, cuEventCreate, CUDA_ERROR_INVALID_VALUE, (NULL, 0));
    check_event_times(t, first, start, end);

    /* The second stream waits for the first stream's work up to the event. */
    CHECK(t, cuLaunchKernel, conformance_burn(t, first, SHORT_NS) == CUDA_SUCCESS);
    EXPECT(t, cuEventRecord, CUDA_SUCCESS, (end, first));
    EXPECT(t, cuStreamWaitEvent, CUDA_SUCCESS, (second, end, 0));
    EXPECT(t, cuStreamSynchronize, CUDA_SUCCESS, (second));
    EXPECT(t, cuEventQuery, CUDA_SUCCESS, (end));

    EXPECT(t, cuEventRecord, CUDA_SUCCESS, (untimed, first));
    EXPECT(t, cuEventSynchronize, CUDA_SUCCESS, (untimed));
    EXPECT(t, cuEventElapsedTime, CUDA_ERROR_INVALID_HANDLE, (&ms, start, untimed));
    EXPECT(t, cuStreamWaitEvent, CUDA_ERROR_INVALID_HANDLE, (second, NULL, 0));
    EXPECT(t, cuEventRecord, CUDA_ERROR_INVALID_HANDLE, (NULL, first));
    EXPECT(t, cuEventRecordWithFlags, CUDA_ERROR_INVALID_HANDLE, (NULL, first, 0));
    EXPECT(t, cuEventQuery, CUDA_ERROR_INVALID_HANDLE, (NULL));
    EXPECT(t, cuEventSynchronize, CUDA_ERROR_INVALID_HANDLE, (NULL));
    EXPECT(t, cuEventDestroy, CUDA_ERROR_INVALID_HANDLE, (NULL));
    EXPECT(t, cuEventDestroy_v2, CUDA_ERROR_INVALID_HANDLE, (NULL));
    EXPECT(t, cuEventDestroy, CUDA_SUCCESS, (start));
    EXPECT(t, cuEventDestroy_v2, CUDA_SUCCESS, (end));
    EXPECT(t, cuEventDestroy_v2, CUDA_SUCCESS, (untimed));
}

struct steps {
    _Atomic int count;
    int first, second;
};

static void first_step(void *argument)
{
    struct steps *steps = argument;
    steps->first = ++steps->count;
}

static void second_step(void *argument)
{
    struct steps *steps = argument;
    steps->second = ++steps->count;
}

void case_host_functions_run_in_order(struct conformance *t)
{
    struct steps steps = {0};
    void *stream = NULL;
    conformance_open_device(t);
    EXPECT(t, cuStreamCreate, CUDA_SUCCESS, (&stream, CUDA_STREAM_NON_BLOCKING));
    uint64_t begun_ns = now_ns();
    CHECK(t, cuLaunchKernel, conformance_burn(t, stream, LONG_NS) == CUDA_SUCCESS);
    EXPECT(t, cuLaunchHostFunc, CUDA_SUCCESS, (stream, first_step, &steps));
    EXPECT(t, cuLaunchHostFunc, CUDA_SUCCESS, (stream, second_step, &steps));
    CHECK(t, cuLaunchHostFunc, steps.count == 0 || may_be_over(begun_ns));
    EXPECT(t, cuStreamSynchronize, CUDA_SUCCESS, (stream));
    CHECK(t, cuLaunchHostFunc, steps.first == 1 && steps.second == 2);
    EXPECT(t, cuLaunchHostFunc, CUDA_ERROR_INVALID_VALUE, (stream, NULL, NULL));
    EXPECT(t, cuStreamDestroy_v2, CUDA_SUCCESS, (stream));
}

void case_streams_write_and_await_values(struct conformance *t)
{
    enum { WAIT_GEQ = 0, WAIT_EQ = 1 };
    void *stream = NULL, *memory = NULL;
    uint64_t at = 0;
    conformance_open_device(t);
    EXPECT(t, cuStreamCreate, CUDA_SUCCESS, (&stream, CUDA_STREAM_NON_BLOCKING));
    EXPECT(t, cuMemHostAlloc, CUDA_SUCCESS, (&memory, 4096, 2));
    EXPECT(t, cuMemHostGetDevicePointer_v2, CUDA_SUCCESS, (&at, memory, 0));
    _Atomic uint64_t *words = memory;
    words[0] = words[1] = words[2] = 0;

    /* A write comes after earlier launches. */
    uint64_t begun_ns = now_ns();
    CHECK(t, cuLaunchKernel, conformance_burn(t, stream, LONG_NS) == CUDA_SUCCESS);
    EXPECT(t, cuStreamWriteValue64_v2, CUDA_SUCCESS, (stream, at, UINT64_C(0x123456789a), 0));
    EXPECT(t, cuStreamWriteValue32_v2, CUDA_SUCCESS, (stream, at + 8, 7, 0));
    CHECK(t, cuStreamWriteValue64_v2, words[0] == 0 || may_be_over(begun_ns));
    EXPECT(t, cuStreamSynchronize, CUDA_SUCCESS, (stream));
    CHECK(t, cuStreamWriteValue64_v2, words[0] == UINT64_C(0x123456789a));
    CHECK(t, cuStreamWriteValue32_v2, words[1] == 7);

    /* A stream waits until the host has written. */
    EXPECT(t, cuStreamWaitValue32_v2, CUDA_SUCCESS, (stream, at + 16, 5, WAIT_GEQ));
    EXPECT(t, cuStreamWaitValue64_v2, CUDA_SUCCESS, (stream, at + 16, 6, WAIT_EQ));
    EXPECT(t, cuStreamQuery, CUDA_ERROR_NOT_READY, (stream));
    words[2] = 6;
    EXPECT(t, cuStreamSynchronize, CUDA_SUCCESS, (stream));
    EXPECT(t, cuStreamWriteValue32_v2, CUDA_ERROR_INVALID_VALUE, (stream, at + 1, 0, 0));
    EXPECT(t, cuStreamWriteValue64_v2, CUDA_ERROR_INVALID_VALUE, (stream, at + 4, 0, 0));
    EXPECT(t, cuStreamWaitValue32_v2, CUDA_ERROR_INVALID_VALUE, (stream, at + 1, 0, 0));
    EXPECT(t, cuStreamWaitValue64_v2, CUDA_ERROR_INVALID_VALUE, (stream, at + 4, 0, 0));
    EXPECT(t, cuMemFreeHost, CUDA_SUCCESS, (memory));
}

static void note_callback(void *stream, int result, void *argument)
{
    struct steps *steps = argument;
    (void)stream;
    steps->first = result == CUDA_SUCCESS ? ++steps->count : -1;
}

void case_stream_callbacks_run_after_work(struct conformance *t)
{
    struct steps steps = {0};
    void *stream = NULL, *memory = NULL;
    uint64_t at = 0;
    conformance_open_device(t);
    EXPECT(t, cuStreamCreate, CUDA_SUCCESS, (&stream, CUDA_STREAM_NON_BLOCKING));
    CHECK(t, cuLaunchKernel, conformance_burn(t, stream, SHORT_NS) == CUDA_SUCCESS);
    EXPECT(t, cuStreamAddCallback, CUDA_SUCCESS, (stream, note_callback, &steps, 0));
    EXPECT(t, cuStreamAddCallback, CUDA_ERROR_INVALID_VALUE, (stream, NULL, &steps, 0));
    EXPECT(t, cuStreamSynchronize, CUDA_SUCCESS, (stream));
    CHECK(t, cuStreamAddCallback, steps.first == 1);

    EXPECT(t, cuMemHostAlloc, CUDA_SUCCESS, (&memory, 4096, 2));
    EXPECT(t, cuMemHostGetDevicePointer_v2, CUDA_SUCCESS, (&at, memory, 0));
    _Atomic uint64_t *words = memory;
    words[0] = words[1] = 0;
    CUstreamBatchMemOpParams both[] = {
        {.operation = CUDA_WORD_WRITE_64, .address = at, .value = 5},
        {.operation = CUDA_WORD_WRITE_32, .address = at + 8, .value = 6},
    };
    EXPECT(t, cuStreamBatchMemOp_v2, CUDA_SUCCESS, (stream, 2, both, 0));
    EXPECT(t, cuStreamSynchronize, CUDA_SUCCESS, (stream));
    CHECK(t, cuStreamBatchMemOp_v2, words[0] == 5 && words[1] == 6);
    EXPECT(t, cuMemFreeHost, CUDA_SUCCESS, (memory));
}

/* An event after all streams of a context, and all streams of a context after an event. */
void case_context_events_cover_all_streams(struct conformance *t)
{
    void *first = NULL, *second = NULL, *event = NULL;
    conformance_open_device(t);
    EXPECT(t, cuStreamCreate, CUDA_SUCCESS, (&first, CUDA_STREAM_NON_BLOCKING));
    EXPECT(t, cuStreamCreate, CUDA_SUCCESS, (&second, CUDA_STREAM_NON_BLOCKING));
    EXPECT(t, cuEventCreate, CUDA_SUCCESS, (&event, CUDA_EVENT_DISABLE_TIMING));
    CHECK(t, cuLaunchKernel, conformance_burn(t, second, 1000) == CUDA_SUCCESS);
    EXPECT(t, cuStreamSynchronize, CUDA_SUCCESS, (second));
    _Atomic uint32_t *hold = conformance_hold(t, first);
    CHECK(t, cuLaunchKernel, conformance_burn(t, first, SHORT_NS) == CUDA_SUCCESS);
    EXPECT(t, cuCtxRecordEvent, CUDA_SUCCESS, (t->context, event));
    EXPECT(t, cuCtxRecordEvent, CUDA_ERROR_INVALID_HANDLE, (t->context, NULL));
    EXPECT(t, cuEventQuery, CUDA_ERROR_NOT_READY, (event));
    EXPECT(t, cuCtxWaitEvent, CUDA_SUCCESS, (t->context, event));
    EXPECT(t, cuCtxWaitEvent, CUDA_ERROR_INVALID_HANDLE, (t->context, NULL));
    CHECK(t, cuLaunchKernel, conformance_burn(t, second, 1000) == CUDA_SUCCESS);
    EXPECT(t, cuStreamQuery, CUDA_ERROR_NOT_READY, (second));
    conformance_let_go(hold);
    EXPECT(t, cuStreamSynchronize, CUDA_SUCCESS, (second));
    EXPECT(t, cuStreamQuery, CUDA_SUCCESS, (first));
    EXPECT(t, cuEventQuery, CUDA_SUCCESS, (event));
}
