/* The driver before cuInit, cuInit, queries of devices, and the tables of names. */
#include <string.h>

#include "conformance.h"

enum { NO_DEVICE = 1000, NO_RESULT = 12345, OLD_CUDA = 2000, NEW_CUDA = 13000 };

void case_calls_before_init_fail(struct conformance *t)
{
    int number;
    unsigned flags;
    size_t bytes;
    uint64_t address;
    void *handle;
    char text[64];
    EXPECT(t, cuDeviceGetCount, CUDA_ERROR_NOT_INITIALIZED, (&number));
    EXPECT(t, cuDeviceGet, CUDA_ERROR_NOT_INITIALIZED, (&number, 0));
    EXPECT(t, cuDeviceGetName, CUDA_ERROR_NOT_INITIALIZED, (text, sizeof(text), 0));
    EXPECT(t, cuDeviceTotalMem_v2, CUDA_ERROR_NOT_INITIALIZED, (&bytes, 0));
    EXPECT(t, cuDevicePrimaryCtxRetain, CUDA_ERROR_NOT_INITIALIZED, (&handle, 0));
    EXPECT(t, cuDevicePrimaryCtxGetState, CUDA_ERROR_NOT_INITIALIZED, (0, &flags, &number));
    EXPECT(t, cuCtxCreate_v2, CUDA_ERROR_NOT_INITIALIZED, (&handle, 0, 0));
    EXPECT(t, cuCtxGetCurrent, CUDA_ERROR_NOT_INITIALIZED, (&handle));
    EXPECT(t, cuCtxSetCurrent, CUDA_ERROR_NOT_INITIALIZED, (NULL));
    EXPECT(t, cuCtxSynchronize, CUDA_ERROR_NOT_INITIALIZED, ());
    EXPECT(t, cuMemAlloc_v2, CUDA_ERROR_NOT_INITIALIZED, (&address, 4096));
    EXPECT(t, cuMemGetInfo_v2, CUDA_ERROR_NOT_INITIALIZED, (&bytes, &bytes));
    EXPECT(t, cuStreamCreate, CUDA_ERROR_NOT_INITIALIZED, (&handle, 0));
    EXPECT(t, cuEventCreate, CUDA_ERROR_NOT_INITIALIZED, (&handle, 0));
    EXPECT(t, cuModuleLoadData, CUDA_ERROR_NOT_INITIALIZED, (&handle, conformance_ptx));
}

void case_repeated_init_succeeds(struct conformance *t)
{
    int version = 0;
    EXPECT(t, cuDriverGetVersion, CUDA_SUCCESS, (&version));
    CHECK(t, cuDriverGetVersion, version >= 12000);
    EXPECT(t, cuDriverGetVersion, CUDA_ERROR_INVALID_VALUE, (NULL));
    EXPECT(t, cuInit, CUDA_ERROR_INVALID_VALUE, (1));
    EXPECT(t, cuInit, CUDA_SUCCESS, (0));
    EXPECT(t, cuInit, CUDA_SUCCESS, (0)); /* a second call has no effect */
}

static void check_device_names(struct conformance *t)
{
    char text[64] = "", again[64] = "", empty[64] = {0};
    CUuuid uuid = {0}, uuid_v2 = {0};
    int device = -1;
    EXPECT(t, cuDeviceGetName, CUDA_SUCCESS, (text, sizeof(text), 0));
    CHECK(t, cuDeviceGetName, strstr(text, "NVIDIA") != NULL);
    EXPECT(t, cuDeviceGetName, CUDA_ERROR_INVALID_DEVICE, (text, sizeof(text), NO_DEVICE));
    EXPECT(t, cuDeviceGetName, CUDA_ERROR_INVALID_VALUE, (NULL, sizeof(text), 0));
    EXPECT(t, cuDeviceGetUuid, CUDA_SUCCESS, (&uuid, 0));
    EXPECT(t, cuDeviceGetUuid, CUDA_ERROR_INVALID_DEVICE, (&uuid, NO_DEVICE));
    EXPECT(t, cuDeviceGetUuid, CUDA_ERROR_INVALID_VALUE, (NULL, 0));
    EXPECT(t, cuDeviceGetUuid_v2, CUDA_SUCCESS, (&uuid_v2, 0));
    EXPECT(t, cuDeviceGetUuid_v2, CUDA_ERROR_INVALID_DEVICE, (&uuid, NO_DEVICE));
    EXPECT(t, cuDeviceGetUuid_v2, CUDA_ERROR_INVALID_VALUE, (NULL, 0));
    CHECK(t, cuDeviceGetUuid_v2, memcmp(&uuid, &uuid_v2, sizeof(uuid)) == 0);
    CHECK(t, cuDeviceGetUuid_v2, memcmp(&uuid, empty, sizeof(uuid)) != 0);

    EXPECT(t, cuDeviceGetPCIBusId, CUDA_SUCCESS, (text, sizeof(text), 0));
    CHECK(t, cuDeviceGetPCIBusId, strlen(text) == strlen("0000:01:00.0"));
    EXPECT(t, cuDeviceGetPCIBusId, CUDA_ERROR_INVALID_DEVICE, (again, sizeof(again), NO_DEVICE));
    EXPECT(t, cuDeviceGetPCIBusId, CUDA_ERROR_INVALID_VALUE, (NULL, sizeof(text), 0));
    EXPECT(t, cuDeviceGetByPCIBusId, CUDA_SUCCESS, (&device, text));
    CHECK(t, cuDeviceGetByPCIBusId, device == 0);
    EXPECT(t, cuDeviceGetByPCIBusId, CUDA_ERROR_INVALID_VALUE, (&device, "nowhere"));
    EXPECT(t, cuDeviceGetByPCIBusId, CUDA_ERROR_INVALID_VALUE, (NULL, text));
    EXPECT(t, cuDeviceGetByPCIBusId, CUDA_ERROR_INVALID_DEVICE, (&device, "0000:FE:00.0"));
}

static void check_attributes(struct conformance *t)
{
    enum { NO_ATTRIBUTE = 100000 };
    int major = 0, minor = 0, value = 0;
    EXPECT(t, cuDeviceComputeCapability, CUDA_SUCCESS, (&major, &minor, 0));
    EXPECT(t, cuDeviceComputeCapability, CUDA_ERROR_INVALID_DEVICE, (&major, &minor, NO_DEVICE));
    EXPECT(t, cuDeviceComputeCapability, CUDA_ERROR_INVALID_VALUE, (NULL, &minor, 0));
    EXPECT(t, cuDeviceGetAttribute, CUDA_SUCCESS,
           (&value, CUDA_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    CHECK(t, cuDeviceGetAttribute, value == major);
    EXPECT(t, cuDeviceGetAttribute, CUDA_SUCCESS, (&value, CUDA_ATTRIBUTE_WARP_SIZE, 0));
    CHECK(t, cuDeviceGetAttribute, value == 32);
    EXPECT(t, cuDeviceGetAttribute, CUDA_SUCCESS,
           (&value, CUDA_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0));
    CHECK(t, cuDeviceGetAttribute, value == 1024);
    EXPECT(t, cuDeviceGetAttribute, CUDA_SUCCESS, (&value, CUDA_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    CHECK(t, cuDeviceGetAttribute, value == 132);
    EXPECT(t, cuDeviceGetAttribute, CUDA_SUCCESS, (&value, CUDA_ATTRIBUTE_MEMORY_POOLS, 0));
    CHECK(t, cuDeviceGetAttribute, value == 1);
    EXPECT(t, cuDeviceGetAttribute, CUDA_ERROR_INVALID_DEVICE,
           (&value, CUDA_ATTRIBUTE_WARP_SIZE, NO_DEVICE));
    EXPECT(t, cuDeviceGetAttribute, CUDA_ERROR_INVALID_VALUE, (NULL, CUDA_ATTRIBUTE_WARP_SIZE, 0));
    EXPECT(t, cuDeviceGetAttribute, CUDA_ERROR_INVALID_VALUE, (&value, NO_ATTRIBUTE, 0));
}

void case_devices_report_identity_and_attributes(struct conformance *t)
{
    int count = 0, device = -1;
    size_t bytes = 0;
    EXPECT(t, cuInit, CUDA_SUCCESS, (0));
    EXPECT(t, cuDeviceGetCount, CUDA_SUCCESS, (&count));
    CHECK(t, cuDeviceGetCount, count >= 1);
    EXPECT(t, cuDeviceGetCount, CUDA_ERROR_INVALID_VALUE, (NULL));
    EXPECT(t, cuDeviceGet, CUDA_SUCCESS, (&device, count - 1));
    CHECK(t, cuDeviceGet, device == count - 1);
    EXPECT(t, cuDeviceGet, CUDA_ERROR_INVALID_DEVICE, (&device, count));
    EXPECT(t, cuDeviceGet, CUDA_ERROR_INVALID_DEVICE, (&device, -1));
    EXPECT(t, cuDeviceGet, CUDA_ERROR_INVALID_VALUE, (NULL, 0));
    EXPECT(t, cuDeviceTotalMem_v2, CUDA_SUCCESS, (&bytes, 0));
    CHECK(t, cuDeviceTotalMem_v2, bytes > (size_t)1 << 30);
    EXPECT(t, cuDeviceTotalMem_v2, CUDA_ERROR_INVALID_DEVICE, (&bytes, NO_DEVICE));
    EXPECT(t, cuDeviceTotalMem_v2, CUDA_ERROR_INVALID_VALUE, (NULL, 0));
    check_device_names(t);
    check_attributes(t);
}

static void check_error_names(struct conformance *t)
{
    const char *text = NULL;
    EXPECT(t, cuGetErrorName, CUDA_SUCCESS, (CUDA_ERROR_OUT_OF_MEMORY, &text));
    CHECK(t, cuGetErrorName, text && strcmp(text, "CUDA_ERROR_OUT_OF_MEMORY") == 0);
    EXPECT(t, cuGetErrorName, CUDA_ERROR_INVALID_VALUE, (NO_RESULT, &text));
    CHECK(t, cuGetErrorName, text == NULL);
    EXPECT(t, cuGetErrorString, CUDA_SUCCESS, (CUDA_ERROR_OUT_OF_MEMORY, &text));
    CHECK(t, cuGetErrorString, text && *text);
    EXPECT(t, cuGetErrorString, CUDA_ERROR_INVALID_VALUE, (NO_RESULT, &text));
    CHECK(t, cuGetErrorString, text == NULL);
#define RESULT(name, number, description)                                                          \
    EXPECT(t, cuGetErrorName, CUDA_SUCCESS, (number, &text));                                      \
    CHECK(t, cuGetErrorName, text &&strcmp(text, #name) == 0);
#include "../../api/cuda_results.def"
#undef RESULT
}

void case_errors_and_calls_have_names(struct conformance *t)
{
    void *address = NULL, *newer = NULL;
    int status = -1;
    check_error_names(t);
    EXPECT(t, cuInit, CUDA_SUCCESS, (0));
    EXPECT(t, cuGetProcAddress, CUDA_SUCCESS, ("cuInit", &address, NEW_CUDA, 0));
    CHECK(t, cuGetProcAddress, address != NULL);
    EXPECT(t, cuGetProcAddress, CUDA_ERROR_NOT_FOUND, ("cuNoSuchCall", &address, NEW_CUDA, 0));
    EXPECT(t, cuGetProcAddress, CUDA_ERROR_INVALID_VALUE, ("cuInit", &address, NEW_CUDA, 0x100));
    EXPECT(t, cuGetProcAddress_v2, CUDA_SUCCESS, ("cuMemAlloc", &address, NEW_CUDA, 0, &status));
    CHECK(t, cuGetProcAddress_v2, status == CUDA_PROC_FOUND && address != NULL);
    EXPECT(t, cuGetProcAddress_v2, CUDA_SUCCESS,
           ("cuMemAllocAsync", &address, OLD_CUDA, 0, &status));
    CHECK(t, cuGetProcAddress_v2, status == CUDA_PROC_VERSION_NOT_SUFFICIENT && address == NULL);
    EXPECT(t, cuGetProcAddress_v2, CUDA_SUCCESS, ("cuNoSuchCall", &address, NEW_CUDA, 0, &status));
    CHECK(t, cuGetProcAddress_v2, status == CUDA_PROC_NOT_FOUND && address == NULL);
    EXPECT(t, cuGetProcAddress_v2, CUDA_SUCCESS,
           ("cuDevicePrimaryCtxRelease", &address, 10000, 0, &status));
    EXPECT(t, cuGetProcAddress_v2, CUDA_SUCCESS,
           ("cuDevicePrimaryCtxRelease", &newer, NEW_CUDA, 0, &status));
    CHECK(t, cuGetProcAddress_v2, address && newer && address != newer);
    EXPECT(t, cuGetProcAddress_v2, CUDA_ERROR_INVALID_VALUE,
           ("cuInit", &address, NEW_CUDA, 0x100, &status));
}
