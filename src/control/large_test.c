/* Requests as large as they may be: what is accepted can be read again, and none holds up the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

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

static void what_was_accepted_is_read_again(void **state)
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

static void names_within_a_submission_are_resolved(void **state)
{
    struct fixture *f = *state;
    post(f->first, "/v1/workloads",
         "{\"workloads\":[" SPEC("a", ",\"array\":2") "," SPEC("b", "") "," SPEC("a", ",\"array\":"
                                                                                      "3") "," SPEC(
             "x", ",\"after\":[\"a\"]") "," SPEC("y", ",\"after\":[\"a[1]\",\"b:"
                                                      "ended\"]") "," SPEC("z", ",\"after"
                                                                                "\":[\"a["
                                                                                "2]\"]") "]}");
    expect(f, f->first, 201, "\"id\":9,\"name\":\"z\"");
    get(f->first, "/v1/workloads/x");
    expect(f, f->first, 200, "\"after\":[[1,true],[2,true],[4,true],[5,true],[6,true]]");
    get(f->first, "/v1/workloads/y");
    expect(f, f->first, 200, "\"after\":[[2,true],[5,true],[3,false]]");
    get(f->first, "/v1/workloads/z");
    expect(f, f->first, 200, "\"after\":[[6,true]]");

    static const char *const unknown[] = {"c[3]", "c[01]", "d[0]", "e", "c[99999999999999999999]"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        char body[1024];
        snprintf(body, sizeof body,
                 "{\"workloads\":[" SPEC("c", ",\"array\":3") "," SPEC("d", "") "," SPEC(
                     "w", ",\"after\":[\"%s\"]") "," SPEC("e", "") "]}",
                 unknown[i]);
        post(f->first, "/v1/workloads", body);
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

/* They take a moment, not the minutes after which nodes would end their tasks. */
static void many_names_are_resolved_at_once(void **state)
{
    struct fixture *f = *state;
    struct str body;
    str_init(&body, SPEC_TEXT_MAX);
    str_append(&body, "{\"workloads\":[" SPEC("first", ""));
    for (int i = 0; i < ARRAYS; i++)
        str_printf(&body, "," SPEC("a%d", ",\"array\":%d"), i, WORKLOAD_ARRAY_MAX);
    for (int i = 0; i < WAITING; i++)
        put_waiting(&body, i);
    str_append(&body, "," SPEC("last", ",\"after\":[\"nothing\"]") "]}");
    assert_false(str_failed(&body));
    post_large(f, f->first, "/v1/workloads?dry_run=1", str_text(&body));
    expect(f, f->first, 400, "you have no workload named 'nothing'");
    str_done(&body);
}

static void too_many_are_refused_before_anything_is_made_of_them(void **state)
{
    struct fixture *f = *state;
    struct str body;
    str_init(&body, SPEC_TEXT_MAX);
    str_append(&body, "{\"workloads\":[" SPEC("last", ",\"after\":[\"nothing\"]"));
    for (int i = 0; i <= f->config.queue_max / WORKLOAD_ARRAY_MAX; i++)
        str_printf(&body, "," SPEC("a%d", ",\"array\":%d"), i, WORKLOAD_ARRAY_MAX);
    str_append(&body, "]}");
    post(f->first, "/v1/workloads?dry_run=1", str_text(&body));
    expect(f, f->first, 429, "(queue_max)");
    str_done(&body);

    str_init(&body, SPEC_TEXT_MAX);
    str_append(&body, "{\"workloads\":[" SPEC("a", ",\"array\":10000"));
    str_append(&body, "," SPEC("b", ",\"after\":[\"a\"],\"array\":101"));
    str_append(&body, "," SPEC("last", ",\"after\":[\"nothing\"]") "]}");
    post(f->first, "/v1/workloads", str_text(&body));
    expect(f, f->first, 413, "dependencies in all");
    str_done(&body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_accepted_is_read_again, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(names_within_a_submission_are_resolved, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(many_names_are_resolved_at_once, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(too_many_are_refused_before_anything_is_made_of_them,
                                        open_fixture, close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
