/* Hooks that learn kernels' names, and that notice when handles may be reused. */
#include "shim/life/process.h"

CUresult hook_cuModuleGetFunction(CUfunction *ret_function, CUmodule module, const char *name)
{
    struct process *p = process_enter();
    CUresult r = p->calls.real.cuModuleGetFunction(ret_function, module, name);
    if (r == CUDA_SUCCESS && process_is_ready(p) &&
        collective_note(&p->launch->collectives, *ret_function, name))
        cost_forget_doubted(p);
    return r;
}

CUresult hook_cuLibraryGetKernel(CUkernel *ret_kernel, CUlibrary library, const char *name)
{
    struct process *p = process_enter();
    CUresult r = p->calls.real.cuLibraryGetKernel(ret_kernel, library, name);
    if (r == CUDA_SUCCESS && process_is_ready(p) &&
        collective_note(&p->launch->collectives, *ret_kernel, name))
        cost_forget_doubted(p);
    return r;
}

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
