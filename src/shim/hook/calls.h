/*
 * hook/ replaces each driver function that api/cuda_calls.def lists by a hook, and finds the
 * driver's own functions. memory/ and launch/ contain the hooks themselves. hook/ uses sys/ and the
 * state of the process (life/).
 *
 * This header declares the intercepted calls of api/cuda_calls.def: their types, the driver's
 * functions behind the hooks, and the lookups that return a hook to the program.
 *
 *   enum call           CALL_cuMemAlloc_v2, …: one for each call and variant that the shim
 *                       intercepts or uses (calls.def)
 *   struct real_calls   .cuMemAlloc_v2(…): the driver's functions, by name and with their types
 *   hook_cuMemAlloc_v2  the function that a program gets; calls.c defines the hooks that only pass
 *                       calls on
 *
 * A program gets a function in one of three ways, and each way returns the hook: by dlsym or dlvsym
 * (entry.c, then calls_route()); by cuGetProcAddress, in both versions (calls.c); or by a link with
 * libcuda, whose names the dynamic linker resolves to the exports of the shim (exports.c). The
 * shim decides by the address that the driver returned. For the address of a listed function, the
 * program gets the hook; for any other address, the program gets the address itself. Versions,
 * variants for per-thread default streams, statuses and missing functions therefore stay those of
 * the driver, and calls newer than the list are unchanged.
 *
 * This folder contains the table of hooks, and the code that finds the driver's own functions.
 * Files of the folder shim/hook may include abi, shim/sys, shim/life.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "abi/parameters.h"
#include "abi/cuda.h"

enum call {
#define INTERCEPTED(how, symbol, ...) CALL_##symbol,
#define USED(symbol, ...)             CALL_##symbol,
#include "shim/hook/calls.def"
    CALLS_ALL
};

enum {
    CALLS_INTERCEPTED = 0
#define INTERCEPTED(...) +1
#define USED(...)
#include "shim/hook/calls.def"
};

#define INTERCEPTED(how, symbol, name, version, variant, ...)                                      \
    CUresult hook_##symbol CALL_PARAMETERS(__VA_ARGS__);
#define USED(...)
#include "shim/hook/calls.def"

struct real_calls {
#define INTERCEPTED(how, symbol, name, version, variant, ...)                                      \
    CUresult(*symbol) CALL_PARAMETERS(__VA_ARGS__);
#define USED(symbol, ...) CUresult(*symbol) CALL_PARAMETERS(__VA_ARGS__);
#include "shim/hook/calls.def"
};
_Static_assert(sizeof(struct real_calls) == CALLS_ALL * sizeof(void *), "one pointer a call");

/* Size of the hash table: a power of two, above four times the number of intercepted calls. */
enum { CALLS_ADDRESSES_MAX = 1024 };
_Static_assert(CALLS_ADDRESSES_MAX > 4 * CALLS_INTERCEPTED, "the table of addresses stays sparse");

/* The driver's functions. All zero before calls_load(). */
struct calls {
    struct real_calls real; /* a function that the driver lacks returns CUDA_ERROR_STUB_LIBRARY */
    bool is_loaded;
    bool has[CALLS_ALL]; /* indexed by enum call; true: the driver has the function */
    struct {
        void *address;
        uint16_t call; /* enum call */
    } by_address[CALLS_ADDRESSES_MAX];
};

/* Stands in for every function that the driver lacks. Returns CUDA_ERROR_STUB_LIBRARY. */
CUresult calls_missing(void);
/* Finds the driver's functions, and prevents the unloading of the driver. No other thread may use
 * *calls meanwhile. Returns false if the process has not loaded a driver yet: all functions then
 * return CUDA_ERROR_STUB_LIBRARY. */
bool calls_load(struct calls *calls);
/* Returns the hook of the driver function at the address, or the address itself if no listed
 * function has that address. */
void *calls_hook(const struct calls *calls, void *address);

/* The result of a dlsym or dlvsym: entry.c calls `jump` instead, with the same arguments, or
 * returns `value` if `jump` is NULL. */
struct calls_route {
    void *jump;
    void *value;
};
/* Resolves dlsym(handle, name), or dlvsym(handle, name, version), called by the code at `caller`.
 * entry.c calls this function for names of the driver, of NVML (nvml.h), and for "dlsym" and
 * "dlvsym" themselves. `real` is the next library's dlsym or dlvsym. */
struct calls_route calls_route(void *handle, const char *name, const char *version,
                               const void *caller, void *real);
/* entry.c: the shim's dlsym and dlvsym, under names that no other library defines. */
void *entry_dlsym(void *handle, const char *name) __attribute__((visibility("hidden")));
void *entry_dlvsym(void *handle, const char *name, const char *version)
    __attribute__((visibility("hidden")));
