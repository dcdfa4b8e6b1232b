/* The calls that are known but not emulated: each says so. */
#include "emu/abi/cuda_abi.h"

/* A caller's arguments, whatever they are, are left alone: the calling convention makes the caller
 * clean up after them. */
#define CALL(symbol, name, version)
#define LACK(symbol, name, version)                                                                \
    CUDA_API int symbol(void);                                                                     \
    CUDA_API int symbol(void)                                                                      \
    {                                                                                              \
        return CUDA_ERROR_NOT_SUPPORTED;                                                           \
    }
#define PER_THREAD(...)
#include "emu/driver/cuda_calls.def"
#include "emu/driver/per_thread_calls.def"
#undef CALL
#undef LACK
#undef PER_THREAD
