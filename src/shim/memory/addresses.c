/*
 * Queries about addresses. For memory that can move (chunks.h), the shim answers as the driver
 * does for its own allocations: the memory belongs to a context and has the size that the program
 * wanted. Other processes cannot open such memory, so its handles are refused.
 */
#include "shim/life/process.h"

enum pointer_attribute {
    POINTER_CONTEXT = 1,
    POINTER_MEMORY_TYPE = 2,
    POINTER_DEVICE = 3,
    POINTER_IS_MANAGED = 8,
    POINTER_ORDINAL = 9,
    POINTER_CAN_SHARE = 10,
    POINTER_RANGE_START = 11,
    POINTER_RANGE_BYTES = 12,
    POINTER_MAPPED = 13,
    POINTER_MEMORY_POOL = 17,
    TYPE_DEVICE = 2,
    ATTRIBUTES_MAX = 32, /* of one call; a longer list gets only the driver's answers */
};

CUresult hook_cuMemGetAddressRange_v2(CUdeviceptr *ret_begin, size_t *ret_bytes,
                                      CUdeviceptr address)
{
    struct process *p = process_enter();
    struct chunk_view view;
    if (!process_is_ready(p) || !chunks_find(p, address, &view))
        return p->calls.real.cuMemGetAddressRange_v2(ret_begin, ret_bytes, address);
    if (ret_begin)
        *ret_begin = view.begin;
    if (ret_bytes)
        *ret_bytes = view.bytes;
    return CUDA_SUCCESS;
}

/* Writes the attribute's value. Returns false if only the driver knows the value. */
static bool write_attribute(const struct chunk_view *view, CUpointer_attribute attribute,
                            uint64_t address, void *ret_value)
{
    switch (attribute) {
    case POINTER_CONTEXT:
        *(CUcontext *)ret_value = (CUcontext)(uintptr_t)view->context;
        return true;
    case POINTER_MEMORY_TYPE:
        *(unsigned *)ret_value = TYPE_DEVICE;
        return true;
    case POINTER_DEVICE:
        *(CUdeviceptr *)ret_value = address;
        return true;
    case POINTER_IS_MANAGED:
    case POINTER_CAN_SHARE:
        *(bool *)ret_value = false;
        return true;
    case POINTER_ORDINAL:
        *(int *)ret_value = view->device;
        return true;
    case POINTER_RANGE_START:
        *(CUdeviceptr *)ret_value = view->begin;
        return true;
    case POINTER_RANGE_BYTES:
        *(size_t *)ret_value = view->bytes;
        return true;
    case POINTER_MAPPED:
        *(bool *)ret_value = true;
        return true;
    case POINTER_MEMORY_POOL:
        *(CUmemoryPool *)ret_value = NULL;
        return true;
    default:
        return false;
    }
}

CUresult hook_cuPointerGetAttribute(void *ret_value, CUpointer_attribute attribute,
                                    CUdeviceptr address)
{
    struct process *p = process_enter();
    struct chunk_view view;
    if (!process_is_ready(p) || !ret_value || !chunks_find(p, address, &view))
        return p->calls.real.cuPointerGetAttribute(ret_value, attribute, address);
    if (write_attribute(&view, attribute, address, ret_value))
        return CUDA_SUCCESS;
    if (!swap_enter(p)) /* the driver knows no memory there while it is away */
        return CUDA_ERROR_DEINITIALIZED;
    CUresult r = p->calls.real.cuPointerGetAttribute(ret_value, attribute, address);
    swap_leave(p);
    return r;
}

CUresult hook_cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes,
                                     void **ret_values, CUdeviceptr address)
{
    struct process *p = process_enter();
    CUpointer_attribute others[ATTRIBUTES_MAX];
    void *values[ATTRIBUTES_MAX];
    unsigned left = 0;
    struct chunk_view view;
    if (!process_is_ready(p) || !attributes || !ret_values || count > ATTRIBUTES_MAX ||
        !chunks_find(p, address, &view))
        return p->calls.real.cuPointerGetAttributes(count, attributes, ret_values, address);
    for (unsigned i = 0; i < count; i++) {
        if (!ret_values[i])
            return CUDA_ERROR_INVALID_VALUE;
        if (write_attribute(&view, attributes[i], address, ret_values[i]))
            continue;
        others[left] = attributes[i];
        values[left++] = ret_values[i];
    }
    if (count > 0 && left == 0)
        return CUDA_SUCCESS;
    if (!swap_enter(p))
        return CUDA_ERROR_DEINITIALIZED;
    CUresult r = p->calls.real.cuPointerGetAttributes(left, others, values, address);
    swap_leave(p);
    return r;
}

CUresult hook_cuIpcGetMemHandle(CUipcMemHandle *ret_handle, CUdeviceptr address)
{
    struct process *p = process_enter();
    struct chunk_view view;
    if (!process_is_ready(p) || !chunks_find(p, address, &view))
        return p->calls.real.cuIpcGetMemHandle(ret_handle, address);
    process_count(p, STATUS_ipc_refused, 1);
    return CUDA_ERROR_NOT_SUPPORTED;
}
