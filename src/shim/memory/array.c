/*
 * Arrays under the quota. The driver does not document the layout of an array. The shim counts rows
 * of whole 64 bytes, and eights of rows where there are several; the agent measures the rest
 * (abi/page.h).
 */
#include "shim/memory/array.h"

#include "shim/memory/grants.h"

enum {
    FORMAT_U8 = 0x01,
    FORMAT_U16 = 0x02,
    FORMAT_S8 = 0x08,
    FORMAT_S16 = 0x09,
    FORMAT_HALF = 0x10,
    FORMAT_NV12 = 0xb0,
    ARRAY_LAYERED = 0x01,
    ARRAY_WITHOUT_MEMORY = 0x40 | 0x80, /* sparse, or mapped later: mapped memory counts instead */
    ROW_BYTES = 64,
    ROWS = 8,
};

static uint64_t multiply(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t round_up(uint64_t value, uint64_t to)
{
    return value > UINT64_MAX - to ? UINT64_MAX : (value + to - 1) / to * to;
}

/* Returns the size of one channel, or a lower bound. */
static uint64_t format_bytes(int format)
{
    switch (format) {
    case FORMAT_U8:
    case FORMAT_S8:
        return 1;
    case FORMAT_U16:
    case FORMAT_S16:
    case FORMAT_HALF:
    case FORMAT_NV12:
        return 2;
    default:
        return 4;
    }
}

static uint64_t element_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
    return multiply(format_bytes(shape->Format), shape->NumChannels);
}

uint64_t array_element_bytes(struct process *p, CUarray array)
{
    CUDA_ARRAY3D_DESCRIPTOR shape;
    return p->calls.real.cuArray3DGetDescriptor_v2(&shape, array) == CUDA_SUCCESS
               ? element_bytes(&shape)
               : 1;
}

static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
    uint64_t row = round_up(multiply(shape->Width, element_bytes(shape)), ROW_BYTES);
    uint64_t rows = shape->Height > 1 ? round_up(shape->Height, ROWS) : 1;
    return multiply(multiply(row, rows), shape->Depth > 1 ? shape->Depth : 1);
}

static uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned level_count)
{
    enum { LEVELS_MAX = 64 };
    CUDA_ARRAY3D_DESCRIPTOR level = *shape;
    uint64_t sum = 0;
    for (unsigned i = 0; i < level_count && i < LEVELS_MAX; i++) {
        if (__builtin_add_overflow(sum, level_bytes(&level), &sum))
            return UINT64_MAX;
        if (level.Width <= 1 && level.Height <= 1 && level.Depth <= 1)
            break;
        level.Width = level.Width > 1 ? level.Width / 2 : level.Width;
        level.Height = level.Height > 1 ? level.Height / 2 : level.Height;
        if (level.Depth > 1 && !(level.Flags & ARRAY_LAYERED))
            level.Depth /= 2;
    }
    return quota_charged(sum);
}

static uint64_t key_of(const void *handle)
{
    return (uint64_t)(uintptr_t)handle;
}

/* The reservation for an array, and its device; 0 bytes for a call that the driver refuses by
 * itself. */
struct reserve {
    uint64_t bytes;
    int device;
};

/* CUDA_SUCCESS: call the driver, then end() with its result. */
static CUresult begin(struct process *p, const void *ret_array,
                      const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned level_count,
                      struct reserve *ret_reserve)
{
    *ret_reserve = (struct reserve){.device = DEVICES_NO_CONTEXT};
    if (process_is_refused(p))
        return CUDA_ERROR_SYSTEM_NOT_READY;
    if (!process_is_ready(p) || !ret_array || !shape || (shape->Flags & ARRAY_WITHOUT_MEMORY) ||
        level_count == 0)
        return CUDA_SUCCESS;
    int device = devices_current(p);
    uint64_t bytes = device == DEVICES_NO_CONTEXT ? 0 : array_bytes(shape, level_count);
    if (bytes > 0 && !grants_reserve(p, device, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret_reserve = (struct reserve){.bytes = bytes, .device = device};
    return CUDA_SUCCESS;
}

static CUresult end(struct process *p, CUresult r, void *const *array,
                    const struct reserve *reserve)
{
    if (reserve->bytes == 0)
        return r;
    return grants_end(p, r, r == CUDA_SUCCESS ? key_of(*array) : 0, reserve->device,
                      reserve->bytes);
}

/* ---- the calls ---- */

CUresult hook_cuArray3DCreate_v2(CUarray *ret_array, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
    struct process *p = process_enter();
    struct reserve reserve;
    CUresult r = begin(p, ret_array, shape, 1, &reserve);
    if (r != CUDA_SUCCESS)
        return r;
    return end(p, p->calls.real.cuArray3DCreate_v2(ret_array, shape), (void **)ret_array, &reserve);
}

#define DEFINE_CREATE(symbol, descriptor)                                                          \
    CUresult hook_##symbol(CUarray *ret_array, const descriptor *flat)                             \
    {                                                                                              \
        struct process *p = process_enter();                                                       \
        struct reserve reserve;                                                                    \
        CUDA_ARRAY3D_DESCRIPTOR shape = {0};                                                       \
        if (flat)                                                                                  \
            shape = (CUDA_ARRAY3D_DESCRIPTOR){.Width = flat->Width,                                \
                                              .Height = flat->Height,                              \
                                              .Format = flat->Format,                              \
                                              .NumChannels = flat->NumChannels};                   \
        CUresult r = begin(p, ret_array, flat ? &shape : NULL, 1, &reserve);                       \
        if (r != CUDA_SUCCESS)                                                                     \
            return r;                                                                              \
        return end(p, p->calls.real.symbol(ret_array, flat), (void **)ret_array, &reserve);        \
    }

DEFINE_CREATE(cuArrayCreate_v2, CUDA_ARRAY_DESCRIPTOR)
DEFINE_CREATE(cuArrayCreate, CUDA_ARRAY_DESCRIPTOR_v1)

CUresult hook_cuArray3DCreate(CUarray *ret_array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *old)
{
    struct process *p = process_enter();
    struct reserve reserve;
    CUDA_ARRAY3D_DESCRIPTOR shape = {0};
    if (old)
        shape = (CUDA_ARRAY3D_DESCRIPTOR){old->Width,  old->Height,      old->Depth,
                                          old->Format, old->NumChannels, old->Flags};
    CUresult r = begin(p, ret_array, old ? &shape : NULL, 1, &reserve);
    if (r != CUDA_SUCCESS)
        return r;
    return end(p, p->calls.real.cuArray3DCreate(ret_array, old), (void **)ret_array, &reserve);
}

CUresult hook_cuMipmappedArrayCreate(CUmipmappedArray *ret_array,
                                     const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned level_count)
{
    struct process *p = process_enter();
    struct reserve reserve;
    CUresult r = begin(p, ret_array, shape, level_count, &reserve);
    if (r != CUDA_SUCCESS)
        return r;
    return end(p, p->calls.real.cuMipmappedArrayCreate(ret_array, shape, level_count),
               (void **)ret_array, &reserve);
}

#define DEFINE_DESTROY(symbol, type)                                                               \
    CUresult hook_##symbol(type array)                                                             \
    {                                                                                              \
        struct process *p = process_enter();                                                       \
        struct allocation allocation;                                                              \
        bool is_known = process_is_ready(p) && grants_begin_free(p, key_of(array), &allocation);   \
        CUresult r = p->calls.real.symbol(array);                                                  \
        if (is_known)                                                                              \
            grants_end_free(p, &allocation, r);                                                    \
        return r;                                                                                  \
    }

DEFINE_DESTROY(cuArrayDestroy, CUarray)
DEFINE_DESTROY(cuMipmappedArrayDestroy, CUmipmappedArray)
