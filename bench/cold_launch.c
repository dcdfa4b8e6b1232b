/*
 * cold_launch KIB: cost of a launch in a program that runs through KIB KiB of code and as much data
 * between two launches, as Python does, so that no cache holds what the launch needs. Prints the
 * median in nanoseconds; with still_driver.c this is the shim's own time and that of reading the
 * clock. A median, because some launches do periodic work, and here more time passes between two
 * launches than in Python.
 *
 * cold_launch service: launches once and stays until its input ends.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "abi/cuda.h"
#include "base/library.h"
#include "cold_code.h"

enum {
    LAUNCHES = 4000,
    KERNELS = 20,
    KIB = 1024,
    KIB_MAX = 1 << 20,
};

#define CALLS(CALL) CALL(cuInit) CALL(cuCtxSynchronize) CALL(cuLaunchKernel)

struct driver {
    CALLS(CALL_MEMBER)
};

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

static int measure(const struct driver *driver, size_t kib)
{
    static uint64_t times[LAUNCHES];
    static char functions[KERNELS][COLD_LINE_BYTES];
    struct cold_code cold;
    if (!cold_make(kib * KIB, &cold))
        return 1;
    for (size_t i = 0; i < LAUNCHES; i++) {
        cold_run(&cold);
        void *function = functions[i % KERNELS];
        uint64_t start_ns = now_ns();
        if (driver->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) != 0)
            return 1;
        times[i] = now_ns() - start_ns;
    }
    qsort(times, LAUNCHES, sizeof(times[0]), compare);
    printf("%" PRIu64 "\n", times[LAUNCHES / 2]);
    return 0;
}

static int serve(const struct driver *driver)
{
    char byte;
    static char function[COLD_LINE_BYTES];
    if (driver->cuLaunchKernel((void *)function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) != 0 ||
        driver->cuCtxSynchronize() != 0)
        return 1;
    while (read(0, &byte, 1) > 0)
        ;
    return 0;
}

int main(int argc, char **argv)
{
    struct driver driver;
    if (argc != 2 || library_load(CUDA_SONAME, CALL_NAMES(CALLS), &driver).missing) {
        (void)fprintf(stderr, "usage: cold_launch KIB | service, with a libcuda.so.1\n");
        return 2;
    }
    if (driver.cuInit(0) != 0)
        return 1;
    if (strcmp(argv[1], "service") == 0)
        return serve(&driver);
    unsigned long kib = strtoul(argv[1], NULL, 10);
    if (kib == 0 || kib > KIB_MAX) {
        (void)fprintf(stderr, "cold_launch: 1 to %d KiB\n", KIB_MAX);
        return 2;
    }
    return measure(&driver, kib);
}
