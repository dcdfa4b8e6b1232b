#include "cli/connect/follow.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

enum { OUTPUT_LINE_MAX = 8 << 20, TARGET_MAX = 1024 };

int follow_fd(const struct follow *f)
{
    return f->open ? http_client_fd(f->http) : -1;
}

int64_t follow_next_try(const struct follow *f)
{
    return f->open ? INT64_MAX : f->next_try_boot_ms;
}

static int follow_init(struct error *e, struct follow *f, struct client *client)
{
    f->client = client;
    f->http = client_open(client);
    if (client->until_boot_ms == 0)
        client->until_boot_ms = INT64_MAX;
    return f->http ? 0 : error_set(e, ERR_NO_MEMORY, "out of memory");
}

/* Checks the version first: nothing of an incompatible gpumux is shown. */
static int take_body(void *arg, const char *bytes, size_t length)
{
    struct follow *f = arg;
    int r = client_check_server(NULL, http_client_server(f->http));
    return r < 0 ? r : f->on_body(f->arg, bytes, length);
}

/* Opens the stream. Returns -ERR_UNAVAILABLE if a later call may succeed. */
static int follow_open(struct error *e, struct follow *f, const char *target)
{
    int64_t now = clock_boot_ms();
    if (now < f->next_try_boot_ms)
        return -ERR_UNAVAILABLE;
    f->next_try_boot_ms = now + FOLLOW_RETRY_MS;
    struct http_call call = {.method = "GET",
                             .target = target,
                             .accept = f->accept,
                             .timeout_ms = CLIENT_TIMEOUT_MS,
                             .on_body = take_body,
                             .arg = f};
    int r = http_client_send(e, f->http, &call);
    f->open = r == 0;
    if (r == 0) {
        f->client->reached = true;
        client_end_silence(f->client);
    }
    return r;
}

static void rest(int64_t ms)
{
    if (ms > FOLLOW_RETRY_MS)
        ms = FOLLOW_RETRY_MS;
    (void)poll(NULL, 0, ms > 0 ? (int)ms : 0);
}

/* Runs one step. A status ≥ 300 becomes an error; a broken connection is 0 with open false. */
static int follow_step(struct error *e, struct follow *f, const char *target, int64_t timeout_ms,
                       bool *ret_ended)
{
    *ret_ended = false;
    if (!f->open) {
        int r = follow_open(e, f, target);
        if (r == -ERR_UNAVAILABLE && f->client->reached) {
            client_tell_silence(f->client, f->client->until_boot_ms);
            rest(timeout_ms);
            return 0;
        }
        if (r < 0)
            return r;
    }
    bool done = false;
    int r = http_client_receive(e, f->http, timeout_ms, &done);
    if (r == -ERR_TIMEOUT)
        return 0;
    if (r == -ERR_UNAVAILABLE || r == -ERR_PROTOCOL) {
        f->open = false;
        return 0;
    }
    int fits = client_check_server(e, http_client_server(f->http));
    if (fits < 0)
        return fits;
    if (r < 0 || !done)
        return r;
    f->open = false;
    int status = http_client_status(f->http);
    if (status >= 300) {
        size_t length;
        const char *body = http_client_body(f->http, &length);
        f->client->answered = true;
        return client_problem(e, status, body, length);
    }
    /* gpumux responds, so the caller may ask again soon. */
    f->next_try_boot_ms = clock_boot_ms() + FOLLOW_AGAIN_MS;
    *ret_ended = true;
    return 0;
}

/* ---- events ---- */

static int take_event(void *arg, const struct sse_event *event)
{
    struct follow_events *f = arg;
    if (event->id > f->since)
        f->since = event->id;
    return f->on_event(f->arg, event);
}

static int take_event_bytes(void *arg, const char *bytes, size_t length)
{
    struct follow_events *f = arg;
    return sse_parser_feed(&f->sse, bytes, length);
}

int follow_events_init(struct error *e, struct follow_events *f, struct client *client,
                       const char *workload, uint64_t since, sse_fn on_event, void *arg)
{
    *f = (struct follow_events){
        .workload = workload, .since = since, .on_event = on_event, .arg = arg};
    f->follow.on_body = take_event_bytes;
    f->follow.arg = f;
    f->follow.accept = "text/event-stream";
    sse_parser_init(&f->sse, take_event, f);
    return follow_init(e, &f->follow, client);
}

void follow_events_done(struct follow_events *f)
{
    http_client_free(f->follow.http);
    sse_parser_done(&f->sse);
}

int follow_events_step(struct error *e, struct follow_events *f, int64_t timeout_ms)
{
    struct str target;
    str_init(&target, TARGET_MAX);
    str_printf(&target, "/v1/events?follow=1&since=%llu", (unsigned long long)f->since);
    if (f->workload) {
        str_append(&target, "&workload=");
        http_append_encoded(&target, f->workload);
    }
    if (!f->follow.open) {
        /* gpumux sends an interrupted event again. */
        sse_parser_done(&f->sse);
        sse_parser_init(&f->sse, take_event, f);
    }
    bool ended;
    int r = str_failed(&target) ? error_set(e, ERR_INVALID, "the name of the workload is too long")
                                : follow_step(e, &f->follow, str_text(&target), timeout_ms, &ended);
    str_done(&target);
    return r;
}

bool follow_lost_place(int r)
{
    return r == -ERR_GONE || r == -ERR_FUTURE;
}

/* ---- output ---- */

static int take_output(void *arg, const char *bytes, size_t length)
{
    struct follow_output *f = arg;
    f->offset += length;
    while (length > 0) {
        const char *end = memchr(bytes, '\n', length);
        size_t text = end ? (size_t)(end - bytes) : length;
        str_append_bytes(&f->line, bytes, text);
        if (str_failed(&f->line))
            return -ERR_TOO_LARGE;
        if (!end)
            return 0;
        struct logline line;
        int r = logline_parse(str_text(&f->line), f->line.length, &line) ? f->on_line(f->arg, &line)
                                                                         : 0;
        str_clear(&f->line);
        if (r < 0)
            return r;
        bytes += text + 1;
        length -= text + 1;
    }
    return 0;
}

int follow_output_init(struct error *e, struct follow_output *f, struct client *client,
                       const char *workload, int attempt, bool waits, follow_line_fn on_line,
                       void *arg)
{
    *f = (struct follow_output){
        .workload = workload, .attempt = attempt, .waits = waits, .on_line = on_line, .arg = arg};
    f->follow.on_body = take_output;
    f->follow.arg = f;
    f->follow.accept = "text/plain, application/problem+json";
    str_init(&f->line, OUTPUT_LINE_MAX);
    return follow_init(e, &f->follow, client);
}

void follow_output_done(struct follow_output *f)
{
    http_client_free(f->follow.http);
    str_done(&f->line);
    *f = (struct follow_output){0};
}

int follow_output_step(struct error *e, struct follow_output *f, int64_t timeout_ms,
                       bool *ret_ended)
{
    struct str target;
    str_init(&target, TARGET_MAX);
    str_append(&target, "/v1/workloads/");
    http_append_encoded(&target, f->workload);
    str_printf(&target, "/logs?offset=%llu", (unsigned long long)f->offset);
    if (f->waits)
        str_append(&target, "&follow=1");
    if (f->attempt > 0)
        str_printf(&target, "&attempt=%d", f->attempt);
    int r = str_failed(&target)
                ? error_set(e, ERR_INVALID, "the name of the workload is too long")
                : follow_step(e, &f->follow, str_text(&target), timeout_ms, ret_ended);
    str_done(&target);
    return r;
}

int follow_revision(struct error *e, struct client *client, uint64_t *ret)
{
    json_t *answer = NULL;
    int r = client_get(e, client, "/v1/workloads?limit=1", &answer);
    if (r == 0)
        *ret = (uint64_t)json_number(answer, "revision", 0);
    json_decref(answer);
    return r;
}

void follow_tell_waiting(const json_t *workload, char said[WORKLOAD_TEXT_MAX])
{
    const char *text = json_text(workload, "text", "");
    bool waits = strcmp(json_text(workload, "state", ""), "queued") == 0 && *text;
    if (!waits || strcmp(text, said) == 0)
        return;
    (void)str_copy(said, WORKLOAD_TEXT_MAX, text);
    fprintf(stderr, "gpumux: %lld waits: %s\n", (long long)json_number(workload, "id", 0), text);
}
