/* Functions by which a handler reads its request and responds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "endpoint/connection_internal.h"
#include "wire/json_writer.h"

enum { HEAD_MAX = 512, PROBLEM_MAX = 8192, CHUNK_HEAD_MAX = 24, SEND_AT_ONCE_BYTES = 64 << 10 };

/* ---- the request ---- */

struct http_request *request_new(struct connection *c)
{
    struct http_request *r = malloc(sizeof *r);
    if (!r)
        return NULL;
    r->connection = c;
    r->peer = c->peer;
    r->parts.count = 0;
    r->head.query_count = r->head.header_count = 0;
    r->head.is_head = r->head.is_1_0 = r->head.keep_alive = false;
    r->body = "";
    r->body_length = 0;
    arena_init(&r->arena, HTTP_REQUEST_ARENA_MAX);
    return r;
}

void request_free(struct http_request *r)
{
    if (!r)
        return;
    arena_done(&r->arena);
    free(r);
}

struct arena *http_request_arena(struct http_request *r)
{
    return &r->arena;
}

const struct http_peer *http_request_peer(const struct http_request *r)
{
    return &r->peer;
}

const char *http_request_part(const struct http_request *r, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < r->parts.count; i++) {
        const struct http_pair *part = &r->parts.items[i];
        if (strncmp(part->name, name, length) == 0 && part->name[length] == '}')
            return part->value;
    }
    return NULL;
}

const char *http_request_query(const struct http_request *r, const char *name)
{
    for (size_t i = 0; i < r->head.query_count; i++)
        if (strcmp(r->head.query[i].name, name) == 0)
            return r->head.query[i].value;
    return NULL;
}

const char *http_request_header(const struct http_request *r, const char *name)
{
    return http_head_find(&r->head, name);
}

const char *http_request_body(const struct http_request *r, size_t *ret_length)
{
    *ret_length = r->body_length;
    return r->body;
}

int http_request_check_query(struct error *e, const struct http_request *r,
                             const char *const *known)
{
    for (size_t i = 0; i < r->head.query_count; i++) {
        const char *name = r->head.query[i].name;
        const char *const *k = known;
        while (*k && strcmp(*k, name) != 0)
            k++;
        if (!*k)
            return error_set_field(e, ERR_INVALID, name, "there is no query parameter \"%.64s\"",
                                   name);
    }
    return 0;
}

/* ---- responses ---- */

static const char *status_text(int status)
{
    switch (status) {
    case 200:
        return "OK";
    case 201:
        return "Created";
    case 202:
        return "Accepted";
    case 204:
        return "No Content";
    case 400:
        return "Bad Request";
    case 401:
        return "Unauthorized";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 409:
        return "Conflict";
    case 410:
        return "Gone";
    case 413:
        return "Content Too Large";
    case 415:
        return "Unsupported Media Type";
    case 429:
        return "Too Many Requests";
    case 501:
        return "Not Implemented";
    case 503:
        return "Service Unavailable";
    case 504:
        return "Gateway Timeout";
    default:
        return "Internal Server Error";
    }
}

static void count_answer(struct http_server *s, int status)
{
    s->counters.requests++;
    if (status >= 100 && status < 600)
        s->counters.by_status[status / 100]++;
}

/* Writes the head of a response. extra: complete header lines, or "". */
static void write_head(struct str *out, struct http_server *server, int status, const char *type,
                       const char *extra, size_t length)
{
    str_append(out, "HTTP/1.1 ");
    str_append_uint(out, (uint64_t)status);
    str_append_char(out, ' ');
    str_append(out, status_text(status));
    str_append(out, "\r\n" HTTP_SERVER_LINE "Date: ");
    str_append(out, server_date(server));
    if (status != 204) {
        str_append(out, "\r\nContent-Type: ");
        str_append(out, type);
        str_append(out, "\r\nContent-Length: ");
        str_append_uint(out, length);
    }
    str_append(out, "\r\n");
    str_append(out, extra);
}

/* Sends a response and frees the request. extra: complete header lines, or "". */
static void answer(struct http_request *r, int status, const char *type, const char *extra,
                   const char *body, size_t length)
{
    struct connection *c = r->connection;
    if (!c) {
        request_free(r);
        return;
    }
    bool keep = r->head.keep_alive && !c->at_end;
    struct str head;
    str_init(&head, HEAD_MAX);
    write_head(&head, c->server, status, type, extra, length);
    str_append(&head, keep ? "\r\n" : "Connection: close\r\n\r\n");
    if (str_failed(&head)) {
        str_done(&head);
        c->request = NULL;
        request_free(r);
        connection_close(c);
        return;
    }
    if (status == 204 || r->head.is_head)
        length = 0;
    struct iovec pieces[] = {
        {.iov_base = head.data, .iov_len = head.length},
        {.iov_base = (char *)body, .iov_len = length},
    };
    count_answer(c->server, status);
    c->request = NULL;
    c->close_when_sent = !keep;
    connection_hold(c);
    connection_send(c, pieces, length > 0 ? 2 : 1);
    str_done(&head);
    request_free(r); /* only now, because the body may belong to the request */
    if (connection_release(c))
        connection_answered(c);
}

void http_answer_text(struct http_request *r, int status, const char *type, const char *text,
                      size_t length)
{
    answer(r, status, type, "", text, length);
}

void http_answer_json(struct http_request *r, int status, const char *json, size_t length)
{
    answer(r, status, "application/json", "", json, length);
}

static void answer_problem(struct http_request *r, const struct error *e, const char *extra)
{
    int status = error_http_status(e->code);
    char type[64];
    snprintf(type, sizeof type, "urn:gpumux:problem:%s", error_slug(e->code));
    struct str body;
    struct json_writer w;
    str_init(&body, PROBLEM_MAX);
    json_writer_init(&w, &body);
    json_begin_object(&w);
    json_put_string(json_key(&w, "type"), type);
    json_put_string(json_key(&w, "title"), error_title(e->code));
    json_put_int(json_key(&w, "status"), status);
    json_put_string(json_key(&w, "detail"), e->text);
    if (e->field[0])
        json_put_string(json_key(&w, "field"), e->field);
    json_end_object(&w);
    answer(r, status, "application/problem+json", extra, str_text(&body), body.length);
    str_done(&body);
}

void http_answer_error(struct http_request *r, const struct error *e)
{
    answer_problem(r, e, e->code == ERR_UNAUTHENTICATED ? "WWW-Authenticate: Bearer\r\n" : "");
}

void answer_method_error(struct http_request *r, const struct error *e, unsigned allowed)
{
    char extra[64] = "Allow: ";
    size_t used = strlen(extra);
    for (int i = 0; i < HTTP_METHOD_END; i++)
        if (allowed & (1u << i))
            used += (size_t)snprintf(extra + used, sizeof extra - used, "%s%s",
                                     used > strlen("Allow: ") ? ", " : "",
                                     http_method_name((enum http_method)i));
    snprintf(extra + used, sizeof extra - used, "\r\n");
    answer_problem(r, e, extra);
}

/* ---- streams ---- */

struct http_stream *http_stream_begin(struct http_request *r, const char *content_type,
                                      http_stream_closed closed, void *arg)
{
    struct connection *c = r->connection;
    struct http_stream *s = c ? malloc(sizeof *s) : NULL;
    if (!s) {
        if (c)
            c->request = NULL;
        request_free(r);
        if (c)
            connection_close(c);
        return NULL;
    }
    *s = (struct http_stream){.connection = c,
                              .chunked = !r->head.is_1_0,
                              .token = r->peer.token,
                              .closed = closed,
                              .arg = arg};
    c->close_when_sent = !r->head.keep_alive || r->head.is_1_0;
    char head[HEAD_MAX];
    int used = snprintf(
        head, sizeof head,
        "HTTP/1.1 200 OK\r\n" HTTP_SERVER_LINE "Date: %s\r\nContent-Type: %.100s\r\n"
        "Cache-Control: no-store\r\n%s%s\r\n",
        server_date(c->server), content_type, s->chunked ? "Transfer-Encoding: chunked\r\n" : "",
        c->close_when_sent ? "Connection: close\r\n" : "");
    count_answer(c->server, 200);
    c->server->counters.streams_open++;
    c->request = NULL;
    c->stream = s;
    request_free(r);
    if (connection_send_later(c, head, (size_t)used) < 0) {
        c->stream = NULL;
        c->server->counters.streams_open--;
        free(s);
        connection_close(c);
        return NULL;
    }
    return s;
}

size_t http_stream_pending(const struct http_stream *s)
{
    return evbuffer_get_length(s->connection->out);
}

/* Returns false if the connection ended, and with it the stream. */
static bool flush_stream(struct connection *c)
{
    connection_hold(c);
    connection_flush(c);
    return connection_release(c);
}

bool http_stream_write(struct http_stream *s, const void *data, size_t length)
{
    struct connection *c = s->connection;
    if (length == 0)
        return true; /* an empty chunk would end the body */
    if (http_stream_pending(s) + length > HTTP_STREAM_PENDING_MAX) {
        if (!flush_stream(c))
            return false;
        if (http_stream_pending(s) + length > HTTP_STREAM_PENDING_MAX) {
            connection_close(c);
            return false;
        }
    }
    char head[CHUNK_HEAD_MAX];
    int used = snprintf(head, sizeof head, "%zx\r\n", length);
    if ((s->chunked && connection_send_later(c, head, (size_t)used) < 0) ||
        connection_send_later(c, data, length) < 0 ||
        (s->chunked && connection_send_later(c, "\r\n", 2) < 0)) {
        connection_close(c);
        return false;
    }
    return http_stream_pending(s) < SEND_AT_ONCE_BYTES || flush_stream(c);
}

bool http_stream_event(struct http_stream *s, uint64_t id, const char *event, const char *data)
{
    struct str text;
    str_init(&text, HTTP_STREAM_PENDING_MAX);
    str_printf(&text, "id: %llu\nevent: %s\ndata: ", (unsigned long long)id, event);
    str_append(&text, data);
    str_append(&text, "\n\n");
    bool written = false;
    if (str_failed(&text))
        connection_close(s->connection);
    else
        written = http_stream_write(s, text.data, text.length);
    str_done(&text);
    return written;
}

void http_stream_end(struct http_stream *s)
{
    struct connection *c = s->connection;
    bool ended = s->chunked ? connection_send_later(c, "0\r\n\r\n", 5) == 0 : true;
    c->stream = NULL;
    c->server->counters.streams_open--;
    free(s);
    if (!ended)
        connection_close(c);
    else if (flush_stream(c))
        connection_answered(c);
}

void http_stream_break(struct http_stream *s)
{
    struct connection *c = s->connection;
    if (flush_stream(c)) /* else the connection broke by itself */
        connection_close(c);
}
