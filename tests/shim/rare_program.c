/*
 * The calls that the emulated driver lacks, with the driver of rare_driver.c: each reaches the
 * driver unchanged, its result comes back unchanged, and its memory and counters are right.
 *
 *   rare_program HOW WAY [FILE]
 *       HOW   limited: with the shim and a quota of 1500 MiB, for two contexts and 300 MiB
 *             free: the shim does nothing
 *             refused: the shim gives no device
 *       WAY   found: the functions come from dlsym
 *             linked: the functions are the shim's exports, as in a program linked with libcuda
 *       FILE  with `found`: appends the calls made
 *
 * With `limited` the program prints the numbers that the shim must have counted, by counter.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tests/shim/driver_calls.h"
#include "tests/shim/expect.h"
#include "tests/shim/rare_driver.h"

enum {
    MIB = 1 << 20,
    CONTEXT = 600, /* MiB */
    QUOTA = 2 * CONTEXT + 300,
    DEVICE = 1, /* not 0, which a lost number would be */
    FLAGS = 8,
    UNKNOWN_ERROR = 999,
    FORMAT_HALF = 0x10,
    FORMAT_FLOAT = 0x20,
    ARRAY_SPARSE = 0x40,
};

static struct real_calls driver;
static struct rare_driver *rare;
static bool is_limited;
static struct {
    unsigned long launches, copies, copied_bytes, allocations, out_of_memory;
} counted;
/* Handles, of which only the addresses matter. */
static char function_place, stream_place, resources_place, attributes_place;
static const CUfunction function = (CUfunction)(void *)&function_place;
static const CUstream stream = (CUstream)(void *)&stream_place;
static const CUdevResourceDesc resources = (CUdevResourceDesc)(void *)&resources_place;

/* ---- expectations of a call ---- */

static bool is_noted(uint64_t noted, const char *symbol, int count, const uint64_t *arguments)
{
    bool is_same =
        rare->noted == noted && rare->count == count && strcmp(rare->symbol, symbol) == 0;
    for (int i = 0; is_same && i < count; i++) {
        if (rare->arguments[i] == arguments[i])
            continue;
        printf("%s: argument %d is %#lx, not %#lx\n", symbol, i, (unsigned long)rare->arguments[i],
               (unsigned long)arguments[i]);
        return false;
    }
    return is_same;
}

/* The driver is called once, with the shim's arguments. */
#define ANSWERS(result, function, ...)                                                             \
    do {                                                                                           \
        uint64_t noted_before = rare->noted;                                                       \
        rare->answer = (result);                                                                   \
        EXPECT(driver.function(__VA_ARGS__) == (result));                                          \
        EXPECT(is_noted(noted_before + 1, #function, CALL_COUNT(__VA_ARGS__),                      \
                        (const uint64_t[]){RARE_WORDS(__VA_ARGS__)}));                             \
    } while (0)
#define FAILS(function, ...)    ANSWERS(UNKNOWN_ERROR, function, __VA_ARGS__)
#define SUCCEEDS(function, ...) ANSWERS(CUDA_SUCCESS, function, __VA_ARGS__)
#define PASSES(function, ...)                                                                      \
    do {                                                                                           \
        FAILS(function, __VA_ARGS__);                                                              \
        SUCCEEDS(function, __VA_ARGS__);                                                           \
    } while (0)
/* The driver is not called. */
#define IS_REFUSED(result, function, ...)                                                          \
    do {                                                                                           \
        uint64_t noted_before = rare->noted;                                                       \
        EXPECT(driver.function(__VA_ARGS__) == (result));                                          \
        EXPECT(rare->noted == noted_before);                                                       \
    } while (0)
/* The call would exceed the quota, if there is one. */
#define BEYOND(function, ...)                                                                      \
    do {                                                                                           \
        if (is_limited) {                                                                          \
            IS_REFUSED(CUDA_ERROR_OUT_OF_MEMORY, function, __VA_ARGS__);                           \
            counted.out_of_memory++;                                                               \
        } else {                                                                                   \
            SUCCEEDS(function, __VA_ARGS__);                                                       \
        }                                                                                          \
    } while (0)
#define ALLOCATES(function, ...)                                                                   \
    do {                                                                                           \
        PASSES(function, __VA_ARGS__);                                                             \
        counted.allocations++;                                                                     \
    } while (0)
/* A launch that the driver then refuses is counted, too. */
#define LAUNCHES(function, ...)                                                                    \
    do {                                                                                           \
        PASSES(function, __VA_ARGS__);                                                             \
        counted.launches += 2;                                                                     \
    } while (0)
#define COPIES(bytes, function, ...)                                                               \
    do {                                                                                           \
        PASSES(function, __VA_ARGS__);                                                             \
        counted.copies += 2;                                                                       \
        counted.copied_bytes += 2UL * (bytes);                                                     \
    } while (0)

/* In MiB, all memory including contexts. */
#define EXPECT_HELD(mib)                                                                           \
    do {                                                                                           \
        unsigned left = 0, total = 0;                                                              \
        PASSES(cuMemGetInfo, &left, &total);                                                       \
        EXPECT(total == (is_limited ? (unsigned)QUOTA * MIB : RARE_TOTAL_BYTES));                  \
        EXPECT(left == (is_limited ? (unsigned)(QUOTA - (mib)) * MIB : RARE_FREE_BYTES));          \
    } while (0)

/* ---- memory ---- */

static CUcontext open_context(void)
{
    CUcontext context = NULL;
    PASSES(cuCtxCreate, &context, FLAGS, DEVICE);
    EXPECT_HELD(CONTEXT);
    return context;
}

static void close_context(CUcontext context)
{
    EXPECT_HELD(CONTEXT);
    SUCCEEDS(cuCtxDestroy, context);
}

static void check_memory(void)
{
    const unsigned rest = (QUOTA - CONTEXT - 4) * MIB;
    CUcontext context = open_context();
    unsigned a = 0, b = 0, none = 0, pitch = 0, bytes = 0;
    PASSES(cuDeviceTotalMem, &bytes, DEVICE);
    EXPECT(bytes == (is_limited ? (unsigned)QUOTA * MIB : RARE_TOTAL_BYTES));
    ALLOCATES(cuMemAlloc, &a, 3 * MIB);
    EXPECT_HELD(CONTEXT + 4); /* as charged by the driver */
    BEYOND(cuMemAlloc, &none, rest + 1);
    ALLOCATES(cuMemAlloc, &b, rest);
    EXPECT_HELD(QUOTA);
    BEYOND(cuMemAlloc, &none, 1);
    FAILS(cuMemFree, b);
    EXPECT_HELD(QUOTA);
    SUCCEEDS(cuMemFree, b);
    EXPECT_HELD(CONTEXT + 4);
    ALLOCATES(cuMemAllocPitch, &b, &pitch, 24, 8192, 8);
    EXPECT(pitch == 512);
    EXPECT_HELD(CONTEXT + 8); /* rows, including their padding */
    BEYOND(cuMemAllocPitch, &none, &pitch, MIB, QUOTA - CONTEXT, 16);
    SUCCEEDS(cuMemFree, a);
    EXPECT_HELD(CONTEXT + 4);
    SUCCEEDS(cuMemFree, b);
    /* For an empty request, the driver reports the error. */
    PASSES(cuMemAlloc, NULL, MIB);
    PASSES(cuMemAlloc, &none, 0);
    FAILS(cuMemAllocPitch, &none, NULL, 1000, 4096, 16);
    FAILS(cuMemAllocPitch, &none, &pitch, 1000, 0, 16);
    close_context(context);
}

/* Shapes in which no two numbers can be confused. */
static void check_arrays(void)
{
    const CUDA_ARRAY_DESCRIPTOR_v1 flat = {1, MIB, FORMAT_HALF, 2},
                                   huge = {1, 16 * MIB, FORMAT_HALF, 2};
    const CUDA_ARRAY3D_DESCRIPTOR_v1 deep = {1, MIB / 8, 3, FORMAT_HALF, 2, 0},
                                     deeper = {1, MIB, 16, FORMAT_HALF, 2, 0},
                                     sparse = {1, MIB, 16, FORMAT_HALF, 2, ARRAY_SPARSE};
    CUcontext context = open_context();
    CUarray a = NULL, b = NULL, none = NULL;
    ALLOCATES(cuArrayCreate, &a, &flat);
    EXPECT_HELD(CONTEXT + 64);
    ALLOCATES(cuArray3DCreate, &b, &deep);
    EXPECT_HELD(CONTEXT + 64 + 24);
    BEYOND(cuArrayCreate, &none, &huge);
    BEYOND(cuArray3DCreate, &none, &deeper);
    PASSES(cuArray3DCreate, &none, &sparse);
    EXPECT_HELD(CONTEXT + 64 + 24);
    FAILS(cuArrayCreate, NULL, &flat);
    FAILS(cuArrayCreate, &none, NULL);
    FAILS(cuArray3DCreate, NULL, &deep);
    FAILS(cuArray3DCreate, &none, NULL);
    FAILS(cuArrayDestroy, a);
    EXPECT_HELD(CONTEXT + 64 + 24);
    SUCCEEDS(cuArrayDestroy, a);
    EXPECT_HELD(CONTEXT + 24);
    SUCCEEDS(cuArrayDestroy, b);
    close_context(context);
}

/* ---- contexts ---- */

/* Each ends with its memory, and only if the driver's call succeeds. */
static void check_contexts(void)
{
    CUcontext context = open_context(), other = NULL, none = NULL;
    unsigned address = 0;
    PASSES(cuCtxCreate, &other, FLAGS, DEVICE);
    ALLOCATES(cuMemAlloc, &address, 100 * MIB);
    EXPECT_HELD(2 * CONTEXT + 100);
    BEYOND(cuCtxCreate, &none, FLAGS, DEVICE);
    FAILS(cuCtxDestroy, other);
    EXPECT_HELD(2 * CONTEXT + 100);
    SUCCEEDS(cuCtxDestroy, other);
    EXPECT_HELD(CONTEXT);
    PASSES(cuCtxCreate, &other, FLAGS, DEVICE);
    ALLOCATES(cuMemAlloc, &address, 100 * MIB);
    FAILS(cuCtxDetach, other);
    EXPECT_HELD(2 * CONTEXT + 100);
    SUCCEEDS(cuCtxDetach, other);
    FAILS(cuCtxCreate, NULL, FLAGS, DEVICE);
    FAILS(cuCtxCreate, &none, FLAGS, -1);
    FAILS(cuCtxDestroy, NULL);
    FAILS(cuCtxDetach, NULL);
    close_context(context);
}

/* All green contexts of a device together take the memory of the primary context behind them. */
static void check_green_contexts(void)
{
    CUcontext context = open_context(), other = NULL;
    CUgreenCtx a = NULL, b = NULL, none = NULL;
    PASSES(cuGreenCtxCreate, &a, resources, DEVICE, FLAGS);
    EXPECT_HELD(2 * CONTEXT);
    PASSES(cuGreenCtxCreate, &b, resources, DEVICE, FLAGS);
    EXPECT_HELD(2 * CONTEXT);
    SUCCEEDS(cuGreenCtxDestroy, a);
    FAILS(cuGreenCtxDestroy, b);
    EXPECT_HELD(2 * CONTEXT);
    SUCCEEDS(cuGreenCtxDestroy, b);
    EXPECT_HELD(CONTEXT);
    PASSES(cuCtxCreate, &other, FLAGS, DEVICE);
    BEYOND(cuGreenCtxCreate, &none, resources, DEVICE, FLAGS);
    SUCCEEDS(cuCtxDestroy, other);
    FAILS(cuGreenCtxCreate, NULL, resources, DEVICE, FLAGS);
    close_context(context);
}

/* The shim repeats calls while an MPS server is not ready. */
static void check_retries(void)
{
    enum { TIMES = 2 };
    CUcontext context = NULL;
    CUgreenCtx green = NULL;
    uint64_t noted = rare->noted;
    rare->answer = CUDA_SUCCESS;
    rare->not_ready = TIMES;
    EXPECT(driver.cuCtxCreate(&context, FLAGS, DEVICE) == 0);
    EXPECT(rare->noted == noted + TIMES + 1);
    rare->not_ready = TIMES;
    EXPECT(driver.cuGreenCtxCreate(&green, resources, DEVICE, FLAGS) == 0);
    EXPECT(rare->noted == noted + 2 * (TIMES + 1));
    EXPECT_HELD(2 * CONTEXT);
    SUCCEEDS(cuGreenCtxDestroy, green);
    close_context(context);
}

/* ---- work ---- */

static void check_launches(void)
{
    CUDA_LAUNCH_PARAMS launches[] = {
        {.function = function, .gridDimX = 3, .gridDimY = 5, .gridDimZ = 7, .hStream = stream},
        {.function = function, .gridDimX = 3, .gridDimY = 5, .gridDimZ = 7, .hStream = stream},
    };
    CUcontext context = open_context();
    LAUNCHES(cuLaunch, function);
    LAUNCHES(cuLaunchGrid, function, 3, 5);
    LAUNCHES(cuLaunchGridAsync, function, 3, 5, stream);
    LAUNCHES(cuLaunchCooperativeKernelMultiDevice, launches, 2, 1);
    /* These are no launches. */
    FAILS(cuLaunchCooperativeKernelMultiDevice, NULL, 2, 1);
    FAILS(cuLaunchCooperativeKernelMultiDevice, launches, 0, 1);
    close_context(context);
}

static void check_batches(void)
{
    CUdeviceptr to[3] = {0}, from[3] = {0};
    size_t sizes[] = {5, 70, 900}, indices[2] = {0}, failed = 0;
    CUmemcpyAttributes *attributes = (CUmemcpyAttributes *)(void *)&attributes_place;
    CUcontext context = open_context();
    COPIES(5 + 70, cuMemcpyBatchAsync, to, from, sizes, 2, attributes, indices, 1, &failed, stream);
    COPIES(5, cuMemcpyBatchAsync_ptsz, to, from, sizes, 1, attributes, indices, 2, &failed, stream);
    COPIES(5 + 70 + 900, cuMemcpyBatchAsync_v2, to, from, sizes, 3, attributes, indices, 2, stream);
    COPIES(5 + 70, cuMemcpyBatchAsync_v2_ptsz, to, from, sizes, 2, attributes, indices, 1, stream);
    COPIES(0, cuMemcpyBatchAsync, to, from, NULL, 2, attributes, indices, 1, &failed, stream);
    close_context(context);
}

/* An array's elements are not bytes. */
static void check_deep_batches(void)
{
    const CUDA_ARRAY3D_DESCRIPTOR_v1 shape_of_4 = {64, 64, 64, FORMAT_HALF, 2, 0};
    const CUDA_ARRAY_DESCRIPTOR_v1 shape_of_16 = {64, 64, FORMAT_FLOAT, 4};
    CUcontext context = open_context();
    CUarray of_4 = NULL, of_16 = NULL;
    size_t failed = 0;
    ALLOCATES(cuArray3DCreate, &of_4, &shape_of_4);
    ALLOCATES(cuArrayCreate, &of_16, &shape_of_16);
    CUDA_MEMCPY3D_BATCH_OP copies[] = {
        {.src = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER},
         .dst = {.type = CU_MEMCPY_OPERAND_TYPE_ARRAY, .op.array.array = of_4},
         .extent = {3, 5, 7}},
        {.src = {.type = CU_MEMCPY_OPERAND_TYPE_ARRAY, .op.array.array = of_16},
         .dst = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER},
         .extent = {2, 3, 4}},
        {.src = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER},
         .dst = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER},
         .extent = {11, 1, 2}},
    };
    enum { FIRST = 4 * 3 * 5 * 7, SECOND = 16 * 2 * 3 * 4, THIRD = 11 * 2 };
    COPIES(FIRST, cuMemcpy3DBatchAsync, 1, copies, &failed, 9, stream);
    COPIES(FIRST + SECOND, cuMemcpy3DBatchAsync_ptsz, 2, copies, &failed, 9, stream);
    COPIES(FIRST + SECOND + THIRD, cuMemcpy3DBatchAsync_v2, 3, copies, 9, stream);
    COPIES(FIRST + SECOND, cuMemcpy3DBatchAsync_v2_ptsz, 2, copies, 9, stream);
    COPIES(0, cuMemcpy3DBatchAsync_v2, 3, NULL, 9, stream);
    SUCCEEDS(cuArrayDestroy, of_4);
    SUCCEEDS(cuArrayDestroy, of_16);
    close_context(context);
}

/* ---- the ways to run ---- */

static void check_refusals(void)
{
    enum { NO = CUDA_ERROR_SYSTEM_NOT_READY };
    const CUDA_ARRAY_DESCRIPTOR_v1 flat = {1, 1, FORMAT_HALF, 2};
    const CUDA_ARRAY3D_DESCRIPTOR_v1 deep = {1, 1, 1, FORMAT_HALF, 2, 0};
    CUcontext context = NULL;
    CUgreenCtx green = NULL;
    CUarray array = NULL;
    unsigned address = 0, pitch = 0;
    EXPECT(driver.cuInit(0) == NO);
    IS_REFUSED(NO, cuCtxCreate, &context, FLAGS, DEVICE);
    IS_REFUSED(NO, cuGreenCtxCreate, &green, resources, DEVICE, FLAGS);
    IS_REFUSED(NO, cuMemAlloc, &address, MIB);
    IS_REFUSED(NO, cuMemAllocPitch, &address, &pitch, 1000, 4096, 16);
    IS_REFUSED(NO, cuArrayCreate, &array, &flat);
    IS_REFUSED(NO, cuArray3DCreate, &array, &deep);
}

static void check_all(void)
{
    EXPECT(driver.cuInit(0) == 0);
    check_memory();
    check_arrays();
    check_contexts();
    check_green_contexts();
    if (is_limited)
        check_retries();
    check_launches();
    check_batches();
    check_deep_batches();
}

static void *base_of(const void *address)
{
    Dl_info info = {0};
    return dladdr(address, &info) ? info.dli_fbase : NULL;
}

/* A lookup gives the driver's own functions if, and only if, the shim does nothing. */
static void check_lookups(void *library, bool is_free)
{
    int found = 0;
    const void *address;
#define CHECK(symbol)                                                                              \
    if ((address = dlsym(library, #symbol))) {                                                     \
        found++;                                                                                   \
        EXPECT((base_of(address) == base_of(rare)) == is_free);                                    \
    }
#define INTERCEPTED(how, symbol, ...) CHECK(symbol)
#define USED(...)
#include "shim/hook/calls.def"
    EXPECT(found > 24);
}

/* Finds the exports by the version that src/shim/hook/exports.c gives them; a plain lookup does
 * not. */
static void link_exports(void)
{
#define INTERCEPTED(how, symbol, ...)                                                              \
    *(void **)&driver.symbol = dlvsym(RTLD_DEFAULT, #symbol, "GPUMUX_CUDA");
#define USED(...)
#include "shim/hook/calls.def"
    EXPECT(driver.cuLaunch && base_of((void *)driver.cuLaunch) != base_of(rare));
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    bool is_free = strcmp(argv[1], "free") == 0;
    is_limited = strcmp(argv[1], "limited") == 0;
    driver_calls_load(&driver);
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    struct rare_driver *(*find)(void) =
        (struct rare_driver * (*)(void)) dlsym(library, "rare_driver");
    if (!find)
        return 2;
    rare = find();
    check_lookups(library, is_free);
    if (strcmp(argv[2], "linked") == 0)
        link_exports();
    if (is_limited || is_free)
        check_all();
    else
        check_refusals();
    if (is_limited)
        printf("launches_kernel=%lu copies_other=%lu copied_other_bytes=%lu allocations=%lu "
               "out_of_memory=%lu frees_unknown=0 allocations_uncounted=0 sms_peak=%d\n",
               counted.launches, counted.copies, counted.copied_bytes, counted.allocations,
               counted.out_of_memory, RARE_SMS + DEVICE);
    return argc > 3 && !driver_calls_write(argv[3]) ? 2 : failures != 0;
}
