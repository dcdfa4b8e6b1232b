/* The calls that mean the calling thread's own stream by stream 0. */
#include "emu/driver/driver.h"

struct graph;
struct graph_exec;

/* Whether it was so before, which is what it becomes again. */
static bool set_own_default(bool has_own_default)
{
    struct thread_state *thread = process_thread();
    bool before = thread->has_own_default;
    thread->has_own_default = has_own_default;
    return before;
}

#define LACK(symbol, name, version)
#define PER_THREAD(symbol, name, version, base, parameters, arguments)                             \
    CUDA_API int base parameters;                                                                  \
    CUDA_API int symbol parameters;                                                                \
    CUDA_API int symbol parameters                                                                 \
    {                                                                                              \
        bool before = set_own_default(true);                                                       \
        int r = base arguments;                                                                    \
        set_own_default(before);                                                                   \
        return r;                                                                                  \
    }
#include "emu/driver/per_thread_calls.def"
#undef PER_THREAD
#undef LACK
