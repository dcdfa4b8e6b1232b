/* The per-thread default stream, by its handle and by the names of calls. */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "conformance.h"

enum { NEW_CUDA = 13000, OLD_CUDA = 2000 };
#define KERNEL_NS UINT64_C(20000000)

struct other_thread {
    struct conformance *t;
    int queried, launched, synchronized;
    int priority;
    unsigned flags;
};

/* Another thread sees an empty stream of its own. */
static void *look(void *argument)
{
    struct other_thread *other = argument;
    struct conformance *t = other->t;
    (void)t->cuCtxSetCurrent(t->context);
    other->queried = t->cuStreamQuery(STREAM_PER_THREAD);
    other->launched = conformance_burn(t, STREAM_PER_THREAD, 1000);
    other->synchronized = t->cuStreamSynchronize(STREAM_PER_THREAD);
    (void)t->cuStreamGetPriority(STREAM_PER_THREAD, &other->priority);
    (void)t->cuStreamGetFlags(STREAM_PER_THREAD, &other->flags);
    return NULL;
}

void case_per_thread_streams_are_separate(struct conformance *t)
{
    struct other_thread other = {.t = t, .queried = -1, .priority = 99, .flags = 99};
    pthread_t thread;
    void *context = NULL;
    conformance_open_device(t);
    EXPECT(t, cuStreamQuery, CUDA_SUCCESS, (STREAM_PER_THREAD));
    _Atomic uint32_t *hold = conformance_hold(t, STREAM_PER_THREAD);
    CHECK(t, cuLaunchKernel, conformance_burn(t, STREAM_PER_THREAD, KERNEL_NS) == CUDA_SUCCESS);
    EXPECT(t, cuStreamQuery, CUDA_ERROR_NOT_READY, (STREAM_PER_THREAD));
    if (pthread_create(&thread, NULL, look, &other) == 0)
        pthread_join(thread, NULL);
    CHECK(t, cuStreamQuery, other.queried == CUDA_SUCCESS);
    CHECK(t, cuStreamSynchronize,
          other.launched == CUDA_SUCCESS && other.synchronized == CUDA_SUCCESS);
    CHECK(t, cuStreamGetPriority, other.priority == 0);
    CHECK(t, cuStreamGetFlags, other.flags == 0);
    EXPECT(t, cuStreamQuery, CUDA_ERROR_NOT_READY, (STREAM_PER_THREAD));

    /* The legacy stream waits for it as for any blocking stream. */
    CHECK(t, cuLaunchKernel, conformance_burn(t, STREAM_LEGACY, 1000) == CUDA_SUCCESS);
    EXPECT(t, cuStreamQuery, CUDA_ERROR_NOT_READY, (STREAM_LEGACY));
    conformance_let_go(hold);
    EXPECT(t, cuStreamSynchronize, CUDA_SUCCESS, (STREAM_LEGACY));
    EXPECT(t, cuStreamQuery, CUDA_SUCCESS, (STREAM_PER_THREAD));
    EXPECT(t, cuStreamGetCtx, CUDA_SUCCESS, (STREAM_PER_THREAD, &context));
    CHECK(t, cuStreamGetCtx, context == t->context);
}

/* cuGetProcAddress returns the variants to callers that ask for them. */
void case_per_thread_names_give_variants(struct conformance *t)
{
    static const struct {
        const char *name, *symbol;
        int version;
    } names[] = {
        {"cuLaunchKernel", "cuLaunchKernel_ptsz", NEW_CUDA},
        {"cuMemcpyHtoD", "cuMemcpyHtoD_v2_ptds", NEW_CUDA},
        {"cuMemcpyAsync", "cuMemcpyAsync_ptsz", NEW_CUDA},
        {"cuStreamSynchronize", "cuStreamSynchronize_ptsz", NEW_CUDA},
        {"cuStreamBeginCapture", "cuStreamBeginCapture_v2_ptsz", NEW_CUDA},
        {"cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v2_ptsz", 12000},
        {"cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v3_ptsz", NEW_CUDA},
        {"cuGraphLaunch", "cuGraphLaunch_ptsz", NEW_CUDA},
        {"cuMemAllocAsync", "cuMemAllocAsync_ptsz", NEW_CUDA},
        {"cuMemAlloc", "cuMemAlloc_v2", NEW_CUDA}, /* without a stream, both are the same */
    };
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *address = NULL, *legacy = NULL;
    int status = -1;
    EXPECT(t, cuInit, CUDA_SUCCESS, (0));
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        EXPECT(t, cuGetProcAddress_v2, CUDA_SUCCESS,
               (names[i].name, &address, names[i].version,
                CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
        CHECK(t, cuGetProcAddress_v2, status == CUDA_PROC_FOUND);
        CHECK(t, cuGetProcAddress_v2, address && address == dlsym(cuda, names[i].symbol));
        EXPECT(t, cuGetProcAddress, CUDA_SUCCESS,
               (names[i].name, &legacy, names[i].version,
                CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM));
        CHECK(t, cuGetProcAddress, legacy == address);
    }
    EXPECT(t, cuGetProcAddress_v2, CUDA_SUCCESS,
           ("cuLaunchKernel", &address, NEW_CUDA, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status));
    CHECK(t, cuGetProcAddress_v2, address == dlsym(cuda, "cuLaunchKernel"));
    EXPECT(t, cuGetProcAddress_v2, CUDA_SUCCESS,
           ("cuMemAllocAsync", &address, OLD_CUDA, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
            &status));
    CHECK(t, cuGetProcAddress_v2, status == CUDA_PROC_VERSION_NOT_SUFFICIENT && !address);
    EXPECT(t, cuGetProcAddress_v2, CUDA_SUCCESS,
           ("cuNoSuchCall", &address, NEW_CUDA, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
            &status));
    CHECK(t, cuGetProcAddress_v2, status == CUDA_PROC_NOT_FOUND && !address);
}
