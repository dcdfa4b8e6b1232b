/*
 * A CUDA program without a framework and without CUDA's headers: `plain driver` uses the driver's
 * interface, `plain runtime LIBRARY` a CUDA runtime of any version, loaded from that file. Prints a
 * result as specified in programs/probe.py; with `--without-kernels`, where kernels compute
 * nothing, the program launches none.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VALUES = 256, OUT_OF_MEMORY = 2, TO_DEVICE = 1, TO_HOST = 2 };

static const char ptx[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry scale(.param .u64 data)\n{\n"
    ".reg .b32 %r<3>;\n.reg .b64 %d<3>;\n"
    "ld.param.u64 %d0, [data];\ncvta.to.global.u64 %d0, %d0;\n"
    "mov.u32 %r0, %tid.x;\nmul.wide.u32 %d1, %r0, 4;\nadd.u64 %d0, %d0, %d1;\n"
    "ld.global.u32 %r1, [%d0];\nmad.lo.u32 %r1, %r1, 2, 1;\n"
    "st.global.u32 [%d0], %r1;\nret;\n}\n";

/* The calls used of either interface; 0 is success in both. */
struct calls {
    int (*alloc)(uint64_t *, size_t);
    int (*release)(uint64_t);
    int (*info)(size_t *, size_t *);
    int (*synchronize)(void);
    int (*alloc_async)(uint64_t *, size_t, void *);
    int (*release_async)(uint64_t, void *);
    int (*load)(void **, const void *);
    int (*get)(void **, void *, const char *);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  void *, void **, void **);
    int (*to_device)(uint64_t, const void *, size_t);
    int (*to_host)(void *, uint64_t, size_t);
    int (*copy)(void *, const void *, size_t, int); /* the runtime's, in place of the two above */
};

static void need(int result, const char *what)
{
    if (result == 0)
        return;
    fprintf(stderr, "plain: %s: error %d\n", what, result);
    exit(1);
}

static void find(void *library, const char *name, void *ret_call)
{
    void *found = dlsym(library, name);
    need(!found, name);
    memcpy(ret_call, &found, sizeof(found));
}

static void open_driver(struct calls *calls)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
    int (*init)(unsigned), (*retain)(void **, int), (*set)(void *);
    need(!library, "libcuda.so.1");
    find(library, "cuInit", &init);
    find(library, "cuDevicePrimaryCtxRetain", &retain);
    find(library, "cuCtxSetCurrent", &set);
    find(library, "cuMemAlloc_v2", &calls->alloc);
    find(library, "cuMemFree_v2", &calls->release);
    find(library, "cuMemGetInfo_v2", &calls->info);
    find(library, "cuCtxSynchronize", &calls->synchronize);
    find(library, "cuMemAllocAsync", &calls->alloc_async);
    find(library, "cuMemFreeAsync", &calls->release_async);
    find(library, "cuModuleLoadData", &calls->load);
    find(library, "cuModuleGetFunction", &calls->get);
    find(library, "cuLaunchKernel", &calls->launch);
    find(library, "cuMemcpyHtoD_v2", &calls->to_device);
    find(library, "cuMemcpyDtoH_v2", &calls->to_host);
    need(init(0), "cuInit");
    need(retain(&context, 0), "cuDevicePrimaryCtxRetain");
    need(set(context), "cuCtxSetCurrent");
}

/* A program without nvcc launches kernels through the driver, whose functions it gets from the
 * runtime. */
static void open_runtime(struct calls *calls, const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    int (*entry)(const char *, void **, unsigned long long);
    need(!library, path);
    find(library, "cudaMalloc", &calls->alloc);
    find(library, "cudaFree", &calls->release);
    find(library, "cudaMemGetInfo", &calls->info);
    find(library, "cudaDeviceSynchronize", &calls->synchronize);
    find(library, "cudaMallocAsync", &calls->alloc_async);
    find(library, "cudaFreeAsync", &calls->release_async);
    find(library, "cudaMemcpy", &calls->copy);
    need(calls->release(0), "cudaFree"); /* creates the context */
    entry = NULL;
    void *found = dlsym(library, "cudaGetDriverEntryPoint");
    memcpy(&entry, &found, sizeof(found));
    if (!entry)
        return; /* a later runtime has a replacement */
    need(entry("cuModuleLoadData", (void **)&calls->load, 0), "cuModuleLoadData");
    need(entry("cuModuleGetFunction", (void **)&calls->get, 0), "cuModuleGetFunction");
    need(entry("cuLaunchKernel", (void **)&calls->launch, 0), "cuLaunchKernel");
}

static uint64_t compute(const struct calls *calls, int has_kernels)
{
    uint32_t values[VALUES];
    uint64_t data, sum = 0;
    void *module, *function, *parameters[] = {&data};
    for (uint32_t i = 0; i < VALUES; i++)
        values[i] = i * i;
    need(calls->alloc(&data, sizeof(values)), "an allocation");
    need(calls->copy ? calls->copy((void *)(uintptr_t)data, values, sizeof(values), TO_DEVICE)
                     : calls->to_device(data, values, sizeof(values)),
         "a copy to the device");
    if (has_kernels && calls->launch) {
        need(calls->load(&module, ptx), "cuModuleLoadData");
        need(calls->get(&function, module, "scale"), "cuModuleGetFunction");
        for (int i = 0; i < 10; i++)
            need(calls->launch(function, 1, 1, 1, VALUES, 1, 1, 0, NULL, parameters, NULL),
                 "cuLaunchKernel");
    }
    memset(values, 0, sizeof(values));
    need(calls->copy ? calls->copy(values, (void *)(uintptr_t)data, sizeof(values), TO_HOST)
                     : calls->to_host(values, data, sizeof(values)),
         "a copy to the host");
    need(calls->release(data), "a free");
    for (int i = 0; i < VALUES; i++)
        sum += values[i];
    return sum;
}

int main(int argc, char **argv)
{
    struct calls calls = {0};
    const char *text = getenv("PROBE_BYTES"), *hold = getenv("PROBE_HOLD_S");
    size_t probe_bytes = text ? strtoull(text, NULL, 10) : 0, free_bytes = 0, total_bytes = 0;
    int has_kernels = strcmp(argv[argc - 1], "--without-kernels") != 0;
    uint64_t block, ordered;
    if (argc < 2)
        return 2;
    if (strcmp(argv[1], "driver") == 0)
        open_driver(&calls);
    else
        open_runtime(&calls, argc > 2 ? argv[2] : "");
    uint64_t before = compute(&calls, has_kernels);
    need(calls.info(&free_bytes, &total_bytes), "how much memory there is");
    int result = calls.alloc(&block, probe_bytes);
    if (result != 0 && result != OUT_OF_MEMORY)
        need(result, "the large allocation");
    if (result == 0)
        need(calls.release(block), "a free");
    need(calls.alloc_async(&ordered, 64 << 20, NULL), "an ordered allocation");
    need(calls.release_async(ordered, NULL), "an ordered free");
    need(calls.synchronize(), "waiting");
    uint64_t again = compute(&calls, has_kernels);
    printf("{\"result\": [%llu], \"again\": [%llu], \"total_bytes\": %zu, \"oom\": %s}\n",
           (unsigned long long)before, (unsigned long long)again, total_bytes,
           result == 0 ? "null" : "\"error 2, out of memory\"");
    fflush(stdout);
    sleep(hold ? (unsigned)strtoul(hold, NULL, 10) : 0);
    return 0;
}
