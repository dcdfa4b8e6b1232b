/*
 * The first call of every program, and contexts. A context takes device memory, which is reserved
 * before the context is made, and its end frees all memory that was allocated in it.
 *
 * After a fault of one client, an MPS server accepts no client until all have left, and returns
 * error 807. The condition passes, but programs give up at the first error: the hooks repeat the
 * call for a while.
 */
#include "shim/memory/context.h"
#include "shim/memory/grants.h"
#include "shim/memory/room.h"
#include "shim/sys/clock.h"
#include "shim/sys/fault_point.h"

enum {
    NOT_READY_MS_MAX = 10000,
    NOT_READY_AGAIN_MS = 20,
    ATTRIBUTE_MULTIPROCESSOR_COUNT = 16, /* a client of MPS sees only the SMs that it may use */
};

/* Returns whether to repeat a call with this result, after a short pause. *begun_ns is 0 at
 * first. */
static bool is_to_be_tried_again(CUresult r, uint64_t *begun_ns)
{
    if (__builtin_expect(r != CUDA_ERROR_MPS_SERVER_NOT_READY, 1))
        return false;
    uint64_t now_ns = clock_now_ns();
    if (*begun_ns == 0)
        *begun_ns = now_ns;
    if (now_ns - *begun_ns > (uint64_t)NOT_READY_MS_MAX * CLOCK_MS_NS)
        return false;
    clock_sleep_ns((uint64_t)NOT_READY_AGAIN_MS * CLOCK_MS_NS);
    return true;
}

CUresult hook_cuInit(unsigned flags)
{
    struct process *p = process_enter();
    uint64_t begun_ns = 0;
    CUresult r;
    if (process_is_refused(p))
        return CUDA_ERROR_SYSTEM_NOT_READY;
    do
        r = p->calls.real.cuInit(flags);
    while (process_is_ready(p) && is_to_be_tried_again(r, &begun_ns));
    return r;
}

/* ---- making contexts ---- */

static struct lock *lock_of(struct process *p, int device)
{
    return &p->contexts.locks[device >= 0 ? device : 0];
}

/* Call with the device's lock taken. True: the lock stays taken until end_making(). */
static bool reserve(struct process *p, int device)
{
    bool is_reserved = quota_begin_context(&p->client, device) ||
                       (pools_let_go(p, device) && quota_begin_context(&p->client, device)) ||
                       (client_check(&p->client) && quota_begin_context(&p->client, device));
    if (is_reserved)
        return true;
    lock_release(lock_of(p, device));
    process_count(p, STATUS_out_of_memory, 1);
    return false;
}

/* True: the device's lock is taken until end_making(). */
static bool begin_making(struct process *p, int device)
{
    lock_take(lock_of(p, device));
    return reserve(p, device);
}

/* After a second context, only the driver knows which default stream is meant. */
static void count_made(struct process *p)
{
    if (atomic_fetch_add(&p->contexts.made, 1) > 0)
        atomic_store(&p->launch->sole, 0);
}

/* Records the number of SMs that MPS grants for the process's share. */
static void note_sms(struct process *p, CUdevice number)
{
    _Atomic uint64_t *peak = &p->client.status->counters[STATUS_sms_peak];
    int sms = 0;
    if (p->calls.real.cuDeviceGetAttribute(&sms, ATTRIBUTE_MULTIPROCESSOR_COUNT, number) ==
            CUDA_SUCCESS &&
        sms > 0 && (uint64_t)sms > atomic_load(peak))
        atomic_store(peak, (uint64_t)sms);
}

static void end_making(struct process *p, CUdevice number, int device, bool is_made)
{
    if (is_made) {
        count_made(p);
        note_sms(p, number);
    }
    quota_end_context(&p->client, device, is_made);
    lock_release(lock_of(p, device));
    if (is_made)
        client_show_files(&p->client);
}

static int device_for(struct process *p, const void *ret_context, CUdevice device)
{
    return process_is_ready(p) && ret_context ? devices_index(p, device) : DEVICES_NO_CONTEXT;
}

/* Records a context that the program made by its handle, so that its device is known at its end. */
static CUresult end_creation(struct process *p, CUresult r, CUcontext *ret_context, CUdevice number,
                             int device)
{
    end_making(p, number, device, r == CUDA_SUCCESS);
    const struct allocation made = {
        .address = r == CUDA_SUCCESS ? (uint64_t)(uintptr_t)*ret_context : 0, .device = device};
    if (made.address && device >= 0 && !allocations_add(&p->allocations, &made))
        process_count(p, STATUS_allocations_uncounted, 1);
    return r;
}

/* The hook of one version of cuCtxCreate. */
#define DEFINE_CREATE(symbol, parameters, arguments)                                               \
    CUresult hook_##symbol parameters                                                              \
    {                                                                                              \
        struct process *p = process_enter();                                                       \
        if (process_is_refused(p))                                                                 \
            return CUDA_ERROR_SYSTEM_NOT_READY;                                                    \
        int index = device_for(p, ret_context, device);                                            \
        if (index == DEVICES_NO_CONTEXT)                                                           \
            return p->calls.real.symbol arguments;                                                 \
        if (!begin_making(p, index))                                                               \
            return CUDA_ERROR_OUT_OF_MEMORY;                                                       \
        uint64_t begun_ns = 0;                                                                     \
        CUresult r;                                                                                \
        struct room_wait wait = {0};                                                               \
        do                                                                                         \
            r = p->calls.real.symbol arguments;                                                    \
        while (is_to_be_tried_again(r, &begun_ns) ||                                               \
               room_await(p, r, index, LIMITS_CONTEXT_BYTES, &wait));                              \
        return end_creation(p, r, ret_context, device, index);                                     \
    }

DEFINE_CREATE(cuCtxCreate, (CUcontext * ret_context, unsigned flags, CUdevice device),
              (ret_context, flags, device))
DEFINE_CREATE(cuCtxCreate_v2, (CUcontext * ret_context, unsigned flags, CUdevice device),
              (ret_context, flags, device))
DEFINE_CREATE(cuCtxCreate_v3,
              (CUcontext * ret_context, CUexecAffinityParam *affinities, int count, unsigned flags,
               CUdevice device),
              (ret_context, affinities, count, flags, device))
DEFINE_CREATE(cuCtxCreate_v4,
              (CUcontext * ret_context, CUctxCreateParams *parameters, unsigned flags,
               CUdevice device),
              (ret_context, parameters, flags, device))

static bool is_primary_there(struct process *p, CUdevice device)
{
    unsigned flags;
    int is_active = 0;
    return p->calls.real.cuDevicePrimaryCtxGetState(device, &flags, &is_active) == CUDA_SUCCESS &&
           is_active;
}

/* Like begin_making(), for the primary context. A thread that waited for the lock may find the
 * context made: *ret_is_there is then set, and the lock is not taken. */
static bool begin_making_primary(struct process *p, CUdevice device, int index, bool *ret_is_there)
{
    lock_take(lock_of(p, index));
    *ret_is_there = is_primary_there(p, device);
    if (!*ret_is_there)
        return reserve(p, index);
    lock_release(lock_of(p, index));
    return true;
}

/* Records the primary context, so that it is known at its end, whichever call made it. */
static CUresult end_retaining(struct process *p, CUresult r, const CUcontext *ret_context,
                              int device)
{
    if (r == CUDA_SUCCESS && device >= 0)
        atomic_store(&p->contexts.primaries[device], *ret_context);
    return r;
}

/* Only the first retain makes a context; later retains and green contexts share it. */
CUresult hook_cuDevicePrimaryCtxRetain(CUcontext *ret_context, CUdevice device)
{
    struct process *p = process_enter();
    if (process_is_refused(p))
        return CUDA_ERROR_SYSTEM_NOT_READY;
    int index = device_for(p, ret_context, device);
    bool is_there = index == DEVICES_NO_CONTEXT || is_primary_there(p, device);
    if (!is_there && !begin_making_primary(p, device, index, &is_there))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (is_there)
        return end_retaining(p, p->calls.real.cuDevicePrimaryCtxRetain(ret_context, device),
                             ret_context, index);
    uint64_t begun_ns = 0;
    struct room_wait wait = {0};
    CUresult r;
    do
        r = p->calls.real.cuDevicePrimaryCtxRetain(ret_context, device);
    while (is_to_be_tried_again(r, &begun_ns) ||
           room_await(p, r, index, LIMITS_CONTEXT_BYTES, &wait));
    (void)end_retaining(p, r, ret_context, index);
    end_making(p, device, index, r == CUDA_SUCCESS);
    return r;
}

/* Records the primary context behind a green context, which the program need not retain. */
static void note_primary(struct process *p, CUdevice device, int index)
{
    CUcontext primary = NULL;
    CUresult r = p->calls.real.cuDevicePrimaryCtxRetain(&primary, device);
    if (end_retaining(p, r, &primary, index) == CUDA_SUCCESS)
        (void)p->calls.real.cuDevicePrimaryCtxRelease_v2(device);
}

CUresult hook_cuGreenCtxCreate(CUgreenCtx *ret_context, CUdevResourceDesc resources,
                               CUdevice device, unsigned flags)
{
    struct process *p = process_enter();
    if (process_is_refused(p))
        return CUDA_ERROR_SYSTEM_NOT_READY;
    int index = device_for(p, ret_context, device);
    bool is_there = index == DEVICES_NO_CONTEXT || is_primary_there(p, device);
    if (!is_there && !begin_making_primary(p, device, index, &is_there))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (is_there) {
        if (process_is_ready(p))
            count_made(p);
        return p->calls.real.cuGreenCtxCreate(ret_context, resources, device, flags);
    }
    uint64_t begun_ns = 0;
    struct room_wait wait = {0};
    CUresult r;
    do
        r = p->calls.real.cuGreenCtxCreate(ret_context, resources, device, flags);
    while (is_to_be_tried_again(r, &begun_ns) ||
           room_await(p, r, index, LIMITS_CONTEXT_BYTES, &wait));
    if (r == CUDA_SUCCESS) {
        note_primary(p, device, index);
        count_made(p);
    }
    end_making(p, device, index, r == CUDA_SUCCESS);
    return r;
}

/* ---- the end of contexts ---- */

static void forget(struct process *p, CUcontext context, int device)
{
    FAULT_POINT();
    grants_forget_context(p, context);
    FAULT_POINT();
    lock_take(lock_of(p, device));
    quota_forget_context(&p->client, device);
    lock_release(lock_of(p, device));
    (void)pools_settle(p);
}

/* A context that the driver may end. */
struct ending {
    CUcontext context; /* NULL: unknown */
    bool was_busy;
    bool holds_moves; /* no memory moves meanwhile */
    struct cost_timings *timings;
};

/* Hides the context, its streams and its events from threads that wait for its work. */
static struct ending begin_end(struct process *p, CUcontext context)
{
    struct ending ending = {.context = context};
    exit_hold(p);
    if (!context)
        return ending;
    ending.holds_moves = swap_begin_end(p);
    streams_begin_end(p, context);
    ending.timings = cost_begin_end(p, context);
    ending.was_busy = busy_forget(&p->busy, context);
    return ending;
}

static void finish_end(struct process *p, const struct ending *ending, bool has_ended)
{
    if (!ending->context)
        return;
    cost_finish_end(ending->timings, has_ended);
    streams_finish_end(p, ending->context, has_ended);
    if (has_ended)
        cost_doubt_all(p); /* its modules have ended, too */
    else if (ending->was_busy)
        busy_add(&p->busy, ending->context);
    if (ending->holds_moves)
        swap_finish_end(p, ending->context, has_ended);
}

static CUresult end_own(struct process *p, CUcontext context, CUresult (*call)(CUcontext))
{
    struct allocation made;
    if (!process_is_ready(p))
        return call(context);
    const struct ending ending = begin_end(p, context);
    bool is_known = allocations_take(&p->allocations, (uint64_t)(uintptr_t)context, &made);
    CUresult r = call(context);
    finish_end(p, &ending, r == CUDA_SUCCESS);
    if (is_known && r == CUDA_SUCCESS)
        forget(p, context, made.device);
    else if (is_known && !allocations_add(&p->allocations, &made))
        process_count(p, STATUS_allocations_uncounted, 1);
    return r;
}

#define DESTROYING(call)                                                                           \
    CUresult hook_##call(CUcontext context)                                                        \
    {                                                                                              \
        struct process *p = process_enter();                                                       \
        return end_own(p, context, p->calls.real.call);                                            \
    }
DESTROYING(cuCtxDestroy)
DESTROYING(cuCtxDestroy_v2)
DESTROYING(cuCtxDetach)

static CUcontext primary_of(struct process *p, int index)
{
    return index >= 0 ? atomic_load(&p->contexts.primaries[index]) : NULL;
}

/* The last release or a reset ends the context. After any other release the context lives on, and
 * its work must be waited for. */
static void finish_primary(struct process *p, CUdevice device, int index,
                           const struct ending *ending)
{
    bool has_ended = !is_primary_there(p, device);
    finish_end(p, ending, has_ended);
    CUcontext context =
        has_ended && index >= 0 ? atomic_exchange(&p->contexts.primaries[index], NULL) : NULL;
    if (context)
        forget(p, context, index);
}

static CUresult end_primary(struct process *p, CUdevice device, CUresult (*call)(CUdevice))
{
    if (!process_is_ready(p) || !is_primary_there(p, device))
        return call(device);
    int index = devices_index(p, device);
    const struct ending ending = begin_end(p, primary_of(p, index));
    CUresult r = call(device);
    finish_primary(p, device, index, &ending);
    return r;
}

#define RELEASING(call)                                                                            \
    CUresult hook_##call(CUdevice device)                                                          \
    {                                                                                              \
        struct process *p = process_enter();                                                       \
        return end_primary(p, device, p->calls.real.call);                                         \
    }
RELEASING(cuDevicePrimaryCtxRelease)
RELEASING(cuDevicePrimaryCtxRelease_v2)
RELEASING(cuDevicePrimaryCtxReset)
RELEASING(cuDevicePrimaryCtxReset_v2)

static bool find_device(struct process *p, CUcontext context, CUdevice *ret_device)
{
    const struct real_calls *real = &p->calls.real;
    CUcontext popped;
    if (real->cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
        return false;
    CUresult r = real->cuCtxGetDevice(ret_device);
    (void)real->cuCtxPopCurrent_v2(&popped);
    return r == CUDA_SUCCESS;
}

/* The handle of a green context's context differs from its own, and the primary context may end
 * with it. */
CUresult hook_cuGreenCtxDestroy(CUgreenCtx green)
{
    struct process *p = process_enter();
    CUcontext context = NULL;
    CUdevice device;
    if (!process_is_ready(p))
        return p->calls.real.cuGreenCtxDestroy(green);
    exit_hold(p);
    if (p->calls.real.cuCtxFromGreenCtx(&context, green) != CUDA_SUCCESS ||
        !find_device(p, context, &device))
        return p->calls.real.cuGreenCtxDestroy(green);
    int index = devices_index(p, device);
    const struct ending ending = begin_end(p, context);
    const struct ending primary = begin_end(p, primary_of(p, index));
    CUresult r = p->calls.real.cuGreenCtxDestroy(green);
    finish_end(p, &ending, r == CUDA_SUCCESS);
    finish_primary(p, device, index, &primary);
    return r;
}
