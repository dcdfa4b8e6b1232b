#include "cli/submit/draft.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/command_options.h"

static const struct option options[] = {SPEC_OPTIONS, OPTIONS_END};
static const struct command command = {
    .name = "submit", .operands = "", .options = options, .operands_most = COMMAND_OPERANDS_ANY};

enum { WORDS_MAX = 32 };

struct made {
    struct arena arena;
    struct invocation in;
    struct draft draft;
    struct error e;
    int result;
    char *words[WORDS_MAX + 1];
};

static void make(struct made *m, const char *file, const char *const *words)
{
    *m = (struct made){0};
    arena_init(&m->arena, 1 << 20);
    int count = 0;
    for (; words[count]; count++)
        m->words[count] = arena_strdup(&m->arena, words[count]);
    assert_int_equal(options_parse(&m->e, &m->arena, &command, count, m->words, &m->in), 0);
    m->result = draft_make(&m->e, &m->arena, &m->in, file, file ? strlen(file) : 0, &m->draft);
}

#define MAKE(m, file, ...) make(m, file, (const char *const[]){__VA_ARGS__, NULL})

static void flags_describe_workload(void **state)
{
    (void)state;
    struct made m;
    MAKE(&m, NULL, "--quota=8g", "-n", "train", "--share-max", "50", "--slo", "99:50ms", "-k",
         "service", "-e", "A=1", "-e", "B=x=y", "-l", "team=vision", "--after", "17:ended",
         "--after", "prepare", "--ready", "port:8000", "--", "python", "train.py", "--quota");
    if (m.result < 0)
        fail_msg("%s: %s", m.e.field, m.e.text);
    const struct workload_spec *s = m.draft.specs;
    assert_int_equal(s->needs.quota_bytes, UINT64_C(8) << 30);
    assert_int_equal(s->needs.share_max_percent, 50);
    assert_int_equal(s->needs.kind, WORKLOAD_SERVICE);
    assert_string_equal(s->name, "train");
    assert_true(s->slo_percentile > 98.9 && s->slo_latency_ms > 49.9);
    assert_string_equal(pairs_get(&s->environment, "A"), "1");
    assert_string_equal(pairs_get(&s->environment, "B"), "x=y");
    assert_string_equal(pairs_get(&s->labels, "team"), "vision");
    assert_int_equal(s->after_count, 2);
    assert_string_equal(s->after[0].name, "17");
    assert_false(s->after[0].succeeded);
    assert_true(s->after[1].succeeded);
    assert_int_equal(s->ready_port, 8000);
    assert_int_equal(s->command.count, 3);
    assert_string_equal(s->command.items[2], "--quota");
    char here[4096];
    assert_non_null(getcwd(here, sizeof here));
    assert_string_equal(s->directory, here);
    arena_done(&m.arena);
}

static void flags_override_file_of_one_workload(void **state)
{
    (void)state;
    struct made m;
    MAKE(&m, "name: a\nquota: 2g\ncommand: [x]\ndirectory: /tmp\n", "--quota", "4g");
    assert_int_equal(m.result, 0);
    assert_int_equal(m.draft.specs[0].needs.quota_bytes, UINT64_C(4) << 30);
    assert_string_equal(m.draft.specs[0].name, "a");
    assert_string_equal(m.draft.specs[0].directory, "/tmp");
    arena_done(&m.arena);

    static const char two[] = "workloads: [{command: [x]}, {command: [y]}]";
    MAKE(&m, two, "--export", "none");
    assert_int_equal(m.result, 0);
    assert_int_equal(m.draft.count, 2);
    struct str out;
    str_init(&out, 1 << 20);
    assert_int_equal(draft_write(&m.e, &m.draft, &out), 0);
    assert_non_null(strstr(str_text(&out), "\"workloads\": ["));
    str_done(&out);
    arena_done(&m.arena);
    MAKE(&m, two, "--quota", "4g");
    assert_int_equal(m.result, -ERR_INVALID);
    assert_non_null(strstr(m.e.text, "--quota applies to one workload"));
    arena_done(&m.arena);
    MAKE(&m, two, "--", "z");
    assert_int_equal(m.result, -ERR_INVALID);
    arena_done(&m.arena);
}

static void draft_exports_chosen_environment(void **state)
{
    (void)state;
    struct made m;
    setenv("DRAFT_TEST", "here", 1);
    setenv("GPUMUX_WORKLOAD", "7", 1);
    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    setenv("BROKEN", "\xff", 1);
    setenv("HOME", "/nowhere", 1);
    MAKE(&m, NULL, "--", "x");
    const struct pairs *all = &m.draft.specs[0].environment;
    assert_string_equal(pairs_get(all, "DRAFT_TEST"), "here");
    assert_null(pairs_get(all, "GPUMUX_WORKLOAD"));
    assert_null(pairs_get(all, "CUDA_VISIBLE_DEVICES"));
    assert_null(pairs_get(all, "BROKEN"));
    arena_done(&m.arena);
    MAKE(&m, NULL, "--export", "none", "--", "x");
    assert_null(pairs_get(&m.draft.specs[0].environment, "DRAFT_TEST"));
    assert_string_equal(pairs_get(&m.draft.specs[0].environment, "HOME"), "/nowhere");
    arena_done(&m.arena);
    MAKE(&m, NULL, "--export=X,DRAFT_TEST", "--env=HOME=/there", "--", "x");
    assert_string_equal(pairs_get(&m.draft.specs[0].environment, "DRAFT_TEST"), "here");
    assert_string_equal(pairs_get(&m.draft.specs[0].environment, "HOME"), "/there");
    arena_done(&m.arena);
    MAKE(&m, NULL, "--export=X,DRAFT_TEST=1", "--", "x");
    assert_int_equal(m.result, -ERR_INVALID);
    assert_non_null(strstr(m.e.text, "'DRAFT_TEST=1' is not the name of a variable"));
    arena_done(&m.arena);
    MAKE(&m, NULL, "--export=X,,Y", "--", "x");
    assert_int_equal(m.result, -ERR_INVALID);
    arena_done(&m.arena);
}

static void invalid_flags_are_refused(void **state)
{
    (void)state;
    const struct {
        const char *option, *value, *field;
    } cases[] = {{"--quota", "lots", "--quota"},
                 {"--share", "101", ""},
                 {"--slo", "99", ""},
                 {"--env", "novalue", "--env"},
                 {"--name", "17", "name"},
                 {"--devices", "-1", "--devices"},
                 {"--quota", "8", "quota"},
                 {"--quota", "1023k", "quota"},
                 {"--quota", "0", "--quota"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct made m;
        MAKE(&m, NULL, cases[i].option, cases[i].value, "--", "x");
        if (m.result != -ERR_INVALID)
            fail_msg("%s %s was accepted", cases[i].option, cases[i].value);
        if (*cases[i].field)
            assert_string_equal(m.e.field, cases[i].field);
        arena_done(&m.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_describe_workload),
        cmocka_unit_test(flags_override_file_of_one_workload),
        cmocka_unit_test(draft_exports_chosen_environment),
        cmocka_unit_test(invalid_flags_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
