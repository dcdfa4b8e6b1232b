/*
 * racer ROUNDS:SEED:THREADS, for quota_race_test.c. Takes and gives back device memory of every kind, as much as it
 * gets. After each of these steps it says how many answers so far were neither a grant nor out of memory, and waits
 * for a line: it has a context; it has raced, and keeps what was granted last; it has given back all.
 */
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
    PIECES = 6,   /* held at most by a thread */
    LARGEST = 48, /* MiB */
    OUT_OF_MEMORY = 2,
    CONTEXT_TRIES =
        60000, /* an agent that was killed may be away for long on a machine with other work */
    CONTEXT_WAIT_US = 1000,
    FORMAT_FLOAT = 0x20,
};

enum kind { NONE, PLAIN, PITCHED, ASYNC, HANDLE, ARRAY, KINDS };

struct piece {
    enum kind kind;
    CUdeviceptr address;
    CUarray array;
    CUmemGenericAllocationHandle handle;
};

static struct real_calls driver;

static int take(struct piece *piece, enum kind kind, size_t bytes)
{
    const CUmemAllocationProp on_device = {.type = 1, .location = {1, 0}};
    const CUDA_ARRAY_DESCRIPTOR shape = {1024, 8 + bytes / 32768 * 8, FORMAT_FLOAT, 1};
    size_t pitch;
    *piece = (struct piece){.kind = kind};
    switch (kind) {
    case PLAIN:
        return driver.cuMemAlloc_v2(&piece->address, bytes);
    case PITCHED:
        return driver.cuMemAllocPitch_v2(&piece->address, &pitch, 1000, bytes / 1024, 4);
    case ASYNC:
        return driver.cuMemAllocAsync(&piece->address, bytes, NULL);
    case HANDLE:
        return driver.cuMemCreate(&piece->handle, bytes / (2 * MIB) * (2 * MIB) + 2 * MIB,
                                  &on_device, 0);
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
        return driver.cuMemFree_v2(piece->address);
    case ASYNC:
        return driver.cuMemFreeAsync(piece->address, NULL);
    case HANDLE:
        return driver.cuMemRelease(piece->handle);
    case ARRAY:
        return driver.cuArrayDestroy(piece->array);
    default:
        return 0;
    }
}

/* Returns the number of wrong answers. */
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
        wrong += r != 0 && r != OUT_OF_MEMORY;
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

/* Others may have all there is just now. */
static int open_context(CUcontext *ret_context)
{
    int r = driver.cuInit(0), tries = 0;
    if (r != 0)
        return r;
    while ((r = driver.cuDevicePrimaryCtxRetain(ret_context, 0)) == OUT_OF_MEMORY &&
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
