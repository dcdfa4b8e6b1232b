/* What every fuzzer here has: its entry, and a claim whose breach ends the run. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void fuzz_check(bool holds)
{
    if (!holds)
        __builtin_trap();
}
