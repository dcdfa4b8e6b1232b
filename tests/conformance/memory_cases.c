/* Device and host memory, copies and fills. */
#include <string.h>

#include "conformance.h"

enum { MIB = 1 << 20, WORDS = 1024 };
#define TOO_MUCH          ((size_t)1 << 50)
#define NOT_DEVICE_MEMORY UINT64_C(0x10)

void case_memory_is_counted_and_bounded(struct conformance *t)
{
    uint64_t a = 0, b = 0, base = 0;
    size_t free_before = 0, free_after = 0, total = 0, bytes = 0;
    conformance_open_device(t);
    EXPECT(t, cuMemGetInfo_v2, CUDA_SUCCESS, (&free_before, &total));
    CHECK(t, cuMemGetInfo_v2, free_before > 0 && free_before <= total);
    EXPECT(t, cuMemAlloc_v2, CUDA_SUCCESS, (&a, 64 * MIB));
    EXPECT(t, cuMemAlloc_v2, CUDA_SUCCESS, (&b, 1));
    CHECK(t, cuMemAlloc_v2, a != 0 && b != 0 && a % 256 == 0 && b % 256 == 0);
    EXPECT(t, cuMemGetInfo_v2, CUDA_SUCCESS, (&free_after, &total));
    CHECK(t, cuMemGetInfo_v2, free_before - free_after >= 64 * MIB);
    EXPECT(t, cuMemAlloc_v2, CUDA_ERROR_INVALID_VALUE, (&base, 0));
    EXPECT(t, cuMemAlloc_v2, CUDA_ERROR_INVALID_VALUE, (NULL, 4));
    EXPECT(t, cuMemAlloc_v2, CUDA_ERROR_OUT_OF_MEMORY, (&base, TOO_MUCH));
    EXPECT(t, cuMemAlloc_v2, CUDA_ERROR_OUT_OF_MEMORY, (&base, total));
    EXPECT(t, cuMemGetAddressRange_v2, CUDA_SUCCESS, (&base, &bytes, a + MIB));
    CHECK(t, cuMemGetAddressRange_v2, base == a && bytes == 64 * MIB);
    EXPECT(t, cuMemGetAddressRange_v2, CUDA_ERROR_NOT_FOUND, (&base, &bytes, NOT_DEVICE_MEMORY));
    EXPECT(t, cuMemFree_v2, CUDA_ERROR_INVALID_VALUE, (a + 256));
    EXPECT(t, cuMemFree_v2, CUDA_SUCCESS, (a));
    EXPECT(t, cuMemFree_v2, CUDA_ERROR_INVALID_VALUE, (a));
    EXPECT(t, cuMemFree_v2, CUDA_SUCCESS, (b));
    EXPECT(t, cuMemFree_v2, CUDA_SUCCESS, (0));
    EXPECT(t, cuMemGetInfo_v2, CUDA_SUCCESS, (&free_after, &total));
    /* A driver may keep a block for small allocations. */
    CHECK(t, cuMemFree_v2, free_after + 4 * MIB >= free_before);
}

void case_async_memory_is_usable(struct conformance *t)
{
    void *stream = NULL;
    uint64_t a = 0, b = 0;
    conformance_open_device(t);
    EXPECT(t, cuStreamCreate, CUDA_SUCCESS, (&stream, 0));
    EXPECT(t, cuMemAllocAsync, CUDA_SUCCESS, (&a, 4 * MIB, stream));
    CHECK(t, cuMemAllocAsync, a != 0);
    EXPECT(t, cuMemAllocAsync, CUDA_ERROR_INVALID_VALUE, (NULL, MIB, stream));
    EXPECT(t, cuMemAllocAsync, CUDA_ERROR_OUT_OF_MEMORY, (&b, TOO_MUCH, stream));
    EXPECT(t, cuMemsetD8Async, CUDA_SUCCESS, (a, 7, 4 * MIB, stream));
    EXPECT(t, cuMemFreeAsync, CUDA_SUCCESS, (a, stream));
    EXPECT(t, cuMemFreeAsync, CUDA_ERROR_INVALID_VALUE, (NOT_DEVICE_MEMORY, stream));
    EXPECT(t, cuStreamSynchronize, CUDA_SUCCESS, (stream));
}

void case_host_memory_is_writable(struct conformance *t)
{
    void *a = NULL, *b = NULL, *none = NULL;
    int on_stack;
    conformance_open_device(t);
    EXPECT(t, cuMemAllocHost_v2, CUDA_SUCCESS, (&a, 3 * MIB));
    EXPECT(t, cuMemAllocHost_v2, CUDA_ERROR_INVALID_VALUE, (NULL, MIB));
    EXPECT(t, cuMemHostAlloc, CUDA_SUCCESS, (&b, 100, 1));
    EXPECT(t, cuMemHostAlloc, CUDA_ERROR_INVALID_VALUE, (&none, 100, 0x100));
    EXPECT(t, cuMemHostAlloc, CUDA_ERROR_INVALID_VALUE, (NULL, 100, 0));
    memset(a, 1, 3 * MIB);
    memset(b, 1, 100);
    EXPECT(t, cuMemFreeHost, CUDA_SUCCESS, (a));
    EXPECT(t, cuMemFreeHost, CUDA_SUCCESS, (b));
    EXPECT(t, cuMemFreeHost, CUDA_ERROR_INVALID_VALUE, (&on_stack));
}

static void check_fills(struct conformance *t, uint64_t at)
{
    uint32_t words[WORDS];
    EXPECT(t, cuMemsetD32_v2, CUDA_SUCCESS, (at, 0xdeadbeef, WORDS));
    EXPECT(t, cuMemsetD8_v2, CUDA_SUCCESS, (at, 0x11, 4));
    EXPECT(t, cuMemsetD32Async, CUDA_SUCCESS, (at + 4, 0x22222222, 1, NULL));
    EXPECT(t, cuMemsetD8Async, CUDA_SUCCESS, (at + 8, 0x33, 4, NULL));
    EXPECT(t, cuMemcpyDtoH_v2, CUDA_SUCCESS, (words, at, sizeof(words)));
    CHECK(t, cuMemsetD8_v2, words[0] == 0x11111111);
    CHECK(t, cuMemsetD32Async, words[1] == 0x22222222);
    CHECK(t, cuMemsetD8Async, words[2] == 0x33333333);
    CHECK(t, cuMemsetD32_v2, words[3] == 0xdeadbeef && words[WORDS - 1] == 0xdeadbeef);
    EXPECT(t, cuMemsetD32_v2, CUDA_ERROR_INVALID_VALUE, (at + 2, 0, 1)); /* not aligned */
    EXPECT(t, cuMemsetD32Async, CUDA_ERROR_INVALID_VALUE, (at + 2, 0, 1, NULL));
    EXPECT(t, cuMemsetD8_v2, CUDA_ERROR_INVALID_VALUE, (NOT_DEVICE_MEMORY, 0, 1));
    EXPECT(t, cuMemsetD8Async, CUDA_ERROR_INVALID_VALUE, (NOT_DEVICE_MEMORY, 0, 1, NULL));
}

void case_copies_and_fills_are_exact(struct conformance *t)
{
    uint32_t from[WORDS], to[WORDS] = {0};
    uint64_t a = 0, b = 0;
    const size_t bytes = sizeof(from);
    for (uint32_t i = 0; i < WORDS; i++)
        from[i] = i * 2654435761u;
    conformance_open_device(t);
    EXPECT(t, cuMemAlloc_v2, CUDA_SUCCESS, (&a, bytes));
    EXPECT(t, cuMemAlloc_v2, CUDA_SUCCESS, (&b, bytes));
    EXPECT(t, cuMemcpyHtoD_v2, CUDA_SUCCESS, (a, from, bytes));
    EXPECT(t, cuMemcpyDtoD_v2, CUDA_SUCCESS, (b, a, bytes));
    EXPECT(t, cuMemcpyDtoH_v2, CUDA_SUCCESS, (to, b, bytes));
    CHECK(t, cuMemcpyDtoD_v2, memcmp(from, to, bytes) == 0);
    EXPECT(t, cuMemsetD8_v2, CUDA_SUCCESS, (b, 0, bytes));
    from[0] = 77;
    EXPECT(t, cuMemcpyHtoDAsync_v2, CUDA_SUCCESS, (a, from, bytes, NULL));
    EXPECT(t, cuMemcpyDtoDAsync_v2, CUDA_SUCCESS, (b, a, bytes, NULL));
    EXPECT(t, cuMemcpyDtoHAsync_v2, CUDA_SUCCESS, (to, b, bytes, NULL));
    EXPECT(t, cuStreamSynchronize, CUDA_SUCCESS, (NULL));
    CHECK(t, cuMemcpyDtoHAsync_v2, memcmp(from, to, bytes) == 0 && to[0] == 77);
    EXPECT(t, cuMemcpyHtoD_v2, CUDA_ERROR_INVALID_VALUE, (NOT_DEVICE_MEMORY, from, bytes));
    EXPECT(t, cuMemcpyHtoDAsync_v2, CUDA_ERROR_INVALID_VALUE,
           (NOT_DEVICE_MEMORY, from, bytes, NULL));
    EXPECT(t, cuMemcpyDtoH_v2, CUDA_ERROR_INVALID_VALUE, (to, NOT_DEVICE_MEMORY, bytes));
    EXPECT(t, cuMemcpyDtoHAsync_v2, CUDA_ERROR_INVALID_VALUE, (to, NOT_DEVICE_MEMORY, bytes, NULL));
    EXPECT(t, cuMemcpyDtoD_v2, CUDA_ERROR_INVALID_VALUE, (a, NOT_DEVICE_MEMORY, bytes));
    EXPECT(t, cuMemcpyDtoDAsync_v2, CUDA_ERROR_INVALID_VALUE, (a, NOT_DEVICE_MEMORY, bytes, NULL));
    check_fills(t, a);
    EXPECT(t, cuMemFree_v2, CUDA_SUCCESS, (a));
    EXPECT(t, cuMemFree_v2, CUDA_SUCCESS, (b));
}
