/* The entry point of a fuzzer, and an assertion that stays in release builds. */
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
