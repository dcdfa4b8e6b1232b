/*
 * Every call that allocates or frees device memory, with the shim and a quota: cuMemGetInfo must
 * show the charge of each. Run with GPUMUX_QUOTA_BYTES of 1624 MiB, 600 for a context and 1 GiB, on
 * two devices. Each check is a process of its own. memory_calls FILE appends the calls made to the
 * file.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/memory/nvml.h"
#include "tests/shim/driver_calls.h"
#include "tests/shim/expect.h"

enum {
    MIB = 1 << 20,
    CONTEXT = 600, /* MiB */
    QUOTA = CONTEXT + 1024,
    FULL = 1024, /* MiB that are left */
    POOL_THRESHOLD = 4,
    HANDLE_FD = 1,
    FORMAT_FLOAT = 0x20,
};

static struct real_calls driver;
#define EXPECT_HELD(mib)                                                                           \
    do {                                                                                           \
        int held = held_mib();                                                                     \
        if (held != (mib)) {                                                                       \
            printf("%s:%d: %d MiB are held, not %d\n", __FILE__, __LINE__, held, mib);             \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

static CUcontext open_context(void)
{
    CUcontext context = NULL;
    EXPECT(driver.cuInit(0) == 0);
    EXPECT(driver.cuDevicePrimaryCtxRetain(&context, 0) == 0);
    EXPECT(driver.cuCtxSetCurrent(context) == 0);
    return context;
}

/* Returns the memory held besides one context. */
static int held_mib(void)
{
    size_t left = 0, total = 0;
    EXPECT(driver.cuMemGetInfo_v2(&left, &total) == 0 && total == (size_t)QUOTA * MIB);
    return FULL - (int)(left / MIB);
}

static void check_plain(void)
{
    CUdeviceptr a = 0, b = 0;
    unsigned old_address = 0, old_bytes = 0;
    size_t total = 0, pitch = 0;
    EXPECT(driver.cuMemAlloc_v2(&a, MIB) != 0); /* no context */
    EXPECT(driver.cuMemAllocManaged(&a, MIB, 1) != 0);
    open_context();
    EXPECT(driver.cuDeviceTotalMem_v2(&total, 0) == 0 && total == (size_t)QUOTA * MIB);
    EXPECT(driver.cuDeviceTotalMem_v2(&total, 9) != 0);
    EXPECT_HELD(0);
    EXPECT(driver.cuMemAlloc_v2(&a, 3 * MIB) == 0);
    EXPECT_HELD(4); /* as charged by the driver */
    EXPECT(driver.cuMemAlloc_v2(&b, (size_t)FULL * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(driver.cuMemAlloc_v2(&b, (size_t)(FULL - 4) * MIB) == 0);
    EXPECT(driver.cuMemAlloc_v2(&b, 1) == CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_HELD(FULL);
    EXPECT(driver.cuMemFree_v2(b) == 0);
    EXPECT(driver.cuMemFree_v2(b) != 0);
    EXPECT(driver.cuMemFree_v2(0x1234) != 0);
    EXPECT(driver.cuMemFree_v2(0) == 0);
    EXPECT_HELD(4);
    EXPECT(driver.cuMemFree_v2(a) == 0);
    EXPECT(driver.cuMemAllocPitch_v2(&a, &pitch, 1000, 4096, 4) == 0 && pitch >= 1000);
    EXPECT_HELD((int)(pitch * 4096 / MIB));
    EXPECT(driver.cuMemAllocPitch_v2(&b, &pitch, SIZE_MAX, SIZE_MAX, 4) ==
           CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(driver.cuMemAllocPitch_v2(&b, &pitch, 1 << 20, 1024, 4) == CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(driver.cuMemAllocPitch_v2(NULL, &pitch, 1, 1, 4) == 1);
    EXPECT(driver.cuMemAllocPitch_v2(&b, NULL, 1, 1, 4) == 1);
    EXPECT(driver.cuMemAllocPitch_v2(&b, &pitch, 1000, 4096, 3) == 1);
    EXPECT(driver.cuMemFree_v2(a) == 0);
    EXPECT(driver.cuMemAllocManaged(&a, 100 * MIB, 1) == 0);
    EXPECT_HELD(100);
    EXPECT(driver.cuMemAllocManaged(&b, (size_t)FULL * MIB, 1) == CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(driver.cuMemAllocManaged(&b, MIB, 77) == 1);
    EXPECT(driver.cuMemFree_v2(a) == 0);
    /* Calls from before CUDA 3.2, which the emulated driver lacks. */
    EXPECT(driver.cuMemAlloc(&old_address, MIB) != 0);
    EXPECT(driver.cuMemAllocPitch(&old_address, &old_bytes, 64, 64, 4) != 0);
    EXPECT(driver.cuMemFree(17) != 0);
    EXPECT(driver.cuMemGetInfo(&old_bytes, &old_bytes) != 0);
    EXPECT(driver.cuDeviceTotalMem(&old_bytes, 0) != 0);
    EXPECT_HELD(0);
}

/* Queries about addresses, of a process whose memory does not move, are the driver's own. */
static void check_addresses(void)
{
    enum { TYPE = 2, TYPE_DEVICE = 2 };
    CUdeviceptr a = 0, begin = 0;
    CUipcMemHandle handle;
    CUpointer_attribute attribute = TYPE;
    size_t bytes = 0;
    unsigned type = 0, listed = 0;
    void *values[] = {&listed};
    open_context();
    EXPECT(driver.cuMemAlloc_v2(&a, 3 * MIB) == 0);
    EXPECT(driver.cuMemGetAddressRange_v2(&begin, &bytes, a + MIB) == 0);
    EXPECT(begin == a && bytes == 3 * MIB);
    EXPECT(driver.cuPointerGetAttribute(&type, TYPE, a) == 0 && type == TYPE_DEVICE);
    EXPECT(driver.cuPointerGetAttributes(1, &attribute, values, a) == 0 && listed == TYPE_DEVICE);
    EXPECT(driver.cuPointerGetAttribute(NULL, TYPE, a) != 0);
    EXPECT(driver.cuMemGetAddressRange_v2(&begin, &bytes, 0x1234) != 0);
    EXPECT(driver.cuIpcGetMemHandle(&handle, a) == 0);
    EXPECT(driver.cuMemFree_v2(a) == 0);
}

static bool is_primary_there(void)
{
    unsigned flags;
    int is_there = 0;
    EXPECT(driver.cuDevicePrimaryCtxGetState(0, &flags, &is_there) == 0);
    return is_there;
}

static void check_contexts(void)
{
    CUcontext primary = open_context(), own = NULL, other = NULL;
    CUdeviceptr a = 0, b = 0;
    EXPECT(driver.cuDevicePrimaryCtxRetain(&other, 0) == 0 && other == primary);
    EXPECT_HELD(0); /* one and the same context */
    EXPECT(driver.cuMemAlloc_v2(&a, 100 * MIB) == 0);
    EXPECT(driver.cuCtxCreate_v2(&own, 0, 0) == 0);
    EXPECT_HELD(100 + CONTEXT);
    EXPECT(driver.cuCtxCreate_v2(&other, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(driver.cuCtxCreate_v2(&other, 0, 7) != 0 && driver.cuCtxCreate_v2(NULL, 0, 0) == 1);
    EXPECT(driver.cuCtxCreate_v2(&other, 0, -1) != 0);
    EXPECT(driver.cuMemAlloc_v2(&b, 50 * MIB) == 0);
    EXPECT_HELD(150 + CONTEXT);
    EXPECT(driver.cuCtxDestroy_v2(own) == 0); /* with its memory */
    EXPECT(driver.cuCtxSetCurrent(primary) == 0);
    EXPECT_HELD(100);
    EXPECT(driver.cuCtxDestroy_v2(own) != 0 && driver.cuCtxDestroy_v2(NULL) != 0);
    EXPECT(driver.cuDevicePrimaryCtxRelease_v2(0) == 0);
    EXPECT_HELD(100); /* retained twice */
    EXPECT(driver.cuDevicePrimaryCtxRelease_v2(0) == 0);
    EXPECT(driver.cuDevicePrimaryCtxRetain(&primary, 0) == 0);
    EXPECT(driver.cuCtxSetCurrent(primary) == 0);
    EXPECT_HELD(0);
    EXPECT(driver.cuMemAlloc_v2(&a, (size_t)FULL * MIB) == 0);
    EXPECT(driver.cuDevicePrimaryCtxReset_v2(0) == 0);
    EXPECT(driver.cuDevicePrimaryCtxRetain(&primary, 0) == 0);
    EXPECT(driver.cuCtxSetCurrent(primary) == 0);
    EXPECT_HELD(0);
    EXPECT(driver.cuCtxCreate_v3(&other, NULL, 0, 0, 99) != 0);
    EXPECT(driver.cuCtxCreate_v4(&other, NULL, 0, 99) != 0);
    EXPECT(driver.cuCtxCreate_v3(&own, NULL, 0, 0, 0) == 0);
    EXPECT_HELD(CONTEXT);
    EXPECT(driver.cuCtxDestroy_v2(own) == 0);
    EXPECT(driver.cuCtxCreate_v4(&own, NULL, 0, 0) == 0);
    EXPECT_HELD(CONTEXT);
    EXPECT(driver.cuCtxDestroy_v2(own) == 0 && driver.cuCtxSetCurrent(primary) == 0);
    /* The emulated driver lacks these. */
    EXPECT(driver.cuCtxCreate(&other, 0, 0) != 0);
    EXPECT(driver.cuCtxDestroy(NULL) != 0 && driver.cuCtxDetach(NULL) != 0);
    CUgreenCtx green = NULL;
    EXPECT(driver.cuGreenCtxCreate(&green, NULL, 0, 1) != 0);
    EXPECT(driver.cuGreenCtxDestroy(NULL) != 0);
    EXPECT_HELD(0);
    /* The calls' names before CUDA 11. */
    EXPECT(driver.cuMemAlloc_v2(&a, 100 * MIB) == 0);
    EXPECT(driver.cuDevicePrimaryCtxReset(0) == 0);
    EXPECT(driver.cuDevicePrimaryCtxRetain(&primary, 0) == 0);
    EXPECT(driver.cuCtxSetCurrent(primary) == 0);
    EXPECT_HELD(0);
    EXPECT(driver.cuMemAlloc_v2(&a, 100 * MIB) == 0);
    do
        EXPECT(driver.cuDevicePrimaryCtxRelease(0) == 0);
    while (is_primary_there()); /* a reset does not change the number of retains */
    EXPECT(driver.cuDevicePrimaryCtxRetain(&primary, 0) == 0);
    EXPECT(driver.cuCtxSetCurrent(primary) == 0);
    EXPECT_HELD(0);
}

/* Finds the driver's own function behind the shim, which no lookup gives. Symbols lie before their
 * names. */
static void *find_in_driver(const char *name)
{
    const ElfW(Sym) *symbol = NULL;
    const char *names = NULL;
    struct link_map *map = NULL;
    EXPECT(dlinfo(dlopen(CUDA_SONAME, RTLD_NOW), RTLD_DI_LINKMAP, &map) == 0);
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB)
            symbol = (const ElfW(Sym) *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_STRTAB)
            names = (const char *)entry->d_un.d_ptr;
    }
    for (; (const char *)symbol < names; symbol++) {
        if (symbol->st_value != 0 && strcmp(names + symbol->st_name, name) == 0)
            return (char *)map->l_addr + symbol->st_value;
    }
    return NULL;
}

/* A primary context that no retain made, as behind a green context, ends with its memory. The shim
 * has not counted it. */
static void check_primary_of_others(void)
{
    CUcontext primary = NULL, same = NULL;
    CUdeviceptr a = 0;
    CUresult (*retain)(CUcontext *, CUdevice) =
        (CUresult(*)(CUcontext *, CUdevice))find_in_driver("cuDevicePrimaryCtxRetain");
    EXPECT(driver.cuInit(0) == 0);
    EXPECT(retain && retain != driver.cuDevicePrimaryCtxRetain && retain(&primary, 0) == 0);
    EXPECT(driver.cuDevicePrimaryCtxRetain(&same, 0) == 0 && same == primary);
    EXPECT(driver.cuCtxSetCurrent(primary) == 0);
    EXPECT(driver.cuMemAlloc_v2(&a, 100 * MIB) == 0);
    EXPECT_HELD(100 - CONTEXT);
    EXPECT(driver.cuDevicePrimaryCtxReset_v2(0) == 0);
    open_context();
    EXPECT_HELD(0);
    EXPECT(driver.cuMemAlloc_v2(&a, (size_t)FULL * MIB) == 0);
}

static void check_arrays(void)
{
    const CUDA_ARRAY_DESCRIPTOR flat = {4096, 4096, FORMAT_FLOAT, 1};
    CUDA_ARRAY3D_DESCRIPTOR deep = {1024, 1024, 16, FORMAT_FLOAT, 2, 0};
    const CUDA_ARRAY3D_DESCRIPTOR huge = {131072, 131072, 16, FORMAT_FLOAT, 4, 0};
    const CUDA_ARRAY_DESCRIPTOR_v1 old = {64, 64, FORMAT_FLOAT, 1};
    const CUDA_ARRAY3D_DESCRIPTOR_v1 old_deep = {64, 64, 64, FORMAT_FLOAT, 1, 0};
    CUarray a = NULL, b = NULL;
    CUmipmappedArray m = NULL;
    open_context();
    EXPECT(driver.cuArrayCreate_v2(&a, &flat) == 0);
    EXPECT_HELD(64);
    EXPECT(driver.cuArray3DCreate_v2(&b, &deep) == 0);
    EXPECT_HELD(64 + 128);
    EXPECT(driver.cuArrayDestroy(a) == 0 && driver.cuArrayDestroy(b) == 0);
    EXPECT_HELD(0);
    EXPECT(driver.cuMipmappedArrayCreate(&m, &deep, 3) == 0);
    EXPECT_HELD(128 + 16 + 2);
    EXPECT(driver.cuMipmappedArrayDestroy(m) == 0);
    EXPECT(driver.cuArray3DCreate_v2(&a, &huge) == CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(driver.cuMipmappedArrayCreate(&m, &huge, 5) == CUDA_ERROR_OUT_OF_MEMORY);
    deep.Format = 0x7777;
    EXPECT(driver.cuArray3DCreate_v2(&a, &deep) == 1);
    EXPECT(driver.cuArray3DCreate_v2(&a, NULL) == 1 && driver.cuArrayCreate_v2(NULL, &flat) == 1);
    EXPECT(driver.cuArrayDestroy(NULL) != 0 && driver.cuMipmappedArrayDestroy(NULL) != 0);
    EXPECT(driver.cuArrayCreate(&a, &old) != 0 && driver.cuArray3DCreate(&a, &old_deep) != 0);
    EXPECT_HELD(0);
}

static CUdeviceptr reserve_addresses(size_t bytes)
{
    call_cuMemAddressReserve *reserve = dlsym(RTLD_DEFAULT, "cuMemAddressReserve");
    CUdeviceptr address = 0;
    void *library = dlopen(CUDA_SONAME, RTLD_NOW);
    if (!reserve)
        reserve = dlsym(library, "cuMemAddressReserve");
    EXPECT(reserve(&address, bytes, 0, 0, 0) == 0);
    return address;
}

static const CUmemAllocationProp on_device = {
    .type = 1, .requestedHandleTypes = HANDLE_FD, .location = {1, 0}};

static void *create_without_context(void *ret_handle)
{
    EXPECT(driver.cuMemCreate(ret_handle, 32 * MIB, &on_device, 0) == 0);
    return NULL;
}

static void check_mappings(void)
{
    CUmemAllocationProp elsewhere = on_device;
    CUmemGenericAllocationHandle a = 0, b = 0, c = 0, again = 0;
    pthread_t thread;
    EXPECT(driver.cuMemCreate(&a, 2 * MIB, &on_device, 0) != 0); /* no context at all */
    open_context();
    EXPECT(driver.cuMemCreate(&a, 64 * MIB, &on_device, 0) == 0);
    EXPECT(driver.cuMemCreate(&b, 64 * MIB, &on_device, 0) == 0);
    EXPECT_HELD(128);
    CUdeviceptr at = reserve_addresses(256 * MIB);
    EXPECT(driver.cuMemMap(at, 64 * MIB, 0, a, 0) == 0);
    EXPECT(driver.cuMemMap(at + 64 * MIB, 64 * MIB, 0, b, 0) == 0);
    EXPECT(driver.cuMemMap(at, 64 * MIB, 0, a, 0) != 0);             /* the range is taken */
    EXPECT(driver.cuMemMap(at + 128 * MIB, 64 * MIB, 0, a, 0) == 0); /* the same memory twice */
    EXPECT(driver.cuMemRelease(a) == 0);
    EXPECT_HELD(128); /* still mapped */
    EXPECT(driver.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)at) == 0);
    EXPECT(driver.cuMemUnmap(at, 32 * MIB) != 0);
    EXPECT(driver.cuMemUnmap(at, 128 * MIB) == 0);
    EXPECT_HELD(128); /* one by its other range, one by its handle */
    EXPECT(driver.cuMemUnmap(at + 128 * MIB, 64 * MIB) == 0);
    EXPECT_HELD(128);
    EXPECT(driver.cuMemRelease(b) == 0);
    EXPECT_HELD(64);
    EXPECT(driver.cuMemRelease(again) == 0);
    EXPECT_HELD(0);
    EXPECT(driver.cuMemCreate(&a, 64 * MIB, &on_device, 0) == 0);
    EXPECT(driver.cuMemMap(at, 64 * MIB, 0, a, 0) == 0 && driver.cuMemRelease(a) == 0);
    EXPECT(driver.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(at + 6 * MIB)) == 0);
    EXPECT(driver.cuMemUnmap(at, 64 * MIB) == 0);
    EXPECT_HELD(64); /* by a handle from within its range */
    EXPECT(driver.cuMemRelease(again) == 0);
    EXPECT_HELD(0);
    EXPECT(driver.cuMemCreate(&a, (size_t)(FULL + 2) * MIB, &on_device, 0) ==
           CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(driver.cuMemCreate(&a, SIZE_MAX, &on_device, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(driver.cuMemCreate(&a, 2 * MIB, NULL, 0) == 1);
    EXPECT(driver.cuMemCreate(NULL, 2 * MIB, &on_device, 0) == 1);
    EXPECT(driver.cuMemCreate(&a, 3, &on_device, 0) == 1);
    EXPECT(driver.cuMemRelease(0) != 0 && driver.cuMemUnmap(0, SIZE_MAX) != 0);
    EXPECT(driver.cuMemRetainAllocationHandle(&again, NULL) != 0);
    elsewhere.location.id = 12345; /* like an uninitialised value */
    EXPECT(driver.cuMemCreate(&a, 2 * MIB, &elsewhere, 0) != 0);
    elsewhere.location.id = -1;
    EXPECT(driver.cuMemCreate(&a, 2 * MIB, &elsewhere, 0) != 0);
    elsewhere.location.type = 2; /* the quota does not cover host memory */
    EXPECT(driver.cuMemCreate(&a, (size_t)FULL * 2 * MIB, &elsewhere, 0) !=
           CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(pthread_create(&thread, NULL, create_without_context, &c) == 0);
    pthread_join(thread, NULL);
    EXPECT_HELD(32);
    EXPECT(driver.cuMemRelease(c) == 0);
    EXPECT_HELD(0);
}

/* Imported memory counts in the process that made it, under any handle. */
static void check_imports(void)
{
    call_cuMemExportToShareableHandle *export =
        dlsym(dlopen(CUDA_SONAME, RTLD_NOW), "cuMemExportToShareableHandle");
    CUmemGenericAllocationHandle made = 0, imported = 0;
    int fd = -1;
    open_context();
    EXPECT(driver.cuMemCreate(&made, 64 * MIB, &on_device, 0) == 0);
    EXPECT(export(&fd, made, HANDLE_FD, 0) == 0);
    EXPECT(driver.cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd, HANDLE_FD) == 0);
    EXPECT_HELD(64);
    CUdeviceptr at = reserve_addresses(64 * MIB);
    EXPECT(driver.cuMemMap(at, 64 * MIB, 0, imported, 0) == 0);
    EXPECT(driver.cuMemRelease(imported) == 0);
    EXPECT(driver.cuMemUnmap(at, 64 * MIB) == 0);
    EXPECT_HELD(64);
    EXPECT(driver.cuMemRelease(made) == 0);
    EXPECT_HELD(0);
}

static CUmemoryPool default_pool(void)
{
    CUmemoryPool pool = NULL;
    EXPECT(driver.cuDeviceGetDefaultMemPool(&pool, 0) == 0);
    return pool;
}

static void check_default_pool(void)
{
    CUdeviceptr a = 0, b = 0;
    CUstream stream = NULL;
    uint64_t keep = UINT64_MAX;
    EXPECT(driver.cuMemAllocAsync(&a, MIB, NULL) != 0); /* no context */
    open_context();
    EXPECT(driver.cuStreamCreate(&stream, 1) == 0);
    EXPECT(driver.cuMemAllocAsync(&a, 40 * MIB, stream) == 0);
    EXPECT_HELD(40);
    EXPECT(driver.cuMemAllocAsync_ptsz(&b, 10 * MIB, NULL) == 0);
    EXPECT_HELD(50);
    EXPECT(driver.cuMemFreeAsync(a, stream) == 0);
    EXPECT(driver.cuMemFreeAsync_ptsz(b, NULL) == 0);
    EXPECT(driver.cuCtxSynchronize() == 0);
    EXPECT_HELD(0);
    EXPECT(driver.cuMemAllocAsync(&a, (size_t)(FULL + 2) * MIB, stream) ==
           CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(driver.cuMemAllocAsync(&a, SIZE_MAX, stream) == CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(driver.cuMemAllocAsync(&a, 0, stream) == 1);
    EXPECT(driver.cuMemAllocAsync(NULL, MIB, stream) == 1);
    EXPECT_HELD(0);
    /* Memory that a pool keeps counts, until the threshold forbids keeping it, or other allocations
     * need it. */
    EXPECT(driver.cuMemPoolSetAttribute(default_pool(), POOL_THRESHOLD, &keep) == 0);
    EXPECT(driver.cuMemAllocAsync(&a, 800 * MIB, stream) == 0);
    EXPECT(driver.cuMemFree_v2(a) == 0); /* by the other call */
    EXPECT_HELD(800);
    EXPECT(driver.cuMemAllocAsync(&a, 700 * MIB, stream) == 0);
    EXPECT_HELD(800);
    EXPECT(driver.cuMemFreeAsync(a, stream) == 0);
    EXPECT(driver.cuMemPoolTrimTo(default_pool(), 100 * MIB) == 0);
    EXPECT_HELD(100);
    EXPECT(driver.cuMemAlloc_v2(&b, (size_t)FULL * MIB) == 0);
    EXPECT_HELD(FULL);
    EXPECT(driver.cuMemFreeAsync(b, stream) == 0); /* plain memory, in the stream's order */
    EXPECT(driver.cuStreamSynchronize(stream) == 0);
    EXPECT_HELD(0);
    EXPECT(driver.cuMemFreeAsync(0x1234, stream) != 0);
}

static void check_pools(void)
{
    const CUmemPoolProps wanted = {.allocType = 1, .location = {1, 0}};
    CUmemoryPool pool = NULL, others[300];
    CUdeviceptr a = 0, b = 0;
    CUmemLocation here = {1, 0};
    uint64_t keep = UINT64_MAX;
    int count = 0;
    open_context();
    EXPECT(driver.cuMemPoolCreate(&pool, &wanted) == 0);
    EXPECT(driver.cuMemPoolSetAttribute(pool, POOL_THRESHOLD, &keep) == 0);
    EXPECT(driver.cuMemAllocFromPoolAsync(&a, 64 * MIB, pool, NULL) == 0);
    EXPECT(driver.cuMemAllocFromPoolAsync_ptsz(&b, 64 * MIB, pool, NULL) == 0);
    EXPECT_HELD(128);
    EXPECT(driver.cuMemAllocFromPoolAsync(&a, (size_t)FULL * MIB, pool, NULL) ==
           CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(driver.cuMemAllocFromPoolAsync(&a, MIB, NULL, NULL) != 0);
    EXPECT(driver.cuMemFreeAsync(b, NULL) == 0);
    EXPECT_HELD(128);
    /* Destroyed while it lends: the lent memory stays. */
    EXPECT(driver.cuMemPoolDestroy(pool) == 0);
    EXPECT_HELD(64);
    EXPECT(driver.cuMemFreeAsync(a, NULL) == 0);
    EXPECT(driver.cuCtxSynchronize() == 0);
    EXPECT_HELD(0);
    EXPECT(driver.cuMemPoolCreate(&pool, &wanted) == 0);
    EXPECT(driver.cuDeviceSetMemPool(0, pool) == 0);
    EXPECT(driver.cuMemPoolSetAttribute(pool, POOL_THRESHOLD, &keep) == 0);
    EXPECT(driver.cuMemAllocAsync(&a, 32 * MIB, NULL) == 0);
    EXPECT(driver.cuMemFreeAsync(a, NULL) == 0);
    EXPECT_HELD(32);
    EXPECT(driver.cuMemAllocFromPoolAsync(&a, 32 * MIB, default_pool(), NULL) == 0);
    EXPECT_HELD(64);
    EXPECT(driver.cuMemSetMemPool(&here, 1, default_pool()) == 0);
    EXPECT(driver.cuMemPoolDestroy(pool) == 0);
    EXPECT(driver.cuMemFreeAsync(a, NULL) == 0);
    EXPECT(driver.cuCtxSynchronize() == 0);
    EXPECT_HELD(0);
    while (count < 300 && driver.cuMemPoolCreate(&others[count], &wanted) == 0)
        count++;
    EXPECT(count > 200 && count < 300);
    while (count > 0)
        EXPECT(driver.cuMemPoolDestroy(others[--count]) == 0);
    EXPECT(driver.cuMemPoolCreate(&pool, &wanted) == 0);
    EXPECT(driver.cuMemPoolCreate(&pool, NULL) == 1 && driver.cuMemPoolDestroy(NULL) == 1);
    EXPECT_HELD(0);
}

/* Captures a graph that allocates two pieces, and keeps `kept` of them. */
static CUgraph capture(CUstream stream, size_t bytes, int kept, CUdeviceptr *ret_pieces)
{
    CUgraph graph = NULL;
    EXPECT(driver.cuStreamBeginCapture_v2(stream, 0) == 0);
    for (int i = 0; i < 2; i++) {
        EXPECT(driver.cuMemAllocAsync(&ret_pieces[i], bytes, stream) == 0);
        EXPECT(i < kept || driver.cuMemFreeAsync(ret_pieces[i], stream) == 0);
    }
    EXPECT(driver.cuStreamEndCapture(stream, &graph) == 0);
    return graph;
}

static void check_graphs(void)
{
    CUstream stream = NULL;
    CUgraphExec ready = NULL;
    CUdeviceptr pieces[2], a = 0;
    open_context();
    EXPECT(driver.cuStreamCreate(&stream, 1) == 0);
    CUgraph graph = capture(stream, 100 * MIB, 1, pieces);
    EXPECT_HELD(0);
    EXPECT(driver.cuGraphInstantiateWithFlags(&ready, graph, 0) == 0);
    EXPECT_HELD(0);
    EXPECT(driver.cuMemAlloc_v2(&a, 960 * MIB) == 0);
    EXPECT(driver.cuGraphLaunch(ready, stream) == CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(driver.cuGraphUpload(ready, stream) == CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(driver.cuGraphUpload_ptsz(ready, stream) == CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_HELD(960);
    EXPECT(driver.cuMemFree_v2(a) == 0);
    EXPECT(driver.cuGraphUpload(ready, stream) == 0);
    EXPECT(driver.cuGraphLaunch(ready, stream) == 0);
    EXPECT_HELD(200);
    EXPECT(driver.cuMemFreeAsync(pieces[0], stream) == 0);
    EXPECT(driver.cuGraphLaunch_ptsz(ready, stream) == 0);
    EXPECT_HELD(200);
    EXPECT(driver.cuMemFree_v2(pieces[0]) == 0);
    EXPECT(driver.cuDeviceGraphMemTrim(0) == 0);
    EXPECT_HELD(0);
    /* Kept by the graphs' pool, and released when other allocations need it. */
    EXPECT(driver.cuGraphLaunch(ready, stream) == 0);
    EXPECT(driver.cuMemFreeAsync(pieces[0], stream) == 0);
    EXPECT_HELD(200);
    EXPECT(driver.cuMemAlloc_v2(&a, 1000 * MIB) == 0);
    EXPECT_HELD(1000);
    EXPECT(driver.cuMemFree_v2(a) == 0);
    EXPECT(driver.cuGraphExecDestroy(ready) == 0);
    /* They fit one after another, but not together. */
    graph = capture(stream, 600 * MIB, 0, pieces);
    EXPECT(driver.cuGraphInstantiateWithFlags(&ready, graph, 0) == 0);
    EXPECT(driver.cuGraphLaunch(ready, stream) == 0);
    EXPECT_HELD(600);
    EXPECT(driver.cuGraphExecDestroy(ready) == 0);
    EXPECT(driver.cuDeviceGraphMemTrim(0) == 0);
    EXPECT_HELD(0);
}

/* One process opens memory that another has made. */
static void check_ipc(void)
{
    call_cuIpcGetMemHandle *get_handle = dlsym(dlopen(CUDA_SONAME, RTLD_NOW), "cuIpcGetMemHandle");
    int to_child[2], to_parent[2];
    CUipcMemHandle handle;
    CUdeviceptr memory = 0;
    char done;
    EXPECT(pipe(to_child) == 0 && pipe(to_parent) == 0);
    pid_t child = fork();
    open_context();
    if (child == 0) {
        EXPECT(read(to_child[0], &handle, sizeof(handle)) == (ssize_t)sizeof(handle));
        EXPECT(driver.cuIpcOpenMemHandle(&memory, handle, 1) == 0);
        EXPECT(driver.cuIpcCloseMemHandle(memory) == 0);
        EXPECT(driver.cuIpcOpenMemHandle_v2(&memory, handle, 1) == 0);
        EXPECT_HELD(0);
        EXPECT(driver.cuIpcCloseMemHandle(memory) == 0);
        EXPECT_HELD(0);
        fflush(stdout);
        EXPECT(write(to_parent[1], "x", 1) == 1);
        _exit(failures != 0);
    }
    EXPECT(driver.cuMemAlloc_v2(&memory, 64 * MIB) == 0);
    EXPECT(get_handle(&handle, memory) == 0);
    EXPECT(write(to_child[1], &handle, sizeof(handle)) == (ssize_t)sizeof(handle));
    EXPECT(read(to_parent[0], &done, 1) == 1);
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    EXPECT_HELD(64);
}

/* NVML reports the same numbers. */
static void check_nvml(void)
{
    void *library = dlopen(NVML_SONAME, RTLD_NOW);
    nvmlDevice_t device = NULL;
    call_nvmlInit_v2 *init = dlsym(library, "nvmlInit_v2");
    call_nvmlDeviceGetHandleByIndex_v2 *by_index = dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
    struct nvmls {
#define INTERCEPTED(symbol, ...) call_##symbol *symbol;
#define USED(symbol, ...)        call_##symbol *symbol;
#include "shim/hook/nvml_calls.def"
    } nvml;
    nvmlMemory_t memory = {0};
    nvmlMemory_v2_t memory_2 = {.version = sizeof(memory_2) | 2 << 24};
    nvmlProcessInfo_v1_t processes_1[8];
    nvmlProcessInfo_v2_t processes[8];
    unsigned count = 8;
    CUdeviceptr a = 0;
#define INTERCEPTED(symbol, ...) *(void **)&nvml.symbol = dlsym(library, #symbol);
#define USED(symbol, ...)        *(void **)&nvml.symbol = dlsym(library, #symbol);
#include "shim/hook/nvml_calls.def"
    EXPECT(init() == 0 && by_index(0, &device) == 0);
    EXPECT(nvml.nvmlDeviceGetMemoryInfo(device, &memory) == 0);
    EXPECT(memory.total == (size_t)QUOTA * MIB && memory.used == 0);
    open_context();
    EXPECT(driver.cuMemAlloc_v2(&a, 100 * MIB) == 0);
    EXPECT(nvml.nvmlDeviceGetMemoryInfo(device, &memory) == 0);
    EXPECT(memory.total == (size_t)QUOTA * MIB && memory.used == (CONTEXT + 100) * (size_t)MIB);
    EXPECT(memory.free == (size_t)(FULL - 100) * MIB);
    EXPECT(nvml.nvmlDeviceGetMemoryInfo_v2(device, &memory_2) == 0);
    EXPECT(memory_2.total == memory.total && memory_2.used == memory.used);
    EXPECT(memory_2.free == memory.free && memory_2.reserved == 0);
    memory_2.version = 1;
    EXPECT(nvml.nvmlDeviceGetMemoryInfo_v2(device, &memory_2) != 0);
    EXPECT(nvml.nvmlDeviceGetMemoryInfo(device, NULL) != 0);
    EXPECT(nvml.nvmlDeviceGetMemoryInfo(NULL, &memory) != 0);
    EXPECT(nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &count, processes) == 0);
    EXPECT(count == 1 && processes[0].pid == (unsigned)getpid());
    EXPECT(processes[0].usedGpuMemory == memory.used);
    count = 8;
    EXPECT(nvml.nvmlDeviceGetComputeRunningProcesses_v2(device, &count, processes) == 0);
    EXPECT(count == 1 && processes[0].usedGpuMemory == memory.used);
    count = 8;
    EXPECT(nvml.nvmlDeviceGetComputeRunningProcesses(device, &count, processes_1) == 0);
    EXPECT(count == 1 && processes_1[0].usedGpuMemory == memory.used);
    count = 0;
    EXPECT(nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &count, NULL) != 0 && count == 1);
    count = 8;
    EXPECT(nvml.nvmlDeviceGetMPSComputeRunningProcesses_v3(device, &count, processes) == 0);
    EXPECT(count == 0);
    EXPECT(nvml.nvmlDeviceGetMPSComputeRunningProcesses_v2(device, &count, processes) == 0);
    EXPECT(nvml.nvmlDeviceGetMPSComputeRunningProcesses(device, &count, processes_1) == 0);
}

/* Each device has a quota of its own, whatever the thread's current device. */
static void check_devices(void)
{
    CUmemAllocationProp on_second = on_device;
    CUmemPoolProps pool_there = {.allocType = 1, .location = {1, 1}};
    CUcontext first = open_context(), second = NULL;
    CUmemGenericAllocationHandle handle = 0;
    CUmemoryPool pool = NULL;
    CUdeviceptr a = 0, b = 0;
    CUstream there = NULL;
    int count = 0;
    EXPECT(driver.cuDeviceGetCount(&count) == 0 && count == 2);
    EXPECT(driver.cuDevicePrimaryCtxRetain(&second, 1) == 0);
    EXPECT(driver.cuMemAlloc_v2(&a, (size_t)FULL * MIB) == 0);
    on_second.location.id = 1;
    EXPECT(driver.cuMemCreate(&handle, 100 * MIB, &on_second, 0) == 0);
    EXPECT_HELD(FULL);
    EXPECT(driver.cuCtxSetCurrent(second) == 0);
    EXPECT_HELD(100);
    EXPECT(driver.cuStreamCreate(&there, 1) == 0);
    EXPECT(driver.cuMemPoolCreate(&pool, &pool_there) == 0);
    EXPECT(driver.cuCtxSetCurrent(first) == 0);
    EXPECT(driver.cuMemAllocAsync(&b, 64 * MIB, there) == 0); /* on the stream's device */
    EXPECT_HELD(FULL);
    EXPECT(driver.cuMemAllocAsync(&b, 64 * MIB, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(driver.cuMemFree_v2(a) == 0);
    EXPECT_HELD(0);
    EXPECT(driver.cuCtxSetCurrent(second) == 0);
    EXPECT_HELD(164);
    EXPECT(driver.cuMemFreeAsync(b, there) == 0);
    EXPECT(driver.cuMemAllocFromPoolAsync(&b, 32 * MIB, pool, there) == 0);
    EXPECT(driver.cuStreamSynchronize(there) == 0);
    EXPECT_HELD(132);
    EXPECT(driver.cuMemRelease(handle) == 0);
    EXPECT(driver.cuDevicePrimaryCtxReset_v2(1) == 0);
    EXPECT(driver.cuCtxSetCurrent(first) == 0);
    EXPECT(driver.cuMemAlloc_v2(&a, (size_t)FULL * MIB) == 0);
}

int main(int argc, char **argv)
{
    static void (*const checks[])(void) = {
        check_plain,   check_addresses, check_contexts, check_primary_of_others,
        check_arrays,  check_mappings,  check_imports,  check_default_pool,
        check_pools,   check_graphs,    check_ipc,      check_nvml,
        check_devices,
    };
    int failed = 0;
    driver_calls_load(&driver);
    for (size_t i = 0; i < sizeof(checks) / sizeof(*checks); i++) {
        int status = -1;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            checks[i]();
            fflush(stdout);
            _exit(failures != 0);
        }
        if (waitpid(child, &status, 0) != child || status != 0) {
            printf("check %zu ended with status %d\n", i, status);
            failed++;
        }
    }
    return argc > 1 && !driver_calls_write(argv[1]) ? 2 : failed != 0;
}
