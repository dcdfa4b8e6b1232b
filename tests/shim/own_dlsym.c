/*
 * A library with a dlsym of its own, which counts and hands on, found as such libraries do it: by
 * dlvsym of the C library. Says how often it was asked for a call of the driver.
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
