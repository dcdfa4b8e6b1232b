/* The emulated calls, as listed in api/cuda_calls.def. */
#pragma once
#include "abi/parameters.h"
#include "emu/abi/cuda_abi.h"

#define CALL(symbol, name, version, variant, shim, errors, ...)                                    \
    CUDA_API CUresult symbol CALL_PARAMETERS(__VA_ARGS__);
#define LACK(...)
#include "../../api/cuda_calls.def"
#undef CALL
#undef LACK
