/* Host memory that the device can access: allocated here, or the program's own and registered. Its
 * device address is its host address. */
#include <sys/mman.h>

#include "emu/graph/capture.h"
#include "emu/memory/memory.h"

enum { REGISTER_FLAGS_ALL = 0xf };

static bool map_holds(const struct hash_map *map, uint64_t address, size_t bytes)
{
    size_t cursor = 0;
    uint64_t start;
    void *value;
    while (hash_map_next(map, &cursor, &start, &value)) {
        uint64_t length = (uint64_t)(uintptr_t)value;
        if (address >= start && address - start <= length && bytes <= length - (address - start))
            return true;
    }
    return false;
}

bool host_memory_holds(const struct process *process, uint64_t address, size_t bytes)
{
    return map_holds(&process->host_memory, address, bytes) ||
           map_holds(&process->registered_memory, address, bytes);
}

CUDA_API int cuMemHostAlloc(void **ret_memory, size_t bytes, unsigned flags)
{
    struct context *context;
    int r = context_current(&context);
    if (r == CUDA_SUCCESS)
        r = capture_check_unsafe(context->process);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_memory || bytes == 0 || (flags & ~(unsigned)CUDA_HOST_ALLOC_FLAGS_ALL) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct process *process = context->process;
    pthread_mutex_lock(&process->lock);
    int put = hash_map_put(&process->host_memory, (uint64_t)(uintptr_t)at, (void *)bytes);
    pthread_mutex_unlock(&process->lock);
    if (put < 0) {
        munmap(at, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ret_memory = at;
    return CUDA_SUCCESS;
}

CUDA_API int cuMemAllocHost_v2(void **ret_memory, size_t bytes)
{
    return cuMemHostAlloc(ret_memory, bytes, 0);
}

static size_t forget(struct process *process, struct hash_map *map, void *memory)
{
    pthread_mutex_lock(&process->lock);
    size_t bytes = (size_t)(uintptr_t)hash_map_remove(map, (uint64_t)(uintptr_t)memory);
    if (map->count == 0)
        hash_map_done(map);
    pthread_mutex_unlock(&process->lock);
    return bytes;
}

CUDA_API int cuMemFreeHost(void *memory)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    size_t bytes = forget(process, &process->host_memory, memory);
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    munmap(memory, bytes);
    return CUDA_SUCCESS;
}

CUDA_API int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
    struct context *context;
    int r = context_current(&context);
    if (r != CUDA_SUCCESS)
        return r;
    if (!memory || bytes == 0 || (flags & ~(unsigned)REGISTER_FLAGS_ALL) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct process *process = context->process;
    pthread_mutex_lock(&process->lock);
    if (host_memory_holds(process, (uint64_t)(uintptr_t)memory, 1))
        r = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    else if (hash_map_put(&process->registered_memory, (uint64_t)(uintptr_t)memory, (void *)bytes) <
             0)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&process->lock);
    return r;
}

CUDA_API int cuMemHostUnregister(void *memory)
{
    struct context *context;
    int r = context_current(&context);
    if (r != CUDA_SUCCESS)
        return r;
    if (!memory)
        return CUDA_ERROR_INVALID_VALUE;
    return forget(context->process, &context->process->registered_memory, memory) > 0
               ? CUDA_SUCCESS
               : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUDA_API int cuMemHostGetDevicePointer_v2(uint64_t *ret_address, void *memory, unsigned flags)
{
    struct context *context;
    int r = context_current(&context);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_address || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct process *process = context->process;
    uint64_t address = (uint64_t)(uintptr_t)memory;
    pthread_mutex_lock(&process->lock);
    if (host_memory_holds(process, address, 1))
        *ret_address = address;
    else
        r = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&process->lock);
    return r;
}
