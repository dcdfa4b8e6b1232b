/* Prints the results of the libraries before and after the shim; entry.sh compares them. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    Dl_info info;
    puts("hello");
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *function = library ? dlsym(library, "cuMemAlloc_v2") : NULL;
    const char *owner = function && dladdr(function, &info) ? strrchr(info.dli_fname, '/') : "/-";
    int (*counted)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "own_dlsym_count");
    char line[128];
    snprintf(line, sizeof(line), "%s %d", owner + 1, counted ? counted() : -1);
    fputs(line, stdout);
    fputs("\n", stdout);
    return 0;
}
