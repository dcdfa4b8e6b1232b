/* Fills of device memory, in rows of elements of one, two or four bytes. Bytes change during the
 * call, as for copies (copy.c). */
#include <string.h>

#include "emu/graph/capture.h"
#include "emu/memory/memory.h"

static bool is_empty(const CUDA_MEMSET_NODE_PARAMS *fill)
{
    return fill->width == 0 || fill->height == 0;
}

/* Call under process.lock. */
static int find(struct process *process, const CUDA_MEMSET_NODE_PARAMS *fill,
                unsigned char **ret_at, size_t *ret_row_bytes)
{
    size_t row_bytes, before_bytes = 0, bytes;
    unsigned element = fill->elementSize;
    if ((element != 1 && element != 2 && element != 4) || fill->dst % element != 0 ||
        __builtin_mul_overflow(fill->width, (size_t)element, &row_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (fill->height > 1 && (fill->pitch < row_bytes || fill->pitch % element != 0))
        return CUDA_ERROR_INVALID_VALUE;
    if (fill->height > 1 && __builtin_mul_overflow(fill->height - 1, fill->pitch, &before_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (__builtin_add_overflow(before_bytes, row_bytes, &bytes))
        return CUDA_ERROR_INVALID_VALUE;
    *ret_row_bytes = row_bytes;
    return copy_contents(process, fill->dst, bytes, ret_at);
}

int fill_check(const CUDA_MEMSET_NODE_PARAMS *fill)
{
    struct process *process;
    unsigned char *at;
    size_t row_bytes;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&process->lock);
    r = find(process, fill, &at, &row_bytes);
    pthread_mutex_unlock(&process->lock);
    return r;
}

static void fill_row(unsigned char *at, size_t bytes, unsigned value, unsigned element_bytes)
{
    if (element_bytes == 1) {
        memset(at, (int)(value & 0xff), bytes);
        return;
    }
    for (size_t i = 0; i < bytes; i += element_bytes)
        memcpy(at + i, &value, element_bytes); /* the low bytes come first */
}

int fill_run(struct stream *stream, const CUDA_MEMSET_NODE_PARAMS *fill)
{
    struct process *process = stream->context->process;
    unsigned char *at;
    size_t row_bytes;
    if (is_empty(fill))
        return CUDA_SUCCESS;
    pthread_mutex_lock(&process->lock);
    int r = find(process, fill, &at, &row_bytes);
    for (size_t y = 0; y < fill->height && r == CUDA_SUCCESS; y++)
        fill_row(at + y * fill->pitch, row_bytes, fill->value, fill->elementSize);
    pthread_mutex_unlock(&process->lock);
    return r == CUDA_SUCCESS ? copy_spend_device(stream, row_bytes * fill->height) : r;
}

static int submit(const CUDA_MEMSET_NODE_PARAMS *fill, struct stream *handle)
{
    struct stream *stream;
    int r = stream_resolve_capturing(handle, &stream);
    if (r == CUDA_SUCCESS && stream->capture)
        r = fill_check(fill);
    if (r != CUDA_SUCCESS || is_empty(fill))
        return r;
    const struct operation operation = {.type = CUDA_NODE_FILL, .fill = *fill};
    return operation_submit_to(stream, &operation);
}

/* Calls without a stream use the default stream, and do not wait either. */
#define FILL(bits, suffix, type)                                                                   \
    CUDA_API int cuMemsetD##bits##suffix(uint64_t to, type value, size_t count)                    \
    {                                                                                              \
        const CUDA_MEMSET_NODE_PARAMS fill = {to, 0, value, (bits) / 8, count, 1};                 \
        return submit(&fill, NULL);                                                                \
    }                                                                                              \
    CUDA_API int cuMemsetD##bits##Async(uint64_t to, type value, size_t count, struct stream *s)   \
    {                                                                                              \
        const CUDA_MEMSET_NODE_PARAMS fill = {to, 0, value, (bits) / 8, count, 1};                 \
        return submit(&fill, s);                                                                   \
    }                                                                                              \
    CUDA_API int cuMemsetD2D##bits##suffix(uint64_t to, size_t pitch, type value, size_t width,    \
                                           size_t height)                                          \
    {                                                                                              \
        const CUDA_MEMSET_NODE_PARAMS fill = {to, pitch, value, (bits) / 8, width, height};        \
        return submit(&fill, NULL);                                                                \
    }                                                                                              \
    CUDA_API int cuMemsetD2D##bits##Async(uint64_t to, size_t pitch, type value, size_t width,     \
                                          size_t height, struct stream *s)                         \
    {                                                                                              \
        const CUDA_MEMSET_NODE_PARAMS fill = {to, pitch, value, (bits) / 8, width, height};        \
        return submit(&fill, s);                                                                   \
    }
FILL(8, _v2, unsigned char)
FILL(16, _v2, unsigned short)
FILL(32, _v2, unsigned)
