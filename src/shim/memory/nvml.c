#include <dlfcn.h>
#include <stdlib.h>

#include "shim/hook/libraries.h"
#include "shim/hook/resolve.h"
#include "shim/life/process.h"
#include "shim/memory/nvml.h"
#include "shim/memory/quota.h"
#include "shim/sys/text.h"
#include "shim/sys/uuid.h"

enum { UUID_TEXT_MAX = 96 };

static const struct nvml_row {
    const char *symbol;
    void *hook; /* NULL for USED */
} rows[NVML_CALLS] = {
#define INTERCEPTED(symbol, ...) {#symbol, (void *)hook_##symbol},
#define USED(symbol, ...)        {#symbol, NULL},
#include "shim/hook/nvml_calls.def"
};

/* ---- NVML's functions ---- */

struct search {
    const char *symbol;
    void *address;
};

static void find_in_library(void *argument)
{
    struct search *search = argument;
    const struct link_map *library = resolve_library(NVML_SONAME);
    search->address = library ? resolve_symbol(library, search->symbol) : NULL;
}

static void *look_up(enum nvml_call call)
{
    struct search search = {.symbol = rows[call].symbol};
    libraries_visit(find_in_library, &search);
    atomic_store_explicit(&the_process.nvml.real[call], search.address, memory_order_release);
    return search.address;
}

static void *real_of(enum nvml_call call)
{
    void *known = atomic_load_explicit(&the_process.nvml.real[call], memory_order_acquire);
    return known ? known : look_up(call);
}

struct calls_route nvml_route(void *handle, const char *name, const char *version, void *real)
{
    int call = 0;
    while (call < NVML_CALLS && !text_equals(rows[call].symbol, name))
        call++;
    if (call == NVML_CALLS || !rows[call].hook || process_is_disabled())
        return (struct calls_route){.jump = real};
    /* The library may have been loaded or unloaded. */
    void *expected = look_up((enum nvml_call)call);
    if (handle == RTLD_DEFAULT || handle == RTLD_NEXT)
        return expected ? (struct calls_route){.value = rows[call].hook}
                        : (struct calls_route){.jump = real};
    void *address =
        version ? ((void *(*)(void *, const char *, const char *))real)(handle, name, version)
                : ((void *(*)(void *, const char *))real)(handle, name);
    return (struct calls_route){.value =
                                    address && address == expected ? rows[call].hook : address};
}

/* ---- devices ---- */

/* A program that uses only NVML has the same limits. Where there are limits, the shim also loads
 * the driver. */
static struct process *enter(void)
{
    struct process *p = process_enter();
    if (process_is_ready(p) || p->calls.is_loaded ||
        !(getenv("GPUMUX_REGISTER") || getenv("GPUMUX_QUOTA_BYTES")) || process_is_disabled())
        return p;
    void *(*open)(const char *, int) = (void *(*)(const char *, int))resolve_next("dlopen");
    return open && open(CUDA_SONAME, RTLD_LAZY | RTLD_NODELETE) ? process_enter() : p;
}

/* Returns the memory to show for the device; a limit of 0: NVML's own numbers. */
static struct quota_view view_of(struct process *p, nvmlDevice_t device, int *ret_index)
{
    int (*get_uuid)(nvmlDevice_t, char *, unsigned) =
        (int (*)(nvmlDevice_t, char *, unsigned))real_of(NVML_nvmlDeviceGetUUID);
    char text[UUID_TEXT_MAX] = "";
    uint8_t uuid[UUID_BYTES];
    if (!process_is_ready(p) || !get_uuid || get_uuid(device, text, sizeof(text)) != NVML_SUCCESS ||
        !uuid_parse(text, uuid))
        return (struct quota_view){0};
    *ret_index = devices_by_uuid(p, uuid);
    (void)pools_settle(p);
    return quota_view(&p->client, *ret_index);
}

/* ---- calls ---- */

static void show(struct process *p, nvmlDevice_t device, unsigned long long *total,
                 unsigned long long *available, unsigned long long *used)
{
    int index;
    struct quota_view view = view_of(p, device, &index);
    if (view.limit == 0 || *total <= view.limit)
        return;
    *total = view.limit;
    *used = view.held < view.limit ? view.held : view.limit;
    *available = *available < view.left ? *available : view.left;
}

int hook_nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *ret_memory)
{
    struct process *p = enter();
    int (*real)(nvmlDevice_t, nvmlMemory_t *) =
        (int (*)(nvmlDevice_t, nvmlMemory_t *))real_of(NVML_nvmlDeviceGetMemoryInfo);
    int r = real ? real(device, ret_memory) : NVML_ERROR_FUNCTION_NOT_FOUND;
    if (r == NVML_SUCCESS && ret_memory)
        show(p, device, &ret_memory->total, &ret_memory->free, &ret_memory->used);
    return r;
}

int hook_nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *ret_memory)
{
    struct process *p = enter();
    int (*real)(nvmlDevice_t, nvmlMemory_v2_t *) =
        (int (*)(nvmlDevice_t, nvmlMemory_v2_t *))real_of(NVML_nvmlDeviceGetMemoryInfo_v2);
    int r = real ? real(device, ret_memory) : NVML_ERROR_FUNCTION_NOT_FOUND;
    if (r != NVML_SUCCESS || !ret_memory)
        return r;
    unsigned long long total = ret_memory->total;
    show(p, device, &ret_memory->total, &ret_memory->free, &ret_memory->used);
    if (ret_memory->total != total)
        ret_memory->reserved = 0; /* the device's reserved memory is no part of the quota */
    return r;
}

/* The ledger knows this process's memory; NVML knows that of others. */
#define SHOW_PROCESSES(symbol, type)                                                               \
    int hook_##symbol(nvmlDevice_t device, unsigned *count, type *ret_processes)                   \
    {                                                                                              \
        struct process *p = enter();                                                               \
        int (*real)(nvmlDevice_t, unsigned *, type *) =                                            \
            (int (*)(nvmlDevice_t, unsigned *, type *))real_of(NVML_##symbol);                     \
        int index, r = real ? real(device, count, ret_processes) : NVML_ERROR_FUNCTION_NOT_FOUND;  \
        if (r != NVML_SUCCESS || !count || *count == 0 || !ret_processes ||                        \
            view_of(p, device, &index).limit == 0)                                                 \
            return r;                                                                              \
        for (unsigned i = 0; i < *count; i++) {                                                    \
            if (ret_processes[i].pid == (unsigned)sys_getpid())                                    \
                ret_processes[i].usedGpuMemory = quota_held_by_process(&p->client, index);         \
        }                                                                                          \
        return r;                                                                                  \
    }
SHOW_PROCESSES(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t)
SHOW_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
SHOW_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_v2_t)
SHOW_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t)
SHOW_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
SHOW_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_v2_t)
