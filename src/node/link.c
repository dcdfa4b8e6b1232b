#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/skew.h"
#include "base/version.h"
#include "node/agent_internal.h"

enum {
    RETRY_FIRST_MS = 50,
    RETRY_LAST_MS = 1000,
    RETRY_REFUSED_MS = 5000,
    BEATS_A_LEASE = 4,       /* at least: one lost answer must not end the lease */
    JOIN_MS = 5000,          /* from dialling to the welcome */
    SILENT_BEATS = 4,        /* beats without an answer, and */
    SILENCES_A_LEASE = 8,    /* this part of the lease: then the connection is taken for dead */
    SILENCE_LEAST_MS = 1000, /* a disk may keep control waiting that long */
    UNSENT_MAX = 4 * NODEMSG_LINE_MAX,
    MESSAGE_ARENA_BYTES = 8 * NODEMSG_LINE_MAX,
};

static struct timeval milliseconds(int64_t ms)
{
    return (struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
}

static void set_welcomed(struct agent *a, bool welcomed)
{
    bool changed = a->link.welcomed != welcomed;
    a->link.welcomed = welcomed;
    if (changed && a->on_link)
        a->on_link(a->on_link_arg, welcomed);
}

static void disconnect(struct agent *a)
{
    struct control_link *l = &a->link;
    if (l->stream)
        bufferevent_free(l->stream);
    l->stream = NULL;
    set_welcomed(a, false);
    event_del(l->beat_timer);
    event_del(l->patience);
    const struct timeval wait = milliseconds(l->retry_ms);
    event_add(l->retry, &wait);
    l->retry_ms = l->retry_ms * 2 < RETRY_LAST_MS ? l->retry_ms * 2 : RETRY_LAST_MS;
}

/*
 * A network that swallows everything breaks no connection for many minutes, and one that is back is not
 * found by a connection that waits ever longer before it tries again. So silence ends it.
 */
static void on_silence(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct agent *a = arg;
    log_write(a->log, LOG_WARN, "control is silent, trying again", "joined=%s",
              a->link.welcomed ? "true" : "false");
    disconnect(a);
}

/* The next word of control must come within this time. */
static void expect_word(struct control_link *l, int64_t within_ms)
{
    const struct timeval tv = milliseconds(within_ms);
    event_add(l->patience, &tv);
}

/* Writes whether or not there is a session. */
static void send_line(struct agent *a, const struct nodemsg *msg)
{
    struct control_link *l = &a->link;
    if (!l->stream)
        return;
    struct evbuffer *out = bufferevent_get_output(l->stream);
    struct str line;
    str_init(&line, NODEMSG_LINE_MAX);
    int r = nodemsg_write(msg, &line);
    if (r == 0 && evbuffer_get_length(out) < UNSENT_MAX)
        evbuffer_add(out, str_text(&line), line.length);
    else /* it hears nothing, or we cannot speak: a new hello will say it all */
        bufferevent_trigger_event(l->stream, BEV_EVENT_ERROR, BEV_TRIG_DEFER_CALLBACKS);
    str_done(&line);
}

void link_send(struct agent *a, const struct nodemsg *msg)
{
    if (a->link.welcomed)
        send_line(a, msg);
}

void link_done(struct agent *a, uint64_t request, int result, const char *text)
{
    const struct nodemsg msg = {
        .type = NODEMSG_DONE, .request = request, .result = result, .text = text};
    link_send(a, &msg);
}

static void say_hello(struct agent *a)
{
    struct attempt_report *attempts = calloc(a->run_count + 1, sizeof *attempts);
    if (!attempts) {
        disconnect(a);
        return;
    }
    size_t count = 0;
    list_for_each (it, &a->runs)
        attempts[count++] = list_entry(it, struct run, link)->report;
    const struct nodemsg hello = {.type = NODEMSG_HELLO,
                                  .protocol = NODEMSG_PROTOCOL,
                                  .version = GPUMUX_VERSION,
                                  .node = &a->info,
                                  .attempt_count = count,
                                  .attempts = attempts};
    a->link.hello_sent_ms = clock_boot_ms();
    send_line(a, &hello);
    free(attempts);
}

static void send_beat(struct agent *a)
{
    struct control_link *l = &a->link;
    struct gpu_sample *sample = calloc(1, sizeof *sample);
    struct attempt_usage *usage = calloc(a->run_count + 1, sizeof *usage);
    if (sample && usage) {
        sampler_read(a->sampler, sample);
        size_t count = usage_measure(a, sample, usage, a->run_count);
        const struct nodemsg beat = {.type = NODEMSG_BEAT,
                                     .session = l->session,
                                     .beat = ++l->beat,
                                     .device_usage_count = sample->device_count,
                                     .device_usage = sample->devices,
                                     .attempt_usage_count = count,
                                     .attempt_usage = usage};
        l->beats[l->beat % AGENT_BEATS_KEPT] =
            (struct beat_sent){.number = l->beat, .sent_ms = clock_boot_ms()};
        link_send(a, &beat);
    }
    free(sample);
    free(usage);
}

static void on_beat(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    send_beat(arg);
}

static void welcome(struct agent *a, const struct nodemsg *msg)
{
    struct control_link *l = &a->link;
    if (msg->protocol != NODEMSG_PROTOCOL || !msg->version ||
        !skew_is_allowed(GPUMUX_VERSION, msg->version)) {
        log_write(a->log, LOG_ERROR, "control's version does not fit", "control=%s node=%s",
                  msg->version ? msg->version : "", GPUMUX_VERSION);
        l->retry_ms = RETRY_REFUSED_MS;
        disconnect(a);
        return;
    }
    set_welcomed(a, true);
    l->session = msg->session;
    l->sequence = 0;
    l->retry_ms = RETRY_FIRST_MS;
    l->lease_ms = msg->lease_ms;
    l->fence_ms = msg->fence_ms;
    l->drain_ms = msg->drain_ms;
    lease_extend(&a->lease, l->hello_sent_ms + l->lease_ms);
    int64_t every_ms = a->config->beat_ms;
    if (every_ms > l->lease_ms / BEATS_A_LEASE)
        every_ms = l->lease_ms / BEATS_A_LEASE;
    const struct timeval every = milliseconds(every_ms > 0 ? every_ms : 1);
    event_add(l->beat_timer, &every);
    l->silence_ms = l->lease_ms / SILENCES_A_LEASE;
    if (l->silence_ms < SILENT_BEATS * every_ms)
        l->silence_ms = SILENT_BEATS * every_ms;
    if (l->silence_ms > l->lease_ms / 2) /* the other half is for joining again */
        l->silence_ms = l->lease_ms / 2;
    if (l->silence_ms < SILENCE_LEAST_MS)
        l->silence_ms = SILENCE_LEAST_MS;
    expect_word(l, l->silence_ms);
    log_write(a->log, LOG_INFO, "joined control", "session=%llu attempts=%zu",
              (unsigned long long)l->session, a->run_count);
    /* What happened between hello and welcome was not sent. */
    list_for_each (it, &a->runs)
        run_report(list_entry(it, struct run, link));
    send_beat(a);
}

/* The lease holds from when that beat was sent, not from now. */
static void beat_answered(struct agent *a, uint64_t number)
{
    const struct beat_sent *sent = &a->link.beats[number % AGENT_BEATS_KEPT];
    if (a->link.welcomed && number && sent->number == number)
        lease_extend(&a->lease, sent->sent_ms + a->link.lease_ms);
}

static void take_message(struct agent *a, const struct nodemsg *msg)
{
    switch (msg->type) {
    case NODEMSG_WELCOME:
        welcome(a, msg);
        break;
    case NODEMSG_BEAT:
        beat_answered(a, msg->beat);
        if (a->link.welcomed)
            expect_word(&a->link, a->link.silence_ms);
        break;
    case NODEMSG_REFUSE:
        log_write(a->log, LOG_ERROR, "control refuses this node", "text=\"%s\"",
                  msg->text ? msg->text : "");
        a->link.retry_ms = RETRY_REFUSED_MS;
        disconnect(a);
        break;
    default:
        orders_obey(a, msg);
        break;
    }
}

/* False: the connection is broken. */
static bool take_line(struct agent *a, const char *line, size_t length)
{
    struct arena arena;
    struct error e = {0};
    struct nodemsg msg;
    arena_init(&arena, MESSAGE_ARENA_BYTES);
    int r = nodemsg_parse(&e, &arena, line, length, &msg);
    if (r == 0)
        take_message(a, &msg);
    else
        log_write(a->log, LOG_ERROR, "cannot understand control", "error=\"%s\"", e.text);
    arena_done(&arena);
    return r == 0;
}

static void on_readable(struct bufferevent *stream, void *arg)
{
    struct agent *a = arg;
    struct evbuffer *in = bufferevent_get_input(stream);
    size_t length;
    char *line;
    /* A message may end the connection: then the stream is another, or none. */
    while (a->link.stream == stream && (line = evbuffer_readln(in, &length, EVBUFFER_EOL_LF))) {
        bool understood = take_line(a, line, length);
        free(line);
        if (!understood && a->link.stream == stream)
            disconnect(a);
    }
    if (a->link.stream == stream && evbuffer_get_length(in) > NODEMSG_LINE_MAX) {
        log_write(a->log, LOG_ERROR, "control sends a line without end", "bytes=%zu",
                  evbuffer_get_length(in));
        disconnect(a);
    }
}

static void on_event(struct bufferevent *stream, short what, void *arg)
{
    (void)stream;
    struct agent *a = arg;
    if (what & BEV_EVENT_CONNECTED) {
        say_hello(a);
        return;
    }
    if (a->link.welcomed)
        log_write(a->log, LOG_WARN, "lost control, trying again", "socket=%s", a->control_socket);
    disconnect(a);
}

static void connect_to_control(struct agent *a)
{
    struct control_link *l = &a->link;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    str_copy(address.sun_path, sizeof address.sun_path, a->control_socket);
    l->stream =
        bufferevent_socket_new(a->base, -1, BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
    if (!l->stream) {
        disconnect(a);
        return;
    }
    expect_word(l, JOIN_MS);
    bufferevent_setcb(l->stream, on_readable, NULL, on_event, a);
    bufferevent_enable(l->stream, EV_READ | EV_WRITE);
    if (bufferevent_socket_connect(l->stream, (struct sockaddr *)&address, sizeof address) < 0)
        disconnect(a);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct agent *a = arg;
    if (!a->link.stream)
        connect_to_control(a);
}

int link_start(struct error *e, struct agent *a)
{
    struct control_link *l = &a->link;
    if (strlen(a->control_socket) >= sizeof((struct sockaddr_un *)NULL)->sun_path)
        return error_set(e, ERR_INVALID, "the path of a socket has at most 107 bytes: %s",
                         a->control_socket);
    l->retry_ms = RETRY_FIRST_MS;
    l->retry = evtimer_new(a->base, on_retry, a);
    l->beat_timer = event_new(a->base, -1, EV_PERSIST, on_beat, a);
    l->patience = evtimer_new(a->base, on_silence, a);
    const struct timeval now = {0};
    if (!l->retry || !l->beat_timer || !l->patience || event_add(l->retry, &now) < 0)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    return 0;
}

void link_stop(struct agent *a)
{
    struct control_link *l = &a->link;
    if (l->stream)
        bufferevent_free(l->stream);
    if (l->retry)
        event_free(l->retry);
    if (l->beat_timer)
        event_free(l->beat_timer);
    if (l->patience)
        event_free(l->patience);
    *l = (struct control_link){0};
}
