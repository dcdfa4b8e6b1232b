#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/proxy_internal.h"

enum { REQUEST_BYTES_MIN = sizeof "A / HTTP/1.0\n\n" - 1, CAPACITY_FIRST = 4 };
static_assert(RELAY_BYTES / REQUEST_BYTES_MIN + PIPELINE_MAX + 1 < REQUESTS_MAX,
              "the requests of one read fit");

/* ---- time ---- */

/* Returns for how long the client has kept this connection from reading answers. */
static int64_t stalled_us(const struct connection *c, int64_t now_us)
{
    return c->stalled_us + (c->stalled_since_us ? now_us - c->stalled_since_us : 0);
}

static void start_clock(const struct connection *c, struct request *r, int64_t now_us)
{
    r->start_us = now_us;
    r->stalled_us = stalled_us(c, now_us);
}

static int64_t elapsed_us(const struct connection *c, const struct request *r, int64_t now_us)
{
    return now_us - r->start_us - (stalled_us(c, now_us) - r->stalled_us);
}

/* ---- one answer ---- */

static void take_first(struct connection *c, const struct request *r, struct answer *a,
                       int64_t now_us)
{
    if (!a->has_body)
        proxy_measured(c->proxy, CONTROL_TIME_FIRST, elapsed_us(c, r, now_us));
    a->has_body = true;
}

static void take_piece(struct connection *c, struct answer *a, uint64_t bytes, int64_t now_us)
{
    if (a->last_us && !a->is_bulk)
        proxy_measured(c->proxy, CONTROL_TIME_BETWEEN, now_us - a->last_us);
    a->last_us = now_us;
    a->is_bulk = bytes >= BULK_BYTES;
}

static void take_end(struct connection *c, const struct request *r, struct answer *a,
                     int64_t now_us)
{
    take_first(c, r, a, now_us);
    proxy_measured(c->proxy, CONTROL_TIME_LATENCY, elapsed_us(c, r, now_us));
}

/* ---- modes ---- */

static void become_tunnel(struct connection *c)
{
    c->mode = MODE_TUNNEL;
    c->awaits_upgrade = false;
    free(c->requests);
    c->requests = NULL;
    c->request_capacity = 0;
    c->requests_popped = c->requests_pushed;
}

static struct stream *open_stream(struct connection *c, uint32_t id)
{
    if (c->stream_count == c->stream_capacity) {
        uint32_t capacity = c->stream_capacity ? 2 * c->stream_capacity : CAPACITY_FIRST;
        struct stream *grown =
            capacity > STREAMS_MAX ? NULL : realloc(c->streams, capacity * sizeof *grown);
        if (!grown)
            return NULL; /* one stream more that nobody measures */
        c->streams = grown;
        c->stream_capacity = capacity;
    }
    struct stream *s = &c->streams[c->stream_count++];
    *s = (struct stream){.id = id};
    return s;
}

/* `preface_used`: bytes of the client's preface that were read. */
static void become_h2(struct connection *c, size_t preface_used)
{
    c->mode = MODE_H2;
    c->awaits_upgrade = false;
    h2_init(&c->h2[CLIENT], preface_used);
    h2_init(&c->h2[BACKEND], H2_PREFACE_BYTES);
}

/* ---- HTTP/1.x ---- */

uint64_t observe_open_requests(const struct connection *c)
{
    return c->requests_pushed - c->requests_popped;
}

static struct request *request_at(const struct connection *c, uint64_t number)
{
    return &c->requests[number & (c->request_capacity - 1)];
}

static bool push_request(struct connection *c, const struct http1_head *head, int64_t now_us)
{
    if (observe_open_requests(c) == c->request_capacity) {
        uint32_t capacity = c->request_capacity ? 2 * c->request_capacity : CAPACITY_FIRST;
        struct request *grown = capacity > REQUESTS_MAX ? NULL : malloc(capacity * sizeof *grown);
        if (!grown)
            return false;
        for (uint64_t i = c->requests_popped; i < c->requests_pushed; i++)
            grown[i & (capacity - 1)] = *request_at(c, i);
        free(c->requests);
        c->requests = grown;
        c->request_capacity = capacity;
    }
    struct request *r = request_at(c, c->requests_pushed++);
    *r = (struct request){.method = head->method, .upgrade = head->upgrade};
    start_clock(c, r, now_us);
    return true;
}

static bool may_switch(const struct request *r)
{
    return r->upgrade != HTTP1_UPGRADE_NONE || r->method == HTTP1_METHOD_CONNECT;
}

/* The whole request has arrived. */
static void end_request(struct connection *c, int64_t now_us)
{
    if (observe_open_requests(c) == 0)
        return; /* it was answered early */
    struct request *r = request_at(c, c->requests_pushed - 1);
    if (observe_open_requests(c) == 1 && c->answer.begun)
        return;
    start_clock(c, r, now_us);
    c->awaits_upgrade = may_switch(r);
}

/* Returns the number of bytes read in this mode. */
static size_t observe_request(struct connection *c, const char *bytes, size_t length,
                              int64_t now_us)
{
    size_t used = 0, step;
    while (c->mode == MODE_HTTP1) {
        if (c->awaits_upgrade && used < length)
            become_tunnel(c); /* it does not wait for the answer */
        enum http1_event event = http1_next(&c->http1[CLIENT], bytes + used, length - used, &step);
        used += step;
        if (event == HTTP1_MORE)
            break;
        if (event == HTTP1_HEAD && !push_request(c, &c->http1[CLIENT].head, now_us))
            become_tunnel(c);
        else if (event == HTTP1_END)
            end_request(c, now_us);
        else if (event == HTTP1_H2 && c->requests_pushed == 0)
            become_h2(c, H2_PREFACE_LINE_BYTES);
        else if (event == HTTP1_H2 || event == HTTP1_BAD)
            become_tunnel(c);
    }
    return used;
}

static void take_switch(struct connection *c, const struct http1_head *head)
{
    struct request request = *request_at(c, c->requests_popped);
    bool is_h2 = head->status == 101 && head->upgrade == HTTP1_UPGRADE_H2C;
    become_tunnel(c);
    if (!is_h2)
        return;
    become_h2(c, 0);
    struct stream *s = open_stream(c, 1);
    if (s)
        s->request = request;
    c->stream_last = 1;
}

static void take_answer_head(struct connection *c)
{
    const struct http1_head *head = &c->http1[BACKEND].head;
    bool connects = c->http1[BACKEND].answers == HTTP1_METHOD_CONNECT && head->status / 100 == 2;
    c->interim = head->status / 100 == 1;
    if (head->status == 101 || connects)
        take_switch(c, head);
    else if (!c->interim) {
        if (may_switch(request_at(c, c->requests_popped)))
            c->awaits_upgrade = false;
        c->answer = (struct answer){.begun = true};
    }
}

static bool is_measured(const struct connection *c)
{
    return !c->interim && c->http1[BACKEND].head.status < STATUS_FAILED;
}

static void end_answer(struct connection *c, int64_t now_us)
{
    if (c->interim) {
        c->interim = false;
        return;
    }
    if (is_measured(c))
        take_end(c, request_at(c, c->requests_popped), &c->answer, now_us);
    c->requests_popped++;
    c->answer = (struct answer){0};
}

static size_t observe_answer(struct connection *c, const char *bytes, size_t length, int64_t now_us)
{
    struct http1_parser *p = &c->http1[BACKEND];
    size_t used = 0, step;
    while (c->mode == MODE_HTTP1) {
        if (observe_open_requests(c) == 0 && used < length) {
            become_tunnel(c); /* an answer without a request */
            break;
        }
        if (observe_open_requests(c) == 0)
            break;
        p->answers = request_at(c, c->requests_popped)->method;
        enum http1_event event = http1_next(p, bytes + used, length - used, &step);
        used += step;
        if (event == HTTP1_MORE)
            break;
        if (event == HTTP1_HEAD)
            take_answer_head(c);
        else if (event == HTTP1_BODY && is_measured(c))
            take_first(c, request_at(c, c->requests_popped), &c->answer, now_us);
        else if (event == HTTP1_CHUNK && is_measured(c))
            take_piece(c, &c->answer, p->chunk_bytes, now_us);
        else if (event == HTTP1_END)
            end_answer(c, now_us);
        else if (event == HTTP1_BAD)
            become_tunnel(c);
    }
    return used;
}

/* ---- HTTP/2 ---- */

static struct stream *find_stream(const struct connection *c, uint32_t id)
{
    for (uint32_t i = c->stream_count; i > 0; i--)
        if (c->streams[i - 1].id == id)
            return &c->streams[i - 1];
    return NULL;
}

static void drop_stream(struct connection *c, struct stream *s)
{
    *s = c->streams[--c->stream_count];
}

static void take_client_frame(struct connection *c, const struct h2_frame *f, int64_t now_us)
{
    struct stream *s = NULL;
    if (f->type == H2_HEADERS && f->stream > c->stream_last && f->stream % 2 == 1) {
        c->stream_last = f->stream;
        s = open_stream(c, f->stream);
        if (s)
            start_clock(c, &s->request, now_us);
    } else {
        s = find_stream(c, f->stream);
    }
    if (!s)
        return;
    bool ends = (f->type == H2_DATA || f->type == H2_HEADERS) && f->flags & H2_FLAG_END_STREAM;
    if (f->type == H2_RST_STREAM)
        drop_stream(c, s);
    else if (ends && !s->answer.begun)
        start_clock(c, &s->request, now_us);
}

static void take_server_frame(struct connection *c, const struct h2_frame *f, int64_t now_us)
{
    struct stream *s = find_stream(c, f->stream);
    if (!s)
        return;
    if (f->type == H2_RST_STREAM) {
        drop_stream(c, s);
        return;
    }
    if (f->type != H2_DATA && f->type != H2_HEADERS)
        return;
    s->answer.begun = true;
    if (f->type == H2_DATA && f->length > 0) {
        take_first(c, &s->request, &s->answer, now_us);
        take_piece(c, &s->answer, f->length, now_us);
    }
    if (!(f->flags & H2_FLAG_END_STREAM))
        return;
    /* gRPC answers a failed call with headers alone. */
    if (s->answer.has_body)
        take_end(c, &s->request, &s->answer, now_us);
    drop_stream(c, s);
}

static void observe_frames(struct connection *c, enum side from, const char *bytes, size_t length,
                           int64_t now_us)
{
    struct h2_reader *r = &c->h2[from];
    size_t used = 0, step;
    for (;;) {
        enum h2_event event = h2_next(r, bytes + used, length - used, &step);
        used += step;
        if (event == H2_BAD)
            become_tunnel(c);
        if (event != H2_FRAME)
            return;
        if (from == CLIENT)
            take_client_frame(c, &r->frame, now_us);
        else
            take_server_frame(c, &r->frame, now_us);
    }
}

/* ---- both ---- */

void observe(struct connection *c, enum side from, const char *bytes, size_t length, int64_t now_us)
{
    size_t used = 0;
    if (c->mode == MODE_HTTP1)
        used = from == CLIENT ? observe_request(c, bytes, length, now_us)
                              : observe_answer(c, bytes, length, now_us);
    if (c->mode == MODE_H2)
        observe_frames(c, from, bytes + used, length - used, now_us);
}

void observe_end(struct connection *c, int64_t now_us)
{
    if (c->mode == MODE_HTTP1 && http1_ends_with_connection(&c->http1[BACKEND]))
        end_answer(c, now_us);
}

bool observe_is_idle(const struct connection *c)
{
    if (c->mode == MODE_H2)
        return c->stream_count == 0;
    return c->mode == MODE_HTTP1 && observe_open_requests(c) == 0 &&
           http1_is_idle(&c->http1[CLIENT]) && http1_is_idle(&c->http1[BACKEND]);
}

void observe_reconnect(struct connection *c)
{
    http1_init(&c->http1[CLIENT], false);
    http1_init(&c->http1[BACKEND], true);
    c->answer = (struct answer){0};
    c->interim = false;
}
