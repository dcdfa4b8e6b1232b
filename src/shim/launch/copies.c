/*
 * Copies, by direction. A service handles a request by a copy to the device first, so such a copy
 * marks the service as busy. Before any other copy of a service its marks are written, since the
 * copy may tell the program that work is done. A task's large copies wait at the gate, and so do
 * its large fills, which are not counted.
 *
 * COPY_NAME gives the direction, bytes and stream of a copy in terms of its parameters a, b, c…;
 * `last` stands for the last parameter, since versions of a call have different numbers of
 * parameters before the stream.
 */
#include "shim/life/process.h"
#include "shim/memory/array.h"

enum direction { TO_DEVICE, TO_HOST, ON_DEVICE, OTHER, FILL };

enum { MEMORY_TYPE_HOST = 1, MEMORY_TYPE_UNIFIED = 4 };

static enum direction direction_of(int from, int to)
{
    if (from == MEMORY_TYPE_UNIFIED || to == MEMORY_TYPE_UNIFIED || from == to)
        return from == MEMORY_TYPE_HOST || from == MEMORY_TYPE_UNIFIED ? OTHER : ON_DEVICE;
    return from == MEMORY_TYPE_HOST ? TO_DEVICE : to == MEMORY_TYPE_HOST ? TO_HOST : ON_DEVICE;
}

#define SHAPE(copy)    ((copy) ? direction_of((copy)->srcMemoryType, (copy)->dstMemoryType) : OTHER)
#define BYTES_2D(copy) ((copy) ? (uint64_t)(copy)->WidthInBytes * (copy)->Height : 0)
#define BYTES_3D(copy) (BYTES_2D(copy) * ((copy) ? (copy)->Depth : 0))

static uint64_t bytes_of_batch(const size_t *sizes, size_t count)
{
    uint64_t bytes = 0;
    for (size_t i = 0; sizes && i < count; i++)
        bytes += sizes[i];
    return bytes;
}

/* The extent of a copy counts bytes between pointers, and elements of the array if there is one. */
static uint64_t bytes_of_element(const CUDA_MEMCPY3D_BATCH_OP *copy)
{
    const CUmemcpy3DOperand *array =
        copy->src.type == CU_MEMCPY_OPERAND_TYPE_ARRAY ? &copy->src : &copy->dst;
    return array->type == CU_MEMCPY_OPERAND_TYPE_ARRAY
               ? array_element_bytes(process_enter(), array->op.array.array)
               : 1;
}

static uint64_t bytes_of_batch_3d(const CUDA_MEMCPY3D_BATCH_OP *copies, size_t count)
{
    uint64_t bytes = 0;
    for (size_t i = 0; copies && i < count; i++) {
        const CUextent3D *extent = &copies[i].extent;
        bytes += bytes_of_element(&copies[i]) * extent->width * extent->height * extent->depth;
    }
    return bytes;
}

/* Bytes of a fill: the size of an element, times their number. */
#define BYTES_OF(size, width, height) ((uint64_t)(size) * (width) * (height))

#define COPY_cuMemcpy             OTHER, c, NULL
#define COPY_cuMemcpyAsync        OTHER, c, d
#define COPY_cuMemcpy2D           SHAPE(a), BYTES_2D(a), NULL
#define COPY_cuMemcpy2DAsync      SHAPE(a), BYTES_2D(a), b
#define COPY_cuMemcpy2DUnaligned  SHAPE(a), BYTES_2D(a), NULL
#define COPY_cuMemcpy3D           SHAPE(a), BYTES_3D(a), NULL
#define COPY_cuMemcpy3DAsync      SHAPE(a), BYTES_3D(a), b
#define COPY_cuMemcpy3DBatchAsync OTHER, bytes_of_batch_3d(b, a), last
#define COPY_cuMemcpy3DPeer       ON_DEVICE, BYTES_3D(a), NULL
#define COPY_cuMemcpy3DPeerAsync  ON_DEVICE, BYTES_3D(a), b
#define COPY_cuMemcpyAtoA         ON_DEVICE, e, NULL
#define COPY_cuMemcpyAtoD         ON_DEVICE, d, NULL
#define COPY_cuMemcpyAtoH         TO_HOST, d, NULL
#define COPY_cuMemcpyAtoHAsync    TO_HOST, d, e
#define COPY_cuMemcpyBatchAsync   OTHER, bytes_of_batch(c, d), last
#define COPY_cuMemcpyDtoA         ON_DEVICE, d, NULL
#define COPY_cuMemcpyDtoD         ON_DEVICE, c, NULL
#define COPY_cuMemcpyDtoDAsync    ON_DEVICE, c, d
#define COPY_cuMemcpyDtoH         TO_HOST, c, NULL
#define COPY_cuMemcpyDtoHAsync    TO_HOST, c, d
#define COPY_cuMemcpyHtoA         TO_DEVICE, d, NULL
#define COPY_cuMemcpyHtoAAsync    TO_DEVICE, d, e
#define COPY_cuMemcpyHtoD         TO_DEVICE, c, NULL
#define COPY_cuMemcpyHtoDAsync    TO_DEVICE, c, d
#define COPY_cuMemcpyPeer         ON_DEVICE, e, NULL
#define COPY_cuMemcpyPeerAsync    ON_DEVICE, e, f
#define COPY_cuMemsetD8           FILL, BYTES_OF(1, c, 1), NULL
#define COPY_cuMemsetD8Async      FILL, BYTES_OF(1, c, 1), d
#define COPY_cuMemsetD16          FILL, BYTES_OF(2, c, 1), NULL
#define COPY_cuMemsetD16Async     FILL, BYTES_OF(2, c, 1), d
#define COPY_cuMemsetD32          FILL, BYTES_OF(4, c, 1), NULL
#define COPY_cuMemsetD32Async     FILL, BYTES_OF(4, c, 1), d
#define COPY_cuMemsetD2D8         FILL, BYTES_OF(1, d, e), NULL
#define COPY_cuMemsetD2D8Async    FILL, BYTES_OF(1, d, e), f
#define COPY_cuMemsetD2D16        FILL, BYTES_OF(2, d, e), NULL
#define COPY_cuMemsetD2D16Async   FILL, BYTES_OF(2, d, e), f
#define COPY_cuMemsetD2D32        FILL, BYTES_OF(4, d, e), NULL
#define COPY_cuMemsetD2D32Async   FILL, BYTES_OF(4, d, e), f

/* A fill tells the program nothing, so a service's marks need not be written before it. */
static void begin_fill(struct process *p, uint64_t bytes, CUstream stream, bool is_per_thread)
{
    client_poll(&p->client, 1);
    if (bytes >= LAUNCH_COPY_BYTES_MIN && process_guards_launches(p) &&
        !atomic_load_explicit(&p->launch->is_service, memory_order_relaxed))
        launch_copy(p, bytes, stream, is_per_thread, false);
}

static void begin_copy(struct process *p, enum direction direction, uint64_t bytes, CUstream stream,
                       bool is_per_thread)
{
    client_poll(&p->client, process_count(p, STATUS_copies_to_device + direction, 1));
    process_count(p, STATUS_copied_to_device_bytes + direction, bytes);
    if (process_guards_launches(p))
        launch_copy(p, bytes, stream, is_per_thread, direction == TO_DEVICE);
}

static struct process *begin(enum direction direction, uint64_t bytes, CUstream stream,
                             bool is_per_thread)
{
    struct process *p = process_enter();
    if (!process_is_ready(p))
        return p;
    if (direction == FILL)
        begin_fill(p, bytes, stream, is_per_thread);
    else
        begin_copy(p, direction, bytes, stream, is_per_thread);
    exit_hold(p);
    return p;
}
_Static_assert(STATUS_copies_other - STATUS_copies_to_device == (int)OTHER &&
                   STATUS_copied_other_bytes - STATUS_copied_to_device_bytes == (int)OTHER,
               "counters are in the order of directions");

enum { variant_legacy = false, variant_ptds = true, variant_ptsz = true };

#define BEGIN(...) begin(__VA_ARGS__)
#define LAST(...)  CALL_OF_COUNT(LAST_, CALL_COUNT(__VA_ARGS__))
#define LAST_1     a
#define LAST_2     b
#define LAST_3     c
#define LAST_4     d
#define LAST_5     e
#define LAST_6     f
#define LAST_7     g
#define LAST_8     h
#define LAST_9     i
#define INTERCEPTED(how, symbol, name, version, variant, ...)                                      \
    HOOK_##how(symbol, name, variant, ##__VA_ARGS__)
#define USED(...)
#define HOOK_hook(...)
#define HOOK_pass(...)
#define HOOK_wait(...)
#define HOOK_copy(symbol, name, variant, ...)                                                      \
    CUresult hook_##symbol CALL_PARAMETERS(__VA_ARGS__)                                            \
    {                                                                                              \
        const CUstream last = (CUstream)(uintptr_t)LAST(__VA_ARGS__);                              \
        (void)last;                                                                                \
        struct process *p = BEGIN(COPY_##name, variant_##variant);                                 \
        if (!swap_enter(p))                                                                        \
            return CUDA_ERROR_DEINITIALIZED;                                                       \
        CUresult r = p->calls.real.symbol CALL_ARGUMENTS(__VA_ARGS__);                             \
        swap_leave(p);                                                                             \
        if (r == CUDA_SUCCESS && process_is_ready(p))                                              \
            launch_waited(p);                                                                      \
        return r;                                                                                  \
    }
#include "shim/hook/calls.def"
