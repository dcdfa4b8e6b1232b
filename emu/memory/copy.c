/*
 * Copies. The bytes move during the call; the copy's time is queued in the stream like a kernel
 * that needs no SMs. Since no emulated kernel reads or writes memory, programs cannot see the
 * difference, and copies in one stream still happen in order. Every copy has up to three
 * dimensions; most have one.
 */
#include <string.h>

#include "emu/graph/capture.h"
#include "emu/memory/array.h"
#include "emu/memory/memory.h"

/* Queues the time for `bytes` at `gb_s`, as part of the device's memory traffic. 1 GB/s is a byte a
 * nanosecond. over_bus: the bytes that NVML counts, in that direction. */
static int spend(struct stream *stream, uint64_t bytes, uint32_t gb_s, uint64_t over_bus,
                 enum emu_direction direction, bool wait)
{
    const struct emu_model *model = &stream->context->visible->device.state->model;
    uint64_t duration_ns = (bytes + gb_s - 1) / gb_s;
    uint64_t full_ns = (bytes + model->dram_gb_s - 1) / model->dram_gb_s;
    uint64_t dram_permille = duration_ns > 0 ? full_ns * CONTENTION_FULL_PERMILLE / duration_ns : 0;
    if (duration_ns > CONTENTION_DURATION_NS_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    struct emu_entry entry = {
        .operation = EMU_RUN,
        .duration_ns = duration_ns,
        .value = over_bus,
        .target = (uint32_t)direction,
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

int copy_spend_host(struct stream *stream, uint64_t bytes, enum emu_direction direction)
{
    uint32_t gb_s = stream->context->visible->device.state->model.host_gb_s;
    return spend(stream, bytes, gb_s, bytes, direction, false);
}

int copy_spend_device(struct stream *stream, uint64_t bytes)
{
    uint32_t gb_s = stream->context->visible->device.state->model.dram_gb_s;
    return spend(stream, bytes, gb_s, 0, EMU_TO_DEVICE, false);
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
        return CUDA_ERROR_NOT_SUPPORTED; /* beyond the emulator's bound; never a false success */
    *ret_contents = at;
    return CUDA_SUCCESS;
}

/* One side of a copy, as in the call's arguments. */
struct side {
    int type; /* enum cuda_memory_type */
    void *host;
    uint64_t device;
    struct array *array;
    size_t x_bytes, y, z;
    size_t pitch, height;
};

/* One side of a copy, resolved: its first byte on the host, and the distances between rows and
 * between slices. */
struct place {
    unsigned char *at;
    size_t row_bytes, slice_bytes;
    bool is_on_device;
};

static struct side side_from(const CUDA_MEMCPY3D *c)
{
    return (struct side){c->srcMemoryType, (void *)(uintptr_t)c->srcHost,
                         c->srcDevice,     c->srcArray,
                         c->srcXInBytes,   c->srcY,
                         c->srcZ,          c->srcPitch,
                         c->srcHeight};
}

static struct side side_to(const CUDA_MEMCPY3D *c)
{
    return (struct side){c->dstMemoryType, c->dstHost, c->dstDevice, c->dstArray, c->dstXInBytes,
                         c->dstY,          c->dstZ,    c->dstPitch,  c->dstHeight};
}

/* Computes the distances between rows and slices; a distance that no byte of the copy depends on
 * may be missing. */
static int measure(const struct side *side, const CUDA_MEMCPY3D *copy, struct place *place)
{
    size_t width_bytes = copy->WidthInBytes;
    if (side->x_bytes > SIZE_MAX / 4 || width_bytes > SIZE_MAX / 4)
        return CUDA_ERROR_INVALID_VALUE;
    size_t needed_bytes = side->x_bytes + width_bytes;
    bool has_rows = copy->Height > 1 || copy->Depth > 1 || side->y > 0 || side->z > 0;
    place->row_bytes = side->pitch;
    if (place->row_bytes < needed_bytes) {
        if (has_rows && place->row_bytes != 0)
            return CUDA_ERROR_INVALID_VALUE;
        place->row_bytes = needed_bytes;
    }
    size_t rows = side->height > 0 ? side->height : side->y + copy->Height;
    if (copy->Depth > 1 && rows < side->y + copy->Height)
        return CUDA_ERROR_INVALID_VALUE;
    if (__builtin_mul_overflow(place->row_bytes, rows, &place->slice_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static int span_of(const struct place *place, const struct side *side, const CUDA_MEMCPY3D *copy,
                   size_t *ret_start, size_t *ret_bytes)
{
    size_t start, bytes, slices, rows;
    if (__builtin_mul_overflow(side->z, place->slice_bytes, &slices) ||
        __builtin_mul_overflow(side->y, place->row_bytes, &rows) ||
        __builtin_add_overflow(slices, rows, &start) ||
        __builtin_add_overflow(start, side->x_bytes, &start))
        return CUDA_ERROR_INVALID_VALUE;
    if (__builtin_mul_overflow(copy->Depth - 1, place->slice_bytes, &slices) ||
        __builtin_mul_overflow(copy->Height - 1, place->row_bytes, &rows) ||
        __builtin_add_overflow(slices, rows, &bytes) ||
        __builtin_add_overflow(bytes, copy->WidthInBytes, &bytes))
        return CUDA_ERROR_INVALID_VALUE;
    *ret_start = start;
    *ret_bytes = bytes;
    return CUDA_SUCCESS;
}

/* Resolves linear memory, of the host or of the device. Call under process.lock. */
static int find_linear(struct process *process, const struct side *side, const CUDA_MEMCPY3D *copy,
                       struct place *place)
{
    size_t start, bytes;
    int r = measure(side, copy, place);
    if (r == CUDA_SUCCESS)
        r = span_of(place, side, copy, &start, &bytes);
    if (r != CUDA_SUCCESS)
        return r;
    uint64_t address = side->device;
    bool is_device = side->type == CUDA_MEMORY_DEVICE;
    if (side->type == CUDA_MEMORY_UNIFIED)
        is_device = allocations_find(&process->allocations, address + start, bytes) != NULL;
    if (is_device) {
        place->is_on_device = true;
        return copy_contents(process, address + start, bytes, &place->at);
    }
    unsigned char *host =
        side->type == CUDA_MEMORY_UNIFIED ? (unsigned char *)(uintptr_t)address : side->host;
    if (!host)
        return CUDA_ERROR_INVALID_VALUE;
    place->at = host + start;
    return CUDA_SUCCESS;
}

/* Call under process.lock. */
static int find_place(struct process *process, const struct side *side, const CUDA_MEMCPY3D *copy,
                      struct place *place)
{
    *place = (struct place){0};
    if (side->type != CUDA_MEMORY_ARRAY) {
        bool is_known = side->type == CUDA_MEMORY_HOST || side->type == CUDA_MEMORY_DEVICE ||
                        side->type == CUDA_MEMORY_UNIFIED;
        return is_known ? find_linear(process, side, copy, place) : CUDA_ERROR_INVALID_VALUE;
    }
    const struct array_box box = {side->x_bytes,      side->y,      side->z,
                                  copy->WidthInBytes, copy->Height, copy->Depth};
    place->is_on_device = true;
    return array_find(side->array, &box, &place->at, &place->row_bytes, &place->slice_bytes);
}

static bool is_empty(const CUDA_MEMCPY3D *copy)
{
    return copy->WidthInBytes == 0 || copy->Height == 0 || copy->Depth == 0;
}

/* Call under process.lock. */
static int find_places(struct process *process, const CUDA_MEMCPY3D *copy, struct place *ret_from,
                       struct place *ret_to)
{
    const struct side from = side_from(copy), to = side_to(copy);
    if (copy->srcLOD != 0 || copy->dstLOD != 0)
        return CUDA_ERROR_INVALID_VALUE;
    int r = find_place(process, &to, copy, ret_to);
    return r == CUDA_SUCCESS ? find_place(process, &from, copy, ret_from) : r;
}

int copy_check(const CUDA_MEMCPY3D *copy)
{
    struct process *process;
    struct place from, to;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS || is_empty(copy))
        return r;
    pthread_mutex_lock(&process->lock);
    r = find_places(process, copy, &from, &to);
    pthread_mutex_unlock(&process->lock);
    return r;
}

static void move(const struct place *from, const struct place *to, const CUDA_MEMCPY3D *copy)
{
    for (size_t z = 0; z < copy->Depth; z++) {
        for (size_t y = 0; y < copy->Height; y++)
            memmove(to->at + z * to->slice_bytes + y * to->row_bytes,
                    from->at + z * from->slice_bytes + y * from->row_bytes, copy->WidthInBytes);
    }
}

int copy_run(struct stream *stream, const CUDA_MEMCPY3D *copy, bool wait)
{
    struct process *process = stream->context->process;
    struct place from, to;
    if (is_empty(copy))
        return CUDA_SUCCESS;
    pthread_mutex_lock(&process->lock);
    int r = find_places(process, copy, &from, &to);
    if (r == CUDA_SUCCESS)
        move(&from, &to, copy);
    pthread_mutex_unlock(&process->lock);
    if (r != CUDA_SUCCESS)
        return r;
    const struct emu_model *model = &stream->context->visible->device.state->model;
    uint64_t bytes = copy->WidthInBytes * copy->Height * copy->Depth;
    if (from.is_on_device && to.is_on_device) /* every byte is read and written */
        return spend(stream, 2 * bytes, model->dram_gb_s, 0, EMU_TO_DEVICE, false);
    if (!from.is_on_device && !to.is_on_device)
        return CUDA_SUCCESS;
    return spend(stream, bytes, model->host_gb_s, bytes,
                 to.is_on_device ? EMU_TO_DEVICE : EMU_FROM_DEVICE, wait);
}

int copy_now(const CUDA_MEMCPY3D *copy)
{
    struct stream *stream;
    int r = stream_resolve(NULL, &stream);
    if (r == CUDA_SUCCESS)
        r = capture_check_unsafe(stream->context->process);
    return r == CUDA_SUCCESS ? copy_run(stream, copy, true) : r;
}

int copy_later(const CUDA_MEMCPY3D *copy, struct stream *handle)
{
    struct stream *stream;
    int r = stream_resolve_capturing(handle, &stream);
    if (r == CUDA_SUCCESS && stream->capture)
        r = copy_check(copy);
    if (r != CUDA_SUCCESS || is_empty(copy))
        return r;
    const struct operation operation = {.type = CUDA_NODE_COPY, .copy = *copy};
    return operation_submit_to(stream, &operation);
}

CUDA_MEMCPY3D copy_row(int to_type, int from_type, size_t bytes)
{
    return (CUDA_MEMCPY3D){
        .dstMemoryType = to_type,
        .srcMemoryType = from_type,
        .WidthInBytes = bytes,
        .Height = 1,
        .Depth = 1,
    };
}

static CUDA_MEMCPY3D host_to_device(uint64_t to, const void *from, size_t bytes)
{
    CUDA_MEMCPY3D copy = copy_row(CUDA_MEMORY_DEVICE, CUDA_MEMORY_HOST, bytes);
    copy.dstDevice = to;
    copy.srcHost = from;
    return copy;
}

static CUDA_MEMCPY3D device_to_host(void *to, uint64_t from, size_t bytes)
{
    CUDA_MEMCPY3D copy = copy_row(CUDA_MEMORY_HOST, CUDA_MEMORY_DEVICE, bytes);
    copy.dstHost = to;
    copy.srcDevice = from;
    return copy;
}

static CUDA_MEMCPY3D between(uint64_t to, uint64_t from, size_t bytes, int type)
{
    CUDA_MEMCPY3D copy = copy_row(type, type, bytes);
    copy.dstDevice = to;
    copy.srcDevice = from;
    return copy;
}

CUDA_API int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
    const CUDA_MEMCPY3D copy = host_to_device(to, from, bytes);
    return copy_now(&copy);
}

CUDA_API int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, struct stream *s)
{
    const CUDA_MEMCPY3D copy = host_to_device(to, from, bytes);
    return copy_later(&copy, s);
}

CUDA_API int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
    const CUDA_MEMCPY3D copy = device_to_host(to, from, bytes);
    return copy_now(&copy);
}

CUDA_API int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, struct stream *s)
{
    const CUDA_MEMCPY3D copy = device_to_host(to, from, bytes);
    return copy_later(&copy, s);
}

CUDA_API int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t bytes)
{
    const CUDA_MEMCPY3D copy = between(to, from, bytes, CUDA_MEMORY_DEVICE);
    return copy_now(&copy);
}

CUDA_API int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, struct stream *s)
{
    const CUDA_MEMCPY3D copy = between(to, from, bytes, CUDA_MEMORY_DEVICE);
    return copy_later(&copy, s);
}

CUDA_API int cuMemcpy(uint64_t to, uint64_t from, size_t bytes)
{
    const CUDA_MEMCPY3D copy = between(to, from, bytes, CUDA_MEMORY_UNIFIED);
    return copy_now(&copy);
}

CUDA_API int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, struct stream *s)
{
    const CUDA_MEMCPY3D copy = between(to, from, bytes, CUDA_MEMORY_UNIFIED);
    return copy_later(&copy, s);
}

/* A copy between devices takes the time of the device whose stream it is in. */
CUDA_API int cuMemcpyPeer(uint64_t to, struct context *to_context, uint64_t from,
                          struct context *from_context, size_t bytes)
{
    if (!to_context || !from_context)
        return CUDA_ERROR_INVALID_CONTEXT;
    return cuMemcpyDtoD_v2(to, from, bytes);
}

CUDA_API int cuMemcpyPeerAsync(uint64_t to, struct context *to_context, uint64_t from,
                               struct context *from_context, size_t bytes, struct stream *s)
{
    if (!to_context || !from_context)
        return CUDA_ERROR_INVALID_CONTEXT;
    return cuMemcpyDtoDAsync_v2(to, from, bytes, s);
}
