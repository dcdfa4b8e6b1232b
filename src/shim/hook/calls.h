/*
 * hook/ puts a hook in the place of each driver function that api/cuda_calls.def lists, and finds the driver's own. The hooks
 * stand in memory/ and launch/. It uses sys/ and the state of the process (life/).
 *
 * The intercepted calls, from api/cuda_calls.def: what each is called with, the driver's own function
 * behind it, and how a program that asks for that function gets the shim's.
 *
 *   enum call           CALL_cuMemAlloc_v2, … one for each call and variant that the shim intercepts or uses (calls.def)
 *   struct real_calls   .cuMemAlloc_v2(…)     the driver's functions, by name and with their types
 *   hook_cuMemAlloc_v2  what a program gets   for `pass` it is in calls.c
 *
 * A program comes to a function in three ways, and gets the hook in each:
 * by dlsym and dlvsym (entry.c, then calls_route); by cuGetProcAddress, in both its versions
 * (calls.c); and by being linked with libcuda, which the dynamic linker resolves to the exports
 * of this library (exports.c). What counts is always the address that the driver itself gave: if it
 * is one of the driver's functions of the list, its hook takes its place, and if not, the program
 * gets what it was given. So versions, variants for per-thread default streams, statuses and
 * functions that the driver lacks are as the driver has them, and a call newer than the list is left alone.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "abi/parameters.h"
#include "shim/hook/cuda_types.h"

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

enum { CALLS_ADDRESSES_MAX = 1024 }; /* a power of two, above twice what is intercepted */
_Static_assert(CALLS_ADDRESSES_MAX > 4 * CALLS_INTERCEPTED, "the table of addresses stays sparse");

/* The driver's functions. All zero before calls_load(). */
struct calls {
    struct real_calls real; /* a function that the driver lacks answers CUDA_ERROR_STUB_LIBRARY */
    bool is_loaded;
    bool has[CALLS_ALL]; /* by enum call: the driver has it */
    struct {
        void *address;
        uint16_t call; /* enum call */
    } by_address[CALLS_ADDRESSES_MAX];
};

/* What a function that the driver lacks is. */
CUresult calls_missing(void);
/* Finds the driver's functions, and sees to it that the driver is never unloaded. Not while another
 * thread uses *calls. False if the process has no driver yet: then all functions answer
 * CUDA_ERROR_STUB_LIBRARY. */
bool calls_load(struct calls *calls);
/* The hook for one of the driver's functions, or the address itself if it is none. */
void *calls_hook(const struct calls *calls, void *address);

/* The answer to a dlsym or dlvsym: `jump` is called in its place with the same arguments, or, if it is
 * NULL, it returns `value`. */
struct calls_route {
    void *jump;
    void *value;
};
/* For entry.c: dlsym(handle, name) or dlvsym(handle, name, version), asked by the code at `caller`, of
 * which only calls of the driver, of NVML (nvml.h) and the two functions themselves are of interest. `real` is the function
 * behind the entry. */
struct calls_route calls_route(void *handle, const char *name, const char *version,
                               const void *caller, void *real);
/* entry.c: this library's dlsym and dlvsym, by names that are nobody else's. */
void *entry_dlsym(void *handle, const char *name) __attribute__((visibility("hidden")));
void *entry_dlvsym(void *handle, const char *name, const char *version)
    __attribute__((visibility("hidden")));
