#include "proxy/h2.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char client[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                             "\x00\x00\x00\x04\x00\x00\x00\x00\x00" /* SETTINGS */
                             "\x00\x00\x03\x01\x05\x80\x00\x00\x01"
                             "abc"                                   /* HEADERS */
                             "\x00\x00\x00\x00\x01\x00\x00\x00\x03"; /* DATA */

static void frames_are_found_in_pieces_of_any_size(void **state)
{
    (void)state;
    const size_t length = sizeof client - 1;
    for (size_t piece = 1; piece <= length; piece++) {
        struct h2_reader r;
        struct h2_frame found[8];
        size_t count = 0;
        h2_init(&r, 0);
        for (size_t at = 0, step; at < length; at += step) {
            size_t size = length - at < piece ? length - at : piece;
            if (h2_next(&r, client + at, size, &step) == H2_FRAME)
                found[count++] = r.frame;
            assert_true(step <= size && count < 8);
        }
        /* The last frame has no payload: it is complete with its header. */
        assert_int_equal(count, 3);
        assert_true(h2_is_between_frames(&r));
        assert_int_equal(found[1].type, H2_HEADERS);
        assert_int_equal(found[1].flags, 5);
        assert_int_equal(found[1].stream, 1);
        assert_int_equal(found[1].length, 3);
        assert_int_equal(found[2].stream, 3);
    }
}

static void other_preface_is_refused(void **state)
{
    (void)state;
    struct h2_reader r;
    size_t used;
    h2_init(&r, H2_PREFACE_LINE_BYTES);
    assert_int_equal(h2_next(&r, "\r\nXX", 4, &used), H2_BAD);
    assert_int_equal(h2_next(&r, "\r\nSM", 4, &used), H2_BAD);
}

static void goaway_is_one_frame(void **state)
{
    (void)state;
    struct h2_reader r;
    unsigned char frame[H2_GOAWAY_BYTES];
    size_t used;
    h2_write_goaway(frame);
    h2_init(&r, H2_PREFACE_BYTES);
    assert_int_equal(h2_next(&r, (const char *)frame, sizeof frame, &used), H2_FRAME);
    assert_int_equal(used, sizeof frame);
    assert_int_equal(r.frame.type, H2_GOAWAY);
    assert_int_equal(r.frame.stream, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_found_in_pieces_of_any_size),
        cmocka_unit_test(other_preface_is_refused),
        cmocka_unit_test(goaway_is_one_frame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
