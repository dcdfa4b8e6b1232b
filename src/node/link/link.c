/*
 * The connection to control: one at a time, reconnected for ever. A new connection starts with a
 * hello that lists every attempt, and control repeats its orders, so that nothing is lost.
 *
 * Silence reveals a connection that breaks unnoticed (a machine without power, a cut network):
 * control answers every beat, several times during a lease.
 */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/skew.h"
#include "base/version.h"
#include "node/agent_internal.h"
#include "node/link/dial.h"
#include "node/device/notes.h"
#include "node/link/renewal.h"
#include "tls/session.h"

enum {
    /* Waits between retries double and are random, because many nodes lose the same
     * control at the same moment. */
    RETRY_FIRST_MS = 50,
    RETRY_LAST_MS = 1000,
    RETRY_FIRST_NETWORK_MS = 250,
    RETRY_LAST_NETWORK_MS = 8000,
    RETRY_REFUSED_MS = 5000,
    /* least number of beats in a lease: one lost answer must not end the lease */
    BEATS_A_LEASE = 4,
    JOIN_MS = 5000, /* longest time from dialling to the welcome */
    /* number of unanswered beats after which the connection counts as dead */
    SILENT_BEATS = 4,
    /* divisor of the lease: shortest silence after which the connection counts as dead */
    SILENCES_A_LEASE = 8,
    SILENCE_LEAST_MS = 1000, /* shortest silence in any case, because a disk may delay control */
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

static int retry_first_ms(const struct agent *a)
{
    return a->networked ? RETRY_FIRST_NETWORK_MS : RETRY_FIRST_MS;
}

/* Returns the longest wait, which leaves time for several retries in a lease. */
static int retry_last_ms(const struct agent *a)
{
    int last = a->networked ? RETRY_LAST_NETWORK_MS : RETRY_LAST_MS;
    int64_t lease_ms = a->link.lease_ms;
    if (lease_ms > 0 && lease_ms / BEATS_A_LEASE < last)
        last = (int)(lease_ms / BEATS_A_LEASE);
    return last > retry_first_ms(a) ? last : retry_first_ms(a);
}

static void disconnect(struct agent *a)
{
    struct control_link *l = &a->link;
    if (l->stream)
        bufferevent_free(l->stream);
    l->stream = NULL;
    dial_cancel(l->dial);
    set_welcomed(a, false);
    if (l->notes_beat)
        notes_lost(monitor_notes(a));
    l->notes_beat = 0;
    event_del(l->beat_timer);
    event_del(l->patience);
    renewal_stop(a);
    const struct timeval wait =
        milliseconds(l->retry_ms / 2 + (int64_t)rng_below(&l->rng, (uint64_t)l->retry_ms + 1));
    event_add(l->retry, &wait);
    l->retry_ms = l->retry_ms * 2 < retry_last_ms(a) ? l->retry_ms * 2 : retry_last_ms(a);
}

/* Logs each reason once, not for each retry. */
static void complain(struct agent *a, const char *why)
{
    struct control_link *l = &a->link;
    if (str_equal(l->trouble, why))
        return;
    str_copy(l->trouble, sizeof l->trouble, why);
    log_write(a->log, LOG_WARN, "control connection failed", "control=%s error=\"%s\"",
              a->control_name, why);
}

/*
 * Ends a silent connection. A network that drops everything breaks no connection for minutes, and a
 * connection with ever longer retransmissions does not notice that the network is back.
 */
static void on_silence(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct agent *a = arg;
    if (a->link.welcomed)
        log_write(a->log, LOG_WARN, "control connection lost", "control=%s reason=silent",
                  a->control_name);
    else
        complain(a, "no welcome came in time");
    disconnect(a);
}

/* Ends the connection unless control sends something within this time. */
static void expect_word(struct control_link *l, int64_t within_ms)
{
    const struct timeval tv = milliseconds(within_ms);
    event_add(l->patience, &tv);
}

static int64_t silence_after(int64_t lease_ms, int64_t beat_ms)
{
    int64_t silence_ms = lease_ms / SILENCES_A_LEASE;
    if (silence_ms < SILENT_BEATS * beat_ms)
        silence_ms = SILENT_BEATS * beat_ms;
    if (silence_ms > lease_ms / 2) /* leaves the other half for reconnecting */
        silence_ms = lease_ms / 2;
    return silence_ms > SILENCE_LEAST_MS ? silence_ms : SILENCE_LEAST_MS;
}

/* Sends a message with or without a session. */
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
    else /* the peer does not read, or memory is out: a new hello repeats everything */
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
        attempts[count++] = list_entry(it, struct run, link)->life.kept.report;
    const struct device_health *health;
    size_t health_count = monitor_health(a, &health);
    const struct nodemsg hello = {.type = NODEMSG_HELLO,
                                  .protocol = NODEMSG_PROTOCOL,
                                  .version = GPUMUX_VERSION,
                                  .node = &a->info,
                                  .attempt_count = count,
                                  .attempts = attempts,
                                  .health_count = health_count,
                                  .health = health};
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
        const struct device_health *health;
        const struct device_note *notes = NULL;
        size_t health_count = monitor_health(a, &health);
        struct notes *unheard = l->welcomed ? monitor_notes(a) : NULL;
        size_t note_count = unheard ? notes_send(unheard, &notes) : 0;
        const struct nodemsg beat = {.type = NODEMSG_BEAT,
                                     .session = l->session,
                                     .beat = ++l->beat,
                                     .device_usage_count = sample->device_count,
                                     .device_usage = sample->devices,
                                     .attempt_usage_count = count,
                                     .attempt_usage = usage,
                                     .health_count = health_count,
                                     .health = health,
                                     .note_count = note_count,
                                     .notes = note_count ? notes : NULL};
        if (note_count)
            l->notes_beat = l->beat;
        l->beats[l->beat % AGENT_BEATS_KEPT] =
            (struct beat_sent){.number = l->beat, .sent_ms = clock_boot_ms()};
        link_send(a, &beat);
    }
    free(sample);
    free(usage);
}

void link_beat(struct agent *a)
{
    if (a->link.welcomed)
        send_beat(a);
}

static void beat_after(struct control_link *l, int64_t ms)
{
    const struct timeval tv = milliseconds(ms);
    event_add(l->beat_timer, &tv);
}

static void on_beat(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct agent *a = arg;
    beat_after(&a->link, a->link.beat_ms);
    send_beat(a);
}

static uint32_t fence_ms(const struct control_link *l)
{
    return l->fence_ms < UINT32_MAX ? (uint32_t)l->fence_ms : UINT32_MAX;
}

/* Extends the lease from the time of the last answered message. */
static void extend_lease(struct agent *a, int64_t spoken_ms)
{
    lease_extend(&a->lease, spoken_ms + a->link.lease_ms);
    registrar_extend_lease(a->registrar, atomic_load(a->lease.deadline_ms), fence_ms(&a->link));
}

static void welcome(struct agent *a, const struct nodemsg *msg)
{
    struct control_link *l = &a->link;
    if (msg->protocol != NODEMSG_PROTOCOL || !msg->version ||
        !skew_is_allowed(GPUMUX_VERSION, msg->version)) {
        log_write(a->log, LOG_ERROR, "control version rejected",
                  "control=%s control_version=%s node_version=%s", a->control_name,
                  msg->version ? msg->version : "", GPUMUX_VERSION);
        l->retry_ms = RETRY_REFUSED_MS;
        disconnect(a);
        return;
    }
    set_welcomed(a, true);
    l->session = msg->session;
    l->sequence = 0;
    l->retry_ms = retry_first_ms(a);
    l->trouble[0] = '\0';
    l->lease_ms = msg->lease_ms;
    l->fence_ms = msg->fence_ms;
    l->drain_ms = msg->drain_ms;
    extend_lease(a, l->hello_sent_ms);
    l->beat_ms = a->config->beat_ms;
    if (l->beat_ms > l->lease_ms / BEATS_A_LEASE)
        l->beat_ms = l->lease_ms / BEATS_A_LEASE;
    if (l->beat_ms < 1)
        l->beat_ms = 1;
    /* Nodes that are welcomed together, as after a restart of control, do not beat together. */
    beat_after(l, 1 + (int64_t)rng_below(&l->rng, (uint64_t)l->beat_ms));
    l->silence_ms = silence_after(l->lease_ms, l->beat_ms);
    expect_word(l, l->silence_ms);
    log_write(a->log, LOG_INFO, "control session opened", "control=%s session=%llu attempts=%zu",
              a->control_name, (unsigned long long)l->session, a->run_count);
    /* Changes between hello and welcome were not sent. Devices come first: an attempt that ended
     * because its device was disabled must not be placed there again. */
    send_beat(a);
    list_for_each (it, &a->runs)
        run_report(list_entry(it, struct run, link));
    renewal_start(a, msg->renew_ms);
}

/* Extends the lease from the time when that beat was sent. */
static void beat_answered(struct agent *a, uint64_t number)
{
    struct control_link *l = &a->link;
    const struct beat_sent *sent = &l->beats[number % AGENT_BEATS_KEPT];
    if (l->welcomed && number && sent->number == number)
        extend_lease(a, sent->sent_ms);
    if (l->notes_beat && number >= l->notes_beat) {
        notes_heard(monitor_notes(a));
        l->notes_beat = 0;
    }
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
    case NODEMSG_CERTIFICATE:
        renewal_take(a, msg);
        break;
    case NODEMSG_REFUSE:
        log_write(a->log, LOG_ERROR, "node refused", "control=%s reason=\"%s\"", a->control_name,
                  msg->text ? msg->text : "");
        a->link.retry_ms = RETRY_REFUSED_MS;
        disconnect(a);
        break;
    default:
        orders_obey(a, msg);
        break;
    }
}

/* Returns false if the connection is broken. */
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
        log_write(a->log, LOG_ERROR, "control message rejected", "control=%s error=\"%s\"",
                  a->control_name, e.text);
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
        log_write(a->log, LOG_ERROR, "control message rejected",
                  "control=%s reason=\"line too long\" bytes=%zu", a->control_name,
                  evbuffer_get_length(in));
        disconnect(a);
    }
}

/*
 * Sets the reason for the end of the connection. Control's message about an expired certificate may
 * be lost with the connection; the node's own clock then reveals the expiry.
 */
static void explain(struct error *e, const struct agent *a, struct bufferevent *stream, short what)
{
    struct error cause = {0};
    bool expired = a->networked && clock_wall_ms() > a->credentials.facts.until_wall_ms;
    if (expired)
        (void)error_set(&cause, ERR_DENIED, "the certificate of this node has expired");
    else if (a->networked && what & BEV_EVENT_ERROR)
        (void)tls_stream_error(&cause, stream);
    else if (what & BEV_EVENT_ERROR)
        (void)error_set_errno(&cause, ERR_UNAVAILABLE, EVUTIL_SOCKET_ERROR(), "no connection");
    else
        (void)error_set(&cause, ERR_UNAVAILABLE, "it closed the connection");
    (void)error_set(
        e, (enum error_code)cause.code, "%.400s%s", cause.text,
        cause.code != ERR_DENIED
            ? ""
            : ". If this is the right control, join again: on its machine 'gpumux token "
              "create --role node --name NAME' prints how");
}

static void say_why(struct agent *a, struct bufferevent *stream, short what)
{
    struct error e = {0};
    explain(&e, a, stream, what);
    if (a->link.welcomed)
        log_write(a->log, LOG_WARN, "control connection lost", "control=%s error=\"%s\"",
                  a->control_name, e.text);
    else
        complain(a, e.text);
}

static void on_event(struct bufferevent *stream, short what, void *arg)
{
    struct agent *a = arg;
    if (what & BEV_EVENT_CONNECTED) {
        say_hello(a);
        return;
    }
    say_why(a, stream, what);
    disconnect(a);
}

static void on_dialled(void *arg, struct bufferevent *stream, const struct error *why)
{
    struct agent *a = arg;
    if (!stream) {
        complain(a, why->text);
        disconnect(a);
        return;
    }
    a->link.stream = stream;
    bufferevent_setcb(stream, on_readable, NULL, on_event, a);
    bufferevent_setwatermark(stream, EV_READ, 0, 2 * NODEMSG_LINE_MAX);
    bufferevent_enable(stream, EV_READ | EV_WRITE);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct agent *a = arg;
    list_for_each (it, &a->runs)
        run_check_lease(list_entry(it, struct run, link));
    if (a->link.stream)
        return;
    expect_word(&a->link, JOIN_MS);
    dial_start(a->link.dial);
}

static int make_dial(struct error *e, struct agent *a)
{
    struct control_link *l = &a->link;
    if (!a->networked)
        return dial_new_unix(e, a->base, a->control_socket, on_dialled, a, &l->dial);
    int r = dial_new_tls(e, a->base, a->control_host, a->control_port, on_dialled, a, &l->dial);
    struct tls_context *context;
    if (r == 0)
        r = credentials_context(e, &a->credentials, &context);
    if (r == 0)
        dial_trust(l->dial, context);
    return r;
}

int link_start(struct error *e, struct agent *a)
{
    struct control_link *l = &a->link;
    int r = make_dial(e, a);
    if (r < 0)
        return r;
    rng_seed(&l->rng, rng_os_seed());
    l->retry_ms = retry_first_ms(a);
    l->retry = evtimer_new(a->base, on_retry, a);
    l->beat_timer = evtimer_new(a->base, on_beat, a);
    l->patience = evtimer_new(a->base, on_silence, a);
    const struct timeval now = {0};
    if (!l->retry || !l->beat_timer || !l->patience || event_add(l->retry, &now) < 0)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    return 0;
}

void link_stop(struct agent *a)
{
    struct control_link *l = &a->link;
    struct event *events[] = {l->retry, l->patience, l->beat_timer};
    if (l->stream)
        bufferevent_free(l->stream);
    dial_free(l->dial);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i])
            event_free(events[i]);
    *l = (struct control_link){0};
}
