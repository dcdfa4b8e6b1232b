/*
 * A library with a dlsym of its own, which counts calls and passes them on. It finds the next dlsym
 * as such libraries do, by the C library's dlvsym. Prints the number of lookups of a driver call.
 */
#include <dlfcn.h>
#include <string.h>

int own_dlsym_count(void);

static int count;

void *dlsym(void *handle, const char *name)
{
    static void *(*next)(void *, const char *);
    if (!next) {
        next = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
        if (!next)
            return NULL;
    }
    count += strncmp(name, "cu", 2) == 0;
    return next(handle, name);
}

int own_dlsym_count(void)
{
    return count;
}
