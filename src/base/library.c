#include "base/library.h"

#include <dlfcn.h>
#include <stddef.h>

struct library library_load(const char *file, const char *const *names, void *ret_functions)
{
    struct library library = {.handle = dlopen(file, RTLD_NOW | RTLD_LOCAL)};
    void **functions = ret_functions;
    for (int i = 0; names && names[i]; i++) {
        functions[i] = library.handle ? dlsym(library.handle, names[i]) : NULL;
        if (!functions[i] && !library.missing)
            library.missing = names[i];
    }
    return library;
}
