#include "shim/life/busy.h"
#include "shim/hook/capture.h"
#include "shim/sys/clock.h"

/* No lock: compare-and-exchange takes and frees a place, and two threads with the same new context
 * may take one each. */
void busy_add(struct busy *busy, CUcontext context)
{
    for (int i = 0; i < BUSY_MAX; i++) {
        CUcontext there = atomic_load_explicit(&busy->places[i], memory_order_relaxed);
        if (there == context)
            return;
    }
    for (int i = 0; i < BUSY_MAX; i++) {
        CUcontext none = NULL;
        if (atomic_compare_exchange_strong(&busy->places[i], &none, context))
            return;
    }
}

_Atomic uint64_t *busy_unmarked(struct busy *busy, CUcontext context)
{
    for (int i = 0; context && i < BUSY_MAX; i++) {
        if (atomic_load_explicit(&busy->places[i], memory_order_relaxed) == context)
            return &busy->unmarked[i];
    }
    return NULL;
}

void busy_note(struct process *p)
{
    CUcontext context = NULL;
    if (p->calls.real.cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context ||
        context == atomic_load_explicit(&p->busy.last, memory_order_relaxed))
        return;
    busy_add(&p->busy, context);
    atomic_store_explicit(&p->busy.last, context, memory_order_relaxed);
}

bool busy_forget(struct busy *busy, CUcontext context)
{
    bool was_there = false;
    atomic_store(&busy->last, NULL);
    for (int i = 0; i < BUSY_MAX; i++) {
        CUcontext there = atomic_load(&busy->places[i]);
        if (there && (!context || there == context))
            was_there |= atomic_compare_exchange_strong(&busy->places[i], &there, NULL);
    }
    return was_there;
}

/* Synchronises the current context. Returns false if the driver refuses, as it may while one of the
 * context's streams is captured; marks then show when outstanding work is done. */
static bool synchronize(struct process *p)
{
    if (p->calls.real.cuCtxSynchronize() == CUDA_SUCCESS || atomic_load(&p->launch->captures) == 0)
        return true;
    marks_flush(p);
    return false;
}

void busy_synchronize(struct process *p, uint64_t until_ns)
{
    const struct real_calls *real = &p->calls.real;
    bool is_refused = false;
    CUstreamCaptureMode mode = capture_relax(p);
    for (int i = 0; i < BUSY_MAX; i++) {
        CUcontext context = atomic_load(&p->busy.places[i]), popped;
        if (!context || real->cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
            continue;
        is_refused |= !synchronize(p);
        (void)real->cuCtxPopCurrent_v2(&popped);
    }
    capture_restore(p, mode);
    while (is_refused && launch_outstanding_ns(p) > 0 && clock_now_ns() < until_ns)
        clock_sleep_ns(CLOCK_MS_NS);
}
