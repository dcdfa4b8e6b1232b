/* Hooks that learn kernels' names, and that notice when handles may be reused. */
#include "shim/life/process.h"

#define DEFINE_GET(symbol, type, container)                                                        \
    CUresult hook_##symbol(type *ret_function, container from, const char *name)                   \
    {                                                                                              \
        struct process *p = process_enter();                                                       \
        CUresult r = p->calls.real.symbol(ret_function, from, name);                               \
        if (r == CUDA_SUCCESS && process_is_ready(p) &&                                            \
            collective_note(&p->launch->collectives, *ret_function, name))                         \
            cost_forget_doubted(p);                                                                \
        return r;                                                                                  \
    }

DEFINE_GET(cuModuleGetFunction, CUfunction, CUmodule)
DEFINE_GET(cuLibraryGetKernel, CUkernel, CUlibrary)

CUresult hook_cuKernelGetFunction(CUfunction *ret_function, CUkernel kernel)
{
    struct process *p = process_enter();
    CUresult r = p->calls.real.cuKernelGetFunction(ret_function, kernel);
    if (r == CUDA_SUCCESS && process_is_ready(p) &&
        collective_note_same(&p->launch->collectives, *ret_function, kernel))
        cost_forget_doubted(p);
    return r;
}

/* The doubt comes first: after the unload, another thread may get one of the module's handles. */
CUresult hook_cuModuleUnload(CUmodule module)
{
    struct process *p = process_enter();
    if (process_is_ready(p))
        cost_doubt_all(p);
    return p->calls.real.cuModuleUnload(module);
}

CUresult hook_cuLibraryUnload(CUlibrary library)
{
    struct process *p = process_enter();
    if (process_is_ready(p))
        cost_doubt_all(p);
    return p->calls.real.cuLibraryUnload(library);
}
