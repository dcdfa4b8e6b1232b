/*
 * Parser of HTTP/1.1 responses, without input and output. The caller feeds bytes in pieces of any
 * size, and a callback receives the body. The parser understands Content-Length, chunked bodies and
 * bodies that end with the connection, and skips 1xx responses. Ambiguous responses (two lengths, a
 * length beside chunks, spaces before the colon, folded lines) are refused.
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

/* Receives a piece of the body. A result other than 0 (an -ERR_x) stops the parser, which returns
 * that result. */
typedef int (*http_body_fn)(void *arg, const char *bytes, size_t length);

struct http_head {
    int status;
    char content_type[HTTP_PARSE_TYPE_MAX]; /* without parameters, in lower case; "" if absent */
    char server[HTTP_PARSE_SERVER_MAX];     /* first product, such as "gpumux/0.1.0"; "" if
                                             * absent */
    bool keep_alive;                        /* the connection can serve another request */
};

enum http_parse_state {
    HTTP_PARSE_STATUS_LINE,
    HTTP_PARSE_HEADERS,
    HTTP_PARSE_FIXED_BODY,
    HTTP_PARSE_CHUNK_SIZE,
    HTTP_PARSE_CHUNK_DATA,
    HTTP_PARSE_CHUNK_END,
    HTTP_PARSE_TRAILERS,
    HTTP_PARSE_BODY_TO_END, /* until the connection ends */
    HTTP_PARSE_DONE,
};

/* Members are private to the parser; use the functions. */
struct http_parser {
    enum http_parse_state state;
    struct http_head head;
    struct str line;
    size_t head_bytes;
    uint64_t remaining; /* bytes left of the fixed body or the chunk */
    bool has_length, chunked;
    http_body_fn on_body;
    void *arg;
};

void http_parser_init(struct http_parser *p, http_body_fn on_body, void *arg);
void http_parser_done(struct http_parser *p);
/*
 * Parses bytes until the response is complete. Sets *ret_used to the number of bytes parsed, less
 * than `length` only if the response is complete. Returns 0, -ERR_PROTOCOL, -ERR_TOO_LARGE,
 * -ERR_NO_MEMORY or the result of on_body.
 */
int http_parser_feed(struct error *e, struct http_parser *p, const char *bytes, size_t length,
                     size_t *ret_used);
/* Informs the parser that the peer closed the connection. Returns 0, or -ERR_PROTOCOL in the middle
 * of the response. */
int http_parser_end(struct error *e, struct http_parser *p);
/* Returns the status and the headers; NULL until the parser has read all of them. */
const struct http_head *http_parser_head(const struct http_parser *p);
bool http_parser_is_done(const struct http_parser *p);
