/*
 * Ends a tenant that must leave; the attempt's state machine carries this out (attempt/stop.c). An
 * order that is graver or earlier than the last one is given, too. An evicted task is suspended if
 * possible, and ended if the suspension fails.
 */
#include <stdarg.h>
#include <stdio.h>

#include "device/device_internal.h"

void ending_begin(struct device_monitor *d, struct tenant *t, int64_t grace_ms,
                  enum attempt_verdict verdict, const char *format, ...)
{
    int64_t end_by_ms = d->now_ms + grace_ms;
    bool is_first = t->ending != ENDING_ASKED, is_graver = verdict > t->verdict;
    if (is_graver) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(t->why, sizeof t->why, format, args);
        va_end(args);
        t->verdict = verdict;
    }
    if (!is_first && !is_graver && end_by_ms >= t->end_by_ms)
        return;
    if (is_first || end_by_ms < t->end_by_ms)
        t->end_by_ms = end_by_ms;
    t->ending = ENDING_ASKED;
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
    t->suspends_until_ms = d->now_ms + d->config.suspend_ms;
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

void ending_tick(struct device_monitor *d)
{
    for (size_t i = 0; i < d->tenant_count; i++)
        if (d->tenants[i].ending == ENDING_SUSPENDS && d->now_ms >= d->tenants[i].suspends_until_ms)
            ending_stays(d, &d->tenants[i], "it took too long");
}
