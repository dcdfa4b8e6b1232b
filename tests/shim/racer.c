/*
 * racer ROUNDS:SEED:THREADS, for quota_race_test.c. Allocates and frees device memory of every
 * kind, as much as it gets. After each of these steps the racer prints the number of results so far
 * that were neither success nor out of memory, and waits for a line: it has a context; it has
 * raced, and keeps the last allocations; it has freed all memory.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/shim/driver_calls.h"

enum {
    MIB = 1 << 20,
    THREADS_MAX = 4,
    PIECES = 6,   /* most pieces of a thread */
    LARGEST = 48, /* MiB */
    WRONG = -1,   /* a result that no call gives */
    /* A killed agent may be away for long on a machine with other work. */
    CONTEXT_TRIES = 60000,
    CONTEXT_WAIT_US = 1000,
    FORMAT_FLOAT = 0x20,
    ATTACH_GLOBAL = 1,
    STREAM_NON_BLOCKING = 1,
    CAPTURE_RELAXED = 2, /* other threads are not restricted meanwhile */
};

/* Without graphs: ThreadSanitizer does not see the shim unmap the memory that the driver wrote a
 * graph's nodes to, and would report a race with the next thread that writes there. */
enum kind {
    NONE,
    PLAIN,
    PITCHED,
    MANAGED,
    ASYNC,
    HANDLE,
    MAPPED,
    ARRAY,
#ifdef __SANITIZE_THREAD__
    KINDS,
    GRAPH = KINDS,
#else
    GRAPH,
    KINDS,
#endif
};

struct piece {
    enum kind kind;
    CUdeviceptr address;
    CUarray array;
    CUmemGenericAllocationHandle handle;
    size_t bytes; /* bytes of addresses */
    CUgraph graph;
    CUgraphExec ready;
    CUstream stream;
};

static struct real_calls driver;
static call_cuMemAddressReserve *reserve_addresses;
static call_cuMemAddressFree *free_addresses;
static call_cuGraphDestroy *destroy_graph;

/* Returns the first result that is not 0, of successive calls. */
static int first_of(int r, int later)
{
    return r ? r : later;
}

/* Managed memory takes the device's memory when it is there, and the quota before. */
static int take_managed(struct piece *piece, size_t bytes)
{
    int r = driver.cuMemAllocManaged(&piece->address, bytes, ATTACH_GLOBAL);
    return r ? r : driver.cuMemPrefetchAsync(piece->address, bytes, 0, NULL) ? WRONG : 0;
}

static int give_back_range(const struct piece *piece)
{
    int r = driver.cuMemUnmap(piece->address, piece->bytes);
    return first_of(r, free_addresses(piece->address, piece->bytes));
}

/* Held by its range alone. */
static int take_range(struct piece *piece, size_t bytes)
{
    const CUmemAllocationProp on_device = {.type = 1, .location = {1, 0}};
    int r = driver.cuMemCreate(&piece->handle, bytes, &on_device, 0);
    if (r != 0)
        return r;
    piece->bytes = bytes;
    r = reserve_addresses(&piece->address, bytes, 0, 0, 0);
    r = r ? r : driver.cuMemMap(piece->address, bytes, 0, piece->handle, 0);
    return first_of(r, driver.cuMemRelease(piece->handle));
}

/* The graphs' pool keeps freed memory until it is trimmed. */
static int end_graph(const struct piece *piece)
{
    int r = piece->ready ? driver.cuGraphExecDestroy(piece->ready) : 0;
    r = first_of(r, destroy_graph(piece->graph));
    r = first_of(r, driver.cuStreamSynchronize(piece->stream));
    r = first_of(r, driver.cuStreamDestroy_v2(piece->stream));
    return first_of(r, driver.cuDeviceGraphMemTrim(0));
}

static int give_back_graph(const struct piece *piece)
{
    int r = driver.cuMemFreeAsync(piece->address, piece->stream);
    return first_of(r, end_graph(piece));
}

/* A graph that allocates and does not free. */
static int take_by_graph(struct piece *piece, size_t bytes)
{
    int r = driver.cuStreamCreate(&piece->stream, STREAM_NON_BLOCKING);
    r = r ? r : driver.cuStreamBeginCapture_v2(piece->stream, CAPTURE_RELAXED);
    r = r ? r : driver.cuMemAllocAsync(&piece->address, bytes, piece->stream);
    r = r ? r : driver.cuStreamEndCapture(piece->stream, &piece->graph);
    if (r != 0)
        return WRONG;
    r = driver.cuGraphInstantiateWithFlags(&piece->ready, piece->graph, 0);
    r = r ? r : driver.cuGraphLaunch(piece->ready, piece->stream);
    return r && end_graph(piece) != 0 ? WRONG : r;
}

static int take(struct piece *piece, enum kind kind, size_t bytes)
{
    const CUmemAllocationProp on_device = {.type = 1, .location = {1, 0}};
    const size_t granules = bytes / (2 * MIB) * (2 * MIB) + 2 * MIB;
    const CUDA_ARRAY_DESCRIPTOR shape = {1024, 8 + bytes / 32768 * 8, FORMAT_FLOAT, 1};
    size_t pitch;
    *piece = (struct piece){.kind = kind};
    switch (kind) {
    case PLAIN:
        return driver.cuMemAlloc_v2(&piece->address, bytes);
    case PITCHED:
        return driver.cuMemAllocPitch_v2(&piece->address, &pitch, 1000, bytes / 1024, 4);
    case MANAGED:
        return take_managed(piece, bytes);
    case ASYNC:
        return driver.cuMemAllocAsync(&piece->address, bytes, NULL);
    case HANDLE:
        return driver.cuMemCreate(&piece->handle, granules, &on_device, 0);
    case MAPPED:
        return take_range(piece, granules);
    case GRAPH:
        return take_by_graph(piece, bytes);
    case ARRAY:
        return driver.cuArrayCreate_v2(&piece->array, &shape);
    default:
        return 0;
    }
}

static int give_back(struct piece *piece)
{
    enum kind kind = piece->kind;
    piece->kind = NONE;
    switch (kind) {
    case PLAIN:
    case PITCHED:
    case MANAGED:
        return driver.cuMemFree_v2(piece->address);
    case ASYNC:
        return driver.cuMemFreeAsync(piece->address, NULL);
    case HANDLE:
        return driver.cuMemRelease(piece->handle);
    case MAPPED:
        return give_back_range(piece);
    case GRAPH:
        return give_back_graph(piece);
    case ARRAY:
        return driver.cuArrayDestroy(piece->array);
    default:
        return 0;
    }
}

/* Returns the number of wrong results. */
static int race(struct piece pieces[PIECES], long rounds, unsigned seed)
{
    int wrong = 0;
    for (long i = 0; i < rounds; i++) {
        struct piece *piece = &pieces[(unsigned)rand_r(&seed) % PIECES];
        size_t bytes = 4096 + (size_t)rand_r(&seed) % (LARGEST * MIB);
        if (rand_r(&seed) % 4 == 0)
            bytes = 4096 + bytes % MIB;
        wrong += give_back(piece) != 0;
        int r = take(piece, (enum kind)(1 + (unsigned)rand_r(&seed) % (KINDS - 1)), bytes);
        if (r != 0)
            piece->kind = NONE;
        wrong += r != 0 && r != CUDA_ERROR_OUT_OF_MEMORY;
    }
    return wrong;
}

static void say(int wrong)
{
    int c;
    printf("%d\n", wrong);
    fflush(stdout);
    do
        c = getchar();
    while (c != '\n' && c != EOF);
}

struct thread {
    pthread_t thread;
    struct piece pieces[PIECES];
    CUcontext context;
    long rounds;
    unsigned seed;
    int wrong;
};

static void *run(void *argument)
{
    struct thread *t = argument;
    t->wrong = driver.cuCtxSetCurrent(t->context) != 0;
    t->wrong += race(t->pieces, t->rounds, t->seed);
    return NULL;
}

static int race_threads(struct thread threads[THREADS_MAX], int count)
{
    int wrong = 0;
    for (int i = 0; i < count; i++)
        wrong += pthread_create(&threads[i].thread, NULL, run, &threads[i]) != 0;
    for (int i = 0; i < count; i++)
        wrong += pthread_join(threads[i].thread, NULL) != 0 || threads[i].wrong;
    return wrong + (driver.cuCtxSynchronize() != 0);
}

/* Retries: other racers may have all memory at the moment. */
static int open_context(CUcontext *ret_context)
{
    int r = driver.cuInit(0), tries = 0;
    if (r != 0)
        return r;
    while ((r = driver.cuDevicePrimaryCtxRetain(ret_context, 0)) == CUDA_ERROR_OUT_OF_MEMORY &&
           tries++ < CONTEXT_TRIES)
        usleep(CONTEXT_WAIT_US);
    if (r != 0)
        fprintf(stderr, "no context after %d tries: error %d\n", tries, r);
    return r ? r : driver.cuCtxSetCurrent(*ret_context);
}

int main(int argc, char **argv)
{
    struct thread threads[THREADS_MAX] = {0};
    CUcontext context = NULL;
    long rounds, count;
    unsigned seed;
    if (argc != 2 || sscanf(argv[1], "%ld:%u:%ld", &rounds, &seed, &count) != 3 || count < 1 ||
        count > THREADS_MAX)
        return 2;
    driver_calls_load(&driver);
    void *library = dlopen(CUDA_SONAME, RTLD_NOW);
    reserve_addresses = dlsym(library, "cuMemAddressReserve");
    free_addresses = dlsym(library, "cuMemAddressFree");
    destroy_graph = dlsym(library, "cuGraphDestroy");
    int wrong = open_context(&context) != 0;
    say(wrong);
    for (int i = 0; i < count; i++)
        threads[i] = (struct thread){
            .context = context, .rounds = rounds / count, .seed = seed + 7919 * (unsigned)i};
    wrong += race_threads(threads, (int)count);
    say(wrong);
    for (int i = 0; i < count * PIECES; i++)
        wrong += give_back(&threads[i / PIECES].pieces[i % PIECES]) != 0;
    wrong += driver.cuCtxSynchronize() != 0;
    say(wrong);
    return 0;
}
