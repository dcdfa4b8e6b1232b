/*
 * Memory that graphs allocate. A process has one reserve for graphs on each device, apart from its
 * pools: the reserve grows when graphs need more memory at one time than before, and shrinks only
 * at the program's request. A launch allocates and frees memory in the order of the graph's nodes.
 * Freed memory stays mapped at the addresses of all graphs that had it, and counts as used in
 * queries, until the last of these graphs is gone or the program trims idle memory.
 */
#include <stdlib.h>

#include "emu/graph/operation.h"
#include "emu/memory/memory.h"

struct graph_memory {
    _Atomic unsigned references;
    struct process *process;
    struct context *context;
    struct visible_device *visible;
    uint64_t opened; /* visible.opened at the allocation; the memory is gone if that has changed */
    uint64_t address;
    uint64_t bytes, charged_bytes;
    bool is_allocated, is_mapped;
};

/* When the process left the device, the reserve lost all memory there. Call under process.lock. */
static struct graph_reserve *reserve_of(struct visible_device *visible)
{
    struct graph_reserve *reserve = &visible->graph_reserve;
    if (reserve->opened != visible->opened || visible->context_count == 0)
        *reserve = (struct graph_reserve){.opened = visible->opened};
    return reserve;
}

/* Call under process.lock. */
static bool is_allocated(const struct graph_memory *memory)
{
    return memory->is_allocated && memory->opened == memory->visible->opened;
}

/* Call under process.lock. */
static bool is_mapped(const struct graph_memory *memory)
{
    return memory->is_mapped && memory->opened == memory->visible->opened;
}

int graph_memory_make(struct context *context, size_t bytes, struct graph_memory **ret_memory)
{
    if (bytes > context->visible->device.state->model.memory_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct graph_memory *memory = calloc(1, sizeof(*memory));
    if (!memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *memory = (struct graph_memory){
        .references = 1,
        .process = context->process,
        .context = context,
        .visible = context->visible,
        .bytes = bytes,
        .charged_bytes = memory_charged(bytes),
    };
    const struct allocation added = {
        .kind = ALLOCATION_DEVICE,
        .bytes = bytes,
        .span_bytes = memory->charged_bytes,
        .graph_memory = memory,
    };
    pthread_mutex_lock(&context->process->lock);
    int entered = allocations_add(&context->process->allocations, &added, &memory->address);
    pthread_mutex_unlock(&context->process->lock);
    if (entered < 0) {
        free(memory);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ret_memory = memory;
    return CUDA_SUCCESS;
}

struct graph_memory *graph_memory_retain(struct graph_memory *memory)
{
    memory->references++;
    return memory;
}

static void give_back(struct graph_memory *memory)
{
    memory->is_allocated = false;
    reserve_of(memory->visible)->used_bytes -= memory->charged_bytes;
}

static void unmap(struct graph_memory *memory)
{
    struct graph_reserve *reserve = reserve_of(memory->visible);
    memory->is_mapped = false;
    if (reserve->mapping_count > 0 && --reserve->mapping_count == 0)
        reserve->mapped_bytes = 0;
}

void graph_memory_release(struct graph_memory *memory)
{
    if (--memory->references > 0)
        return;
    struct process *process = memory->process;
    pthread_mutex_lock(&process->lock);
    if (is_allocated(memory))
        give_back(memory);
    if (is_mapped(memory))
        unmap(memory);
    struct allocation *found = allocations_find(&process->allocations, memory->address, 0);
    if (found && found->graph_memory == memory)
        allocations_remove(&process->allocations, found);
    pthread_mutex_unlock(&process->lock);
    free(memory);
}

uint64_t graph_memory_address(const struct graph_memory *memory)
{
    return memory->address;
}

size_t graph_memory_bytes(const struct graph_memory *memory)
{
    return memory->bytes;
}

int graph_memory_ordinal(const struct graph_memory *memory)
{
    return (int)memory->context->ordinal;
}

struct graph_memory *graph_memory_find(struct process *process, uint64_t address)
{
    pthread_mutex_lock(&process->lock);
    const struct allocation *found = allocations_find(&process->allocations, address, 0);
    struct graph_memory *memory = found && found->address == address ? found->graph_memory : NULL;
    pthread_mutex_unlock(&process->lock);
    return memory;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Call under process.lock. */
static int take(struct graph_memory *memory)
{
    struct graph_reserve *reserve = reserve_of(memory->visible);
    uint64_t needed_bytes = reserve->used_bytes + memory->charged_bytes;
    if (memory->visible->context_count == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (needed_bytes > reserve->reserved_bytes) {
        int r = memory_charge(memory->visible, needed_bytes - reserve->reserved_bytes);
        if (r != CUDA_SUCCESS)
            return r;
        reserve->reserved_bytes = needed_bytes;
    }
    if (!is_mapped(memory))
        reserve->mapping_count++;
    memory->is_mapped = true;
    reserve->used_bytes = needed_bytes;
    reserve->mapped_bytes = larger(reserve->mapped_bytes, needed_bytes);
    reserve->mapped_high_bytes = larger(reserve->mapped_high_bytes, reserve->mapped_bytes);
    reserve->reserved_high_bytes = larger(reserve->reserved_high_bytes, reserve->reserved_bytes);
    memory->is_allocated = true;
    memory->opened = memory->visible->opened;
    return CUDA_SUCCESS;
}

int graph_memory_allocate(struct graph_memory *memory)
{
    pthread_mutex_lock(&memory->process->lock);
    int r = is_allocated(memory) ? CUDA_ERROR_INVALID_VALUE : take(memory);
    pthread_mutex_unlock(&memory->process->lock);
    return r;
}

int graph_memory_free(struct graph_memory *memory)
{
    pthread_mutex_lock(&memory->process->lock);
    int r = is_allocated(memory) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        give_back(memory);
    pthread_mutex_unlock(&memory->process->lock);
    return r;
}

bool graph_memory_is_allocated(const struct graph_memory *memory)
{
    pthread_mutex_lock(&memory->process->lock);
    bool answer = is_allocated(memory);
    pthread_mutex_unlock(&memory->process->lock);
    return answer;
}

CUDA_API int cuDeviceGraphMemTrim(int ordinal)
{
    struct process *process;
    struct visible_device *visible;
    int r = process_device(ordinal, &process, &visible);
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&process->lock);
    struct graph_reserve *reserve = reserve_of(visible);
    memory_discharge(visible, reserve->reserved_bytes - reserve->used_bytes);
    reserve->reserved_bytes = reserve->used_bytes;
    reserve->mapped_bytes = reserve->used_bytes;
    pthread_mutex_unlock(&process->lock);
    return CUDA_SUCCESS;
}

/* Returns the number behind an attribute, or NULL. Call under process.lock. */
static uint64_t *number_of(struct graph_reserve *reserve, int attribute)
{
    switch (attribute) {
    case CUDA_GRAPH_MEMORY_USED:
        return &reserve->mapped_bytes;
    case CUDA_GRAPH_MEMORY_USED_HIGH:
        return &reserve->mapped_high_bytes;
    case CUDA_GRAPH_MEMORY_RESERVED:
        return &reserve->reserved_bytes;
    case CUDA_GRAPH_MEMORY_RESERVED_HIGH:
        return &reserve->reserved_high_bytes;
    default:
        return NULL;
    }
}

CUDA_API int cuDeviceGetGraphMemAttribute(int ordinal, int attribute, void *ret_value)
{
    struct process *process;
    struct visible_device *visible;
    int r = process_device(ordinal, &process, &visible);
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&process->lock);
    const uint64_t *number = number_of(reserve_of(visible), attribute);
    if (number && ret_value)
        *(uint64_t *)ret_value = *number;
    else
        r = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&process->lock);
    return r;
}

/* A high-water mark can only be reset, by 0, to the present value. */
CUDA_API int cuDeviceSetGraphMemAttribute(int ordinal, int attribute, void *value)
{
    struct process *process;
    struct visible_device *visible;
    int r = process_device(ordinal, &process, &visible);
    if (r != CUDA_SUCCESS)
        return r;
    if (!value || *(const uint64_t *)value != 0 ||
        (attribute != CUDA_GRAPH_MEMORY_USED_HIGH && attribute != CUDA_GRAPH_MEMORY_RESERVED_HIGH))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process->lock);
    struct graph_reserve *reserve = reserve_of(visible);
    *number_of(reserve, attribute) = *number_of(reserve, attribute - 1);
    pthread_mutex_unlock(&process->lock);
    return CUDA_SUCCESS;
}
