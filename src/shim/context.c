/* The first call of every program, and contexts, which cost device memory of their own. */
#include "shim/process.h"

CUresult hook_cuInit(unsigned flags)
{
    struct process *p = process_enter();
    if (process_is_refused(p))
        return CUDA_ERROR_SYSTEM_NOT_READY;
    return p->calls.real.cuInit(flags);
}
