/* Plain, pitched and managed device memory, and queries of free and total memory under the
 * quota. */
#include "shim/memory/grants.h"
#include "shim/memory/room.h"

enum { PITCH_BYTES = 512 }; /* rows begin at multiples of this, or of a divisor */

/* Returns the device on which a call in the current context allocates; DEVICES_NO_CONTEXT: the
 * driver reports the error. */
static int device_for(struct process *p, const void *ret_address, uint64_t bytes)
{
    return process_is_ready(p) && ret_address && bytes ? devices_current(p) : DEVICES_NO_CONTEXT;
}

/* Tries to allocate memory that can move (chunks.h). Returns false if the memory must be plain. */
static bool allocate_movable(struct process *p, int device, uint64_t bytes,
                             CUdeviceptr *ret_address, CUresult *ret_result)
{
    bool is_plain = true;
    if (chunks_serve(p, device))
        *ret_result = chunks_allocate(p, device, bytes, ret_address, &is_plain);
    return !is_plain;
}

#define MOVABLE(device)                                                                            \
    CUresult moved = CUDA_SUCCESS;                                                                 \
    if (allocate_movable(p, device, bytes, ret_address, &moved))                                   \
    return moved
#define UNMOVABLE(device)                                                                          \
    if (atomic_load_explicit(&p->is_swappable, memory_order_relaxed))                              \
    process_count(p, STATUS_swap_unmovable, 1)

/* The hook of one call that allocates so many bytes. */
#define DEFINE_ALLOCATE(symbol, parameters, arguments, move)                                       \
    CUresult hook_##symbol parameters                                                              \
    {                                                                                              \
        struct process *p = process_enter();                                                       \
        if (process_is_refused(p))                                                                 \
            return CUDA_ERROR_SYSTEM_NOT_READY;                                                    \
        int device = device_for(p, ret_address, bytes);                                            \
        if (device == DEVICES_NO_CONTEXT)                                                          \
            return p->calls.real.symbol arguments;                                                 \
        move(device);                                                                              \
        uint64_t charged = quota_charged(bytes);                                                   \
        if (!grants_reserve(p, device, charged))                                                   \
            return CUDA_ERROR_OUT_OF_MEMORY;                                                       \
        struct room_wait wait = {0};                                                               \
        CUresult r;                                                                                \
        do                                                                                         \
            r = p->calls.real.symbol arguments;                                                    \
        while (room_await(p, r, device, charged, &wait));                                          \
        return grants_end(p, r, r == CUDA_SUCCESS ? *ret_address : 0, device, charged);            \
    }

DEFINE_ALLOCATE(cuMemAlloc_v2, (CUdeviceptr * ret_address, size_t bytes), (ret_address, bytes),
                MOVABLE)
/* For programs older than CUDA 3.2. */
DEFINE_ALLOCATE(cuMemAlloc, (unsigned *ret_address, unsigned bytes), (ret_address, bytes),
                UNMOVABLE)
/* All managed memory counts: all of it may be on the device at the same time. */
DEFINE_ALLOCATE(cuMemAllocManaged, (CUdeviceptr * ret_address, size_t bytes, unsigned flags),
                (ret_address, bytes, flags), UNMOVABLE)

static uint64_t pitched_bytes(uint64_t pitch, uint64_t height)
{
    uint64_t bytes;
    return __builtin_mul_overflow(pitch, height, &bytes) ? UINT64_MAX : quota_charged(bytes);
}

/* Returns the longest row that the driver may choose. */
static uint64_t pitch_at_most(uint64_t width)
{
    uint64_t pitch;
    return __builtin_add_overflow(width, PITCH_BYTES - 1, &pitch)
               ? UINT64_MAX
               : pitch / PITCH_BYTES * PITCH_BYTES;
}

CUresult hook_cuMemAllocPitch_v2(CUdeviceptr *ret_address, size_t *ret_pitch, size_t width,
                                 size_t height, unsigned element_bytes)
{
    struct process *p = process_enter();
    if (process_is_refused(p))
        return CUDA_ERROR_SYSTEM_NOT_READY;
    int device = ret_pitch && height ? device_for(p, ret_address, width) : DEVICES_NO_CONTEXT;
    if (device == DEVICES_NO_CONTEXT)
        return p->calls.real.cuMemAllocPitch_v2(ret_address, ret_pitch, width, height,
                                                element_bytes);
    uint64_t pitch = pitch_at_most(width), bytes;
    CUresult moved = CUDA_SUCCESS;
    if ((element_bytes == 4 || element_bytes == 8 || element_bytes == 16) &&
        !__builtin_mul_overflow(pitch, height, &bytes) &&
        allocate_movable(p, device, bytes, ret_address, &moved)) {
        if (moved == CUDA_SUCCESS)
            *ret_pitch = pitch;
        return moved;
    }
    uint64_t reserved = pitched_bytes(pitch, height);
    if (!grants_reserve(p, device, reserved))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct room_wait wait = {0};
    CUresult r;
    do
        r = p->calls.real.cuMemAllocPitch_v2(ret_address, ret_pitch, width, height, element_bytes);
    while (room_await(p, r, device, reserved, &wait));
    uint64_t charged = r == CUDA_SUCCESS ? pitched_bytes(*ret_pitch, height) : reserved;
    if (!grants_adjust(p, device, reserved, charged)) {
        (void)p->calls.real.cuMemFree_v2(*ret_address);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return grants_end(p, r, r == CUDA_SUCCESS ? *ret_address : 0, device, charged);
}

CUresult hook_cuMemAllocPitch(unsigned *ret_address, unsigned *ret_pitch, unsigned width,
                              unsigned height, unsigned element_bytes)
{
    struct process *p = process_enter();
    if (process_is_refused(p))
        return CUDA_ERROR_SYSTEM_NOT_READY;
    int device = ret_pitch && height ? device_for(p, ret_address, width) : DEVICES_NO_CONTEXT;
    if (device == DEVICES_NO_CONTEXT)
        return p->calls.real.cuMemAllocPitch(ret_address, ret_pitch, width, height, element_bytes);
    uint64_t charged = pitched_bytes(pitch_at_most(width), height);
    if (!grants_reserve(p, device, charged))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r =
        p->calls.real.cuMemAllocPitch(ret_address, ret_pitch, width, height, element_bytes);
    return grants_end(p, r, r == CUDA_SUCCESS ? *ret_address : 0, device, charged);
}

/* Handles a free of other memory: a pool's or a graph's, which have their own accounts, or
 * unknown. */
static void note_other_free(struct process *p, uint64_t address, CUresult result)
{
    if (result == CUDA_SUCCESS && address && !pools_settle(p))
        process_count(p, STATUS_frees_unknown, 1);
}

#define DEFINE_FREE(symbol, type)                                                                  \
    CUresult hook_##symbol(type address)                                                           \
    {                                                                                              \
        struct process *p = process_enter();                                                       \
        struct allocation allocation;                                                              \
        CUresult r;                                                                                \
        if (!process_is_ready(p))                                                                  \
            return p->calls.real.symbol(address);                                                  \
        if (chunks_free(p, address, &r))                                                           \
            return r;                                                                              \
        bool is_known = grants_begin_free(p, address, &allocation);                                \
        r = p->calls.real.symbol(address);                                                         \
        if (is_known)                                                                              \
            grants_end_free(p, &allocation, r);                                                    \
        else                                                                                       \
            note_other_free(p, address, r);                                                        \
        return r;                                                                                  \
    }

DEFINE_FREE(cuMemFree_v2, CUdeviceptr)
DEFINE_FREE(cuMemFree, unsigned)

/* ---- free and total memory ---- */

/* Returns the quota on the current device after a successful query; no limit after any other. */
static struct quota_view view_after(struct process *p, CUresult r)
{
    if (r != CUDA_SUCCESS || !process_is_ready(p))
        return (struct quota_view){0};
    (void)pools_settle(p);
    return quota_view(&p->client, devices_current(p));
}

#define DEFINE_INFO(symbol, type)                                                                  \
    CUresult hook_##symbol(type *ret_free, type *ret_total)                                        \
    {                                                                                              \
        struct process *p = process_enter();                                                       \
        CUresult r = p->calls.real.symbol(ret_free, ret_total);                                    \
        struct quota_view view = view_after(p, r);                                                 \
        if (view.limit && ret_total && *ret_total > view.limit)                                    \
            *ret_total = (type)view.limit;                                                         \
        if (view.limit && ret_free && *ret_free > view.left)                                       \
            *ret_free = (type)view.left;                                                           \
        return r;                                                                                  \
    }

DEFINE_INFO(cuMemGetInfo_v2, size_t)
DEFINE_INFO(cuMemGetInfo, unsigned)

#define DEFINE_TOTAL(symbol, type)                                                                 \
    CUresult hook_##symbol(type *ret_bytes, CUdevice device)                                       \
    {                                                                                              \
        struct process *p = process_enter();                                                       \
        CUresult r = p->calls.real.symbol(ret_bytes, device);                                      \
        uint64_t limit = r == CUDA_SUCCESS && process_is_ready(p)                                  \
                             ? quota_limit(&p->client, devices_index(p, device))                   \
                             : 0;                                                                  \
        if (limit && ret_bytes && *ret_bytes > limit)                                              \
            *ret_bytes = (type)limit;                                                              \
        return r;                                                                                  \
    }

DEFINE_TOTAL(cuDeviceTotalMem_v2, size_t)
DEFINE_TOTAL(cuDeviceTotalMem, unsigned)
