/* Limits, flags and other facts about contexts, most of them stored without effect. */
#include "emu/driver/driver.h"
#include "emu/memory/memory.h"

enum {
    LIMIT_STACK = 0,
    LIMIT_PRINTF = 1,
    LIMIT_HEAP = 2,
    CACHE_CONFIG_LAST = 3,
};

/* Limits of a new context, as on an H200. */
static const size_t default_limits[CONTEXT_LIMITS] = {
    [LIMIT_STACK] = 1024,
    [LIMIT_PRINTF] = 7340032,
    [LIMIT_HEAP] = 8 << 20,
};

CUDA_API int cuCtxGetLimit(size_t *ret_value, int limit)
{
    struct context *context;
    int r = context_current(&context);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_value || limit < 0 || limit >= CONTEXT_LIMITS)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_value = context->limits[limit] > 0 ? context->limits[limit] : default_limits[limit];
    return CUDA_SUCCESS;
}

CUDA_API int cuCtxSetLimit(int limit, size_t value)
{
    struct context *context;
    int r = context_current(&context);
    if (r != CUDA_SUCCESS)
        return r;
    if (limit < 0 || limit >= CONTEXT_LIMITS)
        return CUDA_ERROR_INVALID_VALUE;
    context->limits[limit] = value;
    return CUDA_SUCCESS;
}

CUDA_API int cuCtxGetCacheConfig(int *ret_config)
{
    struct context *context;
    int r = context_current(&context);
    if (r == CUDA_SUCCESS && !ret_config)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *ret_config = context->cache_config;
    return r;
}

CUDA_API int cuCtxSetCacheConfig(int config)
{
    struct context *context;
    int r = context_current(&context);
    if (r == CUDA_SUCCESS && (config < 0 || config > CACHE_CONFIG_LAST))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        context->cache_config = config;
    return r;
}

CUDA_API int cuCtxSetFlags(unsigned flags)
{
    struct context *context;
    int r = context_current(&context);
    if (r == CUDA_SUCCESS && (flags & ~(unsigned)CUDA_CONTEXT_FLAGS_ALL) != 0)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        context->flags = flags;
    return r;
}

/* Returns a number that no other context of the process has had. */
CUDA_API int cuCtxGetId(struct context *context, unsigned long long *ret_id)
{
    int r = context_resolve(&context);
    if (r == CUDA_SUCCESS && !ret_id)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *ret_id = context->id;
    return r;
}

CUDA_API int cuCtxGetDevice_v2(int *ret_ordinal, struct context *context)
{
    int r = context_resolve(&context);
    if (r == CUDA_SUCCESS && !ret_ordinal)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *ret_ordinal = (int)context->ordinal;
    return r;
}

CUDA_API int cuCtxSynchronize_v2(struct context *context)
{
    int r = context_resolve(&context);
    return r == CUDA_SUCCESS ? pool_synchronized(context, context_wait(context)) : r;
}

/* There is no cache to reset. */
CUDA_API int cuCtxResetPersistingL2Cache(void)
{
    struct context *context;
    return context_current(&context);
}
