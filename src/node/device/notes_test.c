/* Notes of devices on their way to control. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>

#include "node/device/notes.h"

static void notes_are_resent_until_acknowledged(void **state)
{
    struct notes *notes = calloc(1, sizeof *notes);
    const struct device_note *sent;
    (void)state;
    assert_non_null(notes);
    assert_int_equal(notes_send(notes, &sent), 0);
    assert_true(notes_add(notes, "GPU-a", false, "first"));
    assert_true(notes_add(notes, "GPU-b", true, "second"));
    assert_int_equal(notes_send(notes, &sent), 2);
    assert_string_equal(sent[0].text, "first");
    assert_true(sent[1].alarm);
    /* The next beat has none of the notes in flight, and new notes wait. */
    assert_true(notes_add(notes, "GPU-a", false, "third"));
    assert_int_equal(notes_send(notes, &sent), 0);
    notes_lost(notes);
    assert_int_equal(notes_send(notes, &sent), 3);
    assert_true(notes_add(notes, "GPU-a", false, "fourth"));
    notes_heard(notes);
    assert_int_equal(notes_send(notes, &sent), 1);
    assert_string_equal(sent[0].text, "fourth");
    notes_heard(notes);
    assert_int_equal(notes_send(notes, &sent), 0);
    free(notes);
}

static void notes_beyond_limit_are_refused(void **state)
{
    struct notes *notes = calloc(1, sizeof *notes);
    const struct device_note *sent;
    (void)state;
    assert_non_null(notes);
    for (int i = 0; i < NODEMSG_NOTES_MAX; i++)
        assert_true(notes_add(notes, "GPU-a", false, "again"));
    assert_false(notes_add(notes, "GPU-a", false, "again"));
    assert_int_equal(notes_send(notes, &sent), NODEMSG_NOTES_MAX);
    notes_heard(notes);
    assert_true(notes_add(notes, "GPU-a", false, "again"));
    free(notes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notes_are_resent_until_acknowledged),
        cmocka_unit_test(notes_beyond_limit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
