/* A program that is linked with libcuda and looks no function up. Run with a quota of 64 MiB. */
#include <stdint.h>
#include <stdio.h>

int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(uint64_t *, size_t);
int cuMemFree_v2(uint64_t);
/* Not in any driver: stays NULL, with or without the shim. */
int cuLaunchNothing(void) __attribute__((weak));

/* Some libraries use the driver before main. */
static int early = -1;
__attribute__((constructor)) static void start(void)
{
    early = cuInit(0);
}

int main(void)
{
    void *context;
    uint64_t memory = 0;
    if (early || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) {
        puts("no device");
        return 1;
    }
    int within = cuMemAlloc_v2(&memory, 64 << 20), beyond = cuMemAlloc_v2(&memory, 1);
    printf("%d %d %d\n", within, beyond, cuLaunchNothing ? 1 : 0);
    return !(within == 0 && cuMemFree_v2(memory) == 0);
}
