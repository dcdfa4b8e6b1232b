/*
 * cold_launch KIB: what a launch costs a program that runs through KIB KiB of code and as much data between two of them, as
 * Python does: what the launch needs is in no cache then. Prints the nanoseconds, which on still_driver.c are the shim's
 * own and those of reading the clock.
 *
 * cold_launch service: launches once, and stays until its input ends.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    LAUNCHES = 4000,
    LAUNCHES_SLOW = LAUNCHES / 20, /* that were interrupted, and do not count */
    KERNELS = 20,
    LINE_BYTES = 64,
    KIB = 1024,
    KIB_MAX = 1 << 20,
    JUMP_BYTES = 5,
};

typedef int (*launch_fn)(const void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                         unsigned block_x, unsigned block_y, unsigned block_z,
                         unsigned shared_bytes, void *stream, void **parameters, void **extra);

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Lines of code that jump from one to the next, in an order that nothing foresees. */
static unsigned char *make_code(size_t lines)
{
    size_t bytes = lines * LINE_BYTES, *order = calloc(lines, sizeof(*order));
    unsigned char *code =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!order || code == MAP_FAILED)
        return NULL;
    for (size_t i = 0; i < lines; i++)
        order[i] = i;
    for (size_t i = lines - 1; i > 1; i--) {
        size_t other = 1 + (size_t)rand() % i, kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    for (size_t i = 0; i + 1 < lines; i++) {
        unsigned char *from = code + order[i] * LINE_BYTES;
        int32_t distance = (int32_t)(code + order[i + 1] * LINE_BYTES - (from + JUMP_BYTES));
        from[0] = 0xe9; /* jmp */
        memcpy(from + 1, &distance, sizeof(distance));
    }
    code[order[lines - 1] * LINE_BYTES] = 0xc3; /* ret */
    free(order);
    return mprotect(code, bytes, PROT_READ | PROT_EXEC) == 0 ? code : NULL;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static int measure(launch_fn launch, size_t kib)
{
    static uint64_t times[LAUNCHES];
    static const char functions[KERNELS][LINE_BYTES];
    unsigned char *code = make_code(kib * KIB / LINE_BYTES);
    volatile unsigned char *data = calloc(kib, KIB);
    uint64_t sum = 0;
    if (!code || !data)
        return 1;
    for (size_t i = 0; i < LAUNCHES; i++) {
        for (size_t at = 0; at < kib * KIB; at += LINE_BYTES)
            data[at]++;
        ((void (*)(void))(uintptr_t)code)();
        uint64_t start_ns = now_ns();
        if (launch(functions[i % KERNELS], 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) != 0)
            return 1;
        times[i] = now_ns() - start_ns;
    }
    qsort(times, LAUNCHES, sizeof(times[0]), compare);
    for (size_t i = 0; i < LAUNCHES - LAUNCHES_SLOW; i++)
        sum += times[i];
    printf("%.0f\n", (double)sum / (LAUNCHES - LAUNCHES_SLOW));
    return 0;
}

static int serve(launch_fn launch, int (*synchronize)(void))
{
    char byte;
    if (launch("", 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) != 0 || synchronize() != 0)
        return 1;
    while (read(0, &byte, 1) > 0)
        ;
    return 0;
}

int main(int argc, char **argv)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (argc != 2 || !driver) {
        (void)fprintf(stderr, "usage: cold_launch KIB | service, with a libcuda.so.1\n");
        return 2;
    }
    int (*initialize)(unsigned) = (int (*)(unsigned))(uintptr_t)dlsym(driver, "cuInit");
    int (*synchronize)(void) = (int (*)(void))(uintptr_t)dlsym(driver, "cuCtxSynchronize");
    launch_fn launch = (launch_fn)(uintptr_t)dlsym(driver, "cuLaunchKernel");
    if (!initialize || !synchronize || !launch || initialize(0) != 0)
        return 1;
    if (strcmp(argv[1], "service") == 0)
        return serve(launch, synchronize);
    unsigned long kib = strtoul(argv[1], NULL, 10);
    if (kib == 0 || kib > KIB_MAX) {
        (void)fprintf(stderr, "cold_launch: 1 to %d KiB\n", KIB_MAX);
        return 2;
    }
    return measure(launch, kib);
}
