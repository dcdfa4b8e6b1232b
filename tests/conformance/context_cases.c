/* No context, contexts made by calls, and a device's primary context. */
#include "conformance.h"

enum { NO_DEVICE = 1000, NO_FLAGS = 0x10000000, SCHEDULE_SPIN = 1, SCHEDULE_YIELD = 2 };

void case_calls_without_context_fail(struct conformance *t)
{
    int number;
    unsigned flags;
    size_t bytes;
    uint64_t address;
    void *handle = t;
    EXPECT(t, cuInit, CUDA_SUCCESS, (0));
    EXPECT(t, cuCtxGetCurrent, CUDA_SUCCESS, (&handle));
    CHECK(t, cuCtxGetCurrent, handle == NULL);
    EXPECT(t, cuCtxGetDevice, CUDA_ERROR_INVALID_CONTEXT, (&number));
    EXPECT(t, cuCtxGetFlags, CUDA_ERROR_INVALID_CONTEXT, (&flags));
    EXPECT(t, cuCtxGetStreamPriorityRange, CUDA_ERROR_INVALID_CONTEXT, (&number, &number));
    EXPECT(t, cuCtxPopCurrent_v2, CUDA_ERROR_INVALID_CONTEXT, (&handle));
    EXPECT(t, cuCtxPushCurrent_v2, CUDA_ERROR_INVALID_VALUE, (NULL));
    EXPECT(t, cuCtxDestroy_v2, CUDA_ERROR_INVALID_VALUE, (NULL));
    EXPECT(t, cuCtxSynchronize, CUDA_ERROR_INVALID_CONTEXT, ());
    EXPECT(t, cuMemAlloc_v2, CUDA_ERROR_INVALID_CONTEXT, (&address, 4096));
    EXPECT(t, cuMemAllocHost_v2, CUDA_ERROR_INVALID_CONTEXT, (&handle, 4096));
    EXPECT(t, cuMemHostAlloc, CUDA_ERROR_INVALID_CONTEXT, (&handle, 4096, 0));
    EXPECT(t, cuMemGetInfo_v2, CUDA_ERROR_INVALID_CONTEXT, (&bytes, &bytes));
    EXPECT(t, cuStreamCreate, CUDA_ERROR_INVALID_CONTEXT, (&handle, 0));
    EXPECT(t, cuStreamSynchronize, CUDA_ERROR_INVALID_CONTEXT, (NULL));
    EXPECT(t, cuEventCreate, CUDA_ERROR_INVALID_CONTEXT, (&handle, 0));
    EXPECT(t, cuModuleLoadData, CUDA_ERROR_INVALID_CONTEXT, (&handle, conformance_ptx));
}

void case_contexts_can_be_stacked(struct conformance *t)
{
    void *first = NULL, *second = NULL, *current = NULL;
    int device = -1, least = -1, greatest = 1;
    unsigned flags = 0, version = 0;
    EXPECT(t, cuInit, CUDA_SUCCESS, (0));
    EXPECT(t, cuCtxCreate_v2, CUDA_ERROR_INVALID_DEVICE, (&first, 0, NO_DEVICE));
    EXPECT(t, cuCtxCreate_v2, CUDA_ERROR_INVALID_VALUE, (&first, NO_FLAGS, 0));
    EXPECT(t, cuCtxCreate_v2, CUDA_ERROR_INVALID_VALUE, (NULL, 0, 0));
    EXPECT(t, cuCtxCreate_v2, CUDA_SUCCESS, (&first, SCHEDULE_SPIN, 0));
    EXPECT(t, cuCtxGetFlags, CUDA_SUCCESS, (&flags));
    CHECK(t, cuCtxGetFlags, (flags & 7) == SCHEDULE_SPIN);
    EXPECT(t, cuCtxGetFlags, CUDA_ERROR_INVALID_VALUE, (NULL));
    EXPECT(t, cuCtxCreate_v2, CUDA_SUCCESS, (&second, 0, 0));
    EXPECT(t, cuCtxGetCurrent, CUDA_SUCCESS, (&current));
    CHECK(t, cuCtxGetCurrent, current == second && first != second);
    EXPECT(t, cuCtxGetCurrent, CUDA_ERROR_INVALID_VALUE, (NULL));
    EXPECT(t, cuCtxGetDevice, CUDA_SUCCESS, (&device));
    CHECK(t, cuCtxGetDevice, device == 0);
    EXPECT(t, cuCtxGetDevice, CUDA_ERROR_INVALID_VALUE, (NULL));
    EXPECT(t, cuCtxGetApiVersion, CUDA_SUCCESS, (first, &version));
    CHECK(t, cuCtxGetApiVersion, version >= 3010);
    EXPECT(t, cuCtxGetApiVersion, CUDA_ERROR_INVALID_VALUE, (first, NULL));
    EXPECT(t, cuCtxGetStreamPriorityRange, CUDA_SUCCESS, (&least, &greatest));
    CHECK(t, cuCtxGetStreamPriorityRange, least == 0 && greatest == -5);
    EXPECT(t, cuCtxPopCurrent_v2, CUDA_SUCCESS, (&current));
    CHECK(t, cuCtxPopCurrent_v2, current == second);
    EXPECT(t, cuCtxPushCurrent_v2, CUDA_SUCCESS, (second));
    EXPECT(t, cuCtxSetCurrent, CUDA_SUCCESS, (first));
    EXPECT(t, cuCtxGetCurrent, CUDA_SUCCESS, (&current));
    CHECK(t, cuCtxSetCurrent, current == first);
    EXPECT(t, cuCtxSynchronize, CUDA_SUCCESS, ());
    EXPECT(t, cuCtxDestroy_v2, CUDA_SUCCESS, (second));
    EXPECT(t, cuCtxDestroy_v2, CUDA_SUCCESS, (first));
    EXPECT(t, cuCtxSetCurrent, CUDA_SUCCESS, (NULL));
}

static void check_primary_flags(struct conformance *t)
{
    unsigned flags = 0;
    int active = -1;
    EXPECT(t, cuDevicePrimaryCtxSetFlags, CUDA_SUCCESS, (0, SCHEDULE_SPIN));
    EXPECT(t, cuDevicePrimaryCtxSetFlags, CUDA_ERROR_INVALID_DEVICE, (NO_DEVICE, 0));
    EXPECT(t, cuDevicePrimaryCtxSetFlags, CUDA_ERROR_INVALID_VALUE, (0, NO_FLAGS));
    EXPECT(t, cuDevicePrimaryCtxSetFlags_v2, CUDA_SUCCESS, (0, SCHEDULE_YIELD));
    EXPECT(t, cuDevicePrimaryCtxSetFlags_v2, CUDA_ERROR_INVALID_DEVICE, (NO_DEVICE, 0));
    EXPECT(t, cuDevicePrimaryCtxSetFlags_v2, CUDA_ERROR_INVALID_VALUE, (0, NO_FLAGS));
    EXPECT(t, cuDevicePrimaryCtxGetState, CUDA_SUCCESS, (0, &flags, &active));
    CHECK(t, cuDevicePrimaryCtxGetState, (flags & 7) == SCHEDULE_YIELD && active == 0);
    EXPECT(t, cuDevicePrimaryCtxGetState, CUDA_ERROR_INVALID_DEVICE, (NO_DEVICE, &flags, &active));
}

void case_primary_context_counts_references(struct conformance *t)
{
    void *first = NULL, *second = NULL;
    unsigned flags;
    int active = -1;
    EXPECT(t, cuInit, CUDA_SUCCESS, (0));
    check_primary_flags(t);
    EXPECT(t, cuDevicePrimaryCtxRelease, CUDA_SUCCESS, (0)); /* the older call succeeds */
    EXPECT(t, cuDevicePrimaryCtxRelease_v2, CUDA_ERROR_INVALID_CONTEXT, (0));
    EXPECT(t, cuDevicePrimaryCtxRetain, CUDA_ERROR_INVALID_VALUE, (NULL, 0));
    EXPECT(t, cuDevicePrimaryCtxRetain, CUDA_ERROR_INVALID_DEVICE, (&first, NO_DEVICE));
    EXPECT(t, cuDevicePrimaryCtxRetain, CUDA_SUCCESS, (&first, 0));
    EXPECT(t, cuDevicePrimaryCtxRetain, CUDA_SUCCESS, (&second, 0));
    CHECK(t, cuDevicePrimaryCtxRetain, first == second && first != NULL);
    EXPECT(t, cuDevicePrimaryCtxRelease_v2, CUDA_SUCCESS, (0));
    EXPECT(t, cuDevicePrimaryCtxGetState, CUDA_SUCCESS, (0, &flags, &active));
    CHECK(t, cuDevicePrimaryCtxGetState, active == 1);
    EXPECT(t, cuDevicePrimaryCtxRelease, CUDA_SUCCESS, (0));
    EXPECT(t, cuDevicePrimaryCtxGetState, CUDA_SUCCESS, (0, &flags, &active));
    CHECK(t, cuDevicePrimaryCtxRelease, active == 0);
    EXPECT(t, cuDevicePrimaryCtxRelease, CUDA_ERROR_INVALID_DEVICE, (NO_DEVICE));
    EXPECT(t, cuDevicePrimaryCtxRelease_v2, CUDA_ERROR_INVALID_DEVICE, (NO_DEVICE));
    EXPECT(t, cuDevicePrimaryCtxRetain, CUDA_SUCCESS, (&first, 0));
    EXPECT(t, cuDevicePrimaryCtxReset_v2, CUDA_SUCCESS, (0));
    EXPECT(t, cuDevicePrimaryCtxGetState, CUDA_SUCCESS, (0, &flags, &active));
    CHECK(t, cuDevicePrimaryCtxReset_v2, active == 0);
    EXPECT(t, cuDevicePrimaryCtxReset, CUDA_SUCCESS, (0));
    EXPECT(t, cuDevicePrimaryCtxReset, CUDA_ERROR_INVALID_DEVICE, (NO_DEVICE));
    EXPECT(t, cuDevicePrimaryCtxReset_v2, CUDA_ERROR_INVALID_DEVICE, (NO_DEVICE));
}
