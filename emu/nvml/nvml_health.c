/* NVML: the health of a device. Clocks and the reasons for low clocks, ECC errors, remapped rows,
 * and other queries of monitors. */
#include <stdio.h>

#include "base/str.h"
#include "emu/nvml/nvml.h"

enum {
    ECC_TYPES = 2,    /* corrected, uncorrected */
    ECC_COUNTERS = 2, /* since the last reset, and ever */
    LOCATION_DEVICE_MEMORY = 2,
    LOCATION_SRAM = 7,
    LOCATIONS = 8,
    BANKS = 3072, /* banks of an H200 */
    SHUTDOWN_C = 95,
    SLOWDOWN_C = 89,
    MEMORY_MAX_C = 95,
    GPU_MAX_C = 87,
    THRESHOLDS = 7,
    SERIAL_DIGITS = 13,
};

/* Cards with stacked memory have counting ECC, remappable rows, and MIG. */
static bool is_large(const struct device *device)
{
    const struct emu_model *model = &device->state->model;
    return model->cc_major >= 9 || (model->cc_major == 8 && model->cc_minor == 0);
}

static int check(const struct device *device, const void *argument)
{
    int r = nvml_check(device);
    return r == NVML_SUCCESS && !argument ? NVML_ERROR_INVALID_ARGUMENT : r;
}

/* Like check(), for features of the large cards. */
static int check_large(const struct device *device, const void *argument)
{
    int r = check(device, argument);
    return r == NVML_SUCCESS && !is_large(device) ? NVML_ERROR_NOT_SUPPORTED : r;
}

static struct emu_health read_health(struct device *device)
{
    device_lock_now(device);
    struct emu_health health = device->state->health;
    device_unlock(device);
    return health;
}

NVML_API int nvmlDeviceGetCurrentClocksEventReasons(struct device *device,
                                                    unsigned long long *ret_reasons)
{
    int r = check(device, ret_reasons);
    if (r != NVML_SUCCESS)
        return r;
    uint64_t reasons = read_health(device).clock_reasons;
    if (reasons == 0 && nvml_recent(device).busy == 0)
        reasons = NVML_REASON_GPU_IDLE;
    *ret_reasons = reasons;
    return NVML_SUCCESS;
}

NVML_API int nvmlDeviceGetCurrentClocksThrottleReasons(struct device *device,
                                                       unsigned long long *reasons)
{
    return nvmlDeviceGetCurrentClocksEventReasons(device, reasons);
}

NVML_API int nvmlDeviceGetSupportedClocksEventReasons(struct device *device,
                                                      unsigned long long *ret_reasons)
{
    int r = check(device, ret_reasons);
    if (r == NVML_SUCCESS)
        *ret_reasons = NVML_REASONS_ALL;
    return r;
}

NVML_API int nvmlDeviceGetSupportedClocksThrottleReasons(struct device *device,
                                                         unsigned long long *reasons)
{
    return nvmlDeviceGetSupportedClocksEventReasons(device, reasons);
}

NVML_API int nvmlDeviceGetEccMode(struct device *device, nvmlEnableState_t *ret_now,
                                  nvmlEnableState_t *ret_pending)
{
    int r = check_large(device, ret_now && ret_pending ? ret_now : NULL);
    if (r == NVML_SUCCESS)
        *ret_now = *ret_pending = 1;
    return r;
}

static uint64_t ecc_count(const struct emu_health *health, int type, int counter)
{
    const struct emu_ecc *ecc = counter == 0 ? &health->ecc_now : &health->ecc_ever;
    return type == 0 ? ecc->corrected : ecc->uncorrected;
}

NVML_API int nvmlDeviceGetTotalEccErrors(struct device *device, int type, int counter,
                                         unsigned long long *ret_count)
{
    bool is_known = type >= 0 && type < ECC_TYPES && counter >= 0 && counter < ECC_COUNTERS;
    int r = check_large(device, is_known ? ret_count : NULL);
    if (r != NVML_SUCCESS)
        return r;
    struct emu_health health = read_health(device);
    *ret_count = ecc_count(&health, type, counter);
    return NVML_SUCCESS;
}

NVML_API int nvmlDeviceGetMemoryErrorCounter(struct device *device, int type, int counter,
                                             int location, unsigned long long *ret_count)
{
    unsigned long long count;
    bool is_known = location >= 0 && location < LOCATIONS;
    int r = check_large(device, is_known ? ret_count : NULL);
    if (r == NVML_SUCCESS)
        r = nvmlDeviceGetTotalEccErrors(device, type, counter, &count);
    if (r != NVML_SUCCESS)
        return r;
    if (location != LOCATION_DEVICE_MEMORY && location != LOCATION_SRAM)
        return NVML_ERROR_NOT_SUPPORTED;
    *ret_count = location == LOCATION_DEVICE_MEMORY ? count : 0;
    return NVML_SUCCESS;
}

NVML_API int nvmlDeviceGetRemappedRows(struct device *device, unsigned *ret_corrected,
                                       unsigned *ret_uncorrected, unsigned *ret_pending,
                                       unsigned *ret_failed)
{
    bool all = ret_corrected && ret_uncorrected && ret_pending && ret_failed;
    int r = check_large(device, all ? ret_corrected : NULL);
    if (r != NVML_SUCCESS)
        return r;
    struct emu_health health = read_health(device);
    *ret_corrected = 0;
    *ret_uncorrected = health.rows_remapped;
    *ret_pending = health.rows_pending > 0;
    *ret_failed = 0;
    return NVML_SUCCESS;
}

NVML_API int nvmlDeviceGetRowRemapperHistogram(struct device *device,
                                               nvmlRowRemapperHistogramValues_t *ret_rows)
{
    int r = check_large(device, ret_rows);
    if (r != NVML_SUCCESS)
        return r;
    uint32_t used = read_health(device).rows_remapped;
    *ret_rows =
        (nvmlRowRemapperHistogramValues_t){.max = used < BANKS ? BANKS - used : 0, .high = used};
    return NVML_SUCCESS;
}

NVML_API int nvmlDeviceGetMigMode(struct device *device, unsigned *ret_now, unsigned *ret_pending)
{
    int r = check_large(device, ret_now && ret_pending ? ret_now : NULL);
    if (r == NVML_SUCCESS)
        *ret_now = *ret_pending = 0;
    return r;
}

NVML_API int nvmlDeviceGetPersistenceMode(struct device *device, int *ret_mode)
{
    int r = check(device, ret_mode);
    if (r == NVML_SUCCESS)
        *ret_mode = 1;
    return r;
}

NVML_API int nvmlDeviceGetPerformanceState(struct device *device, int *ret_state)
{
    int r = check(device, ret_state);
    if (r == NVML_SUCCESS)
        *ret_state = 0;
    return r;
}

NVML_API int nvmlDeviceGetSerial(struct device *device, char *text, unsigned size)
{
    int r = check_large(device, text);
    if (r != NVML_SUCCESS)
        return r;
    if (size <= SERIAL_DIGITS)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < SERIAL_DIGITS; i++)
        text[i] = (char)('0' + device->state->uuid[i] % 10);
    text[SERIAL_DIGITS] = '\0';
    return NVML_SUCCESS;
}

NVML_API int nvmlDeviceGetTemperatureThreshold(struct device *device, int type, unsigned *ret_c)
{
    static const unsigned thresholds_c[] = {SHUTDOWN_C, SLOWDOWN_C, MEMORY_MAX_C, GPU_MAX_C};
    int r = check(device, type >= 0 ? ret_c : NULL);
    if (r != NVML_SUCCESS)
        return r;
    if (type >= (int)(sizeof(thresholds_c) / sizeof(*thresholds_c)))
        return type < THRESHOLDS ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
    *ret_c = thresholds_c[type];
    return NVML_SUCCESS;
}

/* Energy since the device was made, by the power model. */
NVML_API int nvmlDeviceGetTotalEnergyConsumption(struct device *device, unsigned long long *ret_mj)
{
    int r = check(device, ret_mj);
    if (r != NVML_SUCCESS)
        return r;
    const struct emu_model *model = &device->state->model;
    device_lock_now(device);
    double idle_j = (double)device->state->usage.time_ns * 1e-9 * model->power_idle_w;
    double busy_j = (double)device->state->usage.sm_permille_ns * 1e-12 *
                    (model->power_limit_w - model->power_idle_w);
    device_unlock(device);
    *ret_mj = (uint64_t)((idle_j + busy_j) * 1000);
    return NVML_SUCCESS;
}
