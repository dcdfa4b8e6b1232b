/*
 * Launches, counted. Each hook is the driver's call behind launch_begin(), which is where a launch may be
 * held; the variants for per-thread default streams do the same with their own function.
 */
#include "shim/process.h"

/* Before a launch. */
static inline struct process *launch_begin(enum status_counter counter)
{
    struct process *p = process_enter();
    if (process_is_ready(p))
        client_poll(&p->client, process_count(p, counter, 1));
    return p;
}

#define KERNEL_PARAMETERS                                                                          \
    CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,      \
        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream,                \
        void **parameters

CUresult hook_cuLaunchKernel(KERNEL_PARAMETERS, void **extra)
{
    struct process *p = launch_begin(STATUS_launches_kernel);
    return p->calls.real.cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                        shared_bytes, stream, parameters, extra);
}

CUresult hook_cuLaunchKernel_ptsz(KERNEL_PARAMETERS, void **extra)
{
    struct process *p = launch_begin(STATUS_launches_kernel);
    return p->calls.real.cuLaunchKernel_ptsz(function, grid_x, grid_y, grid_z, block_x, block_y,
                                             block_z, shared_bytes, stream, parameters, extra);
}

CUresult hook_cuLaunchCooperativeKernel(KERNEL_PARAMETERS)
{
    struct process *p = launch_begin(STATUS_launches_kernel);
    return p->calls.real.cuLaunchCooperativeKernel(function, grid_x, grid_y, grid_z, block_x,
                                                   block_y, block_z, shared_bytes, stream,
                                                   parameters);
}

CUresult hook_cuLaunchCooperativeKernel_ptsz(KERNEL_PARAMETERS)
{
    struct process *p = launch_begin(STATUS_launches_kernel);
    return p->calls.real.cuLaunchCooperativeKernel_ptsz(function, grid_x, grid_y, grid_z, block_x,
                                                        block_y, block_z, shared_bytes, stream,
                                                        parameters);
}

CUresult hook_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters,
                               void **extra)
{
    struct process *p = launch_begin(STATUS_launches_kernel);
    return p->calls.real.cuLaunchKernelEx(config, function, parameters, extra);
}

CUresult hook_cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function,
                                    void **parameters, void **extra)
{
    struct process *p = launch_begin(STATUS_launches_kernel);
    return p->calls.real.cuLaunchKernelEx_ptsz(config, function, parameters, extra);
}

CUresult hook_cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launches, unsigned count,
                                                   unsigned flags)
{
    struct process *p = launch_begin(STATUS_launches_kernel);
    return p->calls.real.cuLaunchCooperativeKernelMultiDevice(launches, count, flags);
}

CUresult hook_cuLaunch(CUfunction function)
{
    struct process *p = launch_begin(STATUS_launches_kernel);
    return p->calls.real.cuLaunch(function);
}

CUresult hook_cuLaunchGrid(CUfunction function, int width, int height)
{
    struct process *p = launch_begin(STATUS_launches_kernel);
    return p->calls.real.cuLaunchGrid(function, width, height);
}

CUresult hook_cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream)
{
    struct process *p = launch_begin(STATUS_launches_kernel);
    return p->calls.real.cuLaunchGridAsync(function, width, height, stream);
}

CUresult hook_cuGraphLaunch(CUgraphExec graph, CUstream stream)
{
    struct process *p = launch_begin(STATUS_launches_graph);
    return p->calls.real.cuGraphLaunch(graph, stream);
}

CUresult hook_cuGraphLaunch_ptsz(CUgraphExec graph, CUstream stream)
{
    struct process *p = launch_begin(STATUS_launches_graph);
    return p->calls.real.cuGraphLaunch_ptsz(graph, stream);
}
