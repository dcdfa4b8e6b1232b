/* The pages in tests/proxy/ are in the form of the servers' own pages, cut to what matters. */
#include "proxy/adapter.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PAGE_MAX = 64 << 10, PIECE = 37 };

struct fixture {
    struct adapter adapter;
    struct measure measure;
    char page[PAGE_MAX];
};

static int setup(void **state)
{
    *state = calloc(1, sizeof(struct fixture));
    return 0;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

static const char *take_text(struct fixture *f, const char *text)
{
    size_t length = strlen(text);
    adapter_begin(&f->adapter);
    for (size_t at = 0; at < length; at += PIECE)
        adapter_feed(&f->adapter, text + at, length - at < PIECE ? length - at : PIECE);
    return adapter_end(&f->adapter, &f->measure);
}

static const char *take_page(struct fixture *f, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tests/proxy/%s.txt", getenv("GPUMUX_SOURCE"), name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t length = fread(f->page, 1, sizeof f->page - 1, file);
    fclose(file);
    f->page[length] = '\0';
    return take_text(f, f->page);
}

/* Returns the number of times from low_us on and below high_us, with those that share a place with
 * either. */
static uint64_t between(const struct fixture *f, enum control_time time, uint64_t low_us,
                        uint64_t high_us)
{
    uint64_t sum = 0;
    for (unsigned place = 0; place < CONTROL_LATENCY_PLACES; place++)
        if (control_latency_us(place + 1) > low_us && control_latency_us(place) < high_us)
            sum += f->measure.counts[time][place];
    return sum;
}

static void samples_are_parsed(void **state)
{
    (void)state;
    static const char line[] = "a:b_bucket{x=\"1, } \\\" 2\", le=\"+Inf\"} 12.5e1 17 # {t=\"x\"} 3";
    struct prometheus_sample s, other;
    assert_true(prometheus_parse(line, strlen(line), &s));
    assert_int_equal(s.name_length, strlen("a:b_bucket"));
    assert_true(isinf(s.bound) && isnan(s.quantile) && s.value == 125);
    assert_true(prometheus_parse("a{quantile=\"0.5\",} Nan\r", 23, &s));
    assert_true(s.quantile == 0.5 && isnan(s.value) && isnan(s.bound));
    assert_true(prometheus_parse("a 1", 3, &s) && prometheus_parse("a{m=\"1\"} 1", 10, &other));
    assert_true(s.series != other.series);
    static const char *const bad[] = {
        "",           "# HELP a b", "a",    "a{ 1",        "a{b} 1",
        "a{b=\"1} 1", "a{b=\"1\"",  "a 1x", "{a=\"b\"} 1", "a{le=\"x\"} 1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(prometheus_parse(bad[i], strlen(bad[i]), &s));
}

static void vllm_pages_become_latencies(void **state)
{
    struct fixture *f = *state;
    adapter_init(&f->adapter, ADAPTER_AUTO, "");
    assert_null(take_page(f, "vllm_before"));
    for (int time = 0; time < CONTROL_TIMES; time++)
        assert_int_equal(f->measure.waiting[time], 0); /* nobody knows when these were */
    assert_null(take_page(f, "vllm_after"));
    assert_int_equal(f->measure.waiting[CONTROL_TIME_LATENCY], 100);
    assert_int_equal(between(f, CONTROL_TIME_LATENCY, 2500000, 5000000), 1);
    assert_int_equal(f->measure.waiting[CONTROL_TIME_FIRST], 100);
    assert_in_range(between(f, CONTROL_TIME_FIRST, 20000, 40000), 80, 82);
    assert_int_equal(between(f, CONTROL_TIME_FIRST, 100000, 250000), 2);
    assert_int_equal(f->measure.waiting[CONTROL_TIME_BETWEEN], 5100);
    assert_in_range(between(f, CONTROL_TIME_BETWEEN, 0, 9700), 4800, 5000);
}

static void sglang_latency_beyond_last_bound_is_noted(void **state)
{
    struct fixture *f = *state;
    adapter_init(&f->adapter, ADAPTER_SGLANG, "");
    assert_null(take_page(f, "sglang_before"));
    const char *note = take_page(f, "sglang_after");
    assert_non_null(note);
    assert_non_null(strstr(note, "above 60000 ms count as 60000 ms"));
    assert_int_equal(f->measure.waiting[CONTROL_TIME_LATENCY], 22);
    assert_int_equal(f->measure.counts[CONTROL_TIME_LATENCY][control_latency_place(60000000)], 2);
    assert_int_equal(f->measure.waiting[CONTROL_TIME_FIRST], 22);
    assert_int_equal(f->measure.waiting[CONTROL_TIME_BETWEEN], 1100);
    assert_null(take_page(f, "sglang_after"));
    assert_int_equal(f->measure.waiting[CONTROL_TIME_LATENCY], 22);
}

static void triton_summary_becomes_latencies(void **state)
{
    struct fixture *f = *state;
    adapter_init(&f->adapter, ADAPTER_TRITON, "");
    assert_null(take_page(f, "triton_before"));
    assert_null(take_page(f, "triton_after"));
    assert_int_equal(f->measure.waiting[CONTROL_TIME_LATENCY], 1000);
    assert_in_range(between(f, CONTROL_TIME_LATENCY, 0, 2900), 470, 500);
    assert_in_range(between(f, CONTROL_TIME_LATENCY, 6000, 1000000), 10, 12);
    assert_int_equal(f->measure.waiting[CONTROL_TIME_FIRST], 1000);
}

static void triton_without_summary_is_noted_once(void **state)
{
    struct fixture *f = *state;
    adapter_init(&f->adapter, ADAPTER_AUTO, "");
    const char *note = NULL;
    for (int i = 0; i < ADAPTER_EMPTY_PAGES; i++) {
        assert_null(note);
        note = take_page(f, "triton_plain");
    }
    assert_non_null(note);
    assert_non_null(strstr(note, "summary_latencies=true"));
    assert_null(take_page(f, "triton_plain"));
    assert_int_equal(f->measure.waiting[CONTROL_TIME_LATENCY], 0);
}

static void named_histogram_survives_restart(void **state)
{
    struct fixture *f = *state;
    adapter_init(&f->adapter, ADAPTER_PROMETHEUS, "work_ms");
    take_text(f, "work_ms_bucket{m=\"a\",le=\"10\"} 3\nwork_ms_bucket{m=\"b\",le=\"10\"} 4\n"
                 "work_ms_bucket{m=\"a\",le=\"+Inf\"} 3\nwork_ms_bucket{m=\"b\",le=\"+Inf\"} 4\n"
                 "work_ms_other_bucket{le=\"10\"} 9\n");
    take_text(f, "work_ms_bucket{m=\"a\",le=\"10\"} 5\nwork_ms_bucket{m=\"b\",le=\"10\"} 5\n"
                 "work_ms_bucket{m=\"a\",le=\"+Inf\"} 5\nwork_ms_bucket{m=\"b\",le=\"+Inf\"} 5");
    assert_int_equal(f->measure.waiting[CONTROL_TIME_LATENCY], 3);
    assert_int_equal(between(f, CONTROL_TIME_LATENCY, 0, 10000), 3);
    take_text(f, "work_ms_bucket{m=\"a\",le=\"10\"} 2\nwork_ms_bucket{m=\"a\",le=\"+Inf\"} 2\n");
    assert_int_equal(f->measure.waiting[CONTROL_TIME_LATENCY], 5);
}

static void first_histogram_after_empty_page_counts(void **state)
{
    struct fixture *f = *state;
    adapter_init(&f->adapter, ADAPTER_PROMETHEUS, "work_seconds");
    take_text(f, "other 1\n");
    take_text(f, "work_seconds_bucket{le=\"0.5\"} 7\nwork_seconds_bucket{le=\"+Inf\"} 7\n");
    assert_int_equal(between(f, CONTROL_TIME_LATENCY, 0, 500000), 7);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(samples_are_parsed),
        CASE(vllm_pages_become_latencies),
        CASE(sglang_latency_beyond_last_bound_is_noted),
        CASE(triton_summary_becomes_latencies),
        CASE(triton_without_summary_is_noted_once),
        CASE(named_histogram_survives_restart),
        CASE(first_histogram_after_empty_page_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
