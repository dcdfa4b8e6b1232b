/*
 * Compiled, never run (types.sh): compares api/nvml_calls.def (NVML_CALLS), api/nvml_results.def
 * (NVML_RESULTS) and src/abi/nvml.h with NVIDIA's nvml.h. OURS is src/abi/nvml.h with the prefix
 * ours_ before every type and OURS_ before every number.
 */
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <stddef.h>
#include <nvml.h>

#include OURS

/* NVIDIA's first version of this call has the structure of the second in its header. */
typedef nvmlEventData_t nvmlEventData_v1_t;

#define VOID_IF_EMPTY(...) __VA_OPT__(__VA_ARGS__) VOID_UNLESS##__VA_OPT__(_ANY)
#define VOID_UNLESS        void
#define VOID_UNLESS_ANY
#define SAME(result, symbol, ...)                                                                  \
    _Static_assert(                                                                                \
        __builtin_types_compatible_p(__typeof__(symbol), result(VOID_IF_EMPTY(__VA_ARGS__))),      \
        #symbol);
#define CALL(symbol, shim, errors, ...) SAME(nvmlReturn_t, symbol, ##__VA_ARGS__)
#define TEXT(symbol, shim, errors, ...) SAME(const char *, symbol, ##__VA_ARGS__)
#define LACK(symbol)                    _Static_assert(sizeof(&symbol) > 0, #symbol);
#include NVML_CALLS
#define RESULT(name, number) _Static_assert((int)(name) == (number), #name);
#include NVML_RESULTS

#define SIZE(type) _Static_assert(sizeof(type) == sizeof(ours_##type), #type);
#define NUMBER(a)  _Static_assert((long long)(a) == (long long)(OURS_##a), #a);
#define FIELD(type, field)                                                                         \
    _Static_assert(offsetof(type, field) == offsetof(ours_##type, field) &&                        \
                       sizeof(((type *)0)->field) == sizeof(((ours_##type *)0)->field),            \
                   #type "." #field);

SIZE(nvmlReturn_t)
SIZE(nvmlClockType_t)
SIZE(nvmlComputeMode_t)
SIZE(nvmlEccCounterType_t)
SIZE(nvmlEnableState_t)
SIZE(nvmlMemoryErrorType_t)
SIZE(nvmlMemoryLocation_t)
SIZE(nvmlPstates_t)
SIZE(nvmlTemperatureSensors_t)
SIZE(nvmlTemperatureThresholds_t)
SIZE(nvmlMemory_t)
FIELD(nvmlMemory_t, total)
FIELD(nvmlMemory_t, free)
FIELD(nvmlMemory_t, used)
SIZE(nvmlMemory_v2_t)
FIELD(nvmlMemory_v2_t, version)
FIELD(nvmlMemory_v2_t, total)
FIELD(nvmlMemory_v2_t, reserved)
FIELD(nvmlMemory_v2_t, free)
FIELD(nvmlMemory_v2_t, used)
SIZE(nvmlUtilization_t)
FIELD(nvmlUtilization_t, gpu)
FIELD(nvmlUtilization_t, memory)
SIZE(nvmlProcessInfo_v1_t)
FIELD(nvmlProcessInfo_v1_t, pid)
FIELD(nvmlProcessInfo_v1_t, usedGpuMemory)
SIZE(nvmlProcessInfo_v2_t)
FIELD(nvmlProcessInfo_v2_t, pid)
FIELD(nvmlProcessInfo_v2_t, usedGpuMemory)
FIELD(nvmlProcessInfo_v2_t, gpuInstanceId)
FIELD(nvmlProcessInfo_v2_t, computeInstanceId)
SIZE(nvmlPciInfo_t)
FIELD(nvmlPciInfo_t, busIdLegacy)
FIELD(nvmlPciInfo_t, domain)
FIELD(nvmlPciInfo_t, bus)
FIELD(nvmlPciInfo_t, device)
FIELD(nvmlPciInfo_t, pciDeviceId)
FIELD(nvmlPciInfo_t, pciSubSystemId)
FIELD(nvmlPciInfo_t, busId)
SIZE(nvmlRowRemapperHistogramValues_t)
FIELD(nvmlRowRemapperHistogramValues_t, max)
FIELD(nvmlRowRemapperHistogramValues_t, high)
FIELD(nvmlRowRemapperHistogramValues_t, partial)
FIELD(nvmlRowRemapperHistogramValues_t, low)
FIELD(nvmlRowRemapperHistogramValues_t, none)
SIZE(nvmlEventData_t)
FIELD(nvmlEventData_t, device)
FIELD(nvmlEventData_t, eventType)
FIELD(nvmlEventData_t, eventData)
FIELD(nvmlEventData_t, gpuInstanceId)
FIELD(nvmlEventData_t, computeInstanceId)
SIZE(nvmlGpmMetric_t)
FIELD(nvmlGpmMetric_t, metricId)
FIELD(nvmlGpmMetric_t, nvmlReturn)
FIELD(nvmlGpmMetric_t, value)
FIELD(nvmlGpmMetric_t, metricInfo)
/* Our array of metrics is larger, with room for newer drivers. */
FIELD(nvmlGpmMetricsGet_t, version)
FIELD(nvmlGpmMetricsGet_t, numMetrics)
FIELD(nvmlGpmMetricsGet_t, sample1)
FIELD(nvmlGpmMetricsGet_t, sample2)
_Static_assert(offsetof(nvmlGpmMetricsGet_t, metrics) ==
                   offsetof(ours_nvmlGpmMetricsGet_t, metrics),
               "nvmlGpmMetricsGet_t.metrics");
_Static_assert(NVML_GPM_METRIC_MAX <= OURS_NVML_GPM_METRICS_MAX, "room for all metrics");
SIZE(nvmlGpmSupport_t)
FIELD(nvmlGpmSupport_t, version)
FIELD(nvmlGpmSupport_t, isSupportedDevice)
NUMBER(NVML_CLOCK_GRAPHICS)
NUMBER(NVML_CLOCK_SM)
NUMBER(NVML_CLOCK_VIDEO)
NUMBER(NVML_TEMPERATURE_GPU)

#define EQUALS(theirs, mine) _Static_assert((unsigned long long)(theirs) == (mine), #theirs);
EQUALS(NVML_CLOCK_MEM, OURS_NVML_CLOCK_MEMORY)
EQUALS(nvmlClocksEventReasonGpuIdle, OURS_NVML_REASON_GPU_IDLE)
EQUALS(nvmlClocksEventReasonSwPowerCap, OURS_NVML_REASON_SW_POWER_CAP)
EQUALS(nvmlClocksThrottleReasonHwSlowdown, OURS_NVML_REASON_HW_SLOWDOWN)
EQUALS(nvmlClocksEventReasonSwThermalSlowdown, OURS_NVML_REASON_SW_THERMAL)
EQUALS(nvmlClocksThrottleReasonHwThermalSlowdown, OURS_NVML_REASON_HW_THERMAL)
EQUALS(nvmlClocksThrottleReasonHwPowerBrakeSlowdown, OURS_NVML_REASON_HW_POWER_BRAKE)
EQUALS(nvmlEventTypeSingleBitEccError, OURS_NVML_EVENT_SINGLE_BIT_ECC)
EQUALS(nvmlEventTypeDoubleBitEccError, OURS_NVML_EVENT_DOUBLE_BIT_ECC)
EQUALS(nvmlEventTypeXidCriticalError, OURS_NVML_EVENT_XID)
EQUALS(NVML_GPM_METRIC_GRAPHICS_UTIL, OURS_NVML_GPM_GRAPHICS_UTIL)
EQUALS(NVML_GPM_METRIC_SM_UTIL, OURS_NVML_GPM_SM_UTIL)
EQUALS(NVML_GPM_METRIC_SM_OCCUPANCY, OURS_NVML_GPM_SM_OCCUPANCY)
EQUALS(NVML_GPM_METRIC_ANY_TENSOR_UTIL, OURS_NVML_GPM_ANY_TENSOR_UTIL)
EQUALS(NVML_GPM_METRIC_DRAM_BW_UTIL, OURS_NVML_GPM_DRAM_BW_UTIL)
EQUALS(NVML_GPM_METRIC_PCIE_TX_PER_SEC, OURS_NVML_GPM_PCIE_TX_PER_SEC)
EQUALS(NVML_GPM_METRIC_PCIE_RX_PER_SEC, OURS_NVML_GPM_PCIE_RX_PER_SEC)
