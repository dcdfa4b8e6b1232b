#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "base/str.h"
#include "wire/spec.h"

struct fixture {
    struct arena arena;
    struct error e;
    struct spec_list list;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    if (!f)
        return -1;
    arena_init(&f->arena, 256 << 20);
    *state = f;
    return 0;
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
    f->list = (struct spec_list){0};
    return spec_parse(&f->e, &f->arena, text, strlen(text), &f->list);
}

static const struct workload_spec *accepts(struct fixture *f, const char *text)
{
    int r = parse(f, text);
    if (r < 0)
        fail_msg("refused (%s: %s): %s", f->e.field, f->e.text, text);
    return &f->list.items[0];
}

static void refuses(struct fixture *f, const char *text, int code, const char *field,
                    const char *part)
{
    int r = parse(f, text);
    if (r != -code || strcmp(f->e.field, field) != 0 || !strstr(f->e.text, part))
        fail_msg("answered %d, '%s', '%s' instead of %d, '%s', '…%s…' to: %s", r, f->e.field,
                 f->e.text, -code, field, part, text);
    assert_int_equal(f->e.code, code);
    assert_null(f->list.items);
}

#define D "directory: /tmp\n"

static const char every_key[] = "version: 1\n"
                                "kind: service\n"
                                "name: resnet\n"
                                "command: [python, train.py, --epochs, 3, 1.50]\n"
                                "resume: python train.py --resume\n"
                                "environment: {B: 007, A: 'x y', C: true}\n"
                                "directory: /srv/run\n"
                                "user: me\n"
                                "devices: 2\n"
                                "model: H200\n"
                                "node_labels: {rack: a}\n"
                                "quota: 8g\n"
                                "share: {min: 10, max: 50}\n"
                                "batch: {reference: 128, min: 32, max: 512, step: "
                                "32}\n"
                                "slo: {percentile: 99.9, latency: 50ms}\n"
                                "expected: {samples: 1e6, duration: 2h}\n"
                                "time_limit: 1h30m\n"
                                "priority: -5\n"
                                "retries: 2\n"
                                "grace: 0\n"
                                "on_node_lost: wait\n"
                                "ready: {port: 8000}\n"
                                "labels: {team: vision}\n"
                                "after: [prepare, '17:ended', 18, x:succeeded]\n"
                                "array: 10\n"
                                "stdin: true\n";

static void spec_every_key_is_read(void **state)
{
    struct fixture *f = *state;
    const struct workload_spec *s = accepts(f, every_key);
    assert_int_equal(s->needs.kind, WORKLOAD_SERVICE);
    assert_string_equal(s->name, "resnet");
    assert_int_equal(s->command.count, 5);
    assert_string_equal(s->command.items[3], "3");
    assert_string_equal(s->command.items[4], "1.50");
    assert_null(s->command.items[5]);
    assert_int_equal(s->resume.count, 3);
    assert_string_equal(s->resume.items[1], "-c");
    assert_string_equal(s->resume.items[2], "python train.py --resume");
    assert_string_equal(pairs_get(&s->environment, "A"), "x y");
    assert_string_equal(pairs_get(&s->environment, "B"), "007");
    assert_string_equal(pairs_get(&s->environment, "C"), "true");
    assert_string_equal(s->directory, "/srv/run");
    assert_string_equal(s->user, "me");
    assert_int_equal(s->needs.devices, 2);
    assert_string_equal(s->needs.model, "H200");
    assert_string_equal(pairs_get(&s->node_labels, "rack"), "a");
    assert_int_equal(s->needs.quota_bytes, UINT64_C(8) << 30);
    assert_int_equal(s->needs.share_min_percent, 10);
    assert_int_equal(s->needs.share_max_percent, 50);
    assert_int_equal(s->batch_reference, 128);
    assert_int_equal(s->batch_min, 32);
    assert_int_equal(s->batch_max, 512);
    assert_int_equal(s->batch_step, 32);
    assert_true(s->slo_percentile == 99.9 && s->slo_latency_ms == 50);
    assert_true(s->expected_samples == 1e6);
    assert_int_equal(s->expected_duration_ms, 7200000);
    assert_int_equal(s->needs.time_limit_ms, 5400000);
    assert_int_equal(s->needs.priority, -5);
    assert_int_equal(s->needs.retries, 2);
    assert_int_equal(s->needs.grace_ms, 0);
    assert_int_equal(s->needs.on_node_lost, ON_NODE_LOST_WAIT);
    assert_int_equal(s->ready, READY_PORT);
    assert_int_equal(s->ready_port, 8000);
    assert_string_equal(pairs_get(&s->labels, "team"), "vision");
    assert_int_equal(s->after_count, 4);
    assert_string_equal(s->after[1].name, "17");
    assert_false(s->after[1].succeeded);
    assert_string_equal(s->after[2].name, "18");
    assert_true(s->after[2].succeeded && s->after[3].succeeded);
    assert_string_equal(s->after[3].name, "x");
    assert_int_equal(s->array_count, 10);
    assert_true(s->wants_stdin);
}

static void spec_accepts_json_and_yaml_forms(void **state)
{
    struct fixture *f = *state;
    accepts(f, "{\"command\": [\"true\"], \"directory\": \"/\"}");
    assert_int_equal(f->list.count, 1);
    accepts(f, " \n{\"version\": 1, \"workloads\": [{\"command\": [\"a\"], \"directory\": \"/\"}, "
               "{\"command\": \"b\", \"directory\": \"/\", \"after\": 3}]}");
    assert_int_equal(f->list.count, 2);
    assert_string_equal(f->list.items[1].name, "b");
    assert_string_equal(f->list.items[1].after[0].name, "3");
    accepts(f, "workloads:\n- command: true\n  " D "- command: [x]\n  " D);
    assert_int_equal(f->list.count, 2);
    assert_string_equal(f->list.items[0].command.items[2], "true");
    accepts(f,
            "command: a\n" D "---\ncommand: b\n" D "---\nworkloads: [{command: c, directory: /}]");
    assert_int_equal(f->list.count, 3);
    assert_string_equal(f->list.items[2].name, "c");
}

static void spec_defaults_apply_unless_partial(void **state)
{
    struct fixture *f = *state;
    const struct workload_spec *s = accepts(f, "command: [python, x/train.py]\n" D "share: 30\n");
    assert_string_equal(s->name, "train.py");
    assert_int_equal(s->needs.share_min_percent, 30);
    assert_int_equal(s->needs.share_max_percent, 30);
    assert_int_equal(s->needs.devices, 1);
    assert_int_equal(s->needs.grace_ms, 10000);
    s = accepts(f, "command: a\n" D "share: {max: 40}\ndevices: 0\n");
    assert_int_equal(s->needs.share_min_percent, 0);
    assert_int_equal(s->needs.share_max_percent, 40);
    assert_int_equal(s->needs.devices, 0);
    s = accepts(f, "command: a\n" D "share: {min: 40}\n");
    assert_int_equal(s->needs.share_max_percent, 100);

    const char *text = "name: x\n";
    assert_int_equal(spec_parse_partial(&f->e, &f->arena, text, strlen(text), &f->list), 0);
    s = &f->list.items[0];
    assert_int_equal(s->needs.devices, WORKLOAD_UNSET);
    assert_int_equal(s->needs.grace_ms, WORKLOAD_UNSET);
    assert_int_equal(s->needs.share_max_percent, 0);
    assert_int_equal(s->command.count, 0);
    assert_null(s->directory);
}

static void spec_unknown_key_gets_hint(void **state)
{
    struct fixture *f = *state;
    refuses(f, "command: a\n" D "qouta: 8g\n", ERR_INVALID, "qouta",
            "line 3: unknown key 'qouta', did you mean 'quota'?");
    refuses(f, "share: {mim: 8}\n", ERR_INVALID, "share.mim", "did you mean 'min'?");
    refuses(f, "share.min: 8\n", ERR_INVALID, "share.min", "unknown key");
    refuses(f, "{\"zzzzzzzz\": 1}", ERR_INVALID, "zzzzzzzz", "unknown key 'zzzzzzzz'");
    assert_null(strstr(f->e.text, "did you mean"));
    refuses(f, "{\"\": 1}", ERR_INVALID, "", "unknown key ''");
    refuses(f, "workloads: [{command: a}]\nquota: 8g\n", ERR_INVALID, "quota",
            "beside 'workloads'");
    refuses(f, "{workloads: [{command: a, directory: /}, {share: {max: 1, x: 2}}]}", ERR_SYNTAX, "",
            "line 1");
    refuses(f, "{\"workloads\": [{}, {\"share\": {\"maxx\": 1}}]}", ERR_INVALID,
            "workloads[1].share.maxx", "did you mean 'max'?");
    refuses(f, "name: a\n---\nnme: b\n", ERR_INVALID, "workloads[1].nme", "did you mean 'name'?");
}

static void spec_syntax_error_names_line(void **state)
{
    struct fixture *f = *state;
    refuses(f, "", ERR_SYNTAX, "", "empty");
    refuses(f, " \n\t", ERR_SYNTAX, "", "empty");
    refuses(f, "# only a comment\n", ERR_SYNTAX, "", "empty");
    refuses(f, "{\"command\": [\"a\"],\n \"name\": }", ERR_SYNTAX, "", "line 2");
    refuses(f, "{\"command\": [\"a\"]} x", ERR_SYNTAX, "", "line 1");
    refuses(f, "command: [a\nname: b\n", ERR_SYNTAX, "", "line 2");
    refuses(f, "command: a\n\tname: b\n", ERR_SYNTAX, "", "line 2");
    refuses(f, "{\"name\": \"a\", \"name\": \"b\"}", ERR_SYNTAX, "", "duplicate");
    refuses(f, "name: a\nlabels:\n  x: 1\n  x: 2\n", ERR_SYNTAX, "x", "line 4: duplicate key 'x'");
    refuses(f, "{\"expected\": {\"samples\": NaN}}", ERR_SYNTAX, "", "line 1");
    refuses(f, "name: &a b\n", ERR_SYNTAX, "", "anchors");
    refuses(f, "name: *a\n", ERR_SYNTAX, "", "aliases");
    refuses(f, "name: !!str b\n", ERR_SYNTAX, "", "tags");
    refuses(f, "command: !x [a]\n", ERR_SYNTAX, "", "tags");
    refuses(f, "labels: &a {b: c}\n", ERR_SYNTAX, "", "anchors");
    refuses(f, "? [a]\n: b\n", ERR_SYNTAX, "", "a key must be plain text");
    refuses(f, "name: \"a\\0b\"\n", ERR_SYNTAX, "name", "line 1: a text contains NUL");
    refuses(f, "labels: {a: x, b: \"\\0\"}\n", ERR_SYNTAX, "labels.b", "NUL");
    refuses(f, "after: [a, \"b\\0\"]\n", ERR_SYNTAX, "after[1]", "NUL");
    refuses(f, "{\"name\": \"a\\ud800\"}", ERR_SYNTAX, "", "invalid Unicode");
    refuses(f, "name: \xff\n", ERR_SYNTAX, "", "UTF-8");
    refuses(f, "{\"name\": \"\xc3\"}", ERR_SYNTAX, "", "UTF-8");
    static const char with_nul[] = "name: a\0b\n";
    assert_int_equal(spec_parse(&f->e, &f->arena, with_nul, sizeof with_nul - 1, &f->list),
                     -ERR_SYNTAX);
    assert_non_null(strstr(f->e.text, "NUL"));
}

static void json_unrepresentable_value_names_field(void **state)
{
    struct fixture *f = *state;
    static const char too_large[] = "line 1: the number is too large", nul[] = "NUL (\\u0000)";
    refuses(f, "{\"retries\": 99999999999999999999}", ERR_SYNTAX, "retries", too_large);
    refuses(f, "{\"devices\":-18446744073709551617}", ERR_SYNTAX, "devices", too_large);
    refuses(f, "{\"command\": [\"a,\\\"{\"], \"expected\": {\"samples\": 1e999}}", ERR_SYNTAX,
            "expected.samples", too_large);
    refuses(f, "{\"name\": \"a\\u0000b\"}", ERR_SYNTAX, "name", nul);
    refuses(f, "{\"name\": \"a\", \"command\": [\"a\", \"b\\u0000\"]}", ERR_SYNTAX, "command[1]",
            nul);
    refuses(f,
            "{\"workloads\": [{\"labels\": {}, \"command\": []},\n"
            " {\"labels\": {\"a\": \"]\", \"b\": \"\\u0000\"}}]}",
            ERR_SYNTAX, "workloads[1].labels.b", "line 2: a text must not");
    refuses(f, "{\"a\\u0000b\": 1}", ERR_SYNTAX, "", "a key must not contain NUL");
    struct str s; /* deeper than the fields that errors name */
    str_init(&s, 4096);
    for (int i = 0; i < 40; i++)
        str_append(&s, "{\"a\":[");
    str_append(&s, "1e999");
    refuses(f, str_text(&s), ERR_SYNTAX, "", too_large);
    str_done(&s);
}

static void spec_size_and_depth_are_bounded(void **state)
{
    struct fixture *f = *state;
    struct str s;
    str_init(&s, 64 << 20);
    str_append(&s, "{\"labels\":");
    for (int i = 0; i < 100000; i++)
        str_append(&s, "{\"a\":");
    assert_int_equal(parse(f, str_text(&s)), -ERR_SYNTAX);
    str_clear(&s);
    str_append(&s, "labels: ");
    for (int i = 0; i < 100000; i++)
        str_append_char(&s, '[');
    refuses(f, str_text(&s), ERR_SYNTAX, "", "nested deeper");
    str_clear(&s);
    str_append(&s, "{\"labels\":");
    for (int i = 0; i < 16; i++)
        str_append_char(&s, '[');
    for (int i = 0; i < 16; i++)
        str_append_char(&s, ']');
    str_append_char(&s, '}');
    refuses(f, str_text(&s), ERR_SYNTAX, "", "nested deeper");

    str_clear(&s);
    str_append(&s, "{\"workloads\":[{}");
    for (int i = 0; i < SPEC_WORKLOADS_MAX; i++)
        str_append(&s, ",{}");
    str_append(&s, "]}");
    refuses(f, str_text(&s), ERR_TOO_LARGE, "workloads", "more than 1000");
    str_clear(&s);
    for (int i = 0; i < SPEC_WORKLOADS_MAX + 1; i++)
        str_append(&s, "--- {}\n");
    refuses(f, str_text(&s), ERR_TOO_LARGE, "workloads", "more than 1000");
    str_clear(&s);
    str_append(&s, "{\"command\":[0");
    for (int i = 0; i < 300000; i++)
        str_append(&s, ",0");
    str_append(&s, "]}");
    refuses(f, str_text(&s), ERR_TOO_LARGE, "", "values");
    str_clear(&s);
    str_append(&s, "{\"labels\":{\"a\":\"\"");
    for (int i = 0; i < 20000; i++)
        str_printf(&s, ",\"%d\":\"\"", i);
    str_append(&s, "}}");
    refuses(f, str_text(&s), ERR_TOO_LARGE, "", "keys");
    while (s.length <= SPEC_TEXT_MAX)
        str_append(&s, "                                                                ");
    refuses(f, str_text(&s), ERR_TOO_LARGE, "", "larger than");
    str_done(&s);

    f->arena.limit_bytes = f->arena.used_bytes + 200;
    refuses(f, "command: [a, b, c]\n" D, ERR_NO_MEMORY, "", "memory");
}

/* A document, the field at fault, and a part of the error. */
static const char *const wrong_documents[][3] = {
    {"- a\n", "", "a workload must be a map"},
    {"just text\n", "", "a workload must be a map"},
    {"[]", "", "a workload must be a map"},
    {"kind: job\n", "kind", "task or service"},
    {"kind: [task]\n", "kind", "task or service"},
    {"name: [a]\n", "name", "a string"},
    {"name: {a: b}\n", "name", "a string"},
    {"name:\n", "name", "a string"},
    {"name: ''\n", "name", "empty"},
    {"{\"name\": 5}", "name", "a string"},
    {"{\"name\": null}", "name", "a string"},
    {"command: {a: b}\n", "command", "a list of words"},
    {"command: []\n", "command", "a list of words"},
    {"command: ''\n", "command", "a list of words"},
    {"command: [a, [b]]\n", "command[1]", "a string"},
    {"{\"command\": [\"a\", 1.5]}", "command[1]", "a string"},
    {"environment: [A=B]\n", "environment", "a map"},
    {"environment: {A: }\n", "environment.A", "must be a string"},
    {"environment: {A: [1]}\n", "environment.A", "must be a string"},
    {"devices: two\n", "devices", "a whole number"},
    {"devices: '2'\n", "devices", "a whole number"},
    {"devices: 1.5\n", "devices", "a whole number"},
    {"{\"devices\": 1.0}", "devices", "a whole number"},
    {"devices: true\n", "devices", "a whole number"},
    {"devices: -1\n", "devices", "negative"},
    {"devices: 17\n", "devices", "between 0 and 16"},
    {"devices: .nan\n", "devices", "a whole number"},
    {"devices: .inf\n", "devices", "too large"},
    {"devices: 99999999999\n", "devices", "99999999999 is not between"},
    {"retries: 99999999999999999999\n", "retries", "too large"},
    {"retries: -99999999999999999999\n", "retries", "negative"},
    {"priority: -99999999999999999999\n", "priority", "too large"},
    {"priority: -1001\n", "priority", "between"},
    {"quota: 0\n", "quota", "leave the key out"},
    {"quota: 0g\n", "quota", "leave the key out"},
    {"quota: -1\n", "quota", "negative"},
    {"quota: -8g\n", "quota", "not a size"},
    {"quota: 8x\n", "quota", "not a size"},
    {"quota: [8g]\n", "quota", "a whole number"},
    {"quota: 9999999999t\n", "quota", "too large"},
    {"quota: 5000t\n", "quota", "more memory"},
    {"share: 0\n", "share", "between 1 and 100"},
    {"share: 101\n", "share", "between 1 and 100"},
    {"share: [1]\n", "share", "a whole number"},
    {"share: {max: 101}\n", "share.max", "between 1 and 100"},
    {"share: {min: 60, max: 50}\n", "share.min", "more than share.max"},
    {"batch: 32\n", "batch", "a map"},
    {"batch: {min: 0}\n", "batch.min", "between 1"},
    {"batch: {min: 5, max: 4}\n", "batch.min", "more than"},
    {"slo: {percentile: 99, latency: 1ms}\n", "slo", "only a service"},
    {"slo: {percentile: .inf}\n", "slo.percentile", "finite"},
    {"slo: {percentile: high}\n", "slo.percentile", "a number"},
    {"slo: {percentile: -1}\n", "slo.percentile", "above 0"},
    {"slo: {latency: 0}\n", "slo.latency", "a microsecond"},
    {"expected: {samples: .nan}\n", "expected.samples", "finite"},
    {"expected: {duration: -1}\n", "expected.duration", "negative"},
    {"time_limit: -5s\n", "time_limit", "not a time"},
    {"time_limit: 5 parsecs\n", "time_limit", "not a time"},
    {"time_limit: 99999d\n", "time_limit", "ten years"},
    {"time_limit: 1e300\n", "time_limit", "ten years"},
    {"time_limit: .nan\n", "time_limit", "must be a time"},
    {"time_limit: true\n", "time_limit", "must be a time"},
    {"grace: 0.0001\n", "grace", "at least a millisecond"},
    {"on_node_lost: panic\n", "on_node_lost", "requeue or wait"},
    {"ready: port\n", "ready", "started, client"},
    {"ready: {port: 0}\n", "ready.port", "between 1 and 65535"},
    {"ready: {port: 80, command: [a]}\n", "ready.command", "either a command or a port"},
    {"ready: {port: 80}\n", "ready", "only a service"},
    {"labels: x\n", "labels", "a map"},
    {"after: [a:never]\n", "after", "NAME or ID"},
    {"after: ':ended'\n", "after", "NAME or ID"},
    {"after: [a b]\n", "after[0]", "neither"},
    {"after: [-1]\n", "after[0]", "neither"},
    {"after: {a: b}\n", "after", "names or ids"},
    {"array: 0\n", "array", "between 1 and 10000"},
    {"array: 10001\n", "array", "between 1 and 10000"},
    {"stdin: 1\n", "stdin", "true or false"},
    {"stdin: yes\n", "stdin", "true or false"},
    {"version: 2\n", "version", "unknown version"},
    {"version: one\n", "version", "a whole number"},
    {"name: 17\n", "name", "all digits"},
    {"name: a b\n", "name", "letters"},
    {"user: 'a:b'\n", "user", "not a valid name of a user"},
    {"workloads: []\n", "workloads", "at least one"},
    {"workloads: 5\n", "workloads", "at least one"},
    {"workloads: [5]\n", "workloads[0]", "a workload must be a map"},
    {"version: 3\nworkloads: [{}]\n", "version", "unknown version"},
};

static void spec_wrong_type_names_field(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof wrong_documents / sizeof wrong_documents[0]; i++) {
        char text[512];
        bool completed = wrong_documents[i][0][0] != '{' && wrong_documents[i][0][0] != '[' &&
                         strchr(wrong_documents[i][0], ':') &&
                         !strstr(wrong_documents[i][0], "workloads") &&
                         !str_starts_with(wrong_documents[i][0], "command");
        snprintf(text, sizeof text, "%s%s", wrong_documents[i][0],
                 completed ? "command: [true]\ndirectory: /\n" : "");
        refuses(f, text, ERR_INVALID, wrong_documents[i][1], wrong_documents[i][2]);
    }
    refuses(f, "name: a\n", ERR_INVALID, "command", "must name a command");
    refuses(f, "command: a\n", ERR_INVALID, "directory", "absolute");
    refuses(f, "command: a\ndirectory: b\n", ERR_INVALID, "directory", "absolute");
}

static void spec_flag_sets_one_key(void **state)
{
    struct fixture *f = *state;
    struct workload_spec spec;
    workload_spec_init(&spec);
#define SET(key, value) assert_int_equal(spec_set(&f->e, &f->arena, &spec, key, value), 0)
#define SET_REFUSES(key, value, field_, part)                                                      \
    do {                                                                                           \
        assert_int_equal(spec_set(&f->e, &f->arena, &spec, key, value), -ERR_INVALID);             \
        assert_string_equal(f->e.field, field_);                                                   \
        if (!strstr(f->e.text, part))                                                              \
            fail_msg("%s", f->e.text);                                                             \
    } while (0)
    SET("share.max", "50");
    assert_int_equal(spec.needs.share_max_percent, 50);
    SET("share", "20");
    assert_int_equal(spec.needs.share_min_percent, 20);
    SET("quota", "1.5g");
    assert_int_equal(spec.needs.quota_bytes, UINT64_C(3) << 29);
    SET("environment", "A=1");
    SET("environment", "B=x=y");
    SET("environment", "A=");
    assert_string_equal(pairs_get(&spec.environment, "A"), "");
    assert_string_equal(pairs_get(&spec.environment, "B"), "x=y");
    SET("after", "a,17:ended");
    SET("after", "b");
    assert_int_equal(spec.after_count, 3);
    assert_false(spec.after[1].succeeded);
    SET("command", "true");
    assert_string_equal(spec.command.items[2], "true");
    SET("name", "null");
    assert_string_equal(spec.name, "null");
    SET("directory", "/");
    SET("kind", "service");
    SET("ready.command", "curl localhost");
    SET("ready.port", "80");
    assert_int_equal(spec.ready, READY_PORT);
    SET("ready", "client");
    assert_int_equal(spec.ready, READY_CLIENT);
    SET("stdin", "true");
    SET("grace", "5");
    assert_int_equal(spec.needs.grace_ms, 5000);
    SET_REFUSES("shar", "1", "shar", "did you mean 'share'?");
    SET_REFUSES("batch", "1", "batch", "name one of its keys");
    SET_REFUSES("share.max", "x", "share.max", "a whole number");
    SET_REFUSES("environment", "A", "environment", "KEY=VALUE");
    SET_REFUSES("environment", "=A", "environment", "KEY=VALUE");
    SET_REFUSES("after", "a,,b", "after", "NAME or ID");
    SET_REFUSES("name", "", "name", "empty");
    SET_REFUSES("name", "\xff", "name", "UTF-8");
    SET_REFUSES("devices", "", "devices", "a whole number");
    assert_int_equal(spec.after_count, 3);
    assert_int_equal(workload_spec_validate(&f->e, &f->arena, &spec), 0);
}

static void quantities_parse_and_format_with_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } sizes[] = {{"1024", 1024},
                 {"8g", UINT64_C(8) << 30},
                 {"512M", 512 << 20},
                 {"1.5GiB", 3ULL << 29},
                 {"1 kb", 1024},
                 {"0", 0},
                 {"0.5k", 512},
                 {"7b", 7},
                 {"2t", UINT64_C(2) << 40},
                 {"9007199254740993", 9007199254740993}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t bytes = 1;
        assert_int_equal(spec_parse_bytes(NULL, sizes[i].text, &bytes), 0);
        assert_int_equal(bytes, sizes[i].bytes);
    }
    static const struct {
        const char *text;
        int64_t ms;
    } times[] = {{"90", 90000},    {"90s", 90000},
                 {"250ms", 250},   {"1.5h", 5400000},
                 {"0", 0},         {"1h30m", 5400000},
                 {"1d", 86400000}, {"1m1s1ms", 61001},
                 {"2 m", 120000},  {"3650d", WORKLOAD_TIME_MS_MAX},
                 {"500us", 1}};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        int64_t ms = -1;
        assert_int_equal(spec_parse_duration(NULL, times[i].text, &ms), 0);
        assert_int_equal(ms, times[i].ms);
    }
    static const char *const bad[] = {"",   "g",    "-1",   "1e3",  "1..5", "1.",
                                      ".5", "1gg",  "inf",  "nan",  "0x1",  "1 ",
                                      " 1", "1g1g", "1h30", "1,5g", "1kibi"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t bytes = 1;
        int64_t ms = 1;
        assert_int_equal(spec_parse_bytes(NULL, bad[i], &bytes), -ERR_INVALID);
        assert_int_equal(spec_parse_duration(NULL, bad[i], &ms), -ERR_INVALID);
        assert_int_equal(bytes, 1);
        assert_int_equal(ms, 1);
    }
    char text[SPEC_QUANTITY_MAX];
    assert_string_equal(spec_format_duration(0, text), "0s");
    assert_string_equal(spec_format_duration(5400000, text), "1h30m");
    assert_string_equal(spec_format_duration(250, text), "250ms");
    assert_string_equal(spec_format_duration(INT64_MAX, text), "106751991167d7h12m55s807ms");
}

/* ---- random specs ---- */

static const char *random_text(struct rng *rng, struct arena *arena)
{
    static const char *const parts[] = {
        "a", "\"", "\\", "\n",   "\t", "\x01", "\xc3\xa4", "7", "\xf0\x9f\x90\x98",
        " ", "=",  ":",  "null", "{",  "\x7f", "/"};
    char text[128] = "x";
    size_t count = rng_below(rng, 8);
    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s", parts[rng_below(rng, 16)]);
    }
    return arena_strdup(arena, text);
}

static struct words random_words(struct rng *rng, struct arena *arena)
{
    struct words words = {.count = 1 + rng_below(rng, 5)};
    words.items = arena_array(arena, words.count + 1, sizeof(char *));
    for (size_t i = 0; i < words.count; i++)
        words.items[i] = random_text(rng, arena);
    return words;
}

static struct pairs random_pairs(struct rng *rng, struct arena *arena)
{
    struct pairs pairs = {0};
    size_t count = rng_below(rng, 5);
    for (size_t i = 0; i < count; i++) {
        char key[16];
        snprintf(key, sizeof key, "K%u\xc3\xa4", (unsigned)rng_below(rng, 50));
        pairs_set(arena, &pairs, key, random_text(rng, arena));
    }
    return pairs;
}

static void random_service(struct rng *rng, struct arena *arena, struct workload_spec *s)
{
    s->needs.kind = WORKLOAD_SERVICE;
    s->ready = (enum ready_kind)rng_below(rng, READY_END);
    if (s->ready == READY_COMMAND)
        s->ready_command = random_words(rng, arena);
    if (s->ready == READY_PORT)
        s->ready_port = (int)(1 + rng_below(rng, 65535));
    if (rng_below(rng, 2)) {
        s->slo_percentile = 0.01 + 99.9 * rng_double(rng);
        s->slo_latency_ms = 0.001 + 1e6 * rng_double(rng);
    }
}

static struct workload_spec random_spec(struct rng *rng, struct arena *arena)
{
    struct workload_spec s;
    workload_spec_init(&s);
#define SOMETIMES if (rng_below(rng, 2))
    SOMETIMES random_service(rng, arena, &s);
    SOMETIMES s.name = arena_printf(arena, "n%u", (unsigned)rng_below(rng, 1000));
    s.command = random_words(rng, arena);
    SOMETIMES s.resume = random_words(rng, arena);
    SOMETIMES s.environment = random_pairs(rng, arena);
    SOMETIMES s.labels = random_pairs(rng, arena);
    SOMETIMES s.node_labels = random_pairs(rng, arena);
    s.directory = arena_printf(arena, "/%s", random_text(rng, arena));
    SOMETIMES s.user = "me";
    SOMETIMES s.needs.devices = (int)rng_below(rng, WORKLOAD_DEVICES_MAX + 1);
    SOMETIMES str_copy(s.needs.model, sizeof s.needs.model, "RTX \"3090\"");
    SOMETIMES s.needs.quota_bytes = 1 + rng_below(rng, WORKLOAD_QUOTA_BYTES_MAX);
    SOMETIMES s.needs.share_max_percent = (int)(1 + rng_below(rng, 100));
    SOMETIMES s.needs.share_min_percent =
        (int)rng_below(rng, (uint64_t)(s.needs.share_max_percent + 1));
    SOMETIMES s.batch_max = (int64_t)(1 + rng_below(rng, 4096));
    SOMETIMES s.batch_step = (int64_t)(1 + rng_below(rng, 64));
    if (s.batch_max) {
        s.batch_min = (int64_t)rng_below(rng, (uint64_t)s.batch_max + 1);
        s.batch_reference = s.batch_max;
    }
    SOMETIMES s.expected_samples = 1e12 * rng_double(rng);
    SOMETIMES s.expected_duration_ms = (int64_t)rng_below(rng, (uint64_t)WORKLOAD_TIME_MS_MAX);
    SOMETIMES s.needs.time_limit_ms = (int64_t)rng_below(rng, (uint64_t)WORKLOAD_TIME_MS_MAX);
    SOMETIMES s.needs.priority = (int)rng_below(rng, 2001) - 1000;
    SOMETIMES s.needs.retries = (int)rng_below(rng, 1001);
    SOMETIMES s.needs.grace_ms = (int64_t)rng_below(rng, 100000);
    SOMETIMES s.needs.on_node_lost = ON_NODE_LOST_WAIT;
    SOMETIMES s.array_count = (int)(1 + rng_below(rng, WORKLOAD_ARRAY_MAX));
    s.wants_stdin = rng_below(rng, 2);
    s.after_count = rng_below(rng, 4);
    s.after = arena_array(arena, s.after_count, sizeof *s.after);
    for (size_t i = 0; i < s.after_count; i++)
        s.after[i] = (struct after){rng_below(rng, 2) ? "prepare" : "17", rng_below(rng, 2)};
#undef SOMETIMES
    return s;
}

static void assert_words_equal(const struct words *a, const struct words *b)
{
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++)
        assert_string_equal(a->items[i], b->items[i]);
}

static void assert_pairs_equal(const struct pairs *a, const struct pairs *b)
{
    assert_int_equal(a->count, b->count);
    assert_true(pairs_contain(a, b));
}

static void assert_needs_equal(const struct workload_needs *a, const struct workload_needs *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->devices, b->devices);
    assert_int_equal(a->quota_bytes, b->quota_bytes);
    assert_int_equal(a->share_min_percent, b->share_min_percent);
    assert_int_equal(a->share_max_percent, b->share_max_percent);
    assert_int_equal(a->priority, b->priority);
    assert_int_equal(a->retries, b->retries);
    assert_int_equal(a->grace_ms, b->grace_ms);
    assert_int_equal(a->time_limit_ms, b->time_limit_ms);
    assert_int_equal(a->on_node_lost, b->on_node_lost);
    assert_string_equal(a->model, b->model);
}

static void assert_specs_equal(const struct workload_spec *a, const struct workload_spec *b)
{
    assert_needs_equal(&a->needs, &b->needs);
    assert_string_equal(a->name, b->name);
    assert_words_equal(&a->command, &b->command);
    assert_words_equal(&a->resume, &b->resume);
    assert_pairs_equal(&a->environment, &b->environment);
    assert_pairs_equal(&a->labels, &b->labels);
    assert_pairs_equal(&a->node_labels, &b->node_labels);
    assert_string_equal(a->directory, b->directory);
    assert_true(str_equal(a->user, b->user));
    assert_int_equal(a->batch_reference, b->batch_reference);
    assert_int_equal(a->batch_min, b->batch_min);
    assert_int_equal(a->batch_max, b->batch_max);
    assert_int_equal(a->batch_step, b->batch_step);
    assert_true(a->slo_percentile == b->slo_percentile);
    assert_true(a->slo_latency_ms == b->slo_latency_ms);
    assert_true(a->expected_samples == b->expected_samples);
    assert_int_equal(a->expected_duration_ms, b->expected_duration_ms);
    assert_int_equal(a->ready, b->ready);
    assert_words_equal(&a->ready_command, &b->ready_command);
    assert_int_equal(a->ready_port, b->ready_port);
    assert_int_equal(a->after_count, b->after_count);
    for (size_t i = 0; i < a->after_count; i++) {
        assert_string_equal(a->after[i].name, b->after[i].name);
        assert_int_equal(a->after[i].succeeded, b->after[i].succeeded);
    }
    assert_int_equal(a->array_count, b->array_count);
    assert_int_equal(a->wants_stdin, b->wants_stdin);
}

static void spec_written_reads_back_equal(void **state)
{
    struct fixture *f = *state;
    struct str text, again;
    str_init(&text, 1 << 20);
    str_init(&again, 1 << 20);
    for (uint64_t seed = 0; seed < 2000; seed++) {
        struct arena arena;
        arena_init(&arena, 1 << 20);
        struct rng rng;
        rng_seed(&rng, seed);
        struct workload_spec spec = random_spec(&rng, &arena);
        if (workload_spec_validate(&f->e, &arena, &spec) < 0)
            fail_msg("seed %llu: %s: %s", (unsigned long long)seed, f->e.field, f->e.text);
        str_clear(&text);
        str_clear(&again);
        assert_int_equal(spec_write(&spec, &text), 0);
        assert_null(strchr(str_text(&text), '\n'));
        struct spec_list list;
        if (spec_parse(&f->e, &arena, str_text(&text), text.length, &list) < 0)
            fail_msg("seed %llu: %s: %s: %s", (unsigned long long)seed, f->e.field, f->e.text,
                     str_text(&text));
        assert_specs_equal(&spec, &list.items[0]);
        assert_int_equal(spec_write(&list.items[0], &again), 0);
        assert_string_equal(str_text(&text), str_text(&again));
        arena_done(&arena);
    }
    str_done(&text);
    str_done(&again);
}

static void spec_written_form_is_canonical(void **state)
{
    struct fixture *f = *state;
    const struct workload_spec *s = accepts(f, "array: 3\nquota: 1k\nname: x\ndirectory: /\n"
                                               "command: a b\nafter: [p, q:ended]\nshare: 5\n");
    struct str text;
    str_init(&text, 1 << 16);
    assert_int_equal(spec_write(s, &text), 0);
    assert_string_equal(str_text(&text),
                        "{\"name\":\"x\",\"command\":[\"sh\",\"-c\",\"a b\"],\"directory\":\"/\","
                        "\"devices\":1,\"quota\":1024,\"share\":{\"min\":5,\"max\":5},"
                        "\"grace\":\"10s\",\"after\":[\"p\",\"q:ended\"],\"array\":3}");
    str_done(&text);
    str_init(&text, 10);
    assert_int_equal(spec_write(s, &text), -ERR_NO_MEMORY);
    str_done(&text);
}

static void spec_summary_contains_list_fields(void **state)
{
    struct fixture *f = *state;
    const struct workload_spec *s = accepts(f, "command: a b\ndirectory: /\nquota: 1k\nshare: "
                                               "{min: 5}\nlabels: {k: v}\nenvironment: {S: x}\n");
    struct str text;
    str_init(&text, 1 << 16);
    assert_int_equal(spec_write_summary(s, &text), 0);
    assert_string_equal(str_text(&text), "{\"devices_wanted\":1,\"quota_bytes\":1024,"
                                         "\"share\":{\"min\":5,\"max\":100},\"command\":\"a b\","
                                         "\"labels\":{\"k\":\"v\"}}");
    str_clear(&text);
    s = accepts(f, "command: [a, \"b c\"]\ndirectory: /\n");
    assert_int_equal(spec_write_summary(s, &text), 0);
    assert_non_null(strstr(str_text(&text), "\"command\":\"a b c\""));
    str_done(&text);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(spec_every_key_is_read),
        TEST(spec_accepts_json_and_yaml_forms),
        TEST(spec_defaults_apply_unless_partial),
        TEST(spec_unknown_key_gets_hint),
        TEST(spec_syntax_error_names_line),
        TEST(json_unrepresentable_value_names_field),
        TEST(spec_size_and_depth_are_bounded),
        TEST(spec_wrong_type_names_field),
        TEST(spec_flag_sets_one_key),
        TEST(quantities_parse_and_format_with_units),
        TEST(spec_written_reads_back_equal),
        TEST(spec_written_form_is_canonical),
        TEST(spec_summary_contains_list_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
