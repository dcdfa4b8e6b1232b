/* Address ranges, device memory, and mappings between them. */
#include "conformance.h"

enum { NO_DEVICE = 1000, NO_ACCESS_FLAGS = 77, READ_WRITE = 3 };
#define TOO_MUCH ((size_t)1 << 50)

struct range {
    uint64_t address;
    size_t bytes; /* one granule */
};

static const CUmemAllocationProp on_device = {
    .type = CUDA_ALLOCATION_PINNED,
    .location = {CUDA_LOCATION_DEVICE, 0},
};

static void check_mapping(struct conformance *t, const struct range *range, void *handle)
{
    const uint64_t at = range->address;
    const size_t bytes = range->bytes;
    CUmemAccessDesc access = {{CUDA_LOCATION_DEVICE, 0}, READ_WRITE};
    const CUmemLocation location = {CUDA_LOCATION_DEVICE, 0};
    unsigned long long flags = 99;
    uint32_t word = 0;
    void *again = NULL;
    EXPECT(t, cuMemMap, CUDA_ERROR_NOT_SUPPORTED, (at, bytes + 1, 0, handle, 0));
    EXPECT(t, cuMemMap, CUDA_SUCCESS, (at, bytes, 0, handle, 0));
    EXPECT(t, cuMemMap, CUDA_SUCCESS, (at + bytes, bytes, 0, handle, 0));
    EXPECT(t, cuMemSetAccess, CUDA_SUCCESS, (at, 2 * bytes, &access, 1));
    EXPECT(t, cuMemGetAccess, CUDA_SUCCESS, (&flags, &location, at));
    CHECK(t, cuMemGetAccess, flags == READ_WRITE);
    EXPECT(t, cuMemGetAccess, CUDA_ERROR_INVALID_VALUE, (NULL, &location, at));
    EXPECT(t, cuMemSetAccess, CUDA_ERROR_INVALID_VALUE, (at, bytes, NULL, 1));
    access.flags = NO_ACCESS_FLAGS;
    EXPECT(t, cuMemSetAccess, CUDA_ERROR_INVALID_VALUE, (at, bytes, &access, 1));
    access = (CUmemAccessDesc){{CUDA_LOCATION_DEVICE, NO_DEVICE}, READ_WRITE};
    EXPECT(t, cuMemSetAccess, CUDA_ERROR_INVALID_VALUE, (at, bytes, &access, 1));

    /* The same memory at both addresses. */
    EXPECT(t, cuMemsetD32_v2, CUDA_SUCCESS, (at, 0x1234, bytes / 4));
    EXPECT(t, cuMemcpyDtoH_v2, CUDA_SUCCESS, (&word, at + bytes + 4096, sizeof(word)));
    CHECK(t, cuMemMap, word == 0x1234);
    EXPECT(t, cuMemRetainAllocationHandle, CUDA_SUCCESS, (&again, (void *)(uintptr_t)at));
    CHECK(t, cuMemRetainAllocationHandle, again == handle);
    EXPECT(t, cuMemRetainAllocationHandle, CUDA_ERROR_INVALID_VALUE, (&again, NULL));
    EXPECT(t, cuMemRelease, CUDA_SUCCESS, (handle)); /* the retained handle */
}

void case_virtual_memory_maps_and_unmaps(struct conformance *t)
{
    CUmemAllocationProp wanted = on_device, found = {0};
    struct range range = {0};
    size_t free_before = 0, free_after = 0, total;
    void *handle = NULL;
    conformance_open_device(t);
    EXPECT(t, cuMemGetAllocationGranularity, CUDA_SUCCESS, (&range.bytes, &wanted, 0));
    CHECK(t, cuMemGetAllocationGranularity, range.bytes == 2 << 20);
    EXPECT(t, cuMemGetAllocationGranularity, CUDA_ERROR_INVALID_VALUE, (NULL, &wanted, 0));
    EXPECT(t, cuMemAddressReserve, CUDA_SUCCESS, (&range.address, 4 * range.bytes, 0, 0, 0));
    CHECK(t, cuMemAddressReserve, range.address != 0 && range.address % range.bytes == 0);
    EXPECT(t, cuMemAddressReserve, CUDA_ERROR_INVALID_VALUE, (NULL, range.bytes, 0, 0, 0));
    EXPECT(t, cuMemGetInfo_v2, CUDA_SUCCESS, (&free_before, &total));
    EXPECT(t, cuMemCreate, CUDA_SUCCESS, (&handle, range.bytes, &wanted, 0));
    EXPECT(t, cuMemGetInfo_v2, CUDA_SUCCESS, (&free_after, &total));
    CHECK(t, cuMemCreate, free_before - free_after >= range.bytes);
    void *none = NULL;
    EXPECT(t, cuMemCreate, CUDA_ERROR_INVALID_VALUE, (&none, 12345, &wanted, 0));
    EXPECT(t, cuMemCreate, CUDA_ERROR_OUT_OF_MEMORY, (&none, TOO_MUCH, &wanted, 0));
    wanted.location.id = NO_DEVICE;
    EXPECT(t, cuMemCreate, CUDA_ERROR_INVALID_DEVICE, (&none, range.bytes, &wanted, 0));
    EXPECT(t, cuMemGetAllocationPropertiesFromHandle, CUDA_SUCCESS, (&found, handle));
    CHECK(t, cuMemGetAllocationPropertiesFromHandle,
          found.type == CUDA_ALLOCATION_PINNED && found.location.id == 0);
    EXPECT(t, cuMemGetAllocationPropertiesFromHandle, CUDA_ERROR_INVALID_VALUE, (NULL, handle));
    check_mapping(t, &range, handle);
    EXPECT(t, cuMemRelease, CUDA_SUCCESS, (handle)); /* the mappings still hold it */
    EXPECT(t, cuMemsetD8_v2, CUDA_SUCCESS, (range.address, 1, range.bytes));
    EXPECT(t, cuCtxSynchronize, CUDA_SUCCESS, ());
    EXPECT(t, cuMemUnmap, CUDA_SUCCESS, (range.address, 2 * range.bytes));
    EXPECT(t, cuMemUnmap, CUDA_ERROR_INVALID_VALUE, (range.address, 0));
    EXPECT(t, cuMemGetInfo_v2, CUDA_SUCCESS, (&free_after, &total));
    CHECK(t, cuMemUnmap, free_after == free_before);
    EXPECT(t, cuMemRelease, CUDA_ERROR_INVALID_VALUE, (NULL));
    EXPECT(t, cuMemAddressFree, CUDA_ERROR_INVALID_VALUE, (range.address + 1, range.bytes));
    EXPECT(t, cuMemAddressFree, CUDA_SUCCESS, (range.address, 4 * range.bytes));
}
