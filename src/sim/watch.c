/*
 * Watched devices: a service is close to its SLO beside tasks, or a fault occurred. Meanwhile
 * device_step receives the samples that an agent would send, five a second, and its actions are
 * carried out: tasks are throttled, then evicted, and the cluster is told if no task may start.
 * Other devices are not sampled, because their samples would have no effect.
 */
#include <math.h>
#include <stdlib.h>

#include "sim/engine_internal.h"

enum { SAMPLE_MS = 200, SETTLED_SAMPLES = 3 };
/* Soft limit of the monitor, as a fraction of the SLO. */
static const double near_slo = 0.9;
static const int64_t requests_window_s = 10;

static double worst(const struct engine *g, const struct site *s)
{
    double ratio = 0;
    for (size_t i = 0; i < s->resident_count; i++) {
        const struct task *t = &g->tasks[s->residents[i].task];
        if (task_is_service(t) && t->phase == TASK_RUNNING)
            ratio = fmax(ratio, t->serving.p99_ms / t->service->slo_ms);
    }
    return ratio;
}

static size_t task_count(const struct engine *g, const struct site *s)
{
    size_t count = 0;
    for (size_t i = 0; i < s->resident_count; i++)
        count += !task_is_service(&g->tasks[s->residents[i].task]);
    return count;
}

static void give_sample(struct engine *g, struct site *s, int64_t now_ms, bool is_well)
{
    struct device_tenant_sample tenants[SITE_RESIDENTS_MAX] = {0};
    uint64_t memory_bytes = g->config->hardware->groups[s->group].memory_bytes;
    struct device_sample sample = {.valid = true,
                                   .memory_bytes = memory_bytes,
                                   .memory_used_bytes = memory_bytes / 2,
                                   .tenant_count = s->resident_count,
                                   .tenants = tenants};
    for (size_t i = 0; i < s->resident_count; i++) {
        const struct task *t = &g->tasks[s->residents[i].task];
        tenants[i].workload = t->first_id;
        if (!task_is_service(t) || t->phase != TASK_RUNNING || is_well)
            continue;
        tenants[i].slo_ms = t->service->slo_ms;
        tenants[i].latency_5s_ms = tenants[i].latency_10s_ms = fmin(t->serving.p99_ms, 1e6);
        tenants[i].requests_10s = (int64_t)(t->rate_per_s * (double)requests_window_s);
    }
    device_step(s->monitor,
                &(struct device_event){.kind = DEVICE_SAMPLE, .now_ms = now_ms, .sample = &sample},
                g->device_actions);
}

static void come(struct engine *g, struct site *s, const struct task *t, int64_t now_ms)
{
    struct device_tenant_info info = {.workload = t->first_id,
                                      .attempt = 1,
                                      .kind = task_is_service(t) ? WORKLOAD_SERVICE : WORKLOAD_TASK,
                                      .adopted = true};
    struct device_event event = {.kind = DEVICE_TENANT_CAME, .now_ms = now_ms, .came = &info};
    device_step(s->monitor, &event, g->device_actions);
    event = (struct device_event){.kind = DEVICE_TENANT_RUNS, .now_ms = now_ms};
    event.tenant.workload = t->first_id;
    event.tenant.attempt = 1;
    device_step(s->monitor, &event, g->device_actions);
}

static void open_watch(struct engine *g, struct site *s)
{
    struct device_config config;
    device_config_default(&config);
    if (device_monitor_new(&config, &s->monitor) < 0) {
        g->failed = -ERR_NO_MEMORY;
        return;
    }
    /* The device was healthy until now. */
    int64_t from_ms = g->now_ms - (SETTLED_SAMPLES + 1) * SAMPLE_MS;
    for (size_t i = 0; i < s->resident_count; i++)
        come(g, s, &g->tasks[s->residents[i].task], from_ms);
    for (int i = 1; i <= SETTLED_SAMPLES; i++)
        give_sample(g, s, from_ms + i * SAMPLE_MS, true);
    engine_schedule(g, &s->watch, g->now_ms + SAMPLE_MS);
}

void watch_consider(struct engine *g, struct site *s)
{
    bool protects = g->ways.time || g->ways.space;
    if (protects && !s->monitor && worst(g, s) > near_slo)
        open_watch(g, s);
}

void watch_came(struct engine *g, struct site *s, const struct task *t)
{
    if (s->monitor)
        come(g, s, t, g->now_ms);
}

void watch_left(struct engine *g, struct site *s, const struct task *t)
{
    struct device_event event = {.kind = DEVICE_TENANT_LEFT, .now_ms = g->now_ms};
    event.tenant.workload = t->first_id;
    event.tenant.attempt = 1;
    if (s->monitor)
        device_step(s->monitor, &event, g->device_actions);
}

static void end_watch(struct engine *g, struct site *s)
{
    engine_unschedule(g, &s->watch);
    device_monitor_free(s->monitor);
    s->monitor = NULL;
    s->throttle = 1;
}

/* Actions to carry out after a step. */
struct orders {
    uint64_t ended[SITE_RESIDENTS_MAX];
    enum attempt_verdict verdicts[SITE_RESIDENTS_MAX];
    size_t ended_count;
    double throttle;
    bool state_changed, asks_mps, asks_test;
};

static bool is_ended(const struct orders *o, uint64_t workload)
{
    for (size_t i = 0; i < o->ended_count; i++)
        if (o->ended[i] == workload)
            return true;
    return false;
}

/* Copies the actions, because carrying them out steps again and overwrites them. */
static struct orders read_orders(const struct engine *g, const struct site *s)
{
    struct orders o = {.throttle = s->throttle};
    for (size_t i = 0; i < g->device_actions->count; i++) {
        const struct device_action *a = &g->device_actions->items[i];
        if (a->kind == DEVICE_ACT_THROTTLE)
            o.throttle = a->rate_permille / 1000.0;
        else if (a->kind == DEVICE_ACT_RELEASE)
            o.throttle = 1;
        else if (a->kind == DEVICE_ACT_STATE)
            o.state_changed = true;
        else if (a->kind == DEVICE_ACT_MPS_CHECK || a->kind == DEVICE_ACT_MPS_REPLACE)
            o.asks_mps = true;
        else if (a->kind == DEVICE_ACT_SELF_TEST)
            o.asks_test = true;
        else if (a->kind == DEVICE_ACT_END && o.ended_count < SITE_RESIDENTS_MAX &&
                 !is_ended(&o, a->workload)) {
            o.verdicts[o.ended_count] = device_verdict(s->monitor, a->workload, 1, true, NULL);
            o.ended[o.ended_count++] = a->workload;
        }
    }
    return o;
}

/* Carries out the actions of a step. MPS is ready once its clients have left. */
static void act(struct engine *g, struct site *s)
{
    while (g->failed == 0 && g->device_actions->count > 0) {
        struct orders o = read_orders(g, s);
        g->device_actions->count = 0;
        if (o.throttle != s->throttle) {
            s->throttle = o.throttle;
            site_refresh(g, s);
        }
        /* The departure of the last one may cause further actions. */
        for (size_t i = 0; g->failed == 0 && i < o.ended_count; i++)
            engine_evict(g, o.ended[i], o.verdicts[i], "its device ended it");
        if (o.state_changed || o.ended_count > 0)
            engine_say_health(g, s);
        struct device_event event = {.kind = DEVICE_MPS, .now_ms = g->now_ms};
        event.mps = s->resident_count > 0 ? DEVICE_MPS_FAULTED : DEVICE_MPS_READY;
        if (o.asks_test) {
            event.kind = DEVICE_SELF_TESTED;
            event.passed = true;
        }
        if (o.asks_mps || o.asks_test)
            device_step(s->monitor, &event, g->device_actions);
    }
}

void watch_forget(struct engine *g, struct site *s)
{
    if (s->monitor)
        end_watch(g, s);
}

void watch_fault(struct engine *g, struct site *s)
{
    enum { XID_ILLEGAL_ADDRESS = 31 };
    if (!s->monitor)
        open_watch(g, s);
    if (g->failed < 0)
        return;
    device_step(
        s->monitor,
        &(struct device_event){.kind = DEVICE_XID, .now_ms = g->now_ms, .xid = XID_ILLEGAL_ADDRESS},
        g->device_actions);
    act(g, s);
}

void watch_sample(struct engine *g, struct site *s)
{
    give_sample(g, s, g->now_ms, false);
    act(g, s);
    bool is_well = worst(g, s) <= near_slo || task_count(g, s) == 0;
    if (device_state(s->monitor) == DEVICE_HEALTHY && device_admission(s->monitor) == ADMIT_ALL &&
        is_well) {
        engine_say_health(g, s);
        end_watch(g, s);
    } else {
        engine_schedule(g, &s->watch, g->now_ms + SAMPLE_MS);
    }
}
