/* The emulated calls, as listed in api/cuda_calls.def. */
#pragma once
#include "emu/abi/cuda_abi.h"

#define CALL(symbol, name, version, variant, shim, errors, ...) CUDA_API call_##symbol symbol;
#define LACK(...)
#include "../../api/cuda_calls.def"
#undef CALL
#undef LACK
