/* One step: the event, then the effects of time. Also keeps the tenants. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "device/device_internal.h"

void device_config_default(struct device_config *config)
{
    *config = (struct device_config){.valid_samples = 3,
                                     .memory_soft_percent = 92,
                                     .memory_hard_percent = 97,
                                     .latency_soft_percent = 90,
                                     .latency_hard_percent = 100,
                                     .latency_requests_least = 200,
                                     .calm_ms = 5000,
                                     .outside_ms = 10000,
                                     .hold_min_ms = 10000,
                                     .hold_max_ms = 600000,
                                     .hold_reset_ms = 600000,
                                     .cure_ms = 10000,
                                     .fault_grace_ms = 1000,
                                     .server_ms = 5000,
                                     .services_first_ms = 3000,
                                     .suspend_ms = 900000,
                                     .probation_ms = 60000,
                                     .self_test_again_ms = 10000,
                                     .silent_ms = 10000};
}

int device_monitor_new(const struct device_config *config, struct device_monitor **ret)
{
    struct device_monitor *d = calloc(1, sizeof *d);
    if (!d)
        return -ERR_NO_MEMORY;
    d->config = *config;
    d->rate_permille = DEVICE_RATE_ALL_PERMILLE;
    d->task_there_ms = d->left_ms = -1;
    *ret = d;
    return 0;
}

void device_monitor_free(struct device_monitor *d)
{
    free(d);
}

/* ---- actions ---- */

struct device_action *device_act(struct device_monitor *d, enum device_action_kind kind)
{
    /* The bound covers all actions that one step can produce, over the stages of every tenant. */
    assert(d->actions->count < DEVICE_ACTIONS_MAX);
    struct device_action *a = &d->actions->items[d->actions->count++];
    *a = (struct device_action){.kind = kind};
    return a;
}

void device_say(struct device_monitor *d, enum device_action_kind kind, const char *format, ...)
{
    struct device_action *a = device_act(d, kind);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(a->text, sizeof a->text, format, args);
    va_end(args);
}

/* ---- tenants ---- */

struct tenant *tenant_find(struct device_monitor *d, uint64_t workload, int attempt)
{
    for (size_t i = 0; i < d->tenant_count; i++)
        if (d->tenants[i].info.workload == workload && d->tenants[i].info.attempt == attempt)
            return &d->tenants[i];
    return NULL;
}

bool tenant_is_task(const struct tenant *t)
{
    return t->info.kind == WORKLOAD_TASK;
}

size_t tenants_tasks(const struct device_monitor *d)
{
    size_t count = 0;
    for (size_t i = 0; i < d->tenant_count; i++)
        count += tenant_is_task(&d->tenants[i]);
    return count;
}

size_t tenants_unblamed(const struct device_monitor *d, bool isolated)
{
    size_t count = 0;
    for (size_t i = 0; i < d->tenant_count; i++)
        count += d->tenants[i].info.isolated == isolated && d->tenants[i].verdict < VERDICT_SUSPECT;
    return count;
}

static bool is_admitted(const struct device_monitor *d, const struct device_tenant_info *info)
{
    enum device_admission admission = device_admission(d);
    if (info->adopted)
        return d->state != DEVICE_DISABLED && (info->isolated || d->repair == REPAIR_NONE);
    return admission == ADMIT_ALL ||
           (admission == ADMIT_SERVICES && info->kind == WORKLOAD_SERVICE);
}

static void tenant_came(struct device_monitor *d, const struct device_tenant_info *info)
{
    if (tenant_find(d, info->workload, info->attempt))
        return;
    if (d->tenant_count == DEVICE_TENANTS_MAX) {
        struct device_action *a = device_act(d, DEVICE_ACT_END);
        a->workload = info->workload;
        a->attempt = info->attempt;
        (void)snprintf(a->text, sizeof a->text, "%d workloads are on the device already",
                       DEVICE_TENANTS_MAX);
        return;
    }
    struct tenant *t = &d->tenants[d->tenant_count++];
    *t = (struct tenant){.info = *info};
    if (tenant_is_task(t))
        d->task_there_ms = d->now_ms;
    if (info->verdict != VERDICT_OWN)
        repair_resume(d, t);
    else if (!is_admitted(d, info))
        ending_begin(d, t, 0, VERDICT_MOVED, "its device is %s%s%s",
                     d->repair ? "being repaired" : device_state_name(d->state),
                     d->cause[0] ? ": " : "", d->cause);
}

static void tenant_changed(struct device_monitor *d, const struct device_tenant_info *info)
{
    struct tenant *t = tenant_find(d, info->workload, info->attempt);
    if (!t)
        return;
    t->info.isolated = info->isolated;
    t->info.suspendable = info->suspendable;
}

static void tenant_left(struct device_monitor *d, uint64_t workload, int attempt, bool failed)
{
    struct tenant *t = tenant_find(d, workload, attempt);
    if (!t)
        return;
    if (tenant_is_task(t))
        d->task_there_ms = d->now_ms;
    repair_left(d, t, failed);
    guide_left(d, workload, attempt);
    d->left_ms = d->now_ms;
    *t = d->tenants[--d->tenant_count];
}

static void tenant_runs(struct device_monitor *d, uint64_t workload, int attempt)
{
    struct tenant *t = tenant_find(d, workload, attempt);
    if (!t || t->runs)
        return;
    t->runs = true;
    t->runs_since_ms = d->now_ms;
}

static void tenant_stays(struct device_monitor *d, uint64_t workload, int attempt, const char *why)
{
    struct tenant *t = tenant_find(d, workload, attempt);
    if (t)
        ending_stays(d, t, why);
}

static void tenant_moves(struct device_monitor *d, uint64_t workload, int attempt, const char *why)
{
    struct tenant *t = tenant_find(d, workload, attempt);
    if (t && tenant_is_task(t) && t->ending == ENDING_NO)
        ending_begin(d, t, t->info.grace_ms, VERDICT_MOVED, "%s", why);
}

/* Clears suspects that ran long enough alone, unless a fault is open that may be theirs. */
static void clear_suspects(struct device_monitor *d)
{
    if (device_is_asking(d))
        return;
    for (size_t i = 0; i < d->tenant_count; i++) {
        struct tenant *t = &d->tenants[i];
        if (!t->info.suspect || !t->runs || t->ending != ENDING_NO ||
            d->now_ms - t->runs_since_ms < d->config.probation_ms)
            continue;
        t->info.suspect = false;
        struct device_action *a = device_act(d, DEVICE_ACT_CLEAR);
        a->workload = t->info.workload;
        a->attempt = t->info.attempt;
    }
}

/* ---- the step ---- */

void device_step(struct device_monitor *d, const struct device_event *event,
                 struct device_actions *actions)
{
    actions->count = 0;
    d->actions = actions;
    if (event->now_ms > d->now_ms)
        d->now_ms = event->now_ms;
    switch (event->kind) {
    case DEVICE_SAMPLE:
        limits_sample(d, event->sample);
        break;
    case DEVICE_XID:
        repair_xid(d, event->xid);
        break;
    case DEVICE_MPS:
        repair_mps(d, event->mps, event->mps_why);
        break;
    case DEVICE_SELF_TESTED:
        repair_self_tested(d, event->passed);
        break;
    case DEVICE_OPERATOR:
        repair_operator(d, event->operator_says.enable, event->operator_says.why);
        break;
    case DEVICE_TENANT_CAME:
        tenant_came(d, event->came);
        break;
    case DEVICE_TENANT_CHANGED:
        tenant_changed(d, event->came);
        break;
    case DEVICE_TENANT_RUNS:
        tenant_runs(d, event->tenant.workload, event->tenant.attempt);
        break;
    case DEVICE_TENANT_LEFT:
        tenant_left(d, event->tenant.workload, event->tenant.attempt, event->tenant.failed);
        break;
    case DEVICE_TENANT_STAYS:
        tenant_stays(d, event->tenant.workload, event->tenant.attempt, event->tenant.why);
        break;
    case DEVICE_TENANT_MOVES:
        tenant_moves(d, event->tenant.workload, event->tenant.attempt, event->tenant.why);
        break;
    case DEVICE_SERVICE_LOOK:
        guide_look(d, event->service.workload, event->service.attempt, event->service.look);
        break;
    case DEVICE_EVENT_END:
        break;
    }
    repair_tick(d);
    clear_suspects(d);
    ending_tick(d);
    d->actions = NULL;
}

/* ---- queries ---- */

enum device_state device_state(const struct device_monitor *d)
{
    return d->state;
}

const char *device_cause(const struct device_monitor *d)
{
    return d->repair != REPAIR_NONE && d->state != DEVICE_DISABLED ? d->repair_cause : d->cause;
}

enum device_admission device_admission(const struct device_monitor *d)
{
    if (d->state == DEVICE_DISABLED || d->repair != REPAIR_NONE)
        return ADMIT_NONE;
    if (d->state != DEVICE_HEALTHY || d->now_ms < d->services_first_ms)
        return ADMIT_SERVICES;
    return ADMIT_ALL;
}

enum attempt_verdict device_verdict(const struct device_monitor *d, uint64_t workload, int attempt,
                                    bool failed, const char **ret_why)
{
    for (size_t i = 0; i < d->tenant_count; i++) {
        const struct tenant *t = &d->tenants[i];
        if (t->info.workload != workload || t->info.attempt != attempt)
            continue;
        bool explained = repair_explains(d, t, failed);
        if (ret_why)
            *ret_why = explained ? d->repair_cause : t->why;
        return explained ? VERDICT_GUILTY : t->verdict;
    }
    if (ret_why)
        *ret_why = "";
    return VERDICT_OWN;
}

bool device_needs_operator(const struct device_monitor *d)
{
    return d->by_operator || d->broken;
}

bool device_is_asking(const struct device_monitor *d)
{
    return d->repair == REPAIR_ASKING;
}

bool device_needs_test(const struct device_monitor *d)
{
    return d->mps_lost;
}
