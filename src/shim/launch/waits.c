/* Hooks of calls by which a program waits for the device, or may learn that work is done. A
 * service's marks are written before such a call. After a wait for a whole stream or context, a
 * task's launches there are done. */
#include "shim/life/process.h"

/* ---- expected completions ---- */

/* The work that is done once a wait of the program has succeeded. For a task: launches whose marks
 * are missing, in streams that only another thread can name. For a service: launches that marks
 * never cover, in streams without a slot. */
struct expected {
    uint64_t slots; /* bit i: streams.slots[i]; the last bit: a service's streams without a slot */
    uint64_t launched[STREAMS_MAX];
    uint64_t unmarked_count; /* launches into streams without a slot */
    _Atomic uint64_t *unmarked;
};

/* Expects a service's unmarked launches, when the program waits for the context. Until then the
 * service counts as busy, and tasks wait for it once. */
static void expect_unmarked(struct process *p, CUcontext context, struct expected *ret_expected)
{
    ret_expected->unmarked = busy_unmarked(&p->busy, context);
    ret_expected->unmarked_count = ret_expected->unmarked ? atomic_load(ret_expected->unmarked) : 0;
    if (ret_expected->unmarked_count > 0)
        ret_expected->slots = UINT64_C(1) << STREAMS_SHARED_SLOT;
}

/* Expects a stream's launches by its key or, if the key is 0, those of the context. Marked launches
 * need no expectation. */
static void expect(struct process *p, uint64_t key, CUcontext context,
                   struct expected *ret_expected)
{
    uint64_t open = atomic_load_explicit(&p->client.status->open_streams, memory_order_relaxed);
    if (atomic_load_explicit(&p->launch->is_service, memory_order_relaxed)) {
        if (key == 0)
            expect_unmarked(p, context, ret_expected);
        return;
    }
    for (open &= ~(UINT64_C(1) << STREAMS_SHARED_SLOT); open; open &= open - 1) {
        int slot = __builtin_ctzll(open);
        const struct stream *stream = &p->launch->streams.slots[slot];
        uint64_t its_key = atomic_load_explicit(&stream->key, memory_order_acquire);
        if (its_key == 0 || (key != 0 ? its_key != key : stream->context != context))
            continue;
        uint64_t launched = atomic_load_explicit(&stream->launched, memory_order_acquire);
        if (launched == atomic_load_explicit(&stream->marked, memory_order_relaxed))
            continue;
        ret_expected->launched[slot] = launched;
        ret_expected->slots |= UINT64_C(1) << slot;
    }
}

static void expect_stream(struct process *p, CUstream handle, bool is_per_thread,
                          struct expected *ret_expected)
{
    uint64_t key = streams_key(p, &handle, is_per_thread);
    if (key != 0)
        expect(p, key, NULL, ret_expected);
}

static void expect_context(struct process *p, CUcontext context, struct expected *ret_expected)
{
    if (context || (p->calls.real.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context))
        expect(p, 0, context, ret_expected);
}

/* Another thread may have waited for the same launches. */
static void note_unmarked_done(struct process *p, const struct expected *expected)
{
    uint64_t left = atomic_load(expected->unmarked), done;
    do
        done = left < expected->unmarked_count ? left : expected->unmarked_count;
    while (!atomic_compare_exchange_weak(expected->unmarked, &left, left - done));
    atomic_fetch_add(&p->client.status->completed[STREAMS_SHARED_SLOT], done);
}

static void note_done(struct process *p, const struct expected *expected)
{
    for (uint64_t slots = expected->slots; slots; slots &= slots - 1) {
        int slot = __builtin_ctzll(slots);
        if (slot == STREAMS_SHARED_SLOT)
            note_unmarked_done(p, expected);
        else
            window_note_done(p->client.status, &p->launch->streams.slots[slot],
                             expected->launched[slot]);
    }
}

/* ---- the calls ---- */

/* Returns whether the driver's pools release memory beyond their thresholds at this call. */
static inline bool synchronises(enum call call)
{
    switch (call) {
    case CALL_cuCtxSynchronize:
    case CALL_cuCtxSynchronize_v2:
    case CALL_cuEventSynchronize:
    case CALL_cuStreamSynchronize:
    case CALL_cuStreamSynchronize_ptsz:
        return true;
    default:
        return false;
    }
}

/* EXPECT_SYMBOL records the launches that are done when the call succeeds; `a` is its first
 * parameter. */
#define EXPECT_cuCtxRecordEvent            (void)0
#define EXPECT_cuCtxSynchronize            expect_context(p, NULL, &expected)
#define EXPECT_cuCtxSynchronize_v2         expect_context(p, a, &expected)
#define EXPECT_cuEventQuery                (void)0
#define EXPECT_cuEventRecord               (void)0
#define EXPECT_cuEventRecord_ptsz          (void)0
#define EXPECT_cuEventRecordWithFlags      (void)0
#define EXPECT_cuEventRecordWithFlags_ptsz (void)0
#define EXPECT_cuEventSynchronize          (void)0
#define EXPECT_cuStreamQuery               (void)0
#define EXPECT_cuStreamQuery_ptsz          (void)0
#define EXPECT_cuStreamSynchronize         expect_stream(p, a, false, &expected)
#define EXPECT_cuStreamSynchronize_ptsz    expect_stream(p, a, true, &expected)

#define INTERCEPTED(how, symbol, name, version, variant, ...) HOOK_##how(symbol, ##__VA_ARGS__)
#define USED(...)
#define HOOK_hook(...)
#define HOOK_pass(...)
#define HOOK_copy(...)
#define HOOK_wait(symbol, ...)                                                                     \
    CUresult hook_##symbol CALL_PARAMETERS(__VA_ARGS__)                                            \
    {                                                                                              \
        struct process *p = process_enter();                                                       \
        struct expected expected;                                                                  \
        expected.slots = 0;                                                                        \
        if (process_is_ready(p)) {                                                                 \
            launch_wait(p);                                                                        \
            EXPECT_##symbol;                                                                       \
        }                                                                                          \
        CUresult r = p->calls.real.symbol CALL_ARGUMENTS(__VA_ARGS__);                             \
        if (expected.slots && r == CUDA_SUCCESS)                                                   \
            note_done(p, &expected);                                                               \
        if (r == CUDA_SUCCESS && process_is_ready(p))                                              \
            launch_waited(p);                                                                      \
        if (synchronises(CALL_##symbol) && process_is_ready(p))                                    \
            (void)pools_settle(p);                                                                 \
        return r;                                                                                  \
    }
#include "shim/hook/calls.def"
