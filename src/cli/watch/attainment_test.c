#include "cli/watch/attainment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

enum { TEXT_MAX = 64 << 10 };

static const char full[] =
    "{\"setting\": \"deadline gate\", \"why\": \"deadline gate: because\", \"is_trial\": true,"
    " \"is_unreachable\": false, \"target_us\": 50000, \"allowed_fraction\": 0.01,"
    " \"late_fraction\": 0.001, \"stretch\": 1.042, \"allowed_stretch\": 1.09,"
    " \"held_latency_us\": 2400, \"task_speed\": 0.914,"
    " \"answered_1m\": 100, \"late_1m\": 0, \"answered_10m\": 1000, \"late_10m\": 10,"
    " \"answered_1h\": 0, \"late_1h\": 0, \"answered\": 1000000, \"late\": 1,"
    " \"minutes_answered\": [100, 0, 200, 200], \"minutes_late\": [100, 0, 100, 0]}";

static json_t *parse(const char *text)
{
    json_t *value = json_loads(text, 0, NULL);
    assert_non_null(value);
    return value;
}

static void expect(const char *control, const char *wanted)
{
    struct str out;
    json_t *value = parse(control);
    str_init(&out, TEXT_MAX);
    attainment_write(value, &out);
    assert_string_equal(str_text(&out), wanted);
    str_done(&out);
    json_decref(value);
}

static void expect_history(const char *control, bool utf8, const char *wanted)
{
    struct str out;
    json_t *value = parse(control);
    str_init(&out, TEXT_MAX);
    attainment_write_history(value, utf8, &out);
    assert_string_equal(str_text(&out), wanted);
    str_done(&out);
    json_decref(value);
}

static void block_names_target_setting_and_cost(void **state)
{
    (void)state;
    expect(full, "Target       p99 50 ms; 2.4 ms with tasks held\n"
                 "In time      1 min 100%, 10 min 99.00%, 1 h -, all 99.99%, 1 of 1000000 requests "
                 "late\n"
                 "Setting      deadline gate, on trial\n"
                 "             because\n"
                 "Tasks        91% of their speed under the fastest setting measured\n"
                 "Stretch      bursts last 1.04 times as long as alone, 1.09 allowed\n");
}

static void unknown_figures_are_omitted(void **state)
{
    (void)state;
    expect("[]", "");
    expect("{\"setting\": \"no gate\", \"why\": \"new\", \"target_us\": null}",
           "Target       1.10x alone\n"
           "Setting      no gate\n"
           "             new\n");
    expect("{\"setting\": \"no gate\", \"why\": \"new\", \"answered\": 7}",
           "Target       1.10x alone\n"
           "In time      unknown without an SLO; 7 requests\n"
           "Setting      no gate\n"
           "             new\n");
}

static void unreachable_target_is_named(void **state)
{
    (void)state;
    expect("{\"setting\": \"no gate\", \"why\": \"w\", \"target_us\": 1500,"
           " \"is_unreachable\": true, \"held_latency_us\": 2000}",
           "Target       1.5 ms, unreachable: the service misses the target while tasks are held; "
           "2 ms with tasks held\n"
           "Setting      no gate\n"
           "             w\n");
}

static void history_spans_lowest_to_full(void **state)
{
    (void)state;
    expect_history(full, false,
                   "History      1 48\n"
                   "             4 minutes, lowest 0.00%, highest 100%\n");
    expect_history(full, true,
                   "History      \xe2\x96\x81 \xe2\x96\x84\xe2\x96\x88\n"
                   "             4 minutes, lowest 0.00%, highest 100%\n");
    expect_history("{\"target_us\": 9, \"minutes_answered\": [3], \"minutes_late\": [0]}", false,
                   "History      8\n"
                   "             1 minute, lowest 100%, highest 100%\n");
    expect_history("{\"target_us\": 9, \"minutes_answered\": [0], \"minutes_late\": [0]}", false,
                   "");
    expect_history("{\"minutes_answered\": [3], \"minutes_late\": [0]}", false, "");
}

static void more_late_than_allowed_is_missed(void **state)
{
    (void)state;
    json_t *control = parse(full);
    assert_false(attainment_is_missed(control));
    json_object_set_new(control, "late_10m", json_integer(11));
    assert_true(attainment_is_missed(control));
    json_object_set_new(control, "allowed_fraction", json_null());
    assert_false(attainment_is_missed(control));
    json_decref(control);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block_names_target_setting_and_cost),
        cmocka_unit_test(unknown_figures_are_omitted),
        cmocka_unit_test(unreachable_target_is_named),
        cmocka_unit_test(history_spans_lowest_to_full),
        cmocka_unit_test(more_late_than_allowed_is_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
