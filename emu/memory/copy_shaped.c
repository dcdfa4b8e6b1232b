/* Copies of two and three dimensions, and copies from and to arrays (implemented in copy.c). */
#include "emu/memory/memory.h"

static CUDA_MEMCPY3D flat(const CUDA_MEMCPY2D *c)
{
    return (CUDA_MEMCPY3D){
        .srcXInBytes = c->srcXInBytes,
        .srcY = c->srcY,
        .srcMemoryType = c->srcMemoryType,
        .srcHost = c->srcHost,
        .srcDevice = c->srcDevice,
        .srcArray = c->srcArray,
        .srcPitch = c->srcPitch,
        .dstXInBytes = c->dstXInBytes,
        .dstY = c->dstY,
        .dstMemoryType = c->dstMemoryType,
        .dstHost = c->dstHost,
        .dstDevice = c->dstDevice,
        .dstArray = c->dstArray,
        .dstPitch = c->dstPitch,
        .WidthInBytes = c->WidthInBytes,
        .Height = c->Height,
        .Depth = 1,
    };
}

CUDA_API int cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *wanted)
{
    if (!wanted)
        return CUDA_ERROR_INVALID_VALUE;
    const CUDA_MEMCPY3D copy = flat(wanted);
    return copy_now(&copy);
}

CUDA_API int cuMemcpy2D_v2(const CUDA_MEMCPY2D *wanted)
{
    return cuMemcpy2DUnaligned_v2(wanted);
}

CUDA_API int cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *wanted, struct stream *stream)
{
    if (!wanted)
        return CUDA_ERROR_INVALID_VALUE;
    const CUDA_MEMCPY3D copy = flat(wanted);
    return copy_later(&copy, stream);
}

CUDA_API int cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy)
{
    return copy ? copy_now(copy) : CUDA_ERROR_INVALID_VALUE;
}

CUDA_API int cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, struct stream *stream)
{
    return copy ? copy_later(copy, stream) : CUDA_ERROR_INVALID_VALUE;
}

/* A copy between devices has the same form, with contexts in the reserved fields. */
CUDA_API int cuMemcpy3DPeer(const CUDA_MEMCPY3D *copy)
{
    return cuMemcpy3D_v2(copy);
}

CUDA_API int cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D *copy, struct stream *stream)
{
    return cuMemcpy3DAsync_v2(copy, stream);
}

static CUDA_MEMCPY3D host_to_array(struct array *to, size_t offset, const void *from, size_t bytes)
{
    CUDA_MEMCPY3D copy = copy_row(CUDA_MEMORY_ARRAY, CUDA_MEMORY_HOST, bytes);
    copy.dstArray = to;
    copy.dstXInBytes = offset;
    copy.srcHost = from;
    return copy;
}

static CUDA_MEMCPY3D array_to_host(void *to, struct array *from, size_t offset, size_t bytes)
{
    CUDA_MEMCPY3D copy = copy_row(CUDA_MEMORY_HOST, CUDA_MEMORY_ARRAY, bytes);
    copy.dstHost = to;
    copy.srcArray = from;
    copy.srcXInBytes = offset;
    return copy;
}

CUDA_API int cuMemcpyHtoA_v2(struct array *to, size_t offset, const void *from, size_t bytes)
{
    const CUDA_MEMCPY3D copy = host_to_array(to, offset, from, bytes);
    return copy_now(&copy);
}

CUDA_API int cuMemcpyHtoAAsync_v2(struct array *to, size_t offset, const void *from, size_t bytes,
                                  struct stream *stream)
{
    const CUDA_MEMCPY3D copy = host_to_array(to, offset, from, bytes);
    return copy_later(&copy, stream);
}

CUDA_API int cuMemcpyAtoH_v2(void *to, struct array *from, size_t offset, size_t bytes)
{
    const CUDA_MEMCPY3D copy = array_to_host(to, from, offset, bytes);
    return copy_now(&copy);
}

CUDA_API int cuMemcpyAtoHAsync_v2(void *to, struct array *from, size_t offset, size_t bytes,
                                  struct stream *stream)
{
    const CUDA_MEMCPY3D copy = array_to_host(to, from, offset, bytes);
    return copy_later(&copy, stream);
}

CUDA_API int cuMemcpyDtoA_v2(struct array *to, size_t offset, uint64_t from, size_t bytes)
{
    CUDA_MEMCPY3D copy = copy_row(CUDA_MEMORY_ARRAY, CUDA_MEMORY_DEVICE, bytes);
    copy.dstArray = to;
    copy.dstXInBytes = offset;
    copy.srcDevice = from;
    return copy_now(&copy);
}

CUDA_API int cuMemcpyAtoD_v2(uint64_t to, struct array *from, size_t offset, size_t bytes)
{
    CUDA_MEMCPY3D copy = copy_row(CUDA_MEMORY_DEVICE, CUDA_MEMORY_ARRAY, bytes);
    copy.dstDevice = to;
    copy.srcArray = from;
    copy.srcXInBytes = offset;
    return copy_now(&copy);
}

CUDA_API int cuMemcpyAtoA_v2(struct array *to, size_t to_offset, struct array *from,
                             size_t from_offset, size_t bytes)
{
    CUDA_MEMCPY3D copy = copy_row(CUDA_MEMORY_ARRAY, CUDA_MEMORY_ARRAY, bytes);
    copy.dstArray = to;
    copy.dstXInBytes = to_offset;
    copy.srcArray = from;
    copy.srcXInBytes = from_offset;
    return copy_now(&copy);
}
