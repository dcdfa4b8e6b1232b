/*
 * Framing of HTTP/1.x messages: finds where heads, chunks and messages end. The proxy forwards the
 * bytes unchanged, so that the parser keeps no header and no body.
 *
 * The caller feeds the bytes of one direction of a connection in pieces of any size, and calls
 * http1_next() until the result is HTTP1_MORE. A body's length comes from Transfer-Encoding,
 * Content-Length or the end of the connection, as RFC 9112 section 6.3 specifies. A head with two
 * different lengths, an unknown form or more than HTTP1_HEAD_MAX bytes is HTTP1_BAD.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HTTP1_LINE_MAX = 256,      /* bytes of a line that are examined; longer lines may pass */
    HTTP1_HEAD_MAX = 64 << 10, /* bytes of a start line with its headers, or of the trailers */
};

enum http1_event {
    HTTP1_MORE,  /* all bytes are used */
    HTTP1_HEAD,  /* the head is complete: parser->head */
    HTTP1_BODY,  /* the bytes used belong to the body, and are not empty */
    HTTP1_CHUNK, /* a chunk is complete: parser->chunk_bytes */
    HTTP1_END,   /* the message is complete; the next message follows */
    HTTP1_H2,    /* a request: "PRI * HTTP/2.0", the first line of HTTP/2's preface, was used */
    HTTP1_BAD,   /* no HTTP/1.x; the parser must not be used again */
};

/* Method of a request, as far as the framing of its response depends on the method. */
enum http1_method { HTTP1_METHOD_OTHER, HTTP1_METHOD_HEAD, HTTP1_METHOD_CONNECT };

enum http1_upgrade { HTTP1_UPGRADE_NONE, HTTP1_UPGRADE_OTHER, HTTP1_UPGRADE_H2C };

struct http1_head {
    enum http1_method method; /* of a request */
    int status;               /* of a response */
    enum http1_upgrade upgrade;
    bool close; /* the sender closes the connection after the message */
    bool chunked, has_length;
    uint64_t length;
};

enum http1_state {
    HTTP1_AT_START_LINE,
    HTTP1_AT_HEADERS,
    HTTP1_AT_BODY,
    HTTP1_AT_CHUNK_SIZE,
    HTTP1_AT_CHUNK_DATA,
    HTTP1_AT_CHUNK_END,
    HTTP1_AT_TRAILERS,
    HTTP1_AT_BODY_TO_END, /* until the connection ends */
    HTTP1_AT_END,
    HTTP1_AT_TUNNEL, /* after a response to CONNECT or Upgrade: no more HTTP/1.x */
    HTTP1_AT_ERROR,
};

/* All members but `head`, `chunk_bytes` and `answers` are private. */
struct http1_parser {
    enum http1_state state;
    bool is_response, unknown_coding;
    /* A response: method of the request, which the caller sets before the response's head. */
    enum http1_method answers;
    struct http1_head head;
    uint64_t remaining, chunk_bytes;
    size_t head_bytes, line_length;
    char line[HTTP1_LINE_MAX];
};

void http1_init(struct http1_parser *p, bool is_response);
/* Parses up to the next event. *ret_used: number of bytes used, which may be 0 with any event. */
enum http1_event http1_next(struct http1_parser *p, const char *bytes, size_t length,
                            size_t *ret_used);
/* Returns whether the parser is between two messages. */
bool http1_is_idle(const struct http1_parser *p);
/* Returns whether the end of the connection completes the message. */
bool http1_ends_with_connection(const struct http1_parser *p);
