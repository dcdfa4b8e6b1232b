/*
 * For tests: the calls of the emulated driver and NVML, found in the libraries as a program would.
 * Handles are void pointers here, as for any caller.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "emu/abi/cuda_abi.h"
#include "emu/abi/nvml_abi.h"

#define DRIVER_API(CALL)                                                                           \
    CALL(cuInit, (unsigned))                                                                       \
    CALL(cuDeviceGetCount, (int *))                                                                \
    CALL(cuDeviceGetName, (char *, int, int))                                                      \
    CALL(cuDeviceGetUuid_v2, (struct cuda_uuid *, int))                                            \
    CALL(cuDeviceGetAttribute, (int *, int, int))                                                  \
    CALL(cuDeviceTotalMem_v2, (size_t *, int))                                                     \
    CALL(cuDevicePrimaryCtxRetain, (void **, int))                                                 \
    CALL(cuDevicePrimaryCtxRelease_v2, (int))                                                      \
    CALL(cuCtxCreate_v2, (void **, unsigned, int))                                                 \
    CALL(cuCtxDestroy_v2, (void *))                                                                \
    CALL(cuCtxSetCurrent, (void *))                                                                \
    CALL(cuCtxGetCurrent, (void **))                                                               \
    CALL(cuCtxSynchronize, (void))                                                                 \
    CALL(cuModuleLoadData, (void **, const void *))                                                \
    CALL(cuModuleGetFunction, (void **, void *, const char *))                                     \
    CALL(cuModuleUnload, (void *))                                                                 \
    CALL(cuStreamBeginCapture_v2, (void *, int))                                                   \
    CALL(cuStreamCreate, (void **, unsigned))                                                      \
    CALL(cuStreamDestroy_v2, (void *))                                                             \
    CALL(cuStreamSynchronize, (void *))                                                            \
    CALL(cuStreamQuery, (void *))                                                                  \
    CALL(cuStreamWaitEvent, (void *, void *, unsigned))                                            \
    CALL(cuEventCreate, (void **, unsigned))                                                       \
    CALL(cuEventDestroy_v2, (void *))                                                              \
    CALL(cuEventRecord, (void *, void *))                                                          \
    CALL(cuEventQuery, (void *))                                                                   \
    CALL(cuEventSynchronize, (void *))                                                             \
    CALL(cuEventElapsedTime, (float *, void *, void *))                                            \
    CALL(cuMemAlloc_v2, (uint64_t *, size_t))                                                      \
    CALL(cuMemFree_v2, (uint64_t))                                                                 \
    CALL(cuMemAllocAsync, (uint64_t *, size_t, void *))                                            \
    CALL(cuMemFreeAsync, (uint64_t, void *))                                                       \
    CALL(cuMemGetInfo_v2, (size_t *, size_t *))                                                    \
    CALL(cuMemAllocHost_v2, (void **, size_t))                                                     \
    CALL(cuMemFreeHost, (void *))                                                                  \
    CALL(cuMemcpyHtoD_v2, (uint64_t, const void *, size_t))                                        \
    CALL(cuMemcpyDtoH_v2, (void *, uint64_t, size_t))                                              \
    CALL(cuMemcpyDtoD_v2, (uint64_t, uint64_t, size_t))                                            \
    CALL(cuMemsetD32_v2, (uint64_t, unsigned, size_t))                                             \
    CALL(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,      \
                          unsigned, void *, void **, void **))                                     \
    CALL(cuGetProcAddress, (const char *, void **, int, uint64_t))                                 \
    CALL(cuGetProcAddress_v2, (const char *, void **, int, uint64_t, int *))                       \
    CALL(cuGetErrorName, (int, const char **))

#define NVML_TEST_API(CALL)                                                                        \
    CALL(nvmlInit_v2, (void))                                                                      \
    CALL(nvmlShutdown, (void))                                                                     \
    CALL(nvmlDeviceGetCount_v2, (unsigned *))                                                      \
    CALL(nvmlDeviceGetHandleByIndex_v2, (unsigned, void **))                                       \
    CALL(nvmlDeviceGetHandleByUUID, (const char *, void **))                                       \
    CALL(nvmlDeviceGetName, (void *, char *, unsigned))                                            \
    CALL(nvmlDeviceGetUUID, (void *, char *, unsigned))                                            \
    CALL(nvmlDeviceGetMemoryInfo, (void *, struct nvml_memory *))                                  \
    CALL(nvmlDeviceGetUtilizationRates, (void *, struct nvml_utilization *))                       \
    CALL(nvmlDeviceGetPowerUsage, (void *, unsigned *))                                            \
    CALL(nvmlDeviceGetComputeRunningProcesses_v3, (void *, unsigned *, struct nvml_process_v2 *))  \
    CALL(nvmlGpmSampleAlloc, (void **))                                                            \
    CALL(nvmlGpmSampleFree, (void *))                                                              \
    CALL(nvmlGpmSampleGet, (void *, void *))                                                       \
    CALL(nvmlGpmMetricsGet, (struct nvml_gpm_metrics *))                                           \
    CALL(nvmlDeviceGetMPSComputeRunningProcesses_v3,                                               \
         (void *, unsigned *, struct nvml_process_v2 *))                                           \
    CALL(nvmlDeviceGetCurrentClocksEventReasons, (void *, uint64_t *))                             \
    CALL(nvmlDeviceGetClockInfo, (void *, int, unsigned *))                                        \
    CALL(nvmlDeviceGetTemperature, (void *, int, unsigned *))                                      \
    CALL(nvmlDeviceGetTotalEccErrors, (void *, int, int, uint64_t *))                              \
    CALL(nvmlDeviceGetRemappedRows, (void *, unsigned *, unsigned *, unsigned *, unsigned *))      \
    CALL(nvmlDeviceRegisterEvents, (void *, uint64_t, void *))                                     \
    CALL(nvmlEventSetCreate, (void **))                                                            \
    CALL(nvmlEventSetFree, (void *))                                                               \
    CALL(nvmlEventSetWait_v2, (void *, struct nvml_event *, unsigned))                             \
    CALL(nvmlDeviceGetMigMode, (void *, unsigned *, unsigned *))

struct driver_api {
    void *function;         /* gpumux_burn, once driver_api_open_device() was called */
    void *illegal_function; /* gpumux_illegal_address, which does one */
#define CALL(name, parameters) int(*name) parameters;
    DRIVER_API(CALL)
    NVML_TEST_API(CALL)
#undef CALL
};

/* Loads both libraries from GPUMUX_BUILD/emu. Ends the program when that fails: it is a test's
 * set-up. */
void driver_api_load(struct driver_api *api);
/* Makes a device file from `spec` in a new folder and points GPUMUX_EMU at it; the folder goes with
 * driver_api_remove_devices(). */
void driver_api_make_devices(const char *spec, double speed, int shared);
void driver_api_remove_devices(void);
/* Lets every user open the device file. */
void driver_api_share_devices(void);
/* cuInit, the primary context of device 0, and the kernels: a CUDA result. */
int driver_api_try_open(struct driver_api *api);
/* The same, and the program ends when that fails. */
void driver_api_open_device(struct driver_api *api);
/* Launches gpumux_burn. */
int driver_api_burn(const struct driver_api *api, void *stream, unsigned sm_permille,
                    unsigned dram_permille, uint64_t duration_ns);
