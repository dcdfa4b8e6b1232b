/*
 * A library that precedes another's function, as many preloaded libraries do: a `puts` of its own,
 * which finds the next one by RTLD_NEXT, also in a constructor. Compiled at -O0 and -O2, since a
 * wrong return address fails in different ways.
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
