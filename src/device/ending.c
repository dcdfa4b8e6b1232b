/*
 * How a tenant that must leave is ended: it is asked; if it does not answer in its grace period, MPS ends
 * its work (terminate_client: its neighbours survive that), and only then it is killed. A task that is evicted
 * is suspended first, where that can be done, and ended if it could not.
 */
#include <stdarg.h>
#include <stdio.h>

#include "device/device_internal.h"

enum {
    KILL_AGAIN_MS = 5000,
    /* terminate_client hurts whoever is just joining MPS; but nobody starts for ever. */
    STARTING_MS_MAX = 5000,
};

void ending_begin(struct device_monitor *d, struct tenant *t, int64_t grace_ms,
                  enum attempt_verdict verdict, const char *format, ...)
{
    if (verdict > t->verdict) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(t->why, sizeof t->why, format, args);
        va_end(args);
        t->verdict = verdict;
    }
    if (t->ending > ENDING_SUSPENDS)
        return;
    t->ending = ENDING_ASKED;
    t->ending_next_ms = d->now_ms + grace_ms;
    struct device_action *a = device_act(d, DEVICE_ACT_END);
    a->workload = t->info.workload;
    a->attempt = t->info.attempt;
    a->grace_ms = grace_ms;
    (void)snprintf(a->text, sizeof a->text, "%s", t->why);
}

void ending_evict(struct device_monitor *d, struct tenant *t)
{
    if (!t->info.suspendable || !t->runs || t->ending != ENDING_NO) {
        if (t->ending == ENDING_NO)
            ending_begin(d, t, t->info.grace_ms, VERDICT_MOVED, "evicted: %.100s", d->cause);
        return;
    }
    t->ending = ENDING_SUSPENDS;
    t->ending_next_ms = d->now_ms + d->config.suspend_ms;
    struct device_action *a = device_act(d, DEVICE_ACT_SUSPEND);
    a->workload = t->info.workload;
    a->attempt = t->info.attempt;
    (void)snprintf(a->text, sizeof a->text, "evicted: %.100s", d->cause);
}

void ending_stays(struct device_monitor *d, struct tenant *t, const char *why)
{
    if (t->ending == ENDING_SUSPENDS)
        ending_begin(d, t, t->info.grace_ms, VERDICT_MOVED,
                     "evicted, and it could not be suspended: %.70s", why);
}

static bool somebody_starts(const struct device_monitor *d, const struct tenant *but)
{
    for (size_t i = 0; i < d->tenant_count; i++) {
        const struct tenant *t = &d->tenants[i];
        if (t != but && !t->runs && !t->info.isolated && t->ending == ENDING_NO)
            return true;
    }
    return false;
}

static void next_stage(struct device_monitor *d, struct tenant *t)
{
    if (t->ending == ENDING_SUSPENDS) {
        ending_stays(d, t, "it took too long");
        return;
    }
    bool can_terminate = t->ending == ENDING_ASKED && !t->info.isolated && !d->mps_lost;
    if (can_terminate && somebody_starts(d, t) && d->now_ms < t->ending_next_ms + STARTING_MS_MAX)
        return;
    struct device_action *a = device_act(d, can_terminate ? DEVICE_ACT_TERMINATE : DEVICE_ACT_KILL);
    a->workload = t->info.workload;
    a->attempt = t->info.attempt;
    t->ending = can_terminate ? ENDING_TERMINATED : ENDING_KILLED;
    t->ending_next_ms = d->now_ms + (can_terminate ? d->config.terminate_ms : KILL_AGAIN_MS);
}

void ending_tick(struct device_monitor *d)
{
    for (size_t i = 0; i < d->tenant_count; i++)
        if (d->tenants[i].ending != ENDING_NO && d->now_ms >= d->tenants[i].ending_next_ms)
            next_stage(d, &d->tenants[i]);
}
