/* One request at a time on one connection: writes the request, reads the answer. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "load/load_internal.h"

int64_t run_now_ns(struct run *run)
{
    return run->now_ns = clock_boot_ns() - run->begin_ns;
}

static void count_chunk(struct connection *c)
{
    tally_chunk(c->run->tally, c->due_ns, c->chunk_ns, c->run->now_ns);
    c->chunk_ns = c->run->now_ns;
}

static int count_event(void *arg, const struct sse_event *event)
{
    (void)event;
    count_chunk(arg);
    return 0;
}

/* A chunk of a stream is an event if the answer is text/event-stream; otherwise the bytes of the
 * body that one read returned. */
static int take_body(void *arg, const char *bytes, size_t length)
{
    struct connection *c = arg;
    c->body_bytes += length;
    const struct http_head *head = http_parser_head(&c->parser);
    if (!c->run->config->is_stream || head->status / 100 != 2)
        return 0;
    if (strcmp(head->content_type, "text/event-stream") == 0) {
        if (!c->has_events)
            sse_parser_init(&c->events, count_event, c);
        c->has_events = true;
        return sse_parser_feed(&c->events, bytes, length);
    }
    if (!c->chunk_in_read)
        count_chunk(c);
    c->chunk_in_read = true;
    return 0;
}

void connection_begin(struct connection *c, int64_t due_ns)
{
    c->state = CONNECTION_BUSY;
    c->due_ns = due_ns;
    c->written = 0;
    c->has_answer = false;
    c->body_bytes = 0;
    c->chunk_ns = -1;
    http_parser_init(&c->parser, take_body, c);
}

void connection_finish(struct connection *c)
{
    http_parser_done(&c->parser);
    if (c->has_events)
        sse_parser_done(&c->events);
    c->has_events = false;
}

enum progress connection_write(struct connection *c)
{
    const struct load_config *config = c->run->config;
    while (c->written < config->request_length) {
        ssize_t n = send(c->fd, config->request + c->written, config->request_length - c->written,
                         MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return PROGRESS_WAIT;
        if (n < 0)
            return c->written == 0 && c->was_used ? PROGRESS_UNSENT : PROGRESS_BROKEN;
        if (c->written == 0)
            tally_sent(c->run->tally, c->due_ns, c->run->now_ns);
        c->written += (size_t)n;
    }
    return PROGRESS_WAIT;
}

static enum progress at_end(struct connection *c)
{
    bool was_whole = c->has_answer && http_parser_end(NULL, &c->parser) == 0;
    return was_whole ? PROGRESS_LAST : PROGRESS_BROKEN;
}

enum progress connection_read(struct connection *c)
{
    for (;;) {
        ssize_t n = recv(c->fd, c->run->read_buffer, CONNECTION_READ_BYTES, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return PROGRESS_WAIT;
        if (n < 0)
            return PROGRESS_BROKEN;
        if (n == 0)
            return at_end(c);
        (void)run_now_ns(c->run);
        c->has_answer = true;
        c->chunk_in_read = false;
        size_t used;
        if (http_parser_feed(NULL, &c->parser, c->run->read_buffer, (size_t)n, &used) < 0)
            return PROGRESS_PROTOCOL;
        if (!http_parser_is_done(&c->parser))
            continue;
        /* Bytes after the answer, or an answer before the end of the request, leave the connection
         * in a state that no next request should meet. */
        bool is_clean = used == (size_t)n && c->written == c->run->config->request_length;
        return is_clean && http_parser_head(&c->parser)->keep_alive ? PROGRESS_ANSWERED
                                                                    : PROGRESS_LAST;
    }
}
