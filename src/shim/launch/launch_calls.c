/*
 * The calls that launch. Each hook makes the driver's call between launch_begin() and launch_end()
 * (launch.h), with the launch's cost key and its stream; variants for per-thread default streams
 * use their own driver function.
 */
#include "shim/life/process.h"
#include "shim/sys/ticks.h"

#define KERNEL_PARAMETERS                                                                          \
    CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,      \
        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream,                \
        void **parameters
#define KERNEL_ARGUMENTS                                                                           \
    function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters
#define KERNEL_LAUNCH                                                                              \
    (struct cost_launch)                                                                           \
    {                                                                                              \
        .function = function, .grid = {grid_x, grid_y, grid_z},                                    \
        .block = {block_x, block_y, block_z},                                                      \
    }
#define GRAPH_LAUNCH                                                                               \
    (struct cost_launch)                                                                           \
    {                                                                                              \
        .function = graph, .is_graph = true,                                                       \
    }

/* Returns the result of the driver's `call`, which launches `what` into the stream `into`. */
#define LAUNCH(counter, what, into, is_per_thread, call)                                           \
    TICKS_BEGIN();                                                                                 \
    struct process *p = process_enter();                                                           \
    if (!process_is_ready(p))                                                                      \
        return p->calls.real.call;                                                                 \
    client_poll(&p->client, process_count(p, counter, 1));                                         \
    if (!process_guards_launches(p)) {                                                             \
        exit_check(p, &p->exit);                                                                   \
        busy_note(p);                                                                              \
        if (!swap_enter(p))                                                                        \
            return CUDA_ERROR_DEINITIALIZED;                                                       \
        CUresult result = p->calls.real.call;                                                      \
        swap_leave(p);                                                                             \
        return result;                                                                             \
    }                                                                                              \
    struct launch_ticket ticket;                                                                   \
    launch_begin(p, &what, into, is_per_thread, &ticket);                                          \
    exit_check(p, &p->exit);                                                                       \
    TICKS_END(1);                                                                                  \
    CUresult r = CUDA_ERROR_DEINITIALIZED;                                                         \
    if (swap_enter(p)) {                                                                           \
        r = p->calls.real.call;                                                                    \
        swap_leave(p);                                                                             \
    }                                                                                              \
    TICKS_BEGIN_AGAIN();                                                                           \
    launch_end(p, &ticket);                                                                        \
    TICKS_END(0);                                                                                  \
    return r

CUresult hook_cuLaunchKernel(KERNEL_PARAMETERS, void **extra)
{
    LAUNCH(STATUS_launches_kernel, KERNEL_LAUNCH, stream, false,
           cuLaunchKernel(KERNEL_ARGUMENTS, extra));
}

CUresult hook_cuLaunchKernel_ptsz(KERNEL_PARAMETERS, void **extra)
{
    LAUNCH(STATUS_launches_kernel, KERNEL_LAUNCH, stream, true,
           cuLaunchKernel_ptsz(KERNEL_ARGUMENTS, extra));
}

CUresult hook_cuLaunchCooperativeKernel(KERNEL_PARAMETERS)
{
    LAUNCH(STATUS_launches_kernel, KERNEL_LAUNCH, stream, false,
           cuLaunchCooperativeKernel(KERNEL_ARGUMENTS));
}

CUresult hook_cuLaunchCooperativeKernel_ptsz(KERNEL_PARAMETERS)
{
    LAUNCH(STATUS_launches_kernel, KERNEL_LAUNCH, stream, true,
           cuLaunchCooperativeKernel_ptsz(KERNEL_ARGUMENTS));
}

/* Without a configuration the driver refuses the launch. */
static struct cost_launch launch_of(const CUlaunchConfig *config, CUfunction function)
{
    if (!config)
        return (struct cost_launch){.function = function};
    return (struct cost_launch){
        .function = function,
        .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
        .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
    };
}

static CUstream stream_of(const CUlaunchConfig *config)
{
    return config ? config->hStream : NULL;
}

CUresult hook_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters,
                               void **extra)
{
    const struct cost_launch launch = launch_of(config, function);
    LAUNCH(STATUS_launches_kernel, launch, stream_of(config), false,
           cuLaunchKernelEx(config, function, parameters, extra));
}

CUresult hook_cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function,
                                    void **parameters, void **extra)
{
    const struct cost_launch launch = launch_of(config, function);
    LAUNCH(STATUS_launches_kernel, launch, stream_of(config), true,
           cuLaunchKernelEx_ptsz(config, function, parameters, extra));
}

#define DEFINE_GRAPH_LAUNCH(symbol, is_per_thread)                                                 \
    static CUresult launch_##symbol(CUgraphExec graph, CUstream stream)                            \
    {                                                                                              \
        LAUNCH(STATUS_launches_graph, GRAPH_LAUNCH, stream, is_per_thread, symbol(graph, stream)); \
    }                                                                                              \
    CUresult hook_##symbol(CUgraphExec graph, CUstream stream)                                     \
    {                                                                                              \
        struct graphs_ticket memory;                                                               \
        if (!graphs_begin(process_enter(), graph, &memory))                                        \
            return CUDA_ERROR_OUT_OF_MEMORY;                                                       \
        CUresult r = launch_##symbol(graph, stream);                                               \
        graphs_end(&the_process, &memory);                                                         \
        return r;                                                                                  \
    }

DEFINE_GRAPH_LAUNCH(cuGraphLaunch, false)
DEFINE_GRAPH_LAUNCH(cuGraphLaunch_ptsz, true)

/* Old calls follow, whose block sizes were set by earlier calls: costs are keyed by function and
 * grid. */

CUresult hook_cuLaunch(CUfunction function)
{
    const struct cost_launch launch = {.function = function};
    LAUNCH(STATUS_launches_kernel, launch, NULL, false, cuLaunch(function));
}

CUresult hook_cuLaunchGrid(CUfunction function, int width, int height)
{
    const struct cost_launch launch = {.function = function,
                                       .grid = {(unsigned)width, (unsigned)height}};
    LAUNCH(STATUS_launches_kernel, launch, NULL, false, cuLaunchGrid(function, width, height));
}

CUresult hook_cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream)
{
    const struct cost_launch launch = {.function = function,
                                       .grid = {(unsigned)width, (unsigned)height}};
    LAUNCH(STATUS_launches_kernel, launch, stream, false,
           cuLaunchGridAsync(function, width, height, stream));
}

/* One launch on several devices, all or none: delayed and charged for the first device. */
CUresult hook_cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launches, unsigned count,
                                                   unsigned flags)
{
    if (!launches || count == 0)
        return process_enter()->calls.real.cuLaunchCooperativeKernelMultiDevice(launches, count,
                                                                                flags);
    const struct cost_launch launch = {
        .function = launches->function,
        .grid = {launches->gridDimX, launches->gridDimY, launches->gridDimZ},
        .block = {launches->blockDimX, launches->blockDimY, launches->blockDimZ},
    };
    LAUNCH(STATUS_launches_kernel, launch, launches->hStream, false,
           cuLaunchCooperativeKernelMultiDevice(launches, count, flags));
}
