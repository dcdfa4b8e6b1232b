/* Copies between device and host memory, by several threads through pinned buffers. */
#include <string.h>

#include "shim/hook/capture.h"
#include "shim/life/process.h"
#include "shim/life/thread.h"
#include "shim/sys/clock.h"

enum {
    STREAM_NON_BLOCKING = 1,
    HOST_PORTABLE = 1,
    CPU_BYTES_MAX = 1024, /* size of a set of processors */
};

/* Returns the number of processors that the process may use. */
static uint32_t processor_count(void)
{
    uint64_t set[CPU_BYTES_MAX / 8];
    uint32_t count = 0;
    long bytes = sys_call(SYS_sched_getaffinity, 0, sizeof(set), (long)set, 0, 0, 0);
    for (long i = 0; i < bytes / 8; i++)
        count += (uint32_t)__builtin_popcountll(set[i]);
    return count;
}

bool swap_make_copiers(struct process *p, CUcontext context)
{
    const struct real_calls *real = &p->calls.real;
    struct swap *swap = &p->swap;
    if (swap->context == context && swap->copier_count > 0)
        return true;
    uint32_t wanted = processor_count() / 2; /* the service needs processors, too */
    wanted = wanted < 1 ? 1 : wanted > SWAP_COPIERS_MAX ? SWAP_COPIERS_MAX : wanted;
    swap->context = context;
    swap->copier_count = 0;
    for (uint32_t i = 0; i < wanted; i++) {
        struct swap_copier *copier = &swap->copiers[i];
        if (real->cuMemHostAlloc(&copier->buffer, SWAP_BUFFER_BYTES, HOST_PORTABLE) != CUDA_SUCCESS)
            break;
        if (real->cuStreamCreate(&copier->stream, STREAM_NON_BLOCKING) != CUDA_SUCCESS) {
            (void)real->cuMemFreeHost(copier->buffer);
            break;
        }
        swap->copier_count++;
    }
    return swap->copier_count > 0;
}

/* The work of one move, shared by its threads. */
struct copying {
    struct process *p;
    const struct swap_job *jobs;
    size_t count;
    bool is_out;
    _Atomic uint64_t next; /* number of the next slice */
    _Atomic uint32_t next_thread;
    _Atomic uint32_t left; /* threads at work besides the caller; a futex */
    _Atomic uint32_t has_failed;
};

struct slice {
    uint64_t address, bytes;
    char *host;
};

/* A thread's position in the jobs: slices are numbered over all jobs. */
struct cursor {
    size_t job;
    uint64_t before; /* slices of the jobs before this one */
};

static uint64_t slices_of(const struct swap_job *job)
{
    return (job->bytes + SWAP_BUFFER_BYTES - 1) / SWAP_BUFFER_BYTES;
}

static bool take_slice(struct copying *c, struct cursor *at, struct slice *ret_slice)
{
    uint64_t number = atomic_fetch_add(&c->next, 1);
    while (at->job < c->count && number - at->before >= slices_of(&c->jobs[at->job])) {
        at->before += slices_of(&c->jobs[at->job]);
        at->job++;
    }
    if (at->job == c->count)
        return false;
    const struct swap_job *job = &c->jobs[at->job];
    uint64_t offset = (number - at->before) * SWAP_BUFFER_BYTES;
    uint64_t left = job->bytes - offset;
    *ret_slice = (struct slice){.address = job->address + offset,
                                .bytes = left < SWAP_BUFFER_BYTES ? left : SWAP_BUFFER_BYTES,
                                .host = (char *)job->host + offset};
    return true;
}

static bool copy_slice(const struct copying *c, const struct swap_copier *copier,
                       const struct slice *slice)
{
    const struct real_calls *real = &c->p->calls.real;
    CUresult r;
    if (c->is_out) {
        r = real->cuMemcpyDtoHAsync_v2(copier->buffer, slice->address, slice->bytes,
                                       copier->stream);
        if (r == CUDA_SUCCESS)
            r = real->cuStreamSynchronize(copier->stream);
        if (r == CUDA_SUCCESS)
            memcpy(slice->host, copier->buffer, slice->bytes);
    } else {
        memcpy(copier->buffer, slice->host, slice->bytes);
        r = real->cuMemcpyHtoDAsync_v2(slice->address, copier->buffer, slice->bytes,
                                       copier->stream);
        if (r == CUDA_SUCCESS)
            r = real->cuStreamSynchronize(copier->stream);
    }
    return r == CUDA_SUCCESS;
}

/* Copies slices until none are left. The context must be current. */
static void copy_slices(struct copying *c, const struct swap_copier *copier)
{
    struct cursor at = {0};
    struct slice slice;
    while (!atomic_load(&c->has_failed) && take_slice(c, &at, &slice)) {
        if (atomic_load(&c->p->swap.is_over) || !copy_slice(c, copier, &slice))
            atomic_store(&c->has_failed, 1);
    }
}

static void *run_copier(void *argument)
{
    struct copying *c = argument;
    struct process *p = c->p;
    const struct swap_copier *copier = &p->swap.copiers[atomic_fetch_add(&c->next_thread, 1)];
    (void)sys_call(SYS_prctl, 15 /* PR_SET_NAME */, (long)"gpumux-copy", 0, 0, 0, 0);
    if (p->calls.real.cuCtxSetCurrent(p->swap.context) == CUDA_SUCCESS) {
        (void)capture_relax(p);
        copy_slices(c, copier);
    }
    if (atomic_fetch_sub(&c->left, 1) == 1)
        (void)sys_futex(&c->left, FUTEX_WAKE_PRIVATE, 1, NULL);
    return NULL;
}

bool swap_copy(struct process *p, const struct swap_job *jobs, size_t count, bool is_out)
{
    struct copying c = {.p = p, .jobs = jobs, .count = count, .is_out = is_out, .next_thread = 1};
    uint64_t slices = 0;
    for (size_t i = 0; i < count; i++)
        slices += slices_of(&jobs[i]);
    for (uint32_t i = 1; i < p->swap.copier_count && i < slices; i++) {
        atomic_fetch_add(&c.left, 1);
        if (!thread_start(run_copier, &c)) {
            atomic_fetch_sub(&c.left, 1);
            break;
        }
    }
    copy_slices(&c, &p->swap.copiers[0]);
    for (uint32_t left; (left = atomic_load(&c.left)) > 0;)
        (void)sys_futex(&c.left, FUTEX_WAIT_PRIVATE, left, NULL);
    return !atomic_load(&c.has_failed);
}
