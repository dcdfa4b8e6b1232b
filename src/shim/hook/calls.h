/*
 * hook/ puts a hook in the place of each driver function that api/cuda_calls.def lists, and finds the driver's own. The hooks
 * stand in memory/ and launch/. It uses sys/ and the state of the process (life/).
 *
 * The intercepted calls, from api/cuda_calls.def: what each is called with, the driver's own function
 * behind it, and how a program that asks for that function gets the shim's.
 *
 *   enum call           CALL_cuMemAlloc_v2, … one for each line of the list
 *   struct real_calls   .cuMemAlloc_v2(…)     the driver's functions, by name and with their types
 *   hook_cuMemAlloc_v2  what a program gets   for HOOK in the file of its family, for PASS in calls.c
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

#include "shim/hook/cuda_types.h"

/* CALL_PARAMETERS(int, char *) is (int a, char *b), CALL_ARGUMENTS of the same is (a, b). */
#define CALL_NTH(_0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, n, ...) n
#define CALL_COUNT(...)                                                    CALL_NTH(0, ##__VA_ARGS__, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define CALL_JOIN(a, b)                                                    a##b
#define CALL_OF_COUNT(a, b)                                                CALL_JOIN(a, b)
#define CALL_PARAMETERS(...)                                               CALL_OF_COUNT(CALL_PARAMETERS_, CALL_COUNT(__VA_ARGS__))(__VA_ARGS__)
#define CALL_ARGUMENTS(...)                                                CALL_OF_COUNT(CALL_ARGUMENTS_, CALL_COUNT(__VA_ARGS__))
#define CALL_PARAMETERS_0()                                                (void)
#define CALL_PARAMETERS_1(A)                                               (A a)
#define CALL_PARAMETERS_2(A, B)                                            (A a, B b)
#define CALL_PARAMETERS_3(A, B, C)                                         (A a, B b, C c)
#define CALL_PARAMETERS_4(A, B, C, D)                                      (A a, B b, C c, D d)
#define CALL_PARAMETERS_5(A, B, C, D, E)                                   (A a, B b, C c, D d, E e)
#define CALL_PARAMETERS_6(A, B, C, D, E, F)                                (A a, B b, C c, D d, E e, F f)
#define CALL_PARAMETERS_7(A, B, C, D, E, F, G)                             (A a, B b, C c, D d, E e, F f, G g)
#define CALL_PARAMETERS_8(A, B, C, D, E, F, G, H)                          (A a, B b, C c, D d, E e, F f, G g, H h)
#define CALL_PARAMETERS_9(A, B, C, D, E, F, G, H, I)                       (A a, B b, C c, D d, E e, F f, G g, H h, I i)
#define CALL_PARAMETERS_10(A, B, C, D, E, F, G, H, I, J)                                           \
    (A a, B b, C c, D d, E e, F f, G g, H h, I i, J j)
#define CALL_PARAMETERS_11(A, B, C, D, E, F, G, H, I, J, K)                                        \
    (A a, B b, C c, D d, E e, F f, G g, H h, I i, J j, K k)
#define CALL_ARGUMENTS_0  ()
#define CALL_ARGUMENTS_1  (a)
#define CALL_ARGUMENTS_2  (a, b)
#define CALL_ARGUMENTS_3  (a, b, c)
#define CALL_ARGUMENTS_4  (a, b, c, d)
#define CALL_ARGUMENTS_5  (a, b, c, d, e)
#define CALL_ARGUMENTS_6  (a, b, c, d, e, f)
#define CALL_ARGUMENTS_7  (a, b, c, d, e, f, g)
#define CALL_ARGUMENTS_8  (a, b, c, d, e, f, g, h)
#define CALL_ARGUMENTS_9  (a, b, c, d, e, f, g, h, i)
#define CALL_ARGUMENTS_10 (a, b, c, d, e, f, g, h, i, j)
#define CALL_ARGUMENTS_11 (a, b, c, d, e, f, g, h, i, j, k)

enum call {
#define HOOK(family, symbol, name, version, variant, ...) CALL_##symbol,
#define PASS(family, symbol, name, version, variant, ...) CALL_##symbol,
#define USED(symbol, name, version, variant, ...)         CALL_##symbol,
#include "../../../api/cuda_calls.def"
#undef HOOK
#undef PASS
#undef USED
    CALLS_ALL
};

enum {
    CALLS_INTERCEPTED = 0
#define HOOK(family, symbol, name, version, variant, ...) +1
#define PASS(family, symbol, name, version, variant, ...) +1
#define USED(symbol, name, version, variant, ...)
#include "../../../api/cuda_calls.def"
#undef HOOK
#undef PASS
#undef USED
};

#define HOOK(family, symbol, name, version, variant, ...)                                          \
    CUresult hook_##symbol CALL_PARAMETERS(__VA_ARGS__);
#define PASS(family, symbol, name, version, variant, ...)                                          \
    CUresult hook_##symbol CALL_PARAMETERS(__VA_ARGS__);
#define USED(symbol, name, version, variant, ...)
#include "../../../api/cuda_calls.def"
#undef HOOK
#undef PASS
#undef USED

struct real_calls {
#define HOOK(family, symbol, name, version, variant, ...)                                          \
    CUresult(*symbol) CALL_PARAMETERS(__VA_ARGS__);
#define PASS(family, symbol, name, version, variant, ...)                                          \
    CUresult(*symbol) CALL_PARAMETERS(__VA_ARGS__);
#define USED(symbol, name, version, variant, ...) CUresult(*symbol) CALL_PARAMETERS(__VA_ARGS__);
#include "../../../api/cuda_calls.def"
#undef HOOK
#undef PASS
#undef USED
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
