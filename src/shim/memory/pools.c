#include "shim/memory/pools.h"
#include "shim/hook/capture.h"
#include "shim/memory/grants.h"
#include "shim/memory/room.h"
#include "shim/memory/graphs.h"
#include "shim/sys/fault_point.h"

enum { POOL_RESERVED = 5, POOL_USED = 7, LOCATION_DEVICE = 1 };

uint64_t pools_needed(uint64_t used, uint64_t reserved, uint64_t bytes)
{
    uint64_t wanted;
    if (__builtin_add_overflow(used, bytes, &wanted) || wanted > UINT64_MAX - POOLS_PIECE_BYTES)
        return UINT64_MAX;
    if (wanted <= reserved)
        return 0;
    return (wanted - reserved + POOLS_PIECE_BYTES - 1) / POOLS_PIECE_BYTES * POOLS_PIECE_BYTES;
}

/* ---- the known pools ---- */

static struct pool *find(struct pools *pools, CUmemoryPool handle)
{
    uint32_t count = atomic_load_explicit(&pools->count, memory_order_acquire);
    for (uint32_t i = 0; handle && i < count; i++) {
        if (atomic_load_explicit(&pools->places[i].handle, memory_order_acquire) == handle &&
            !atomic_load(&pools->places[i].is_destroyed))
            return &pools->places[i];
    }
    return NULL;
}

/* Returns NULL if there is no place. */
static struct pool *add(struct pools *pools, CUmemoryPool handle, int device)
{
    if (!lock_enter(&pools->lock))
        return NULL;
    struct pool *pool = find(pools, handle);
    uint32_t count = atomic_load(&pools->count), i = 0;
    while (!pool && i < count && atomic_load(&pools->places[i].handle))
        i++;
    if (!pool && i < POOLS_MAX) {
        pool = &pools->places[i];
        pool->device = device;
        pool->used_bytes_max = 0;
        atomic_store(&pool->counted_bytes, 0);
        atomic_store_explicit(&pool->handle, handle, memory_order_release);
        if (i == count)
            atomic_store_explicit(&pools->count, count + 1, memory_order_release);
    }
    lock_release(&pools->lock);
    return pool;
}

static bool has_room(struct pools *pools)
{
    uint32_t count = atomic_load(&pools->count);
    for (uint32_t i = 0; i < count; i++) {
        if (!atomic_load(&pools->places[i].handle))
            return true;
    }
    return count < POOLS_MAX;
}

/* A device's default pool is not created by a call: the shim finds it when it is first used. */
static struct pool *find_default(struct process *p, CUmemoryPool handle)
{
    CUmemoryPool of_device;
    int count = 0;
    (void)p->calls.real.cuDeviceGetCount(&count);
    for (CUdevice i = 0; i < count; i++) {
        if (p->calls.real.cuDeviceGetDefaultMemPool(&of_device, i) == CUDA_SUCCESS &&
            of_device == handle)
            return add(&p->pools, handle, devices_index(p, i));
    }
    return NULL;
}

void pools_reset(struct pools *pools)
{
    for (uint32_t i = 0; i < POOLS_MAX; i++)
        pools->places[i] = (struct pool){0};
    lock_init(&pools->lock);
    atomic_store(&pools->count, 0);
}

/* ---- the memory that pools hold ---- */

/* Returns `otherwise` if the driver fails. */
static uint64_t read_pool(struct process *p, const struct pool *pool, CUmemPool_attribute attribute,
                          uint64_t otherwise)
{
    uint64_t bytes = 0;
    CUmemoryPool handle = atomic_load_explicit(&pool->handle, memory_order_relaxed);
    CUresult r = p->calls.real.cuMemPoolGetAttribute(handle, attribute, &bytes);
    return r == CUDA_SUCCESS ? bytes : otherwise;
}

/* Sets the ledger to `now`, the bytes that the driver reports, under the pool's lock. `extra` is
 * reserved besides. */
static void commit_as(struct process *p, struct pool *pool, uint64_t extra, uint64_t now)
{
    uint64_t before = atomic_load(&pool->counted_bytes) + extra;
    FAULT_POINT();
    if (now > before)
        quota_force(&p->client, pool->device, now - before);
    else if (now < before)
        quota_release(&p->client, pool->device, before - now);
    atomic_store(&pool->counted_bytes, now);
    FAULT_POINT();
}

static void commit(struct process *p, struct pool *pool)
{
    uint64_t counted = atomic_load(&pool->counted_bytes);
    commit_as(p, pool, 0, read_pool(p, pool, POOL_RESERVED, counted));
}

static bool is_counted(const struct pool *pool)
{
    return atomic_load(&pool->handle) && pool->device >= 0 && !atomic_load(&pool->is_destroyed);
}

bool pools_settle(struct process *p)
{
    uint32_t count = atomic_load_explicit(&p->pools.count, memory_order_acquire);
    bool is_any = graphs_settle(p);
    for (uint32_t i = 0; i < count; i++) {
        struct pool *pool = &p->pools.places[i];
        if (!is_counted(pool) || atomic_load(&pool->counted_bytes) == 0)
            continue;
        is_any = true;
        if (!lock_enter(&pool->lock))
            continue;
        if (is_counted(pool))
            commit(p, pool);
        lock_release(&pool->lock);
    }
    return is_any;
}

/* Call under the pool's lock. */
static void trim(struct process *p, struct pool *pool)
{
    CUstreamCaptureMode mode = capture_relax(p);
    (void)p->calls.real.cuMemPoolTrimTo(atomic_load(&pool->handle), 0);
    capture_restore(p, mode);
    commit(p, pool);
}

/* A pool whose lock is taken is in a call of its own, maybe in this thread, and trims itself. */
bool pools_let_go(struct process *p, int device)
{
    uint32_t count = atomic_load_explicit(&p->pools.count, memory_order_acquire);
    bool is_any = graphs_let_go(p, device);
    for (uint32_t i = 0; i < count; i++) {
        struct pool *pool = &p->pools.places[i];
        if (!is_counted(pool) || pool->device != device || atomic_load(&pool->counted_bytes) == 0 ||
            !lock_try(&pool->lock))
            continue;
        is_any = true;
        if (is_counted(pool))
            trim(p, pool);
        lock_release(&pool->lock);
    }
    return is_any;
}

/* ---- allocations ---- */

struct request {
    CUdeviceptr *ret_address;
    size_t bytes;
    CUmemoryPool pool; /* NULL: the device's current pool */
    CUstream stream;
    bool is_per_thread; /* stream 0 is the per-thread default stream */
};

static CUresult allocate(struct process *p, const struct request *r)
{
    const struct real_calls *real = &p->calls.real;
    if (r->pool)
        return r->is_per_thread
                   ? real->cuMemAllocFromPoolAsync_ptsz(r->ret_address, r->bytes, r->pool,
                                                        r->stream)
                   : real->cuMemAllocFromPoolAsync(r->ret_address, r->bytes, r->pool, r->stream);
    return r->is_per_thread ? real->cuMemAllocAsync_ptsz(r->ret_address, r->bytes, r->stream)
                            : real->cuMemAllocAsync(r->ret_address, r->bytes, r->stream);
}

static void undo(struct process *p, const struct request *r)
{
    (void)(r->is_per_thread ? p->calls.real.cuMemFreeAsync_ptsz(*r->ret_address, r->stream)
                            : p->calls.real.cuMemFreeAsync(*r->ret_address, r->stream));
}

/* Returns the stream's handle for calls without a variant. */
static CUstream plain_stream(const struct request *r)
{
    return r->stream ? r->stream : r->is_per_thread ? STREAM_PER_THREAD : STREAM_LEGACY;
}

/* Returns NULL if the request is not counted: the driver refuses it, or its memory is on no
 * device. */
static struct pool *pool_of(struct process *p, const struct request *r)
{
    CUmemoryPool handle = r->pool;
    CUdevice device;
    if (!process_is_ready(p) || !r->ret_address || r->bytes == 0 ||
        capture_is_open(p, plain_stream(r)))
        return NULL;
    if (!handle) {
        int index = devices_of_stream(p, plain_stream(r), &device);
        if (index == DEVICES_NO_CONTEXT ||
            p->calls.real.cuDeviceGetMemPool(&handle, device) != CUDA_SUCCESS)
            return NULL;
        struct pool *pool = find(&p->pools, handle);
        return pool ? pool : add(&p->pools, handle, index);
    }
    struct pool *pool = find(&p->pools, handle);
    return pool ? pool : find_default(p, handle);
}

/*
 * Reserves the bytes that the pool may need, mostly none, under the pool's lock. The bytes last
 * counted are reserved for the pool, even if it holds less by now. The pool lends at most the bytes
 * last read plus all bytes lent since. The driver is asked only if these two bounds do not suffice.
 */
static bool reserve(struct process *p, struct pool *pool, uint64_t bytes, uint64_t *ret_needed)
{
    enum { KNOWN, ASKED, TRIMMED };
    for (int i = KNOWN; i <= TRIMMED; i++) {
        if (i == TRIMMED) {
            (void)pools_let_go(p, pool->device);
            trim(p, pool);
        }
        uint64_t counted = atomic_load(&pool->counted_bytes);
        if (i != KNOWN)
            pool->used_bytes_max = read_pool(p, pool, POOL_USED, counted);
        *ret_needed = pools_needed(pool->used_bytes_max, counted, bytes);
        if (*ret_needed == 0 ||
            (i != KNOWN && quota_reserve(&p->client, pool->device, *ret_needed)))
            return true;
    }
    process_count(p, STATUS_out_of_memory, 1);
    return false;
}

/* Records the piece's pool. The pool's account has its bytes. */
static void record_piece(struct process *p, struct pool *pool, CUdeviceptr address)
{
    const struct allocation piece = {.address = address,
                                     .value = (uint64_t)(pool - p->pools.places) + 1,
                                     .device = pool->device};
    process_count(p, STATUS_allocations, 1);
    if (allocations_add(&p->allocations, &piece))
        atomic_fetch_add(&pool->piece_count, 1);
    else
        process_count(p, STATUS_allocations_uncounted, 1);
}

/* Frees the place of a pool that holds no more memory, under the pool's lock. */
static void bury(struct process *p, struct pool *pool)
{
    quota_release(&p->client, pool->device, atomic_exchange(&pool->counted_bytes, 0));
    atomic_store(&pool->is_destroyed, 0);
    atomic_store(&pool->handle, NULL);
}

void pools_end_free(struct process *p, const struct allocation *piece)
{
    struct pool *pool = &p->pools.places[piece->value - 1];
    if (!lock_enter(&pool->lock))
        return; /* the piece stays recorded: a place is lost, but no byte */
    if (atomic_fetch_sub(&pool->piece_count, 1) == 1 && atomic_load(&pool->is_destroyed))
        bury(p, pool);
    lock_release(&pool->lock);
}

/* Allocates under the pool's lock. A fragmented pool may take more than was reserved: the excess
 * must fit, or the allocation is undone. */
static CUresult allocate_reserved(struct process *p, struct pool *pool, const struct request *q,
                                  uint64_t needed)
{
    struct room_wait wait = {0};
    CUresult r;
    do
        r = allocate(p, q);
    while (room_await(p, r, pool->device, needed > q->bytes ? needed : q->bytes, &wait));
    FAULT_POINT();
    uint64_t reserved = atomic_load(&pool->counted_bytes) + needed;
    uint64_t now = read_pool(p, pool, POOL_RESERVED, reserved);
    bool is_more = r == CUDA_SUCCESS && now > reserved;
    if (is_more && !quota_reserve(&p->client, pool->device, now - reserved)) {
        undo(p, q);
        commit_as(p, pool, needed, now);
        trim(p, pool);
        process_count(p, STATUS_out_of_memory, 1);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    commit_as(p, pool, is_more ? needed + (now - reserved) : needed, now);
    if (r == CUDA_SUCCESS) {
        pool->used_bytes_max += quota_charged(q->bytes);
        record_piece(p, pool, *q->ret_address);
    }
    return r;
}

static CUresult allocate_counted(const struct request *q)
{
    struct process *p = process_enter();
    uint64_t needed;
    if (process_is_refused(p))
        return CUDA_ERROR_SYSTEM_NOT_READY;
    struct pool *pool = pool_of(p, q);
    if (!pool || pool->device == DEVICES_NO_CONTEXT)
        return allocate(p, q);
    if (pool->device < 0 && p->client.limits->device_count > 0)
        return CUDA_ERROR_OUT_OF_MEMORY; /* the device is not one of the attempt's */
    if (!lock_enter(&pool->lock)) {
        process_count(p, STATUS_allocations_uncounted, 1);
        return allocate(p, q);
    }
    CUresult r = reserve(p, pool, quota_charged(q->bytes), &needed)
                     ? allocate_reserved(p, pool, q, needed)
                     : CUDA_ERROR_OUT_OF_MEMORY;
    lock_release(&pool->lock);
    return r;
}

CUresult hook_cuMemAllocAsync(CUdeviceptr *ret_address, size_t bytes, CUstream stream)
{
    return allocate_counted(&(struct request){ret_address, bytes, NULL, stream, false});
}

CUresult hook_cuMemAllocAsync_ptsz(CUdeviceptr *ret_address, size_t bytes, CUstream stream)
{
    return allocate_counted(&(struct request){ret_address, bytes, NULL, stream, true});
}

static CUresult allocate_from(const struct request *q)
{
    struct process *p = process_enter();
    if (q->pool)
        return allocate_counted(q);
    return q->is_per_thread
               ? p->calls.real.cuMemAllocFromPoolAsync_ptsz(q->ret_address, q->bytes, NULL,
                                                            q->stream)
               : p->calls.real.cuMemAllocFromPoolAsync(q->ret_address, q->bytes, NULL, q->stream);
}

CUresult hook_cuMemAllocFromPoolAsync(CUdeviceptr *ret_address, size_t bytes, CUmemoryPool pool,
                                      CUstream stream)
{
    return allocate_from(&(struct request){ret_address, bytes, pool, stream, false});
}

CUresult hook_cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *ret_address, size_t bytes,
                                           CUmemoryPool pool, CUstream stream)
{
    return allocate_from(&(struct request){ret_address, bytes, pool, stream, true});
}

/* cuMemFreeAsync may also free plain memory. */
static void end_free(struct process *p, const struct allocation *known, CUresult r)
{
    if (known->address)
        grants_end_free(p, known, r);
    else if (r == CUDA_SUCCESS)
        (void)pools_settle(p);
}

CUresult hook_cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    struct process *p = process_enter();
    struct allocation known = {0};
    CUresult r;
    if (!process_is_ready(p))
        return p->calls.real.cuMemFreeAsync(address, stream);
    if (chunks_free(p, address, &r))
        return r;
    (void)grants_begin_free(p, address, &known);
    r = p->calls.real.cuMemFreeAsync(address, stream);
    end_free(p, &known, r);
    return r;
}

CUresult hook_cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream)
{
    struct process *p = process_enter();
    struct allocation known = {0};
    CUresult r;
    if (!process_is_ready(p))
        return p->calls.real.cuMemFreeAsync_ptsz(address, stream);
    if (chunks_free(p, address, &r))
        return r;
    (void)grants_begin_free(p, address, &known);
    r = p->calls.real.cuMemFreeAsync_ptsz(address, stream);
    end_free(p, &known, r);
    return r;
}

/* ---- pools themselves ---- */

CUresult hook_cuMemPoolCreate(CUmemoryPool *ret_pool, const CUmemPoolProps *wanted)
{
    struct process *p = process_enter();
    if (process_is_refused(p))
        return CUDA_ERROR_SYSTEM_NOT_READY;
    bool is_ready = process_is_ready(p) && ret_pool && wanted;
    if (is_ready && !has_room(&p->pools))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = p->calls.real.cuMemPoolCreate(ret_pool, wanted);
    if (r != CUDA_SUCCESS || !is_ready)
        return r;
    int device = wanted->location.type == LOCATION_DEVICE ? devices_index(p, wanted->location.id)
                                                          : DEVICES_NO_CONTEXT;
    if (!add(&p->pools, *ret_pool, device)) {
        (void)p->calls.real.cuMemPoolDestroy(*ret_pool);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return r;
}

/* The program cannot use a destroyed pool, but the pool keeps lent memory until its last piece is
 * freed, and can no longer be queried. */
CUresult hook_cuMemPoolDestroy(CUmemoryPool handle)
{
    struct process *p = process_enter();
    struct pool *pool = process_is_ready(p) ? find(&p->pools, handle) : NULL;
    if (!pool)
        return p->calls.real.cuMemPoolDestroy(handle);
    lock_take(&pool->lock);
    uint64_t lent = read_pool(p, pool, POOL_USED, atomic_load(&pool->counted_bytes));
    CUresult r = p->calls.real.cuMemPoolDestroy(handle);
    FAULT_POINT();
    if (r == CUDA_SUCCESS) {
        uint64_t counted = atomic_load(&pool->counted_bytes);
        atomic_store(&pool->is_destroyed, 1);
        if (counted > lent) {
            quota_release(&p->client, pool->device, counted - lent);
            atomic_store(&pool->counted_bytes, lent);
        }
        if (atomic_load(&pool->piece_count) == 0)
            bury(p, pool);
    }
    lock_release(&pool->lock);
    return r;
}

CUresult hook_cuMemPoolTrimTo(CUmemoryPool handle, size_t keep_bytes)
{
    struct process *p = process_enter();
    CUresult r = p->calls.real.cuMemPoolTrimTo(handle, keep_bytes);
    if (r == CUDA_SUCCESS && process_is_ready(p))
        (void)pools_settle(p);
    return r;
}

/* A lower threshold lets the driver release memory soon. */
CUresult hook_cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
    struct process *p = process_enter();
    CUresult r = p->calls.real.cuMemPoolSetAttribute(handle, attribute, value);
    if (r == CUDA_SUCCESS && process_is_ready(p))
        (void)pools_settle(p);
    return r;
}
