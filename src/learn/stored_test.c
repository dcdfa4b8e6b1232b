/* The frame of saved models: saved values are restored, and other bytes are rejected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "learn/stored.h"

enum { BUFFER_MAX = 4096 };

static void write_one(struct str *s, uint32_t version)
{
    size_t start = stored_begin(s, "test", version);
    stored_put_u64(s, 42);
    stored_put_double(s, -1.5);
    stored_end(s, start);
}

static void stored_frame_reads_back_equal(void **state)
{
    (void)state;
    struct str s;
    struct stored_reader r;
    uint32_t version;
    str_init(&s, BUFFER_MAX);
    str_append(&s, "before"); /* a frame may start at any offset */
    size_t start = s.length;
    write_one(&s, 3);
    const char *frame = s.data + start;
    size_t length = s.length - start;
    assert_int_equal(stored_open(NULL, frame, length, "test", 3, &r, &version), 0);
    assert_int_equal(version, 3);
    assert_int_equal(stored_get_u64(&r), 42);
    assert_true(stored_get_double(&r) == -1.5);
    assert_int_equal(stored_close(NULL, &r), 0);

    assert_int_equal(stored_open(NULL, frame, length, "test", 2, &r, &version), -ERR_TOO_NEW);
    assert_int_equal(stored_open(NULL, frame, length, "tent", 3, &r, &version), -ERR_CORRUPT);
    assert_int_equal(stored_open(NULL, frame, length - 1, "test", 3, &r, &version), -ERR_CORRUPT);
    assert_int_equal(stored_open(NULL, "", 0, "test", 3, &r, &version), -ERR_CORRUPT);
    str_done(&s);
}

static void stored_frame_misread_fails_close(void **state)
{
    (void)state;
    struct str s;
    struct stored_reader r;
    uint32_t version;
    const uint64_t infinity = (uint64_t)0x7ff << 52;
    str_init(&s, BUFFER_MAX);
    write_one(&s, 1);
    assert_int_equal(stored_open(NULL, s.data, s.length, "test", 1, &r, &version), 0);
    assert_int_equal(stored_close(NULL, &r), -ERR_CORRUPT); /* unread bytes are left */
    for (int i = 0; i < 3; i++)
        (void)stored_get_u64(&r);
    assert_int_equal(stored_close(NULL, &r), -ERR_CORRUPT);

    assert_int_equal(stored_open(NULL, s.data, s.length, "test", 1, &r, &version), 0);
    assert_int_equal(stored_get_size(&r, 41), 0);
    (void)stored_get_double(&r);
    assert_int_equal(stored_close(NULL, &r), -ERR_CORRUPT);

    str_clear(&s);
    size_t start = stored_begin(&s, "test", 1);
    stored_put_u64(&s, infinity);
    stored_end(&s, start);
    assert_int_equal(stored_open(NULL, s.data, s.length, "test", 1, &r, &version), 0);
    assert_true(stored_get_double(&r) == 0);
    assert_int_equal(stored_close(NULL, &r), -ERR_CORRUPT);
    str_done(&s);
}

static void stored_frame_beyond_capacity_fails(void **state)
{
    (void)state;
    struct str s;
    str_init(&s, 30);
    write_one(&s, 1);
    assert_true(str_failed(&s));
    str_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_frame_reads_back_equal),
        cmocka_unit_test(stored_frame_misread_fails_close),
        cmocka_unit_test(stored_frame_beyond_capacity_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
