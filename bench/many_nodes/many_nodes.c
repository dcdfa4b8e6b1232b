/*
 * many_nodes [OPTION VALUE]...: the load on control of many nodes and steady submits.
 *
 *   --api PATH                      API socket of control
 *   --node-socket PATH              nodes connect to this socket, or with
 *   --url URL --state DIR           TLS; control's state has the key for their certificates
 *   --control PID                   process whose CPU time and memory are measured
 *   --nodes N --devices D           number of nodes, and of devices on each
 *   --running R                     attempts that run all the time, besides the measured ones
 *   --submits-per-s S --task-ms T   rate and run time of the measured ones
 *   --seconds M --submits-least L   time of the measurement, and least number of submits,
 *                                   however slow the machine is
 *
 * A grant's latency is the time from sending a submit's request to the grant's arrival at the node,
 * including parsing, the decision, the durable commit and the transport to the node. Prints
 * name=value pairs. Exits with 1 if a workload was refused, never granted or never settled. Grants
 * are repeated and connections lost only if the machine stalls for seconds; both are counted.
 */
#include <dirent.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "fleet.h"
#include "submits.h"
#include "way.h"
#include "wire/nodemsg.h"

enum {
    SAMPLES_MAX = 1 << 18,
    JOIN_S = 60,
    FILL_S = 120,
    FILL_AT_ONCE = 500, /* of one array */
    SETTLE_S = 60,
    LEAST_S = 120, /* for --submits-least */
    WARM_UP_S = 2,
};

struct sample {
    int64_t sent_us, answered_us, granted_us;
};

struct bench {
    const char *api, *node_socket, *url, *state;
    struct way *way;
    int64_t control_pid, nodes, devices, running, submits_per_s, task_ms, seconds, submits_least;
    struct event_base *base;
    struct fleet *fleet;
    struct submits *submits;
    struct event *submit_timer, *wake;
    struct sample *samples;
    size_t sample_count, filled, granted, settled, refused;
};

/* ---- events ---- */

static struct bufferevent *connect_node(void *arg, struct event_base *base, size_t node)
{
    struct bench *b = arg;
    return way_connect(b->way, base, node);
}

/* Measured workloads are named m0, m1, …; the others run all the time. */
static int64_t on_granted(void *arg, const struct grant *grant)
{
    struct bench *b = arg;
    if (grant->name[0] != 'm') {
        b->filled++;
        return -1;
    }
    size_t number = strtoul(grant->name + 1, NULL, 10);
    if (number < b->sample_count && !b->samples[number].granted_us) {
        b->samples[number].granted_us = clock_boot_us();
        b->granted++;
    }
    return b->task_ms;
}

static void on_settled(void *arg, uint64_t workload)
{
    (void)workload;
    struct bench *b = arg;
    b->settled++;
}

static void on_answered(void *arg, size_t number, int status)
{
    struct bench *b = arg;
    if (status != 201) {
        fprintf(stderr, "many_nodes: a submit was answered with %d\n", status);
        b->refused++;
    } else if (number < b->sample_count) {
        b->samples[number].answered_us = clock_boot_us();
    }
}

static void on_submit(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct bench *b = arg;
    char body[256];
    if (b->sample_count == SAMPLES_MAX)
        return;
    size_t number = b->sample_count++;
    snprintf(body, sizeof body,
             "{\"name\":\"m%zu\",\"command\":[\"train\",\"--epochs\",\"90\"],\"directory\":\"/\"}",
             number);
    b->samples[number].sent_us = clock_boot_us();
    if (submits_send(b->submits, number, body) < 0)
        b->refused++;
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what, (void)arg;
}

/* ---- course ---- */

static bool all_joined(const struct bench *b)
{
    struct fleet_counts counts;
    fleet_count(b->fleet, &counts);
    return counts.welcomed == (size_t)b->nodes;
}

static bool all_filled(const struct bench *b)
{
    return b->filled == (size_t)b->running;
}

static bool all_settled(const struct bench *b)
{
    return b->granted == b->sample_count && b->settled == b->sample_count;
}

static bool enough_sent(const struct bench *b)
{
    return b->sample_count >= (size_t)b->submits_least;
}

static bool never(const struct bench *b)
{
    (void)b;
    return false;
}

/* Runs the loop until the condition holds or the time is over; returns the condition. */
static bool run_until(struct bench *b, bool (*condition)(const struct bench *), int64_t seconds)
{
    int64_t end_us = clock_boot_us() + seconds * 1000000;
    while (!condition(b) && clock_boot_us() < end_us)
        event_base_loop(b->base, EVLOOP_ONCE);
    return condition(b);
}

static int fill(struct bench *b)
{
    for (size_t left = (size_t)b->running; left > 0;) {
        size_t count = left < FILL_AT_ONCE ? left : FILL_AT_ONCE;
        char body[256];
        snprintf(body, sizeof body,
                 "{\"name\":\"f%zu\",\"command\":[\"train\"],\"directory\":\"/\",\"array\":%zu}",
                 left, count);
        if (submits_send(b->submits, SAMPLES_MAX, body) < 0)
            return -1;
        left -= count;
    }
    return run_until(b, all_filled, FILL_S) && b->refused == 0 ? 0 : -1;
}

/* Returns the CPU time of all threads in ns; a clock in ticks misses threads that run for less than
 * a tick. */
static int64_t control_cpu_ns(const struct bench *b)
{
    char path[300];
    int64_t sum_ns = 0;
    snprintf(path, sizeof path, "/proc/%lld/task", (long long)b->control_pid);
    DIR *tasks = opendir(path);
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        snprintf(path, sizeof path, "/proc/%lld/task/%.20s/schedstat", (long long)b->control_pid,
                 entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
        long long ns = 0;
        if (file && fscanf(file, "%lld", &ns) == 1)
            sum_ns += ns;
        if (file)
            fclose(file);
    }
    if (tasks)
        closedir(tasks);
    return sum_ns;
}

static long control_resident_kb(const struct bench *b)
{
    char path[64], line[256];
    long kb = 0;
    snprintf(path, sizeof path, "/proc/%lld/status", (long long)b->control_pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "VmRSS:", 6) == 0)
            kb = strtol(line + 6, NULL, 10);
    if (file)
        fclose(file);
    return kb;
}

/* ---- result ---- */

static int compare(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static void print_times(const char *name, int32_t *times_us, size_t count)
{
    qsort(times_us, count, sizeof *times_us, compare);
    printf(" %s_p50_us=%d %s_p99_us=%d %s_max_us=%d", name, count ? times_us[count / 2] : -1, name,
           count ? times_us[count * 99 / 100] : -1, name, count ? times_us[count - 1] : -1);
}

static void print_result(struct bench *b, const struct fleet_counts *counts, int64_t cpu_ns,
                         int64_t wall_us)
{
    int32_t *times_us = calloc(b->sample_count + counts->round_trip_count + 1, sizeof *times_us);
    size_t count = 0;
    if (!times_us)
        return;
    printf("nodes=%lld devices=%lld running=%lld submits=%zu granted=%zu settled=%zu refused=%zu "
           "repeated=%llu lost_connections=%llu beats=%llu cpu_percent=%.1f resident_kb=%ld",
           (long long)b->nodes, (long long)b->devices, (long long)b->running, b->sample_count,
           b->granted, b->settled, b->refused, (unsigned long long)counts->repeated_grants,
           (unsigned long long)counts->connections, (unsigned long long)counts->beats_answered,
           (double)cpu_ns / (double)wall_us / 10, control_resident_kb(b));
    for (size_t i = 0; i < b->sample_count; i++)
        if (b->samples[i].granted_us)
            times_us[count++] = (int32_t)(b->samples[i].granted_us - b->samples[i].sent_us);
    print_times("grant", times_us, count);
    count = 0;
    for (size_t i = 0; i < b->sample_count; i++)
        if (b->samples[i].answered_us)
            times_us[count++] = (int32_t)(b->samples[i].answered_us - b->samples[i].sent_us);
    print_times("answer", times_us, count);
    memcpy(times_us, counts->round_trips_us, counts->round_trip_count * sizeof *times_us);
    print_times("beat", times_us, counts->round_trip_count);
    putchar('\n');
    free(times_us);
}

static int measure(struct bench *b)
{
    struct fleet_counts counts;
    int64_t start_us = clock_boot_us();
    if (!run_until(b, all_joined, JOIN_S)) {
        fprintf(stderr, "many_nodes: not all nodes have joined\n");
        return -1;
    }
    printf("join_ms=%lld ", (long long)(clock_boot_us() - start_us) / 1000);
    if (fill(b) < 0) {
        fprintf(stderr, "many_nodes: only %zu of %lld run\n", b->filled, (long long)b->running);
        return -1;
    }
    (void)run_until(b, never, WARM_UP_S);
    const struct timeval every = {.tv_sec = b->submits_per_s == 1,
                                  .tv_usec = 1000000 / b->submits_per_s % 1000000};
    fleet_forget_round_trips(b->fleet);
    event_add(b->submit_timer, &every);
    int64_t cpu_ns = control_cpu_ns(b);
    start_us = clock_boot_us();
    (void)run_until(b, never, b->seconds);
    (void)run_until(b, enough_sent, LEAST_S);
    event_del(b->submit_timer);
    cpu_ns = control_cpu_ns(b) - cpu_ns;
    int64_t wall_us = clock_boot_us() - start_us;
    fleet_count(b->fleet, &counts);
    bool settled = run_until(b, all_settled, SETTLE_S + b->task_ms / 1000);
    if (!settled)
        fprintf(stderr, "many_nodes: not all workloads were granted and settled\n");
    print_result(b, &counts, cpu_ns, wall_us);
    return settled && b->refused == 0 ? 0 : -1;
}

/* ---- setup ---- */

static void read_options(int argc, char **argv, struct bench *b)
{
    static const struct option options[] = {{"api", required_argument, NULL, 0},
                                            {"node-socket", required_argument, NULL, 0},
                                            {"url", required_argument, NULL, 0},
                                            {"state", required_argument, NULL, 0},
                                            {"control", required_argument, NULL, 0},
                                            {"nodes", required_argument, NULL, 0},
                                            {"devices", required_argument, NULL, 0},
                                            {"running", required_argument, NULL, 0},
                                            {"submits-per-s", required_argument, NULL, 0},
                                            {"task-ms", required_argument, NULL, 0},
                                            {"seconds", required_argument, NULL, 0},
                                            {"submits-least", required_argument, NULL, 0},
                                            {0}};
    const char **const texts[] = {&b->api, &b->node_socket, &b->url, &b->state};
    int64_t *const numbers[] = {&b->control_pid,   &b->nodes,   &b->devices, &b->running,
                                &b->submits_per_s, &b->task_ms, &b->seconds, &b->submits_least};
    size_t text_count = sizeof texts / sizeof texts[0];
    int option, index = 0;
    while ((option = getopt_long(argc, argv, "", options, &index)) != -1) {
        if (option == '?')
            exit(2);
        if ((size_t)index < text_count)
            *texts[index] = optarg;
        else
            *numbers[(size_t)index - text_count] = strtoll(optarg, NULL, 10);
    }
    if (optind != argc || !b->api || !(b->node_socket || (b->url && b->state)) ||
        b->control_pid < 1 || b->nodes < 1 || b->running < 0 || b->devices < 0 ||
        b->devices > NODE_DEVICES_MAX || b->submits_per_s < 1 || b->task_ms < 0 || b->seconds < 1 ||
        b->submits_least < 0) {
        fprintf(stderr, "usage: many_nodes --api PATH --node-socket PATH | --url URL --state DIR "
                        "--control PID [--nodes N] [--devices D] [--running R] "
                        "[--submits-per-s S] [--task-ms T] [--seconds M] [--submits-least L]\n");
        exit(2);
    }
}

static int prepare(struct bench *b)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    b->base = event_base_new();
    b->samples = calloc(SAMPLES_MAX, sizeof *b->samples);
    if (!b->base || !b->samples)
        return -1;
    const struct fleet_options options = {.base = b->base,
                                          .nodes = (size_t)b->nodes,
                                          .devices = (int)b->devices,
                                          .beat_ms = 1000,
                                          .connect = connect_node,
                                          .granted = on_granted,
                                          .settled = on_settled,
                                          .arg = b};
    struct error e = {0};
    int r = b->node_socket ? way_new_unix(&e, b->node_socket, &b->way)
                           : way_new_tls(&e, b->url, b->state, (size_t)b->nodes, &b->way);
    if (r < 0) {
        fprintf(stderr, "many_nodes: %s\n", e.text);
        return -1;
    }
    b->fleet = fleet_new(&options);
    b->submits = submits_new(b->base, b->api, on_answered, b);
    b->submit_timer = event_new(b->base, -1, EV_PERSIST, on_submit, b);
    b->wake = event_new(b->base, -1, EV_PERSIST, on_wake, b);
    /* The loop checks its conditions at least this often. */
    const struct timeval tick = {.tv_usec = 50000};
    return b->fleet && b->submits && b->submit_timer && b->wake ? event_add(b->wake, &tick) : -1;
}

int main(int argc, char **argv)
{
    struct bench b = {
        .nodes = 500, .devices = 8, .submits_per_s = 10, .task_ms = 20000, .seconds = 30};
    read_options(argc, argv, &b);
    int r = prepare(&b);
    if (r == 0)
        r = measure(&b);
    if (b.submit_timer)
        event_free(b.submit_timer);
    if (b.wake)
        event_free(b.wake);
    submits_free(b.submits);
    fleet_free(b.fleet);
    way_free(b.way);
    if (b.base)
        event_base_free(b.base);
    free(b.samples);
    return r < 0 ? 1 : 0;
}
