/*
 * Launches into a green context and beside it, with the driver of green_driver.c, whose reports the
 * tests check.
 *
 *   green_program beside    the green context ends while the primary context has work
 *   green_program behind    the primary context ends with the green context that made it, and its
 *                           memory with it; the quota has room for two contexts and a little
 *   green_program streams   beside the primary context: launches into a stream whose context the
 *                           driver does not tell, and into one of the green context
 *   green_program together  threads that all find no context each make one, or a green one; there
 *                           is one primary context, and it counts once
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tests/shim/expect.h"

enum { MIB = 1 << 20 };

static struct driver {
    int (*cuInit)(unsigned);
    int (*cuDevicePrimaryCtxRetain)(void **, int);
    int (*cuDevicePrimaryCtxRelease_v2)(int);
    int (*cuGreenCtxCreate)(void **, void *, int, unsigned);
    int (*cuGreenCtxDestroy)(void *);
    int (*cuGreenCtxStreamCreate)(void **, void *, unsigned, int);
    int (*cuCtxFromGreenCtx)(void **, void *);
    int (*cuCtxSetCurrent)(void *);
    int (*cuMemAlloc_v2)(uint64_t *, size_t);
    int (*cuLaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          unsigned, void *, void **, void **);
} driver;

static void launch_into(void *stream, void *context)
{
    EXPECT(driver.cuCtxSetCurrent(context) == 0);
    EXPECT(driver.cuLaunchKernel(&driver, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL) == 0);
}

static void launch_in(void *context)
{
    launch_into(NULL, context);
}

static void end_with_streams(void)
{
    void *green = NULL, *stream = NULL, *primary = NULL;
    EXPECT(driver.cuDevicePrimaryCtxRetain(&primary, 0) == 0);
    EXPECT(driver.cuGreenCtxCreate(&green, &driver, 0, 0) == 0);
    EXPECT(driver.cuGreenCtxStreamCreate(&stream, green, 0, 0) == 0);
    launch_into(&driver, primary);
    launch_into(stream, primary);
}

static void end_beside(void)
{
    void *green = NULL, *own = NULL, *primary = NULL;
    EXPECT(driver.cuDevicePrimaryCtxRetain(&primary, 0) == 0);
    EXPECT(driver.cuGreenCtxCreate(&green, &driver, 0, 0) == 0);
    EXPECT(driver.cuCtxFromGreenCtx(&own, green) == 0);
    launch_in(own);
    launch_in(primary);
    EXPECT(driver.cuGreenCtxDestroy(green) == 0);
}

static void end_behind(void)
{
    void *green = NULL, *primary = NULL;
    uint64_t memory = 0;
    for (int i = 0; i < 3; i++) {
        EXPECT(driver.cuGreenCtxCreate(&green, &driver, 0, 0) == 0);
        if (i < 2) {
            EXPECT(driver.cuDevicePrimaryCtxRetain(&primary, 0) == 0);
            launch_in(primary);
            EXPECT(driver.cuMemAlloc_v2(&memory, (size_t)400 * MIB) == 0);
            EXPECT(driver.cuDevicePrimaryCtxRelease_v2(0) == 0);
        }
        EXPECT(driver.cuGreenCtxDestroy(green) == 0);
    }
    EXPECT(driver.cuGreenCtxCreate(&green, &driver, 0, 0) == 0);
}

static void *make_green(void *argument)
{
    void *green = NULL;
    EXPECT(driver.cuGreenCtxCreate(&green, &driver, 0, 0) == 0);
    return argument;
}

static void *retain(void *argument)
{
    void *primary = NULL;
    EXPECT(driver.cuDevicePrimaryCtxRetain(&primary, 0) == 0);
    return argument;
}

static void make_together(void)
{
    void *(*const ways[])(void *) = {retain, make_green, retain, make_green};
    enum { THREADS = sizeof(ways) / sizeof(*ways) };
    pthread_t threads[THREADS];
    void *primary = NULL;
    uint64_t memory = 0;
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, ways[i], NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    EXPECT(driver.cuDevicePrimaryCtxRetain(&primary, 0) == 0);
    EXPECT(driver.cuCtxSetCurrent(primary) == 0);
    EXPECT(driver.cuMemAlloc_v2(&memory, (size_t)400 * MIB) == 0);
}

#define FIND(name) *(void **)&driver.name = dlsym(library, #name)

int main(int argc, char **argv)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    FIND(cuInit);
    FIND(cuDevicePrimaryCtxRetain);
    FIND(cuDevicePrimaryCtxRelease_v2);
    FIND(cuGreenCtxCreate);
    FIND(cuGreenCtxDestroy);
    FIND(cuGreenCtxStreamCreate);
    FIND(cuCtxFromGreenCtx);
    FIND(cuCtxSetCurrent);
    FIND(cuMemAlloc_v2);
    FIND(cuLaunchKernel);
    EXPECT(driver.cuInit(0) == 0);
    if (argc == 2 && strcmp(argv[1], "beside") == 0)
        end_beside();
    else if (argc == 2 && strcmp(argv[1], "streams") == 0)
        end_with_streams();
    else if (argc == 2 && strcmp(argv[1], "together") == 0)
        make_together();
    else
        end_behind();
    fflush(stdout);
    return failures != 0;
}
