#include "fleet.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/rng.h"
#include "base/version.h"
#include "way.h"
#include "wire/nodemsg.h"

enum {
    RUNNING_AFTER_MS = 10, /* time of a start on a real node */
    RECONNECT_MS = 200,
    FLEET_SEED = 1,
    ARENA_BYTES = 8 << 20,
    DEVICE_MEMORY_GIB = 141,
};

struct fleet_node {
    struct fleet *fleet;
    size_t index;
    struct bufferevent *stream; /* NULL: not connected */
    bool welcomed;
    uint64_t session, sequence, beat;
    int64_t beat_sent_us, beat_due_us;
    struct event *beat_timer, *connect_timer;
    struct list attempts;
    size_t attempt_count;
};

struct fleet_attempt {
    struct list link; /* of the node */
    struct fleet_node *node;
    struct attempt_report report;
    int64_t run_ms;
    struct event *next_phase;
};

struct fleet {
    struct fleet_options options;
    struct fleet_counts counts;
    struct rng rng;
    struct fleet_node *nodes;
    int32_t *round_trips_us;
    struct node_info info;               /* members common to all nodes are set once */
    struct device_usage *device_usage;   /* scratch space of a beat */
    struct attempt_usage *attempt_usage; /* NODEMSG_ATTEMPTS_MAX entries */
};

static struct timeval from_us(int64_t us)
{
    return (struct timeval){.tv_sec = us / 1000000, .tv_usec = us % 1000000};
}

static void write_message(struct fleet_node *n, const struct nodemsg *msg)
{
    struct str line;
    str_init(&line, NODEMSG_LINE_MAX);
    if (n->stream && nodemsg_write(msg, &line) == 0)
        bufferevent_write(n->stream, str_text(&line), line.length);
    str_done(&line);
}

static void report(struct fleet_attempt *a)
{
    const struct nodemsg msg = {.type = NODEMSG_REPORT,
                                .session = a->node->session,
                                .attempt_count = 1,
                                .attempts = &a->report};
    if (a->node->welcomed)
        write_message(a->node, &msg);
}

static void device_name(size_t node, int device, char uuid[DEVICE_UUID_MAX])
{
    snprintf(uuid, DEVICE_UUID_MAX, "GPU-%08zx-0000-0000-0000-%012x", node, (unsigned)device);
}

static void say_hello(struct fleet_node *n)
{
    struct fleet *f = n->fleet;
    struct attempt_report *reports = calloc(n->attempt_count + 1, sizeof *reports);
    size_t count = 0;
    if (!reports)
        return;
    list_for_each (it, &n->attempts)
        reports[count++] = list_entry(it, struct fleet_attempt, link)->report;
    way_node_name(n->index, f->info.name, sizeof f->info.name);
    snprintf(f->info.instance, sizeof f->info.instance, "fleet-%zu", n->index);
    for (int d = 0; d < f->info.device_count; d++)
        device_name(n->index, d, f->info.devices[d].uuid);
    const struct nodemsg hello = {.type = NODEMSG_HELLO,
                                  .protocol = NODEMSG_PROTOCOL,
                                  .version = GPUMUX_VERSION,
                                  .node = &f->info,
                                  .attempt_count = count,
                                  .attempts = reports};
    write_message(n, &hello);
    free(reports);
}

static void send_beat(struct fleet_node *n)
{
    struct fleet *f = n->fleet;
    for (int d = 0; d < f->options.devices; d++) {
        struct device_usage *u = &f->device_usage[d];
        device_name(n->index, d, u->uuid);
        u->sm_percent = 37.25 + (double)((n->beat + (uint64_t)d) % 50);
        u->memory_percent = 12.5 + (double)(n->beat % 30);
        u->memory_used_bytes = UINT64_C(20123456789) + n->beat * 4096;
        u->power_watts = 412.75 + (double)(n->beat % 100);
        u->power_limit_watts = 700;
        u->temperature_celsius = 61;
    }
    size_t count = 0;
    list_for_each (it, &n->attempts) {
        const struct fleet_attempt *a = list_entry(it, struct fleet_attempt, link);
        if (a->report.phase == ATTEMPT_RUNNING && count < NODEMSG_ATTEMPTS_MAX)
            f->attempt_usage[count++] =
                (struct attempt_usage){.workload = a->report.workload,
                                       .attempt = a->report.attempt,
                                       .memory_used_bytes = UINT64_C(20123456789),
                                       .cpu_percent = 98.5 + (double)(n->beat % 7),
                                       .resident_bytes = UINT64_C(4123456789),
                                       .samples_per_s = 1234.5 + (double)(n->beat % 11),
                                       .latency_ms = -1,
                                       .latency_since_ms = -1};
    }
    const struct nodemsg msg = {.type = NODEMSG_BEAT,
                                .session = n->session,
                                .beat = ++n->beat,
                                .device_usage_count = (size_t)f->options.devices,
                                .device_usage = f->device_usage,
                                .attempt_usage_count = count,
                                .attempt_usage = f->attempt_usage};
    n->beat_sent_us = clock_boot_us();
    write_message(n, &msg);
}

/* The interval starts when the last beat was due. Real nodes share no machine and are not late
 * together, so nodes that this process delayed must not beat in step afterwards. */
static void beat_later(struct fleet_node *n, int64_t us)
{
    int64_t now_us = clock_boot_us();
    n->beat_due_us += us;
    const struct timeval tv = from_us(n->beat_due_us > now_us ? n->beat_due_us - now_us : 0);
    event_add(n->beat_timer, &tv);
}

static void on_beat(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct fleet_node *n = arg;
    beat_later(n, n->fleet->options.beat_ms * 1000);
    if (n->welcomed)
        send_beat(n);
}

/* ---- attempts ---- */

static struct fleet_attempt *attempt_find(const struct fleet_node *n, uint64_t workload,
                                          int attempt)
{
    list_for_each (it, &n->attempts) {
        struct fleet_attempt *a = list_entry(it, struct fleet_attempt, link);
        if (a->report.workload == workload && a->report.attempt == attempt)
            return a;
    }
    return NULL;
}

static void attempt_free(struct fleet_attempt *a)
{
    list_remove(&a->link);
    a->node->attempt_count--;
    a->node->fleet->counts.attempts--;
    event_free(a->next_phase);
    free(a);
}

static void attempt_end(struct fleet_attempt *a, int ended_by)
{
    event_del(a->next_phase);
    a->report.phase = ATTEMPT_EXITED;
    a->report.ended_wall_ms = clock_wall_ms();
    a->report.signal = ended_by;
    a->report.exit_code = 0;
    report(a);
}

static void on_next_phase(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct fleet_attempt *a = arg;
    if (a->report.phase == ATTEMPT_RUNNING) {
        attempt_end(a, 0);
        return;
    }
    a->report.phase = ATTEMPT_RUNNING;
    report(a);
    const struct timeval tv = from_us(a->run_ms * 1000);
    if (a->run_ms >= 0)
        evtimer_add(a->next_phase, &tv);
}

static struct fleet_attempt *attempt_new(struct fleet_node *n, uint64_t workload, int attempt)
{
    struct fleet_attempt *a = calloc(1, sizeof *a);
    if (a)
        a->next_phase = evtimer_new(n->fleet->options.base, on_next_phase, a);
    if (!a || !a->next_phase) {
        free(a);
        return NULL;
    }
    a->node = n;
    a->run_ms = -1;
    a->report = (struct attempt_report){.workload = workload,
                                        .attempt = attempt,
                                        .phase = ATTEMPT_STARTING,
                                        .started_wall_ms = clock_wall_ms(),
                                        .exit_code = -1};
    list_append(&n->attempts, &a->link);
    n->attempt_count++;
    n->fleet->counts.attempts++;
    return a;
}

static void take_grant(struct fleet_node *n, const struct grant *grant)
{
    struct fleet *f = n->fleet;
    struct fleet_attempt *a = attempt_find(n, grant->workload, grant->attempt);
    if (a) {
        f->counts.repeated_grants++;
        report(a);
        return;
    }
    int64_t run_ms = f->options.granted(f->options.arg, grant);
    f->counts.grants++;
    a = attempt_new(n, grant->workload, grant->attempt);
    if (!a)
        return; /* control repeats the message */
    a->run_ms = run_ms;
    report(a);
    const struct timeval tv = from_us(RUNNING_AFTER_MS * 1000);
    evtimer_add(a->next_phase, &tv);
}

static void take_stop(struct fleet_node *n, const struct nodemsg *msg)
{
    struct fleet_attempt *a = attempt_find(n, msg->workload, msg->attempt);
    if (!a)
        a = attempt_new(n, msg->workload, msg->attempt);
    if (a)
        attempt_end(a, SIGTERM);
}

static void take_settle(struct fleet_node *n, const struct nodemsg *msg)
{
    struct fleet_attempt *a = attempt_find(n, msg->workload, msg->attempt);
    if (!a)
        return;
    n->fleet->counts.settled++;
    n->fleet->options.settled(n->fleet->options.arg, msg->workload);
    attempt_free(a);
}

/* ---- connection ---- */

static void disconnect(struct fleet_node *n)
{
    struct fleet *f = n->fleet;
    const struct timeval tv = from_us(RECONNECT_MS * 1000);
    if (n->stream)
        bufferevent_free(n->stream);
    n->stream = NULL;
    f->counts.connections++;
    f->counts.welcomed -= n->welcomed;
    n->welcomed = false;
    event_del(n->beat_timer);
    evtimer_add(n->connect_timer, &tv);
}

static void take_welcome(struct fleet_node *n, const struct nodemsg *msg)
{
    struct fleet *f = n->fleet;
    f->counts.welcomed += !n->welcomed;
    n->welcomed = true;
    n->session = msg->session;
    n->sequence = 0;
    n->beat_due_us = clock_boot_us();
    beat_later(n, (int64_t)rng_below(&f->rng, (uint64_t)f->options.beat_ms * 1000));
    list_for_each (it, &n->attempts)
        report(list_entry(it, struct fleet_attempt, link));
}

static void take_beat(struct fleet_node *n, const struct nodemsg *msg)
{
    struct fleet *f = n->fleet;
    if (msg->beat != n->beat)
        return;
    f->counts.beats_answered++;
    if (f->counts.round_trip_count < FLEET_ROUND_TRIPS_MAX)
        f->round_trips_us[f->counts.round_trip_count++] =
            (int32_t)(clock_boot_us() - n->beat_sent_us);
}

/* Returns false for an order that a newer one has overtaken, as on a real node. */
static bool is_current(struct fleet_node *n, const struct nodemsg *msg)
{
    if (!n->welcomed || msg->session != n->session || msg->sequence <= n->sequence)
        return false;
    n->sequence = msg->sequence;
    return true;
}

static void take_message(struct fleet_node *n, const struct nodemsg *msg)
{
    switch (msg->type) {
    case NODEMSG_WELCOME:
        take_welcome(n, msg);
        break;
    case NODEMSG_BEAT:
        take_beat(n, msg);
        break;
    case NODEMSG_GRANT:
        if (is_current(n, msg))
            take_grant(n, &msg->grant);
        break;
    case NODEMSG_STOP:
        if (is_current(n, msg))
            take_stop(n, msg);
        break;
    case NODEMSG_SETTLE:
        if (is_current(n, msg))
            take_settle(n, msg);
        break;
    case NODEMSG_REFUSE:
        fprintf(stderr, "many_nodes: n%04zu is refused: %s\n", n->index, msg->text);
        break;
    default:
        break;
    }
}

static void on_readable(struct bufferevent *stream, void *arg)
{
    struct fleet_node *n = arg;
    char *line;
    size_t length;
    while ((line = evbuffer_readln(bufferevent_get_input(stream), &length, EVBUFFER_EOL_LF))) {
        struct arena arena;
        struct nodemsg msg;
        struct error e = {0};
        arena_init(&arena, ARENA_BYTES);
        if (nodemsg_parse(&e, &arena, line, length, &msg) == 0)
            take_message(n, &msg);
        else
            fprintf(stderr, "many_nodes: n%04zu cannot read: %s\n", n->index, e.text);
        arena_done(&arena);
        free(line);
    }
}

static void on_event(struct bufferevent *stream, short what, void *arg)
{
    (void)stream;
    if (what & BEV_EVENT_CONNECTED)
        say_hello(arg);
    else
        disconnect(arg);
}

static void on_connect(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct fleet_node *n = arg;
    struct fleet *f = n->fleet;
    n->stream = f->options.connect(f->options.arg, f->options.base, n->index);
    if (!n->stream) {
        disconnect(n);
        return;
    }
    bufferevent_setcb(n->stream, on_readable, NULL, on_event, n);
    bufferevent_enable(n->stream, EV_READ | EV_WRITE);
}

/* ---- life ---- */

/* Joins are spread over a short time. */
static int node_init(struct fleet *f, size_t index)
{
    struct fleet_node *n = &f->nodes[index];
    n->fleet = f;
    n->index = index;
    list_init(&n->attempts);
    n->beat_timer = evtimer_new(f->options.base, on_beat, n);
    n->connect_timer = evtimer_new(f->options.base, on_connect, n);
    const struct timeval tv =
        from_us((int64_t)index * f->options.beat_ms * 1000 / (int64_t)f->options.nodes);
    return n->beat_timer && n->connect_timer ? evtimer_add(n->connect_timer, &tv) : -1;
}

struct fleet *fleet_new(const struct fleet_options *options)
{
    struct fleet *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->options = *options;
    rng_seed(&f->rng, FLEET_SEED);
    f->nodes = calloc(options->nodes, sizeof *f->nodes);
    f->round_trips_us = calloc(FLEET_ROUND_TRIPS_MAX, sizeof *f->round_trips_us);
    f->device_usage = calloc((size_t)options->devices, sizeof *f->device_usage);
    f->attempt_usage = calloc(NODEMSG_ATTEMPTS_MAX, sizeof *f->attempt_usage);
    bool failed = !f->nodes || !f->round_trips_us || !f->device_usage || !f->attempt_usage;
    f->counts.round_trips_us = f->round_trips_us;
    snprintf(f->info.version, sizeof f->info.version, "%s", GPUMUX_VERSION);
    f->info.device_count = options->devices;
    for (int d = 0; d < options->devices; d++) {
        struct device *device = &f->info.devices[d];
        snprintf(device->model, sizeof device->model, "NVIDIA H200");
        device->index = d;
        device->memory_bytes = (uint64_t)DEVICE_MEMORY_GIB << 30;
        device->sm_count = 132;
        device->emulated = true;
    }
    for (size_t i = 0; i < options->nodes && !failed; i++)
        failed = node_init(f, i) < 0;
    if (!failed)
        return f;
    fleet_free(f);
    return NULL;
}

static void node_done(struct fleet_node *n)
{
    if (!n->fleet)
        return;
    list_for_each_safe (it, &n->attempts)
        attempt_free(list_entry(it, struct fleet_attempt, link));
    if (n->stream)
        bufferevent_free(n->stream);
    if (n->beat_timer)
        event_free(n->beat_timer);
    if (n->connect_timer)
        event_free(n->connect_timer);
}

void fleet_free(struct fleet *f)
{
    if (!f)
        return;
    for (size_t i = 0; f->nodes && i < f->options.nodes; i++)
        node_done(&f->nodes[i]);
    free(f->nodes);
    free(f->round_trips_us);
    free(f->device_usage);
    free(f->attempt_usage);
    free(f);
}

void fleet_count(const struct fleet *f, struct fleet_counts *ret)
{
    *ret = f->counts;
}

void fleet_forget_round_trips(struct fleet *f)
{
    f->counts.round_trip_count = 0;
}
