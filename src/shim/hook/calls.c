#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>

#include "shim/hook/calls.h"
#include "shim/hook/libraries.h"
#include "shim/hook/resolve.h"
#include "shim/life/process.h"
#include "shim/memory/nvml.h"
#include "shim/sys/text.h"

struct call_row {
    const char *symbol;
    const char *name; /* this and later fields: of intercepted calls */
    uint16_t version;
    uint8_t length; /* length of symbol, compared first since it differs between most names */
    bool is_per_thread;
    void *hook; /* NULL: not intercepted */
};

enum call_variant { variant_legacy = false, variant_ptds = true, variant_ptsz = true };

static const struct call_row rows[CALLS_ALL] = {
#define INTERCEPTED(how, symbol, name, version, variant, ...)                                      \
    {#symbol, #name, version, sizeof(#symbol) - 1, variant_##variant, (void *)hook_##symbol},
#define USED(symbol_, ...) {.symbol = #symbol_},
#include "shim/hook/calls.def"
};

/* Defines the hooks that only pass their call on. */
#define INTERCEPTED(how, symbol, name, version, variant, ...) DEFINE_##how(symbol, ##__VA_ARGS__)
#define USED(...)
#define DEFINE_hook(...)
#define DEFINE_copy(...)
#define DEFINE_wait(...)
#define DEFINE_pass(symbol, ...)                                                                   \
    CUresult hook_##symbol CALL_PARAMETERS(__VA_ARGS__)                                            \
    {                                                                                              \
        return process_enter()->calls.real.symbol CALL_ARGUMENTS(__VA_ARGS__);                     \
    }
#include "shim/hook/calls.def"

CUresult calls_missing(void)
{
    return CUDA_ERROR_STUB_LIBRARY;
}

/* ---- the driver's functions ---- */

static size_t address_place(const void *address)
{
    return (size_t)(((uintptr_t)address >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32) &
           (CALLS_ADDRESSES_MAX - 1);
}

/* The first call to claim an address keeps it. Calls are offered from old to new, since a driver
 * that lacks a new call may return the address of an older one. */
static void add_address(struct calls *calls, void *address, size_t call)
{
    size_t place = address_place(address);
    while (calls->by_address[place].address) {
        if (calls->by_address[place].address == address)
            return;
        place = (place + 1) & (CALLS_ADDRESSES_MAX - 1);
    }
    /* The order matters: a child that is forked in between finds a free place. */
    calls->by_address[place].call = (uint16_t)call;
    atomic_signal_fence(memory_order_release);
    calls->by_address[place].address = address;
}

void *calls_hook(const struct calls *calls, void *address)
{
    size_t place = address_place(address);
    for (; calls->by_address[place].address; place = (place + 1) & (CALLS_ADDRESSES_MAX - 1)) {
        if (calls->by_address[place].address == address)
            return rows[calls->by_address[place].call].hook;
    }
    return address;
}

struct driver_search {
    struct calls *calls;
    bool is_found;
    char path[4096]; /* empty: not found, or too long */
};

static void find_driver(void *argument)
{
    struct driver_search *search = argument;
    void **real = (void **)&search->calls->real;
    const struct link_map *driver = resolve_library(CUDA_SONAME);
    if (!driver)
        return;
    for (size_t i = 0; i < CALLS_ALL; i++) {
        void *address = resolve_symbol(driver, rows[i].symbol);
        if (!address)
            continue;
        real[i] = address;
        search->calls->has[i] = true;
        search->is_found = true;
    }
    size_t length = 0;
    while (length < sizeof(search->path) && driver->l_name[length])
        length++;
    for (size_t i = 0; length < sizeof(search->path) && i <= length; i++)
        search->path[i] = driver->l_name[i];
}

/* Keeps the driver loaded, since its functions are about to be stored. If the file cannot be opened
 * again by its name (deleted, or a path of another namespace), the program must not unload the
 * driver, and no program does. */
static void keep_driver_loaded(const char *path)
{
    void *(*open)(const char *, int) = (void *(*)(const char *, int))resolve_next("dlopen");
    if (open && path[0])
        (void)open(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/* Only the driver knows whether cuGetProcAddress returns the exported functions or others, so the
 * shim asks for the address of each. */
static void add_proc_addresses(struct calls *calls)
{
    int newest = 0;
    if (calls->real.cuDriverGetVersion(&newest) != CUDA_SUCCESS)
        return;
    for (size_t i = 0; i < CALLS_ALL; i++) {
        uint64_t flags = rows[i].is_per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                               : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
        void *address = NULL;
        CUresult r = CUDA_ERROR_STUB_LIBRARY;
        if (!rows[i].hook || rows[i].version > newest)
            continue;
        if (calls->has[CALL_cuGetProcAddress_v2])
            r = calls->real.cuGetProcAddress_v2(rows[i].name, &address, rows[i].version, flags,
                                                NULL);
        else if (calls->has[CALL_cuGetProcAddress])
            r = calls->real.cuGetProcAddress(rows[i].name, &address, rows[i].version, flags);
        if (r == CUDA_SUCCESS && address && calls->has[i])
            add_address(calls, address, i);
    }
}

bool calls_load(struct calls *calls)
{
    struct driver_search search = {.calls = calls};
    if (calls->is_loaded)
        return true;
    libraries_visit(find_driver, &search);
    if (!search.is_found)
        return false;
    keep_driver_loaded(search.path);
    const void *const *real = (const void *const *)&calls->real;
    for (size_t i = 0; i < CALLS_ALL; i++) {
        if (rows[i].hook && calls->has[i])
            add_address(calls, (void *)(uintptr_t)real[i], i);
    }
    add_proc_addresses(calls);
    /* Set last: a child that is forked before this repeats all of it. */
    calls->is_loaded = true;
    return true;
}

/* ---- cuGetProcAddress ---- */

CUresult hook_cuGetProcAddress(const char *name, void **ret_address, int version, uint64_t flags)
{
    struct process *p = process_enter();
    CUresult r = p->calls.real.cuGetProcAddress(name, ret_address, version, flags);
    if (r == CUDA_SUCCESS && ret_address && *ret_address && !process_is_disabled())
        *ret_address = calls_hook(&p->calls, *ret_address);
    return r;
}

CUresult hook_cuGetProcAddress_v2(const char *name, void **ret_address, int version, uint64_t flags,
                                  CUdriverProcAddressQueryResult *ret_status)
{
    struct process *p = process_enter();
    CUresult r = p->calls.real.cuGetProcAddress_v2(name, ret_address, version, flags, ret_status);
    if (r == CUDA_SUCCESS && ret_address && *ret_address && !process_is_disabled())
        *ret_address = calls_hook(&p->calls, *ret_address);
    return r;
}

/* ---- dlsym ---- */

static const struct call_row *find_row(const char *symbol)
{
    size_t length = 0;
    while (symbol[length])
        length++;
    for (size_t i = 0; i < CALLS_ALL; i++) {
        if (rows[i].length == length && text_equals(rows[i].symbol, symbol))
            return &rows[i];
    }
    return NULL;
}

struct symbol_search {
    const char *name;
    const void *caller;
    void *address;
    bool is_before;
};

static void find_in_driver(void *argument)
{
    struct symbol_search *search = argument;
    const struct link_map *driver = resolve_library(CUDA_SONAME);
    if (driver)
        search->address = resolve_symbol(driver, search->name);
}

static void find_caller(void *argument)
{
    struct symbol_search *search = argument;
    search->is_before = resolve_is_before(search->caller);
}

/* The real dlsym interprets the pseudo handles by the caller's return address, which a call from
 * here loses. Both handles mean "any library", and the driver has the only definition. */
static bool is_pseudo(const void *handle)
{
    return handle == RTLD_DEFAULT || handle == RTLD_NEXT;
}

/* Returns the driver's own function; NULL if the driver lacks it. After the shim has started, the
 * answer needs no lock, so a lookup is as safe as without the shim. */
static void *find_real(const struct call_row *row)
{
    const struct process *p = &the_process;
    struct symbol_search search = {.name = row->symbol};
    if (process_is_ready(p)) {
        size_t call = (size_t)(row - rows);
        return p->calls.has[call] ? ((void *const *)&p->calls.real)[call] : NULL;
    }
    libraries_visit(find_in_driver, &search);
    return search.address;
}

static struct calls_route route_call(void *handle, const struct call_row *row, const char *version,
                                     void *real)
{
    void *expected = find_real(row);
    if (is_pseudo(handle))
        return expected ? (struct calls_route){.value = row->hook}
                        : (struct calls_route){.jump = real};
    void *address =
        version
            ? ((void *(*)(void *, const char *, const char *))real)(handle, row->symbol, version)
            : ((void *(*)(void *, const char *))real)(handle, row->symbol);
    return (struct calls_route){.value = address && address == expected ? row->hook : address};
}

/* Handles another library with a dlsym of its own that asks for the next one. If that library
 * precedes the shim, the next one is the shim's; the real dlsym would skip the shim's function,
 * because it has no version. */
static struct calls_route route_entry(void *handle, const char *name, const void *caller,
                                      void *real)
{
    struct symbol_search search = {.caller = caller};
    bool is_dlsym = text_equals(name, "dlsym");
    if (handle == RTLD_NEXT && (is_dlsym || text_equals(name, "dlvsym"))) {
        libraries_visit(find_caller, &search);
        if (search.is_before)
            return (struct calls_route){.value =
                                            is_dlsym ? (void *)entry_dlsym : (void *)entry_dlvsym};
    }
    return (struct calls_route){.jump = real};
}

struct calls_route calls_route(void *handle, const char *name, const char *version,
                               const void *caller, void *real)
{
    if (text_starts(name, "dl"))
        return route_entry(handle, name, caller, real);
    if (text_starts(name, "nvml"))
        return nvml_route(handle, name, version, real);
    const struct call_row *row = find_row(name);
    if (!row || process_is_disabled())
        return (struct calls_route){.jump = real};
    return route_call(handle, row, version, real);
}
