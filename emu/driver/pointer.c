/* Attributes of addresses: cuPointerGetAttribute(s). */
#include "emu/memory/memory.h"

enum pointer_attribute {
    POINTER_CONTEXT = 1,
    POINTER_MEMORY_TYPE = 2,
    POINTER_DEVICE = 3,
    POINTER_HOST = 4,
    POINTER_IS_MANAGED = 8,
    POINTER_ORDINAL = 9,
    POINTER_RANGE_START = 11,
    POINTER_RANGE_BYTES = 12,
    POINTER_MAPPED = 13,
    POINTER_MEMORY_POOL = 17,
    POINTER_NO_ORDINAL = -2, /* ordinal of an address that the driver does not know */
};

/* The memory at an address. Valid under process.lock. */
struct pointee {
    const struct allocation *allocation; /* NULL: not device memory */
    bool is_host;                        /* host memory that the device can access */
    uint64_t address;
};

static struct pointee find_pointee(struct process *process, uint64_t address)
{
    struct pointee found = {.address = address};
    found.allocation = allocations_find(&process->allocations, address, 1);
    found.is_host = !found.allocation && host_memory_holds(process, address, 1);
    return found;
}

static bool is_known(const struct pointee *at)
{
    return at->allocation || at->is_host;
}

static bool host_can_read(const struct pointee *at)
{
    return at->is_host || (at->allocation && at->allocation->kind == ALLOCATION_MANAGED);
}

/* Writes the attribute's value, whatever its type; for an unknown address, the value that means
 * unknown. Returns false if there is no such attribute, or it is not emulated. */
static bool write_attribute(const struct pointee *at, int attribute, void *ret_value)
{
    const struct allocation *allocation = at->allocation;
    struct context *context = allocation ? allocation->context : NULL;
    switch (attribute) {
    case POINTER_CONTEXT:
        *(struct context **)ret_value = context;
        return context != NULL || !is_known(at);
    case POINTER_MEMORY_TYPE:
        *(unsigned *)ret_value = allocation    ? CUDA_MEMORY_DEVICE
                                 : at->is_host ? CUDA_MEMORY_HOST
                                               : 0;
        return true;
    case POINTER_DEVICE:
        *(uint64_t *)ret_value = is_known(at) ? at->address : 0;
        return true;
    case POINTER_HOST:
        *(void **)ret_value = host_can_read(at) ? (void *)(uintptr_t)at->address : NULL;
        return host_can_read(at) || !is_known(at);
    case POINTER_IS_MANAGED:
        *(bool *)ret_value = allocation && allocation->kind == ALLOCATION_MANAGED;
        return true;
    case POINTER_ORDINAL:
        *(int *)ret_value = context ? (int)context->ordinal : POINTER_NO_ORDINAL;
        return context != NULL || !is_known(at);
    case POINTER_RANGE_START:
        *(uint64_t *)ret_value = allocation ? allocation->address : 0;
        return allocation != NULL || !is_known(at);
    case POINTER_RANGE_BYTES:
        *(size_t *)ret_value = allocation ? allocation->bytes : 0;
        return allocation != NULL || !is_known(at);
    case POINTER_MAPPED:
        *(bool *)ret_value = is_known(at);
        return true;
    case POINTER_MEMORY_POOL:
        *(struct pool **)ret_value = allocation ? allocation->pool : NULL;
        return true;
    default:
        return false;
    }
}

static bool is_attribute(int attribute)
{
    enum { POINTER_FIRST = 1, POINTER_LAST = 21 };
    return attribute >= POINTER_FIRST && attribute <= POINTER_LAST;
}

CUDA_API int cuPointerGetAttribute(void *ret_value, int attribute, uint64_t address)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_value || !is_attribute(attribute))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process->lock);
    const struct pointee at = find_pointee(process, address);
    if (!is_known(&at))
        r = CUDA_ERROR_INVALID_VALUE;
    else if (!write_attribute(&at, attribute, ret_value))
        r = CUDA_ERROR_NOT_SUPPORTED;
    pthread_mutex_unlock(&process->lock);
    return r;
}

/* Unlike the call for a single attribute, this call also succeeds for addresses that the driver
 * does not know. */
CUDA_API int cuPointerGetAttributes(unsigned count, int *attributes, void **ret_values,
                                    uint64_t address)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    if (count == 0 || !attributes || !ret_values)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process->lock);
    const struct pointee at = find_pointee(process, address);
    for (unsigned i = 0; i < count && r == CUDA_SUCCESS; i++) {
        if (!is_attribute(attributes[i]) || !ret_values[i])
            r = CUDA_ERROR_INVALID_VALUE;
        else if (!write_attribute(&at, attributes[i], ret_values[i]))
            r = CUDA_ERROR_NOT_SUPPORTED;
    }
    pthread_mutex_unlock(&process->lock);
    return r;
}
