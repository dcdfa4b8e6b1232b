#include "proxy/http1.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { TRACE_MAX = 256 };

/* Feeds the text in pieces, and returns the events as letters: head, body, chunk, end, 2 (HTTP/2)
 * and bad. Adjacent pieces of a body are one letter. */
static const char *events(struct http1_parser *p, const char *text, size_t piece,
                          char trace[TRACE_MAX])
{
    static const char letters[] = {[HTTP1_HEAD] = 'h', [HTTP1_BODY] = 'b', [HTTP1_CHUNK] = 'c',
                                   [HTTP1_END] = 'e',  [HTTP1_H2] = '2',   [HTTP1_BAD] = '!'};
    size_t length = strlen(text), count = 0;
    for (size_t at = 0; at < length; at += piece) {
        size_t size = length - at < piece ? length - at : piece, used = 0, step;
        enum http1_event event;
        do {
            event = http1_next(p, text + at + used, size - used, &step);
            used += step;
            assert_true(used <= size && count + 1 < TRACE_MAX);
            bool repeats = event == HTTP1_BODY && count > 0 && trace[count - 1] == 'b';
            if (event != HTTP1_MORE && !repeats)
                trace[count++] = letters[event];
        } while (event != HTTP1_MORE && event != HTTP1_BAD && event != HTTP1_H2);
        if (event != HTTP1_MORE)
            break;
    }
    trace[count] = '\0';
    return trace;
}

static void check(bool is_response, enum http1_method answers, const char *text, const char *wanted)
{
    for (size_t piece = 1; piece <= strlen(text); piece = piece < 8 ? piece + 1 : 2 * piece) {
        struct http1_parser p;
        char trace[TRACE_MAX];
        http1_init(&p, is_response);
        p.answers = answers;
        assert_string_equal(events(&p, text, piece, trace), wanted);
    }
}

static void requests_are_framed(void **state)
{
    (void)state;
    check(false, 0, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "he");
    check(false, 0, "GET / HTTP/1.1\n\nHEAD /b HTTP/1.0\r\n\r\n", "hehe");
    check(false, 0, "\r\n\r\nPOST / HTTP/1.1\r\ncontent-length: 3\r\n\r\nabcGET / HTTP/1.1\r\n\r\n",
          "hbehe");
    check(false, 0,
          "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n"
          "2;x=y\r\nab\r\nA\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\nGET / HTTP/1.1\r\n\r\n",
          "hbcbcehe");
    check(false, 0, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "2");
}

static void bad_requests_are_refused(void **state)
{
    (void)state;
    check(false, 0, "hello\r\n\r\n", "!");
    check(false, 0, "GET / HTTP/3.0\r\n\r\n", "!");
    check(false, 0, "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "!");
    check(false, 0, "GET / HTTP/1.1\r\nContent-Length: 1x\r\n\r\n", "!");
    check(false, 0, "GET / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", "!");
    check(false, 0, "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "h!");
    check(false, 0, "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", "hb!");
}

static void responses_are_framed(void **state)
{
    (void)state;
#define LENGTH "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
    check(true, HTTP1_METHOD_OTHER, LENGTH "ab", "hbe");
    check(true, HTTP1_METHOD_HEAD, LENGTH, "he");
    check(true, HTTP1_METHOD_OTHER, "HTTP/1.1 204 No Content\r\n\r\n", "he");
    check(true, HTTP1_METHOD_OTHER, "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", "he");
    check(true, HTTP1_METHOD_OTHER, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 x\r\n\r\n", "hehe");
    check(true, HTTP1_METHOD_OTHER, "HTTP/1.0 200 OK\r\n\r\nto the end", "hb");
    check(true, HTTP1_METHOD_OTHER, "HTTP/1.1 101 Switching Protocols\r\n\r\nany\r\nbytes", "h");
    check(true, HTTP1_METHOD_CONNECT, "HTTP/1.1 200 OK\r\n\r\nany\r\nbytes", "h");
    check(true, HTTP1_METHOD_OTHER, "HTTP/1.1 2x0 OK\r\n\r\n", "!");
}

static void head_is_read(void **state)
{
    (void)state;
    struct http1_parser p;
    char trace[TRACE_MAX];
    http1_init(&p, false);
    events(&p, "HEAD / HTTP/1.1\r\nUpgrade: websocket, h2c\r\nConnection: upgrade, close\r\n\r\n",
           9, trace);
    assert_int_equal(p.head.method, HTTP1_METHOD_HEAD);
    assert_int_equal(p.head.upgrade, HTTP1_UPGRADE_H2C);
    assert_true(p.head.close);
    assert_true(http1_is_idle(&p));
    http1_init(&p, true);
    events(&p, "HTTP/1.0 503 x\r\nConnection: keep-alive\r\n\r\nx", 64, trace);
    assert_int_equal(p.head.status, 503);
    assert_false(p.head.close);
    assert_true(http1_ends_with_connection(&p));
    assert_false(http1_is_idle(&p));
}

static void long_head_is_refused(void **state)
{
    (void)state;
    struct http1_parser p;
    char line[1024], trace[TRACE_MAX];
    memset(line, 'x', sizeof line);
    memcpy(line, "a: ", 3);
    memcpy(line + sizeof line - 3, "\r\n", 3);
    http1_init(&p, false);
    assert_string_equal(events(&p, "GET / HTTP/1.1\r\n", 64, trace), "");
    for (int i = 0; i < HTTP1_HEAD_MAX / 1023 - 1; i++)
        assert_string_equal(events(&p, line, 700, trace), "");
    for (int i = 0; i < 3 && !trace[0]; i++)
        events(&p, line, 700, trace);
    assert_string_equal(trace, "!");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_framed),  cmocka_unit_test(bad_requests_are_refused),
        cmocka_unit_test(responses_are_framed), cmocka_unit_test(head_is_read),
        cmocka_unit_test(long_head_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
