#include "wire/http/http_parse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "wire/logline.h"

static int gather(void *arg, const char *bytes, size_t length)
{
    str_append_bytes(arg, bytes, length);
    return 0;
}

struct outcome {
    int error;
    int status;
    bool done, keep_alive;
    size_t used;
    char type[HTTP_PARSE_TYPE_MAX], server[HTTP_PARSE_SERVER_MAX];
    char body[4096];
};

/* Feeds text in pieces of `step` bytes, then the end of the connection if `closes`. */
static struct outcome parse(const char *text, size_t step, bool closes)
{
    struct outcome out = {0};
    struct str body;
    str_init(&body, sizeof out.body - 1);
    struct http_parser p;
    http_parser_init(&p, gather, &body);
    size_t length = strlen(text);
    while (out.used < length && out.error == 0 && !http_parser_is_done(&p)) {
        size_t used = 0, left = length - out.used;
        out.error = http_parser_feed(NULL, &p, text + out.used, left < step ? left : step, &used);
        out.used += used;
    }
    if (closes && out.error == 0)
        out.error = http_parser_end(NULL, &p);
    out.done = http_parser_is_done(&p);
    const struct http_head *head = http_parser_head(&p);
    if (head) {
        out.status = head->status;
        out.keep_alive = head->keep_alive;
        assert_true(str_copy(out.type, sizeof out.type, head->content_type));
        assert_true(str_copy(out.server, sizeof out.server, head->server));
    }
    assert_true(str_copy(out.body, sizeof out.body, str_text(&body)));
    http_parser_done(&p);
    str_done(&body);
    return out;
}

static void response_server_header_keeps_product(void **state)
{
    (void)state;
    struct outcome out = parse("HTTP/1.1 200 OK\r\nserver: gpumux/1.2.3 (Linux)\r\n"
                               "Content-Length: 0\r\n\r\n",
                               7, false);
    assert_string_equal(out.server, "gpumux/1.2.3");
    char text[256];
    snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nServer: %0100d\r\nContent-Length: 0\r\n\r\n",
             1);
    out = parse(text, 7, false);
    assert_true(out.done);
    assert_string_equal(out.server, "");
}

static void response_fixed_body_ends_at_length(void **state)
{
    (void)state;
    const char *text = "HTTP/1.1 201 Created\r\nContent-Type: Application/JSON; charset=utf-8\r\n"
                       "content-length: 5\r\n\r\nhelloHTTP/1.1 200";
    for (size_t step = 1; step < 120; step++) {
        struct outcome out = parse(text, step, false);
        assert_int_equal(out.error, 0);
        assert_true(out.done);
        assert_true(out.keep_alive);
        assert_int_equal(out.status, 201);
        assert_string_equal(out.type, "application/json");
        assert_string_equal(out.body, "hello");
        assert_string_equal(text + out.used, "HTTP/1.1 200");
    }
}

static void response_chunks_are_joined(void **state)
{
    (void)state;
    const char *text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                       "4\r\nWiki\r\nA;x=y\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
    for (size_t step = 1; step < 120; step++) {
        struct outcome out = parse(text, step, false);
        assert_int_equal(out.error, 0);
        assert_true(out.done);
        assert_int_equal(out.used, strlen(text));
        assert_string_equal(out.body, "Wiki0123456789");
    }
    struct outcome cut =
        parse("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nWi", 7, true);
    assert_int_equal(cut.error, -ERR_PROTOCOL);
    assert_string_equal(cut.body, "Wi");
}

static void response_end_without_length_is_found(void **state)
{
    (void)state;
    struct outcome out = parse("HTTP/1.0 200 OK\r\n\r\nuntil the end", 5, true);
    assert_int_equal(out.error, 0);
    assert_true(out.done);
    assert_false(out.keep_alive);
    assert_string_equal(out.body, "until the end");
    out = parse("HTTP/1.1 204 No Content\r\n\r\n", 3, false);
    assert_true(out.done);
    assert_int_equal(out.status, 204);
    out =
        parse("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200\nConnection: close\nContent-Length: 0\n\n",
              4, false);
    assert_true(out.done);
    assert_int_equal(out.status, 200);
    assert_false(out.keep_alive);
}

static void response_malformed_is_refused(void **state)
{
    (void)state;
    const char *const wrong[] = {
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 099 X\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nName : x\r\n\r\n",
        "HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct outcome out = parse(wrong[i], 9, false);
        if (out.error != -ERR_PROTOCOL)
            fail_msg("accepted: %s", wrong[i]);
    }
    assert_int_equal(parse("HTTP/1.1 200 OK\r\n", 4, true).error, -ERR_PROTOCOL);
}

static void response_head_too_large_is_refused(void **state)
{
    (void)state;
    static char text[HTTP_PARSE_HEAD_MAX * 2];
    const char start[] = "HTTP/1.1 200 OK\r\nX: ";
    memset(text, 'a', sizeof text - 1);
    memcpy(text, start, sizeof start - 1);
    assert_int_equal(parse(text, 1000, false).error, -ERR_TOO_LARGE);
    for (size_t i = sizeof start; i + 100 < sizeof text; i += 100)
        memcpy(text + i, "\r\nX: ", 5);
    assert_int_equal(parse(text, 1000, false).error, -ERR_TOO_LARGE);
}

static void logline_parses_only_exact_format(void **state)
{
    (void)state;
    struct logline line;
    const char full[] = "2026-11-15T05:46:15.123456789Z stderr F a b";
    assert_true(logline_parse(full, sizeof full - 1, &line));
    assert_true(line.is_stderr);
    assert_true(line.is_full);
    assert_int_equal(line.length, 3);
    assert_memory_equal(line.text, "a b", 3);
    assert_int_equal(line.time_length, 30);
    const char empty[] = "2026-11-15T05:46:15.123456789Z stdout P";
    assert_true(logline_parse(empty, sizeof empty - 1, &line));
    assert_false(line.is_full);
    assert_int_equal(line.length, 0);
    const char *const wrong[] = {"",
                                 "x",
                                 "2026-11-15T05:46:15.123456789Z stdin F a",
                                 "2026-11-15T05:46:15.123456789Z stdout X a",
                                 "2026-11-15T05:46:15.123456789Z stdout FX a",
                                 "2026-11-15T05:46:15.123456789Z stdout"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(logline_parse(wrong[i], strlen(wrong[i]), &line));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(response_fixed_body_ends_at_length),
        cmocka_unit_test(response_server_header_keeps_product),
        cmocka_unit_test(response_chunks_are_joined),
        cmocka_unit_test(response_end_without_length_is_found),
        cmocka_unit_test(response_malformed_is_refused),
        cmocka_unit_test(response_head_too_large_is_refused),
        cmocka_unit_test(logline_parses_only_exact_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
