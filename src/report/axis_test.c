/* axis_test: round values with units in any range, and labels that do not overlap. */
#include "report/axis.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "report/plot.h"

static void labels_are(const struct axis *a, const char *unit, const char *const *labels)
{
    size_t i = 0;
    assert_string_equal(a->unit, unit);
    for (; labels[i]; i++) {
        assert_true(i < a->tick_count);
        assert_string_equal(a->ticks[i].label, labels[i]);
    }
    assert_int_equal(i, a->tick_count);
}

static void linear_axis_ticks_are_round(void **state)
{
    (void)state;
    struct axis a;
    axis_init_linear(&a, AXIS_NUMBER, 130, 100, 0, 30);
    labels_are(&a, "", (const char *const[]){"0", "50", "100", "150", NULL});
    assert_true(axis_at(&a, 0) == 100 && axis_at(&a, 150) == 0 && axis_at(&a, 75) == 50);
    axis_init_linear(&a, AXIS_PERCENT, 1, 100, 0, 30);
    labels_are(&a, "%", (const char *const[]){"0", "50", "100", NULL});
    axis_init_linear(&a, AXIS_PERCENT, 0.0061, 100, 0, 30);
    labels_are(&a, "%", (const char *const[]){"0.0", "0.2", "0.4", "0.6", "0.8", NULL});
    axis_init_until(&a, AXIS_TIME, 6.2 * 3600, 0, 400, 60);
    labels_are(&a, "h", (const char *const[]){"0", "1", "2", "3", "4", "5", "6", NULL});
    assert_true(axis_at(&a, 6.2 * 3600) == 400);
    axis_init_until(&a, AXIS_TIME, 110 * 60, 0, 400, 60);
    labels_are(&a, "min", (const char *const[]){"0", "20", "40", "60", "80", "100", NULL});
}

static void logarithmic_axis_labels_name_units(void **state)
{
    (void)state;
    struct axis a;
    axis_init_log_time(&a, 4, 3 * 3600, 0, 600, 60);
    bool has_minute = false, has_hour = false;
    for (size_t i = 0; i < a.tick_count; i++) {
        has_minute = has_minute || strcmp(a.ticks[i].label, "1 min") == 0;
        has_hour = has_hour || strcmp(a.ticks[i].label, "1 h") == 0;
        for (size_t j = 0; j < i; j++)
            assert_true(fabs(axis_at(&a, a.ticks[i].value) - axis_at(&a, a.ticks[j].value)) >= 60);
    }
    assert_true(has_minute && has_hour);
    assert_true(axis_at(&a, 1) == 0 && axis_at(&a, 1e9) == 600);
    const double loads[] = {0.5, 1, 1.01, 4};
    axis_init_marks(&a, loads, 4, 0, 300, 20);
    labels_are(&a, "", (const char *const[]){"0.5", "1", "", "4", NULL});
    assert_true(fabs(axis_at(&a, 1) - 100) < 1e-9);
}

static void axis_accepts_any_value(void **state)
{
    (void)state;
    const double values[] = {0, -1, 1e-300, 1e-6, 1, 59.999, 1e9, 1e300, INFINITY, -INFINITY, NAN};
    enum { COUNT = sizeof values / sizeof *values };
    for (size_t i = 0; i < COUNT * COUNT; i++) {
        double x = values[i % COUNT], y = values[i / COUNT];
        struct axis axes[6];
        for (enum axis_quantity q = AXIS_NUMBER; q <= AXIS_TIME; q++) {
            axis_init_linear(&axes[q], q, x, 10, 90, 30);
            axis_init_until(&axes[3], q, x, 10, 90, 30);
        }
        axis_init_log_time(&axes[4], x, y, 10, 90, 30);
        axis_init_marks(&axes[5], (const double[]){x, y}, 2, 10, 90, 5);
        for (size_t n = 0; n < 6; n++) {
            assert_true(axes[n].low < axes[n].high);
            assert_true(axes[n].tick_count <= AXIS_TICKS_MAX);
            for (size_t v = 0; v < COUNT; v++) {
                double at = axis_at(&axes[n], values[v]);
                assert_true(at >= 10 && at <= 90);
            }
            for (size_t t = 0; t < axes[n].tick_count; t++)
                assert_null(strstr(axes[n].ticks[t].label, "nan"));
        }
    }
}

static void labels_keep_distance_and_order(void **state)
{
    (void)state;
    double positions[] = {50, 51, 49, 98, 99, 0};
    const double before[] = {50, 51, 49, 98, 99, 0};
    plot_spread(positions, 6, 10, 5, 100);
    for (size_t i = 0; i < 6; i++) {
        assert_true(positions[i] >= 5 && positions[i] <= 100);
        for (size_t j = 0; j < i; j++) {
            assert_true(fabs(positions[i] - positions[j]) >= 10 - 1e-9);
            assert_true((positions[i] < positions[j]) == (before[i] < before[j]));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_axis_ticks_are_round),
        cmocka_unit_test(logarithmic_axis_labels_name_units),
        cmocka_unit_test(axis_accepts_any_value),
        cmocka_unit_test(labels_keep_distance_and_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
