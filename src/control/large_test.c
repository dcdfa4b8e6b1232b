/* Requests of the largest size: accepted data can be read again, and no request blocks the
 * others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <sqlite3.h>

#include "control/control_fixture.h"
#include "wire/spec.h"

enum { WORDS = 4000, WORD_BYTES = 500, ARRAYS = 9, WAITING = 900 };

#define SPEC(name, rest)                                                                           \
    "{\"name\":\"" name "\",\"directory\":\"/\",\"devices\":0,\"command\":[\"true\"]" rest "}"

static void put_words(struct str *out, const char *key)
{
    char word[WORD_BYTES + 1];
    memset(word, 'x', WORD_BYTES);
    word[WORD_BYTES] = '\0';
    str_printf(out, ",\"%s\":[\"true\"", key);
    for (int i = 0; i < WORDS; i++)
        str_printf(out, ",\"%s\"", word);
    str_append(out, "]");
}

static void large_workload_survives_restart(void **state)
{
    struct fixture *f = *state;
    struct str body;
    str_init(&body, SPEC_TEXT_MAX);
    str_append(&body, "{\"name\":\"large\",\"directory\":\"/\",\"devices\":0");
    put_words(&body, "command");
    put_words(&body, "resume");
    str_append(&body, "}");
    assert_false(str_failed(&body));
    post_large(f, f->first, "/v1/workloads", str_text(&body));
    expect(f, f->first, 201, "\"name\":\"large\"");
    str_done(&body);
    restart_control(f);
    get(f->first, "/v1/workloads/large");
    expect(f, f->first, 200, "\"state\":\"queued\"");
    post(f->first, "/v1/workloads/large/cancel", "");
    expect(f, f->first, 202, "\"state\":\"cancelled\"");
}

static void begin_list(struct str *body, const char *first)
{
    str_init(body, SPEC_TEXT_MAX);
    str_printf(body, "{\"workloads\":[%s", first);
}

static void post_list(struct fixture *f, struct str *body, const char *path)
{
    str_append(body, "]}");
    assert_false(str_failed(body));
    post_large(f, f->first, path, str_text(body));
    str_done(body);
}

static void names_within_submission_are_resolved(void **state)
{
    struct fixture *f = *state;
    struct str body;
    begin_list(&body, SPEC("a", ",\"array\":2"));
    str_append(&body, "," SPEC("b", ""));
    str_append(&body, "," SPEC("a", ",\"array\":3"));
    str_append(&body, "," SPEC("x", ",\"after\":[\"a\"]"));
    str_append(&body, "," SPEC("y", ",\"after\":[\"a[1]\",\"b:ended\"]"));
    str_append(&body, "," SPEC("z", ",\"after\":[\"a[2]\"]"));
    post_list(f, &body, "/v1/workloads");
    expect(f, f->first, 201, "\"id\":9,\"name\":\"z\"");
    get(f->first, "/v1/workloads/x");
    expect(f, f->first, 200, "\"after\":[[1,true],[2,true],[4,true],[5,true],[6,true]]");
    get(f->first, "/v1/workloads/y");
    expect(f, f->first, 200, "\"after\":[[2,true],[5,true],[3,false]]");
    get(f->first, "/v1/workloads/z");
    expect(f, f->first, 200, "\"after\":[[6,true]]");

    static const char *const unknown[] = {"c[3]", "c[01]", "d[0]", "e", "c[99999999999999999999]"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        begin_list(&body, SPEC("c", ",\"array\":3"));
        str_append(&body, "," SPEC("d", ""));
        str_printf(&body, "," SPEC("w", ",\"after\":[\"%s\"]"), unknown[i]);
        str_append(&body, "," SPEC("e", ""));
        post_list(f, &body, "/v1/workloads");
        expect(f, f->first, 400, "you have no workload named");
    }
}

static void put_waiting(struct str *out, int number)
{
    str_printf(out, "," SPEC("w%d", ",\"after\":[\"a0\""), number);
    out->length -= strlen("\"a0\"}");
    for (int i = 0; i < WORKLOAD_AFTER_MAX; i++)
        str_printf(out, "%s\"a%d[%d]\"", i ? "," : "", i % ARRAYS, WORKLOAD_ARRAY_MAX - 1 - i);
    str_append(out, "]}");
}

/* Resolving takes a moment, not the minutes after which nodes would end their tasks. */
static void many_dependency_names_are_resolved(void **state)
{
    struct fixture *f = *state;
    struct str body;
    begin_list(&body, SPEC("first", ""));
    for (int i = 0; i < ARRAYS; i++)
        str_printf(&body, "," SPEC("a%d", ",\"array\":%d"), i, WORKLOAD_ARRAY_MAX);
    for (int i = 0; i < WAITING; i++)
        put_waiting(&body, i);
    str_append(&body, "," SPEC("last", ",\"after\":[\"nothing\"]"));
    post_list(f, &body, "/v1/workloads?dry_run=1");
    expect(f, f->first, 400, "you have no workload named 'nothing'");
}

static void oversized_submission_is_refused_before_expansion(void **state)
{
    struct fixture *f = *state;
    struct str body;
    begin_list(&body, SPEC("last", ",\"after\":[\"nothing\"]"));
    for (int i = 0; i <= f->config.queue_max / WORKLOAD_ARRAY_MAX; i++)
        str_printf(&body, "," SPEC("a%d", ",\"array\":%d"), i, WORKLOAD_ARRAY_MAX);
    post_list(f, &body, "/v1/workloads?dry_run=1");
    expect(f, f->first, 429, "(queue_max)");

    begin_list(&body, SPEC("a", ",\"array\":10000"));
    str_append(&body, "," SPEC("b", ",\"after\":[\"a\"],\"array\":101"));
    str_append(&body, "," SPEC("last", ",\"after\":[\"nothing\"]"));
    post_list(f, &body, "/v1/workloads");
    expect(f, f->first, 413, "dependencies in all");
}

static void post_one(struct fixture *f, const char *name, const char *key, const char *rest)
{
    struct str body;
    str_init(&body, SPEC_TEXT_MAX);
    str_printf(&body, "{\"name\":\"%s\",\"directory\":\"/\",\"devices\":0%s", name, rest);
    put_words(&body, key);
    str_append(&body, strcmp(key, "command") == 0 ? "}" : ",\"command\":[\"true\"]}");
    assert_false(str_failed(&body));
    post_large(f, f->first, "/v1/workloads", str_text(&body));
    expect(f, f->first, 201, name);
    str_done(&body);
}

/* Makes rows as an older gpumux stored them. */
static void forget_summaries(struct fixture *f)
{
    char path[64];
    sqlite3 *db = NULL;
    snprintf(path, sizeof path, "%s/gpumux.db", f->directory);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "UPDATE specs SET summary = NULL", NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
}

/* A list reads no spec that has a summary. Of the other specs each is read once for an array, and
 * different specs only up to a limit for one page. */
static void pages_of_large_specs_are_short(void **state)
{
    struct fixture *f = *state;
    enum { ELEMENTS = 900, LARGE = 6 };
    char rest[64];
    snprintf(rest, sizeof rest, ",\"array\":%d", ELEMENTS);
    post_one(f, "many", "resume", rest);
    get(f->first, "/v1/workloads?limit=1000");
    expect(f, f->first, 200, "\"name\":\"many[0]\"");
    size_t length;
    assert_non_null(strstr(http_client_body(f->first, &length), "\"next\": null"));

    for (int i = 0; i < LARGE; i++)
        post_one(f, "large", "resume", "");
    get(f->first, "/v1/workloads?limit=1000"); /* 2 MB each */
    expect(f, f->first, 200, "\"name\":\"many[0]\"");
    assert_non_null(strstr(http_client_body(f->first, &length), "\"next\": null"));
    forget_summaries(f);
    get(f->first, "/v1/workloads?limit=1000");
    expect(f, f->first, 200, "\"next\": \"902\"");
    assert_null(strstr(http_client_body(f->first, &length), "many["));
    get(f->first, "/v1/workloads?limit=1000&cursor=902");
    expect(f, f->first, 200, "\"id\":901,");
    assert_non_null(strstr(http_client_body(f->first, &length), "\"name\":\"many[0]\""));

    for (int i = 0; i < LARGE; i++)
        post_one(f, "shown", "command", "");
    get(f->first, "/v1/workloads?limit=1000"); /* shown in full for each workload */
    expect(f, f->first, 200, "\"next\": \"908\"");
    forget_summaries(f);
    get(f->first, "/v1/workloads?limit=1000");
    expect(f, f->first, 200, "\"next\": \"910\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(large_workload_survives_restart, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(names_within_submission_are_resolved, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(many_dependency_names_are_resolved, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(oversized_submission_is_refused_before_expansion,
                                        open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(pages_of_large_specs_are_short, open_fixture,
                                        close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
