#include "submits.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/list.h"
#include "wire/http/http_parse.h"

enum { CONNECTIONS_MAX = 64 };

struct connection {
    struct list link; /* in submits.idle or submits.busy */
    struct submits *submits;
    struct bufferevent *stream;
    struct http_parser parser;
    size_t number;
};

struct submits {
    struct event_base *base;
    const char *socket;
    submits_answered answered;
    void *arg;
    struct list idle, busy;
    size_t count;
};

static int ignore_body(void *arg, const char *bytes, size_t length)
{
    (void)arg, (void)bytes, (void)length;
    return 0;
}

static void connection_free(struct connection *c)
{
    list_remove(&c->link);
    c->submits->count--;
    http_parser_done(&c->parser);
    bufferevent_free(c->stream);
    free(c);
}

static void on_readable(struct bufferevent *stream, void *arg)
{
    struct connection *c = arg;
    struct submits *s = c->submits;
    struct evbuffer *input = bufferevent_get_input(stream);
    size_t length = evbuffer_get_length(input), used = 0;
    const char *bytes = (const char *)evbuffer_pullup(input, -1);
    if (http_parser_feed(NULL, &c->parser, bytes, length, &used) < 0) {
        s->answered(s->arg, c->number, 0);
        connection_free(c);
        return;
    }
    evbuffer_drain(input, used);
    if (!http_parser_is_done(&c->parser))
        return;
    int status = http_parser_head(&c->parser)->status;
    size_t number = c->number;
    http_parser_done(&c->parser);
    http_parser_init(&c->parser, ignore_body, NULL);
    list_remove(&c->link);
    list_append(&s->idle, &c->link);
    s->answered(s->arg, number, status);
}

static void on_event(struct bufferevent *stream, short what, void *arg)
{
    (void)stream;
    struct connection *c = arg;
    struct submits *s = c->submits;
    if (what & BEV_EVENT_CONNECTED)
        return;
    bool was_idle = false;
    list_for_each (it, &s->idle)
        was_idle = was_idle || it == &c->link;
    if (!was_idle)
        s->answered(s->arg, c->number, 0);
    connection_free(c);
}

static struct connection *connection_new(struct submits *s)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct connection *c = s->count < CONNECTIONS_MAX ? calloc(1, sizeof *c) : NULL;
    if (!c || strlen(s->socket) >= sizeof address.sun_path) {
        free(c);
        return NULL;
    }
    memcpy(address.sun_path, s->socket, strlen(s->socket) + 1);
    c->stream = bufferevent_socket_new(s->base, -1, BEV_OPT_CLOSE_ON_FREE);
    if (!c->stream ||
        bufferevent_socket_connect(c->stream, (struct sockaddr *)&address, sizeof address) < 0) {
        if (c->stream)
            bufferevent_free(c->stream);
        free(c);
        return NULL;
    }
    c->submits = s;
    http_parser_init(&c->parser, ignore_body, NULL);
    bufferevent_setcb(c->stream, on_readable, NULL, on_event, c);
    bufferevent_enable(c->stream, EV_READ | EV_WRITE);
    list_append(&s->idle, &c->link);
    s->count++;
    return c;
}

struct submits *submits_new(struct event_base *base, const char *socket, submits_answered answered,
                            void *arg)
{
    struct submits *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    *s = (struct submits){.base = base, .socket = socket, .answered = answered, .arg = arg};
    list_init(&s->idle);
    list_init(&s->busy);
    return s;
}

void submits_free(struct submits *s)
{
    if (!s)
        return;
    list_for_each_safe (it, &s->idle)
        connection_free(list_entry(it, struct connection, link));
    list_for_each_safe (it, &s->busy)
        connection_free(list_entry(it, struct connection, link));
    free(s);
}

int submits_send(struct submits *s, size_t number, const char *body)
{
    struct connection *c = list_empty(&s->idle) ? connection_new(s)
                                                : list_entry(s->idle.next, struct connection, link);
    if (!c)
        return -1;
    c->number = number;
    list_remove(&c->link);
    list_append(&s->busy, &c->link);
    struct evbuffer *output = bufferevent_get_output(c->stream);
    return evbuffer_add_printf(output,
                               "POST /v1/workloads HTTP/1.1\r\nHost: gpumux\r\nContent-Type: "
                               "application/json\r\nContent-Length: %zu\r\n\r\n%s",
                               strlen(body), body) < 0
               ? -1
               : 0;
}
