#include "shim/memory/grants.h"
#include "shim/sys/fault_point.h"

static bool try_twice(struct process *p, int device, uint64_t bytes)
{
    return quota_reserve(&p->client, device, bytes) ||
           (pools_let_go(p, device) && quota_reserve(&p->client, device, bytes));
}

/* Outdated limits may allow less than there is: before they cause a refusal, the shim looks for a
 * new agent. */
bool grants_reserve(struct process *p, int device, uint64_t bytes)
{
    bool is_reserved =
        try_twice(p, device, bytes) || (client_check(&p->client) && try_twice(p, device, bytes));
    if (!is_reserved)
        process_count(p, STATUS_out_of_memory, 1);
    return is_reserved;
}

bool grants_adjust(struct process *p, int device, uint64_t from_bytes, uint64_t to_bytes)
{
    if (to_bytes <= from_bytes) {
        quota_release(&p->client, device, from_bytes - to_bytes);
        return true;
    }
    if (grants_reserve(p, device, to_bytes - from_bytes))
        return true;
    quota_release(&p->client, device, from_bytes);
    return false;
}

static void record(struct process *p, const struct allocation *allocation)
{
    if (allocations_add(&p->allocations, allocation))
        return;
    process_count(p, STATUS_allocations_uncounted, 1);
    process_count(p, STATUS_uncounted_bytes, allocation->bytes);
}

void grants_give_back(struct process *p, CUresult result, int device, uint64_t bytes)
{
    quota_release(&p->client, device, bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) /* the device is full, or MPS's limit came first */
        process_count(p, STATUS_out_of_memory, 1);
}

CUresult grants_end(struct process *p, CUresult result, uint64_t address, int device,
                    uint64_t bytes)
{
    CUcontext context = NULL;
    FAULT_POINT();
    if (result != CUDA_SUCCESS) {
        grants_give_back(p, result, device, bytes);
        return result;
    }
    process_count(p, STATUS_allocations, 1);
    if (device < 0)
        return result;
    (void)p->calls.real.cuCtxGetCurrent(&context);
    const struct allocation allocation = {.address = address,
                                          .bytes = bytes,
                                          .context = (uint64_t)(uintptr_t)context,
                                          .device = device};
    record(p, &allocation);
    FAULT_POINT();
    return result;
}

bool grants_begin_free(struct process *p, uint64_t address, struct allocation *ret_allocation)
{
    bool is_known = allocations_take(&p->allocations, address, ret_allocation);
    FAULT_POINT();
    return is_known;
}

void grants_end_free(struct process *p, const struct allocation *allocation, CUresult result)
{
    FAULT_POINT();
    if (result != CUDA_SUCCESS)
        record(p, allocation);
    else if (allocation->value)
        pools_end_free(p, allocation);
    else
        quota_release(&p->client, allocation->device, allocation->bytes);
}

void grants_forget_context(struct process *p, CUcontext context)
{
    struct allocation allocation;
    size_t cursor = 0;
    while (context &&
           allocations_take_of(&p->allocations, (uint64_t)(uintptr_t)context, &cursor, &allocation))
        quota_release(&p->client, allocation.device, allocation.bytes);
}
