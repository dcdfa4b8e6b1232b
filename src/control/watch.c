/*
 * GET /v1/events: past events from the store; with Accept: text/event-stream, also new events. A
 * watcher's position is its last revision, at which the watcher resumes after any interruption.
 */
#include <event2/event.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "control/control_internal.h"

enum {
    WATCHERS_MAX = 512,
    PAGE_DEFAULT = 1000,
    PUMP_PAGE = 200,
    BEHIND_MAX = 256 << 10, /* unsent bytes beyond which the next page waits */
    RETRY_MS = 50,
};

struct watcher {
    struct list link; /* in control.watchers */
    struct control *control;
    struct http_stream *stream;
    struct event *timer;
    uint64_t since, workload;
    size_t sent; /* events sent in the current page */
    bool closed; /* closed by the stream, within a page */
    bool pumping;
};

static void watcher_free(struct watcher *w)
{
    list_remove(&w->link);
    event_free(w->timer);
    free(w);
}

static void on_closed(void *arg)
{
    struct watcher *w = arg;
    w->closed = true;
    if (!w->pumping)
        watcher_free(w);
}

static int send_event(void *arg, const struct store_event *event)
{
    struct watcher *w = arg;
    struct str json;
    str_init(&json, 64 << 10);
    show_event(&json, event);
    if (http_stream_event(w->stream, event->revision, event->what, str_text(&json)))
        w->since = event->revision;
    str_done(&json);
    w->sent++;
    return w->closed;
}

static void pump(struct watcher *w)
{
    struct control *c = w->control;
    if (w->pumping)
        return;
    w->pumping = true;
    int r = 0;
    do {
        if (http_stream_pending(w->stream) > BEHIND_MAX) {
            struct timeval tv = {.tv_usec = RETRY_MS * 1000};
            evtimer_add(w->timer, &tv);
            break;
        }
        w->sent = 0;
        r = store_events(NULL, c->store, w->since, w->workload, PUMP_PAGE, send_event, w);
    } while (r >= 0 && !w->closed && w->sent == PUMP_PAGE);
    w->pumping = false;
    if (!w->closed && r < 0)
        http_stream_end(w->stream); /* events deleted: the next request gets the error */
    if (w->closed || r < 0)
        watcher_free(w);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    pump(arg);
}

void watchers_wake(struct control *c)
{
    list_for_each_safe (it, &c->watchers)
        pump(list_entry(it, struct watcher, link));
}

void watchers_close_all(struct control *c)
{
    while (!list_empty(&c->watchers)) {
        struct watcher *w = list_entry(c->watchers.next, struct watcher, link);
        http_stream_end(w->stream);
        watcher_free(w);
    }
}

struct page {
    struct str json;
    size_t count;
    uint64_t last;
};

static int add_event(void *arg, const struct store_event *event)
{
    struct page *page = arg;
    if (page->count++)
        str_append(&page->json, ", ");
    show_event(&page->json, event);
    page->last = event->revision;
    return 0;
}

static void answer_page(struct control *c, struct http_request *r, uint64_t since,
                        uint64_t workload, size_t limit)
{
    struct error e = {0};
    struct page page = {.last = since};
    str_init(&page.json, HTTP_BODY_MAX);
    str_append(&page.json, "{\"events\": [");
    if (store_events(&e, c->store, since, workload, limit, add_event, &page) < 0) {
        http_answer_error(r, &e);
    } else {
        uint64_t newest = store_revision(c->store);
        str_printf(&page.json, "], \"revision\": %llu}",
                   (unsigned long long)(page.count == limit ? page.last : newest));
        http_answer_json(r, 200, str_text(&page.json), page.json.length);
    }
    str_done(&page.json);
}

static size_t watcher_count(const struct control *c)
{
    size_t count = 0;
    list_for_each (it, &c->watchers)
        count++;
    return count;
}

static int nothing(void *arg, const struct store_event *event)
{
    (void)arg, (void)event;
    return 1;
}

static void begin_watch(struct control *c, struct http_request *r, uint64_t since,
                        uint64_t workload)
{
    struct error e = {0};
    struct watcher *w = NULL;
    int result = store_events(&e, c->store, since, workload, 1, nothing, NULL);
    if (result >= 0 && watcher_count(c) >= WATCHERS_MAX)
        result = error_set(&e, ERR_UNAVAILABLE, "%d watchers are the limit", WATCHERS_MAX);
    if (result >= 0 && !(w = calloc(1, sizeof *w)))
        result = error_set(&e, ERR_NO_MEMORY, "out of memory");
    if (result >= 0 && !(w->timer = evtimer_new(c->base, on_timer, w)))
        result = error_set(&e, ERR_NO_MEMORY, "out of memory");
    if (result < 0) {
        free(w);
        http_answer_error(r, &e);
        return;
    }
    w->control = c;
    w->since = since;
    w->workload = workload;
    list_append(&c->watchers, &w->link);
    w->stream = http_stream_begin(r, "text/event-stream", on_closed, w);
    if (w->stream)
        pump(w);
    else
        watcher_free(w);
}

static int is_there(void *arg, const struct store_workload *row)
{
    (void)arg, (void)row;
    return 0;
}

/* Checks that the id was assigned. Events outlive their workload, which counts as known while it
 * has events. */
static int check_known(struct error *e, struct control *c, uint64_t since, uint64_t workload)
{
    if (workload == 0)
        return error_set(e, ERR_NOT_FOUND, "there is no workload 0");
    int result = store_get(e, c->store, workload, is_there, NULL);
    if (result != -ERR_NOT_FOUND)
        return result;
    int found = store_events(e, c->store, since, workload, 1, nothing, NULL);
    return found == 0 ? result : found < 0 ? found : 0;
}

/* Refuses a future revision: the state was replaced by an older copy, and a watcher that waited for
 * that revision would miss current events. */
static int check_reached(struct error *e, struct control *c, uint64_t since)
{
    uint64_t newest = store_revision(c->store);
    if (since <= newest)
        return 0;
    return error_set(
        e, ERR_FUTURE,
        "revision %" PRIu64 " is in the future: the newest is %" PRIu64
        " (was the state restored?); read the lists anew, then watch from revision %" PRIu64,
        since, newest, newest);
}

void handle_events(void *context, struct http_request *r)
{
    static const char *const queries[] = {"since", "workload", "limit", "follow", NULL};
    struct control *c = context;
    struct error e = {0};
    uint64_t since = 0, limit = PAGE_DEFAULT, follow = 0, workload = 0;
    const char *accept = http_request_header(r, "Accept");
    const char *last = http_request_header(r, "Last-Event-ID");
    const char *ref = http_request_query(r, "workload");
    int result = http_request_check_query(&e, r, queries);
    if (result == 0)
        result = control_query_number(&e, r, "since", 0, INT64_MAX, &since);
    if (result == 0)
        result = control_query_number(&e, r, "limit", 1, STORE_PAGE_MAX, &limit);
    if (result == 0)
        result = control_query_number(&e, r, "follow", 0, 1, &follow);
    if (result == 0 && last && !http_request_query(r, "since"))
        result = control_number(&e, "Last-Event-ID", last, 0, INT64_MAX, &since);
    if (result == 0)
        result = check_reached(&e, c, since);
    if (result == 0 && ref)
        result = control_resolve_ref(&e, c, r, ref, &workload);
    if (result == 0 && ref)
        result = check_known(&e, c, since, workload);
    if (result < 0)
        http_answer_error(r, &e);
    else if (follow || (accept && strstr(accept, "text/event-stream")))
        begin_watch(c, r, since, workload);
    else
        answer_page(c, r, since, workload, (size_t)limit);
}
