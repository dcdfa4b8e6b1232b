/*
 * Declarations inside endpoint/: the head of a request as text (http_head.c), routing
 * (http_route.c) and the limits of connections (http.c).
 */
#pragma once
#include "base/version.h"
#include "endpoint/http.h"

/* A header of every response, by which clients check that the versions agree. */
#define HTTP_SERVER_LINE "Server: gpumux/" GPUMUX_VERSION "\r\n"

enum {
    HTTP_HEADERS_MAX = 64,
    HTTP_QUERY_MAX = 16,
    HTTP_REQUEST_MS = 30000,    /* longest time from a request's first byte to its last */
    HTTP_IDLE_MS = 300000,      /* longest time between two requests of one connection */
    HTTP_ANSWER_MS = 30000,     /* longest time in which the client takes no byte of its response */
    HTTP_HANDSHAKE_MS = 10000,  /* longest time from a TCP connection to the end of its handshake */
    HTTP_HANDSHAKES_MAX = 1024, /* largest number of handshakes in progress */
    HTTP_LINGER_MS = 2000,      /* time in which a client may still send after its last response */
    HTTP_CONNECTIONS_PART = 8,  /* divisor of connections_max: limit for one local user */
    HTTP_CONNECTIONS_LEAST = 4, /* smallest limit for one local user */
    HTTP_CONNECTIONS_KEPT = 16, /* most connections reserved for root and the daemon's user */
    HTTP_INPUT_MAX = 256 << 20, /* bytes buffered for requests larger than HTTP_HEADER_MAX */
    HTTP_INPUT_PART = 4,        /* divisor of HTTP_INPUT_MAX: limit for one user */
    HTTP_REFUSAL_MAX = 1024,    /* bytes of the response to a refused connection */
};

struct http_pair {
    const char *name, *value;
};

/* The head of a request. Strings point into the parsed text. */
struct http_request_head {
    enum http_method method; /* HTTP_METHOD_END: a method that the server does not support */
    bool is_head;            /* HEAD: the response has no body */
    bool keep_alive;
    bool is_1_0;          /* HTTP/1.0, which lacks chunked bodies */
    bool expect_continue; /* the client sends the body after "100 Continue" */
    size_t content_length;
    const char *path; /* still percent-encoded */
    size_t query_count, header_count;
    struct http_pair query[HTTP_QUERY_MAX]; /* percent-decoded */
    struct http_pair headers[HTTP_HEADERS_MAX];
};

/*
 * Returns the length of the head at the start of a request, including its empty line; 0 if the head
 * is incomplete. *scanned, 0 at first, is the number of bytes that earlier calls searched.
 */
size_t http_head_length(const char *text, size_t length, size_t *scanned);
/* Parses a head of that length in place; a writable byte must follow the head. Returns 0,
 * -ERR_SYNTAX, -ERR_TOO_LARGE or -ERR_UNSUPPORTED. */
int http_head_parse(struct error *e, char *text, size_t length, struct http_request_head *ret);
/* Returns a header's value, or NULL. The name is case-insensitive. */
const char *http_head_find(const struct http_request_head *head, const char *name);
/* Decodes %xx in place, and with plus_is_space also '+'. Returns false if the text is malformed, or
 * decodes to NUL or invalid UTF-8. */
bool http_decode(char *text, bool plus_is_space);

struct http_parts {
    size_t count;
    struct http_pair items[HTTP_PATH_PARTS_MAX]; /* each name ends at the '}' of the route's path */
};

/* Finds the route of a method and path. Returns 0, -ERR_NOT_FOUND, -ERR_SYNTAX for a path that
 * cannot be decoded, or -ERR_METHOD; *ret_allowed then has a bit for each method of the path. */
int http_route_find(struct error *e, const struct http_route *routes, struct arena *arena,
                    enum http_method method, const char *path, const struct http_route **ret_route,
                    struct http_parts *ret_parts, unsigned *ret_allowed);
const char *http_method_name(enum http_method method);

struct http_timeouts {
    int64_t request_ms, idle_ms, answer_ms, handshake_ms;
};
/* Replaces the time limits above, for tests. The server checks deadlines four times within the
 * shortest limit, and at least once per second. */
void http_server_set_timeouts(struct http_server *s, const struct http_timeouts *timeouts);
