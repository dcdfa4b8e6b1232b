/* Each number of the configuration reaches the device monitor in the right place. */
#include "node/device/monitor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "node/agent_internal.h"

static struct device_config seen;

/* Replaces device_monitor_new(), and makes no monitor. */
int __wrap_device_monitor_new(const struct device_config *config, struct device_monitor **ret);

int __wrap_device_monitor_new(const struct device_config *config, struct device_monitor **ret)
{
    (void)ret;
    seen = *config;
    return -ERR_NO_MEMORY;
}

static void configuration_keys_reach_device_monitor(void **state)
{
    (void)state;
    static const struct config config = {
        .monitor_memory_soft = 11,
        .monitor_memory_hard = 12,
        .monitor_latency_soft = 13,
        .monitor_latency_hard = 14,
        .monitor_requests = 15,
        .monitor_calm_ms = 16,
        .monitor_outside_ms = 17,
        .monitor_hold_min_ms = 18,
        .monitor_hold_max_ms = 19,
        .fault_probation_ms = 20,
    };
    static struct agent agent = {.config = &config, .info = {.device_count = 1}};
    struct error e = {0};
    assert_int_equal(monitor_open(&e, &agent), -ERR_NO_MEMORY);
    monitor_close(&agent);
    assert_int_equal(seen.memory_soft_percent, 11);
    assert_int_equal(seen.memory_hard_percent, 12);
    assert_int_equal(seen.latency_soft_percent, 13);
    assert_int_equal(seen.latency_hard_percent, 14);
    assert_int_equal(seen.latency_requests_least, 15);
    assert_int_equal(seen.calm_ms, 16);
    assert_int_equal(seen.outside_ms, 17);
    assert_int_equal(seen.hold_min_ms, 18);
    assert_int_equal(seen.hold_max_ms, 19);
    assert_int_equal(seen.hold_reset_ms, 19);
    assert_int_equal(seen.probation_ms, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(configuration_keys_reach_device_monitor)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
