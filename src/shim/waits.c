/* Calls by which a program waits for the device, or may learn that work is done: a service's marks stand before. */
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
        if (process_is_ready(p))                                                                   \
            launch_wait(p);                                                                        \
        CUresult r = p->calls.real.symbol CALL_ARGUMENTS(__VA_ARGS__);                             \
        if (synchronises(CALL_##symbol) && process_is_ready(p))                                    \
            (void)pools_settle(p);                                                                 \
        return r;                                                                                  \
    }
#include "../../api/cuda_calls.def"
