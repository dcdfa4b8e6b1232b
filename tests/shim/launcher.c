/*
 * A program that launches on command, a word on each line, and answers with a number on each line:
 * for launch_test.c. Its kernels take the commanded time, on emulated devices and real ones:
 * argv[1] is burn.ptx. Commands that launch answer with the time that the host spent, in
 * microseconds; others with the driver's result.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "abi/cuda.h"
#include "base/library.h"

#define CALLS(CALL)                                                                                \
    CALL(cuInit)                                                                                   \
    CALL(cuDevicePrimaryCtxRetain)                                                                 \
    CALL(cuDevicePrimaryCtxRelease_v2)                                                             \
    CALL(cuDevicePrimaryCtxReset_v2)                                                               \
    CALL(cuCtxCreate_v2)                                                                           \
    CALL(cuCtxDestroy_v2)                                                                          \
    CALL(cuCtxSetCurrent)                                                                          \
    CALL(cuCtxSynchronize)                                                                         \
    CALL(cuModuleLoadData)                                                                         \
    CALL(cuModuleUnload)                                                                           \
    CALL(cuModuleGetFunction)                                                                      \
    CALL(cuStreamCreate)                                                                           \
    CALL(cuStreamDestroy_v2)                                                                       \
    CALL(cuStreamBeginCapture_v2)                                                                  \
    CALL(cuStreamEndCapture)                                                                       \
    CALL(cuStreamWaitEvent)                                                                        \
    CALL(cuEventCreate)                                                                            \
    CALL(cuEventRecord)                                                                            \
    CALL(cuEventQuery)                                                                             \
    CALL(cuStreamQuery)                                                                            \
    CALL(cuStreamSynchronize_ptsz)                                                                 \
    CALL(cuGraphGetNodes)                                                                          \
    CALL(cuGraphInstantiateWithFlags)                                                              \
    CALL(cuGraphLaunch)                                                                            \
    CALL(cuGraphDestroy)                                                                           \
    CALL(cuGraphExecDestroy)                                                                       \
    CALL(cuMemAlloc_v2)                                                                            \
    CALL(cuMemcpyHtoD_v2)                                                                          \
    CALL(cuMemsetD16_v2)                                                                           \
    CALL(cuMemsetD2D32Async)                                                                       \
    CALL(cuMemcpyHtoD_v2_ptds)                                                                     \
    CALL(cuMemcpyDtoH_v2)                                                                          \
    CALL(cuLaunchKernel)                                                                           \
    CALL(cuLaunchKernel_ptsz)

/* Calls for copies in batches, which older drivers lack. */
#define BATCH_CALLS(CALL)                                                                          \
    CALL(cuArrayCreate_v2)                                                                         \
    CALL(cuArrayDestroy)                                                                           \
    CALL(cuMemcpyBatchAsync)                                                                       \
    CALL(cuMemcpy3DBatchAsync)                                                                     \
    CALL(cuMemcpy3DBatchAsync_v2)

enum { STREAMS = 16, THREADS = 4, COPY_BYTES = 4 << 20 };

struct launcher {
    struct {
        CALLS(CALL_MEMBER)
    };
    struct {
        BATCH_CALLS(CALL_MEMBER)
    } batch;
    CUcontext context;
    CUmodule module;
    CUfunction function;
    CUgraph graph;
    CUgraphExec graph_exec;
    CUevent event;             /* NULL: none yet */
    CUcontext own;             /* current context beside the device's; NULL: none */
    CUstream streams[STREAMS]; /* 0: the default stream */
    unsigned stream;
    /* Blocks of a kernel, which determine the cost of kernels other than gpumux_burn. */
    unsigned grid;
    CUdeviceptr memory;
    char *host, *ptx;
};

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int find_calls(struct launcher *l)
{
    (void)library_load(CUDA_SONAME, CALL_NAMES(BATCH_CALLS), &l->batch);
    return library_load(CUDA_SONAME, CALL_NAMES(CALLS), l).missing ? -1 : 0;
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 1 << 16);
    if (!file || !text || fread(text, 1, (1 << 16) - 1, file) == 0)
        return NULL;
    fclose(file);
    return text;
}

static int load_module(struct launcher *l)
{
    int r = l->cuModuleLoadData(&l->module, l->ptx);
    return r ? r : l->cuModuleGetFunction(&l->function, l->module, "gpumux_burn");
}

static int open_device(struct launcher *l, const char *ptx_path)
{
    if (!l->ptx)
        l->ptx = read_file(ptx_path);
    int r = l->ptx ? l->cuInit(0) : -1;
    r = r ? r : l->cuDevicePrimaryCtxRetain(&l->context, 0);
    r = r ? r : l->cuCtxSetCurrent(l->context);
    r = r ? r : load_module(l);
    r = r ? r : l->cuMemAlloc_v2(&l->memory, COPY_BYTES);
    l->host = calloc(1, COPY_BYTES);
    return r;
}

static int burn(const struct launcher *l, void *stream, unsigned us)
{
    uint32_t sm_permille = 1000, dram_permille = 0;
    uint64_t duration_ns = (uint64_t)us * 1000, buffer = 0, bytes = 0;
    void *parameters[] = {&sm_permille, &dram_permille, &duration_ns, &buffer, &bytes};
    return l->cuLaunchKernel(l->function, l->grid, 1, 1, 32, 1, 1, 0, stream, parameters, NULL);
}

/* Returns the microseconds that the launches took, or -1. */
static int launch_many(const struct launcher *l, unsigned us, unsigned count)
{
    double start_us = now_us();
    for (unsigned i = 0; i < count; i++) {
        if (burn(l, l->streams[l->stream], us) != 0)
            return -1;
    }
    return (int)(now_us() - start_us);
}

struct thread_work {
    const struct launcher *launcher;
    unsigned us, count;
    int failures;
};

static void *launch_in_thread(void *argument)
{
    struct thread_work *work = argument;
    work->failures = work->launcher->cuCtxSetCurrent(work->launcher->context);
    for (unsigned i = 0; i < work->count; i++)
        work->failures +=
            burn(work->launcher, work->launcher->streams[work->launcher->stream], work->us) != 0;
    return NULL;
}

static int launch_in_threads(const struct launcher *l, unsigned us, unsigned count)
{
    pthread_t threads[THREADS];
    struct thread_work works[THREADS];
    double start_us = now_us();
    int failures = 0;
    for (int i = 0; i < THREADS; i++) {
        works[i] = (struct thread_work){.launcher = l, .us = us, .count = count};
        if (pthread_create(&threads[i], NULL, launch_in_thread, &works[i]) != 0)
            return -1;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        failures += works[i].failures;
    }
    return failures ? -1 : (int)(now_us() - start_us);
}

struct thread_upload {
    const struct launcher *launcher;
    unsigned bytes;
    int result;
};

static void *upload_in_thread(void *argument)
{
    struct thread_upload *upload = argument;
    const struct launcher *l = upload->launcher;
    upload->result = l->cuCtxSetCurrent(l->context);
    upload->result = upload->result ? upload->result
                                    : l->cuMemcpyHtoD_v2_ptds(l->memory, l->host, upload->bytes);
    return NULL;
}

/* Uploads in a thread that then ends, in its own default stream, which no other thread can name. */
static int upload_by_a_loader(const struct launcher *l, unsigned bytes)
{
    struct thread_upload upload = {.launcher = l, .bytes = bytes, .result = -1};
    pthread_t thread;
    if (pthread_create(&thread, NULL, upload_in_thread, &upload) != 0)
        return -1;
    pthread_join(thread, NULL);
    return upload.result;
}

/* A thread that launches into its own default stream, waits for it, and stays. */
struct resting {
    const struct launcher *launcher;
    unsigned us, count;
    int result;
    pthread_barrier_t is_done;
};

static void *launch_and_rest(void *argument)
{
    struct resting *resting = argument;
    struct launcher own = *resting->launcher;
    own.cuLaunchKernel = own.cuLaunchKernel_ptsz;
    int r = own.cuCtxSetCurrent(own.context);
    for (unsigned i = 0; r == 0 && i < resting->count; i++)
        r = burn(&own, NULL, resting->us);
    resting->result = r ? r : own.cuStreamSynchronize_ptsz(NULL);
    pthread_barrier_wait(&resting->is_done);
    for (;;)
        pause();
    return NULL;
}

static int rest_after(const struct launcher *l, unsigned us, unsigned count)
{
    static struct resting resting; /* lives until the process ends */
    resting = (struct resting){.launcher = l, .us = us, .count = count};
    pthread_t thread;
    if (pthread_barrier_init(&resting.is_done, NULL, 2) != 0 ||
        pthread_create(&thread, NULL, launch_and_rest, &resting) != 0 ||
        pthread_detach(thread) != 0)
        return -1;
    pthread_barrier_wait(&resting.is_done);
    return resting.result;
}

/* Several copies on the device by one call, which older drivers lack. */
static int copy_batch(const struct launcher *l, unsigned bytes, unsigned count)
{
    enum { BATCH_MAX = 8 };
    CUdeviceptr to[BATCH_MAX], from[BATCH_MAX];
    size_t sizes[BATCH_MAX], failed = 0;
    if (!l->batch.cuMemcpyBatchAsync || count > BATCH_MAX)
        return -1;
    for (unsigned i = 0; i < count; i++) {
        to[i] = from[i] = l->memory;
        sizes[i] = bytes;
    }
    return l->batch.cuMemcpyBatchAsync(to, from, sizes, count, NULL, NULL, 0, &failed,
                                       l->streams[l->stream]);
}

/* Like copy_batch(), with copies of `rows` rows, by either version of the call: one between
 * pointers, of `width` bytes per row, and one from an array, of as many elements of 16 bytes. */
static int copy_batch_3d(const struct launcher *l, unsigned width, unsigned rows)
{
    const CUDA_ARRAY_DESCRIPTOR shape = {
        .Width = width, .Height = rows, .Format = 0x20, .NumChannels = 4}; /* of floats */
    const CUmemcpy3DOperand memory = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER,
                                      .op.ptr.ptr = l->memory};
    const CUextent3D extent = {width, rows, 1};
    size_t failed = 0;
    CUarray array;
    if (!l->batch.cuMemcpy3DBatchAsync || !l->batch.cuMemcpy3DBatchAsync_v2 ||
        l->batch.cuArrayCreate_v2(&array, &shape))
        return -1;
    CUDA_MEMCPY3D_BATCH_OP copies[] = {
        {.src = memory, .dst = memory, .extent = extent},
        {.src = {.type = CU_MEMCPY_OPERAND_TYPE_ARRAY, .op.array.array = array},
         .dst = memory,
         .extent = extent},
    };
    (void)l->batch.cuMemcpy3DBatchAsync(2, copies, &failed, 0, l->streams[l->stream]);
    (void)l->batch.cuMemcpy3DBatchAsync_v2(2, copies, 0, l->streams[l->stream]);
    return l->batch.cuArrayDestroy(array);
}

static void drop_graph(struct launcher *l)
{
    if (l->graph_exec)
        (void)l->cuGraphExecDestroy(l->graph_exec);
    if (l->graph)
        (void)l->cuGraphDestroy(l->graph);
    l->graph = NULL;
    l->graph_exec = NULL;
}

static int begin_capture(struct launcher *l)
{
    drop_graph(l);
    return l->cuStreamBeginCapture_v2(l->streams[l->stream], 0);
}

/* Returns the number of the graph's nodes. */
static int end_capture(struct launcher *l)
{
    size_t nodes = 0;
    int r = l->cuStreamEndCapture(l->streams[l->stream], &l->graph);
    r = r ? r : l->cuGraphGetNodes(l->graph, NULL, &nodes);
    r = r ? r : l->cuGraphInstantiateWithFlags(&l->graph_exec, l->graph, 0);
    return r ? -r : (int)nodes;
}

/* Captures a graph of `count` kernels. */
static int capture(struct launcher *l, unsigned us, unsigned count)
{
    int r = begin_capture(l);
    for (unsigned i = 0; r == 0 && i < count; i++)
        r = burn(l, l->streams[l->stream], us);
    return r ? -r : end_capture(l);
}

/* Makes later work of the stream wait for the present work of the other. */
static int join(const struct launcher *l, void *stream, void *other)
{
    CUevent event;
    int r = l->cuEventCreate(&event, 0);
    r = r ? r : l->cuEventRecord(event, other);
    return r ? r : l->cuStreamWaitEvent(stream, event, 0);
}

/* Like capture(), with all kernels but the first in stream 1, which joins the capture. */
static int capture_joined(struct launcher *l, unsigned us, unsigned count)
{
    void *stream = l->streams[l->stream], *other = l->streams[1];
    size_t nodes = 0;
    drop_graph(l);
    int r = l->cuStreamBeginCapture_v2(stream, 0);
    r = r ? r : burn(l, stream, us);
    r = r ? r : join(l, other, stream);
    for (unsigned i = 1; r == 0 && i < count; i++)
        r = burn(l, other, us);
    r = r ? r : join(l, stream, other);
    int end = l->cuStreamEndCapture(stream, &l->graph);
    r = r ? r : end;
    r = r ? r : l->cuGraphGetNodes(l->graph, NULL, &nodes);
    return r ? -r : (int)nodes;
}

static int launch_graph(const struct launcher *l, unsigned count)
{
    double start_us = now_us();
    for (unsigned i = 0; i < count; i++) {
        if (l->cuGraphLaunch(l->graph_exec, l->streams[l->stream]) != 0)
            return -1;
    }
    return (int)(now_us() - start_us);
}

/* Runs a child, which is a process of its own to the shim. Returns 0 after a launch of the child
 * was delayed for at_least_us. */
static int run_child(struct launcher *l, const char *ptx_path, unsigned at_least_us)
{
    enum { TRIES = 3000, PAUSE_US = 10000 };
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        int r = open_device(l, ptx_path);
        for (int i = 0; r == 0 && i < TRIES; i++) {
            if (launch_many(l, 100, 1) >= (int)at_least_us)
                _exit(0);
            usleep(PAUSE_US);
        }
        _exit(1);
    }
    return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

/* Like run_child(), for a child that launches and waits for the launch. Returns the driver's
 * result. */
static int run_child_through(struct launcher *l, const char *ptx_path, unsigned us)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        int r = open_device(l, ptx_path);
        r = r ? r : launch_many(l, us, 2) < 0;
        _exit(r ? r : l->cuCtxSynchronize());
    }
    return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

static int choose_stream(struct launcher *l, unsigned number)
{
    if (number >= STREAMS)
        return -1;
    l->stream = number;
    return number == 0 || l->streams[number] ? 0 : l->cuStreamCreate(&l->streams[number], 1);
}

static int record_event(struct launcher *l)
{
    int r = l->event ? 0 : l->cuEventCreate(&l->event, 0);
    return r ? r : l->cuEventRecord(l->event, l->streams[l->stream]);
}

/* Loads and unloads a module that nothing is launched from. */
static int load_and_unload(const struct launcher *l)
{
    CUmodule module;
    int r = l->cuModuleLoadData(&module, l->ptx);
    return r ? r : l->cuModuleUnload(module);
}

/* ---- contexts ---- */

static void drop_streams(struct launcher *l)
{
    memset(l->streams, 0, sizeof(l->streams));
    l->stream = 0;
}

/* Makes another context on the device current. */
static int enter_context(struct launcher *l)
{
    int r = l->cuCtxCreate_v2(&l->own, 0, 0);
    drop_streams(l);
    return r ? r : load_module(l);
}

/* Ends that context, with its streams and outstanding work, and makes the device's own current. */
static int leave_context(struct launcher *l)
{
    int r = l->cuCtxDestroy_v2(l->own);
    drop_streams(l);
    r = r ? r : l->cuCtxSetCurrent(l->context);
    return r ? r : load_module(l);
}

static int reset_device(struct launcher *l, const char *ptx_path)
{
    int r = l->cuDevicePrimaryCtxReset_v2(0);
    drop_streams(l);
    free(l->host);
    return r ? r : open_device(l, ptx_path);
}

/* Retains the context once more and releases it: it lives on. */
static int share_device(const struct launcher *l)
{
    CUcontext context;
    int r = l->cuDevicePrimaryCtxRetain(&context, 0);
    return r ? r : l->cuDevicePrimaryCtxRelease_v2(0);
}

/* Launches into every stream that devices other than the first can have, and waits. Returns the
 * number of launches. */
static int fill_devices(struct launcher *l)
{
    int launches = 0;
    CUfunction function = l->function;
    CUcontext context;
    CUmodule module;
    CUstream stream;
    for (int device = 1; l->cuDevicePrimaryCtxRetain(&context, device) == 0; device++) {
        if (l->cuCtxSetCurrent(context) || l->cuModuleLoadData(&module, l->ptx) ||
            l->cuModuleGetFunction(&l->function, module, "gpumux_burn") || burn(l, NULL, 1))
            return -1;
        for (launches++; l->cuStreamCreate(&stream, 1) == 0; launches++) {
            if (burn(l, stream, 1))
                return -1;
        }
        if (l->cuCtxSynchronize())
            return -1;
    }
    l->function = function;
    return l->cuCtxSetCurrent(l->context) ? -1 : launches;
}

/* Commands about contexts. */
static int obey_of_contexts(struct launcher *l, const char *word, const char *ptx_path)
{
    if (strcmp(word, "enter") == 0)
        return enter_context(l);
    if (strcmp(word, "leave") == 0)
        return leave_context(l);
    if (strcmp(word, "reset") == 0)
        return reset_device(l, ptx_path);
    if (strcmp(word, "share") == 0)
        return share_device(l);
    return -1000;
}

static int obey(struct launcher *l, const char *word, unsigned a, unsigned b, const char *ptx_path)
{
    if (strcmp(word, "open") == 0)
        return open_device(l, ptx_path);
    if (strcmp(word, "kernels") == 0)
        return launch_many(l, a, b);
    if (strcmp(word, "threads") == 0)
        return launch_in_threads(l, a, b);
    if (strcmp(word, "rest") == 0)
        return rest_after(l, a, b);
    if (strcmp(word, "capture") == 0)
        return capture(l, a, b);
    if (strcmp(word, "capture-joined") == 0)
        return capture_joined(l, a, b);
    if (strcmp(word, "begin") == 0)
        return begin_capture(l);
    if (strcmp(word, "end-capture") == 0)
        return end_capture(l);
    if (strcmp(word, "graphs") == 0)
        return launch_graph(l, a);
    if (strcmp(word, "grid") == 0)
        return l->grid = a, 0;
    if (strcmp(word, "stream") == 0)
        return choose_stream(l, a);
    if (strcmp(word, "unload") == 0)
        return load_and_unload(l);
    if (strcmp(word, "fill") == 0)
        return fill_devices(l);
    if (strcmp(word, "destroy") == 0)
        return l->cuStreamDestroy_v2(l->streams[a]) || (l->streams[a] = NULL, 0);
    if (strcmp(word, "synchronize") == 0)
        return l->cuCtxSynchronize();
    if (strcmp(word, "record") == 0)
        return record_event(l);
    if (strcmp(word, "query-event") == 0)
        return l->cuEventQuery(l->event);
    if (strcmp(word, "query-stream") == 0)
        return l->cuStreamQuery(l->streams[l->stream]);
    if (strcmp(word, "upload") == 0)
        return l->cuMemcpyHtoD_v2(l->memory, l->host, a);
    if (strcmp(word, "fill-memory") == 0)
        return l->cuMemsetD16_v2(l->memory, 7, a / 2);
    if (strcmp(word, "fill-rows") == 0)
        return l->cuMemsetD2D32Async(l->memory, a, 7, a / 4, b, l->streams[l->stream]);
    if (strcmp(word, "batch") == 0)
        return copy_batch(l, a, b);
    if (strcmp(word, "batch-3d") == 0)
        return copy_batch_3d(l, a, b);
    if (strcmp(word, "load") == 0)
        return upload_by_a_loader(l, a);
    if (strcmp(word, "download") == 0)
        return l->cuMemcpyDtoH_v2(l->host, l->memory, a);
    if (strcmp(word, "fork") == 0)
        return run_child(l, ptx_path, a);
    if (strcmp(word, "fork-through") == 0)
        return run_child_through(l, ptx_path, a);
    return obey_of_contexts(l, word, ptx_path);
}

/* "kernel NAME": chooses the kernel that `kernels` launches. */
static int choose_kernel(struct launcher *l, const char *name)
{
    return l->cuModuleGetFunction(&l->function, l->module, name);
}

int main(int argc, char **argv)
{
    static struct launcher launcher = {.grid = 1};
    char line[128], word[64] = "", name[64] = "";
    unsigned a = 0, b = 0;
    if (argc != 2 || find_calls(&launcher) != 0) {
        fprintf(stderr, "usage: launcher BURN_PTX, with libcuda.so.1\n");
        return 2;
    }
    while (fgets(line, sizeof(line), stdin) && strcmp(line, "end\n") != 0) {
        a = b = 0;
        if (sscanf(line, "%63s %63s", word, name) == 2 && strcmp(word, "kernel") == 0)
            printf("%d\n", choose_kernel(&launcher, name));
        else if (sscanf(line, "%63s %u %u", word, &a, &b) >= 1)
            printf("%d\n", obey(&launcher, word, a, b, argv[1]));
        fflush(stdout);
    }
    drop_graph(&launcher);
    return 0;
}
