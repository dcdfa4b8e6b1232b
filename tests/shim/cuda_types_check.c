/*
 * Compiled, never run. By default: checks cuda_types.def against the shim's own types. With
 * CUDA_HEADER, CUDA_CALLS and CUDA_RESULTS: checks cuda_types.def against cuda.h, every result's
 * number, and every call's parameters against NVIDIA's type: SAME(symbol, type, parameters...),
 * which types.sh generates from the calls that the header has.
 */
#ifdef CUDA_HEADER
#include <stddef.h>
#include <cuda.h>
#include <cudaTypedefs.h>
#else
#include "abi/cuda.h"
#endif

#define TYPE(type, size) _Static_assert(sizeof(type) == (size), #type);
#define FIELD(type, field, offset)                                                                 \
    _Static_assert(offsetof(type, field) == (offset), #type "." #field);
#define NUMBER(name, number) _Static_assert((int)(name) == (number), #name);
#include "abi/cuda_types.def"

#ifdef CUDA_HEADER
#define VOID_IF_EMPTY(...) __VA_OPT__(__VA_ARGS__) VOID_UNLESS##__VA_OPT__(_ANY)
#define VOID_UNLESS        void
#define VOID_UNLESS_ANY
#define SAME(call, theirs, ...)                                                                    \
    _Static_assert(__builtin_types_compatible_p(theirs, CUresult(*)(VOID_IF_EMPTY(__VA_ARGS__))),  \
                   #call);
#include CUDA_CALLS
#define RESULT(name, number, text) NUMBER(name, number)
#include CUDA_RESULTS
#endif
