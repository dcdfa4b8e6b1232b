#include "proxy/proxy.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "proxy/proxy_internal.h"

enum {
    EVENTS_MAX = 128,
    ACCEPTS_MAX = 64,       /* new connections before others take their turn */
    ACCEPT_AGAIN_MS = 100,  /* pause after descriptors or memory were exhausted */
    DESCRIPTORS_OTHER = 32, /* descriptors that are no connections */
    LINGER_LOOK_MS = 250,
    PORT_MAX = 65535,
};

/* ---- reports ---- */

void proxy_measured(struct proxy *p, enum control_time time, int64_t us)
{
    measure_add(&p->measure, time, us, 1);
    if (p->report_at_ms == INT64_MAX)
        p->report_at_ms = clock_boot_ms() + REPORT_MS;
}

/* Reports what was measured. The supervisor reads seldom if the machine is busy: what it does not
 * take is part of the next report. */
static void report(struct proxy *p, int64_t now_ms)
{
    char packet[MEASURE_PACKET_MAX];
    p->report_at_ms = INT64_MAX;
    for (int time = 0; time < CONTROL_TIMES; time++) {
        size_t length = measure_write(&p->measure, (enum control_time)time, packet);
        if (length == 0)
            continue;
        if (send(p->channel_fd, packet, length, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
            measure_clear(&p->measure, (enum control_time)time);
        else
            p->report_at_ms = now_ms + REPORT_MS;
    }
}

static void send_note(struct proxy *p, const char *sentence)
{
    char packet[sizeof CONTROL_WORD_NOTE + 1 + CONTROL_NOTE_MAX];
    int length = snprintf(packet, sizeof packet, CONTROL_WORD_NOTE "\n%s", sentence);
    (void)!send(p->channel_fd, packet, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Counts the requests between the page before and this page. */
static void take_page(struct proxy *p, int64_t now_ms)
{
    const char *note = adapter_end(&p->scrape.adapter, &p->measure);
    if (note)
        send_note(p, note);
    if (p->report_at_ms == INT64_MAX)
        p->report_at_ms = now_ms;
}

/* ---- orders ---- */

static void move_connections(struct proxy *p)
{
    list_for_each_safe (it, &p->connections)
        relay_move(list_entry(it, struct connection, link));
}

static void begin_end(struct proxy *p, int64_t now_ms)
{
    if (p->end_at_ms != INT64_MAX)
        return;
    p->end_at_ms = now_ms + PROXY_END_MS;
    scrape_done(&p->scrape);
    if (p->listen_fd >= 0)
        close(p->listen_fd);
    p->listen_fd = -1;
    p->accepting = false;
    list_for_each_safe (it, &p->connections)
        relay_end(list_entry(it, struct connection, link));
}

/* Takes replies and orders. Returns false if the supervisor has gone. */
static bool take_orders(struct proxy *p)
{
    char packet[CONTROL_REPLY_MAX];
    ssize_t n;
    while ((n = recv(p->channel_fd, packet, sizeof packet - 1, MSG_DONTWAIT)) > 0) {
        packet[n] = '\0';
        if (backends_parse(&p->backends, packet))
            move_connections(p);
    }
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* ---- clients ---- */

static void watch_listener(struct proxy *p, bool wanted)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &p->listen_watch};
    if (p->listen_fd < 0 || p->accepting == wanted)
        return;
    if (epoll_ctl(p->epoll_fd, wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, p->listen_fd, &event) == 0)
        p->accepting = wanted;
}

static void accept_clients(struct proxy *p, int64_t now_ms)
{
    for (int i = 0; i < ACCEPTS_MAX && p->connection_count < p->connections_max; i++) {
        int fd = accept4(p->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            relay_new(p, fd);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            p->accept_again_ms = now_ms + ACCEPT_AGAIN_MS;
            watch_listener(p, false);
        }
        return;
    }
    if (p->connection_count >= p->connections_max)
        watch_listener(p, false);
}

static void bury_dead(struct proxy *p)
{
    list_for_each_safe (it, &p->dead)
        relay_free(list_entry(it, struct connection, link));
    if (p->connection_count < p->connections_max && p->accept_again_ms == INT64_MAX)
        watch_listener(p, true);
}

void proxy_linger(struct proxy *p, int64_t now_ms)
{
    if (p->linger_at_ms == INT64_MAX)
        p->linger_at_ms = now_ms + LINGER_LOOK_MS;
}

static void give_up_lingering(struct proxy *p, int64_t now_ms)
{
    p->linger_at_ms = INT64_MAX;
    list_for_each_safe (it, &p->connections) {
        struct connection *c = list_entry(it, struct connection, link);
        if (c->lingers && now_ms >= c->give_up_ms)
            relay_close(c);
        else if (c->lingers)
            proxy_linger(p, now_ms);
    }
}

/* ---- the loop ---- */

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int timeout_ms(const struct proxy *p, int64_t now_ms)
{
    int64_t next_ms = earlier(p->report_at_ms, p->end_at_ms);
    next_ms = earlier(next_ms, p->accept_again_ms);
    next_ms = earlier(next_ms, p->linger_at_ms);
    next_ms = earlier(next_ms, scrape_next_ms(&p->scrape));
    if (!list_empty(&p->again) || next_ms <= now_ms)
        return 0;
    return next_ms == INT64_MAX ? -1 : (int)earlier(next_ms - now_ms, INT32_MAX);
}

static void do_what_is_due(struct proxy *p, int64_t now_ms)
{
    scrape_step(&p->scrape, now_ms);
    if (now_ms >= p->report_at_ms)
        report(p, now_ms);
    if (now_ms >= p->linger_at_ms)
        give_up_lingering(p, now_ms);
    if (now_ms >= p->accept_again_ms)
        p->accept_again_ms = INT64_MAX;
}

/* Handles one event. Returns false if the companion must end now. */
static bool handle(struct proxy *p, const struct epoll_event *event, int64_t now_us)
{
    struct watch *watch = event->data.ptr;
    switch (watch->kind) {
    case WATCH_LISTEN:
        if (p->listen_fd >= 0)
            accept_clients(p, now_us / 1000);
        return true;
    case WATCH_CHANNEL:
        return take_orders(p);
    case WATCH_SIGNAL: {
        struct signalfd_siginfo info;
        while (read(p->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
            begin_end(p, now_us / 1000);
        return true;
    }
    case WATCH_SCRAPE:
        if (scrape_event(&p->scrape, p->block, sizeof p->block, now_us / 1000))
            take_page(p, now_us / 1000);
        return true;
    case WATCH_CLIENT:
        relay_event(watch->connection, CLIENT, event->events, now_us);
        return true;
    case WATCH_BACKEND:
        relay_event(watch->connection, BACKEND, event->events, now_us);
        return true;
    }
    return true;
}

/* Continues the connections whose turn has ended; each may ask for a further turn. */
static void take_turns(struct proxy *p, int64_t now_us)
{
    struct list turns;
    list_init(&turns);
    list_move_all(&p->again, &turns);
    while (!list_empty(&turns))
        relay_continue(list_entry(turns.next, struct connection, again), now_us);
}

static void run(struct proxy *p)
{
    struct epoll_event events[EVENTS_MAX];
    bool goes_on = true;
    while (goes_on) {
        int n = epoll_wait(p->epoll_fd, events, EVENTS_MAX, timeout_ms(p, clock_boot_ms()));
        int64_t now_us = clock_boot_us();
        for (int i = 0; i < n && goes_on; i++)
            goes_on = handle(p, &events[i], now_us);
        take_turns(p, now_us);
        do_what_is_due(p, now_us / 1000);
        bury_dead(p);
        if (p->end_at_ms != INT64_MAX &&
            (p->connection_count == 0 || now_us / 1000 >= p->end_at_ms))
            goes_on = false;
    }
    report(p, clock_boot_ms());
}

/* ---- setting up ---- */

/* Allows as many descriptors as connections may need; a lower hard limit means fewer. */
static size_t choose_connections_max(void)
{
    struct rlimit limit;
    const rlim_t wanted = SIDES * PROXY_CONNECTIONS_MAX + DESCRIPTORS_OTHER;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return 1;
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur >= wanted)
        return PROXY_CONNECTIONS_MAX;
    return limit.rlim_cur > DESCRIPTORS_OTHER + SIDES
               ? (size_t)(limit.rlim_cur - DESCRIPTORS_OTHER) / SIDES
               : 1;
}

static bool watch_fd(struct proxy *p, int fd, struct watch *watch, enum watch_kind kind)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = watch};
    watch->kind = kind;
    return fd >= 0 && epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static bool open_watches(struct proxy *p)
{
    sigset_t taken;
    sigemptyset(&taken);
    sigaddset(&taken, SIGTERM);
    sigaddset(&taken, SIGINT);
    sigprocmask(SIG_SETMASK, &taken, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    p->signal_fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
    p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    p->listen_watch.kind = WATCH_LISTEN;
    p->scrape_watch.kind = WATCH_SCRAPE;
    p->scrape.epoll_fd = p->epoll_fd;
    p->scrape.watch = &p->scrape_watch;
    if (p->listen_fd >= 0)
        fcntl(p->listen_fd, F_SETFL, fcntl(p->listen_fd, F_GETFL) | O_NONBLOCK);
    watch_listener(p, true);
    return watch_fd(p, p->signal_fd, &p->signal_watch, WATCH_SIGNAL) &&
           watch_fd(p, p->channel_fd, &p->channel_watch, WATCH_CHANNEL);
}

struct options {
    int backend, scrape; /* ports; 0: none */
    int from;            /* enum adapter_kind */
    const char *metric, *path;
};

static bool parse_port(const char *text, int *ret)
{
    char *end;
    long port = strtol(text, &end, 10);
    if (*end || port < 1 || port > PORT_MAX)
        return false;
    *ret = (int)port;
    return true;
}

static bool parse_option(const char *option, struct options *o)
{
    const char *value = strchr(option, '=');
    size_t length = value ? (size_t)(value++ - option) : 0;
    if (length == strlen("backend") && strncmp(option, "backend", length) == 0)
        return parse_port(value, &o->backend);
    if (length == strlen("scrape") && strncmp(option, "scrape", length) == 0)
        return parse_port(value, &o->scrape);
    if (length == strlen("from") && strncmp(option, "from", length) == 0)
        return (o->from = adapter_kind_parse(value)) >= 0;
    if (length == strlen("metric") && strncmp(option, "metric", length) == 0)
        return strlen(o->metric = value) < ADAPTER_METRIC_MAX;
    if (length == strlen("path") && strncmp(option, "path", length) == 0)
        return strlen(o->path = value) < SCRAPE_PATH_MAX;
    return false;
}

static bool parse_options(struct proxy *p, char *const *options, size_t count)
{
    struct options o = {.from = ADAPTER_AUTO, .metric = "", .path = "/metrics"};
    for (size_t i = 0; i < count; i++)
        if (!parse_option(options[i], &o))
            return false;
    if (o.backend) {
        p->backends = (struct backends){.count = 1, .items = {{.port = o.backend}}};
        p->listen_fd = PROXY_LISTEN_FD;
    }
    p->scrape = (struct scrape){.fd = -1, .port = o.scrape};
    p->scrape.next_ms = o.scrape ? 0 : INT64_MAX;
    p->scrape.limit_ms = INT64_MAX;
    snprintf(p->scrape.path, sizeof p->scrape.path, "%s", o.path);
    adapter_init(&p->scrape.adapter, (enum adapter_kind)o.from, o.metric);
    return o.backend || o.scrape;
}

static void close_all(struct proxy *p)
{
    list_for_each_safe (it, &p->connections)
        relay_close(list_entry(it, struct connection, link));
    bury_dead(p);
    scrape_done(&p->scrape);
    close(p->epoll_fd);
    close(p->signal_fd);
}

int proxy_main(char *const *options, size_t count)
{
    struct proxy *p = calloc(1, sizeof *p);
    if (!p)
        return 1;
    p->listen_fd = -1;
    p->channel_fd = PROXY_CHANNEL_FD;
    p->report_at_ms = p->end_at_ms = p->accept_again_ms = p->linger_at_ms = INT64_MAX;
    p->connections_max = choose_connections_max();
    list_init(&p->connections);
    list_init(&p->dead);
    list_init(&p->again);
    prctl(PR_SET_NAME, "gpumux-proxy");
    int status = parse_options(p, options, count) ? 0 : 2;
    if (status == 0 && !open_watches(p))
        status = 1;
    if (status == 0) {
        run(p);
        close_all(p);
    }
    free(p);
    return status;
}
