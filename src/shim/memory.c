/*
 * Plain device memory under the quota. The pattern of every call that takes memory: reserve, call the
 * driver, give back what it refused; record what it granted. Of one that frees: take the record
 * first (the address may be another thread's as soon as the driver has it), call the driver, then give back.
 */
#include "shim/process.h"
#include "shim/quota.h"

CUresult hook_cuMemAlloc_v2(CUdeviceptr *ret_address, size_t bytes)
{
    struct process *p = process_enter();
    if (process_is_refused(p))
        return CUDA_ERROR_SYSTEM_NOT_READY;
    int device = process_is_ready(p) ? devices_current(p) : DEVICES_NO_CONTEXT;
    if (device == DEVICES_NO_CONTEXT || !ret_address || bytes == 0)
        return p->calls.real.cuMemAlloc_v2(ret_address, bytes);

    if (!quota_reserve(&p->client, device, bytes)) {
        process_count(p, STATUS_out_of_memory, 1);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult r = p->calls.real.cuMemAlloc_v2(ret_address, bytes);
    if (r != CUDA_SUCCESS) {
        quota_release(&p->client, device, bytes);
        return r;
    }
    process_count(p, STATUS_allocations, 1);
    const struct allocation allocation = {
        .address = *ret_address, .bytes = bytes, .device = (uint32_t)device};
    if (device >= 0 && !allocations_add(&p->allocations, &allocation))
        process_count(p, STATUS_allocations_uncounted, 1);
    return CUDA_SUCCESS;
}

CUresult hook_cuMemFree_v2(CUdeviceptr address)
{
    struct process *p = process_enter();
    struct allocation allocation;
    if (!process_is_ready(p))
        return p->calls.real.cuMemFree_v2(address);

    bool is_known = allocations_take(&p->allocations, address, &allocation);
    CUresult r = p->calls.real.cuMemFree_v2(address);
    if (is_known && r == CUDA_SUCCESS)
        quota_release(&p->client, (int)allocation.device, allocation.bytes);
    else if (is_known && !allocations_add(&p->allocations, &allocation))
        process_count(p, STATUS_allocations_uncounted, 1);
    else if (r == CUDA_SUCCESS && address)
        process_count(p, STATUS_frees_unknown, 1);
    return r;
}

CUresult hook_cuMemGetInfo_v2(size_t *ret_free, size_t *ret_total)
{
    struct process *p = process_enter();
    CUresult r = p->calls.real.cuMemGetInfo_v2(ret_free, ret_total);
    int device = r == CUDA_SUCCESS && process_is_ready(p) ? devices_current(p) : DEVICES_NO_CONTEXT;
    uint64_t limit = quota_limit(&p->client, device);
    if (limit == 0)
        return r;
    uint64_t held = quota_held(&p->client, device);
    uint64_t left = held < limit ? limit - held : 0;
    if (ret_total && *ret_total > limit)
        *ret_total = limit;
    if (ret_free && *ret_free > left)
        *ret_free = left;
    return r;
}
