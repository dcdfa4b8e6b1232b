/* arrivals_test: arrival processes have their rate and the distribution of their gaps. All seeds
 * are fixed, so that a result repeats exactly. */
#include "load/arrivals.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MANY = 200000 };

static int init(struct error *e, const char *text, struct arrivals_limits limits, const char *trace,
                struct arrivals *ret)
{
    struct arrivals_words words;
    int r = arrivals_parse(e, text, &words);
    if (limits.speed == 0)
        limits.speed = 1;
    if (r == 0)
        r = arrivals_init(e, &words, &limits, trace, trace ? strlen(trace) : 0, ret);
    return r;
}

static struct arrivals make(const char *text, struct arrivals_limits limits, const char *trace)
{
    struct error e = {0};
    struct arrivals a;
    if (init(&e, text, limits, trace, &a) < 0)
        fail_msg("%s: %s", text, e.text);
    return a;
}

/* Counts the arrivals of each second. Returns their number. */
static size_t count_by_second(struct arrivals *a, size_t *counts, size_t seconds)
{
    int64_t due_ns, last_ns = 0;
    size_t count = 0;
    memset(counts, 0, seconds * sizeof *counts);
    for (; arrivals_next(a, &due_ns); count++) {
        size_t second = (size_t)(due_ns / 1000000000);
        assert_true(due_ns >= last_ns && second < seconds);
        counts[second]++;
        last_ns = due_ns;
    }
    return count;
}

static void assert_near(double got, double wanted, double tolerance)
{
    if (!(fabs(got - wanted) <= tolerance))
        fail_msg("%g instead of %g ± %g", got, wanted, tolerance);
}

static void uniform_gaps_are_equal(void **state)
{
    (void)state;
    struct arrivals a =
        make("uniform", (struct arrivals_limits){.rate_per_s = 100, .seconds = 10}, NULL);
    int64_t due_ns;
    for (int i = 1; i < 1000; i++) {
        assert_true(arrivals_next(&a, &due_ns));
        assert_near((double)due_ns, i * 1e7, 1e3);
    }
    arrivals_done(&a);
}

/* Compares the gaps with an exponential distribution (Kolmogorov and Smirnov: a distance above
 * 1.95 / √n has a probability of 0.1 %). */
static void check_exponential(uint64_t seed)
{
    enum { CELLS = 1000 };
    static size_t below[CELLS + 1];
    const double rate = 4000;
    struct arrivals a =
        make("poisson",
             (struct arrivals_limits){.rate_per_s = rate, .requests = MANY, .seed = seed}, NULL);
    int64_t due_ns = 0, last_ns = 0;
    double sum = 0, squares = 0, distance = 0, seen = 0;
    memset(below, 0, sizeof below);
    while (arrivals_next(&a, &due_ns)) {
        double gap = (double)(due_ns - last_ns) / 1e9;
        last_ns = due_ns;
        sum += gap;
        squares += gap * gap;
        below[(size_t)(CELLS * (1 - exp(-rate * gap)))]++; /* uniform over the cells */
    }
    assert_int_equal(a.count, MANY);
    assert_near(sum / MANY * rate, 1, 0.01);
    assert_near(squares / MANY * rate * rate, 2, 0.05); /* the coefficient of variation is 1 */
    for (size_t i = 0; i < CELLS; i++) {
        seen += (double)below[i] / MANY;
        distance = fmax(distance, fabs(seen - (double)(i + 1) / CELLS));
    }
    assert_true(distance < 1.95 / sqrt(MANY));
    arrivals_done(&a);
}

static void poisson_gaps_are_exponential(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++)
        check_exponential(seed);
}

static void poisson_seed_repeats_arrivals(void **state)
{
    (void)state;
    struct arrivals_limits limits = {.rate_per_s = 50, .requests = 100, .seed = 7};
    struct arrivals a = make("poisson", limits, NULL), b = make("poisson", limits, NULL);
    limits.seed = 8;
    struct arrivals other = make("poisson", limits, NULL);
    int64_t due_a, due_b, due_other;
    size_t same = 0;
    while (arrivals_next(&a, &due_a)) {
        assert_true(arrivals_next(&b, &due_b) && arrivals_next(&other, &due_other));
        assert_int_equal(due_a, due_b);
        same += due_a == due_other;
    }
    assert_true(same < 2);
    arrivals_done(&a);
    arrivals_done(&b);
    arrivals_done(&other);
}

static void poisson_run_ends_in_time(void **state)
{
    (void)state;
    static size_t counts[20];
    struct arrivals a = make(
        "poisson", (struct arrivals_limits){.rate_per_s = 1000, .seconds = 20, .seed = 1}, NULL);
    assert_near((double)count_by_second(&a, counts, 20), 20000, 500);
    arrivals_done(&a);
}

static void diurnal_rate_swings(void **state)
{
    (void)state;
    static size_t counts[40];
    struct arrivals_limits limits = {.rate_per_s = 5000, .seconds = 40, .seed = 2};
    struct arrivals a = make("diurnal:20s:0.5", limits, NULL);
    assert_near((double)count_by_second(&a, counts, 40), 200000, 2000);
    for (size_t second = 0; second < 40; second++) {
        double middle = ((double)second + 0.5) / 20;
        assert_near((double)counts[second], 5000 * (1 - 0.5 * cos(2 * 3.14159265 * middle)), 400);
    }
    arrivals_done(&a);
    a = make("diurnal", limits, NULL); /* one period, swing 0.8 */
    assert_near((double)count_by_second(&a, counts, 40), 200000, 2000);
    assert_near((double)counts[0], 1000, 200);
    assert_near((double)counts[20], 9000, 400);
    arrivals_done(&a);
}

static void steps_change_the_rate(void **state)
{
    (void)state;
    static size_t counts[12];
    struct arrivals a =
        make("step:9000/s@4s,0@8s,60000/m@10s",
             (struct arrivals_limits){.rate_per_s = 3000, .seconds = 12, .seed = 3}, NULL);
    (void)count_by_second(&a, counts, 12);
    static const double wanted[] = {3000, 3000, 3000, 3000, 9000, 9000,
                                    9000, 9000, 0,    0,    1000, 1000};
    for (size_t i = 0; i < 12; i++)
        assert_near((double)counts[i], wanted[i], 5 * sqrt(wanted[i]));
    arrivals_done(&a);
}

static void last_step_zero_ends_run(void **state)
{
    (void)state;
    struct arrivals a =
        make("step:0@1s", (struct arrivals_limits){.rate_per_s = 10, .requests = 1000}, NULL);
    int64_t due_ns;
    while (arrivals_next(&a, &due_ns))
        assert_true(due_ns < 1000000000);
    assert_in_range(a.count, 1, 30);
    arrivals_done(&a);
}

static const char rates[] = "# measured\nt_s,low,rate\n100,1,3000\n110,2,0\n120,1,6000\n";

static void trace_rates_are_played(void **state)
{
    (void)state;
    static size_t counts[60];
    struct arrivals a =
        make("trace:x.csv", (struct arrivals_limits){.speed = 10, .seed = 4}, rates);
    assert_near(a.mean_per_s, 3000, 1e-6);
    assert_near((double)count_by_second(&a, counts, 3), 9000, 500); /* once to its end */
    assert_near((double)counts[0], 3000, 300);
    assert_int_equal(counts[1], 0);
    assert_near((double)counts[2], 6000, 400);
    arrivals_done(&a);
}

static void trace_rates_scale_and_repeat(void **state)
{
    (void)state;
    static size_t counts[60];
    struct arrivals a = make(
        "trace:x.csv:low",
        (struct arrivals_limits){.rate_per_s = 400, .seconds = 60, .speed = 1, .seed = 5}, rates);
    assert_near((double)count_by_second(&a, counts, 60), 24000, 800);
    size_t low = 0, high = 0;
    for (size_t i = 0; i < 10; i++) {
        low += counts[i] + counts[30 + i];
        high += counts[10 + i] + counts[40 + i];
    }
    assert_near((double)high / (double)low, 2, 0.1);
    arrivals_done(&a);
}

static void trace_times_are_played(void **state)
{
    (void)state;
    static const char times[] = "t_s\n10\n10.5\n10.5\n12\n";
    static const double wanted[] = {0, 0.25e9, 0.25e9, 1e9};
    struct arrivals a = make("trace:dir:1/x.csv", (struct arrivals_limits){.speed = 2}, times);
    int64_t due_ns;
    for (size_t i = 0; i < 4; i++) {
        assert_true(arrivals_next(&a, &due_ns));
        assert_near((double)due_ns, wanted[i], 2);
    }
    assert_false(arrivals_next(&a, &due_ns));
    arrivals_done(&a);
    /* Three gaps, at 30 per second. */
    a = make("trace:x.csv", (struct arrivals_limits){.rate_per_s = 30}, times);
    while (arrivals_next(&a, &due_ns))
        ;
    assert_near((double)due_ns, 0.1e9, 2);
    arrivals_done(&a);
}

/* A period of the trace that is a tiny part of a gap must not cost an iteration each. */
static void sparse_trace_skips_whole_periods(void **state)
{
    (void)state;
    struct arrivals a =
        make("trace:x.csv", (struct arrivals_limits){.speed = 100, .seconds = 3e7, .seed = 6},
             "t_s,rate\n0,0\n0.001,0.000001\n");
    int64_t due_ns;
    size_t count = 0;
    while (arrivals_next(&a, &due_ns))
        count++;
    assert_near((double)count, 15, 12);
    arrivals_done(&a);
}

static void wrong_words_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "poison",
                                        "poisson:1",
                                        "diurnal:",
                                        "diurnal:0s",
                                        "diurnal:1s:2",
                                        "diurnal:1s:x",
                                        "step",
                                        "step:",
                                        "step:5",
                                        "step:5@",
                                        "step:5@0s",
                                        "step:5@2s,5@2s",
                                        "step:x@1s",
                                        "step:5@1s,",
                                        "trace",
                                        "trace:",
                                        "uniform ",
                                        "diurnal:1s:",
                                        "step:-5@1s",
                                        "step:5@1s;6@2s"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct arrivals_words words;
        struct error e = {0};
        if (arrivals_parse(&e, wrong[i], &words) == 0)
            fail_msg("'%s' is accepted", wrong[i]);
        assert_true(*e.text);
    }
}

static void wrong_traces_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "x\n1\n",
                                        "t_s\n",
                                        "t_s\n2\n1\n",
                                        "t_s\n-1\n",
                                        "t_s,rate\n0,1\n",
                                        "t_s,rate\n0,1\n0,1\n",
                                        "t_s,rate\n0,0\n1,0\n",
                                        "t_s,rate\n0,1\n1,x\n",
                                        "t_s,rate\n0,1\n1,-1\n"};
    struct arrivals a;
    struct error e = {0};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (init(&e, "trace:x", (struct arrivals_limits){0}, wrong[i], &a) == 0)
            fail_msg("'%s' is accepted", wrong[i]);
    assert_int_not_equal(init(&e, "trace:x:none", (struct arrivals_limits){0}, rates, &a), 0);
    assert_int_not_equal(
        init(&e, "trace:x", (struct arrivals_limits){.rate_per_s = 5}, "t_s\n1\n1\n", &a), 0);
    assert_int_not_equal(init(&e, "poisson", (struct arrivals_limits){0}, NULL, &a), 0);
}

static void rates_have_units(void **state)
{
    (void)state;
    double rate = 0;
    assert_int_equal(arrivals_parse_rate(NULL, "150", &rate), 0);
    assert_near(rate, 150, 0);
    assert_int_equal(arrivals_parse_rate(NULL, "2.5/s", &rate), 0);
    assert_near(rate, 2.5, 0);
    assert_int_equal(arrivals_parse_rate(NULL, "90/m", &rate), 0);
    assert_near(rate, 1.5, 0);
    assert_int_equal(arrivals_parse_rate(NULL, "36/h", &rate), 0);
    assert_near(rate, 0.01, 0);
    static const char *const wrong[] = {"",    "/s",  "-1",   "1/d",  "1e9", "2000000/s",
                                        "inf", "nan", "0x10", "1 /s", "."};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (arrivals_parse_rate(NULL, wrong[i], &rate) == 0)
            fail_msg("'%s' is accepted", wrong[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uniform_gaps_are_equal),
        cmocka_unit_test(poisson_gaps_are_exponential),
        cmocka_unit_test(poisson_seed_repeats_arrivals),
        cmocka_unit_test(poisson_run_ends_in_time),
        cmocka_unit_test(diurnal_rate_swings),
        cmocka_unit_test(steps_change_the_rate),
        cmocka_unit_test(last_step_zero_ends_run),
        cmocka_unit_test(trace_rates_are_played),
        cmocka_unit_test(trace_rates_scale_and_repeat),
        cmocka_unit_test(trace_times_are_played),
        cmocka_unit_test(sparse_trace_skips_whole_periods),
        cmocka_unit_test(wrong_words_are_refused),
        cmocka_unit_test(wrong_traces_are_refused),
        cmocka_unit_test(rates_have_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
