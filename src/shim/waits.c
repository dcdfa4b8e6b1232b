/* Calls by which a program waits for the device, or may learn that work is done: a service's marks stand before. Where one
 * has waited for all of a stream or a context, a task's launches there are done. */
#include "shim/process.h"

/* At these the driver's pools give back what they hold beyond their thresholds. */
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

/* EXPECT_SYMBOL: whose launches are done when the call succeeds, in terms of its parameter a. */
#define EXPECT_cuCtxRecordEvent            (void)0
#define EXPECT_cuCtxSynchronize            launch_expect_context(p, NULL, &expected)
#define EXPECT_cuCtxSynchronize_v2         launch_expect_context(p, a, &expected)
#define EXPECT_cuEventQuery                (void)0
#define EXPECT_cuEventRecord               (void)0
#define EXPECT_cuEventRecord_ptsz          (void)0
#define EXPECT_cuEventRecordWithFlags      (void)0
#define EXPECT_cuEventRecordWithFlags_ptsz (void)0
#define EXPECT_cuEventSynchronize          (void)0
#define EXPECT_cuStreamQuery               (void)0
#define EXPECT_cuStreamQuery_ptsz          (void)0
#define EXPECT_cuStreamSynchronize         launch_expect_stream(p, a, false, &expected)
#define EXPECT_cuStreamSynchronize_ptsz    launch_expect_stream(p, a, true, &expected)

#define HOOK(family, symbol, name, version, variant, ...) HOOK_##family(symbol, ##__VA_ARGS__)
#define PASS(family, symbol, name, version, variant, ...)
#define USED(symbol, name, version, variant, ...)
#define HOOK_proc_address(...)
#define HOOK_context(...)
#define HOOK_memory(...)
#define HOOK_array(...)
#define HOOK_mapping(...)
#define HOOK_pool(...)
#define HOOK_graph(...)
#define HOOK_launch(...)
#define HOOK_module(...)
#define HOOK_stream(...)
#define HOOK_copy(...)
#define HOOK_wait(symbol, ...)                                                                     \
    CUresult hook_##symbol CALL_PARAMETERS(__VA_ARGS__)                                            \
    {                                                                                              \
        struct process *p = process_enter();                                                       \
        struct launch_expected expected;                                                           \
        expected.slots = 0;                                                                        \
        if (process_is_ready(p)) {                                                                 \
            launch_wait(p);                                                                        \
            EXPECT_##symbol;                                                                       \
        }                                                                                          \
        CUresult r = p->calls.real.symbol CALL_ARGUMENTS(__VA_ARGS__);                             \
        if (expected.slots && r == CUDA_SUCCESS)                                                   \
            launch_note_done(p, &expected);                                                        \
        if (synchronises(CALL_##symbol) && process_is_ready(p))                                    \
            (void)pools_settle(p);                                                                 \
        return r;                                                                                  \
    }
#include "../../api/cuda_calls.def"
