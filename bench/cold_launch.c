/*
 * cold_launch KIB: cost of a launch in a program that runs through KIB KiB of code and as much data
 * between two launches, as Python does, so that no cache holds what the launch needs. Prints the
 * median in nanoseconds; with still_driver.c this is the shim's own time and that of reading the
 * clock. A median, because some launches do periodic work, and here more time passes between two
 * launches than in Python.
 *
 * cold_launch service: launches once and stays until its input ends.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cold_code.h"

enum {
    LAUNCHES = 4000,
    KERNELS = 20,
    KIB = 1024,
    KIB_MAX = 1 << 20,
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

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static int measure(launch_fn launch, size_t kib)
{
    static uint64_t times[LAUNCHES];
    static const char functions[KERNELS][COLD_LINE_BYTES];
    struct cold_code cold;
    if (!cold_make(kib * KIB, &cold))
        return 1;
    for (size_t i = 0; i < LAUNCHES; i++) {
        cold_run(&cold);
        uint64_t start_ns = now_ns();
        if (launch(functions[i % KERNELS], 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) != 0)
            return 1;
        times[i] = now_ns() - start_ns;
    }
    qsort(times, LAUNCHES, sizeof(times[0]), compare);
    printf("%" PRIu64 "\n", times[LAUNCHES / 2]);
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
