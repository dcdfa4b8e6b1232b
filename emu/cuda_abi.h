/*
 * The part of the CUDA driver's binary interface that is emulated: numbers, layouts and prototypes,
 * declared here so that neither the CUDA toolkit nor its headers are needed. Handles are pointers
 * to our own structures (driver.h).
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define CUDA_API __attribute__((visibility("default")))

enum cuda_result {
#define RESULT(name, number, text) name = number,
#include "emu/cuda_results.def"
#undef RESULT
};

enum {
    CUDA_DRIVER_VERSION = 13000,
    CUDA_CONTEXT_FLAGS_ALL = 0x1ff,
    CUDA_STREAM_NON_BLOCKING = 1,
    CUDA_EVENT_FLAGS_ALL = 0x7,
    CUDA_EVENT_DISABLE_TIMING = 2,
    CUDA_EVENT_INTERPROCESS = 4,
    CUDA_PRIORITY_LEAST = 0,
    CUDA_PRIORITY_GREATEST = -5,
    CUDA_HOST_ALLOC_FLAGS_ALL = 0x7,
};

/* Special stream handles. */
#define CUDA_STREAM_LEGACY     ((struct stream *)1)
#define CUDA_STREAM_PER_THREAD ((struct stream *)2)

/* Keys of cuLaunchKernel's `extra`. */
#define CUDA_LAUNCH_END            ((void *)0)
#define CUDA_LAUNCH_BUFFER_POINTER ((void *)1)
#define CUDA_LAUNCH_BUFFER_SIZE    ((void *)2)

enum cuda_launch_attribute_id {
    CUDA_LAUNCH_ATTRIBUTE_IGNORE = 0,
    CUDA_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
    CUDA_LAUNCH_ATTRIBUTE_PRIORITY = 8,
};

struct cuda_launch_attribute {
    int id;
    char padding[4];
    char value[64];
};

struct cuda_launch_config {
    unsigned grid_x, grid_y, grid_z;
    unsigned block_x, block_y, block_z;
    unsigned shared_bytes;
    struct stream *stream;
    struct cuda_launch_attribute *attributes;
    unsigned attribute_count;
};

enum cuda_location_type { CUDA_LOCATION_DEVICE = 1, CUDA_LOCATION_HOST = 2 };

struct cuda_location {
    int type; /* enum cuda_location_type */
    int id;
};

enum { CUDA_ALLOCATION_PINNED = 1 };

struct cuda_allocation_properties {
    int type;
    int handle_types;
    struct cuda_location location;
    void *security_attributes;
    unsigned char flags[8];
};

struct cuda_access {
    struct cuda_location location;
    int flags;
};

struct cuda_pool_properties {
    int allocation_type;
    int handle_types;
    struct cuda_location location;
    void *security_attributes;
    size_t max_bytes;
    unsigned short usage;
    unsigned char reserved[54];
};

struct cuda_uuid {
    char bytes[16];
};

enum cuda_proc_address_flags {
    CUDA_PROC_DEFAULT = 0,
    CUDA_PROC_LEGACY_STREAM = 1,
    CUDA_PROC_PER_THREAD_STREAM = 2,
};

enum cuda_proc_address_status {
    CUDA_PROC_FOUND = 0,
    CUDA_PROC_NOT_FOUND = 1,
    CUDA_PROC_VERSION_NOT_SUFFICIENT = 2,
};

enum cuda_device_attribute {
    CUDA_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
    CUDA_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
    CUDA_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3,
    CUDA_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,
    CUDA_ATTRIBUTE_MAX_GRID_DIM_X = 5,
    CUDA_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
    CUDA_ATTRIBUTE_MAX_GRID_DIM_Z = 7,
    CUDA_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
    CUDA_ATTRIBUTE_TOTAL_CONSTANT_MEMORY = 9,
    CUDA_ATTRIBUTE_WARP_SIZE = 10,
    CUDA_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK = 12,
    CUDA_ATTRIBUTE_CLOCK_RATE = 13,
    CUDA_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CUDA_ATTRIBUTE_INTEGRATED = 18,
    CUDA_ATTRIBUTE_CAN_MAP_HOST_MEMORY = 19,
    CUDA_ATTRIBUTE_COMPUTE_MODE = 20,
    CUDA_ATTRIBUTE_CONCURRENT_KERNELS = 31,
    CUDA_ATTRIBUTE_ECC_ENABLED = 32,
    CUDA_ATTRIBUTE_PCI_BUS_ID = 33,
    CUDA_ATTRIBUTE_PCI_DEVICE_ID = 34,
    CUDA_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
    CUDA_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
    CUDA_ATTRIBUTE_L2_CACHE_SIZE = 38,
    CUDA_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
    CUDA_ATTRIBUTE_ASYNC_ENGINE_COUNT = 40,
    CUDA_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
    CUDA_ATTRIBUTE_PCI_DOMAIN_ID = 50,
    CUDA_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CUDA_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CUDA_ATTRIBUTE_STREAM_PRIORITIES = 78,
    CUDA_ATTRIBUTE_MANAGED_MEMORY = 83,
    CUDA_ATTRIBUTE_MULTI_GPU_BOARD = 84,
    CUDA_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS = 89,
    CUDA_ATTRIBUTE_COOPERATIVE_LAUNCH = 95,
    CUDA_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT = 102,
    CUDA_ATTRIBUTE_MEMORY_POOLS = 115,
    CUDA_ATTRIBUTE_LAST = 148, /* of CUDA 13.0 */
};

enum cuda_function_attribute {
    CUDA_FUNCTION_MAX_THREADS_PER_BLOCK = 0,
    CUDA_FUNCTION_SHARED_SIZE_BYTES = 1,
    CUDA_FUNCTION_CONST_SIZE_BYTES = 2,
    CUDA_FUNCTION_LOCAL_SIZE_BYTES = 3,
    CUDA_FUNCTION_NUM_REGS = 4,
    CUDA_FUNCTION_PTX_VERSION = 5,
    CUDA_FUNCTION_BINARY_VERSION = 6,
};
