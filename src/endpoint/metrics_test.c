#include "endpoint/metrics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { LINE_MAX_BYTES = 256 };

static void assert_value(double value, const char *expected)
{
    struct str out;
    str_init(&out, LINE_MAX_BYTES);
    metrics_sample(&out, "m", value, NULL);
    assert_string_equal(str_text(&out), expected);
    str_done(&out);
}

static void metric_value_is_written_readably(void **state)
{
    (void)state;
    assert_value(0, "m 0\n");
    assert_value(7, "m 7\n");
    assert_value(-7, "m -7\n");
    assert_value(0.5, "m 0.5\n");
    assert_value(0.37, "m 0.37\n");
    assert_value(0.0001, "m 0.0001\n");
    assert_value(12.0625, "m 12.0625\n");
    assert_value(0.99999, "m 0.99999\n");
    assert_value(151397597184.0, "m 151397597184\n");
    assert_value(9007199254740991.0, "m 9007199254740991\n");
    assert_value(9007199254740992.0, "m 9.00719925474099e+15\n");
    assert_value(1e-9, "m 1e-09\n");
    assert_value(NAN, "m NaN\n");
    assert_value(INFINITY, "m +Inf\n");
    assert_value(-INFINITY, "m -Inf\n");
}

static void metric_value_keeps_fifteen_digits(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int i = 0; i < 100000; i++) {
        seed = seed * 6364136223846793005U + 1442695040888963407U;
        double value = (double)(seed >> 20) / (double)(1U << (seed % 31));
        struct str out;
        str_init(&out, LINE_MAX_BYTES);
        metrics_sample(&out, "m", value, NULL);
        double read = strtod(str_text(&out) + 1, NULL);
        assert_true(fabs(read - value) <= value * 1e-14);
        str_done(&out);
    }
}

static void metric_labels_are_escaped(void **state)
{
    (void)state;
    struct str out;
    str_init(&out, LINE_MAX_BYTES);
    metrics_sample(&out, "m", 1, "a", "x\"y", "b", "p\\q\nr", NULL);
    assert_string_equal(str_text(&out), "m{a=\"x\\\"y\",b=\"p\\\\q\\nr\"} 1\n");
    str_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metric_value_is_written_readably),
        cmocka_unit_test(metric_value_keeps_fifteen_digits),
        cmocka_unit_test(metric_labels_are_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
