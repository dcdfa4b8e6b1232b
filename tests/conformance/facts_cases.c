/* Queries and settings of contexts, streams, functions, addresses and pools. */
#include <string.h>

#include "conformance.h"

enum { NO_DEVICE = 1000, NO_LIMIT = 99, NO_ATTRIBUTE = 99, MIB = 1 << 20 };
enum { LIMIT_STACK = 0, LIMIT_HEAP = 2, SYNC_POLICY = 3, PRIORITY = 8, SPIN = 2, PINNED = 1 };

void case_context_settings_can_be_queried(struct conformance *t)
{
    size_t value = 0;
    unsigned long long id = 0, other_id = 0;
    int device = -1, config = -1;
    void *other = NULL;
    conformance_open_device(t);
    EXPECT(t, cuCtxGetLimit, CUDA_SUCCESS, (&value, LIMIT_STACK));
    CHECK(t, cuCtxGetLimit, value == 1024);
    EXPECT(t, cuCtxGetLimit, CUDA_ERROR_INVALID_VALUE, (NULL, LIMIT_STACK));
    EXPECT(t, cuCtxGetLimit, CUDA_ERROR_INVALID_VALUE, (&value, NO_LIMIT));
    EXPECT(t, cuCtxSetLimit, CUDA_SUCCESS, (LIMIT_STACK, 4096));
    EXPECT(t, cuCtxSetLimit, CUDA_ERROR_INVALID_VALUE, (NO_LIMIT, 4096));
    EXPECT(t, cuCtxGetLimit, CUDA_SUCCESS, (&value, LIMIT_STACK));
    CHECK(t, cuCtxSetLimit, value == 4096);
    EXPECT(t, cuCtxGetLimit, CUDA_SUCCESS, (&value, LIMIT_HEAP));
    CHECK(t, cuCtxGetLimit, value == 8 << 20);
    EXPECT(t, cuCtxSetCacheConfig, CUDA_SUCCESS, (1));
    EXPECT(t, cuCtxSetCacheConfig, CUDA_ERROR_INVALID_VALUE, (NO_ATTRIBUTE));
    EXPECT(t, cuCtxGetCacheConfig, CUDA_SUCCESS, (&config));
    EXPECT(t, cuCtxGetCacheConfig, CUDA_ERROR_INVALID_VALUE, (NULL));
    EXPECT(t, cuCtxResetPersistingL2Cache, CUDA_SUCCESS, ());
    EXPECT(t, cuCtxGetId, CUDA_SUCCESS, (t->context, &id));
    EXPECT(t, cuCtxGetId, CUDA_ERROR_INVALID_VALUE, (t->context, NULL));
    EXPECT(t, cuCtxGetDevice_v2, CUDA_SUCCESS, (&device, t->context));
    CHECK(t, cuCtxGetDevice_v2, device == 0);
    EXPECT(t, cuCtxGetDevice_v2, CUDA_ERROR_INVALID_VALUE, (NULL, t->context));
    EXPECT(t, cuCtxSynchronize_v2, CUDA_SUCCESS, (t->context));
    EXPECT(t, cuCtxCreate_v4, CUDA_SUCCESS, (&other, NULL, 0, 0));
    EXPECT(t, cuCtxCreate_v4, CUDA_ERROR_INVALID_DEVICE, (&other, NULL, 0, NO_DEVICE));
    EXPECT(t, cuCtxSetFlags, CUDA_SUCCESS, (SPIN));
    EXPECT(t, cuCtxSetFlags, CUDA_ERROR_INVALID_VALUE, (0x10000));
    EXPECT(t, cuCtxGetId, CUDA_SUCCESS, (other, &other_id));
    CHECK(t, cuCtxGetId, id != other_id);
    EXPECT(t, cuCtxDestroy_v2, CUDA_SUCCESS, (other));
    EXPECT(t, cuCtxCreate_v3, CUDA_SUCCESS, (&other, NULL, 0, 0, 0));
    EXPECT(t, cuCtxCreate_v3, CUDA_ERROR_INVALID_DEVICE, (&other, NULL, 0, 0, NO_DEVICE));
    EXPECT(t, cuCtxDestroy_v2, CUDA_SUCCESS, (other));
}

void case_stream_attributes_can_be_queried(struct conformance *t)
{
    CUstreamAttrValue value = {{0}};
    void *first = NULL, *second = NULL, *third = NULL, *context = NULL, *green = &green;
    unsigned long long id = 0, other_id = 0;
    int device = -1, word = -1;
    conformance_open_device(t);
    EXPECT(t, cuStreamCreateWithPriority, CUDA_SUCCESS, (&first, CUDA_STREAM_NON_BLOCKING, -2));
    EXPECT(t, cuStreamCreate, CUDA_SUCCESS, (&second, CUDA_STREAM_NON_BLOCKING));
    EXPECT(t, cuStreamGetId, CUDA_SUCCESS, (first, &id));
    EXPECT(t, cuStreamGetId, CUDA_SUCCESS, (second, &other_id));
    CHECK(t, cuStreamGetId, id != other_id);
    EXPECT(t, cuStreamGetId, CUDA_ERROR_INVALID_VALUE, (first, NULL));
    EXPECT(t, cuStreamGetDevice, CUDA_SUCCESS, (first, &device));
    CHECK(t, cuStreamGetDevice, device == 0);
    EXPECT(t, cuStreamGetDevice, CUDA_ERROR_INVALID_VALUE, (first, NULL));
    EXPECT(t, cuStreamGetCtx_v2, CUDA_SUCCESS, (first, &context, &green));
    CHECK(t, cuStreamGetCtx_v2, context == t->context && green == NULL);
    EXPECT(t, cuStreamGetCtx_v2, CUDA_ERROR_INVALID_VALUE, (first, NULL, NULL));
    EXPECT(t, cuStreamGetAttribute, CUDA_SUCCESS, (first, PRIORITY, &value));
    memcpy(&word, &value, sizeof(word));
    CHECK(t, cuStreamGetAttribute, word == -2);
    EXPECT(t, cuStreamCreate, CUDA_SUCCESS, (&third, CUDA_STREAM_NON_BLOCKING));
    EXPECT(t, cuStreamGetAttribute, CUDA_SUCCESS, (second, SYNC_POLICY, &value));
    memset(&value, 0, sizeof(value));
    value.pad[0] = SPIN;
    EXPECT(t, cuStreamSetAttribute, CUDA_SUCCESS, (second, SYNC_POLICY, &value));
    EXPECT(t, cuStreamCopyAttributes, CUDA_SUCCESS, (third, second));
    memset(&value, 0, sizeof(value));
    EXPECT(t, cuStreamGetAttribute, CUDA_SUCCESS, (third, SYNC_POLICY, &value));
    CHECK(t, cuStreamCopyAttributes, value.pad[0] == SPIN);
    EXPECT(t, cuStreamDestroy_v2, CUDA_SUCCESS, (first));
    EXPECT(t, cuStreamDestroy_v2, CUDA_SUCCESS, (second));
}

void case_function_attributes_can_be_queried(struct conformance *t)
{
    void *functions[2] = {0};
    size_t offset = 99, bytes = 0;
    unsigned count = 0;
    int value = -1;
    conformance_open_device(t);
    void *f = t->function;
    EXPECT(t, cuFuncGetParamInfo, CUDA_SUCCESS, (f, 2, &offset, &bytes));
    CHECK(t, cuFuncGetParamInfo, offset == 8 && bytes == 8);
    EXPECT(t, cuFuncGetParamInfo, CUDA_ERROR_INVALID_VALUE, (f, 3, &offset, &bytes));
    EXPECT(t, cuFuncLoad, CUDA_SUCCESS, (f));
    EXPECT(t, cuFuncIsLoaded, CUDA_SUCCESS, (&value, f));
    CHECK(t, cuFuncIsLoaded, value == 1);
    EXPECT(t, cuFuncSetCacheConfig, CUDA_SUCCESS, (f, 1));
    EXPECT(t, cuFuncSetAttribute, CUDA_SUCCESS, (f, CUDA_FUNCTION_DYNAMIC_SHARED_BYTES, 64 << 10));
    EXPECT(t, cuFuncSetAttribute, CUDA_ERROR_INVALID_VALUE,
           (f, CUDA_FUNCTION_DYNAMIC_SHARED_BYTES, 1 << 20));
    EXPECT(t, cuFuncGetAttribute, CUDA_SUCCESS, (&value, CUDA_FUNCTION_DYNAMIC_SHARED_BYTES, f));
    CHECK(t, cuFuncSetAttribute, value == 64 << 10);
    EXPECT(t, cuModuleGetFunctionCount, CUDA_SUCCESS, (&count, t->module));
    CHECK(t, cuModuleGetFunctionCount, count == 1);
    EXPECT(t, cuModuleGetFunctionCount, CUDA_ERROR_INVALID_VALUE, (NULL, t->module));
    EXPECT(t, cuModuleEnumerateFunctions, CUDA_SUCCESS, (functions, 1, t->module));
    CHECK(t, cuModuleEnumerateFunctions, functions[0] != NULL);
    EXPECT(t, cuModuleGetLoadingMode, CUDA_SUCCESS, (&value));
    CHECK(t, cuModuleGetLoadingMode, value == 1 || value == 2);
}

void case_kernel_attributes_can_be_queried(struct conformance *t)
{
    void *library = NULL, *kernel = NULL, *found = NULL, *kernels[2] = {0};
    size_t offset = 99, bytes = 0;
    int value = -1;
    conformance_open_device(t);
    EXPECT(t, cuLibraryLoadData, CUDA_SUCCESS,
           (&library, conformance_ptx, NULL, NULL, 0, NULL, NULL, 0));
    EXPECT(t, cuLibraryGetKernel, CUDA_SUCCESS, (&kernel, library, "gpumux_burn"));
    EXPECT(t, cuLibraryEnumerateKernels, CUDA_SUCCESS, (kernels, 1, library));
    CHECK(t, cuLibraryEnumerateKernels, kernels[0] == kernel);
    EXPECT(t, cuKernelGetLibrary, CUDA_SUCCESS, (&found, kernel));
    CHECK(t, cuKernelGetLibrary, found == library);
    EXPECT(t, cuKernelGetParamInfo, CUDA_SUCCESS, (kernel, 1, &offset, &bytes));
    CHECK(t, cuKernelGetParamInfo, offset == 4 && bytes == 4);
    EXPECT(t, cuKernelGetParamInfo, CUDA_ERROR_INVALID_VALUE, (kernel, 3, &offset, &bytes));
    EXPECT(t, cuKernelSetAttribute, CUDA_SUCCESS,
           (CUDA_FUNCTION_DYNAMIC_SHARED_BYTES, 96 << 10, kernel, 0));
    EXPECT(t, cuKernelGetAttribute, CUDA_SUCCESS,
           (&value, CUDA_FUNCTION_DYNAMIC_SHARED_BYTES, kernel, 0));
    CHECK(t, cuKernelSetAttribute, value == 96 << 10);
    EXPECT(t, cuKernelSetCacheConfig, CUDA_SUCCESS, (kernel, 1, 0));
    EXPECT(t, cuKernelGetAttribute, CUDA_ERROR_INVALID_DEVICE,
           (&value, CUDA_FUNCTION_DYNAMIC_SHARED_BYTES, kernel, NO_DEVICE));
    EXPECT(t, cuLibraryUnload, CUDA_SUCCESS, (library));
}

enum pointer_attribute {
    POINTER_CONTEXT = 1,
    POINTER_TYPE = 2,
    POINTER_DEVICE = 3,
    POINTER_IS_MANAGED = 8,
    POINTER_ORDINAL = 9,
    POINTER_START = 11,
    POINTER_BYTES = 12,
};

void case_pointer_attributes_describe_memory(struct conformance *t)
{
    uint64_t device = 0, managed = 0, start = 0;
    void *host = NULL, *context = NULL;
    size_t bytes = 0;
    unsigned type = 0;
    int ordinal = -1, value = 0;
    conformance_open_device(t);
    EXPECT(t, cuMemAlloc_v2, CUDA_SUCCESS, (&device, 4 * MIB));
    EXPECT(t, cuMemAllocManaged, CUDA_SUCCESS, (&managed, MIB, 1));
    EXPECT(t, cuMemHostAlloc, CUDA_SUCCESS, (&host, 4096, 0));
    EXPECT(t, cuPointerGetAttribute, CUDA_SUCCESS, (&context, POINTER_CONTEXT, device));
    CHECK(t, cuPointerGetAttribute, context == t->context);
    EXPECT(t, cuPointerGetAttribute, CUDA_SUCCESS, (&type, POINTER_TYPE, device + MIB));
    CHECK(t, cuPointerGetAttribute, type == CUDA_MEMORY_DEVICE);
    EXPECT(t, cuPointerGetAttribute, CUDA_SUCCESS, (&start, POINTER_START, device + MIB));
    CHECK(t, cuPointerGetAttribute, start == device);
    EXPECT(t, cuPointerGetAttribute, CUDA_SUCCESS, (&bytes, POINTER_BYTES, device + MIB));
    CHECK(t, cuPointerGetAttribute, bytes == 4 * MIB);
    EXPECT(t, cuPointerGetAttribute, CUDA_SUCCESS, (&ordinal, POINTER_ORDINAL, device));
    CHECK(t, cuPointerGetAttribute, ordinal == 0);
    EXPECT(t, cuPointerGetAttribute, CUDA_SUCCESS,
           (&type, POINTER_TYPE, (uint64_t)(uintptr_t)host));
    CHECK(t, cuPointerGetAttribute, type == CUDA_MEMORY_HOST);
    EXPECT(t, cuPointerGetAttribute, CUDA_SUCCESS, (&value, POINTER_IS_MANAGED, managed));
    CHECK(t, cuPointerGetAttribute, (value & 0xff) == 1);
    EXPECT(t, cuPointerGetAttribute, CUDA_ERROR_INVALID_VALUE,
           (&type, POINTER_TYPE, (uint64_t)(uintptr_t)&type));
    EXPECT(t, cuPointerGetAttribute, CUDA_ERROR_INVALID_VALUE, (&type, NO_ATTRIBUTE, device));

    int attributes[] = {POINTER_TYPE, POINTER_DEVICE};
    void *values[] = {&type, &start};
    EXPECT(t, cuPointerGetAttributes, CUDA_SUCCESS, (2, attributes, values, device + 4096));
    CHECK(t, cuPointerGetAttributes, type == CUDA_MEMORY_DEVICE && start == device + 4096);
    /* For memory that the driver does not know, the attributes are empty. */
    EXPECT(t, cuPointerGetAttributes, CUDA_SUCCESS,
           (2, attributes, values, (uint64_t)(uintptr_t)&type));
    CHECK(t, cuPointerGetAttributes, type == 0 && start == 0);
    EXPECT(t, cuPointerGetAttributes, CUDA_ERROR_INVALID_VALUE, (2, NULL, values, device));
    EXPECT(t, cuMemFree_v2, CUDA_SUCCESS, (device));
    EXPECT(t, cuMemFree_v2, CUDA_SUCCESS, (managed));
    EXPECT(t, cuMemFreeHost, CUDA_SUCCESS, (host));
}

void case_pool_access_can_be_queried(struct conformance *t)
{
    CUmemLocation place = {CUDA_LOCATION_DEVICE, 0}, nowhere = {CUDA_LOCATION_DEVICE, NO_DEVICE};
    void *pool = NULL, *found = NULL;
    int flags = -1, can = -1;
    conformance_open_device(t);
    EXPECT(t, cuDeviceGetDefaultMemPool, CUDA_SUCCESS, (&pool, 0));
    EXPECT(t, cuMemPoolGetAccess, CUDA_SUCCESS, (&flags, pool, &place));
    CHECK(t, cuMemPoolGetAccess, flags == 3);
    EXPECT(t, cuMemPoolGetAccess, CUDA_ERROR_INVALID_VALUE, (&flags, pool, NULL));
    EXPECT(t, cuMemGetDefaultMemPool, CUDA_SUCCESS, (&found, &place, PINNED));
    CHECK(t, cuMemGetDefaultMemPool, found == pool);
    EXPECT(t, cuMemGetDefaultMemPool, CUDA_ERROR_INVALID_VALUE, (&found, NULL, PINNED));
    found = NULL;
    EXPECT(t, cuMemGetMemPool, CUDA_SUCCESS, (&found, &place, PINNED));
    CHECK(t, cuMemGetMemPool, found == pool);
    EXPECT(t, cuMemGetMemPool, CUDA_ERROR_INVALID_VALUE, (&found, &nowhere, PINNED));
    EXPECT(t, cuMemSetMemPool, CUDA_SUCCESS, (&place, PINNED, pool));
    EXPECT(t, cuMemSetMemPool, CUDA_ERROR_INVALID_VALUE, (&place, PINNED, NULL));
    EXPECT(t, cuDeviceCanAccessPeer, CUDA_SUCCESS, (&can, 0, 0));
    CHECK(t, cuDeviceCanAccessPeer, can == 0);
    EXPECT(t, cuDeviceCanAccessPeer, CUDA_ERROR_INVALID_DEVICE, (&can, 0, NO_DEVICE));
}
