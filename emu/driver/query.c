/* Queries of devices: cuDeviceGet… */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "emu/driver/driver.h"

static int device_by_ordinal(int ordinal, struct visible_device **ret_device)
{
    struct process *process;
    return process_device(ordinal, &process, ret_device);
}

CUDA_API int cuDeviceGetCount(int *ret_count)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_count)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_count = (int)process->device_count;
    return CUDA_SUCCESS;
}

CUDA_API int cuDeviceGet(int *ret_device, int ordinal)
{
    struct visible_device *visible;
    int r = device_by_ordinal(ordinal, &visible);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_device)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_device = ordinal;
    return CUDA_SUCCESS;
}

CUDA_API int cuDeviceGetName(char *name, int length, int ordinal)
{
    struct visible_device *visible;
    int r = device_by_ordinal(ordinal, &visible);
    if (r != CUDA_SUCCESS)
        return r;
    if (!name || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    str_copy(name, (size_t)length, visible->device.state->model.name);
    return CUDA_SUCCESS;
}

CUDA_API int cuDeviceGetUuid_v2(CUuuid *ret_uuid, int ordinal)
{
    struct visible_device *visible;
    int r = device_by_ordinal(ordinal, &visible);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_uuid)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(ret_uuid->bytes, visible->device.state->uuid, sizeof(ret_uuid->bytes));
    return CUDA_SUCCESS;
}

CUDA_API int cuDeviceGetUuid(CUuuid *ret_uuid, int ordinal)
{
    return cuDeviceGetUuid_v2(ret_uuid, ordinal);
}

CUDA_API int cuDeviceTotalMem_v2(size_t *ret_bytes, int ordinal)
{
    struct visible_device *visible;
    int r = device_by_ordinal(ordinal, &visible);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_bytes = visible->device.state->model.memory_bytes;
    return CUDA_SUCCESS;
}

CUDA_API int cuDeviceComputeCapability(int *ret_major, int *ret_minor, int ordinal)
{
    struct visible_device *visible;
    int r = device_by_ordinal(ordinal, &visible);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_major || !ret_minor)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_major = (int)visible->device.state->model.cc_major;
    *ret_minor = (int)visible->device.state->model.cc_minor;
    return CUDA_SUCCESS;
}

/* The emulated bus: each device has a bus number of its own, from 1 on, in the order of the
 * file. */
CUDA_API int cuDeviceGetPCIBusId(char *text, int length, int ordinal)
{
    struct visible_device *visible;
    int r = device_by_ordinal(ordinal, &visible);
    if (r != CUDA_SUCCESS)
        return r;
    if (!text || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(text, (size_t)length, "0000:%02X:00.0", visible->device.index + 1);
    return CUDA_SUCCESS;
}

CUDA_API int cuDeviceGetByPCIBusId(int *ret_device, const char *text)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    unsigned domain = 0, bus;
    if (!ret_device || !text ||
        (sscanf(text, "%4x:%2x:00", &domain, &bus) != 2 && sscanf(text, "%2x:00", &bus) != 1))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < process->device_count; i++) {
        if (process->devices[i].device.index + 1 == bus) {
            *ret_device = (int)i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

/* Attributes that differ between devices. Returns false for other attributes. */
static bool attribute_of_model(const struct visible_device *visible, int attribute, int *ret_value)
{
    const struct device *device = &visible->device;
    const struct emu_model *model = &device->state->model;
    switch (attribute) {
    case CUDA_ATTRIBUTE_CLOCK_RATE:
        *ret_value = (int)model->sm_clock_mhz * 1000;
        return true;
    case CUDA_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *ret_value = (int)visible->terms.sms;
        return true;
    case CUDA_ATTRIBUTE_PCI_BUS_ID:
        *ret_value = (int)device->index + 1;
        return true;
    case CUDA_ATTRIBUTE_MEMORY_CLOCK_RATE:
        *ret_value = (int)model->memory_clock_mhz * 1000;
        return true;
    case CUDA_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        *ret_value = (int)model->bus_bits;
        return true;
    case CUDA_ATTRIBUTE_L2_CACHE_SIZE:
        *ret_value = (int)(model->l2_mib << 20);
        return true;
    case CUDA_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *ret_value = (int)model->cc_major;
        return true;
    case CUDA_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *ret_value = (int)model->cc_minor;
        return true;
    case CUDA_ATTRIBUTE_ECC_ENABLED:
        *ret_value = model->bus_bits > 1024; /* cards with stacked memory */
        return true;
    default:
        return false;
    }
}

struct attribute_row {
    int attribute, value;
};

static const struct attribute_row attributes_of_all[] = {
    {CUDA_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CUDA_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CUDA_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CUDA_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CUDA_ATTRIBUTE_MAX_GRID_DIM_X, INT32_MAX},
    {CUDA_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CUDA_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CUDA_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CUDA_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CUDA_ATTRIBUTE_WARP_SIZE, 32},
    {CUDA_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CUDA_ATTRIBUTE_INTEGRATED, 0},
    {CUDA_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CUDA_ATTRIBUTE_COMPUTE_MODE, 0},
    {CUDA_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CUDA_ATTRIBUTE_PCI_DEVICE_ID, 0},
    {CUDA_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CUDA_ATTRIBUTE_ASYNC_ENGINE_COUNT, 1},
    {CUDA_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CUDA_ATTRIBUTE_PCI_DOMAIN_ID, 0},
    {CUDA_ATTRIBUTE_STREAM_PRIORITIES, 1},
    {CUDA_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CUDA_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
    {CUDA_ATTRIBUTE_MULTI_GPU_BOARD, 0},
    {CUDA_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CUDA_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT, 1},
    {CUDA_ATTRIBUTE_MEMORY_POOLS, 1},
    {CUDA_ATTRIBUTE_STREAM_WAIT_NOR, 1},
};

/* Some devices lack stream words, and programs must then do without. */
static int has_stream_words(void)
{
    const char *value = getenv("GPUMUX_EMU_STREAM_WORDS");
    return !value || strcmp(value, "0") != 0;
}

CUDA_API int cuDeviceGetAttribute(int *ret_value, int attribute, int ordinal)
{
    struct visible_device *visible;
    int r = device_by_ordinal(ordinal, &visible);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_value || attribute <= 0 || attribute > CUDA_ATTRIBUTE_LAST)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute_of_model(visible, attribute, ret_value))
        return CUDA_SUCCESS;
    if (attribute == CUDA_ATTRIBUTE_64_BIT_STREAM_WORDS) {
        *ret_value = has_stream_words();
        return CUDA_SUCCESS;
    }
    for (size_t i = 0; i < sizeof(attributes_of_all) / sizeof(*attributes_of_all); i++) {
        if (attributes_of_all[i].attribute == attribute) {
            *ret_value = attributes_of_all[i].value;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* Devices cannot access each other's memory. */
CUDA_API int cuDeviceCanAccessPeer(int *ret_can, int ordinal, int peer_ordinal)
{
    struct visible_device *visible;
    int r = device_by_ordinal(ordinal, &visible);
    if (r == CUDA_SUCCESS)
        r = device_by_ordinal(peer_ordinal, &visible);
    if (r == CUDA_SUCCESS && !ret_can)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *ret_can = 0;
    return r;
}
