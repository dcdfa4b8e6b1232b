#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/str.h"
#include "wire/config.h"

struct fixture {
    struct arena arena;
    struct error e;
    struct config config;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    if (!f)
        return -1;
    arena_init(&f->arena, 16 << 20);
    *state = f;
    return config_default(&f->arena, &f->config);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    arena_done(&f->arena);
    free(f);
    return 0;
}

static int parse(struct fixture *f, const char *text)
{
    f->e = (struct error){0};
    return config_parse(&f->e, &f->arena, text, strlen(text), &f->config);
}

static void refuses(struct fixture *f, const char *text, int code, const char *field,
                    const char *part)
{
    struct config before = f->config;
    int r = parse(f, text);
    if (r != -code || strcmp(f->e.field, field) != 0 || !strstr(f->e.text, part))
        fail_msg("answered %d, '%s', '%s' instead of %d, '%s', '…%s…' to: %s", r, f->e.field,
                 f->e.text, -code, field, part, text);
    assert_memory_equal(&before, &f->config, sizeof before);
}

static void config_defaults_have_expected_values(void **state)
{
    struct fixture *f = *state;
    assert_string_equal(f->config.policy, "gpumux");
    assert_int_equal(f->config.max_neighbours, 4);
    assert_int_equal(f->config.attempts_max, 1024);
    assert_int_equal(f->config.cpu_tasks_max, 0);
    assert_int_equal(f->config.lease_ms, 60000);
    assert_int_equal(f->config.keep_finished_ms, INT64_C(30) * 86400000);
    assert_int_equal(f->config.keep_logs_total_bytes, INT64_C(10) << 30);
    assert_int_equal(f->config.log_file_bytes, 64 << 20);
    assert_false(f->config.allow_root);
    assert_string_equal(f->config.node_name, "");
    assert_int_equal(f->config.node_labels.count, 0);
}

static void config_parse_sets_only_named_keys(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(parse(f, "version: 1\n"
                              "policy: exclusive\n"
                              "max_neighbours: 8\n"
                              "lease: 2m\n"
                              "fence: 0\n"
                              "keep_logs_bytes: 1.5g\n"
                              "log_file_bytes: 65536\n"
                              "allow_root: true\n"
                              "node_name: 17\n"
                              "node_labels: {rack: a, zone: 1}\n"
                              "log_level: debug\n"),
                     0);
    assert_string_equal(f->config.policy, "exclusive");
    assert_int_equal(f->config.max_neighbours, 8);
    assert_int_equal(f->config.lease_ms, 120000);
    assert_int_equal(f->config.fence_ms, 0);
    assert_int_equal(f->config.keep_logs_total_bytes, INT64_C(3) << 29);
    assert_int_equal(f->config.log_file_bytes, 65536);
    assert_true(f->config.allow_root);
    assert_string_equal(f->config.node_name, "17");
    assert_string_equal(pairs_get(&f->config.node_labels, "zone"), "1");
    assert_int_equal(f->config.drain_ms, 30000);
    assert_int_equal(parse(f, ""), 0);
    assert_int_equal(parse(f, "# nothing\n---\n"), 0);
    assert_string_equal(f->config.policy, "exclusive");
}

/* Labels are few; users and groups with an allowance may be many. */
static void config_maps_have_separate_bounds(void **state)
{
    struct fixture *f = *state;
    struct str labels, allowances;
    str_init(&labels, 1 << 16);
    str_init(&allowances, 1 << 16);
    str_append(&labels, "node_labels:\n");
    str_append(&allowances, "allowances:\n");
    for (int i = 0; i <= WORKLOAD_LABELS_MAX; i++) {
        str_printf(&labels, "  l%d: x\n", i);
        str_printf(&allowances, "  u%d: 1\n", i);
    }
    assert_int_equal(parse(f, str_text(&labels)), -ERR_INVALID);
    assert_string_equal(f->e.field, "node_labels");
    assert_non_null(strstr(f->e.text, "more than 64 names"));
    assert_int_equal(parse(f, str_text(&allowances)), 0);
    assert_int_equal(f->config.allowances.count, WORKLOAD_LABELS_MAX + 1);
    str_done(&labels);
    str_done(&allowances);
}

static void config_errors_name_key_and_line(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text;
        int code;
        const char *field, *part;
    } cases[] = {
        {"policy: x\nleese: 5s\n", ERR_INVALID, "leese",
         "line 2: unknown key 'leese', did you mean 'lease'?"},
        {"zzzzzzzzzz: 1\n", ERR_INVALID, "zzzzzzzzzz", "unknown key"},
        {"version: 2\n", ERR_INVALID, "version", "line 1: unknown version"},
        {"version: '1'\n", ERR_INVALID, "version", "unknown version"},
        {"max_neighbours: 0\n", ERR_INVALID, "max_neighbours", "line 1: 0 is not between 1 and 64"},
        {"max_neighbours: 65\n", ERR_INVALID, "max_neighbours", "not between"},
        {"attempts_max: 3\n", ERR_INVALID, "attempts_max", "3 is not between 4 and 4096"},
        {"attempts_max: 4097\n", ERR_INVALID, "attempts_max", "4097 is not between 4 and 4096"},
        {"cpu_tasks_max: -1\n", ERR_INVALID, "cpu_tasks_max", "-1 is not between 0 and 4096"},
        {"cpu_tasks_max: 4097\n", ERR_INVALID, "cpu_tasks_max", "4097 is not between 0 and 4096"},
        {"max_neighbours: -1\n", ERR_INVALID, "max_neighbours", "not between"},
        {"max_neighbours: 1.5\n", ERR_INVALID, "max_neighbours", "not a whole number"},
        {"max_neighbours: many\n", ERR_INVALID, "max_neighbours", "a whole number"},
        {"max_neighbours: '4'\n", ERR_INVALID, "max_neighbours", "a whole number"},
        {"max_neighbours: true\n", ERR_INVALID, "max_neighbours", "a whole number"},
        {"max_neighbours: .nan\n", ERR_INVALID, "max_neighbours", "not a whole number"},
        {"max_neighbours:\n", ERR_INVALID, "max_neighbours", "a whole number"},
        {"max_neighbours: [4]\n", ERR_INVALID, "max_neighbours", "a whole number"},
        {"queue_max: 99999999999999999999\n", ERR_INVALID, "queue_max", "64 bits"},
        {"lease: 1ms\n", ERR_INVALID, "lease", "not between 100ms and 1h"},
        {"lease: -5s\n", ERR_INVALID, "lease", "not a time"},
        {"lease: 2x\n", ERR_INVALID, "lease", "not a time"},
        {"lease: {}\n", ERR_INVALID, "lease", "a time"},
        {"log_file_bytes: 1k\n", ERR_INVALID, "log_file_bytes", "not between 4k and 64g"},
        {"log_file_bytes: big\n", ERR_INVALID, "log_file_bytes", "not a size"},
        {"keep_logs_bytes: 9223372036854775808\n", ERR_INVALID, "keep_logs_bytes", "too large"},
        {"allow_root: 1\n", ERR_INVALID, "allow_root", "true or false"},
        {"allow_root: yes\n", ERR_INVALID, "allow_root", "true or false"},
        {"policy: [a]\n", ERR_INVALID, "policy", "a string"},
        {"policy:\n", ERR_INVALID, "policy", "a string"},
        {"log_level: loud\n", ERR_INVALID, "log_level", "must be error"},
        {"log_format: xml\n", ERR_INVALID, "log_format", "must be text"},
        {"node_labels: a\n", ERR_INVALID, "node_labels", "a map"},
        {"node_labels: {a: }\n", ERR_INVALID, "node_labels.a", "a string"},
        {"node_labels: {'': x}\n", ERR_INVALID, "node_labels", "empty"},
        {"backoff_min: 2m\nbackoff_max: 1m\n", ERR_INVALID, "backoff_min", "more than"},
        {"monitor_memory_soft: 98\n", ERR_INVALID, "monitor_memory_soft",
         "more than monitor_memory_hard"},
        {"monitor_latency_hard: 80\n", ERR_INVALID, "monitor_latency_soft", "more than"},
        {"monitor_hold_min: 1h\n", ERR_INVALID, "monitor_hold_min", "more than monitor_hold_max"},
        {"node_name: gpu 1\n", ERR_INVALID, "node_name", "letters, digits"},
        {"beat: 1s\nlease: 1s\n", ERR_INVALID, "beat", "must be shorter"},
        {"- a\n", ERR_INVALID, "", "a map"},
        {"text\n", ERR_INVALID, "", "a map"},
        {"lease: 5s\nlease: 6s\n", ERR_SYNTAX, "lease", "line 2"},
        {"lease: &a 5s\nfence: *a\n", ERR_SYNTAX, "", "anchors"},
        {"lease: !!str 5s\n", ERR_SYNTAX, "", "tags"},
        {"lease: [\n", ERR_SYNTAX, "", "line"},
        {"lease: [[[[[[1]]]]]]\n", ERR_SYNTAX, "", "nested deeper"},
        {"lease: 5s\n---\nlease: 6s\n", ERR_SYNTAX, "", "one document"},
        {"policy: \xff\n", ERR_SYNTAX, "", "UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refuses(f, cases[i].text, cases[i].code, cases[i].field, cases[i].part);
    assert_int_equal(config_parse(&f->e, &f->arena, "a: \0", 4, &f->config), -ERR_SYNTAX);
    char *large = calloc(1, (1 << 20) + 2);
    assert_non_null(large);
    memset(large, ' ', (1 << 20) + 1);
    refuses(f, large, ERR_TOO_LARGE, "", "larger");
    free(large);
}

static void config_flag_sets_one_key(void **state)
{
    struct fixture *f = *state;
    struct config *c = &f->config;
    assert_int_equal(config_set(&f->e, &f->arena, c, "lease", "90"), 0);
    assert_int_equal(c->lease_ms, 90000);
    assert_int_equal(config_set(&f->e, &f->arena, c, "node_name", ""), 0);
    assert_int_equal(config_set(&f->e, &f->arena, c, "node_labels", "a=1"), 0);
    assert_int_equal(config_set(&f->e, &f->arena, c, "node_labels", "b=2=3"), 0);
    assert_string_equal(pairs_get(&c->node_labels, "a"), "1");
    assert_string_equal(pairs_get(&c->node_labels, "b"), "2=3");
    assert_int_equal(config_set(&f->e, &f->arena, c, "allow_root", "true"), 0);
    assert_true(c->allow_root);
    assert_int_equal(config_set(&f->e, &f->arena, c, "lese", "9"), -ERR_INVALID);
    assert_string_equal(f->e.text, "unknown key 'lese', did you mean 'lease'?");
    assert_int_equal(config_set(&f->e, &f->arena, c, "lease", ""), -ERR_INVALID);
    assert_int_equal(config_set(&f->e, &f->arena, c, "node_labels", "a"), -ERR_INVALID);
    assert_int_equal(config_set(&f->e, &f->arena, c, "policy", "\xff"), -ERR_INVALID);
    assert_int_equal(c->lease_ms, 90000);
    /* The order of keys does not matter: only the final values must agree. */
    assert_int_equal(config_set(&f->e, &f->arena, c, "monitor_memory_hard", "60"), 0);
    assert_int_equal(config_check(&f->e, c), -ERR_INVALID);
    assert_int_equal(config_set(&f->e, &f->arena, c, "monitor_memory_soft", "60"), 0);
    assert_int_equal(config_check(&f->e, c), 0);
}

static void config_written_reads_back_equal(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(config_set(&f->e, &f->arena, &f->config, "log_file_bytes", "4097"), 0);
    assert_int_equal(config_set(&f->e, &f->arena, &f->config, "lease", "61.001s"), 0);
    assert_int_equal(config_set(&f->e, &f->arena, &f->config, "admin_group",
                                "a\"\\\n\x01\xc2\x85\xef\xbf\xbf\xf0\x9f\x90\x98 #: "),
                     0);
    assert_int_equal(config_set(&f->e, &f->arena, &f->config, "node_labels", "\x01 k=: v"), 0);
    struct str text, again;
    str_init(&text, 1 << 16);
    str_init(&again, 1 << 16);
    assert_int_equal(config_write(&f->config, &text), 0);
    struct config before = f->config;
    assert_int_equal(config_default(&f->arena, &f->config), 0);
    if (parse(f, str_text(&text)) < 0)
        fail_msg("%s: %s", f->e.field, f->e.text);
    assert_int_equal(f->config.log_file_bytes, 4097);
    assert_int_equal(f->config.lease_ms, 61001);
    assert_string_equal(f->config.admin_group, before.admin_group);
    assert_true(pairs_contain(&f->config.node_labels, &before.node_labels));
    assert_int_equal(config_write(&f->config, &again), 0);
    assert_string_equal(str_text(&text), str_text(&again));
    assert_non_null(strstr(str_text(&text),
                           "\n# interval between two reports of a node to control (10ms to 1m)\n"
                           "beat: 1s\n"));
    str_done(&text);
    str_done(&again);
}

static void config_file_loads_or_reports_cause(void **state)
{
    struct fixture *f = *state;
    char path[] = "/tmp/gpumux-config-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "lease: 5s\n", 10), 10);
    assert_int_equal(config_load(&f->e, &f->arena, path, &f->config), 0);
    assert_int_equal(f->config.lease_ms, 5000);
    assert_int_equal(write(fd, "x: 1\n", 5), 5);
    assert_int_equal(config_load(&f->e, &f->arena, path, &f->config), -ERR_INVALID);
    assert_string_equal(f->e.field, "x");
    assert_non_null(strstr(f->e.text, path));
    assert_non_null(strstr(f->e.text, "line 2"));
    close(fd);
    unlink(path);
    assert_int_equal(config_load(&f->e, &f->arena, path, &f->config), -ERR_NOT_FOUND);
    assert_int_equal(config_load(&f->e, &f->arena, "/", &f->config), -ERR_IO);
    assert_int_equal(config_load(&f->e, &f->arena, "/dev/zero", &f->config), -ERR_TOO_LARGE);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(config_defaults_have_expected_values),
        TEST(config_parse_sets_only_named_keys),
        TEST(config_maps_have_separate_bounds),
        TEST(config_errors_name_key_and_line),
        TEST(config_flag_sets_one_key),
        TEST(config_written_reads_back_equal),
        TEST(config_file_loads_or_reports_cause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
