/*
 * Workloads for give_way.sh, with contents in all their device memory.
 *
 *   memory_program task DIR MIB           allocates MIB in pieces, fills the pieces, and checks
 *                                         them in turn for ever; DIR/steps: number of checks
 *   memory_program service DIR MIB MORE   allocates MIB; each time DIR/grow appears, allocates MORE
 *                                         and writes the time in ms to DIR/grown; when DIR/shrink
 *                                         appears, frees MORE and makes DIR/shrunk
 *
 * Both make DIR/ready when they have their memory. Exit status 5: contents have changed; 6: an
 * allocation failed.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "abi/cuda.h"
#include "base/library.h"

#define CALLS(CALL)                                                                                \
    CALL(cuInit)                                                                                   \
    CALL(cuDeviceGet)                                                                              \
    CALL(cuDevicePrimaryCtxRetain)                                                                 \
    CALL(cuCtxSetCurrent)                                                                          \
    CALL(cuMemAlloc_v2)                                                                            \
    CALL(cuMemFree_v2)                                                                             \
    CALL(cuMemcpyHtoD_v2)                                                                          \
    CALL(cuMemcpyDtoH_v2)

enum { MIB = 1 << 20, PIECE_BYTES = 16 * MIB, PIECES_MAX = 4096, LOOK_US = 5000, STEP_US = 1000 };
enum { CHANGED = 5, NO_MEMORY = 6 };

static struct {
    CALLS(CALL_MEMBER)
} driver;

static const char *directory;
static CUdeviceptr pieces[PIECES_MAX];

static void path_of(const char *name, char path[512])
{
    snprintf(path, 512, "%s/%s", directory, name);
}

/* Writes a number to a file, all at once for its readers. */
static void tell(const char *name, unsigned long number)
{
    char path[512], scratch[512];
    path_of(name, path);
    path_of("scratch", scratch);
    FILE *file = fopen(scratch, "w");
    if (!file || fprintf(file, "%lu\n", number) < 0 || fclose(file) != 0 ||
        rename(scratch, path) != 0)
        exit(1);
}

/* Returns whether the file was there, and removes the file. */
static int take(const char *name)
{
    char path[512];
    path_of(name, path);
    return unlink(path) == 0;
}

static void fill(uint32_t *text, unsigned piece)
{
    for (uint32_t i = 0; i < PIECE_BYTES / sizeof(*text); i++)
        text[i] = i * 2654435761U + piece;
}

static void run_task(size_t bytes)
{
    uint32_t *text = malloc(PIECE_BYTES), *found = malloc(PIECE_BYTES);
    unsigned count = (unsigned)(bytes / PIECE_BYTES);
    if (!text || !found || count == 0 || count > PIECES_MAX)
        exit(1);
    for (unsigned i = 0; i < count; i++) {
        fill(text, i);
        if (driver.cuMemAlloc_v2(&pieces[i], PIECE_BYTES) != 0 ||
            driver.cuMemcpyHtoD_v2(pieces[i], text, PIECE_BYTES) != 0)
            exit(NO_MEMORY);
    }
    tell("ready", count);
    for (unsigned long step = 0;; step++) {
        unsigned piece = (unsigned)(step % count);
        fill(text, piece);
        if (driver.cuMemcpyDtoH_v2(found, pieces[piece], PIECE_BYTES) != 0 ||
            memcmp(text, found, PIECE_BYTES) != 0)
            exit(CHANGED);
        tell("steps", step);
        usleep(STEP_US);
    }
}

static unsigned long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long)now.tv_sec * 1000 + (unsigned long)now.tv_nsec / 1000000;
}

static void run_service(size_t bytes, size_t more)
{
    CUdeviceptr own, grown = 0;
    if (driver.cuMemAlloc_v2(&own, bytes) != 0)
        exit(NO_MEMORY);
    tell("ready", 1);
    for (;; usleep(LOOK_US)) {
        if (take("grow")) {
            unsigned long begun_ms = now_ms();
            if (driver.cuMemAlloc_v2(&grown, more) != 0)
                tell("failed", now_ms() - begun_ms);
            else
                tell("grown", now_ms() - begun_ms);
        }
        if (take("shrink") && grown) {
            if (driver.cuMemFree_v2(grown) != 0)
                exit(1);
            grown = 0;
            tell("shrunk", 1);
        }
    }
}

int main(int argc, char **argv)
{
    CUdevice device;
    CUcontext context;
    if (argc < 4 || library_load(CUDA_SONAME, CALL_NAMES(CALLS), &driver).missing ||
        driver.cuInit(0) != 0 || driver.cuDeviceGet(&device, 0) != 0 ||
        driver.cuDevicePrimaryCtxRetain(&context, device) != 0 ||
        driver.cuCtxSetCurrent(context) != 0)
        return 1;
    directory = argv[2];
    size_t bytes = strtoul(argv[3], NULL, 10) * MIB;
    if (strcmp(argv[1], "task") == 0)
        run_task(bytes);
    else if (argc == 5)
        run_service(bytes, strtoul(argv[4], NULL, 10) * MIB);
    return 2;
}
