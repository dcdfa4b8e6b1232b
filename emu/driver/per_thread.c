/* The calls for which stream 0 is the per-thread default stream. */
#include "emu/driver/driver.h"

/* Sets the thread's default. Returns the earlier value, which the caller restores. */
static bool set_own_default(bool has_own_default)
{
    struct thread_state *thread = process_thread();
    bool before = thread->has_own_default;
    thread->has_own_default = has_own_default;
    return before;
}

#define DEFINE(symbol, base, ...)                                                                  \
    CUDA_API CUresult symbol CALL_PARAMETERS(__VA_ARGS__);                                         \
    CUDA_API CUresult symbol CALL_PARAMETERS(__VA_ARGS__)                                          \
    {                                                                                              \
        bool before = set_own_default(true);                                                       \
        CUresult result = base CALL_ARGUMENTS(__VA_ARGS__);                                        \
        set_own_default(before);                                                                   \
        return result;                                                                             \
    }
#define DEFINE_legacy(...)
#define DEFINE_ptds(base, ...) DEFINE(base##_ptds, base, __VA_ARGS__)
#define DEFINE_ptsz(base, ...) DEFINE(base##_ptsz, base, __VA_ARGS__)
#define CALL(symbol, name, version, variant, shim, errors, ...)                                    \
    DEFINE_##variant(symbol, ##__VA_ARGS__)
#define LACK(...)
#include "../../api/cuda_calls.def"
