/* NVML: a device's health, its processes, and events; and the effects of an illegal address. */
#include <stdlib.h>
#include <string.h>

#include "conformance.h"

enum { PROCESSES = 64, NO_TYPE = 9, WAIT_MS = 10, EVENT_MS = 10000 };

static void check_clock_reasons(struct conformance *t, void *device)
{
    unsigned long long now = 0, possible = 0;
    EXPECT(t, nvmlDeviceGetSupportedClocksEventReasons, NVML_SUCCESS, (device, &possible));
    CHECK(t, nvmlDeviceGetSupportedClocksEventReasons, (possible & NVML_REASON_HW_SLOWDOWN) != 0);
    EXPECT(t, nvmlDeviceGetSupportedClocksEventReasons, NVML_ERROR_INVALID_ARGUMENT,
           (device, NULL));
    EXPECT(t, nvmlDeviceGetSupportedClocksThrottleReasons, NVML_SUCCESS, (device, &possible));
    EXPECT(t, nvmlDeviceGetSupportedClocksThrottleReasons, NVML_ERROR_INVALID_ARGUMENT,
           (device, NULL));
    EXPECT(t, nvmlDeviceGetCurrentClocksEventReasons, NVML_SUCCESS, (device, &now));
    CHECK(t, nvmlDeviceGetCurrentClocksEventReasons, (now & ~possible) == 0);
    EXPECT(t, nvmlDeviceGetCurrentClocksEventReasons, NVML_ERROR_INVALID_ARGUMENT, (device, NULL));
    EXPECT(t, nvmlDeviceGetCurrentClocksThrottleReasons, NVML_SUCCESS, (device, &now));
    EXPECT(t, nvmlDeviceGetCurrentClocksThrottleReasons, NVML_ERROR_INVALID_ARGUMENT,
           (device, NULL));
}

static void check_ecc(struct conformance *t, void *device)
{
    nvmlEnableState_t now = 9, next = 9;
    unsigned pending = 9, corrected = 0, uncorrected = 0, failed = 9;
    unsigned long long count = 0;
    nvmlRowRemapperHistogramValues_t rows = {0};
    EXPECT(t, nvmlDeviceGetEccMode, NVML_SUCCESS, (device, &now, &next));
    CHECK(t, nvmlDeviceGetEccMode, (now == 0 || now == 1) && (next == 0 || next == 1));
    EXPECT(t, nvmlDeviceGetEccMode, NVML_ERROR_INVALID_ARGUMENT, (device, NULL, &next));
    EXPECT(t, nvmlDeviceGetTotalEccErrors, NVML_SUCCESS, (device, 1, 0, &count));
    EXPECT(t, nvmlDeviceGetTotalEccErrors, NVML_SUCCESS, (device, 0, 1, &count));
    EXPECT(t, nvmlDeviceGetTotalEccErrors, NVML_ERROR_INVALID_ARGUMENT, (device, 2, 0, &count));
    EXPECT(t, nvmlDeviceGetTotalEccErrors, NVML_ERROR_INVALID_ARGUMENT, (device, 1, 2, &count));
    EXPECT(t, nvmlDeviceGetTotalEccErrors, NVML_ERROR_INVALID_ARGUMENT, (device, 1, 0, NULL));
    EXPECT(t, nvmlDeviceGetMemoryErrorCounter, NVML_SUCCESS, (device, 1, 0, 2, &count));
    EXPECT(t, nvmlDeviceGetMemoryErrorCounter, NVML_SUCCESS, (device, 1, 0, 7, &count));
    EXPECT(t, nvmlDeviceGetMemoryErrorCounter, NVML_ERROR_NOT_SUPPORTED, (device, 1, 0, 3, &count));
    EXPECT(t, nvmlDeviceGetMemoryErrorCounter, NVML_ERROR_INVALID_ARGUMENT,
           (device, NO_TYPE, 0, 2, &count));
    EXPECT(t, nvmlDeviceGetMemoryErrorCounter, NVML_ERROR_INVALID_ARGUMENT,
           (device, 1, 0, 8, &count));
    EXPECT(t, nvmlDeviceGetRemappedRows, NVML_SUCCESS,
           (device, &corrected, &uncorrected, &pending, &failed));
    CHECK(t, nvmlDeviceGetRemappedRows, pending <= 1 && failed <= 1);
    EXPECT(t, nvmlDeviceGetRemappedRows, NVML_ERROR_INVALID_ARGUMENT,
           (device, NULL, &uncorrected, &pending, &failed));
    EXPECT(t, nvmlDeviceGetRowRemapperHistogram, NVML_SUCCESS, (device, &rows));
    CHECK(t, nvmlDeviceGetRowRemapperHistogram,
          rows.max + rows.high + rows.partial + rows.low + rows.none == 3072);
    EXPECT(t, nvmlDeviceGetRowRemapperHistogram, NVML_ERROR_INVALID_ARGUMENT, (device, NULL));
}

static void check_modes(struct conformance *t, void *device)
{
    unsigned now = 9, pending = 9, celsius = 0;
    int mode = -1;
    unsigned long long before_mj = 0, after_mj = 0;
    char serial[96] = "";
    EXPECT(t, nvmlDeviceGetMigMode, NVML_SUCCESS, (device, &now, &pending));
    CHECK(t, nvmlDeviceGetMigMode, now <= 1 && pending <= 1);
    EXPECT(t, nvmlDeviceGetMigMode, NVML_ERROR_INVALID_ARGUMENT, (device, NULL, &pending));
    EXPECT(t, nvmlDeviceGetPersistenceMode, NVML_SUCCESS, (device, &mode));
    CHECK(t, nvmlDeviceGetPersistenceMode, mode == 0 || mode == 1);
    EXPECT(t, nvmlDeviceGetPersistenceMode, NVML_ERROR_INVALID_ARGUMENT, (device, NULL));
    EXPECT(t, nvmlDeviceGetPerformanceState, NVML_SUCCESS, (device, &mode));
    CHECK(t, nvmlDeviceGetPerformanceState, mode >= 0 && mode <= 15);
    EXPECT(t, nvmlDeviceGetPerformanceState, NVML_ERROR_INVALID_ARGUMENT, (device, NULL));
    EXPECT(t, nvmlDeviceGetSerial, NVML_SUCCESS, (device, serial, sizeof(serial)));
    CHECK(t, nvmlDeviceGetSerial, strlen(serial) == 13);
    EXPECT(t, nvmlDeviceGetSerial, NVML_ERROR_INSUFFICIENT_SIZE, (device, serial, 2));
    EXPECT(t, nvmlDeviceGetSerial, NVML_ERROR_INVALID_ARGUMENT, (device, NULL, sizeof(serial)));
    EXPECT(t, nvmlDeviceGetTemperatureThreshold, NVML_SUCCESS, (device, 1, &celsius));
    CHECK(t, nvmlDeviceGetTemperatureThreshold, celsius > 50 && celsius < 130);
    EXPECT(t, nvmlDeviceGetTemperatureThreshold, NVML_ERROR_NOT_SUPPORTED, (device, 5, &celsius));
    EXPECT(t, nvmlDeviceGetTemperatureThreshold, NVML_ERROR_INVALID_ARGUMENT, (device, 0, NULL));
    EXPECT(t, nvmlDeviceGetTotalEnergyConsumption, NVML_SUCCESS, (device, &before_mj));
    EXPECT(t, nvmlDeviceGetTotalEnergyConsumption, NVML_SUCCESS, (device, &after_mj));
    CHECK(t, nvmlDeviceGetTotalEnergyConsumption, after_mj >= before_mj);
    EXPECT(t, nvmlDeviceGetTotalEnergyConsumption, NVML_ERROR_INVALID_ARGUMENT, (device, NULL));
}

/* For every version; without MPS no process is an MPS client. */
#define CHECK_LISTING(t, device, name, type)                                                       \
    do {                                                                                           \
        type processes[PROCESSES];                                                                 \
        unsigned count = PROCESSES;                                                                \
        EXPECT(t, name, NVML_SUCCESS, ((device), &count, processes));                              \
        CHECK(t, name, count == 0);                                                                \
        EXPECT(t, name, NVML_ERROR_INVALID_ARGUMENT, ((device), NULL, processes));                 \
    } while (0)

void case_nvml_reports_device_health(struct conformance *t)
{
    void *device = NULL;
    EXPECT(t, nvmlInit_v2, NVML_SUCCESS, ());
    EXPECT(t, nvmlDeviceGetHandleByIndex_v2, NVML_SUCCESS, (0, &device));
    check_clock_reasons(t, device);
    check_ecc(t, device);
    check_modes(t, device);
    CHECK_LISTING(t, device, nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t);
    CHECK_LISTING(t, device, nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t);
    CHECK_LISTING(t, device, nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_v2_t);
    CHECK_LISTING(t, device, nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t);
    CHECK_LISTING(t, device, nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t);
    CHECK_LISTING(t, device, nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_v2_t);
    EXPECT(t, nvmlShutdown, NVML_SUCCESS, ());
}

static void register_sets(struct conformance *t, void *device, void **first, void **second)
{
    unsigned long long types = 0;
    nvmlEventData_t event;
    nvmlEventData_v1_t event_v1;
    EXPECT(t, nvmlDeviceGetSupportedEventTypes, NVML_SUCCESS, (device, &types));
    CHECK(t, nvmlDeviceGetSupportedEventTypes, (types & NVML_EVENT_XID) != 0);
    EXPECT(t, nvmlDeviceGetSupportedEventTypes, NVML_ERROR_INVALID_ARGUMENT, (device, NULL));
    EXPECT(t, nvmlEventSetCreate, NVML_ERROR_INVALID_ARGUMENT, (NULL));
    EXPECT(t, nvmlEventSetCreate, NVML_SUCCESS, (first));
    EXPECT(t, nvmlEventSetCreate, NVML_SUCCESS, (second));
    EXPECT(t, nvmlDeviceRegisterEvents, NVML_SUCCESS, (device, NVML_EVENT_XID, *first));
    EXPECT(t, nvmlDeviceRegisterEvents, NVML_SUCCESS, (device, NVML_EVENT_XID, *second));
    EXPECT(t, nvmlDeviceRegisterEvents, NVML_ERROR_NOT_SUPPORTED,
           (device, UINT64_C(1) << 60, *first));
    EXPECT(t, nvmlDeviceRegisterEvents, NVML_ERROR_INVALID_ARGUMENT,
           (NULL, NVML_EVENT_XID, *first));
    EXPECT(t, nvmlEventSetWait_v2, NVML_ERROR_TIMEOUT, (*first, &event, WAIT_MS));
    EXPECT(t, nvmlEventSetWait_v2, NVML_ERROR_INVALID_ARGUMENT, (*first, NULL, WAIT_MS));
    EXPECT(t, nvmlEventSetWait, NVML_ERROR_TIMEOUT, (*first, &event_v1, WAIT_MS));
}

/* After an illegal address the process can do no more, and the driver reports the error to
 * listeners. */
void case_illegal_address_ends_context(struct conformance *t)
{
    static const char ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
                              ".visible .entry gpumux_illegal_address()\n{\n"
                              "    .reg .b64 %rd<2>;\n    .reg .b32 %r<2>;\n"
                              "    mov.u64 %rd1, 16;\n    mov.u32 %r1, 1;\n"
                              "    st.global.u32 [%rd1], %r1;\n    ret;\n}\n";
    void *device = NULL, *module = NULL, *function = NULL, *first = NULL, *second = NULL;
    uint64_t address = 0;
    size_t free_bytes, total_bytes;
    nvmlEventData_t event = {0};
    nvmlEventData_v1_t event_v1 = {0};
    conformance_open_device(t);
    EXPECT(t, nvmlInit_v2, NVML_SUCCESS, ());
    EXPECT(t, nvmlDeviceGetHandleByIndex_v2, NVML_SUCCESS, (0, &device));
    register_sets(t, device, &first, &second);
    EXPECT(t, cuModuleLoadData, CUDA_SUCCESS, (&module, ptx));
    EXPECT(t, cuModuleGetFunction, CUDA_SUCCESS, (&function, module, "gpumux_illegal_address"));
    EXPECT(t, cuLaunchKernel, CUDA_SUCCESS, (function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    EXPECT(t, cuCtxSynchronize, CUDA_ERROR_ILLEGAL_ADDRESS, ());
    EXPECT(t, cuMemAlloc_v2, CUDA_ERROR_ILLEGAL_ADDRESS, (&address, 4096));
    EXPECT(t, cuMemGetInfo_v2, CUDA_ERROR_ILLEGAL_ADDRESS, (&free_bytes, &total_bytes));
    EXPECT(t, cuLaunchKernel, CUDA_ERROR_ILLEGAL_ADDRESS,
           (function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    EXPECT(t, cuStreamSynchronize, CUDA_ERROR_ILLEGAL_ADDRESS, (NULL));
    EXPECT(t, cuStreamQuery, CUDA_ERROR_ILLEGAL_ADDRESS, (NULL));
    EXPECT(t, nvmlEventSetWait_v2, NVML_SUCCESS, (first, &event, EVENT_MS));
    CHECK(t, nvmlEventSetWait_v2, event.device == device && event.eventType == NVML_EVENT_XID);
    CHECK(t, nvmlEventSetWait_v2, event.eventData == 31 || event.eventData == 13);
    EXPECT(t, nvmlEventSetWait, NVML_SUCCESS, (second, &event_v1, EVENT_MS));
    CHECK(t, nvmlEventSetWait,
          event_v1.eventType == NVML_EVENT_XID && event_v1.eventData == event.eventData);
    EXPECT(t, nvmlEventSetFree, NVML_SUCCESS, (first));
    EXPECT(t, nvmlEventSetFree, NVML_SUCCESS, (second));
    EXPECT(t, nvmlEventSetFree, NVML_ERROR_INVALID_ARGUMENT, (NULL));
    EXPECT(t, nvmlEventSetWait, NVML_ERROR_INVALID_ARGUMENT, (NULL, &event_v1, WAIT_MS));
    EXPECT(t, nvmlShutdown, NVML_SUCCESS, ());
}
