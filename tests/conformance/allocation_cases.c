/* Pitched, managed, pooled and registered memory. */
#include <stdlib.h>

#include "conformance.h"

enum { MIB = 1 << 20, NO_DEVICE = 1000, NO_ADVICE = 99, NO_ATTRIBUTE = 99, ADVISE_PREFERRED = 3 };
enum { POOL_THRESHOLD = 4, POOL_RESERVED = 5, POOL_USED = 7, POOL_USED_HIGH = 8 };
#define TOO_MUCH ((size_t)1 << 50)

void case_pitched_memory_has_aligned_rows(struct conformance *t)
{
    uint64_t address = 0, none = 0;
    size_t pitch = 0;
    conformance_open_device(t);
    EXPECT(t, cuMemAllocPitch_v2, CUDA_SUCCESS, (&address, &pitch, 1000, 10, 4));
    CHECK(t, cuMemAllocPitch_v2, pitch == 1024);
    EXPECT(t, cuMemsetD8_v2, CUDA_SUCCESS, (address, 1, pitch * 10));
    EXPECT(t, cuMemFree_v2, CUDA_SUCCESS, (address));
    EXPECT(t, cuMemAllocPitch_v2, CUDA_ERROR_INVALID_VALUE, (&address, &pitch, 1000, 10, 5));
    EXPECT(t, cuMemAllocPitch_v2, CUDA_ERROR_INVALID_VALUE, (&address, NULL, 1000, 10, 4));
    EXPECT(t, cuMemAllocPitch_v2, CUDA_ERROR_OUT_OF_MEMORY, (&none, &pitch, MIB, 1 << 24, 4));
}

static void check_advice(struct conformance *t, uint64_t managed, uint64_t plain)
{
    const CUmemLocation device = {CUDA_LOCATION_DEVICE, 0};
    const CUmemLocation nowhere = {CUDA_LOCATION_DEVICE, NO_DEVICE};
    EXPECT(t, cuMemAdvise, CUDA_SUCCESS, (managed, MIB, ADVISE_PREFERRED, 0));
    EXPECT(t, cuMemAdvise, CUDA_ERROR_INVALID_VALUE, (managed, MIB, NO_ADVICE, 0));
    EXPECT(t, cuMemAdvise, CUDA_ERROR_INVALID_VALUE, (plain, MIB, ADVISE_PREFERRED, 0));
    EXPECT(t, cuMemAdvise, CUDA_ERROR_INVALID_DEVICE, (managed, MIB, ADVISE_PREFERRED, NO_DEVICE));
    EXPECT(t, cuMemAdvise_v2, CUDA_SUCCESS, (managed, MIB, ADVISE_PREFERRED, device));
    EXPECT(t, cuMemAdvise_v2, CUDA_ERROR_INVALID_VALUE, (managed, MIB, NO_ADVICE, device));
    EXPECT(t, cuMemAdvise_v2, CUDA_ERROR_INVALID_VALUE, (managed, MIB, ADVISE_PREFERRED, nowhere));
}

void case_managed_memory_reaches_host(struct conformance *t)
{
    const CUmemLocation device = {CUDA_LOCATION_DEVICE, 0}, host = {CUDA_LOCATION_HOST, 0};
    const CUmemLocation nowhere = {CUDA_LOCATION_DEVICE, NO_DEVICE};
    uint64_t managed = 0, plain = 0;
    conformance_open_device(t);
    EXPECT(t, cuMemAlloc_v2, CUDA_SUCCESS, (&plain, MIB));
    EXPECT(t, cuMemAllocManaged, CUDA_ERROR_INVALID_VALUE, (&managed, MIB, 0));
    EXPECT(t, cuMemAllocManaged, CUDA_ERROR_INVALID_VALUE, (&managed, 0, 1));
    EXPECT(t, cuMemAllocManaged, CUDA_ERROR_INVALID_VALUE, (NULL, MIB, 1));
    if (!EXPECT(t, cuMemAllocManaged, CUDA_SUCCESS, (&managed, 4 * MIB, 1)))
        return;
    volatile unsigned char *bytes = (unsigned char *)(uintptr_t)managed;
    bytes[0] = 1;
    EXPECT(t, cuMemsetD8_v2, CUDA_SUCCESS, (managed, 9, 4 * MIB));
    EXPECT(t, cuCtxSynchronize, CUDA_SUCCESS, ());
    CHECK(t, cuMemAllocManaged, bytes[0] == 9 && bytes[4 * MIB - 1] == 9);
    EXPECT(t, cuMemPrefetchAsync, CUDA_SUCCESS, (managed, 4 * MIB, 0, NULL));
    EXPECT(t, cuMemPrefetchAsync, CUDA_SUCCESS, (managed, 4 * MIB, -1, NULL));
    EXPECT(t, cuMemPrefetchAsync, CUDA_ERROR_INVALID_VALUE, (plain, MIB, 0, NULL));
    EXPECT(t, cuMemPrefetchAsync, CUDA_ERROR_INVALID_DEVICE, (managed, MIB, NO_DEVICE, NULL));
    EXPECT(t, cuMemPrefetchAsync_v2, CUDA_SUCCESS, (managed, 4 * MIB, device, 0, NULL));
    EXPECT(t, cuMemPrefetchAsync_v2, CUDA_SUCCESS, (managed, 4 * MIB, host, 0, NULL));
    EXPECT(t, cuMemPrefetchAsync_v2, CUDA_ERROR_INVALID_VALUE, (plain, MIB, device, 0, NULL));
    EXPECT(t, cuMemPrefetchAsync_v2, CUDA_ERROR_INVALID_DEVICE, (managed, MIB, nowhere, 0, NULL));
    EXPECT(t, cuCtxSynchronize, CUDA_SUCCESS, ());
    CHECK(t, cuMemPrefetchAsync, bytes[MIB] == 9);
    check_advice(t, managed, plain);
    EXPECT(t, cuMemFree_v2, CUDA_SUCCESS, (managed));
    EXPECT(t, cuMemFree_v2, CUDA_SUCCESS, (plain));
}

static uint64_t attribute(struct conformance *t, void *pool, int which)
{
    uint64_t value = UINT64_MAX;
    EXPECT(t, cuMemPoolGetAttribute, CUDA_SUCCESS, (pool, which, &value));
    return value;
}

/* A pool keeps freed memory up to its threshold. */
static void check_pool_memory(struct conformance *t, void *pool)
{
    uint64_t address = 0, threshold = UINT64_MAX, wrong = 5;
    EXPECT(t, cuMemPoolSetAttribute, CUDA_SUCCESS, (pool, POOL_THRESHOLD, &threshold));
    CHECK(t, cuMemPoolSetAttribute, attribute(t, pool, POOL_THRESHOLD) == threshold);
    EXPECT(t, cuMemPoolSetAttribute, CUDA_ERROR_INVALID_VALUE, (pool, POOL_USED_HIGH, &wrong));
    EXPECT(t, cuMemPoolSetAttribute, CUDA_ERROR_INVALID_VALUE, (pool, NO_ATTRIBUTE, &threshold));
    EXPECT(t, cuMemPoolGetAttribute, CUDA_ERROR_INVALID_VALUE, (pool, NO_ATTRIBUTE, &threshold));
    EXPECT(t, cuMemAllocFromPoolAsync, CUDA_SUCCESS, (&address, 64 * MIB, pool, NULL));
    CHECK(t, cuMemAllocFromPoolAsync, attribute(t, pool, POOL_USED) == 64 * MIB);
    CHECK(t, cuMemAllocFromPoolAsync, attribute(t, pool, POOL_RESERVED) >= 64 * MIB);
    EXPECT(t, cuMemFreeAsync, CUDA_SUCCESS, (address, NULL));
    EXPECT(t, cuCtxSynchronize, CUDA_SUCCESS, ());
    CHECK(t, cuMemFreeAsync, attribute(t, pool, POOL_USED) == 0);
    CHECK(t, cuMemFreeAsync, attribute(t, pool, POOL_RESERVED) >= 64 * MIB);
    CHECK(t, cuMemFreeAsync, attribute(t, pool, POOL_USED_HIGH) == 64 * MIB);
    EXPECT(t, cuMemPoolTrimTo, CUDA_SUCCESS, (pool, 0));
    CHECK(t, cuMemPoolTrimTo, attribute(t, pool, POOL_RESERVED) == 0);
    EXPECT(t, cuMemPoolTrimTo, CUDA_ERROR_INVALID_VALUE, (NULL, 0));
    EXPECT(t, cuMemAllocFromPoolAsync, CUDA_ERROR_INVALID_VALUE, (NULL, MIB, pool, NULL));
    EXPECT(t, cuMemAllocFromPoolAsync, CUDA_ERROR_OUT_OF_MEMORY, (&address, TOO_MUCH, pool, NULL));
}

void case_pools_keep_memory_until_trim(struct conformance *t)
{
    CUmemPoolProps wanted = {
        .allocType = CUDA_ALLOCATION_PINNED,
        .location = {CUDA_LOCATION_DEVICE, 0},
    };
    void *standard = NULL, *current = NULL, *own = NULL;
    conformance_open_device(t);
    EXPECT(t, cuDeviceGetDefaultMemPool, CUDA_SUCCESS, (&standard, 0));
    EXPECT(t, cuDeviceGetDefaultMemPool, CUDA_ERROR_INVALID_DEVICE, (&current, NO_DEVICE));
    EXPECT(t, cuDeviceGetDefaultMemPool, CUDA_ERROR_INVALID_VALUE, (NULL, 0));
    EXPECT(t, cuDeviceGetMemPool, CUDA_SUCCESS, (&current, 0));
    CHECK(t, cuDeviceGetMemPool, standard && current == standard);
    EXPECT(t, cuDeviceGetMemPool, CUDA_ERROR_INVALID_VALUE, (&current, NO_DEVICE));
    EXPECT(t, cuDeviceGetMemPool, CUDA_ERROR_INVALID_VALUE, (NULL, 0));
    CHECK(t, cuMemPoolGetAttribute, attribute(t, standard, POOL_THRESHOLD) == 0);
    EXPECT(t, cuMemPoolCreate, CUDA_SUCCESS, (&own, &wanted));
    EXPECT(t, cuMemPoolCreate, CUDA_ERROR_INVALID_VALUE, (&current, NULL));
    wanted.location.id = NO_DEVICE;
    EXPECT(t, cuMemPoolCreate, CUDA_ERROR_INVALID_VALUE, (&current, &wanted));
    check_pool_memory(t, own);
    EXPECT(t, cuDeviceSetMemPool, CUDA_SUCCESS, (0, own));
    EXPECT(t, cuDeviceGetMemPool, CUDA_SUCCESS, (&current, 0));
    CHECK(t, cuDeviceSetMemPool, current == own);
    EXPECT(t, cuDeviceSetMemPool, CUDA_ERROR_INVALID_VALUE, (NO_DEVICE, own));
    EXPECT(t, cuDeviceSetMemPool, CUDA_ERROR_INVALID_VALUE, (0, NULL));
    EXPECT(t, cuMemPoolDestroy, CUDA_SUCCESS, (own));
    EXPECT(t, cuDeviceGetMemPool, CUDA_SUCCESS, (&current, 0));
    CHECK(t, cuMemPoolDestroy, current == standard);
    EXPECT(t, cuMemPoolDestroy, CUDA_ERROR_INVALID_VALUE, (standard));
}

void case_registered_memory_reaches_device(struct conformance *t)
{
    uint64_t address = 0;
    conformance_open_device(t);
    void *memory = aligned_alloc(4096, 2 * MIB);
    EXPECT(t, cuMemHostRegister_v2, CUDA_SUCCESS, (memory, MIB, 2));
    EXPECT(t, cuMemHostRegister_v2, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, (memory, MIB, 2));
    EXPECT(t, cuMemHostRegister_v2, CUDA_ERROR_INVALID_VALUE, (NULL, MIB, 0));
    EXPECT(t, cuMemHostGetDevicePointer_v2, CUDA_SUCCESS, (&address, memory, 0));
    CHECK(t, cuMemHostGetDevicePointer_v2, address != 0);
    EXPECT(t, cuMemsetD8_v2, CUDA_SUCCESS, (address, 5, MIB));
    EXPECT(t, cuCtxSynchronize, CUDA_SUCCESS, ());
    CHECK(t, cuMemHostRegister_v2, ((unsigned char *)memory)[MIB - 1] == 5);
    EXPECT(t, cuMemHostGetDevicePointer_v2, CUDA_ERROR_INVALID_VALUE, (NULL, memory, 0));
    EXPECT(t, cuMemHostUnregister, CUDA_SUCCESS, (memory));
    EXPECT(t, cuMemHostUnregister, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, (memory));
    EXPECT(t, cuMemHostUnregister, CUDA_ERROR_INVALID_VALUE, (NULL));
    free(memory);
}
