/* tally_test: counts, targets and the timeline of a run. */
#include "load/tally.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static const int64_t ms = 1000000, second = 1000000000;

static struct tally make(int64_t warmup_ns)
{
    struct tally t;
    assert_int_equal(tally_init(NULL, warmup_ns, &t), 0);
    return t;
}

static void request(struct tally *t, int64_t due_ns, int64_t sent_ns, int64_t answered_ns)
{
    tally_due(t, due_ns, due_ns);
    tally_sent(t, due_ns, sent_ns);
    tally_answered(t, due_ns, answered_ns, 200, 10);
}

static void latency_counts_from_due_time(void **state)
{
    (void)state;
    struct tally t = make(0);
    request(&t, 10 * ms, 510 * ms, 511 * ms);
    assert_int_equal(t.latency.most_ns, 501 * ms);
    assert_int_equal(t.wait.most_ns, 500 * ms);
    assert_int_equal(t.lag.most_ns, 0);
    assert_int_equal(t.late, 1);
    assert_int_equal(t.bytes, 10);
    tally_done(&t);
}

static void warmup_requests_are_not_counted(void **state)
{
    (void)state;
    struct tally t = make(second);
    request(&t, second - 1, second + ms, second + 2 * ms);
    tally_due(&t, 5, 5);
    tally_failed(&t, 5, 6, TALLY_TIMEOUT, 0);
    tally_chunk(&t, 5, -1, 6);
    assert_int_equal(t.warmup, 2);
    assert_int_equal(t.due + t.sent + t.answered + t.late + t.chunks + tally_failures(&t), 0);
    request(&t, second, second, second + ms);
    assert_int_equal(t.due, 1);
    assert_int_equal(t.slices[0].due, 1);
    tally_done(&t);
}

static void failures_miss_every_target(void **state)
{
    (void)state;
    struct tally t = make(0);
    assert_int_equal(tally_parse_slos(NULL, "p90<=20ms,p50<=20ms,p99<=10s", t.slos, &t.slo_count),
                     0);
    for (int i = 0; i < 8; i++)
        request(&t, i * second, i * second, i * second + 20 * ms);
    request(&t, 8 * second, 8 * second, 8 * second + 20 * ms + 1);
    tally_due(&t, 9 * second, 9 * second);
    tally_failed(&t, 9 * second, 9 * second, TALLY_DROPPED, 0);
    assert_true(tally_attainment(&t, &t.slos[0]) == 0.8);
    assert_false(tally_slo_is_met(&t, &t.slos[0]));
    assert_true(tally_slo_is_met(&t, &t.slos[1]));
    assert_true(tally_attainment(&t, &t.slos[2]) == 0.9);
    assert_false(tally_slo_is_met(&t, &t.slos[2]));
    tally_done(&t);
}

static void target_at_its_percentile_is_met(void **state)
{
    (void)state;
    struct tally t = make(0);
    assert_int_equal(tally_parse_slos(NULL, "p99.9<=1.5ms", t.slos, &t.slo_count), 0);
    for (int i = 0; i < 1000; i++)
        request(&t, i * ms, i * ms, i * ms + (i == 0 ? 1500001 : 1500000));
    assert_true(tally_slo_is_met(&t, &t.slos[0]));
    tally_done(&t);
}

static void targets_are_parsed(void **state)
{
    (void)state;
    struct tally_slo slos[TALLY_SLOS_MAX];
    size_t count = 0;
    assert_int_equal(tally_parse_slos(NULL, "p99.9<=500us,p50<=1s", slos, &count), 0);
    assert_int_equal(count, 2);
    assert_true(slos[0].percentile == 99.9);
    assert_int_equal(slos[0].limit_ns, 500000);
    assert_int_equal(slos[1].limit_ns, second);
    static const char *const wrong[] = {
        "",          "p99",
        "p99<20ms",  "99<=20ms",
        "p0<=1s",    "p101<=1s",
        "p99<=",     "p99<=0s",
        "p99<=-1ms", "p99<=1s,",
        "p<=1s",     "p99<=1x",
        "p99=>1s",   "p9.9.9<=1s",
        "p99 <=1ms", "p1<=1s,p1<=1s,p1<=1s,p1<=1s,p1<=1s,p1<=1s,p1<=1s,p1<=1s,p1<=1s"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (tally_parse_slos(NULL, wrong[i], slos, &count) == 0)
            fail_msg("'%s' is accepted", wrong[i]);
}

/* However long the run is, the slices cover it, and no request is lost. */
static void slices_grow_with_the_run(void **state)
{
    (void)state;
    struct tally t = make(0);
    uint64_t due = 0, answered = 0, latencies = 0;
    for (int i = 0; i < 3000; i++)
        request(&t, i * second / 2, i * second / 2, i * second / 2 + 30 * ms);
    for (size_t i = 0; i < tally_slice_count(&t); i++) {
        due += t.slices[i].due;
        answered += t.slices[i].answered_in;
        latencies += t.slices[i].latency.count;
    }
    assert_int_equal(due, 3000);
    assert_int_equal(answered, 3000);
    assert_int_equal(latencies, 3000);
    assert_true(t.slice_ns * TALLY_SLICES_MAX >= 1500 * second);
    assert_true(tally_slice_count(&t) > TALLY_SLICES_MAX / 2);
    assert_in_range(t.slices[3].due, 2 * t.slice_ns / second, 2 * t.slice_ns / second + 1);
    tally_done(&t);
}

static void chunks_give_first_and_gaps(void **state)
{
    (void)state;
    struct tally t = make(0);
    tally_due(&t, 0, 0);
    tally_chunk(&t, 0, -1, 30 * ms);
    tally_chunk(&t, 0, 30 * ms, 50 * ms);
    tally_chunk(&t, 0, 50 * ms, 55 * ms);
    assert_int_equal(t.first.most_ns, 30 * ms);
    assert_int_equal(t.gap.count, 2);
    assert_int_equal(t.gap.most_ns, 20 * ms);
    assert_int_equal(t.gap.least_ns, 5 * ms);
    tally_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(latency_counts_from_due_time),
        cmocka_unit_test(warmup_requests_are_not_counted),
        cmocka_unit_test(failures_miss_every_target),
        cmocka_unit_test(target_at_its_percentile_is_met),
        cmocka_unit_test(targets_are_parsed),
        cmocka_unit_test(slices_grow_with_the_run),
        cmocka_unit_test(chunks_give_first_and_gaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
