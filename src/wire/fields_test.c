#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "wire/json_reader.h"
#include "wire/objects.h"

/* A struct with one member of every kind. */
struct inner {
    int number;
};

struct sample {
    bool flag, newer_flag;
    int whole, code;
    unsigned uid;
    enum workload_kind kind;
    int64_t big, wall_ms;
    uint64_t bytes;
    double real, gauge;
    char name[8], cut[8];
    const char *text;
    struct pairs labels;
    uint64_t counts[2];
    struct inner inner;
    const struct inner *pointed;
    struct words words;
    size_t list_count;
    struct inner *list;
    int array_count;
    char array[2][8];
    int few_count;
    struct inner few[2];
    bool has_part;
    int first, second;
};

static const char *const count_items[] = {"loads", "stores"};
static const struct names count_names = {2, count_items};

#define OF struct inner
static const struct field inner_members[] = {FIELD("number", number, .least = 1, .most = 9)};
#undef OF
static const struct fields inner_fields = FIELDS(struct inner, inner_members);

#define OF struct sample
static const struct field part_members[] = {FIELD("first", first), FIELD("second", second)};
static const struct fields part_fields = FIELDS(struct sample, part_members);

static const struct field sample_members[] = {
    FIELD("flag", flag),
    FIELD("newer_flag", newer_flag, .flags = FIELD_NEWER),
    FIELD("whole", whole),
    FIELD("code", code, .least = INT_MIN, .most = INT_MAX, .unset = -1,
          .flags = FIELD_NEWER | FIELD_NULL),
    FIELD("uid", uid),
    FIELD("kind", kind, .names = &workload_kind_names),
    FIELD("big", big, .least = INT64_MIN, .most = INT64_MAX),
    FIELD("wall", wall_ms, .flags = FIELD_WALL),
    FIELD("bytes", bytes),
    FIELD("real", real, .most = 100),
    FIELD("gauge", gauge, .unset = -1, .flags = FIELD_NEWER | FIELD_NULL),
    FIELD("name", name, .flags = FIELD_FILLED),
    FIELD("cut", cut, .flags = FIELD_CUT),
    FIELD("text", text, .most = 10),
    FIELD("labels", labels, .most = 2),
    FIELD("counts", counts, .names = &count_names),
    FIELD("inner", inner, .fields = &inner_fields),
    FIELD_AT("pointed", pointed, &inner_fields),
    FIELD_LIST("words", words.items, words.count, .most = 3),
    FIELD_LIST("list", list, list_count, .most = 2, .fields = &inner_fields, .flags = FIELD_NEWER),
    FIELD_LIST("array", array, array_count),
    FIELD_LIST("few", few, few_count, .fields = &inner_fields, .flags = FIELD_CUT),
    FIELD_PART_OF("part", has_part, &part_fields),
    FIELD("inside", whole, .in = FIELDS_STORED),
};
#undef OF
static const struct fields sample_fields = FIELDS(struct sample, sample_members);

struct fixture {
    struct arena arena;
    struct str out;
    struct inner pointed;
    struct sample sample;
};

static void set_up(struct fixture *f)
{
    *f = (struct fixture){
        .pointed = {.number = 3},
        .sample = {.kind = WORKLOAD_SERVICE,
                   .code = -1,
                   .gauge = -1,
                   .bytes = UINT64_MAX,
                   .name = "x",
                   .inner = {.number = 1}},
    };
    f->sample.pointed = &f->pointed;
    arena_init(&f->arena, 1 << 20);
    str_init(&f->out, 1 << 20);
}

static void tear_down(struct fixture *f)
{
    arena_done(&f->arena);
    str_done(&f->out);
}

static int parse(struct fixture *f, struct error *e, enum fields_form form, const char *text,
                 struct sample *ret)
{
    const struct field_reader r = {.e = e, .code = ERR_CORRUPT, .arena = &f->arena, .form = form};
    return fields_parse(&r, &sample_fields, text, strlen(text), ret);
}

static const char *write_as(struct fixture *f, enum fields_form form)
{
    str_clear(&f->out);
    assert_int_equal(fields_write(&sample_fields, form, &f->sample, &f->out), 0);
    return str_text(&f->out);
}

static void message_omits_unset_newer_members(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f);
    assert_string_equal(
        write_as(&f, FIELDS_MESSAGE),
        "{\"flag\":false,\"whole\":0,\"uid\":0,\"kind\":\"service\",\"big\":0,\"wall_ms\":0,"
        "\"bytes\":\"18446744073709551615\",\"real\":0,\"name\":\"x\",\"cut\":\"\",\"text\":\"\","
        "\"labels\":{},\"counts\":{},\"inner\":{\"number\":1},\"pointed\":{\"number\":3},"
        "\"words\":[],\"array\":[],\"few\":[]}");
    tear_down(&f);
}

static void api_has_every_member(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f);
    f.sample.wall_ms = 1000;
    assert_string_equal(
        write_as(&f, FIELDS_API),
        "{\"flag\":false,\"newer_flag\":false,\"whole\":0,\"code\":null,\"uid\":0,"
        "\"kind\":\"service\",\"big\":0,\"wall\":\"1970-01-01T00:00:01.000Z\","
        "\"bytes\":\"18446744073709551615\",\"real\":0,\"gauge\":null,\"name\":\"x\",\"cut\":\"\","
        "\"text\":\"\",\"labels\":{},\"counts\":{\"loads\":0,\"stores\":0},"
        "\"inner\":{\"number\":1},\"pointed\":{\"number\":3},\"words\":[],\"list\":[],"
        "\"array\":[],\"few\":[],\"part\":null}");
    f.sample.has_part = true;
    f.sample.gauge = 0;
    f.sample.code = 0;
    const char *text = write_as(&f, FIELDS_API);
    assert_non_null(strstr(text, "\"part\":{\"first\":0,\"second\":0}"));
    assert_non_null(strstr(text, "\"gauge\":0,"));
    assert_non_null(strstr(text, "\"code\":0,"));
    tear_down(&f);
}

static void absent_object_is_null(void **state)
{
    (void)state;
    struct str out;
    struct json_writer w;
    str_init(&out, 1 << 10);
    json_writer_init(&w, &out);
    fields_put(&w, &inner_fields, FIELDS_API, NULL);
    json_begin_object(&w);
    fields_put_members(&w, &part_fields, FIELDS_API, NULL);
    json_end_object(&w);
    assert_string_equal(str_text(&out), "null,{\"first\":null,\"second\":null}");
    str_done(&out);
}

static void wall_time_key_depends_on_form(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f);
    f.sample.wall_ms = 5;
    struct sample back;
    assert_non_null(strstr(write_as(&f, FIELDS_STORED), "\"wall_ms\":5"));
    assert_non_null(strstr(write_as(&f, FIELDS_FILE), "\"wall_wall_ms\":5"));
    assert_int_equal(parse(&f, NULL, FIELDS_FILE, str_text(&f.out), &back), 0);
    assert_int_equal(back.wall_ms, 5);
    assert_int_equal(parse(&f, NULL, FIELDS_STORED, str_text(&f.out), &back), -ERR_CORRUPT);
    /* A file that a user may write can contain a time past the year 9999. */
    f.sample.wall_ms = INT64_C(253402300800000);
    assert_int_equal(parse(&f, NULL, FIELDS_FILE, write_as(&f, FIELDS_FILE), &back), -ERR_CORRUPT);
    tear_down(&f);
}

static void random_word(struct rng *rng, char *word, size_t size)
{
    size_t length = 1 + rng_below(rng, size - 1);
    for (size_t i = 0; i < length; i++)
        word[i] = (char)('a' + rng_below(rng, 26));
    word[length] = '\0';
}

static void random_sample(struct rng *rng, struct fixture *f)
{
    static const char *words[] = {"a", "\"b\"", "", NULL};
    static struct pair pairs[] = {{"a", "1"}, {"b", ""}};
    static struct inner list[] = {{1}, {9}};
    struct sample *s = &f->sample;
    *s = (struct sample){
        .flag = rng_below(rng, 2),
        .newer_flag = rng_below(rng, 2),
        .whole = (int)rng_below(rng, INT_MAX),
        .code = (int)rng_below(rng, 3) - 1,
        .uid = (unsigned)rng_u64(rng),
        .kind = (enum workload_kind)rng_below(rng, WORKLOAD_KIND_END),
        .big = (int64_t)rng_u64(rng),
        .wall_ms = (int64_t)rng_below(rng, INT64_C(253402300800000)),
        .bytes = rng_u64(rng),
        .real = 100 * rng_double(rng),
        .gauge = rng_below(rng, 2) ? -1 : rng_double(rng),
        .text = rng_below(rng, 2) ? "t\xc3\xa4" : "",
        .labels = {rng_below(rng, 3), pairs},
        .counts = {rng_below(rng, 2) * rng_u64(rng), rng_u64(rng)},
        .inner = {(int)(1 + rng_below(rng, 9))},
        .pointed = &f->pointed,
        .words = {rng_below(rng, 4), words},
        .list_count = rng_below(rng, 3),
        .list = list,
        .array_count = (int)rng_below(rng, 3),
        .few_count = (int)rng_below(rng, 3),
        .few = {{2}, {3}},
        .has_part = rng_below(rng, 2),
    };
    random_word(rng, s->name, sizeof s->name);
    random_word(rng, s->cut, sizeof s->cut);
    for (int i = 0; i < s->array_count; i++)
        random_word(rng, s->array[i], sizeof s->array[i]);
    if (s->has_part)
        s->first = s->second = 7;
}

static void assert_samples_equal(const struct sample *a, const struct sample *b)
{
    assert_int_equal(a->flag, b->flag);
    assert_int_equal(a->newer_flag, b->newer_flag);
    assert_int_equal(a->whole, b->whole);
    assert_int_equal(a->code, b->code);
    assert_int_equal(a->uid, b->uid);
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->big, b->big);
    assert_int_equal(a->wall_ms, b->wall_ms);
    assert_int_equal(a->bytes, b->bytes);
    assert_true(a->real == b->real && a->gauge == b->gauge);
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->cut, b->cut);
    assert_string_equal(a->text, b->text);
    assert_int_equal(a->labels.count, b->labels.count);
    assert_true(pairs_contain(&a->labels, &b->labels));
    assert_memory_equal(a->counts, b->counts, sizeof a->counts);
    assert_int_equal(a->inner.number, b->inner.number);
    assert_int_equal(a->pointed->number, b->pointed->number);
    assert_int_equal(a->words.count, b->words.count);
    for (size_t i = 0; i < a->words.count; i++)
        assert_string_equal(a->words.items[i], b->words.items[i]);
    assert_null(b->words.items[b->words.count]);
    assert_int_equal(a->list_count, b->list_count);
    for (size_t i = 0; i < a->list_count; i++)
        assert_int_equal(a->list[i].number, b->list[i].number);
    assert_int_equal(a->array_count, b->array_count);
    for (int i = 0; i < a->array_count; i++)
        assert_string_equal(a->array[i], b->array[i]);
    assert_int_equal(a->few_count, b->few_count);
    for (int i = 0; i < a->few_count; i++)
        assert_int_equal(a->few[i].number, b->few[i].number);
    assert_int_equal(a->has_part, b->has_part);
    assert_int_equal(a->first, b->first);
    assert_int_equal(a->second, b->second);
}

static void fields_written_read_back_equal(void **state)
{
    (void)state;
    static const enum fields_form forms[] = {FIELDS_MESSAGE, FIELDS_STORED, FIELDS_FILE};
    for (uint64_t seed = 0; seed < 1000; seed++) {
        struct fixture f;
        struct rng rng;
        struct sample back;
        struct error e = {0};
        set_up(&f);
        rng_seed(&rng, seed);
        random_sample(&rng, &f);
        enum fields_form form = forms[seed % 3];
        if (parse(&f, &e, form, write_as(&f, form), &back) < 0)
            fail_msg("seed %llu: %s: %s: %s", (unsigned long long)seed, e.field, e.text,
                     str_text(&f.out));
        assert_samples_equal(&f.sample, &back);
        tear_down(&f);
    }
}

/* Replaces the value of one member of a valid text. */
static int parse_with(struct fixture *f, struct error *e, const char *key, const char *value,
                      struct sample *ret)
{
    f->sample.has_part = true;
    json_t *good = NULL;
    const char *text = write_as(f, FIELDS_MESSAGE);
    assert_int_equal(json_parse_object(NULL, ERR_INVALID, text, strlen(text), &good), 0);
    json_t *other = value ? json_loads(value, JSON_DECODE_ANY, NULL) : NULL;
    assert_true(other || !value);
    if (other)
        json_object_set_new(good, key, other);
    else
        json_object_del(good, key);
    char *changed = json_dumps(good, 0);
    assert_non_null(changed);
    int r = parse(f, e, FIELDS_MESSAGE, changed, ret);
    free(changed);
    json_decref(good);
    return r;
}

static void fields_invalid_member_is_named(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"flag", "1", "flag"},
        {"flag", "null", "flag"},
        {"flag", NULL, "flag"},
        {"whole", "-1", "whole"},
        {"whole", "2147483648", "whole"},
        {"whole", "1.5", "whole"},
        {"uid", "4294967296", "uid"},
        {"kind", "\"job\"", "kind"},
        {"kind", "1", "kind"},
        {"wall_ms", "-1", "wall_ms"},
        {"bytes", "-1", "bytes"},
        {"bytes", "\"\"", "bytes"},
        {"bytes", "\"x\"", "bytes"},
        {"bytes", "\"18446744073709551616\"", "bytes"},
        {"bytes", "1.5", "bytes"},
        {"real", "\"1\"", "real"},
        {"real", "101", "real"},
        {"real", "-1", "real"},
        {"name", "\"\"", "name"},
        {"name", "\"12345678\"", "name"},
        {"name", "1", "name"},
        {"text", "\"12345678901\"", "text"},
        {"labels", "[]", "labels"},
        {"labels", "{\"a\": 1}", "labels.a"},
        {"labels", "{\"a\": \"\", \"b\": \"\", \"c\": \"\"}", "labels"},
        {"counts", "1", "counts"},
        {"counts", "{\"loads\": -1}", "counts.loads"},
        {"inner", "1", "inner"},
        {"inner", "{}", "inner.number"},
        {"inner", "{\"number\": 0}", "inner.number"},
        {"inner", "{\"number\": 10}", "inner.number"},
        {"pointed", "{\"number\": 10}", "pointed.number"},
        {"words", "{}", "words"},
        {"words", "[\"a\", 1]", "words[1]"},
        {"words", "[\"a\", \"b\", \"c\", \"d\"]", "words"},
        {"list", "[{\"number\": 1}, {\"number\": 0}]", "list[1].number"},
        {"list", "[{}, {}, {}]", "list"},
        {"array", "[\"12345678\"]", "array[0]"},
        {"array", "[\"\", \"\", \"\"]", "array"},
        {"few", "[{\"number\": 0}]", "few[0].number"},
        {"second", NULL, "second"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture f;
        struct error e = {0};
        set_up(&f);
        struct sample ret = {.whole = 77};
        int r = parse_with(&f, &e, cases[i][0], cases[i][1], &ret);
        if (r != -ERR_CORRUPT || e.code != ERR_CORRUPT || strcmp(e.field, cases[i][2]) != 0)
            fail_msg("%s = %s: %d, '%s', %s", cases[i][0], cases[i][1], r, e.field, e.text);
        assert_int_equal(ret.whole, 77);
        tear_down(&f);
    }
}

static void fields_of_neighbouring_version_are_accepted(void **state)
{
    (void)state;
    struct fixture f;
    struct sample ret;
    set_up(&f);
    assert_int_equal(parse_with(&f, NULL, "later", "[1]", &ret), 0);
    assert_int_equal(parse_with(&f, NULL, "code", "null", &ret), 0);
    assert_int_equal(ret.code, -1);
    assert_true(ret.gauge == -1);
    assert_int_equal(parse_with(&f, NULL, "first", NULL, &ret), 0);
    assert_false(ret.has_part);
    assert_int_equal(parse_with(&f, NULL, "counts", "{\"later\": \"x\", \"loads\": 2}", &ret), 0);
    assert_int_equal(ret.counts[0], 2);
    assert_int_equal(
        parse_with(&f, NULL, "few", "[{\"number\": 1}, {\"number\": 2}, {\"later\": 1}]", &ret), 0);
    assert_int_equal(ret.few_count, 2);
    assert_int_equal(parse_with(&f, NULL, "cut", "\"123456\xc3\xa4\"", &ret), 0);
    assert_string_equal(ret.cut, "123456");
    tear_down(&f);
}

static void fields_malformed_object_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "{", "[]", "1", "{\"flag\":1,\"flag\":1}"};
    struct fixture f;
    struct sample ret;
    set_up(&f);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_int_equal(parse(&f, NULL, FIELDS_MESSAGE, texts[i], &ret), -ERR_CORRUPT);
    tear_down(&f);
}

static void fields_arena_exhausted_returns_no_memory(void **state)
{
    (void)state;
    static const char *const members[][2] = {{"text", "\"aaaaaaaaaa\""},
                                             {"labels", "{\"a\": \"aaaaaaaaaa\"}"},
                                             {"words", "[\"aaaaaaaaaa\"]"},
                                             {"list", "[{\"number\": 1}]"},
                                             {"pointed", "{\"number\": 1}"}};
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        struct fixture f;
        struct sample ret;
        struct error e = {0};
        set_up(&f);
        f.arena.limit_bytes = 0;
        assert_int_equal(parse_with(&f, &e, members[i][0], members[i][1], &ret), -ERR_NO_MEMORY);
        assert_int_equal(e.code, ERR_NO_MEMORY);
        tear_down(&f);
    }
}

/* ---- the tables of objects.c ---- */

static bool has_member(const struct fields *table, const char *key, enum fields_form form)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct field *f = &table->members[i];
        if (strcmp(f->key, key) == 0 && (!f->in || f->in & form))
            return true;
    }
    return false;
}

static void outcome_reaches_message_record_and_api(void **state)
{
    (void)state;
    static const char *const keys[] = {
#define OUTCOME(type, member, array, key, ...) key,
#include "model/outcome.def"
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (!has_member(&attempt_report_fields, keys[i], FIELDS_MESSAGE) ||
            !has_member(&attempt_fields, keys[i], FIELDS_STORED) ||
            !has_member(&attempt_fields, keys[i], FIELDS_API))
            fail_msg("%s is not in all of them", keys[i]);
    /* The workload's user can write exit.json, and must not choose the verdict. */
    assert_true(has_member(&attempt_report_fields, "exit_code", FIELDS_FILE));
    assert_false(has_member(&attempt_report_fields, "verdict", FIELDS_FILE));
}

/* The members in `passing` identify the attempt or determine the state of the workload. All other
 * members must be stored and shown. */
static void report_lasting_members_are_persisted(void **state)
{
    (void)state;
    static const char *const passing[] = {"workload", "attempt",    "phase",   "cleared",
                                          "turn",     "suspension", "evicted", "advice"};
    for (size_t i = 0; i < attempt_report_fields.count; i++) {
        const char *key = attempt_report_fields.members[i].key;
        bool passes = false;
        for (size_t k = 0; k < sizeof passing / sizeof passing[0]; k++)
            passes = passes || strcmp(key, passing[k]) == 0;
        if (!passes && (!has_member(&attempt_fields, key, FIELDS_STORED) ||
                        !has_member(&attempt_fields, key, FIELDS_API)))
            fail_msg("%s of a report is neither stored nor shown", key);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_omits_unset_newer_members),
        cmocka_unit_test(api_has_every_member),
        cmocka_unit_test(absent_object_is_null),
        cmocka_unit_test(wall_time_key_depends_on_form),
        cmocka_unit_test(fields_written_read_back_equal),
        cmocka_unit_test(fields_invalid_member_is_named),
        cmocka_unit_test(fields_of_neighbouring_version_are_accepted),
        cmocka_unit_test(fields_malformed_object_is_refused),
        cmocka_unit_test(fields_arena_exhausted_returns_no_memory),
        cmocka_unit_test(outcome_reaches_message_record_and_api),
        cmocka_unit_test(report_lasting_members_are_persisted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
