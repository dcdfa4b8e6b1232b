/* Arrays, copies of two and three dimensions, and fills. */
#include <string.h>

#include "conformance.h"

enum { WIDTH = 64, HEIGHT = 16, DEPTH = 4, PLANE = WIDTH * HEIGHT, NO_FORMAT = 0x7f };
#define NOT_DEVICE_MEMORY UINT64_C(0x123450)

/* Arrays with elements of one byte. */
static const CUDA_ARRAY_DESCRIPTOR plane = {WIDTH, HEIGHT, CUDA_FORMAT_U8, 1};
static const CUDA_ARRAY3D_DESCRIPTOR box = {WIDTH, HEIGHT, DEPTH, CUDA_FORMAT_U8, 1, 0};

void case_arrays_report_their_shape(struct conformance *t)
{
    void *flat = NULL, *deep = NULL, *none = NULL;
    CUDA_ARRAY_DESCRIPTOR wrong = plane, found = {0};
    CUDA_ARRAY3D_DESCRIPTOR wrong_3d = box, found_3d = {0};
    conformance_open_device(t);
    EXPECT(t, cuArrayCreate_v2, CUDA_SUCCESS, (&flat, &plane));
    EXPECT(t, cuArrayCreate_v2, CUDA_ERROR_INVALID_VALUE, (&none, NULL));
    EXPECT(t, cuArrayCreate_v2, CUDA_ERROR_INVALID_VALUE, (NULL, &plane));
    wrong.Width = 0;
    EXPECT(t, cuArrayCreate_v2, CUDA_ERROR_INVALID_VALUE, (&none, &wrong));
    wrong = plane;
    wrong.NumChannels = 3;
    EXPECT(t, cuArrayCreate_v2, CUDA_ERROR_INVALID_VALUE, (&none, &wrong));
    EXPECT(t, cuArrayGetDescriptor_v2, CUDA_SUCCESS, (&found, flat));
    CHECK(t, cuArrayGetDescriptor_v2,
          found.Width == WIDTH && found.Height == HEIGHT && found.Format == CUDA_FORMAT_U8 &&
              found.NumChannels == 1);
    EXPECT(t, cuArrayGetDescriptor_v2, CUDA_ERROR_INVALID_VALUE, (NULL, flat));
    EXPECT(t, cuArray3DGetDescriptor_v2, CUDA_SUCCESS, (&found_3d, flat));
    CHECK(t, cuArray3DGetDescriptor_v2, found_3d.Height == HEIGHT && found_3d.Depth == 0);
    EXPECT(t, cuArray3DCreate_v2, CUDA_SUCCESS, (&deep, &box));
    wrong_3d.Width = 0;
    EXPECT(t, cuArray3DCreate_v2, CUDA_ERROR_INVALID_VALUE, (&none, &wrong_3d));
    EXPECT(t, cuArray3DGetDescriptor_v2, CUDA_SUCCESS, (&found_3d, deep));
    CHECK(t, cuArray3DGetDescriptor_v2, found_3d.Depth == DEPTH && found_3d.Flags == 0);
    EXPECT(t, cuArray3DGetDescriptor_v2, CUDA_ERROR_INVALID_VALUE, (NULL, deep));
    EXPECT(t, cuArrayDestroy, CUDA_SUCCESS, (flat));
    EXPECT(t, cuArrayDestroy, CUDA_SUCCESS, (deep));
    EXPECT(t, cuArrayDestroy, CUDA_ERROR_INVALID_HANDLE, (NULL));
}

/* An array is device memory like any other. */
void case_arrays_use_device_memory(struct conformance *t)
{
    const CUDA_ARRAY_DESCRIPTOR large = {8192, 8192, CUDA_FORMAT_FLOAT, 1};
    size_t before = 0, after = 0, total = 0;
    void *array = NULL, *mipmapped = NULL, *level = NULL, *none = NULL;
    CUDA_ARRAY3D_DESCRIPTOR found = {0};
    const CUDA_ARRAY3D_DESCRIPTOR square = {WIDTH, WIDTH, 0, CUDA_FORMAT_HALF, 2, 0};
    conformance_open_device(t);
    EXPECT(t, cuMemGetInfo_v2, CUDA_SUCCESS, (&before, &total));
    EXPECT(t, cuArrayCreate_v2, CUDA_SUCCESS, (&array, &large));
    EXPECT(t, cuMemGetInfo_v2, CUDA_SUCCESS, (&after, &total));
    CHECK(t, cuArrayCreate_v2, before - after >= (size_t)8192 * 8192 * 4);
    EXPECT(t, cuArrayDestroy, CUDA_SUCCESS, (array));
    EXPECT(t, cuMemGetInfo_v2, CUDA_SUCCESS, (&after, &total));
    CHECK(t, cuArrayDestroy, after == before);

    EXPECT(t, cuMipmappedArrayCreate, CUDA_SUCCESS, (&mipmapped, &square, 3));
    EXPECT(t, cuMipmappedArrayCreate, CUDA_ERROR_INVALID_VALUE, (&none, NULL, 3));
    EXPECT(t, cuMipmappedArrayGetLevel, CUDA_SUCCESS, (&level, mipmapped, 1));
    EXPECT(t, cuArray3DGetDescriptor_v2, CUDA_SUCCESS, (&found, level));
    CHECK(t, cuMipmappedArrayGetLevel, found.Width == WIDTH / 2 && found.Height == WIDTH / 2);
    EXPECT(t, cuMipmappedArrayGetLevel, CUDA_ERROR_INVALID_VALUE, (&level, mipmapped, 99));
    EXPECT(t, cuMipmappedArrayGetLevel, CUDA_ERROR_INVALID_VALUE, (NULL, mipmapped, 0));
    EXPECT(t, cuMipmappedArrayDestroy, CUDA_SUCCESS, (mipmapped));
    EXPECT(t, cuMipmappedArrayDestroy, CUDA_ERROR_INVALID_HANDLE, (NULL));
}

static void count_up(unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251);
}

/* Rows of arrays, one at a time. */
void case_array_copies_are_exact(struct conformance *t)
{
    const CUDA_ARRAY_DESCRIPTOR line = {PLANE, 0, CUDA_FORMAT_U8, 1};
    unsigned char from[PLANE], to[PLANE];
    void *a = NULL, *b = NULL;
    uint64_t device = 0;
    count_up(from, PLANE);
    conformance_open_device(t);
    EXPECT(t, cuArrayCreate_v2, CUDA_SUCCESS, (&a, &line));
    EXPECT(t, cuArrayCreate_v2, CUDA_SUCCESS, (&b, &line));
    EXPECT(t, cuMemAlloc_v2, CUDA_SUCCESS, (&device, PLANE));
    EXPECT(t, cuMemcpyHtoA_v2, CUDA_SUCCESS, (a, 0, from, PLANE));
    EXPECT(t, cuMemcpyHtoA_v2, CUDA_ERROR_INVALID_VALUE, (a, 1, from, PLANE));
    memset(to, 0, sizeof(to));
    EXPECT(t, cuMemcpyAtoH_v2, CUDA_SUCCESS, (to, a, 0, PLANE));
    CHECK(t, cuMemcpyAtoH_v2, memcmp(from, to, PLANE) == 0);
    EXPECT(t, cuMemcpyAtoH_v2, CUDA_ERROR_INVALID_VALUE, (to, a, 1, PLANE));
    EXPECT(t, cuMemcpyAtoA_v2, CUDA_SUCCESS, (b, 0, a, 8, PLANE - 8));
    EXPECT(t, cuMemcpyAtoA_v2, CUDA_ERROR_INVALID_VALUE, (b, 0, a, 8, PLANE));
    EXPECT(t, cuMemcpyAtoD_v2, CUDA_SUCCESS, (device, b, 0, PLANE - 8));
    EXPECT(t, cuMemcpyAtoD_v2, CUDA_ERROR_INVALID_VALUE, (device, b, 1, PLANE));
    EXPECT(t, cuMemcpyDtoH_v2, CUDA_SUCCESS, (to, device, PLANE - 8));
    CHECK(t, cuMemcpyAtoA_v2, memcmp(from + 8, to, PLANE - 8) == 0);
    EXPECT(t, cuMemsetD8_v2, CUDA_SUCCESS, (device, 9, PLANE));
    EXPECT(t, cuMemcpyDtoA_v2, CUDA_SUCCESS, (a, 4, device, 8));
    EXPECT(t, cuMemcpyDtoA_v2, CUDA_ERROR_INVALID_VALUE, (a, 4, device, PLANE));
    EXPECT(t, cuMemcpyAtoHAsync_v2, CUDA_SUCCESS, (to, a, 0, 16, NULL));
    EXPECT(t, cuMemcpyAtoHAsync_v2, CUDA_ERROR_INVALID_VALUE, (to, a, 1, PLANE, NULL));
    EXPECT(t, cuCtxSynchronize, CUDA_SUCCESS, ());
    CHECK(t, cuMemcpyDtoA_v2, to[3] == from[3] && to[4] == 9 && to[11] == 9 && to[12] == from[12]);
    EXPECT(t, cuMemcpyHtoAAsync_v2, CUDA_SUCCESS, (a, 0, to, 16, NULL));
    EXPECT(t, cuMemcpyHtoAAsync_v2, CUDA_ERROR_INVALID_VALUE, (a, 1, from, PLANE, NULL));
    EXPECT(t, cuCtxSynchronize, CUDA_SUCCESS, ());
    EXPECT(t, cuArrayDestroy, CUDA_SUCCESS, (a));
    EXPECT(t, cuArrayDestroy, CUDA_SUCCESS, (b));
    EXPECT(t, cuMemFree_v2, CUDA_SUCCESS, (device));
}

/* Copies a part of a plane on the host to pitched device memory, to an array and back. */
void case_plane_copies_are_exact(struct conformance *t)
{
    unsigned char from[PLANE], to[PLANE];
    void *array = NULL;
    uint64_t device = 0;
    size_t pitch = 0;
    count_up(from, PLANE);
    memset(to, 0, sizeof(to));
    conformance_open_device(t);
    EXPECT(t, cuArrayCreate_v2, CUDA_SUCCESS, (&array, &plane));
    EXPECT(t, cuMemAllocPitch_v2, CUDA_SUCCESS, (&device, &pitch, WIDTH, HEIGHT, 4));
    CUDA_MEMCPY2D up = {
        .srcXInBytes = 8,
        .srcY = 2,
        .srcMemoryType = CUDA_MEMORY_HOST,
        .srcHost = from,
        .srcPitch = WIDTH,
        .dstMemoryType = CUDA_MEMORY_DEVICE,
        .dstDevice = device,
        .dstPitch = pitch,
        .WidthInBytes = 32,
        .Height = 8,
    };
    const CUDA_MEMCPY2D across = {
        .srcMemoryType = CUDA_MEMORY_DEVICE,
        .srcDevice = device,
        .srcPitch = pitch,
        .dstMemoryType = CUDA_MEMORY_ARRAY,
        .dstArray = array,
        .dstY = 1,
        .WidthInBytes = 32,
        .Height = 8,
    };
    const CUDA_MEMCPY2D down = {
        .srcMemoryType = CUDA_MEMORY_ARRAY,
        .srcArray = array,
        .srcY = 1,
        .dstMemoryType = CUDA_MEMORY_HOST,
        .dstHost = to,
        .dstPitch = WIDTH,
        .WidthInBytes = 32,
        .Height = 8,
    };
    EXPECT(t, cuMemcpy2D_v2, CUDA_SUCCESS, (&up));
    EXPECT(t, cuMemcpy2DAsync_v2, CUDA_SUCCESS, (&across, NULL));
    EXPECT(t, cuMemcpy2DUnaligned_v2, CUDA_SUCCESS, (&down));
    CHECK(t, cuMemcpy2D_v2, to[0] == from[2 * WIDTH + 8] && to[31] == from[2 * WIDTH + 39]);
    CHECK(t, cuMemcpy2D_v2, to[32] == 0 && to[7 * WIDTH + 5] == from[9 * WIDTH + 13]);
    up.dstPitch = 16; /* less than a row */
    EXPECT(t, cuMemcpy2D_v2, CUDA_ERROR_INVALID_VALUE, (&up));
    EXPECT(t, cuMemcpy2DAsync_v2, CUDA_ERROR_INVALID_VALUE, (&up, NULL));
    EXPECT(t, cuMemcpy2DUnaligned_v2, CUDA_ERROR_INVALID_VALUE, (&up));
    EXPECT(t, cuArrayDestroy, CUDA_SUCCESS, (array));
    EXPECT(t, cuMemFree_v2, CUDA_SUCCESS, (device));
}

void case_box_copies_are_exact(struct conformance *t)
{
    static unsigned char from[PLANE * DEPTH], to[PLANE * DEPTH];
    void *array = NULL;
    count_up(from, sizeof(from));
    conformance_open_device(t);
    EXPECT(t, cuArray3DCreate_v2, CUDA_SUCCESS, (&array, &box));
    CUDA_MEMCPY3D up = {
        .srcMemoryType = CUDA_MEMORY_HOST,
        .srcHost = from,
        .srcPitch = WIDTH,
        .srcHeight = HEIGHT,
        .dstMemoryType = CUDA_MEMORY_ARRAY,
        .dstArray = array,
        .WidthInBytes = WIDTH,
        .Height = HEIGHT,
        .Depth = DEPTH,
    };
    CUDA_MEMCPY3D down = {
        .srcMemoryType = CUDA_MEMORY_ARRAY,
        .srcArray = array,
        .srcXInBytes = 4,
        .srcY = 1,
        .srcZ = 2,
        .dstMemoryType = CUDA_MEMORY_HOST,
        .dstHost = to,
        .dstPitch = WIDTH,
        .dstHeight = HEIGHT,
        .WidthInBytes = 8,
        .Height = 2,
        .Depth = 2,
    };
    EXPECT(t, cuMemcpy3D_v2, CUDA_SUCCESS, (&up));
    EXPECT(t, cuMemcpy3DAsync_v2, CUDA_SUCCESS, (&down, NULL));
    EXPECT(t, cuCtxSynchronize, CUDA_SUCCESS, ());
    CHECK(t, cuMemcpy3D_v2, to[0] == from[2 * PLANE + WIDTH + 4]);
    CHECK(t, cuMemcpy3DAsync_v2, to[PLANE + WIDTH + 7] == from[3 * PLANE + 2 * WIDTH + 11]);
    CHECK(t, cuMemcpy3DAsync_v2, to[8] == 0);
    up.dstZ = 1; /* one plane too deep */
    EXPECT(t, cuMemcpy3D_v2, CUDA_ERROR_INVALID_VALUE, (&up));
    EXPECT(t, cuMemcpy3DAsync_v2, CUDA_ERROR_INVALID_VALUE, (&up, NULL));
    up.dstZ = 0;
    up.reserved1 = t->context;
    down.reserved0 = t->context;
    memset(to, 0, sizeof(to));
    EXPECT(t, cuMemcpy3DPeer, CUDA_SUCCESS, (&up));
    EXPECT(t, cuMemcpy3DPeerAsync, CUDA_SUCCESS, (&down, NULL));
    EXPECT(t, cuCtxSynchronize, CUDA_SUCCESS, ());
    CHECK(t, cuMemcpy3DPeer, to[0] == from[2 * PLANE + WIDTH + 4]);
    up.dstZ = 1;
    EXPECT(t, cuMemcpy3DPeer, CUDA_ERROR_INVALID_VALUE, (&up));
    EXPECT(t, cuMemcpy3DPeerAsync, CUDA_ERROR_INVALID_VALUE, (&up, NULL));
    EXPECT(t, cuArrayDestroy, CUDA_SUCCESS, (array));
}

/* Copies by address alone, and between devices: here from a device to itself. */
void case_unified_copies_are_exact(struct conformance *t)
{
    unsigned char *host = NULL;
    uint64_t a = 0, b = 0;
    conformance_open_device(t);
    EXPECT(t, cuMemHostAlloc, CUDA_SUCCESS, ((void **)&host, PLANE, 0));
    EXPECT(t, cuMemAlloc_v2, CUDA_SUCCESS, (&a, PLANE));
    EXPECT(t, cuMemAlloc_v2, CUDA_SUCCESS, (&b, PLANE));
    memset(host, 3, PLANE);
    EXPECT(t, cuMemcpy, CUDA_SUCCESS, (a, (uint64_t)(uintptr_t)host, PLANE));
    EXPECT(t, cuMemcpyPeer, CUDA_SUCCESS, (b, t->context, a, t->context, PLANE));
    memset(host, 0, PLANE);
    EXPECT(t, cuMemcpyAsync, CUDA_SUCCESS, ((uint64_t)(uintptr_t)host, b, PLANE, NULL));
    EXPECT(t, cuCtxSynchronize, CUDA_SUCCESS, ());
    CHECK(t, cuMemcpyAsync, host[0] == 3 && host[PLANE - 1] == 3);
    EXPECT(t, cuMemcpyPeerAsync, CUDA_SUCCESS, (a, t->context, b, t->context, PLANE, NULL));
    EXPECT(t, cuCtxSynchronize, CUDA_SUCCESS, ());
    EXPECT(t, cuMemcpyPeer, CUDA_ERROR_INVALID_VALUE,
           (NOT_DEVICE_MEMORY, t->context, a, t->context, PLANE));
    EXPECT(t, cuMemcpyPeerAsync, CUDA_ERROR_INVALID_VALUE,
           (NOT_DEVICE_MEMORY, t->context, a, t->context, PLANE, NULL));
    EXPECT(t, cuMemFreeHost, CUDA_SUCCESS, (host));
    EXPECT(t, cuMemFree_v2, CUDA_SUCCESS, (a));
    EXPECT(t, cuMemFree_v2, CUDA_SUCCESS, (b));
}

static unsigned char byte_at(struct conformance *t, uint64_t address)
{
    unsigned char byte = 0;
    EXPECT(t, cuMemcpyDtoH_v2, CUDA_SUCCESS, (&byte, address, 1));
    return byte;
}

void case_plane_fills_are_exact(struct conformance *t)
{
    uint64_t at = 0;
    conformance_open_device(t);
    EXPECT(t, cuMemAlloc_v2, CUDA_SUCCESS, (&at, PLANE));
    EXPECT(t, cuMemsetD16_v2, CUDA_SUCCESS, (at, 0x0201, PLANE / 2));
    CHECK(t, cuMemsetD16_v2, byte_at(t, at) == 1 && byte_at(t, at + PLANE - 1) == 2);
    EXPECT(t, cuMemsetD16_v2, CUDA_ERROR_INVALID_VALUE, (at + 1, 0, 8));
    EXPECT(t, cuMemsetD16Async, CUDA_SUCCESS, (at, 0x0403, PLANE / 2, NULL));
    CHECK(t, cuMemsetD16Async, byte_at(t, at + 2) == 3);
    EXPECT(t, cuMemsetD16Async, CUDA_ERROR_INVALID_VALUE, (at + 1, 0, 8, NULL));
    EXPECT(t, cuMemsetD2D8_v2, CUDA_SUCCESS, (at, WIDTH, 5, 8, 2));
    CHECK(t, cuMemsetD2D8_v2, byte_at(t, at + 7) == 5 && byte_at(t, at + 8) == 3);
    CHECK(t, cuMemsetD2D8_v2, byte_at(t, at + WIDTH) == 5 && byte_at(t, at + 2 * WIDTH) == 3);
    EXPECT(t, cuMemsetD2D8_v2, CUDA_ERROR_INVALID_VALUE, (NOT_DEVICE_MEMORY, WIDTH, 5, 8, 2));
    EXPECT(t, cuMemsetD2D8Async, CUDA_SUCCESS, (at, WIDTH, 6, 8, 2, NULL));
    CHECK(t, cuMemsetD2D8Async, byte_at(t, at + WIDTH + 7) == 6);
    EXPECT(t, cuMemsetD2D8Async, CUDA_ERROR_INVALID_VALUE,
           (NOT_DEVICE_MEMORY, WIDTH, 5, 8, 2, NULL));
    EXPECT(t, cuMemsetD2D16_v2, CUDA_SUCCESS, (at, WIDTH, 0x0807, 4, 2));
    CHECK(t, cuMemsetD2D16_v2, byte_at(t, at + WIDTH + 7) == 8);
    EXPECT(t, cuMemsetD2D16_v2, CUDA_ERROR_INVALID_VALUE, (at + 1, WIDTH, 0, 4, 2));
    EXPECT(t, cuMemsetD2D16Async, CUDA_SUCCESS, (at, WIDTH, 0x0a09, 4, 2, NULL));
    CHECK(t, cuMemsetD2D16Async, byte_at(t, at + WIDTH + 7) == 10);
    EXPECT(t, cuMemsetD2D16Async, CUDA_ERROR_INVALID_VALUE, (at + 1, WIDTH, 0, 4, 2, NULL));
    EXPECT(t, cuMemsetD2D32_v2, CUDA_SUCCESS, (at, WIDTH, 0x0d0c0b0a, 2, 2));
    CHECK(t, cuMemsetD2D32_v2, byte_at(t, at + WIDTH + 7) == 13);
    EXPECT(t, cuMemsetD2D32_v2, CUDA_ERROR_INVALID_VALUE, (at + 2, WIDTH, 0, 2, 2));
    EXPECT(t, cuMemsetD2D32Async, CUDA_SUCCESS, (at, WIDTH, 0, 2, 2, NULL));
    CHECK(t, cuMemsetD2D32Async, byte_at(t, at + WIDTH + 7) == 0);
    EXPECT(t, cuMemsetD2D32Async, CUDA_ERROR_INVALID_VALUE, (at + 2, WIDTH, 0, 2, 2, NULL));
    EXPECT(t, cuMemFree_v2, CUDA_SUCCESS, (at));
}
