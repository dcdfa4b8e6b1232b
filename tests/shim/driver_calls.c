#include "tests/shim/driver_calls.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum answer { REFUSED, LACKED, GRANTED, ANSWERS };

static struct {
    struct real_calls real;
    _Atomic bool (*answered)[ANSWERS]; /* by enum call; shared with children */
} driver;

static CUresult note(enum call call, CUresult result)
{
    enum answer answer = result == CUDA_SUCCESS               ? GRANTED
                         : result == CUDA_ERROR_NOT_SUPPORTED ? LACKED
                                                              : REFUSED;
    atomic_store_explicit(&driver.answered[call][answer], true, memory_order_relaxed);
    return result;
}

#define NOTING(symbol, ...)                                                                        \
    static CUresult noting_##symbol CALL_PARAMETERS(__VA_ARGS__)                                   \
    {                                                                                              \
        return note(CALL_##symbol, driver.real.symbol CALL_ARGUMENTS(__VA_ARGS__));                \
    }
#define INTERCEPTED(how, symbol, name, version, variant, ...) NOTING(symbol, ##__VA_ARGS__)
#define USED(symbol, ...)                                     NOTING(symbol, ##__VA_ARGS__)
#include "shim/hook/calls.def"

/* NULL for a call that is not intercepted. */
static const char *const symbols[CALLS_ALL] = {
#define INTERCEPTED(how, symbol, ...) #symbol,
#define USED(...)                     NULL,
#include "shim/hook/calls.def"
};

void driver_calls_load(struct real_calls *ret_calls)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        printf("no driver: %s\n", dlerror());
        exit(2);
    }
    driver.answered = mmap(NULL, CALLS_ALL * sizeof(*driver.answered), PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (driver.answered == MAP_FAILED)
        exit(2);
#define LOAD(symbol)                                                                               \
    *(void **)&driver.real.symbol = dlsym(library, #symbol);                                       \
    ret_calls->symbol = driver.real.symbol ? noting_##symbol : NULL;
#define INTERCEPTED(how, symbol, ...) LOAD(symbol)
#define USED(symbol, ...)             LOAD(symbol)
#include "shim/hook/calls.def"
}

bool driver_calls_write(const char *path)
{
    static const char *const words[ANSWERS] = {"refused", "lacked", "granted"};
    FILE *file = fopen(path, "a");
    if (!file)
        return false;
    for (int call = 0; call < CALLS_ALL; call++) {
        int answer = GRANTED;
        while (answer >= 0 && !driver.answered[call][answer])
            answer--;
        if (symbols[call] && answer >= 0)
            fprintf(file, "%s %s\n", symbols[call], words[answer]);
    }
    return fclose(file) == 0;
}
