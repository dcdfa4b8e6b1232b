/* campaign_test: results do not depend on the number of threads, and runs are resumed. */
#include "sim/campaign.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/durable.h"
#include "base/str.h"
#include "sim/scenario.h"

struct fixture {
    struct scenario scenario;
    struct campaign_config config;
    char directory[32];
};

static void open_fixture(struct fixture *f)
{
    const struct scenario_words words = {
        .nodes = "2x4xH200:24g,1xT4", .trace = "bursty", .jobs = 80, .noise = 0.05, .seed = 3};
    struct error e = {0};
    memset(f, 0, sizeof *f);
    assert_int_equal(scenario_open(&e, &words, &f->scenario), 0);
    engine_config_default(&f->config.engine);
    f->config.engine.truth = f->scenario.truth;
    f->config.engine.hardware = &f->scenario.hardware;
    f->config.engine.outages_per_node_day = 20;
    f->config.trace = &f->scenario.trace;
    static const char *const names[] = {"exclusive", "firstfit", "random-tuner"};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(campaign_variant_parse(&e, names[i], &f->config.variants[i]), 0);
    f->config.variant_count = 3;
    f->config.rates[0] = 1;
    f->config.rates[1] = 4;
    f->config.rate_count = 2;
    f->config.seed = 3;
    f->config.seed_count = 2;
    f->config.thread_count = 1;
    (void)str_copy(f->directory, sizeof f->directory, "/tmp/campaign.XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    f->config.directory = f->directory;
}

static void close_fixture(struct fixture *f)
{
    assert_int_equal(durable_remove_tree(NULL, AT_FDCWD, f->directory), 0);
    scenario_done(&f->scenario);
}

static void run_all(struct fixture *f, struct str *ret_summary, size_t *ret_resumed)
{
    struct campaign *c;
    struct error e = {0};
    size_t count;
    *ret_resumed = 0;
    assert_int_equal(campaign_new(&e, &f->config, &c), 0);
    double begun = campaign_resumed(c);
    assert_true(campaign_progress(c) == begun);
    assert_int_equal(campaign_start(&e, c), 0);
    assert_int_equal(campaign_join(&e, c), 0);
    assert_false(campaign_is_running(c));
    assert_true(campaign_progress(c) == 1);
    const struct campaign_run *runs = campaign_runs(c, &count);
    assert_int_equal(count, 12);
    for (size_t i = 0; i < count; i++)
        *ret_resumed += runs[i].is_resumed;
    assert_true(begun == (double)*ret_resumed / (double)count);
    campaign_free(c);
    int fd = open(f->directory, O_RDONLY | O_DIRECTORY);
    assert_true(fd >= 0);
    str_clear(ret_summary);
    assert_int_equal(durable_read(&e, fd, "summary.csv", getuid(), ret_summary), 0);
    close(fd);
}

static void campaign_results_ignore_thread_count(void **state)
{
    (void)state;
    struct fixture one, four;
    struct str of_one, of_four;
    size_t resumed;
    str_init(&of_one, 1 << 20);
    str_init(&of_four, 1 << 20);
    open_fixture(&one);
    open_fixture(&four);
    four.config.thread_count = 4;
    run_all(&one, &of_one, &resumed);
    run_all(&four, &of_four, &resumed);
    assert_int_equal(resumed, 0);
    assert_string_equal(str_text(&of_one), str_text(&of_four));
    close_fixture(&one);
    close_fixture(&four);
    str_done(&of_one);
    str_done(&of_four);
}

static void campaign_resumes_only_matching_runs(void **state)
{
    (void)state;
    struct fixture f;
    struct str before, after;
    struct campaign *c;
    struct error e = {0};
    size_t resumed;
    str_init(&before, 1 << 20);
    str_init(&after, 1 << 20);
    open_fixture(&f);
    assert_int_equal(campaign_new(&e, &f.config, &c), 0);
    campaign_stop(c);
    assert_int_equal(campaign_start(&e, c), 0);
    assert_int_equal(campaign_join(&e, c), -ERR_UNAVAILABLE);
    campaign_free(c);
    run_all(&f, &before, &resumed);
    assert_int_equal(resumed, 0);
    run_all(&f, &after, &resumed);
    assert_int_equal(resumed, 12);
    assert_string_equal(str_text(&before), str_text(&after));
    /* Results of another configuration are computed again. */
    f.config.seed_count = 1;
    f.config.engine.start_s = 6;
    assert_int_equal(campaign_new(&e, &f.config, &c), 0);
    size_t count;
    assert_false(campaign_runs(c, &count)[0].is_resumed);
    campaign_free(c);
    close_fixture(&f);
    str_done(&before);
    str_done(&after);
}

static void variant_name_parses_policy_and_parts(void **state)
{
    (void)state;
    struct campaign_variant v;
    struct error e = {0};
    assert_int_equal(campaign_variant_parse(&e, "firstfit-gate-tuner", &v), 0);
    assert_true(v.options.without[POLICY_PART_GATE] && v.options.without[POLICY_PART_TUNER]);
    assert_false(v.options.without[POLICY_PART_MATCHING]);
    assert_int_equal(campaign_variant_parse(&e, "firstfit-wings", &v), -ERR_INVALID);
    assert_int_equal(campaign_variant_parse(&e, "lastfit", &v), -ERR_INVALID);
    assert_non_null(strstr(e.text, "firstfit"));
}

static void campaign_duplicate_run_name_is_refused(void **state)
{
    (void)state;
    struct fixture f;
    struct campaign *c;
    struct error e = {0};
    open_fixture(&f);
    f.config.rates[1] = 1.0001;
    assert_int_equal(campaign_new(&e, &f.config, &c), -ERR_INVALID);
    assert_non_null(strstr(e.text, "exclusive_load-"));
    f.config.rates[1] = 2;
    f.config.variants[2] = f.config.variants[1];
    assert_int_equal(campaign_new(&e, &f.config, &c), -ERR_INVALID);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(campaign_results_ignore_thread_count),
        cmocka_unit_test(campaign_resumes_only_matching_runs),
        cmocka_unit_test(campaign_duplicate_run_name_is_refused),
        cmocka_unit_test(variant_name_parses_policy_and_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
