/* Shared libraries that are loaded at run time, so that gpumux builds and starts without them: the
 * CUDA driver and NVML. */
#pragma once

struct library {
    void *handle;        /* for dlclose(); NULL: not loaded, and dlerror() says why */
    const char *missing; /* the first function that the library lacks; NULL: none */
};

/* Loads a library and finds the functions in names, which ends with NULL; names is NULL for none.
 * ret_functions is a struct of pointers to functions in the order of the names; the pointer to a
 * missing function becomes NULL. CALL_MEMBER and CALL_NAMES (abi/parameters.h) make the struct and
 * the names from one list. */
struct library library_load(const char *file, const char *const *names, void *ret_functions);
