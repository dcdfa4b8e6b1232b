/*
 * work_calls PTX [FILE]: every call of api/cuda_calls.def that does not concern memory (see
 * memory_calls): copies and fills, whose bytes must arrive; launches, graphs and captures; modules,
 * streams and waits. At the end the program prints the number of copies in each direction, and
 * appends the calls made to the file. PTX is burn.ptx.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/shim/driver_calls.h"
#include "tests/shim/expect.h"

enum {
    BYTES = 4096,
    ROWS = 64, /* of a shaped copy */
    ROW_BYTES = BYTES / ROWS,
    PTX_MAX = 1 << 16,
    FORMAT_FLOAT = 0x20,
    FILL = 0x5a,
    MIB = 1 << 20,
    NODE_KERNEL = 0,
    NODE_EMPTY = 5,
};

enum direction { TO_DEVICE, TO_HOST, ON_DEVICE, OTHER, DIRECTIONS };
/* Sources and targets of copies, from the first of each kind to the second. */
enum place { HOST, DEVICE, ARRAY };
enum memory_type { TYPE_HOST = 1, TYPE_DEVICE = 2, TYPE_ARRAY = 3 };

static struct real_calls driver;
static struct {
    unsigned char from[BYTES], to[BYTES];
    CUdeviceptr a, b;
    CUarray x, y;
    CUcontext context;
    CUstream stream;
    CUfunction burn;
    unsigned pattern;
    unsigned long copies[DIRECTIONS];
} work;

/* Finds a call that the table lacks. */
static void *find(const char *name)
{
    return dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
}

/* ---- copies ---- */

static int copied(enum direction direction, int result)
{
    work.copies[direction]++;
    return result;
}

/* Fills the sources of copies with a new pattern, and clears their targets. */
static void fill_sources(void)
{
    static const unsigned char nothing[BYTES];
    work.pattern++;
    for (unsigned i = 0; i < BYTES; i++)
        work.from[i] = (unsigned char)(i * 31 + work.pattern);
    memset(work.to, 0, BYTES);
    EXPECT(copied(TO_DEVICE, driver.cuMemcpyHtoD_v2(work.a, work.from, BYTES)) == 0);
    EXPECT(copied(TO_DEVICE, driver.cuMemcpyHtoD_v2(work.b, nothing, BYTES)) == 0);
    EXPECT(copied(TO_DEVICE, driver.cuMemcpyHtoA_v2(work.x, 0, work.from, BYTES)) == 0);
    EXPECT(copied(TO_DEVICE, driver.cuMemcpyHtoA_v2(work.y, 0, nothing, BYTES)) == 0);
}

static bool has_arrived(enum place place)
{
    EXPECT(driver.cuCtxSynchronize() == 0);
    if (place == DEVICE)
        EXPECT(copied(TO_HOST, driver.cuMemcpyDtoH_v2(work.to, work.b, BYTES)) == 0);
    else if (place == ARRAY)
        EXPECT(copied(TO_HOST, driver.cuMemcpyAtoH_v2(work.to, work.y, 0, BYTES)) == 0);
    return memcmp(work.from, work.to, BYTES) == 0;
}

#define MOVES(direction, place, function, ...)                                                     \
    do {                                                                                           \
        fill_sources();                                                                            \
        EXPECT(copied(direction, driver.function(__VA_ARGS__)) == 0 && has_arrived(place));        \
    } while (0)
/* Also by the call for programs with a per-thread default stream. */
#define MOVES_TWICE(direction, place, function, variant, ...)                                      \
    do {                                                                                           \
        MOVES(direction, place, function, __VA_ARGS__);                                            \
        MOVES(direction, place, function##_##variant, __VA_ARGS__);                                \
    } while (0)

static CUdeviceptr at(const void *host)
{
    return (CUdeviceptr)(uintptr_t)host;
}

static void check_rows(void)
{
    CUstream s = work.stream;
    MOVES_TWICE(TO_DEVICE, DEVICE, cuMemcpyHtoD_v2, ptds, work.b, work.from, BYTES);
    MOVES_TWICE(TO_DEVICE, DEVICE, cuMemcpyHtoDAsync_v2, ptsz, work.b, work.from, BYTES, s);
    MOVES_TWICE(TO_HOST, HOST, cuMemcpyDtoH_v2, ptds, work.to, work.a, BYTES);
    MOVES_TWICE(TO_HOST, HOST, cuMemcpyDtoHAsync_v2, ptsz, work.to, work.a, BYTES, s);
    MOVES_TWICE(ON_DEVICE, DEVICE, cuMemcpyDtoD_v2, ptds, work.b, work.a, BYTES);
    MOVES_TWICE(ON_DEVICE, DEVICE, cuMemcpyDtoDAsync_v2, ptsz, work.b, work.a, BYTES, s);
    MOVES_TWICE(OTHER, HOST, cuMemcpy, ptds, at(work.to), work.a, BYTES);
    MOVES_TWICE(OTHER, DEVICE, cuMemcpyAsync, ptsz, work.b, at(work.from), BYTES, s);
    MOVES_TWICE(ON_DEVICE, DEVICE, cuMemcpyPeer, ptds, work.b, work.context, work.a, work.context,
                BYTES);
    MOVES_TWICE(ON_DEVICE, DEVICE, cuMemcpyPeerAsync, ptsz, work.b, work.context, work.a,
                work.context, BYTES, s);
}

static void check_array_rows(void)
{
    CUstream s = work.stream;
    MOVES_TWICE(TO_DEVICE, ARRAY, cuMemcpyHtoA_v2, ptds, work.y, 0, work.from, BYTES);
    MOVES_TWICE(TO_DEVICE, ARRAY, cuMemcpyHtoAAsync_v2, ptsz, work.y, 0, work.from, BYTES, s);
    MOVES_TWICE(TO_HOST, HOST, cuMemcpyAtoH_v2, ptds, work.to, work.x, 0, BYTES);
    MOVES_TWICE(TO_HOST, HOST, cuMemcpyAtoHAsync_v2, ptsz, work.to, work.x, 0, BYTES, s);
    MOVES_TWICE(ON_DEVICE, DEVICE, cuMemcpyAtoD_v2, ptds, work.b, work.x, 0, BYTES);
    MOVES_TWICE(ON_DEVICE, ARRAY, cuMemcpyDtoA_v2, ptds, work.y, 0, work.a, BYTES);
    MOVES_TWICE(ON_DEVICE, ARRAY, cuMemcpyAtoA_v2, ptds, work.y, 0, work.x, 0, BYTES);
}

static void check_shapes(void)
{
    CUstream s = work.stream;
    const CUDA_MEMCPY2D up = {.srcMemoryType = TYPE_HOST,
                              .srcHost = work.from,
                              .srcPitch = ROW_BYTES,
                              .dstMemoryType = TYPE_DEVICE,
                              .dstDevice = work.b,
                              .dstPitch = ROW_BYTES,
                              .WidthInBytes = ROW_BYTES,
                              .Height = ROWS};
    const CUDA_MEMCPY2D down = {.srcMemoryType = TYPE_DEVICE,
                                .srcDevice = work.a,
                                .srcPitch = ROW_BYTES,
                                .dstMemoryType = TYPE_HOST,
                                .dstHost = work.to,
                                .dstPitch = ROW_BYTES,
                                .WidthInBytes = ROW_BYTES,
                                .Height = ROWS};
    const CUDA_MEMCPY3D across = {.srcMemoryType = TYPE_ARRAY,
                                  .srcArray = work.x,
                                  .dstMemoryType = TYPE_ARRAY,
                                  .dstArray = work.y,
                                  .WidthInBytes = BYTES,
                                  .Height = 1,
                                  .Depth = 1};
    const CUDA_MEMCPY3D deep_down = {.srcMemoryType = TYPE_DEVICE,
                                     .srcDevice = work.a,
                                     .srcPitch = ROW_BYTES,
                                     .srcHeight = ROWS / 4,
                                     .dstMemoryType = TYPE_HOST,
                                     .dstHost = work.to,
                                     .dstPitch = ROW_BYTES,
                                     .dstHeight = ROWS / 4,
                                     .WidthInBytes = ROW_BYTES,
                                     .Height = ROWS / 4,
                                     .Depth = 4};
    /* A copy between devices has the same form, with contexts in the reserved fields. */
    CUDA_MEMCPY3D between = across;
    between.reserved0 = between.reserved1 = work.context;
    const CUDA_MEMCPY3D_PEER *peer = (const CUDA_MEMCPY3D_PEER *)&between;
    MOVES_TWICE(TO_DEVICE, DEVICE, cuMemcpy2D_v2, ptds, &up);
    MOVES_TWICE(TO_HOST, HOST, cuMemcpy2DUnaligned_v2, ptds, &down);
    MOVES_TWICE(TO_HOST, HOST, cuMemcpy2DAsync_v2, ptsz, &down, s);
    MOVES_TWICE(ON_DEVICE, ARRAY, cuMemcpy3D_v2, ptds, &across);
    MOVES_TWICE(TO_HOST, HOST, cuMemcpy3DAsync_v2, ptsz, &deep_down, s);
    MOVES_TWICE(ON_DEVICE, ARRAY, cuMemcpy3DPeer, ptds, peer);
    MOVES_TWICE(ON_DEVICE, ARRAY, cuMemcpy3DPeerAsync, ptsz, peer, s);
}

/* ---- fills ---- */

static bool is_filled(unsigned char byte)
{
    EXPECT(driver.cuCtxSynchronize() == 0);
    EXPECT(copied(TO_HOST, driver.cuMemcpyDtoH_v2(work.to, work.b, BYTES)) == 0);
    for (int i = 0; i < BYTES; i++)
        if (work.to[i] != byte)
            return false;
    return true;
}

#define FILLS(function, ...)                                                                       \
    do {                                                                                           \
        fill_sources();                                                                            \
        EXPECT(driver.function(__VA_ARGS__) == 0 && is_filled(FILL));                              \
    } while (0)
#define FILLS_TWICE(function, variant, ...)                                                        \
    do {                                                                                           \
        FILLS(function, __VA_ARGS__);                                                              \
        FILLS(function##_##variant, __VA_ARGS__);                                                  \
    } while (0)

static void check_fills(void)
{
    enum { FILL_16 = FILL * 0x101, FILL_32 = FILL * 0x1010101 };
    CUdeviceptr b = work.b;
    CUstream s = work.stream;
    FILLS_TWICE(cuMemsetD8_v2, ptds, b, FILL, BYTES);
    FILLS_TWICE(cuMemsetD8Async, ptsz, b, FILL, BYTES, s);
    FILLS_TWICE(cuMemsetD16_v2, ptds, b, FILL_16, BYTES / 2);
    FILLS_TWICE(cuMemsetD16Async, ptsz, b, FILL_16, BYTES / 2, s);
    FILLS_TWICE(cuMemsetD32_v2, ptds, b, FILL_32, BYTES / 4);
    FILLS_TWICE(cuMemsetD32Async, ptsz, b, FILL_32, BYTES / 4, s);
    FILLS_TWICE(cuMemsetD2D8_v2, ptds, b, ROW_BYTES, FILL, ROW_BYTES, ROWS);
    FILLS_TWICE(cuMemsetD2D8Async, ptsz, b, ROW_BYTES, FILL, ROW_BYTES, ROWS, s);
    FILLS_TWICE(cuMemsetD2D16_v2, ptds, b, ROW_BYTES, FILL_16, ROW_BYTES / 2, ROWS);
    FILLS_TWICE(cuMemsetD2D16Async, ptsz, b, ROW_BYTES, FILL_16, ROW_BYTES / 2, ROWS, s);
    FILLS_TWICE(cuMemsetD2D32_v2, ptds, b, ROW_BYTES, FILL_32, ROW_BYTES / 4, ROWS);
    FILLS_TWICE(cuMemsetD2D32Async, ptsz, b, ROW_BYTES, FILL_32, ROW_BYTES / 4, ROWS, s);
}

static void check_prefetches(void)
{
    const CUmemLocation here = {1, 0};
    CUdeviceptr managed = 0;
    EXPECT(driver.cuMemAllocManaged(&managed, 2 * MIB, 1) == 0);
    EXPECT(driver.cuMemPrefetchAsync(managed, MIB, 0, work.stream) == 0);
    EXPECT(driver.cuMemPrefetchAsync_ptsz(managed, MIB, 0, NULL) == 0);
    EXPECT(driver.cuMemPrefetchAsync_v2(managed, MIB, here, 0, work.stream) == 0);
    EXPECT(driver.cuMemPrefetchAsync_v2_ptsz(managed, MIB, here, 0, NULL) == 0);
    EXPECT(driver.cuMemFree_v2(managed) == 0);
}

/* ---- launches ---- */

struct burn {
    unsigned sm_permille, dram_permille;
    uint64_t duration_ns, buffer, buffer_bytes;
};

static struct burn short_burn = {100, 0, 1000, 0, 0};
static void *parameters[] = {&short_burn.sm_permille, &short_burn.dram_permille,
                             &short_burn.duration_ns, &short_burn.buffer, &short_burn.buffer_bytes};

static void load_code(const char *path)
{
    static char text[PTX_MAX];
    FILE *file = fopen(path, "r");
    CUmodule module = NULL, other = NULL;
    CUlibrary library = NULL;
    CUkernel kernel = NULL;
    CUfunction function = NULL;
    EXPECT(file && fread(text, 1, sizeof(text) - 1, file) > 0);
    if (file)
        fclose(file);
    EXPECT(driver.cuModuleLoadData(&module, text) == 0);
    EXPECT(driver.cuModuleGetFunction(&work.burn, module, "gpumux_burn") == 0);
    EXPECT(driver.cuModuleGetFunction(&function, module, "no_such_kernel") != 0);
    EXPECT(driver.cuModuleLoadDataEx(&other, text, 0, NULL, NULL) == 0);
    EXPECT(driver.cuModuleUnload(other) == 0);
    EXPECT(driver.cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0) == 0);
    EXPECT(driver.cuLibraryGetKernel(&kernel, library, "gpumux_burn") == 0);
    EXPECT(driver.cuKernelGetFunction(&function, kernel) == 0);
    EXPECT(driver.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL) == 0);
    EXPECT(driver.cuCtxSynchronize() == 0);
    EXPECT(driver.cuLibraryUnload(library) == 0);
}

static void count_call(void *count)
{
    ++*(int *)count;
}

static void check_launches(void)
{
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 32,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = work.stream};
    CUfunction f = work.burn;
    CUstream s = work.stream;
    int calls = 0;
    EXPECT(driver.cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, s, parameters, NULL) == 0);
    EXPECT(driver.cuLaunchKernel_ptsz(f, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL) == 0);
    EXPECT(driver.cuLaunchKernelEx(&config, f, parameters, NULL) == 0);
    config.hStream = NULL;
    EXPECT(driver.cuLaunchKernelEx_ptsz(&config, f, parameters, NULL) == 0);
    EXPECT(driver.cuLaunchCooperativeKernel(f, 1, 1, 1, 32, 1, 1, 0, s, parameters) == 0);
    EXPECT(driver.cuLaunchCooperativeKernel_ptsz(f, 1, 1, 1, 32, 1, 1, 0, NULL, parameters) == 0);
    EXPECT(driver.cuLaunchHostFunc(s, count_call, &calls) == 0);
    EXPECT(driver.cuStreamSynchronize(s) == 0);
    EXPECT(driver.cuLaunchHostFunc_ptsz(NULL, count_call, &calls) == 0);
    EXPECT(driver.cuStreamSynchronize_ptsz(NULL) == 0);
    EXPECT(driver.cuCtxSynchronize() == 0);
    EXPECT(calls == 2);
}

/* ---- graphs ---- */

static void destroy_graph(CUgraph graph)
{
    CUresult (*destroy)(CUgraph) = (CUresult(*)(CUgraph))find("cuGraphDestroy");
    EXPECT(destroy(graph) == 0);
}

/* A graph of a kernel, after memory that is allocated and freed. */
static CUgraph make_graph(void)
{
    CUresult (*create)(CUgraph *, unsigned) =
        (CUresult(*)(CUgraph *, unsigned))find("cuGraphCreate");
    CUDA_MEM_ALLOC_NODE_PARAMS memory = {.poolProps = {.allocType = 1, .location = {1, 0}},
                                         .bytesize = 2 * MIB};
    CUgraphNodeParams kernel = {.type = NODE_KERNEL,
                                .kernel = {.func = work.burn,
                                           .gridDimX = 1,
                                           .gridDimY = 1,
                                           .gridDimZ = 1,
                                           .blockDimX = 32,
                                           .blockDimY = 1,
                                           .blockDimZ = 1,
                                           .kernelParams = parameters}};
    CUgraphNodeParams empty = {.type = NODE_EMPTY};
    CUgraphNode nodes[4];
    CUgraph graph = NULL;
    EXPECT(create(&graph, 0) == 0);
    EXPECT(driver.cuGraphAddMemAllocNode(&nodes[0], graph, NULL, 0, &memory) == 0);
    EXPECT(driver.cuGraphAddMemFreeNode(&nodes[1], graph, &nodes[0], 1, memory.dptr) == 0);
    EXPECT(driver.cuGraphAddNode(&nodes[2], graph, &nodes[1], 1, &kernel) == 0);
    EXPECT(driver.cuGraphAddNode_v2(&nodes[3], graph, &nodes[2], NULL, 1, &empty) == 0);
    return graph;
}

static void run_graph(CUgraphExec ready)
{
    EXPECT(driver.cuGraphLaunch(ready, work.stream) == 0);
    EXPECT(driver.cuStreamSynchronize(work.stream) == 0);
    EXPECT(driver.cuGraphExecDestroy(ready) == 0);
}

static void check_graphs(void)
{
    struct {
        uint64_t flags;
        CUstream upload;
        CUgraphNode error_node;
        int result;
    } wanted = {0};
    CUDA_GRAPH_INSTANTIATE_PARAMS *params = (CUDA_GRAPH_INSTANTIATE_PARAMS *)&wanted;
    CUgraph graph = make_graph();
    CUgraphExec ready = NULL;
    EXPECT(driver.cuGraphInstantiate(&ready, graph, NULL, NULL, 0) == 0);
    run_graph(ready);
    EXPECT(driver.cuGraphInstantiate_v2(&ready, graph, NULL, NULL, 0) == 0);
    run_graph(ready);
    EXPECT(driver.cuGraphInstantiateWithFlags(&ready, graph, 0) == 0);
    run_graph(ready);
    EXPECT(driver.cuGraphInstantiateWithParams(&ready, graph, params) == 0);
    run_graph(ready);
    EXPECT(driver.cuGraphInstantiateWithParams_ptsz(&ready, graph, params) == 0);
    EXPECT(driver.cuGraphUpload(ready, work.stream) == 0);
    EXPECT(driver.cuGraphUpload_ptsz(ready, NULL) == 0);
    EXPECT(driver.cuGraphLaunch_ptsz(ready, NULL) == 0);
    EXPECT(driver.cuStreamSynchronize_ptsz(NULL) == 0);
    run_graph(ready);
    EXPECT(driver.cuDeviceGraphMemTrim(0) == 0);
    destroy_graph(graph);
}

static void launch_captured(void)
{
    EXPECT(driver.cuLaunchKernel(work.burn, 1, 1, 1, 32, 1, 1, 0, work.stream, parameters, NULL) ==
           0);
}

/* Whichever call began the capture, its end gives a graph that can be launched. */
static void end_capture(CUresult (*end)(CUstream, CUgraph *))
{
    CUgraph graph = NULL;
    CUgraphExec ready = NULL;
    launch_captured();
    EXPECT(end(work.stream, &graph) == 0);
    EXPECT(driver.cuGraphInstantiateWithFlags(&ready, graph, 0) == 0);
    run_graph(ready);
    destroy_graph(graph);
}

static void check_captures(void)
{
    CUresult (*create)(CUgraph *, unsigned) =
        (CUresult(*)(CUgraph *, unsigned))find("cuGraphCreate");
    CUstream s = work.stream;
    CUgraph graph = NULL;
    EXPECT(driver.cuStreamBeginCapture(s) == 0);
    end_capture(driver.cuStreamEndCapture);
    EXPECT(driver.cuStreamBeginCapture_ptsz(s) == 0);
    end_capture(driver.cuStreamEndCapture_ptsz);
    EXPECT(driver.cuStreamBeginCapture_v2(s, 0) == 0);
    end_capture(driver.cuStreamEndCapture);
    EXPECT(driver.cuStreamBeginCapture_v2_ptsz(s, 2) == 0);
    end_capture(driver.cuStreamEndCapture_ptsz);
    EXPECT(create(&graph, 0) == 0);
    EXPECT(driver.cuStreamBeginCaptureToGraph(s, graph, NULL, NULL, 0, 0) == 0);
    end_capture(driver.cuStreamEndCapture);
    EXPECT(create(&graph, 0) == 0);
    EXPECT(driver.cuStreamBeginCaptureToGraph_ptsz(s, graph, NULL, NULL, 0, 0) == 0);
    end_capture(driver.cuStreamEndCapture_ptsz);
}

/* ---- streams, waits, functions ---- */

static void check_streams(void)
{
    CUstream plain = NULL, urgent = NULL;
    EXPECT(driver.cuStreamCreate(&plain, 0) == 0);
    EXPECT(driver.cuStreamCreateWithPriority(&urgent, 1, -1) == 0);
    EXPECT(driver.cuLaunchKernel(work.burn, 1, 1, 1, 32, 1, 1, 0, urgent, parameters, NULL) == 0);
    EXPECT(driver.cuStreamDestroy(plain) == 0 && driver.cuStreamDestroy_v2(urgent) == 0);
    EXPECT(driver.cuCtxSynchronize() == 0);
}

static void check_waits(void)
{
    CUstream s = work.stream;
    CUevent event = NULL;
    EXPECT(driver.cuEventCreate(&event, 0) == 0);
    EXPECT(driver.cuEventRecord(event, s) == 0 && driver.cuEventSynchronize(event) == 0);
    EXPECT(driver.cuEventRecord_ptsz(event, NULL) == 0 && driver.cuEventSynchronize(event) == 0);
    EXPECT(driver.cuEventRecordWithFlags(event, s, 0) == 0);
    EXPECT(driver.cuEventSynchronize(event) == 0 && driver.cuEventQuery(event) == 0);
    EXPECT(driver.cuEventRecordWithFlags_ptsz(event, NULL, 0) == 0);
    EXPECT(driver.cuEventSynchronize(event) == 0);
    EXPECT(driver.cuCtxRecordEvent(work.context, event) == 0);
    EXPECT(driver.cuEventSynchronize(event) == 0 && driver.cuEventDestroy_v2(event) == 0);
    EXPECT(driver.cuStreamSynchronize(s) == 0 && driver.cuStreamSynchronize_ptsz(NULL) == 0);
    EXPECT(driver.cuStreamQuery(s) == 0 && driver.cuStreamQuery_ptsz(NULL) == 0);
    EXPECT(driver.cuCtxSynchronize() == 0 && driver.cuCtxSynchronize_v2(work.context) == 0);
}

static void check_lookups(void)
{
    void *address = NULL, *again = NULL;
    EXPECT(driver.cuGetProcAddress("cuMemAlloc", &address, 12000, 1) == 0 && address);
    EXPECT(driver.cuGetProcAddress_v2("cuMemAlloc", &again, 12000, 1, NULL) == 0);
    EXPECT(address == again);
}

/* Calls that the emulated driver knows only by name: the program gets their error. */
static void check_lacking(void)
{
    static char room[1024];
    void *p = room;
    CUstream s = work.stream;
#define LACKS(function, ...) EXPECT(driver.function(__VA_ARGS__) == CUDA_ERROR_NOT_SUPPORTED)
#define LACKS_TWICE(function, ...)                                                                 \
    do {                                                                                           \
        LACKS(function, __VA_ARGS__);                                                              \
        LACKS(function##_ptsz, __VA_ARGS__);                                                       \
    } while (0)
    LACKS(cuDestroyExternalMemory, p);
    LACKS(cuImportExternalMemory, p, p);
    LACKS(cuGreenCtxStreamCreate, p, p, 1, 0);
    LACKS(cuLaunch, work.burn);
    LACKS(cuLaunchGrid, work.burn, 1, 1);
    LACKS(cuLaunchGridAsync, work.burn, 1, 1, s);
    LACKS(cuLaunchCooperativeKernelMultiDevice, p, 1, 0);
    LACKS(cuLibraryLoadFromFile, p, "none", NULL, NULL, 0, NULL, NULL, 0);
    LACKS(cuModuleLoad, p, "none");
    LACKS(cuModuleLoadFatBinary, p, p);
    LACKS(cuMemPoolImportFromShareableHandle, p, p, 1, 0);
    LACKS(cuMemPoolImportPointer, p, p, p);
    LACKS(cuMulticastCreate, p, p);
    LACKS(cuMulticastBindAddr, 1, 0, 0, MIB, 0);
    LACKS(cuMulticastBindMem, 1, 0, 1, 0, MIB, 0);
    LACKS(cuMulticastUnbind, 1, 0, 0, MIB);
    LACKS_TWICE(cuMemBatchDecompressAsync, p, 1, 0, p, s);
    LACKS_TWICE(cuMemDiscardAndPrefetchBatchAsync, p, p, 1, p, p, 1, 0, s);
    LACKS_TWICE(cuMemPrefetchBatchAsync, p, p, 1, p, p, 1, 0, s);
    work.copies[OTHER] += 8;
    LACKS_TWICE(cuMemcpyBatchAsync, p, p, p, 1, p, p, 1, p, s);
    LACKS_TWICE(cuMemcpyBatchAsync_v2, p, p, p, 1, p, p, 1, s);
    LACKS_TWICE(cuMemcpy3DBatchAsync, 1, p, p, 0, s);
    LACKS_TWICE(cuMemcpy3DBatchAsync_v2, 1, p, 0, s);
}

static void open_device(void)
{
    const CUDA_ARRAY_DESCRIPTOR row = {BYTES / 4, 0, FORMAT_FLOAT, 1};
    EXPECT(driver.cuInit(0) == 0);
    EXPECT(driver.cuDevicePrimaryCtxRetain(&work.context, 0) == 0);
    EXPECT(driver.cuCtxSetCurrent(work.context) == 0);
    EXPECT(driver.cuStreamCreate(&work.stream, 1) == 0);
    EXPECT(driver.cuMemAlloc_v2(&work.a, BYTES) == 0 && driver.cuMemAlloc_v2(&work.b, BYTES) == 0);
    EXPECT(driver.cuArrayCreate_v2(&work.x, &row) == 0);
    EXPECT(driver.cuArrayCreate_v2(&work.y, &row) == 0);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    driver_calls_load(&driver);
    open_device();
    load_code(argv[1]);
    check_rows();
    check_array_rows();
    check_shapes();
    check_fills();
    check_prefetches();
    check_launches();
    check_graphs();
    check_captures();
    check_streams();
    check_waits();
    check_lookups();
    check_lacking();
    printf("copies_to_device=%lu copies_to_host=%lu copies_on_device=%lu copies_other=%lu\n",
           work.copies[TO_DEVICE], work.copies[TO_HOST], work.copies[ON_DEVICE],
           work.copies[OTHER]);
    return argc > 2 && !driver_calls_write(argv[2]) ? 2 : failures != 0;
}
