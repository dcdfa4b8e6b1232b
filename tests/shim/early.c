/*
 * A library that uses CUDA before main and after it, in its constructor and its destructor. Run
 * with the shim and GPUMUX_QUOTA_BYTES of 64 MiB plus 600 for a context. An error ends the process
 * with status 1.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

enum { MIB = 1 << 20, OUT_OF_MEMORY = 2 };

static int (*allocate)(uint64_t *, size_t);
static int (*release)(uint64_t);
static uint64_t memory;

static void expect(int is_so, const char *what)
{
    if (is_so)
        return;
    fprintf(stdout, "not so: %s\n", what);
    fflush(stdout);
    _exit(1);
}

__attribute__((constructor)) static void begin(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
    uint64_t more = 0;
    expect(library != NULL, "there is a driver");
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
    int (*retain)(void **, int) = (int (*)(void **, int))dlsym(library, "cuDevicePrimaryCtxRetain");
    int (*set)(void *) = (int (*)(void *))dlsym(library, "cuCtxSetCurrent");
    allocate = (int (*)(uint64_t *, size_t))dlsym(library, "cuMemAlloc_v2");
    release = (int (*)(uint64_t))dlsym(library, "cuMemFree_v2");
    expect(init(0) == 0 && retain(&context, 0) == 0 && set(context) == 0, "a context");
    expect(allocate(&memory, 64 * MIB) == 0, "memory within the quota");
    expect(allocate(&more, 2 * MIB) == OUT_OF_MEMORY, "no memory beyond it");
}

__attribute__((destructor)) static void end(void)
{
    expect(release(memory) == 0, "it is given back");
    expect(allocate(&memory, 64 * MIB) == 0, "and there again");
}
