#include "emu/driver/launch.h"

#include <string.h>

#include "base/str.h"
#include "emu/graph/capture.h"

enum {
    BURN_SM_PERMILLE,
    BURN_DRAM_PERMILLE,
    BURN_DURATION_NS,
    BURN_PARAMETERS_MIN,

    UNKNOWN_WAVE_NS = 10000,
    UNKNOWN_BLOCKS_PER_SM = 8,
    UNKNOWN_DRAM_PERMILLE = 100,
    THREADS_PER_BLOCK_MAX = 1024,
    THREADS_PER_SM_MAX = 2048,
    BLOCKS_PER_SM_MAX = 32,
    WARP_THREADS = 32,
};

bool launch_is_burn(const struct ptx_entry *entry)
{
    return str_equal(entry->name, "gpumux_burn") && entry->parameter_count >= BURN_PARAMETERS_MIN &&
           entry->parameters[BURN_SM_PERMILLE].bytes == sizeof(uint32_t) &&
           entry->parameters[BURN_DRAM_PERMILLE].bytes == sizeof(uint32_t) &&
           entry->parameters[BURN_DURATION_NS].bytes == sizeof(uint64_t);
}

bool launch_is_illegal(const struct ptx_entry *entry)
{
    return str_equal(entry->name, "gpumux_illegal_address");
}

static bool is_valid_grid(const CUDA_KERNEL_NODE_PARAMS *g)
{
    return g->gridDimX > 0 && g->gridDimY > 0 && g->gridDimZ > 0 && g->blockDimX > 0 &&
           g->blockDimY > 0 && g->blockDimZ > 0 && g->gridDimX <= INT32_MAX &&
           g->gridDimY <= UINT16_MAX && g->gridDimZ <= UINT16_MAX &&
           g->blockDimX <= THREADS_PER_BLOCK_MAX && g->blockDimY <= THREADS_PER_BLOCK_MAX &&
           g->blockDimZ <= 64 &&
           g->blockDimX * g->blockDimY * g->blockDimZ <= THREADS_PER_BLOCK_MAX;
}

/* Reads `extra`, a list of keys and values that gives one packed buffer instead of pointers. */
static int find_buffer(void **extra, const unsigned char **ret_buffer, size_t *ret_bytes)
{
    const unsigned char *buffer = NULL;
    size_t bytes = 0;
    for (unsigned i = 0; extra[i] != CUDA_LAUNCH_END; i += 2) {
        if (extra[i] == CUDA_LAUNCH_BUFFER_POINTER)
            buffer = extra[i + 1];
        else if (extra[i] == CUDA_LAUNCH_BUFFER_SIZE)
            memcpy(&bytes, extra[i + 1], sizeof(bytes));
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (!buffer)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_buffer = buffer;
    *ret_bytes = bytes;
    return CUDA_SUCCESS;
}

/* Returns the number of waves: blocks beyond one for each SM of the kernel's stated part run after
 * the first ones. `sms` is the number of SMs that the client sees: a program that was given a part
 * of the SMs launches fewer blocks for the same work. */
static uint64_t burn_waves(const CUDA_KERNEL_NODE_PARAMS *g, unsigned sms, unsigned sm_permille)
{
    uint64_t blocks = (uint64_t)g->gridDimX * g->gridDimY * g->gridDimZ;
    uint64_t at_once =
        (sms * sm_permille + CONTENTION_FULL_PERMILLE / 2) / CONTENTION_FULL_PERMILLE;
    uint64_t waves = at_once > 0 ? blocks / at_once : 1;
    return waves > 0 ? waves : 1;
}

/* Reads the first parameters of gpumux_burn in either form of arguments. */
static int read_burn(const CUDA_KERNEL_NODE_PARAMS *given, unsigned sms,
                     struct emu_entry *operation)
{
    const struct ptx_entry *entry = &given->func->entry;
    void **parameters = given->kernelParams, **extra = given->extra;
    const void *at[BURN_PARAMETERS_MIN];
    if (parameters) {
        for (unsigned i = 0; i < BURN_PARAMETERS_MIN; i++)
            at[i] = parameters[i];
    } else {
        const unsigned char *buffer;
        size_t bytes;
        int r = find_buffer(extra, &buffer, &bytes);
        if (r != CUDA_SUCCESS)
            return r;
        if (bytes < entry->buffer_bytes)
            return CUDA_ERROR_INVALID_VALUE;
        for (unsigned i = 0; i < BURN_PARAMETERS_MIN; i++)
            at[i] = buffer + entry->parameters[i].offset;
    }
    uint32_t sm_permille, dram_permille;
    uint64_t duration_ns;
    memcpy(&sm_permille, at[BURN_SM_PERMILLE], sizeof(sm_permille));
    memcpy(&dram_permille, at[BURN_DRAM_PERMILLE], sizeof(dram_permille));
    memcpy(&duration_ns, at[BURN_DURATION_NS], sizeof(duration_ns));
    if (sm_permille > CONTENTION_FULL_PERMILLE || dram_permille > CONTENTION_FULL_PERMILLE)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t waves = burn_waves(given, sms, sm_permille);
    if (duration_ns > CONTENTION_DURATION_NS_MAX / waves)
        return CUDA_ERROR_INVALID_VALUE;
    operation->sm_permille = (uint16_t)sm_permille;
    operation->dram_permille = (uint16_t)dram_permille;
    operation->duration_ns = waves * duration_ns;
    operation->block_ns = duration_ns < UINT32_MAX ? (uint32_t)duration_ns : UINT32_MAX;
    return CUDA_SUCCESS;
}

static void guess_cost(const CUDA_KERNEL_NODE_PARAMS *g, const struct emu_model *model,
                       struct emu_entry *operation)
{
    uint64_t blocks = (uint64_t)g->gridDimX * g->gridDimY * g->gridDimZ;
    uint64_t blocks_per_wave = (uint64_t)model->sms * UNKNOWN_BLOCKS_PER_SM;
    uint64_t waves = (blocks + blocks_per_wave - 1) / blocks_per_wave;
    uint64_t sm_permille = blocks >= model->sms
                               ? CONTENTION_FULL_PERMILLE
                               : (blocks * CONTENTION_FULL_PERMILLE + model->sms - 1) / model->sms;
    operation->sm_permille = (uint16_t)sm_permille;
    operation->dram_permille = UNKNOWN_DRAM_PERMILLE;
    operation->duration_ns = waves * UNKNOWN_WAVE_NS;
    operation->block_ns = UNKNOWN_WAVE_NS;
    if (operation->duration_ns > CONTENTION_DURATION_NS_MAX)
        operation->duration_ns = CONTENTION_DURATION_NS_MAX;
}

/* Returns the number of blocks with that many threads that an SM holds. Only threads count: a
 * kernel's registers are unknown. */
static unsigned blocks_per_sm(unsigned threads)
{
    unsigned whole_warps = (threads + WARP_THREADS - 1) / WARP_THREADS * WARP_THREADS;
    unsigned blocks = THREADS_PER_SM_MAX / whole_warps;
    return blocks < BLOCKS_PER_SM_MAX ? blocks : BLOCKS_PER_SM_MAX;
}

/* Returns whether all blocks of a cooperative launch can run at the same time. */
static bool is_resident(const CUDA_KERNEL_NODE_PARAMS *g, unsigned sms)
{
    uint64_t blocks = (uint64_t)g->gridDimX * g->gridDimY * g->gridDimZ;
    return blocks <= (uint64_t)sms * blocks_per_sm(g->blockDimX * g->blockDimY * g->blockDimZ);
}

int launch_prepare(const struct visible_device *visible, struct kernel_call *call)
{
    const CUDA_KERNEL_NODE_PARAMS *given = &call->as_given;
    const struct function *function = given->func;
    if (!function || function->magic != FUNCTION_MAGIC)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!is_valid_grid(given) || (given->kernelParams && given->extra) ||
        (function->entry.parameter_count > 0 && !given->kernelParams && !given->extra))
        return CUDA_ERROR_INVALID_VALUE;
    const struct emu_model *model = &visible->device.state->model;
    if (call->cooperative && !is_resident(given, visible->terms.sms))
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    call->cost = (struct emu_entry){.operation = EMU_RUN};
    if (function->is_illegal)
        call->cost.operation = EMU_FAULT;
    else if (function->is_burn)
        return read_burn(given, visible->terms.sms, &call->cost);
    else
        guess_cost(given, model, &call->cost);
    return CUDA_SUCCESS;
}

static int launch(struct stream *handle, struct kernel_call *call)
{
    struct stream *stream;
    int r = stream_resolve_capturing(handle, &stream);
    if (r == CUDA_SUCCESS)
        r = launch_prepare(stream->context->visible, call);
    if (r == CUDA_SUCCESS && !stream->capture)
        r = capture_check_legacy(stream);
    if (r != CUDA_SUCCESS)
        return r;
    if (!stream->capture)
        return stream_push(stream, &call->cost, NULL);
    const struct operation operation = {.type = CUDA_NODE_KERNEL, .kernel = *call};
    return capture_add(stream, &operation);
}

CUDA_API int cuLaunchKernel(struct function *function, unsigned grid_x, unsigned grid_y,
                            unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                            unsigned shared_bytes, struct stream *stream, void **parameters,
                            void **extra)
{
    struct kernel_call call = {
        .as_given = {function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                     parameters, extra, NULL, NULL},
    };
    return launch(stream, &call);
}

CUDA_API int cuLaunchCooperativeKernel(struct function *function, unsigned grid_x, unsigned grid_y,
                                       unsigned grid_z, unsigned block_x, unsigned block_y,
                                       unsigned block_z, unsigned shared_bytes,
                                       struct stream *stream, void **parameters)
{
    struct kernel_call call = {
        .as_given = {function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                     parameters, NULL, NULL, NULL},
        .cooperative = true,
    };
    return launch(stream, &call);
}

CUDA_API int cuLaunchKernelEx(const CUlaunchConfig *config, struct function *function,
                              void **parameters, void **extra)
{
    if (!config || (config->numAttrs > 0 && !config->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    int cooperative = 0;
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *attribute = &config->attrs[i];
        if (attribute->id == CUDA_LAUNCH_ATTRIBUTE_COOPERATIVE)
            memcpy(&cooperative, &attribute->value, sizeof(cooperative));
        else if (attribute->id != CUDA_LAUNCH_ATTRIBUTE_IGNORE &&
                 attribute->id != CUDA_LAUNCH_ATTRIBUTE_PRIORITY)
            return CUDA_ERROR_NOT_SUPPORTED;
    }
    struct kernel_call call = {
        .as_given = {function, config->gridDimX, config->gridDimY, config->gridDimZ,
                     config->blockDimX, config->blockDimY, config->blockDimZ,
                     config->sharedMemBytes, parameters, extra, NULL, NULL},
        .cooperative = cooperative != 0,
    };
    return launch(config->hStream, &call);
}

CUDA_API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *ret_blocks, struct function *function,
                                                         int threads, size_t shared_bytes)
{
    struct context *context;
    int r = context_current(&context);
    if (r != CUDA_SUCCESS)
        return r;
    if (!function || function->magic != FUNCTION_MAGIC)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!ret_blocks || threads <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (shared_bytes > 0)
        return CUDA_ERROR_NOT_SUPPORTED; /* shared memory is not modelled */
    *ret_blocks = threads > THREADS_PER_BLOCK_MAX ? 0 : (int)blocks_per_sm((unsigned)threads);
    return CUDA_SUCCESS;
}

CUDA_API int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *ret_blocks,
                                                                  struct function *function,
                                                                  int threads, size_t shared_bytes,
                                                                  unsigned flags)
{
    enum { DISABLE_CACHING_OVERRIDE = 1 };
    if (flags > DISABLE_CACHING_OVERRIDE)
        return CUDA_ERROR_INVALID_VALUE;
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(ret_blocks, function, threads, shared_bytes);
}

/* The largest block fills an SM as well as any other, since only threads count. */
CUDA_API int cuOccupancyMaxPotentialBlockSize(int *ret_min_blocks, int *ret_threads,
                                              struct function *function,
                                              size_t (*shared_bytes_of)(int), size_t shared_bytes,
                                              int threads_limit)
{
    struct context *context;
    int r = context_current(&context);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_min_blocks || !ret_threads || !function || function->magic != FUNCTION_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    int threads = threads_limit > 0 && threads_limit < THREADS_PER_BLOCK_MAX
                      ? threads_limit
                      : THREADS_PER_BLOCK_MAX;
    if (shared_bytes > 0 || (shared_bytes_of && shared_bytes_of(threads) > 0))
        return CUDA_ERROR_NOT_SUPPORTED; /* shared memory is not modelled */
    *ret_threads = threads;
    *ret_min_blocks = (int)(context->visible->terms.sms * blocks_per_sm((unsigned)threads));
    return CUDA_SUCCESS;
}
