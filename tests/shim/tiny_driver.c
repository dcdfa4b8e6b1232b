/* The part of a libcuda.so.1 that foreign_program.c needs, for C libraries that the emulated driver
 * was not built for: its memory is unlimited. */
#include <stddef.h>
#include <stdint.h>

int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
    return flags != 0;
}

int cuCtxGetDevice(int *ret_device);
int cuCtxGetDevice(int *ret_device)
{
    *ret_device = 0;
    return 0;
}

int cuMemAlloc_v2(uint64_t *ret_address, size_t bytes);
int cuMemAlloc_v2(uint64_t *ret_address, size_t bytes)
{
    static uint64_t next = 1 << 20;
    *ret_address = __atomic_fetch_add(&next, bytes, __ATOMIC_RELAXED);
    return 0;
}

int cuMemFree_v2(uint64_t address);
int cuMemFree_v2(uint64_t address)
{
    (void)address;
    return 0;
}
