/* The calls that are known but not emulated: each returns an error. */
#include "emu/abi/cuda_abi.h"

/* The functions ignore their arguments: by the calling convention, the caller cleans up after
 * them. */
#define ANSWER(symbol)                                                                             \
    CUDA_API int symbol(void);                                                                     \
    CUDA_API int symbol(void)                                                                      \
    {                                                                                              \
        return CUDA_ERROR_NOT_SUPPORTED;                                                           \
    }
#define ANSWER_legacy(symbol)
#define ANSWER_ptds(symbol) ANSWER(symbol##_ptds)
#define ANSWER_ptsz(symbol) ANSWER(symbol##_ptsz)
#define CALL(...)
#define LACK(symbol, name, version, variant, ...) ANSWER(symbol) ANSWER_##variant(symbol)
#include "../../api/cuda_calls.def"
