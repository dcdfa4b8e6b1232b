/*
 * Copies and fills. The bytes move when the call is made; the time that it takes is queued in the
 * stream like a kernel that needs no SMs. As no emulated kernel reads or writes memory, nobody can
 * tell the difference, and calls in one stream still happen in their order.
 */
#include <string.h>

#include "emu/memory.h"

/* Queues the time for `bytes` at `gb_s`, as part of the device's memory traffic. 1 GB/s is a byte a
 * nanosecond. */
static int spend(struct stream *stream, uint64_t bytes, uint64_t traffic_bytes, uint32_t gb_s,
                 bool wait)
{
    const struct emu_model *model = &stream->context->visible->device.state->model;
    uint64_t duration_ns = (bytes + gb_s - 1) / gb_s;
    uint64_t full_ns = (traffic_bytes + model->dram_gb_s - 1) / model->dram_gb_s;
    uint64_t dram_permille = duration_ns > 0 ? full_ns * CONTENTION_FULL_PERMILLE / duration_ns : 0;
    if (duration_ns > CONTENTION_DURATION_NS_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    struct emu_entry entry = {
        .operation = EMU_RUN,
        .duration_ns = duration_ns,
        .dram_permille =
            (uint16_t)(dram_permille < CONTENTION_FULL_PERMILLE ? dram_permille
                                                                : CONTENTION_FULL_PERMILLE),
    };
    uint64_t position;
    int r = stream_push(stream, &entry, &position);
    if (r == CUDA_SUCCESS && wait)
        r = stream_wait(stream->context, stream->index, position);
    return r;
}

int copy_spend_host(struct stream *stream, uint64_t bytes)
{
    return spend(stream, bytes, bytes, stream->context->visible->device.state->model.host_gb_s,
                 false);
}

int copy_contents(struct process *process, uint64_t address, size_t bytes,
                  unsigned char **ret_contents)
{
    struct allocation *found = allocations_find(&process->allocations, address, bytes);
    if (!found && host_memory_holds(process, address, bytes)) {
        *ret_contents = (unsigned char *)(uintptr_t)address;
        return CUDA_SUCCESS;
    }
    if (!found)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned char *at = allocations_contents(&process->allocations, found, address);
    if (!at)
        return CUDA_ERROR_NOT_SUPPORTED; /* more than the emulator holds; never a false success */
    *ret_contents = at;
    return CUDA_SUCCESS;
}

static int host_to_device(uint64_t to, const void *from, size_t bytes, struct stream *handle,
                          bool wait)
{
    struct stream *stream;
    int r = stream_resolve(handle, &stream);
    if (r != CUDA_SUCCESS || bytes == 0)
        return r;
    if (!from)
        return CUDA_ERROR_INVALID_VALUE;
    struct process *process = stream->context->process;
    unsigned char *at;
    pthread_mutex_lock(&process->lock);
    r = copy_contents(process, to, bytes, &at);
    if (r == CUDA_SUCCESS)
        memcpy(at, from, bytes);
    pthread_mutex_unlock(&process->lock);
    if (r != CUDA_SUCCESS)
        return r;
    return spend(stream, bytes, bytes, stream->context->visible->device.state->model.host_gb_s,
                 wait);
}

static int device_to_host(void *to, uint64_t from, size_t bytes, struct stream *handle, bool wait)
{
    struct stream *stream;
    int r = stream_resolve(handle, &stream);
    if (r != CUDA_SUCCESS || bytes == 0)
        return r;
    if (!to)
        return CUDA_ERROR_INVALID_VALUE;
    struct process *process = stream->context->process;
    unsigned char *at;
    pthread_mutex_lock(&process->lock);
    r = copy_contents(process, from, bytes, &at);
    if (r == CUDA_SUCCESS)
        memcpy(to, at, bytes);
    pthread_mutex_unlock(&process->lock);
    if (r != CUDA_SUCCESS)
        return r;
    return spend(stream, bytes, bytes, stream->context->visible->device.state->model.host_gb_s,
                 wait);
}

static int device_to_device(uint64_t to, uint64_t from, size_t bytes, struct stream *handle)
{
    struct stream *stream;
    int r = stream_resolve(handle, &stream);
    if (r != CUDA_SUCCESS || bytes == 0)
        return r;
    struct process *process = stream->context->process;
    unsigned char *to_at, *from_at;
    pthread_mutex_lock(&process->lock);
    r = copy_contents(process, to, bytes, &to_at);
    if (r == CUDA_SUCCESS)
        r = copy_contents(process, from, bytes, &from_at);
    if (r == CUDA_SUCCESS)
        memmove(to_at, from_at, bytes);
    pthread_mutex_unlock(&process->lock);
    if (r != CUDA_SUCCESS)
        return r;
    /* Every byte is read and written. */
    return spend(stream, 2 * bytes, 2 * bytes,
                 stream->context->visible->device.state->model.dram_gb_s, false);
}

static int fill(uint64_t to, const void *pattern, size_t pattern_bytes, size_t count,
                struct stream *handle)
{
    struct stream *stream;
    int r = stream_resolve(handle, &stream);
    if (r != CUDA_SUCCESS || count == 0)
        return r;
    if (to % pattern_bytes != 0 || count > SIZE_MAX / pattern_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    size_t bytes = count * pattern_bytes;
    struct process *process = stream->context->process;
    unsigned char *at;
    pthread_mutex_lock(&process->lock);
    r = copy_contents(process, to, bytes, &at);
    if (r == CUDA_SUCCESS) {
        for (size_t i = 0; i < bytes; i += pattern_bytes)
            memcpy(at + i, pattern, pattern_bytes);
    }
    pthread_mutex_unlock(&process->lock);
    if (r != CUDA_SUCCESS)
        return r;
    return spend(stream, bytes, bytes, stream->context->visible->device.state->model.dram_gb_s,
                 false);
}

CUDA_API int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes);
CUDA_API int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
    return host_to_device(to, from, bytes, NULL, true);
}

CUDA_API int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, struct stream *s);
CUDA_API int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, struct stream *s)
{
    return host_to_device(to, from, bytes, s, false);
}

CUDA_API int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes);
CUDA_API int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
    return device_to_host(to, from, bytes, NULL, true);
}

CUDA_API int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, struct stream *s);
CUDA_API int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, struct stream *s)
{
    return device_to_host(to, from, bytes, s, false);
}

CUDA_API int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t bytes);
CUDA_API int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t bytes)
{
    return device_to_device(to, from, bytes, NULL);
}

CUDA_API int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, struct stream *s);
CUDA_API int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, struct stream *s)
{
    return device_to_device(to, from, bytes, s);
}

CUDA_API int cuMemsetD8_v2(uint64_t to, unsigned char value, size_t count);
CUDA_API int cuMemsetD8_v2(uint64_t to, unsigned char value, size_t count)
{
    return fill(to, &value, sizeof(value), count, NULL);
}

CUDA_API int cuMemsetD8Async(uint64_t to, unsigned char value, size_t count, struct stream *s);
CUDA_API int cuMemsetD8Async(uint64_t to, unsigned char value, size_t count, struct stream *s)
{
    return fill(to, &value, sizeof(value), count, s);
}

CUDA_API int cuMemsetD32_v2(uint64_t to, unsigned value, size_t count);
CUDA_API int cuMemsetD32_v2(uint64_t to, unsigned value, size_t count)
{
    return fill(to, &value, sizeof(value), count, NULL);
}

CUDA_API int cuMemsetD32Async(uint64_t to, unsigned value, size_t count, struct stream *s);
CUDA_API int cuMemsetD32Async(uint64_t to, unsigned value, size_t count, struct stream *s)
{
    return fill(to, &value, sizeof(value), count, s);
}
