/* load_picture_test: the picture of a run is well-formed for any results, and shows them. */
#include "cli/load/load_picture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "cli/load/load_report.h"
#include "report/markup_fixture.h"

enum { PICTURE_MAX = 8 << 20 };
static const int64_t ms = 1000000, second = 1000000000;

static void init(struct load_plan *p)
{
    *p = (struct load_plan){.url = "http://<host>/?a&b", .arrivals_text = "poisson"};
    p->arrivals.end_s = 10;
    assert_int_equal(tally_init(NULL, 0, &p->tally), 0);
}

static void request(struct load_plan *p, int64_t due_ns, int64_t latency_ns)
{
    tally_due(&p->tally, due_ns, due_ns);
    tally_sent(&p->tally, due_ns, due_ns);
    tally_answered(&p->tally, due_ns, due_ns + latency_ns, 200, 1);
}

/* Draws the picture and writes the JSON; fails if the picture is malformed or lacks `text`. */
static void check_picture(struct load_plan *p, const char *text)
{
    struct str out;
    char why[256];
    str_init(&out, PICTURE_MAX);
    load_draw_picture(p, &out);
    assert_false(str_failed(&out));
    if (!markup_is_well_formed(str_text(&out), why, sizeof why))
        fail_msg("%s", why);
    if (!strstr(str_text(&out), text))
        fail_msg("the picture lacks '%s'", text);
    assert_null(strstr(str_text(&out), "nan"));
    assert_null(strstr(str_text(&out), "inf"));
    str_done(&out);
    load_plan_done(p);
}

static void empty_run_gives_a_picture(void **state)
{
    (void)state;
    struct load_plan p;
    init(&p);
    check_picture(&p, "0 requests due");
}

static void single_request_gives_a_picture(void **state)
{
    (void)state;
    struct load_plan p;
    init(&p);
    request(&p, 0, 12 * ms);
    check_picture(&p, "12.00 ms");
}

static void failed_run_gives_a_picture(void **state)
{
    (void)state;
    struct load_plan p;
    init(&p);
    for (int i = 0; i < 100; i++) {
        tally_due(&p.tally, i * ms, i * ms);
        tally_failed(&p.tally, i * ms, i * ms, TALLY_CONNECT, 0);
    }
    check_picture(&p, "100 failed");
}

/* From microseconds to minutes, with gaps in time and a target. */
static void wide_run_gives_a_log_picture(void **state)
{
    (void)state;
    struct load_plan p;
    struct rng rng;
    init(&p);
    rng_seed(&rng, 1);
    p.config.is_stream = true;
    assert_int_equal(tally_parse_slos(NULL, "p99<=20ms", p.tally.slos, &p.tally.slo_count), 0);
    for (int i = 0; i < 4000; i++) {
        int64_t due_ns = i * (second / 100) + (i > 2000 ? 20 * second : 0);
        request(&p, due_ns, (int64_t)(rng_below(&rng, 100) == 0 ? 60 * second : 5000 + i));
        tally_chunk(&p.tally, due_ns, -1, due_ns + 3000);
    }
    check_picture(&p, "p99 within 20.00 ms");
}

static void times_have_a_fitting_unit(void **state)
{
    (void)state;
    char text[LOAD_TIME_TEXT_MAX];
    assert_string_equal(load_time_text(0, text), "0 us");
    assert_string_equal(load_time_text(999499, text), "999 us");
    assert_string_equal(load_time_text(999500, text), "1.00 ms");
    assert_string_equal(load_time_text(20 * ms, text), "20.00 ms");
    assert_string_equal(load_time_text(second, text), "1.00 s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_run_gives_a_picture),
        cmocka_unit_test(single_request_gives_a_picture),
        cmocka_unit_test(failed_run_gives_a_picture),
        cmocka_unit_test(wide_run_gives_a_log_picture),
        cmocka_unit_test(times_have_a_fitting_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
