/*
 * Inside endpoint/: a request's head as text (http_head.c), routing (http_route.c), connections and
 * answers (http.c).
 */
#pragma once
#include "base/version.h"
#include "endpoint/http.h"

/* In every answer: clients look whether they go with this version. */
#define HTTP_SERVER_LINE "Server: gpumux/" GPUMUX_VERSION "\r\n"

enum {
    HTTP_HEADERS_MAX = 64,
    HTTP_QUERY_MAX = 16,
    HTTP_REQUEST_MS = 30000,    /* from a request's first byte to its last */
    HTTP_IDLE_MS = 300000,      /* between two requests of one connection */
    HTTP_ANSWER_MS = 30000,     /* without the client taking any byte of its answer */
    HTTP_HANDSHAKE_MS = 10000,  /* from a TCP connection to its being usable */
    HTTP_HANDSHAKES_MAX = 1024, /* under way at a time; more connections are closed */
    HTTP_LINGER_MS = 2000,      /* that an answered client may still send what it began */
    HTTP_CONNECTIONS_PART = 8,  /* one user of this machine has such a part of them … */
    HTTP_CONNECTIONS_LEAST = 4, /* … and at least so many */
    HTTP_CONNECTIONS_KEPT = 16, /* for root and our own user; of few, such a part */
    HTTP_INPUT_MAX = 256 << 20, /* bytes kept for large requests that are coming in … */
    HTTP_INPUT_PART = 4,        /* … and one user has such a part of them; see HTTP_HEADER_MAX */
    HTTP_REFUSAL_MAX = 1024,    /* bytes of the answer to a connection too many */
};

struct http_pair {
    const char *name, *value;
};

/* The first lines of a request. Strings lie in the text that was parsed. */
struct http_request_head {
    enum http_method method; /* HTTP_METHOD_END: one that we do not serve */
    bool is_head;            /* HEAD: answered without a body */
    bool keep_alive;
    bool is_1_0;          /* HTTP/1.0: knows no chunks */
    bool expect_continue; /* the body comes after we said that it may */
    size_t content_length;
    const char *path; /* still encoded */
    size_t query_count, header_count;
    struct http_pair query[HTTP_QUERY_MAX]; /* decoded */
    struct http_pair headers[HTTP_HEADERS_MAX];
};

/*
 * Length of the head at the start of a request, its empty line included; 0: not all there yet.
 * *scanned: how far an earlier call looked, 0 at first.
 */
size_t http_head_length(const char *text, size_t length, size_t *scanned);
/* Parses a head of that length, which it changes and which must be followed by a writable byte.
 * -ERR_SYNTAX, -ERR_TOO_LARGE, -ERR_UNSUPPORTED. */
int http_head_parse(struct error *e, char *text, size_t length, struct http_request_head *ret);
/* Case-insensitive; NULL: not there. */
const char *http_head_find(const struct http_request_head *head, const char *name);
/* Decodes %xx in place (and '+' where plus_is_space). False: not valid, or not UTF-8
 * without NUL. */
bool http_decode(char *text, bool plus_is_space);

struct http_parts {
    size_t count;
    struct http_pair items[HTTP_PATH_PARTS_MAX]; /* names end at '}' of the route's path */
};

/* The route of this method and path. -ERR_NOT_FOUND; -ERR_METHOD, then *ret_allowed has a bit for
 * each method that the path takes; -ERR_SYNTAX for a path that cannot be decoded. */
int http_route_find(struct error *e, const struct http_route *routes, struct arena *arena,
                    enum http_method method, const char *path, const struct http_route **ret_route,
                    struct http_parts *ret_parts, unsigned *ret_allowed);
const char *http_method_name(enum http_method method);

struct http_timeouts {
    int64_t request_ms, idle_ms, answer_ms, handshake_ms;
};
/* Others than the above, for tests. Connections are looked at four times a second. */
void http_server_set_timeouts(struct http_server *s, const struct http_timeouts *timeouts);
