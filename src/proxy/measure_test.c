#include "proxy/measure.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/backends.h"

static int setup(void **state)
{
    *state = calloc(1, sizeof(struct measure));
    return 0;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

static void counts_are_reported_once(void **state)
{
    struct measure *m = *state;
    char packet[MEASURE_PACKET_MAX];
    assert_int_equal(measure_write(m, CONTROL_TIME_LATENCY, packet), 0);
    measure_add(m, CONTROL_TIME_LATENCY, 5, 2);
    measure_add(m, CONTROL_TIME_LATENCY, 1000, 1);
    measure_add(m, CONTROL_TIME_LATENCY, -3, 1);
    measure_add(m, CONTROL_TIME_FIRST, 7, 1);
    size_t length = measure_write(m, CONTROL_TIME_LATENCY, packet);
    assert_int_equal(length, strlen(packet));
    assert_string_equal(packet, "latency\n0 1\n5 2\n992 1\n");
    measure_clear(m, CONTROL_TIME_LATENCY);
    assert_int_equal(measure_write(m, CONTROL_TIME_LATENCY, packet), 0);
    assert_true(measure_write(m, CONTROL_TIME_FIRST, packet) > 0);
    assert_string_equal(packet, "first\n7 1\n");
}

static void fullest_packet_fits(void **state)
{
    struct measure *m = *state;
    char packet[MEASURE_PACKET_MAX];
    for (unsigned place = 0; place < CONTROL_LATENCY_PLACES; place++)
        for (int i = 0; i < 3; i++)
            measure_add(m, CONTROL_TIME_BETWEEN, (int64_t)control_latency_us(place), UINT32_MAX);
    size_t length = measure_write(m, CONTROL_TIME_BETWEEN, packet);
    assert_true(length < sizeof packet && length == strlen(packet));
    assert_non_null(strstr(packet, " 1000000000\n"));
}

static void spread_is_even_and_complete(void **state)
{
    struct measure *m = *state;
    measure_spread(m, CONTROL_TIME_LATENCY, 1000, 2000, 1001);
    uint32_t sum = 0, lower = 0;
    for (unsigned place = 0; place < CONTROL_LATENCY_PLACES; place++) {
        uint32_t count = m->counts[CONTROL_TIME_LATENCY][place];
        assert_true(count == 0 ||
                    (control_latency_us(place + 1) > 1000 && control_latency_us(place) < 2000));
        sum += count;
        if (control_latency_us(place + 1) <= 1536)
            lower += count;
    }
    assert_int_equal(sum, 1001);
    assert_in_range(lower, 530, 543); /* 536 µs of 1000 */
    measure_spread(m, CONTROL_TIME_FIRST, 500, 500, 3);
    assert_int_equal(m->waiting[CONTROL_TIME_FIRST], 3);
}

static void order_replaces_backends(void **state)
{
    (void)state;
    struct backends b = {.count = 1, .items = {{.port = 4000}}};
    backends_opened(&b, 4000);
    assert_false(backends_parse(&b, "ok"));
    assert_false(backends_parse(&b, "backends"));
    assert_false(backends_parse(&b, "backends 0"));
    assert_false(backends_parse(&b, "backends 70000"));
    assert_false(backends_parse(&b, "backends 4001 4001"));
    assert_false(backends_parse(&b, "backends 4001x"));
    assert_int_equal(b.generation, 0);
    assert_true(backends_parse(&b, "backends 4000 4001 4002"));
    assert_int_equal(b.generation, 1);
    assert_int_equal(b.items[0].connections, 1);
    assert_true(backends_has(&b, 4001));
    assert_false(backends_has(&b, 4003));
}

static void new_connection_goes_to_least_busy_backend(void **state)
{
    (void)state;
    struct backends b = {0};
    assert_int_equal(backends_choose(&b), 0);
    assert_true(backends_parse(&b, "backends 1 2 3"));
    int chosen[4] = {0};
    for (int i = 0; i < 9; i++) {
        int port = backends_choose(&b);
        backends_opened(&b, port);
        chosen[port]++;
    }
    assert_int_equal(chosen[1], 3);
    assert_int_equal(chosen[2], 3);
    backends_closed(&b, 2);
    assert_int_equal(backends_choose(&b), 2);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(counts_are_reported_once),
        CASE(fullest_packet_fits),
        CASE(spread_is_even_and_complete),
        CASE(order_replaces_backends),
        CASE(new_connection_goes_to_least_busy_backend),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
