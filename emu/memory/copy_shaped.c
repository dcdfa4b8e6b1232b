/* Copies of two and three dimensions, and copies from and to arrays (implemented in copy.c). */
#include "emu/memory/memory.h"

static struct cuda_copy_3d flat(const struct cuda_copy_2d *c)
{
    return (struct cuda_copy_3d){
        .from_x_bytes = c->from_x_bytes,
        .from_y = c->from_y,
        .from_type = c->from_type,
        .from_host = c->from_host,
        .from_device = c->from_device,
        .from_array = c->from_array,
        .from_pitch = c->from_pitch,
        .to_x_bytes = c->to_x_bytes,
        .to_y = c->to_y,
        .to_type = c->to_type,
        .to_host = c->to_host,
        .to_device = c->to_device,
        .to_array = c->to_array,
        .to_pitch = c->to_pitch,
        .width_bytes = c->width_bytes,
        .height = c->height,
        .depth = 1,
    };
}

CUDA_API int cuMemcpy2DUnaligned_v2(const struct cuda_copy_2d *wanted)
{
    if (!wanted)
        return CUDA_ERROR_INVALID_VALUE;
    const struct cuda_copy_3d copy = flat(wanted);
    return copy_now(&copy);
}

CUDA_API int cuMemcpy2D_v2(const struct cuda_copy_2d *wanted)
{
    return cuMemcpy2DUnaligned_v2(wanted);
}

CUDA_API int cuMemcpy2DAsync_v2(const struct cuda_copy_2d *wanted, struct stream *stream)
{
    if (!wanted)
        return CUDA_ERROR_INVALID_VALUE;
    const struct cuda_copy_3d copy = flat(wanted);
    return copy_later(&copy, stream);
}

CUDA_API int cuMemcpy3D_v2(const struct cuda_copy_3d *copy)
{
    return copy ? copy_now(copy) : CUDA_ERROR_INVALID_VALUE;
}

CUDA_API int cuMemcpy3DAsync_v2(const struct cuda_copy_3d *copy, struct stream *stream)
{
    return copy ? copy_later(copy, stream) : CUDA_ERROR_INVALID_VALUE;
}

/* A copy between devices has the same form, with contexts in the reserved fields. */
CUDA_API int cuMemcpy3DPeer(const struct cuda_copy_3d *copy)
{
    return cuMemcpy3D_v2(copy);
}

CUDA_API int cuMemcpy3DPeerAsync(const struct cuda_copy_3d *copy, struct stream *stream)
{
    return cuMemcpy3DAsync_v2(copy, stream);
}

static struct cuda_copy_3d host_to_array(struct array *to, size_t offset, const void *from,
                                         size_t bytes)
{
    struct cuda_copy_3d copy = copy_row(CUDA_MEMORY_ARRAY, CUDA_MEMORY_HOST, bytes);
    copy.to_array = to;
    copy.to_x_bytes = offset;
    copy.from_host = from;
    return copy;
}

static struct cuda_copy_3d array_to_host(void *to, struct array *from, size_t offset, size_t bytes)
{
    struct cuda_copy_3d copy = copy_row(CUDA_MEMORY_HOST, CUDA_MEMORY_ARRAY, bytes);
    copy.to_host = to;
    copy.from_array = from;
    copy.from_x_bytes = offset;
    return copy;
}

CUDA_API int cuMemcpyHtoA_v2(struct array *to, size_t offset, const void *from, size_t bytes)
{
    const struct cuda_copy_3d copy = host_to_array(to, offset, from, bytes);
    return copy_now(&copy);
}

CUDA_API int cuMemcpyHtoAAsync_v2(struct array *to, size_t offset, const void *from, size_t bytes,
                                  struct stream *stream)
{
    const struct cuda_copy_3d copy = host_to_array(to, offset, from, bytes);
    return copy_later(&copy, stream);
}

CUDA_API int cuMemcpyAtoH_v2(void *to, struct array *from, size_t offset, size_t bytes)
{
    const struct cuda_copy_3d copy = array_to_host(to, from, offset, bytes);
    return copy_now(&copy);
}

CUDA_API int cuMemcpyAtoHAsync_v2(void *to, struct array *from, size_t offset, size_t bytes,
                                  struct stream *stream)
{
    const struct cuda_copy_3d copy = array_to_host(to, from, offset, bytes);
    return copy_later(&copy, stream);
}

CUDA_API int cuMemcpyDtoA_v2(struct array *to, size_t offset, uint64_t from, size_t bytes)
{
    struct cuda_copy_3d copy = copy_row(CUDA_MEMORY_ARRAY, CUDA_MEMORY_DEVICE, bytes);
    copy.to_array = to;
    copy.to_x_bytes = offset;
    copy.from_device = from;
    return copy_now(&copy);
}

CUDA_API int cuMemcpyAtoD_v2(uint64_t to, struct array *from, size_t offset, size_t bytes)
{
    struct cuda_copy_3d copy = copy_row(CUDA_MEMORY_DEVICE, CUDA_MEMORY_ARRAY, bytes);
    copy.to_device = to;
    copy.from_array = from;
    copy.from_x_bytes = offset;
    return copy_now(&copy);
}

CUDA_API int cuMemcpyAtoA_v2(struct array *to, size_t to_offset, struct array *from,
                             size_t from_offset, size_t bytes)
{
    struct cuda_copy_3d copy = copy_row(CUDA_MEMORY_ARRAY, CUDA_MEMORY_ARRAY, bytes);
    copy.to_array = to;
    copy.to_x_bytes = to_offset;
    copy.from_array = from;
    copy.from_x_bytes = from_offset;
    return copy_now(&copy);
}
