/*
 * Compiled, never run. As it is: cuda_types.def against the shim's own types. With CUDA_HEADER and
 * CUDA_CALLS and CUDA_RESULTS (the calls and results that header has): the same against cuda.h, every
 * call's parameters against the type that NVIDIA gives it by name and version, and every result's number.
 */
#ifdef CUDA_HEADER
#include <stddef.h>
#include <cuda.h>
#include <cudaTypedefs.h>
#else
#include "shim/hook/cuda_types.h"
#endif

#define TYPE(type, size) _Static_assert(sizeof(type) == (size), #type);
#define FIELD(type, field, offset)                                                                 \
    _Static_assert(offsetof(type, field) == (offset), #type "." #field);
#define NUMBER(name, number) _Static_assert((int)(name) == (number), #name);
#include "shim/hook/cuda_types.def"

#ifdef CUDA_HEADER
#define IN(...) __VA_ARGS__
#define SAME(call, theirs, ...)                                                                    \
    _Static_assert(__builtin_types_compatible_p(theirs, CUresult(*)(__VA_ARGS__)), #call);
#define SAME_legacy(call, theirs, ...) SAME(call, theirs, __VA_ARGS__)
#define SAME_ptds(call, theirs, ...)   SAME(call, theirs##_ptds, __VA_ARGS__)
#define SAME_ptsz(call, theirs, ...)   SAME(call, theirs##_ptsz, __VA_ARGS__)
#define VOID_IF_EMPTY(...)             __VA_OPT__(__VA_ARGS__) VOID_UNLESS##__VA_OPT__(_ANY)
#define VOID_UNLESS                    void
#define VOID_UNLESS_ANY
#define HOOK(family, symbol, name, version, variant, ...)                                          \
    SAME_##variant(symbol, PFN_##name##_v##version, VOID_IF_EMPTY(__VA_ARGS__))
#define PASS(family, symbol, name, version, variant, ...)                                          \
    SAME_##variant(symbol, PFN_##name##_v##version, VOID_IF_EMPTY(__VA_ARGS__))
#define USED(symbol, name, version, variant, ...)                                                  \
    SAME_##variant(symbol, PFN_##name##_v##version, VOID_IF_EMPTY(__VA_ARGS__))
#include CUDA_CALLS
#define RESULT(name, number, text) NUMBER(name, number)
#include CUDA_RESULTS
#endif
