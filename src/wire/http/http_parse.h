/*
 * Parser of HTTP/1.1 responses, apart from input and output: bytes go in as they come, in pieces of
 * any size; the body comes out through a callback. Understands Content-Length, chunked bodies and
 * bodies that end with the connection; skips 1xx responses. Refuses what is ambiguous (two lengths,
 * a length beside chunks, spaces before the colon, folded lines) instead of guessing.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum {
    HTTP_PARSE_LINE_MAX = 8 << 10,  /* bytes of one header or chunk-size line */
    HTTP_PARSE_HEAD_MAX = 64 << 10, /* bytes of status line and headers together */
    HTTP_PARSE_TYPE_MAX = 64,
    HTTP_PARSE_SERVER_MAX = 64,
};

/* ≠ 0 (an -ERR_x) stops the parser, which then answers with it. */
typedef int (*http_body_fn)(void *arg, const char *bytes, size_t length);

struct http_head {
    int status;
    char content_type[HTTP_PARSE_TYPE_MAX]; /* without parameters, lower case; "" if not said */
    char server[HTTP_PARSE_SERVER_MAX];     /* the first product, "gpumux/0.1.0"; "" if not said */
    bool keep_alive;                        /* the connection may be used again afterwards */
};

enum http_parse_state {
    HTTP_PARSE_STATUS_LINE,
    HTTP_PARSE_HEADERS,
    HTTP_PARSE_FIXED_BODY,
    HTTP_PARSE_CHUNK_SIZE,
    HTTP_PARSE_CHUNK_DATA,
    HTTP_PARSE_CHUNK_END,
    HTTP_PARSE_TRAILERS,
    HTTP_PARSE_BODY_TO_END, /* of the connection */
    HTTP_PARSE_DONE,
};

/* Members are the parser's own; look with the functions. */
struct http_parser {
    enum http_parse_state state;
    struct http_head head;
    struct str line;
    size_t head_bytes;
    uint64_t remaining; /* of the fixed body or the chunk */
    bool has_length, chunked;
    http_body_fn on_body;
    void *arg;
};

void http_parser_init(struct http_parser *p, http_body_fn on_body, void *arg);
void http_parser_done(struct http_parser *p);
/*
 * Takes bytes until the response is whole; *ret_used says how many (less than length only then).
 * -ERR_PROTOCOL, -ERR_TOO_LARGE, -ERR_NO_MEMORY, or what on_body answered.
 */
int http_parser_feed(struct error *e, struct http_parser *p, const char *bytes, size_t length,
                     size_t *ret_used);
/* The other side has closed the connection. -ERR_PROTOCOL: in the middle of the response. */
int http_parser_end(struct error *e, struct http_parser *p);
/* The status and the headers have been read; NULL before. */
const struct http_head *http_parser_head(const struct http_parser *p);
bool http_parser_is_done(const struct http_parser *p);
