#include "shim/memory/chunks.h"

#include <string.h>
#include <sys/mman.h>

#include "shim/memory/grants.h"
#include "shim/sys/fault_point.h"

enum {
    LOCATION_DEVICE = 1,
    TYPE_PINNED = 1,
    ACCESS_READ_WRITE = 3,
    CAPACITY_MIN = 256,
};

/* ---- the table ---- */

/* Returns the index of the first chunk behind the address. */
static size_t place_behind(const struct chunks *c, uint64_t address)
{
    size_t low = 0, high = c->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c->items[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns the chunk around the address, or NULL. Call under the lock. */
static struct chunk *find(const struct chunks *c, uint64_t address)
{
    size_t place = place_behind(c, address);
    struct chunk *chunk = place > 0 ? &c->items[place - 1] : NULL;
    return chunk && address - chunk->address < chunk->bytes ? chunk : NULL;
}

static bool has_room(struct chunks *c)
{
    if (c->count < c->capacity)
        return true;
    size_t capacity = c->capacity ? 2 * c->capacity : CAPACITY_MIN;
    if (capacity > CHUNKS_MAX)
        return false;
    struct chunk *items = sys_mmap(capacity * sizeof(*items), PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (!items)
        return false;
    if (c->items) {
        memcpy(items, c->items, c->count * sizeof(*items));
        (void)sys_munmap(c->items, c->capacity * sizeof(*items));
    }
    c->items = items;
    c->capacity = capacity;
    return true;
}

static void publish(struct process *p, const struct chunks *c, int device)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < c->count; i++)
        bytes += c->items[i].bytes;
    atomic_store(&p->client.status->movable_bytes[device], bytes);
}

static struct chunk *insert(struct process *p, struct chunks *c, const struct chunk *chunk,
                            int device)
{
    size_t place = place_behind(c, chunk->address);
    memmove(&c->items[place + 1], &c->items[place], (c->count - place) * sizeof(*chunk));
    c->items[place] = *chunk;
    c->count++;
    atomic_store(&c->present, c->count);
    publish(p, c, device);
    return &c->items[place];
}

static void take_out(struct process *p, struct chunks *c, size_t place, int device)
{
    c->count--;
    memmove(&c->items[place], &c->items[place + 1], (c->count - place) * sizeof(*c->items));
    atomic_store(&c->present, c->count);
    publish(p, c, device);
}

static int device_of(const struct chunks *c)
{
    return atomic_load_explicit(&c->device, memory_order_relaxed) - 1;
}

/* ---- device memory ---- */

CUresult chunk_create(struct process *p, const struct chunk *chunk,
                      CUmemGenericAllocationHandle *ret_handle)
{
    const CUmemAllocationProp wanted = {.type = TYPE_PINNED,
                                        .location = {.type = LOCATION_DEVICE, .id = chunk->number}};
    return p->calls.real.cuMemCreate(ret_handle, chunk->bytes, &wanted, 0);
}

CUresult chunk_map(struct process *p, const struct chunk *chunk,
                   CUmemGenericAllocationHandle handle)
{
    const CUmemAccessDesc access = {.location = {.type = LOCATION_DEVICE, .id = chunk->number},
                                    .flags = ACCESS_READ_WRITE};
    CUresult r = p->calls.real.cuMemMap(chunk->address, chunk->bytes, 0, handle, 0);
    if (r != CUDA_SUCCESS)
        return r;
    r = p->calls.real.cuMemSetAccess(chunk->address, chunk->bytes, &access, 1);
    if (r != CUDA_SUCCESS)
        (void)p->calls.real.cuMemUnmap(chunk->address, chunk->bytes);
    return r;
}

static CUresult make_memory(struct process *p, struct chunk *chunk)
{
    const struct real_calls *real = &p->calls.real;
    CUresult r =
        real->cuMemAddressReserve(&chunk->address, chunk->bytes, CHUNK_GRANULE_BYTES, 0, 0);
    if (r != CUDA_SUCCESS)
        return r;
    r = chunk_create(p, chunk, &chunk->handle);
    FAULT_POINT();
    if (r == CUDA_SUCCESS) {
        r = chunk_map(p, chunk, chunk->handle);
        if (r != CUDA_SUCCESS)
            (void)real->cuMemRelease(chunk->handle);
    }
    if (r != CUDA_SUCCESS)
        (void)real->cuMemAddressFree(chunk->address, chunk->bytes);
    return r;
}

/* Releases everything of a chunk that is no longer in the table. */
static CUresult drop(struct process *p, const struct chunk *chunk, int device)
{
    const struct real_calls *real = &p->calls.real;
    CUresult r = CUDA_SUCCESS;
    if (chunk->blocks)
        (void)sys_munmap(chunk->blocks, sizeof(*chunk->blocks));
    if (chunk->is_away) {
        (void)sys_munmap(chunk->host, chunk->bytes);
        atomic_fetch_sub(&p->client.status->away_bytes[device], chunk->bytes);
    } else {
        r = real->cuMemUnmap(chunk->address, chunk->bytes);
        (void)real->cuMemRelease(chunk->handle);
    }
    (void)real->cuMemAddressFree(chunk->address, chunk->bytes);
    FAULT_POINT();
    quota_release(&p->client, device, chunk->bytes);
    return r;
}

/* Returns whether the driver could wait for the context's work; a capture forbids the wait. */
static bool settle(struct process *p, uint64_t context)
{
    const struct real_calls *real = &p->calls.real;
    CUcontext popped;
    if (atomic_load(&p->launch->captures) > 0)
        return false;
    if (real->cuCtxPushCurrent_v2((CUcontext)(uintptr_t)context) != CUDA_SUCCESS)
        return true; /* the context has ended, with its work */
    (void)real->cuCtxSynchronize();
    (void)real->cuCtxPopCurrent_v2(&popped);
    return true;
}

/* Releases chunks that were freed during a capture. Call under the lock. */
static void bury(struct process *p, struct chunks *c)
{
    for (size_t i = c->count; c->dead_count > 0 && i-- > 0;) {
        const struct chunk chunk = c->items[i];
        if (!chunk.is_dead)
            continue;
        if (!settle(p, chunk.context))
            return;
        take_out(p, c, i, device_of(c));
        c->dead_count--;
        (void)drop(p, &chunk, device_of(c));
    }
}

/* ---- allocations ---- */

bool chunks_serve(struct process *p, int device)
{
    struct chunks *c = &p->chunks;
    if (__builtin_expect(atomic_load_explicit(&p->is_swappable, memory_order_relaxed) == 0, 1) ||
        device < 0 || atomic_load(&c->is_lacking))
        return false;
    int32_t none = 0;
    (void)atomic_compare_exchange_strong(&c->device, &none, device + 1);
    return device_of(c) == device;
}

static bool is_lacking(CUresult r)
{
    return r == CUDA_ERROR_NOT_SUPPORTED || r == CUDA_ERROR_STUB_LIBRARY ||
           r == CUDA_ERROR_NOT_FOUND;
}

/* Adds a chunk of so many bytes to the table. Call under the lock. */
static CUresult add_chunk(struct process *p, int device, const struct chunk *wanted,
                          struct chunk **ret_chunk)
{
    struct chunk chunk = *wanted;
    CUcontext context = NULL;
    if (p->calls.real.cuCtxGetDevice(&chunk.number) != CUDA_SUCCESS ||
        p->calls.real.cuCtxGetCurrent(&context) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_CONTEXT;
    chunk.context = (uint64_t)(uintptr_t)context;
    if (!grants_reserve(p, device, chunk.bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = make_memory(p, &chunk);
    if (r != CUDA_SUCCESS) {
        grants_give_back(p, r, device, chunk.bytes);
        return r;
    }
    *ret_chunk = insert(p, &p->chunks, &chunk, device);
    return CUDA_SUCCESS;
}

static uint32_t blocks_of(uint64_t bytes)
{
    return (uint32_t)((bytes + CHUNK_BLOCK_BYTES - 1) / CHUNK_BLOCK_BYTES);
}

/* Returns the first block of a gap of so many blocks, or CHUNK_BLOCKS. */
static uint32_t find_gap(const struct chunk_blocks *blocks, uint32_t wanted)
{
    uint32_t begin = 0;
    for (uint32_t i = 0; i < CHUNK_BLOCKS;) {
        uint32_t used = blocks_of(blocks->bytes[i]);
        i += used ? used : 1;
        if (used)
            begin = i;
        else if (i - begin >= wanted)
            return begin;
    }
    return CHUNK_BLOCKS;
}

/* Takes blocks from a shared chunk of the context, or from a new one. Call under the lock. */
static CUresult allocate_small(struct process *p, int device, uint64_t bytes, uint64_t *ret_address)
{
    struct chunks *c = &p->chunks;
    struct chunk *chunk = NULL;
    CUcontext context = NULL;
    uint32_t gap = CHUNK_BLOCKS;
    (void)p->calls.real.cuCtxGetCurrent(&context);
    for (size_t i = 0; i < c->count && gap == CHUNK_BLOCKS; i++) {
        chunk = &c->items[i];
        if (chunk->blocks && chunk->context == (uint64_t)(uintptr_t)context && !chunk->is_dead)
            gap = find_gap(chunk->blocks, blocks_of(bytes));
    }
    if (gap == CHUNK_BLOCKS) {
        struct chunk wanted = {.bytes = CHUNK_GRANULE_BYTES};
        wanted.blocks = sys_mmap(sizeof(*wanted.blocks), PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1);
        if (!wanted.blocks)
            return CUDA_ERROR_OUT_OF_MEMORY;
        CUresult r = add_chunk(p, device, &wanted, &chunk);
        if (r != CUDA_SUCCESS) {
            (void)sys_munmap(wanted.blocks, sizeof(*wanted.blocks));
            return r;
        }
        gap = 0;
    }
    chunk->blocks->bytes[gap] = (uint32_t)bytes;
    *ret_address = chunk->address + (uint64_t)gap * CHUNK_BLOCK_BYTES;
    return CUDA_SUCCESS;
}

static CUresult allocate_large(struct process *p, int device, uint64_t bytes, uint64_t *ret_address)
{
    const struct chunk wanted = {.bytes = (bytes + CHUNK_GRANULE_BYTES - 1) / CHUNK_GRANULE_BYTES *
                                          CHUNK_GRANULE_BYTES,
                                 .used_bytes = bytes};
    struct chunk *chunk;
    if (bytes > UINT64_MAX - CHUNK_GRANULE_BYTES)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = add_chunk(p, device, &wanted, &chunk);
    if (r == CUDA_SUCCESS)
        *ret_address = chunk->address;
    return r;
}

CUresult chunks_allocate(struct process *p, int device, uint64_t bytes, CUdeviceptr *ret_address,
                         bool *ret_is_plain)
{
    struct chunks *c = &p->chunks;
    uint64_t address = 0;
    CUresult r = CUDA_ERROR_NOT_SUPPORTED;
    *ret_is_plain = true;
    if (!swap_enter(p))
        return CUDA_ERROR_DEINITIALIZED;
    if (lock_enter(&c->lock)) {
        bury(p, c);
        if (has_room(c))
            r = bytes < CHUNK_SMALL_BYTES ? allocate_small(p, device, bytes, &address)
                                          : allocate_large(p, device, bytes, &address);
        if (is_lacking(r) && c->count == 0)
            atomic_store(&c->is_lacking, 1);
        lock_release(&c->lock);
    }
    swap_leave(p);
    *ret_is_plain = is_lacking(r);
    if (*ret_is_plain)
        process_count(p, STATUS_swap_unmovable, 1);
    if (r != CUDA_SUCCESS)
        return r;
    process_count(p, STATUS_allocations, 1);
    *ret_address = address;
    swap_start(p);
    return r;
}

/* ---- frees ---- */

static bool is_empty(const struct chunk_blocks *blocks)
{
    for (uint32_t i = 0; i < CHUNK_BLOCKS; i++)
        if (blocks->bytes[i])
            return false;
    return true;
}

/* Frees the allocation that begins at the address, inside the chunk. Call under the lock. */
static CUresult free_in(struct process *p, struct chunks *c, struct chunk *chunk, uint64_t address)
{
    uint64_t offset = address - chunk->address;
    bool is_there = chunk->blocks ? offset % CHUNK_BLOCK_BYTES == 0 &&
                                        chunk->blocks->bytes[offset / CHUNK_BLOCK_BYTES] > 0
                                  : offset == 0 && !chunk->is_dead;
    if (!is_there)
        return CUDA_ERROR_INVALID_VALUE;
    bool is_settled = settle(p, chunk->context);
    if (chunk->blocks) {
        chunk->blocks->bytes[offset / CHUNK_BLOCK_BYTES] = 0;
        if (!is_empty(chunk->blocks))
            return CUDA_SUCCESS;
    }
    if (!is_settled) {
        chunk->is_dead = true;
        c->dead_count++;
        return CUDA_SUCCESS;
    }
    const struct chunk gone = *chunk;
    take_out(p, c, (size_t)(chunk - c->items), device_of(c));
    return drop(p, &gone, device_of(c));
}

bool chunks_free(struct process *p, uint64_t address, CUresult *ret_result)
{
    struct chunks *c = &p->chunks;
    bool is_there = false;
    if (__builtin_expect(atomic_load_explicit(&c->present, memory_order_relaxed) == 0, 1))
        return false;
    if (!swap_enter(p)) {
        *ret_result = CUDA_ERROR_DEINITIALIZED;
        return true;
    }
    if (lock_enter(&c->lock)) {
        struct chunk *chunk = find(c, address);
        is_there = chunk != NULL;
        if (is_there)
            *ret_result = free_in(p, c, chunk, address);
        bury(p, c);
        lock_release(&c->lock);
    }
    swap_leave(p);
    return is_there;
}

void chunks_forget_context(struct process *p, CUcontext context)
{
    struct chunks *c = &p->chunks;
    if (!context || atomic_load(&c->present) == 0 || !lock_enter(&c->lock))
        return;
    for (size_t i = c->count; i-- > 0;) {
        const struct chunk chunk = c->items[i];
        if (chunk.context != (uint64_t)(uintptr_t)context)
            continue;
        c->dead_count -= chunk.is_dead;
        take_out(p, c, i, device_of(c));
        (void)drop(p, &chunk, device_of(c));
    }
    lock_release(&c->lock);
}

/* ---- queries ---- */

/* Finds the first block of the allocation around a block. */
static bool find_in_blocks(const struct chunk *chunk, uint64_t address, struct chunk_view *ret_view)
{
    uint32_t wanted = (uint32_t)((address - chunk->address) / CHUNK_BLOCK_BYTES);
    for (uint32_t i = wanted + 1; i-- > 0;) {
        uint32_t bytes = chunk->blocks->bytes[i];
        if (bytes == 0)
            continue;
        ret_view->begin = chunk->address + (uint64_t)i * CHUNK_BLOCK_BYTES;
        ret_view->bytes = bytes;
        return i + blocks_of(bytes) > wanted;
    }
    return false;
}

bool chunks_find(struct process *p, uint64_t address, struct chunk_view *ret_view)
{
    struct chunks *c = &p->chunks;
    bool is_there = false;
    if (__builtin_expect(atomic_load_explicit(&c->present, memory_order_relaxed) == 0, 1) ||
        !lock_enter(&c->lock))
        return false;
    const struct chunk *chunk = find(c, address);
    if (chunk) {
        *ret_view = (struct chunk_view){.begin = chunk->address,
                                        .bytes = chunk->used_bytes,
                                        .context = chunk->context,
                                        .device = chunk->number};
        is_there = chunk->blocks ? find_in_blocks(chunk, address, ret_view) : !chunk->is_dead;
    }
    lock_release(&c->lock);
    return is_there;
}

void chunks_reset(struct chunks *c)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->items[i].blocks)
            (void)sys_munmap(c->items[i].blocks, sizeof(*c->items[i].blocks));
    if (c->items)
        (void)sys_munmap(c->items, c->capacity * sizeof(*c->items));
    c->items = NULL;
    c->count = c->capacity = 0;
    c->dead_count = 0;
    lock_init(&c->lock);
    atomic_store(&c->present, 0);
    atomic_store(&c->device, 0);
    atomic_store(&c->is_lacking, 0);
}
