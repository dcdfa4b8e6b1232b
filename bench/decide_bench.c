/*
 * decide_bench POLICY DEVICES [TURNS]: CPU time of a placement decision on a busy cluster.
 *
 * The cluster has nodes of eight devices and tasks of 60 kinds and five sizes, on average two a
 * device. In each turn one task ends and another arrives. Prints the time of the cluster's step for
 * each: the step of a submission is the decision and its bookkeeping; the step of an end decides
 * again for all waiting tasks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "cluster/cluster.h"

enum { NODE_DEVICES = 8, KINDS = 60, TURNS = 4000 };

static struct forecast_profile profiles[KINDS + 1];

static const struct forecast_profile *profile(void *context, const struct forecast_device *device,
                                              uint32_t kind)
{
    (void)context;
    (void)device;
    return kind > 0 && kind <= KINDS ? &profiles[kind] : NULL;
}

static void together(void *context, const struct forecast_set *set,
                     struct forecast_answer *ret_answer)
{
    double sum = 0;
    (void)context;
    for (size_t i = 0; i < set->count; i++)
        sum += profiles[set->kinds[i]].sm_activity;
    for (size_t i = 0; i < set->count; i++) {
        ret_answer->pd[i] = sum > 1 ? sum : 1;
        ret_answer->p99_ms[i] = 0;
    }
}

static const struct forecast forecast = {.profile = profile, .together = together};

struct bench {
    struct cluster *cluster;
    struct cluster_actions actions;
    struct clock_now now;
    struct rng rng;
    uint64_t *running; /* ids of placed workloads that have not ended */
    char (*nodes)[NODE_NAME_MAX];
    size_t running_count, capacity;
    uint64_t *sessions;
};

static double cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Executes one step, records placements, and returns the time taken. */
static double step(struct bench *b, struct cluster_event *event)
{
    b->actions.count = 0;
    event->now = b->now;
    event->request = 1;
    double begun = cpu_us();
    if (cluster_step(b->cluster, event, &b->actions) < 0)
        exit(1);
    double took = cpu_us() - begun;
    for (size_t i = 0; i < b->actions.count; i++) {
        const struct cluster_action *a = &b->actions.items[i];
        if (a->kind != CLUSTER_SEND_GRANT || b->running_count == b->capacity)
            continue;
        b->running[b->running_count] = a->workload;
        (void)snprintf(b->nodes[b->running_count++], NODE_NAME_MAX, "%s", a->node);
    }
    return took;
}

static void join(struct bench *b, size_t node)
{
    struct node_info info = {.device_count = NODE_DEVICES};
    struct cluster_event event = {.kind = CLUSTER_NODE_HELLO};
    (void)snprintf(info.name, sizeof info.name, "n%zu", node);
    (void)snprintf(info.instance, sizeof info.instance, "i");
    for (int d = 0; d < NODE_DEVICES; d++) {
        (void)snprintf(info.devices[d].uuid, DEVICE_UUID_MAX, "n%zu-%d", node, d);
        (void)snprintf(info.devices[d].model, DEVICE_MODEL_MAX, "NVIDIA H200");
        info.devices[d].memory_bytes = 140;
    }
    event.hello.info = &info;
    (void)step(b, &event);
    for (size_t i = 0; i < b->actions.count; i++)
        if (b->actions.items[i].kind == CLUSTER_SEND_WELCOME)
            b->sessions[node] = b->actions.items[i].session;
}

static double submit(struct bench *b)
{
    struct workload_needs needs = {.devices = rng_below(&b->rng, 8) ? 1 : 4,
                                   .quota_bytes = 10 + 10 * rng_below(&b->rng, 5),
                                   .share_max_percent = 100};
    struct cluster_submission item = {.name = "w",
                                      .needs = &needs,
                                      .known = {.kind = (uint32_t)(1 + rng_below(&b->rng, KINDS)),
                                                .alone_ms = 60000 + 36e5 * rng_double(&b->rng)}};
    struct cluster_event event = {.kind = CLUSTER_SUBMIT};
    event.submit.count = 1;
    event.submit.items = &item;
    return step(b, &event);
}

static double end_one(struct bench *b)
{
    if (b->running_count == 0)
        return 0;
    size_t i = rng_below(&b->rng, b->running_count);
    struct attempt_report report = {
        .workload = b->running[i], .attempt = 1, .phase = ATTEMPT_EXITED};
    struct cluster_event event = {.kind = CLUSTER_NODE_REPORT};
    char node[NODE_NAME_MAX];
    memcpy(node, b->nodes[i], sizeof node);
    event.node.node = node;
    event.node.session = b->sessions[strtoull(node + 1, NULL, 10)];
    event.node.report = &report;
    b->running_count--;
    b->running[i] = b->running[b->running_count];
    memcpy(b->nodes[i], b->nodes[b->running_count], NODE_NAME_MAX);
    return step(b, &event);
}

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static void print(const char *what, double *times, size_t count)
{
    qsort(times, count, sizeof *times, compare);
    printf("%s_us p50 %.1f p99 %.1f max %.1f\n", what, times[count / 2], times[count * 99 / 100],
           times[count - 1]);
}

static int run(struct bench *b, size_t devices, size_t turns)
{
    double *submits = calloc(turns, sizeof *submits), *ends = calloc(turns, sizeof *ends);
    if (!submits || !ends)
        return 1;
    for (size_t n = 0; n < devices / NODE_DEVICES; n++)
        join(b, n);
    for (size_t i = 0; i < devices * 3 / 2; i++)
        (void)submit(b);
    for (size_t i = 0; i < turns; i++) {
        b->now.boot_ms += 1000;
        b->now.wall_ms += 1000;
        ends[i] = end_one(b);
        submits[i] = submit(b);
    }
    struct cluster_counts counts;
    cluster_count(b->cluster, &counts);
    printf("placed %zu waiting %zu\n", counts.by_state[WORKLOAD_PLACED],
           counts.by_state[WORKLOAD_QUEUED]);
    print("submit", submits, turns);
    print("end", ends, turns);
    free(submits);
    free(ends);
    return 0;
}

int main(int argc, char **argv)
{
    const struct policy *policy = argc > 2 ? policy_find(argv[1]) : NULL;
    size_t devices = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    if (!policy || devices < NODE_DEVICES) {
        fprintf(stderr, "usage: decide_bench POLICY DEVICES [TURNS]\n");
        return 2;
    }
    struct cluster_config config;
    struct bench b = {.now = {.wall_ms = 1700000000000, .boot_ms = 1000}, .capacity = devices * 8};
    cluster_config_default(&config);
    config.policy = policy;
    config.forecast = &forecast;
    config.queue_max = devices * 16;
    config.lease_ms = INT64_C(1) << 40; /* no node sends beats */
    config.resend_ms = INT64_C(1) << 40;
    for (uint32_t k = 1; k <= KINDS; k++)
        profiles[k] = (struct forecast_profile){.name = "task", .sm_activity = 0.1 + 0.014 * k};
    rng_seed(&b.rng, 1);
    cluster_actions_init(&b.actions);
    b.running = calloc(b.capacity, sizeof *b.running);
    b.nodes = calloc(b.capacity, sizeof *b.nodes);
    b.sessions = calloc(devices, sizeof *b.sessions);
    if (!b.running || !b.nodes || !b.sessions || cluster_new(&config, &b.cluster) < 0)
        return 1;
    cluster_load_done(b.cluster, 0, b.now);
    int status = run(&b, devices, argc > 3 ? strtoull(argv[3], NULL, 10) : TURNS);
    cluster_free(b.cluster);
    cluster_actions_done(&b.actions);
    free(b.running);
    free(b.nodes);
    free(b.sessions);
    return status;
}
