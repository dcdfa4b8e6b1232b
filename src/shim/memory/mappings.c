#include "shim/memory/mappings.h"
#include "shim/memory/grants.h"
#include "shim/memory/room.h"
#include "shim/sys/fault_point.h"

enum { LOCATION_DEVICE = 1 };

/* ---- references, under the lock ---- */

/* Changes the number of references by one. Returns true with the memory if the last one is gone;
 * the caller then returns its bytes. */
static bool change_references(struct mappings *m, uint64_t number, int change,
                              struct allocation *ret_memory)
{
    struct allocation memory;
    if (!allocations_take(&m->memories, number, &memory))
        return false;
    memory.value += (uint64_t)(int64_t)change;
    *ret_memory = memory;
    if (memory.value == 0)
        return true;
    (void)allocations_add(&m->memories, &memory); /* cannot fail: the old place is free */
    return false;
}

/* Takes one release off the handle. Returns the number of its memory, or 0 if the handle is
 * unknown. */
static uint64_t take_handle(struct mappings *m, uint64_t handle)
{
    struct allocation found;
    if (!allocations_take(&m->handles, handle, &found))
        return 0;
    if (--found.bytes > 0)
        (void)allocations_add(&m->handles, &found);
    return found.value;
}

static bool add_handle(struct mappings *m, uint64_t handle, uint64_t number)
{
    struct allocation found = {.address = handle, .value = number};
    (void)allocations_take(&m->handles, handle, &found);
    found.bytes++;
    return allocations_add(&m->handles, &found);
}

static void give_back(struct process *p, const struct allocation *memory)
{
    FAULT_POINT();
    quota_release(&p->client, memory->device, memory->bytes);
}

static void drop_reference(struct process *p, uint64_t number)
{
    struct allocation memory;
    if (!lock_enter(&p->mappings.lock))
        return; /* it stays counted */
    bool is_gone = change_references(&p->mappings, number, -1, &memory);
    lock_release(&p->mappings.lock);
    if (is_gone)
        give_back(p, &memory);
}

void mappings_reset(struct mappings *m)
{
    allocations_reset(&m->memories);
    allocations_reset(&m->handles);
    allocations_reset(&m->ranges);
    *m = (struct mappings){0};
}

/* ---- handles ---- */

static void record_memory(struct process *p, uint64_t handle, int device, uint64_t bytes)
{
    struct mappings *m = &p->mappings;
    bool is_recorded = false;
    if (lock_enter(&m->lock)) {
        const struct allocation memory = {
            .address = ++m->last_number, .bytes = bytes, .value = 1, .device = device};
        is_recorded =
            allocations_add(&m->memories, &memory) && add_handle(m, handle, memory.address);
        lock_release(&m->lock);
    }
    process_count(p, STATUS_allocations, 1);
    if (is_recorded)
        return;
    process_count(p, STATUS_allocations_uncounted, 1);
    process_count(p, STATUS_uncounted_bytes, bytes);
}

/* A thread that calls this needs no context: the properties name the device. */
CUresult hook_cuMemCreate(CUmemGenericAllocationHandle *ret_handle, size_t bytes,
                          const CUmemAllocationProp *wanted, unsigned long long flags)
{
    struct process *p = process_enter();
    if (process_is_refused(p))
        return CUDA_ERROR_SYSTEM_NOT_READY;
    bool is_on_device = process_is_ready(p) && ret_handle && bytes && wanted &&
                        wanted->location.type == LOCATION_DEVICE;
    int device = is_on_device ? devices_index(p, wanted->location.id) : DEVICES_NO_CONTEXT;
    if (device == DEVICES_NO_CONTEXT)
        return p->calls.real.cuMemCreate(ret_handle, bytes, wanted, flags);
    uint64_t charged = quota_charged(bytes);
    if (!grants_reserve(p, device, charged))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct room_wait wait = {0};
    CUresult r;
    do
        r = p->calls.real.cuMemCreate(ret_handle, bytes, wanted, flags);
    while (room_await(p, r, device, charged, &wait));
    FAULT_POINT();
    if (r != CUDA_SUCCESS)
        grants_give_back(p, r, device, charged);
    else if (device >= 0)
        record_memory(p, *ret_handle, device, charged);
    return r;
}

/* The record is taken before the call, since another thread may get the handle as soon as the
 * driver has it. */
CUresult hook_cuMemRelease(CUmemGenericAllocationHandle handle)
{
    struct process *p = process_enter();
    struct mappings *m = &p->mappings;
    if (!process_is_ready(p))
        return p->calls.real.cuMemRelease(handle);
    if (!lock_enter(&m->lock))
        return p->calls.real.cuMemRelease(handle);
    uint64_t number = take_handle(m, handle);
    lock_release(&m->lock);
    FAULT_POINT();
    CUresult r = p->calls.real.cuMemRelease(handle);
    FAULT_POINT();
    if (number && r == CUDA_SUCCESS) {
        drop_reference(p, number);
    } else if (number && lock_enter(&m->lock)) {
        (void)add_handle(m, handle, number);
        lock_release(&m->lock);
    }
    return r;
}

/* ---- ranges ---- */

/* The range takes its reference before the driver maps it, since the handle may be released
 * meanwhile. */
CUresult hook_cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                       CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    struct process *p = process_enter();
    struct mappings *m = &p->mappings;
    struct allocation known, memory;
    if (!process_is_ready(p) || !lock_enter(&m->remapping))
        return p->calls.real.cuMemMap(address, bytes, offset, handle, flags);
    bool is_known = false;
    if (lock_enter(&m->lock)) {
        is_known = allocations_find(&m->handles, handle, &known);
        if (is_known)
            (void)change_references(m, known.value, 1, &memory);
        lock_release(&m->lock);
    }
    CUresult r = p->calls.real.cuMemMap(address, bytes, offset, handle, flags);
    if (is_known && r == CUDA_SUCCESS) {
        const struct allocation range = {.address = address, .bytes = bytes, .value = known.value};
        bool is_entered = lock_enter(&m->lock);
        bool is_recorded = is_entered && allocations_add(&m->ranges, &range);
        if (is_entered)
            lock_release(&m->lock);
        if (!is_recorded) /* it stays counted: its end cannot be noticed */
            process_count(p, STATUS_allocations_uncounted, 1);
    } else if (is_known) {
        drop_reference(p, known.value);
    }
    lock_release(&m->remapping);
    return r;
}

/* Takes one range at or behind `address`. Ranges of imported memory are unknown; the search steps
 * over them by the smallest size that the driver maps. */
static uint64_t take_next(struct mappings *m, CUdeviceptr *address, CUdeviceptr end)
{
    enum { GRANULE_BYTES = 64 << 10 };
    struct allocation range;
    while (*address < end) {
        if (allocations_take(&m->ranges, *address, &range)) {
            *address += range.bytes ? range.bytes : GRANULE_BYTES;
            return range.value;
        }
        *address += GRANULE_BYTES;
    }
    return 0;
}

/* The driver unmaps all or nothing. */
CUresult hook_cuMemUnmap(CUdeviceptr address, size_t bytes)
{
    struct process *p = process_enter();
    struct mappings *m = &p->mappings;
    CUdeviceptr end;
    if (!process_is_ready(p) || __builtin_add_overflow(address, bytes, &end) ||
        !lock_enter(&m->remapping))
        return p->calls.real.cuMemUnmap(address, bytes);
    CUresult r = p->calls.real.cuMemUnmap(address, bytes);
    FAULT_POINT();
    for (uint64_t number = 1; r == CUDA_SUCCESS && number && lock_enter(&m->lock);) {
        number = take_next(m, &address, end);
        lock_release(&m->lock);
        if (number)
            drop_reference(p, number);
    }
    lock_release(&m->remapping);
    return r;
}

/* The result is a handle for the memory mapped at or around the address, usually an existing handle
 * once more. */
CUresult hook_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *ret_handle, void *address)
{
    struct process *p = process_enter();
    struct mappings *m = &p->mappings;
    struct allocation known, memory;
    if (!process_is_ready(p) || !lock_enter(&m->remapping))
        return p->calls.real.cuMemRetainAllocationHandle(ret_handle, address);
    CUresult r = p->calls.real.cuMemRetainAllocationHandle(ret_handle, address);
    if (r == CUDA_SUCCESS && lock_enter(&m->lock)) {
        if (allocations_find(&m->handles, *ret_handle, &known) ||
            allocations_find_around(&m->ranges, (uint64_t)(uintptr_t)address, &known)) {
            (void)change_references(m, known.value, 1, &memory);
            (void)add_handle(m, *ret_handle, known.value);
        }
        lock_release(&m->lock);
    }
    lock_release(&m->remapping);
    return r;
}
