/* Requests as large as they may be: what is accepted can be read again, and none holds up the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "control/control_fixture.h"
#include "wire/spec.h"

enum { WORDS = 4000, WORD_BYTES = 500 };

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_accepted_is_read_again, open_fixture,
                                        close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
