/*
 * The part of NVML's binary interface that gpumux uses, hooks or emulates: constants, and the types
 * that api/nvml_calls.def uses, under NVML's own names. The build therefore does not need NVML's
 * header.
 */
#pragma once
#include "abi/parameters.h"
#include "abi/results.h"

#define NVML_SONAME "libnvidia-ml.so.1"

/* A library that makes handles, and a test that uses other pointers, define NVML_HANDLE before they
 * include this header. */
#ifndef NVML_HANDLE
#define NVML_HANDLE(word, tag) typedef struct tag *word;
#endif
NVML_HANDLE(nvmlDevice_t, nvmlDevice_st)
NVML_HANDLE(nvmlEventSet_t, nvmlEventSet_st)
NVML_HANDLE(nvmlGpmSample_t, nvmlGpmSample_st)

/* NVML's enumerations; each is an int. */
typedef int nvmlReturn_t, nvmlClockType_t, nvmlComputeMode_t, nvmlEccCounterType_t;
typedef int nvmlEnableState_t, nvmlMemoryErrorType_t, nvmlMemoryLocation_t, nvmlPstates_t;
typedef int nvmlTemperatureSensors_t, nvmlTemperatureThresholds_t;

/* Bits: reasons why clocks are below their maximum. */
enum {
    NVML_REASON_GPU_IDLE = 0x1,
    NVML_REASON_SW_POWER_CAP = 0x4,
    NVML_REASON_HW_SLOWDOWN = 0x8,
    NVML_REASON_SW_THERMAL = 0x20,
    NVML_REASON_HW_THERMAL = 0x40,
    NVML_REASON_HW_POWER_BRAKE = 0x80,
    NVML_REASONS_ALL = 0x1ff,
};

enum { NVML_CLOCK_GRAPHICS = 0, NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2, NVML_CLOCK_VIDEO = 3 };

enum { NVML_TEMPERATURE_GPU = 0 };

/* The version of a structure: its size, and a number in the top byte. */
#define NVML_VERSION_OF(type, number) ((unsigned)(sizeof(type) | (unsigned)(number) << 24))

typedef struct {
    unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct {
    unsigned gpu, memory; /* percent */
} nvmlUtilization_t;

typedef struct {
    unsigned pid;
    unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct {
    unsigned pid;
    unsigned long long usedGpuMemory;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_v2_t;

#define NVML_NO_INSTANCE 0xffffffffu

typedef struct {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct {
    unsigned max, high, partial, low, none; /* numbers of banks, by their spare rows */
} nvmlRowRemapperHistogramValues_t;

/* Bits: types of events. */
enum {
    NVML_EVENT_SINGLE_BIT_ECC = 0x1,
    NVML_EVENT_DOUBLE_BIT_ECC = 0x2,
    NVML_EVENT_XID = 0x8,
    NVML_EVENTS_ALL = NVML_EVENT_SINGLE_BIT_ECC | NVML_EVENT_DOUBLE_BIT_ECC | NVML_EVENT_XID,
};

typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType, eventData; /* eventData: for an Xid, its number */
} nvmlEventData_v1_t;

typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType, eventData;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

enum nvml_gpm_metric_id {
    NVML_GPM_GRAPHICS_UTIL = 1,
    NVML_GPM_SM_UTIL = 2,
    NVML_GPM_SM_OCCUPANCY = 3,
    NVML_GPM_ANY_TENSOR_UTIL = 5,
    NVML_GPM_DRAM_BW_UTIL = 10,
    NVML_GPM_PCIE_TX_PER_SEC = 20, /* traffic from the device, MiB/s */
    NVML_GPM_PCIE_RX_PER_SEC = 21, /* traffic to the device, MiB/s */
};

enum {
    NVML_GPM_VERSION = 1,
    /* Larger than the present number of metrics, to leave room for metrics of newer drivers. */
    NVML_GPM_METRICS_MAX = 512,
};

typedef struct {
    unsigned metricId;
    nvmlReturn_t nvmlReturn;
    double value;
    struct {
        char *shortName, *longName, *unit;
    } metricInfo;
} nvmlGpmMetric_t;

typedef struct {
    unsigned version;
    unsigned numMetrics;
    nvmlGpmSample_t sample1, sample2;
    nvmlGpmMetric_t metrics[NVML_GPM_METRICS_MAX];
} nvmlGpmMetricsGet_t;

typedef struct {
    unsigned version;
    unsigned isSupportedDevice;
} nvmlGpmSupport_t;

/* call_SYMBOL is the type of the function SYMBOL. */
#define CALL(symbol, shim, errors, ...)                                                            \
    typedef nvmlReturn_t call_##symbol CALL_PARAMETERS(__VA_ARGS__);
#define TEXT(symbol, shim, errors, ...)                                                            \
    typedef const char *call_##symbol CALL_PARAMETERS(__VA_ARGS__);
#define LACK(symbol)
#include "../../api/nvml_calls.def"
#undef CALL
#undef TEXT
#undef LACK
