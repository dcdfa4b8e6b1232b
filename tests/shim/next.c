/*
 * A library that stands before another's function, as many that are preloaded do: `puts` of its
 * own, which finds the next one with RTLD_NEXT, and from a constructor too. Compiled without and
 * with optimisation: at -O0 and -O2 a wrong return address fails in different ways.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static int (*real_puts)(const char *);
static size_t (*real_strlen)(const char *);

__attribute__((constructor)) static void start(void)
{
    real_strlen = (size_t(*)(const char *))dlsym(RTLD_NEXT, "strlen");
}

int puts(const char *text);
int puts(const char *text)
{
    if (!real_puts)
        real_puts = (int (*)(const char *))dlsym(RTLD_NEXT, "puts");
    if (!real_puts || real_puts == puts || !real_strlen || real_strlen("four") != 4)
        return EOF;
    char line[128];
    snprintf(line, sizeof(line), "[" NEXT_NAME "] %s", text);
    return real_puts(line);
}
