/*
 * The state: judges samples against the limits, and changes the state.
 *
 *   Init       three valid samples within limits in a row         → Healthy
 *              three outside in total, which adopted tasks cause  → as from Healthy
 *   Healthy    a soft limit → Unhealthy; a hard limit             → Overlimit
 *   Unhealthy  calm for 5 s (checked first)                       → Healthy
 *              a hard limit, or outside for 10 s in total         → Overlimit
 *   Overlimit  within limits for the hold                         → Healthy
 *   Disabled   left by repair.c only
 *
 * The latency of a service with a controller (guide.c) is no limit: the controller reacts instead.
 *
 * A violation counts only if tasks are present and would cure it by leaving. For memory, their
 * usage is subtracted; a task with the device to itself harms no other. For latency and clocks,
 * experience decides: a violation that persists for a while after the last task left is not the
 * tasks' doing, until a sample within limits.
 */
#include <stdarg.h>
#include <stdio.h>

#include "device/device_internal.h"

enum {
    SAMPLE_GAP_MS_MAX = 1000, /* longest gap between two samples that counts as time */
    HALVE_MS = 1000,
    SLOW_CLOCKS = DEVICE_SLOWDOWN_HARDWARE | DEVICE_SLOWDOWN_SOFTWARE_THERMAL |
                  DEVICE_SLOWDOWN_HARDWARE_THERMAL | DEVICE_SLOWDOWN_POWER_BRAKE,
};

static const double DEFAULT_PERCENTILE = 99;

struct finding {
    enum level level;
    char cause[DEVICE_CAUSE_MAX];
};

static void __attribute__((format(printf, 3, 4)))
find(struct finding *f, enum level level, const char *format, ...)
{
    if (level <= f->level)
        return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(f->cause, sizeof f->cause, format, args);
    va_end(args);
    f->level = level;
}

/* ---- judging a sample ---- */

static bool is_past(uint64_t used_bytes, uint64_t all_bytes, int percent)
{
    return used_bytes > all_bytes / 100 * (uint64_t)percent;
}

/* Returns whether the device has other users. Another attempt of the same workload is not one. */
static bool is_shared(const struct device_monitor *d, const struct device_sample *sample)
{
    for (size_t i = 1; i < d->tenant_count; i++)
        if (d->tenants[i].info.workload != d->tenants[0].info.workload)
            return true;
    return sample->has_strangers;
}

static void judge_memory(const struct device_monitor *d, const struct device_sample *sample,
                         struct finding *f)
{
    uint64_t tasks_bytes = 0, movable_bytes = 0, all = sample->memory_bytes;
    for (size_t i = 0; i < d->tenant_count; i++)
        if (tenant_is_task(&d->tenants[i]))
            tasks_bytes += d->tenants[i].memory_bytes;
    for (size_t i = 0; i < sample->tenant_count; i++)
        movable_bytes += sample->tenants[i].movable_bytes;
    /* Memory that tasks give when a service needs it is as good as free. */
    uint64_t used = sample->memory_used_bytes;
    used -= movable_bytes < used ? movable_bytes : used;
    tasks_bytes -= movable_bytes < tasks_bytes ? movable_bytes : tasks_bytes;
    uint64_t without = tasks_bytes < used ? used - tasks_bytes : 0;
    const int percents[] = {
        [SOFT] = d->config.memory_soft_percent, [HARD] = d->config.memory_hard_percent};
    for (enum level level = HARD; level > WITHIN && is_shared(d, sample); level--)
        if (is_past(used, all, percents[level]) && !is_past(without, all, percents[level]))
            find(f, level, "%d %% of its memory is in use, the limit is %d %%",
                 (int)((double)used * 100 / (double)all), percents[level]);
}

static void judge_clocks(struct device_monitor *d, const struct device_sample *sample,
                         bool tasks_gone, struct finding *f)
{
    uint64_t reasons = sample->slowdown & SLOW_CLOCKS;
    if (!reasons)
        d->slow_clocks_alone = false;
    else if (tasks_gone)
        d->slow_clocks_alone = true;
    if (reasons && !d->slow_clocks_alone)
        find(f, HARD, "its clocks are slowed: %s",
             reasons & DEVICE_SLOWDOWN_HARDWARE_THERMAL   ? "too hot (hardware)"
             : reasons & DEVICE_SLOWDOWN_POWER_BRAKE      ? "power brake"
             : reasons & DEVICE_SLOWDOWN_SOFTWARE_THERMAL ? "too hot (software)"
                                                          : "hardware slowdown");
}

static void judge_latency(struct device_monitor *d, struct tenant *t,
                          const struct device_tenant_sample *s, bool tasks_gone, struct finding *f)
{
    double soft_ms = s->slo_ms * d->config.latency_soft_percent / 100;
    double hard_ms = s->slo_ms * d->config.latency_hard_percent / 100;
    bool hard = s->latency_10s_ms > hard_ms && s->requests_10s >= d->config.latency_requests_least;
    bool soft = s->latency_5s_ms > soft_ms;
    double percentile = s->slo_percentile > 0 ? s->slo_percentile : DEFAULT_PERCENTILE;
    if (!(s->slo_ms > 0) || device_guidance(d, t->info.workload, t->info.attempt))
        return;
    if (!hard && !soft)
        t->slow_alone = false;
    else if (tasks_gone)
        t->slow_alone = true;
    if (t->slow_alone)
        return;
    unsigned long long id = t->info.workload;
    if (hard)
        find(f, HARD, "service %llu: p%g of %.1f ms over 10 s, its SLO is %.1f ms", id, percentile,
             s->latency_10s_ms, s->slo_ms);
    else if (soft)
        find(f, SOFT, "service %llu: p%g of %.1f ms over 5 s, its SLO is %.1f ms", id, percentile,
             s->latency_5s_ms, s->slo_ms);
}

static struct finding judge(struct device_monitor *d, const struct device_sample *sample)
{
    struct finding f = {.level = WITHIN};
    bool tasks_there = tenants_tasks(d) > 0;
    if (tasks_there)
        d->task_there_ms = d->now_ms;
    bool tasks_gone =
        !tasks_there && (d->task_there_ms < 0 || d->now_ms - d->task_there_ms >= d->config.cure_ms);
    for (size_t i = 0; i < sample->tenant_count; i++)
        for (size_t k = 0; k < d->tenant_count; k++)
            if (d->tenants[k].info.workload == sample->tenants[i].workload) {
                if (sample->tenants[i].has_memory)
                    d->tenants[k].memory_bytes = sample->tenants[i].memory_bytes;
                judge_latency(d, &d->tenants[k], &sample->tenants[i], tasks_gone, &f);
            }
    judge_clocks(d, sample, tasks_gone, &f);
    judge_memory(d, sample, &f);
    if (!tasks_there)
        f = (struct finding){.level = WITHIN};
    return f;
}

/* ---- consequences ---- */

static void throttle(struct device_monitor *d)
{
    d->rate_permille /= 2;
    if (d->rate_permille < DEVICE_RATE_LEAST_PERMILLE)
        d->rate_permille = DEVICE_RATE_LEAST_PERMILLE;
    d->throttled_ms = d->now_ms;
    device_act(d, DEVICE_ACT_THROTTLE)->rate_permille = d->rate_permille;
}

static void release(struct device_monitor *d)
{
    if (d->rate_permille == DEVICE_RATE_ALL_PERMILLE)
        return;
    d->rate_permille = DEVICE_RATE_ALL_PERMILLE;
    device_act(d, DEVICE_ACT_RELEASE)->rate_permille = d->rate_permille;
}

static void enter_overlimit(struct device_monitor *d)
{
    int64_t doubled =
        d->hold_ms > d->config.hold_max_ms / 2 ? d->config.hold_max_ms : d->hold_ms * 2;
    d->hold_ms = d->hold_ms ? doubled : d->config.hold_min_ms;
    for (size_t i = 0; i < d->tenant_count; i++)
        if (tenant_is_task(&d->tenants[i]))
            ending_evict(d, &d->tenants[i]);
}

void device_change(struct device_monitor *d, enum device_state to, const char *format, ...)
{
    struct device_action *a = device_act(d, DEVICE_ACT_STATE);
    a->from = d->state;
    a->to = to;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(a->text, sizeof a->text, format, args);
    va_end(args);
    (void)snprintf(d->cause, sizeof d->cause, "%s", a->text);
    d->state = to;
    d->state_since_ms = d->calm_since_ms = d->now_ms;
    d->outside_ms = 0;
    d->valid_samples = d->outside_samples = 0;
    if (to == DEVICE_UNHEALTHY)
        throttle(d);
    else if (to != DEVICE_OVERLIMIT) /* in Overlimit, leaving tasks stay throttled */
        release(d);
    if (to == DEVICE_OVERLIMIT)
        enter_overlimit(d);
}

static void cross(struct device_monitor *d, const struct finding *f)
{
    if (f->level != WITHIN)
        device_change(d, f->level == HARD ? DEVICE_OVERLIMIT : DEVICE_UNHEALTHY, "%s", f->cause);
}

static void in_init(struct device_monitor *d, const struct finding *f)
{
    d->valid_samples = f->level == WITHIN ? d->valid_samples + 1 : 0;
    d->outside_samples += f->level != WITHIN;
    if (d->valid_samples >= d->config.valid_samples)
        device_change(d, DEVICE_HEALTHY, "%d samples within limits", d->valid_samples);
    else if (d->outside_samples >= d->config.valid_samples)
        cross(d, f);
}

static void in_healthy(struct device_monitor *d, const struct finding *f)
{
    if (d->hold_ms && d->now_ms - d->state_since_ms >= d->config.hold_reset_ms)
        d->hold_ms = 0;
    cross(d, f);
}

static void in_unhealthy(struct device_monitor *d, const struct finding *f, int64_t passed_ms)
{
    if (f->level != WITHIN) {
        d->outside_ms += passed_ms;
        d->calm_since_ms = d->now_ms;
    }
    if (d->now_ms - d->calm_since_ms >= d->config.calm_ms)
        device_change(d, DEVICE_HEALTHY, "within limits for %lld s",
                      (long long)(d->config.calm_ms / 1000));
    else if (f->level == HARD)
        device_change(d, DEVICE_OVERLIMIT, "%s", f->cause);
    else if (d->outside_ms >= d->config.outside_ms)
        device_change(d, DEVICE_OVERLIMIT, "throttling did not help: %.90s",
                      f->level == WITHIN ? d->cause : f->cause);
    else if (d->now_ms - d->throttled_ms >= HALVE_MS &&
             d->rate_permille > DEVICE_RATE_LEAST_PERMILLE)
        throttle(d);
}

static void in_overlimit(struct device_monitor *d, const struct finding *f)
{
    if (f->level != WITHIN)
        d->calm_since_ms = d->now_ms;
    else if (d->now_ms - d->calm_since_ms >= d->hold_ms)
        device_change(d, DEVICE_HEALTHY, "within limits for %lld s",
                      (long long)(d->hold_ms / 1000));
}

static int64_t passed_since(const struct device_monitor *d, int64_t then_ms)
{
    int64_t passed_ms = then_ms ? d->now_ms - then_ms : 0;
    return passed_ms > SAMPLE_GAP_MS_MAX ? SAMPLE_GAP_MS_MAX : passed_ms;
}

/* A single missed sample may be chance, and a machine that stood still reveals nothing about its
 * devices. */
static void in_silence(struct device_monitor *d, bool lost, int64_t passed_ms)
{
    char cause[DEVICE_CAUSE_MAX];
    d->valid_samples = 0;
    d->silent_ms += passed_ms;
    if (!lost && d->silent_ms < d->config.silent_ms)
        return;
    (void)snprintf(cause, sizeof cause, "it has not answered for %lld s",
                   (long long)(d->silent_ms / 1000));
    d->silent_ms = 0;
    repair_lost(d, lost ? "fallen off the bus, says the driver" : cause);
}

void limits_sample(struct device_monitor *d, const struct device_sample *sample)
{
    int64_t looked_ms = d->looked_ms;
    d->looked_ms = d->now_ms;
    if (!sample->valid) {
        in_silence(d, sample->lost, passed_since(d, looked_ms));
        return;
    }
    int64_t passed_ms = passed_since(d, d->sampled_ms);
    d->silent_ms = 0;
    d->sampled_ms = d->now_ms;
    struct finding f = judge(d, sample);
    switch (d->state) {
    case DEVICE_INIT:
        in_init(d, &f);
        break;
    case DEVICE_HEALTHY:
        in_healthy(d, &f);
        break;
    case DEVICE_UNHEALTHY:
        in_unhealthy(d, &f, passed_ms);
        break;
    case DEVICE_OVERLIMIT:
        in_overlimit(d, &f);
        break;
    case DEVICE_DISABLED:
    case DEVICE_STATE_END:
        break;
    }
}
