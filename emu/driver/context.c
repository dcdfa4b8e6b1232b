/* Contexts: making them, sharing a device's primary context, and making them current to threads. */
#include <stdlib.h>
#include <string.h>

#include "emu/device/client.h"
#include "emu/driver/driver.h"
#include "emu/graph/capture.h"
#include "emu/memory/array.h"
#include "emu/memory/memory.h"

int context_error(const struct context *context)
{
    return (int)atomic_load_explicit(&context_client(context)->sticky_error, memory_order_acquire);
}

int context_current(struct context **ret_context)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    const struct context_stack *stack = process_context_stack();
    struct context *top = stack->depth > 0 ? stack->contexts[stack->depth - 1] : NULL;
    if (!top)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (top->destroyed)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    int error = context_error(top);
    if (error != CUDA_SUCCESS)
        return error;
    *ret_context = top;
    return CUDA_SUCCESS;
}

struct emu_client *context_client(const struct context *context)
{
    const struct device *device = &context->visible->device;
    return &device->state->clients[device->own_slot];
}

/* Call under process.lock. */
static bool is_known(struct process *process, const struct context *context)
{
    list_for_each (it, &process->contexts) {
        if (list_entry(it, struct context, link) == context)
            return true;
    }
    return false;
}

/* Takes the process's slot on the device for its first context there. Call under process.lock. */
static int open_context(struct context *context)
{
    struct visible_device *visible = context->visible;
    if (visible->context_count == 0) {
        int r = visible->lost_error != CUDA_SUCCESS
                    ? visible->lost_error
                    : client_take(&visible->device, &visible->terms);
        if (r != CUDA_SUCCESS)
            return r;
        visible->opened++;
        atomic_fetch_or(&context->process->held_devices, UINT64_C(1) << context->ordinal);
        memset(visible->event_records, 0, sizeof(visible->event_records));
    }
    visible->context_count++;
    list_init(&context->streams);
    list_init(&context->events);
    list_init(&context->modules);
    list_init(&context->arrays);
    list_init(&context->mipmapped_arrays);
    context->opened++;
    context->id = process_next_id(context->process);
    stream_init(&context->legacy, context, 0, 0, CUDA_PRIORITY_LEAST);
    context->destroyed = false;
    return CUDA_SUCCESS;
}

/* Call under process.lock. */
static int make_context(struct process *process, unsigned ordinal, unsigned flags,
                        struct context **ret_context)
{
    struct context *context = calloc(1, sizeof(*context));
    if (!context)
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->magic = CONTEXT_MAGIC;
    context->process = process;
    context->ordinal = ordinal;
    context->flags = flags;
    context->visible = &process->devices[ordinal];
    int r = open_context(context);
    if (r != CUDA_SUCCESS) {
        free(context);
        return r;
    }
    list_append(&process->contexts, &context->link);
    *ret_context = context;
    return CUDA_SUCCESS;
}

/* Waits for the context's work first, as the real driver does. Call under process.lock. */
static void close_context(struct context *context)
{
    list_for_each (it, &context->streams) {
        struct stream *stream = list_entry(it, struct stream, link);
        stream_wait(context, stream->index, stream_tail(stream));
    }
    stream_wait(context, 0, stream_tail(&context->legacy));
    memory_discard_all(context);
    array_discard_all(context);
    stream_discard_all(context);
    event_discard_all(context);
    module_discard_all(context);
    pthread_mutex_destroy(&context->legacy.lock);
    pthread_mutex_destroy(&context->legacy.host_lock);
    context->destroyed = true;
    if (--context->visible->context_count > 0)
        return;
    /* The real driver lets a terminated process continue, but no process that had a fault. */
    int error = context_error(context);
    if (error != CUDA_ERROR_MPS_CLIENT_TERMINATED)
        context->visible->lost_error = error;
    atomic_fetch_and(&context->process->held_devices, ~(UINT64_C(1) << context->ordinal));
    client_release(&context->visible->device);
}

static int push(struct context *context)
{
    struct context_stack *stack = process_context_stack();
    if (stack->depth == CONTEXT_STACK_MAX)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack->contexts[stack->depth++] = context;
    return CUDA_SUCCESS;
}

CUDA_API int cuCtxCreate_v2(struct context **ret_context, unsigned flags, int ordinal)
{
    struct process *process;
    struct visible_device *visible;
    int r = process_device(ordinal, &process, &visible);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_context || (flags & ~(unsigned)CUDA_CONTEXT_FLAGS_ALL) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (process_context_stack()->depth == CONTEXT_STACK_MAX)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct context *context;
    pthread_mutex_lock(&process->lock);
    r = make_context(process, (unsigned)ordinal, flags, &context);
    pthread_mutex_unlock(&process->lock);
    if (r != CUDA_SUCCESS)
        return r;
    r = push(context);
    *ret_context = context;
    return r;
}

CUDA_API int cuCtxDestroy_v2(struct context *context)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process->lock);
    if (!is_known(process, context) || context->is_primary)
        r = CUDA_ERROR_INVALID_CONTEXT;
    else if (context->destroyed)
        r = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    else
        close_context(context);
    pthread_mutex_unlock(&process->lock);
    struct context_stack *stack = process_context_stack();
    if (r == CUDA_SUCCESS && stack->depth > 0 && stack->contexts[stack->depth - 1] == context)
        stack->depth--;
    return r;
}

CUDA_API int cuDevicePrimaryCtxRetain(struct context **ret_context, int ordinal)
{
    struct process *process;
    struct visible_device *visible;
    int r = process_device(ordinal, &process, &visible);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_context)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process->lock);
    if (!visible->primary) {
        r = make_context(process, (unsigned)ordinal, visible->primary_flags, &visible->primary);
        if (r == CUDA_SUCCESS)
            visible->primary->is_primary = true;
    } else if (visible->primary->destroyed) {
        visible->primary->flags = visible->primary_flags;
        r = open_context(visible->primary);
    }
    if (r == CUDA_SUCCESS) {
        visible->primary_references++;
        *ret_context = visible->primary;
    }
    pthread_mutex_unlock(&process->lock);
    return r;
}

CUDA_API int cuDevicePrimaryCtxRelease_v2(int ordinal)
{
    struct process *process;
    struct visible_device *visible;
    int r = process_device(ordinal, &process, &visible);
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&process->lock);
    if (visible->primary_references == 0)
        r = CUDA_ERROR_INVALID_CONTEXT;
    else if (--visible->primary_references == 0 && !visible->primary->destroyed)
        close_context(visible->primary);
    pthread_mutex_unlock(&process->lock);
    return r;
}

CUDA_API int cuDevicePrimaryCtxRelease(int ordinal)
{
    int r = cuDevicePrimaryCtxRelease_v2(ordinal);
    return r == CUDA_ERROR_INVALID_CONTEXT ? CUDA_SUCCESS : r; /* as the real driver */
}

CUDA_API int cuDevicePrimaryCtxReset_v2(int ordinal)
{
    struct process *process;
    struct visible_device *visible;
    int r = process_device(ordinal, &process, &visible);
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&process->lock);
    if (visible->primary && !visible->primary->destroyed)
        close_context(visible->primary);
    pthread_mutex_unlock(&process->lock);
    return r;
}

CUDA_API int cuDevicePrimaryCtxReset(int ordinal)
{
    return cuDevicePrimaryCtxReset_v2(ordinal);
}

CUDA_API int cuDevicePrimaryCtxGetState(int ordinal, unsigned *ret_flags, int *ret_active)
{
    struct process *process;
    struct visible_device *visible;
    int r = process_device(ordinal, &process, &visible);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_flags || !ret_active)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process->lock);
    *ret_flags = visible->primary_flags;
    *ret_active = visible->primary && !visible->primary->destroyed;
    pthread_mutex_unlock(&process->lock);
    return CUDA_SUCCESS;
}

CUDA_API int cuDevicePrimaryCtxSetFlags_v2(int ordinal, unsigned flags)
{
    struct process *process;
    struct visible_device *visible;
    int r = process_device(ordinal, &process, &visible);
    if (r != CUDA_SUCCESS)
        return r;
    if ((flags & ~(unsigned)CUDA_CONTEXT_FLAGS_ALL) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process->lock);
    visible->primary_flags = flags;
    pthread_mutex_unlock(&process->lock);
    return CUDA_SUCCESS;
}

CUDA_API int cuDevicePrimaryCtxSetFlags(int ordinal, unsigned flags)
{
    return cuDevicePrimaryCtxSetFlags_v2(ordinal, flags);
}

static int check_handle(struct context *context)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&process->lock);
    if (!is_known(process, context))
        r = CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_unlock(&process->lock);
    return r;
}

CUDA_API int cuCtxSetCurrent(struct context *context)
{
    struct process *process;
    int r = context ? check_handle(context) : process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    struct context_stack *stack = process_context_stack();
    if (stack->depth > 0)
        stack->depth--;
    return context ? push(context) : CUDA_SUCCESS;
}

CUDA_API int cuCtxGetCurrent(struct context **ret_context)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_context)
        return CUDA_ERROR_INVALID_VALUE;
    const struct context_stack *stack = process_context_stack();
    *ret_context = stack->depth > 0 ? stack->contexts[stack->depth - 1] : NULL;
    return CUDA_SUCCESS;
}

CUDA_API int cuCtxPushCurrent_v2(struct context *context)
{
    struct process *process;
    int r = context ? check_handle(context) : process_ready(&process);
    if (r == CUDA_SUCCESS && !context)
        r = CUDA_ERROR_INVALID_VALUE;
    return r == CUDA_SUCCESS ? push(context) : r;
}

CUDA_API int cuCtxPopCurrent_v2(struct context **ret_context)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    struct context_stack *stack = process_context_stack();
    if (stack->depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack->depth--;
    if (ret_context)
        *ret_context = stack->contexts[stack->depth];
    return CUDA_SUCCESS;
}

CUDA_API int cuCtxGetDevice(int *ret_ordinal)
{
    struct context *context;
    int r = context_current(&context);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_ordinal)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_ordinal = (int)context->ordinal;
    return CUDA_SUCCESS;
}

CUDA_API int cuCtxGetFlags(unsigned *ret_flags)
{
    struct context *context;
    int r = context_current(&context);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_flags)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_flags = context->flags;
    return CUDA_SUCCESS;
}

CUDA_API int cuCtxGetApiVersion(struct context *context, unsigned *ret_version)
{
    int r = context ? check_handle(context) : context_current(&context);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_version)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_version = 3020; /* version of the cuCtxCreate that made it */
    return CUDA_SUCCESS;
}

CUDA_API int cuCtxGetStreamPriorityRange(int *ret_least, int *ret_greatest)
{
    struct context *context;
    int r = context_current(&context);
    if (r != CUDA_SUCCESS)
        return r;
    if (ret_least)
        *ret_least = CUDA_PRIORITY_LEAST;
    if (ret_greatest)
        *ret_greatest = CUDA_PRIORITY_GREATEST;
    return CUDA_SUCCESS;
}

int context_resolve(struct context **context)
{
    int r = *context ? check_handle(*context) : context_current(context);
    return r == CUDA_SUCCESS && (*context)->destroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED : r;
}

/* Waits for every queue of the process on the device, including destroyed streams that are not
 * empty yet, and streams of other contexts there. */
int context_wait(struct context *context)
{
    int r = CUDA_SUCCESS;
    if (atomic_load(&context->process->capture_count) > 0) {
        r = capture_check_unsafe(context->process);
        if (r != CUDA_SUCCESS)
            return r;
    }
    struct device *device = &context->visible->device;
    const struct emu_client *client = context_client(context);
    uint64_t tails[EMU_STREAMS_MAX] = {0};
    device_lock(device);
    uint64_t used = client->streams_used;
    for (uint64_t left = used; left != 0; left &= left - 1) {
        unsigned index = (unsigned)__builtin_ctzll(left);
        tails[index] = atomic_load(&client->streams[index].tail);
    }
    device_unlock(device);
    for (uint64_t left = used; left != 0 && r == CUDA_SUCCESS; left &= left - 1) {
        unsigned index = (unsigned)__builtin_ctzll(left);
        r = stream_wait(context, index, tails[index]);
    }
    return r;
}

CUDA_API int cuCtxSynchronize(void)
{
    struct context *context;
    int r = context_current(&context);
    return r == CUDA_SUCCESS ? pool_synchronized(context, context_wait(context)) : r;
}

/* Parameters that ask for a part of the device, or for sharing it with graphics, are not
 * emulated. */
CUDA_API int cuCtxCreate_v4(struct context **ret_context, CUctxCreateParams *parameters,
                            unsigned flags, int ordinal)
{
    return parameters ? CUDA_ERROR_NOT_SUPPORTED : cuCtxCreate_v2(ret_context, flags, ordinal);
}

CUDA_API int cuCtxCreate_v3(struct context **ret_context, CUexecAffinityParam *parameters,
                            int count, unsigned flags, int ordinal)
{
    if (count != 0 || parameters)
        return CUDA_ERROR_NOT_SUPPORTED;
    return cuCtxCreate_v2(ret_context, flags, ordinal);
}
