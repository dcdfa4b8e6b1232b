#include "tests/shim/driver_calls.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

void driver_calls_load(struct real_calls *ret_calls)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        printf("no driver: %s\n", dlerror());
        exit(2);
    }
#define HOOK(family, symbol, name, version, variant, ...)                                          \
    *(void **)&ret_calls->symbol = dlsym(library, #symbol);
#define PASS(family, symbol, name, version, variant, ...)                                          \
    *(void **)&ret_calls->symbol = dlsym(library, #symbol);
#define USED(symbol, name, version, variant, ...)                                                  \
    *(void **)&ret_calls->symbol = dlsym(library, #symbol);
#include "api/cuda_calls.def"
#undef HOOK
#undef PASS
#undef USED
}
