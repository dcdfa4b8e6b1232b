#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/str.h"
#include "model/node.h"
#include "model/workload.h"

struct fixture {
    struct arena arena;
    struct workload_spec spec;
    struct error e;
    const char *words[8];
};

/* Makes a spec with a command and a directory only. */
static void begin(struct fixture *f, const char *const words[])
{
    *f = (struct fixture){0};
    arena_init(&f->arena, 1 << 20);
    workload_spec_init(&f->spec);
    size_t count = 0;
    while (words[count]) {
        f->words[count] = words[count];
        count++;
    }
    f->spec.command = (struct words){.count = count, .items = f->words};
    f->spec.directory = "/tmp";
}

#define BEGIN(f, ...) begin(f, (const char *const[]){__VA_ARGS__, NULL})

static void end(struct fixture *f)
{
    arena_done(&f->arena);
}

static int validate(struct fixture *f)
{
    return workload_spec_validate(&f->e, &f->arena, &f->spec);
}

#define REFUSES(fixture_, field_)                                                                  \
    do {                                                                                           \
        assert_int_equal(validate(fixture_), -ERR_INVALID);                                        \
        assert_string_equal((fixture_)->e.field, field_);                                          \
        assert_true((fixture_)->e.text[0]);                                                        \
    } while (0)

static void spec_validation_completes_defaults(void **state)
{
    (void)state;
    struct fixture f;
    BEGIN(&f, "/usr/bin/nvidia-smi", "-L");
    assert_int_equal(validate(&f), 0);
    assert_string_equal(f.spec.name, "nvidia-smi");
    assert_int_equal(f.spec.needs.devices, 1);
    assert_int_equal(f.spec.needs.grace_ms, 10000);
    assert_int_equal(f.spec.needs.share_min_percent, 0);
    assert_int_equal(f.spec.needs.share_max_percent, 100);
    end(&f);
}

static void spec_validation_keeps_given_values(void **state)
{
    (void)state;
    struct fixture f;
    BEGIN(&f, "true");
    f.spec.needs.devices = 0;
    f.spec.needs.grace_ms = 0;
    f.spec.needs.share_min_percent = 100;
    f.spec.name = "a.b_c-1";
    assert_int_equal(validate(&f), 0);
    assert_int_equal(f.spec.needs.devices, 0);
    assert_int_equal(f.spec.needs.grace_ms, 0);
    assert_int_equal(f.spec.needs.share_min_percent, 100);
    assert_string_equal(f.spec.name, "a.b_c-1");
    end(&f);
}

static void name_unset_is_derived_from_command(void **state)
{
    (void)state;
    static const struct {
        const char *words[4], *name;
    } cases[] = {
        {{"python", "train.py"}, "train.py"},
        {{"/usr/bin/python3.11", "-u", "src/train.py"}, "train.py"},
        {{"python3", "-m", "vllm.entrypoints"}, "vllm.entrypoints"},
        {{"bash", "./run.sh"}, "run.sh"},
        {{"sh", "-c", "sleep 5; echo done"}, "sleep"},
        {{"sh", "-c", "  exec python3 x/eval.py --all"}, "eval.py"},
        {{"sh", "-c", "python3 -c 'import sys'"}, "python3"},
        {{"sh", "-c", "for i in 1 2; do ./x; done"}, "sh"},
        {{"bash", "-ec", "! ./x/check now"}, "check"},
        {{"/bin/bash", "-e", "./run.sh"}, "run.sh"},
        {{"python3", "-c", "import sys; sys.exit(0)"}, "python3"},
        {{"perl", "-e", "print 1"}, "perl"},
        {{"sh", "-c", ""}, "sh"},
        {{"sh", "-c"}, "sh"},
        {{"sh"}, "sh"},
        {{"sh", "./my prog.sh"}, "my_prog.sh"},
        {{"./a b$c"}, "a_bc"},
        {{"./123"}, "task-123"},
        {{"./.-run.sh"}, "run.sh"},
        {{"./\xc3\xa4\xc3\xb6"}, "task"},
        {{"pythonic", "x"}, "pythonic"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture f;
        begin(&f, cases[i].words);
        assert_int_equal(validate(&f), 0);
        assert_string_equal(f.spec.name, cases[i].name);
        assert_true(workload_name_is_valid(f.spec.name));
        end(&f);
    }
}

static void workload_name_invalid_is_refused(void **state)
{
    (void)state;
    assert_true(workload_name_is_valid("a"));
    assert_true(workload_name_is_valid("sweep[12]"));
    assert_true(workload_name_is_valid("1a"));
    static const char *const bad[] = {"",     "12", "a b", "a/b",   "a[",  "a[]",      "[1]",
                                      "a[x]", "-a", ".a",  "a[1]b", "a:b", "\xc3\xa4", "a\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(workload_name_is_valid(bad[i]));
    char longest[WORKLOAD_NAME_MAX + 1];
    memset(longest, 'a', sizeof longest);
    longest[WORKLOAD_NAME_MAX] = '\0';
    assert_false(workload_name_is_valid(longest));
    longest[WORKLOAD_NAME_MAX - 1] = '\0';
    assert_true(workload_name_is_valid(longest));

    struct fixture f;
    BEGIN(&f, "true");
    f.spec.name = "12";
    REFUSES(&f, "name");
    f.spec.name = "a[1]"; /* only arrays create such names */
    REFUSES(&f, "name");
    f.spec.name = longest;
    assert_int_equal(validate(&f), 0);
    f.spec.array_count = 2;
    REFUSES(&f, "name");
    end(&f);
}

static void spec_value_out_of_range_fails(void **state)
{
    (void)state;
    struct fixture f;
#define SETTING_REFUSES(member, value, field)                                                      \
    do {                                                                                           \
        BEGIN(&f, "true");                                                                         \
        f.spec.member = value;                                                                     \
        REFUSES(&f, field);                                                                        \
        end(&f);                                                                                   \
    } while (0)
    SETTING_REFUSES(needs.devices, WORKLOAD_DEVICES_MAX + 1, "devices");
    SETTING_REFUSES(needs.devices, -2, "devices");
    SETTING_REFUSES(needs.quota_bytes, UINT64_MAX, "quota");
    SETTING_REFUSES(needs.share_max_percent, 101, "share.max");
    SETTING_REFUSES(needs.share_max_percent, -1, "share.max");
    SETTING_REFUSES(needs.swappable, true, "swappable"); /* without a quota */
    SETTING_REFUSES(needs.share_min_percent, -1, "share.min");
    SETTING_REFUSES(needs.share_min_percent, 101, "share.min");
    SETTING_REFUSES(needs.priority, WORKLOAD_PRIORITY_MAX + 1, "priority");
    SETTING_REFUSES(needs.priority, -WORKLOAD_PRIORITY_MAX - 1, "priority");
    SETTING_REFUSES(needs.retries, -1, "retries");
    SETTING_REFUSES(needs.retries, WORKLOAD_RETRIES_MAX + 1, "retries");
    SETTING_REFUSES(needs.grace_ms, -2, "grace");
    SETTING_REFUSES(needs.time_limit_ms, -1, "time_limit");
    SETTING_REFUSES(needs.time_limit_ms, WORKLOAD_TIME_MS_MAX + 1, "time_limit");
    SETTING_REFUSES(expected_duration_ms, INT64_MAX, "expected.duration");
    SETTING_REFUSES(expected_samples, -1, "expected.samples");
    SETTING_REFUSES(expected_samples, (double)INFINITY, "expected.samples");
    SETTING_REFUSES(expected_samples, (double)NAN, "expected.samples");
    SETTING_REFUSES(array_count, WORKLOAD_ARRAY_MAX + 1, "array");
    SETTING_REFUSES(array_count, -1, "array");
    SETTING_REFUSES(batch_reference, -1, "batch.reference");
    SETTING_REFUSES(batch_min, -1, "batch.min");
    SETTING_REFUSES(batch_max, -1, "batch.max");
    SETTING_REFUSES(batch_step, -1, "batch.step");
    SETTING_REFUSES(needs.kind, WORKLOAD_KIND_END, "kind");
    SETTING_REFUSES(needs.on_node_lost, ON_NODE_LOST_END, "on_node_lost");
#undef SETTING_REFUSES
}

static void spec_contradicting_limits_are_refused(void **state)
{
    (void)state;
    struct fixture f;
    BEGIN(&f, "true");
    f.spec.needs.share_min_percent = 60;
    f.spec.needs.share_max_percent = 50;
    REFUSES(&f, "share.min");
    f.spec.needs.share_max_percent = 60;
    f.spec.batch_min = 64;
    f.spec.batch_max = 32;
    REFUSES(&f, "batch.min");
    f.spec.batch_max = 128;
    f.spec.batch_reference = 256;
    REFUSES(&f, "batch.reference");
    f.spec.batch_reference = 64;
    assert_int_equal(validate(&f), 0);
    end(&f);
}

static void slo_and_ready_invalid_are_refused(void **state)
{
    (void)state;
    struct fixture f;
    BEGIN(&f, "true");
    f.spec.slo_percentile = 99;
    f.spec.slo_latency_ms = 50;
    REFUSES(&f, "slo");
    f.spec.needs.kind = WORKLOAD_SERVICE;
    assert_int_equal(validate(&f), 0);
    f.spec.slo_percentile = 100;
    REFUSES(&f, "slo.percentile");
    f.spec.slo_percentile = (double)NAN;
    REFUSES(&f, "slo.percentile");
    f.spec.slo_percentile = 50;
    f.spec.slo_latency_ms = 0;
    REFUSES(&f, "slo.latency");
    f.spec.slo_latency_ms = 1;
    f.spec.ready = READY_PORT;
    REFUSES(&f, "ready.port");
    f.spec.ready_port = 65535;
    assert_int_equal(validate(&f), 0);
    f.spec.ready = READY_COMMAND;
    REFUSES(&f, "ready.command");
    f.spec.ready = READY_CLIENT;
    assert_int_equal(validate(&f), 0);
    f.spec.slo_percentile = f.spec.slo_latency_ms = 0;
    f.spec.needs.kind = WORKLOAD_TASK;
    REFUSES(&f, "ready");
    end(&f);
}

static void spec_invalid_text_is_refused(void **state)
{
    (void)state;
    struct fixture f;
    BEGIN(&f, "true", "a\xff");
    REFUSES(&f, "command[1]");
    f.words[0] = "";
    REFUSES(&f, "command");
    f.spec.command.count = 0;
    REFUSES(&f, "command");
    end(&f);

    BEGIN(&f, "true");
    f.spec.directory = NULL;
    REFUSES(&f, "directory");
    f.spec.directory = "relative";
    REFUSES(&f, "directory");
    f.spec.directory = "/\xff";
    REFUSES(&f, "directory");
    f.spec.directory = "/";
    f.spec.user = "";
    REFUSES(&f, "user");
    f.spec.user = "a:b";
    REFUSES(&f, "user");
    f.spec.user = NULL;
    char *word = malloc(WORKLOAD_WORD_MAX + 1);
    assert_non_null(word);
    memset(word, 'x', WORKLOAD_WORD_MAX);
    word[WORKLOAD_WORD_MAX] = '\0';
    f.spec.resume = (struct words){.count = 1, .items = (const char *[]){word, NULL}};
    REFUSES(&f, "resume[0]");
    word[WORKLOAD_WORD_MAX - 1] = '\0';
    assert_int_equal(validate(&f), 0);
    free(word);
    end(&f);
}

/* Larger specs that are already stored stay valid. */
static void new_spec_beyond_execve_limit_fails(void **state)
{
    (void)state;
    enum { COUNT = 20, BYTES = WORKLOAD_START_MAX / COUNT };
    struct fixture f;
    BEGIN(&f, "true");
    char *text = malloc(BYTES);
    assert_non_null(text);
    memset(text, 'x', BYTES - 1);
    text[BYTES - 1] = '\0';
    struct pair pairs[COUNT];
    const char *words[COUNT + 1] = {NULL};
    for (size_t i = 0; i < COUNT; i++) {
        pairs[i] = (struct pair){"K", text};
        words[i] = text;
    }
    f.spec.environment = (struct pairs){.count = COUNT, .items = pairs};
    assert_int_equal(validate(&f), 0);
    assert_int_equal(workload_spec_check_new(&f.e, &f.spec), -ERR_INVALID);
    assert_string_equal(f.e.field, "environment");
    f.spec.environment.count = COUNT - 1;
    assert_int_equal(workload_spec_check_new(&f.e, &f.spec), 0);
    f.spec.environment.count = COUNT / 2 - 1;
    f.spec.resume = (struct words){.count = COUNT / 2 + 1, .items = words};
    assert_int_equal(workload_spec_check_new(&f.e, &f.spec), -ERR_INVALID);
    assert_string_equal(f.e.field, "resume");
    free(text);
    end(&f);
}

/* A spec without a device cannot ask for a quota or a share. Specs that are already stored stay
 * valid. */
static void new_spec_without_device_refuses_limits(void **state)
{
    (void)state;
    struct fixture f;
    BEGIN(&f, "true");
    f.spec.needs.devices = 0;
    assert_int_equal(validate(&f), 0);
    assert_int_equal(workload_spec_check_new(&f.e, &f.spec), 0);
    f.spec.needs.quota_bytes = UINT64_C(8) << 30;
    assert_int_equal(validate(&f), 0);
    assert_int_equal(workload_spec_check_new(&f.e, &f.spec), -ERR_INVALID);
    assert_string_equal(f.e.field, "devices");
    assert_non_null(strstr(f.e.text, "0 with a quota"));
    f.spec.needs.quota_bytes = 0;
    f.spec.needs.share_max_percent = 50;
    assert_int_equal(workload_spec_check_new(&f.e, &f.spec), -ERR_INVALID);
    assert_non_null(strstr(f.e.text, "0 with a share"));
    f.spec.needs.share_max_percent = 100;
    f.spec.needs.share_min_percent = 20;
    assert_int_equal(workload_spec_check_new(&f.e, &f.spec), -ERR_INVALID);
    end(&f);
}

static void environment_and_labels_invalid_are_refused(void **state)
{
    (void)state;
    struct fixture f;
    BEGIN(&f, "true");
    struct pair pair = {"", "x"};
    struct pairs one = {.count = 1, .items = &pair};
    f.spec.environment = one;
    REFUSES(&f, "environment");
    pair.key = "A=B";
    REFUSES(&f, "environment");
    pair = (struct pair){"A", "\xff"};
    REFUSES(&f, "environment.A");
    f.spec.environment.count = 0;
    f.spec.labels = one;
    REFUSES(&f, "labels.A");
    pair = (struct pair){"", ""};
    REFUSES(&f, "labels");
    f.spec.labels.count = 0;
    f.spec.node_labels = one;
    REFUSES(&f, "node_labels");
    pair.key = "rack";
    assert_int_equal(validate(&f), 0);
    end(&f);
}

static void dependency_not_name_or_id_fails(void **state)
{
    (void)state;
    struct fixture f;
    BEGIN(&f, "true");
    struct after after[] = {{"prepare", true}, {"17", false}, {"sweep[3]", true}, {"x", true}};
    f.spec.after = after;
    f.spec.after_count = 4;
    assert_int_equal(validate(&f), 0);
    after[3].name = "no such";
    REFUSES(&f, "after[3]");
    after[3].name = "99999999999999999999";
    REFUSES(&f, "after[3]");
    f.spec.after_count = WORKLOAD_AFTER_MAX + 1;
    REFUSES(&f, "after");
    end(&f);
}

static void pairs_stay_sorted_and_unique(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, 1 << 16);
    struct pairs pairs = {0};
    assert_null(pairs_get(&pairs, "a"));
    assert_int_equal(pairs_set(&arena, &pairs, "b", "1"), 0);
    assert_int_equal(pairs_set(&arena, &pairs, "a", "2"), 0);
    assert_int_equal(pairs_set(&arena, &pairs, "c", "3"), 0);
    assert_int_equal(pairs_set(&arena, &pairs, "b", "4"), 0);
    assert_int_equal(pairs.count, 3);
    assert_string_equal(pairs.items[0].key, "a");
    assert_string_equal(pairs_get(&pairs, "b"), "4");
    assert_string_equal(pairs_get(&pairs, "c"), "3");
    assert_null(pairs_get(&pairs, "d"));

    struct pair wanted[] = {{"a", "2"}, {"c", "3"}};
    assert_true(pairs_contain(&pairs, &(struct pairs){2, wanted}));
    wanted[1].value = "4";
    assert_false(pairs_contain(&pairs, &(struct pairs){2, wanted}));
    assert_true(pairs_contain(&pairs, &(struct pairs){0}));

    struct pair unsorted[] = {{"z", "1"}, {"y", "2"}, {"z", "3"}};
    struct error e;
    assert_int_equal(pairs_sort(&e, &(struct pairs){3, unsorted}), -ERR_INVALID);
    assert_string_equal(e.field, "z");
    assert_int_equal(pairs_sort(&e, &(struct pairs){2, unsorted}), 0);
    assert_string_equal(unsorted[0].key, "y");
    arena_done(&arena);
}

static void enum_names_parse_back_equal(void **state)
{
    (void)state;
#define READS_BACK(type, prefix, end_)                                                             \
    for (enum type v = 0; v < (end_); v++) {                                                       \
        enum type read = (end_);                                                                   \
        assert_int_equal(prefix##_parse(prefix##_name(v), &read), 0);                              \
        assert_int_equal(read, v);                                                                 \
        assert_int_equal(prefix##_parse("no such", &read), -ERR_INVALID);                          \
        assert_int_equal(read, v);                                                                 \
    }                                                                                              \
    assert_string_equal(prefix##_name(end_), "?")
    READS_BACK(workload_kind, workload_kind, WORKLOAD_KIND_END);
    READS_BACK(workload_state, workload_state, WORKLOAD_STATE_END);
    READS_BACK(failure_reason, failure_reason, FAILURE_END);
    READS_BACK(on_node_lost, on_node_lost, ON_NODE_LOST_END);
    READS_BACK(ready_kind, ready_kind, READY_END);
    READS_BACK(stop_cause, stop_cause, STOP_CAUSE_END);
    READS_BACK(hold, hold, HOLD_END);
    READS_BACK(suspension, suspension, SUSPENSION_END);
    READS_BACK(attempt_phase, attempt_phase, ATTEMPT_PHASE_END);
#undef READS_BACK
    assert_true(workload_state_is_terminal(WORKLOAD_CANCELLED));
    assert_false(workload_state_is_terminal(WORKLOAD_SUSPENDED));
    assert_false(workload_state_is_terminal(WORKLOAD_SUSPENDING));
    assert_false(workload_state_is_terminal(WORKLOAD_RESUMING));
}

static void newest_attempt_is_last_kept(void **state)
{
    (void)state;
    struct attempt attempts[] = {{.number = 1}, {.number = 2}};
    struct workload_status status = {0};
    assert_null(workload_status_attempt(&status));
    status.attempts = attempts;
    status.attempts_kept = 2;
    assert_int_equal(workload_status_attempt(&status)->number, 2);
}

static void ran_before_ignores_unstarted_attempts(void **state)
{
    (void)state;
    struct attempt attempts[3] = {{.number = 1}, {.number = 2}, {.number = 3}};
    struct workload_status status = {.attempts = attempts};
    assert_false(workload_status_ran_before(&status));
    status.attempts_kept = status.attempts_total = 1;
    attempts[0].started_wall_ms = 1;
    assert_false(workload_status_ran_before(&status)); /* the newest attempt does not count */
    status.attempts_kept = status.attempts_total = 3;
    assert_true(workload_status_ran_before(&status));
    attempts[0].failure = FAILURE_START;
    assert_false(workload_status_ran_before(&status));
    attempts[1].lost = true;
    assert_true(workload_status_ran_before(&status));
    attempts[1].lost = false;
    status.attempts_total = 4;
    assert_false(workload_status_ran_before(&status));
    status.started_wall_ms = 1;
    assert_true(workload_status_ran_before(&status));
}

static void arena_exhausted_returns_no_memory(void **state)
{
    (void)state;
    struct fixture f;
    BEGIN(&f, "true");
    f.arena.limit_bytes = 0;
    assert_int_equal(validate(&f), -ERR_NO_MEMORY);
    struct pairs pairs = {0};
    assert_int_equal(pairs_set(&f.arena, &pairs, "a", "b"), -ERR_NO_MEMORY);
    assert_int_equal(pairs.count, 0);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spec_validation_completes_defaults),
        cmocka_unit_test(spec_validation_keeps_given_values),
        cmocka_unit_test(name_unset_is_derived_from_command),
        cmocka_unit_test(workload_name_invalid_is_refused),
        cmocka_unit_test(spec_value_out_of_range_fails),
        cmocka_unit_test(spec_contradicting_limits_are_refused),
        cmocka_unit_test(slo_and_ready_invalid_are_refused),
        cmocka_unit_test(spec_invalid_text_is_refused),
        cmocka_unit_test(new_spec_beyond_execve_limit_fails),
        cmocka_unit_test(new_spec_without_device_refuses_limits),
        cmocka_unit_test(environment_and_labels_invalid_are_refused),
        cmocka_unit_test(dependency_not_name_or_id_fails),
        cmocka_unit_test(pairs_stay_sorted_and_unique),
        cmocka_unit_test(enum_names_parse_back_equal),
        cmocka_unit_test(newest_attempt_is_last_kept),
        cmocka_unit_test(ran_before_ignores_unstarted_attempts),
        cmocka_unit_test(arena_exhausted_returns_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
