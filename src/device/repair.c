/*
 * Faults, and the repair of the device.
 *
 * MPS ends all clients on the fault of one, names no culprit, and accepts no client until all have
 * left. So all clients leave (LEAVING), the server reports ready (SERVER), and tenants return:
 * services first, then the tasks as suspects, outside of MPS. A client that was alone is guilty,
 * not a suspect.
 *
 * A tenant outside of MPS faults alone. If there is only one such tenant, it is guilty; of several,
 * the one that fails within EXPLAIN_MS. If there are clients of MPS as well, MPS is asked whether
 * it saw the fault (ASKING).
 *
 * The loss of MPS disables the device: its clients leave, a new MPS is started (REPLACING), and a
 * process of the agent must be able to use it (TESTING).
 */
#include <stdarg.h>
#include <stdio.h>

#include "device/device_internal.h"

enum {
    EXPLAIN_MS = 5000,
    ANSWER_MS = 5000, /* time limit for MPS to say whether it saw a fault */
    ASK_AGAIN_MS = 500,
    LEAVE_MS = 5000,       /* time limit for clients of a lost MPS to leave */
    CLEANING_UP_MS = 2000, /* time after an end in which removed channels belong to that end */
    XID_CHANNEL_REMOVED = 45,
};

static const struct {
    int number;
    enum device_xid_kind kind;
    const char *what;
} xids[] = {
    {13, XID_FAULT, "graphics engine exception"},
    {31, XID_FAULT, "illegal address"},
    {43, XID_FAULT, "stopped processing"},
    {XID_CHANNEL_REMOVED, XID_FAULT, "channel removed"},
    {48, XID_FATAL, "uncorrectable ECC error"},
    {63, XID_FATAL, "a memory row is to be remapped"},
    {64, XID_FATAL, "a memory row could not be remapped"},
    {68, XID_FAULT, "video processor exception"},
    {74, XID_FATAL, "NVLink error"},
    {79, XID_FATAL, "fallen off the bus"},
    {92, XID_FATAL, "high rate of ECC errors"},
    {94, XID_FATAL, "contained ECC error"},
    {95, XID_FATAL, "uncontained ECC error"},
    {119, XID_FATAL, "GSP does not answer"},
    {120, XID_FATAL, "GSP error"},
};

static const char *xid_text(int xid)
{
    for (size_t i = 0; i < sizeof xids / sizeof xids[0]; i++)
        if (xids[i].number == xid)
            return xids[i].what;
    return "not known to gpumux";
}

enum device_xid_kind device_xid_kind(int xid)
{
    for (size_t i = 0; i < sizeof xids / sizeof xids[0]; i++)
        if (xids[i].number == xid)
            return xids[i].kind;
    return XID_NOTE;
}

static void __attribute__((format(printf, 3, 4)))
begin(struct device_monitor *d, enum repair repair, const char *format, ...)
{
    if (format) {
        char cause[DEVICE_CAUSE_MAX]; /* a copy, because the present cause may be an argument */
        va_list args;
        va_start(args, format);
        (void)vsnprintf(cause, sizeof cause, format, args);
        va_end(args);
        (void)snprintf(d->repair_cause, sizeof d->repair_cause, "%s", cause);
    }
    d->repair = repair;
    d->repair_asked_ms = -1;
}

static size_t clients_there(const struct device_monitor *d)
{
    size_t count = 0;
    for (size_t i = 0; i < d->tenant_count; i++)
        count += !d->tenants[i].info.isolated;
    return count;
}

static void finish(struct device_monitor *d)
{
    begin(d, REPAIR_NONE, NULL);
    d->services_first_ms = d->now_ms + d->config.services_first_ms;
}

/* ---- finding the culprit ---- */

/* Orders every client of MPS to leave. A single client is guilty if the fault certainly came from a
 * client. */
static void blame_clients(struct device_monitor *d, bool certain)
{
    bool alone = certain && tenants_unblamed(d, false) == 1;
    begin(d, REPAIR_LEAVING, NULL);
    for (size_t i = 0; i < d->tenant_count; i++) {
        struct tenant *t = &d->tenants[i];
        if (t->info.isolated)
            continue;
        if (alone)
            ending_begin(d, t, d->config.fault_grace_ms, VERDICT_GUILTY, "%.90s while alone",
                         d->repair_cause);
        else
            ending_begin(d, t, d->config.fault_grace_ms,
                         tenant_is_task(t) ? VERDICT_SUSPECT : VERDICT_MOVED,
                         "%.60s, in one of all that shared the device", d->repair_cause);
    }
}

static void blame_isolated(struct device_monitor *d)
{
    begin(d, REPAIR_NONE, NULL);
    if (tenants_unblamed(d, true) != 1) {
        d->fault_open_until_ms = d->now_ms + EXPLAIN_MS;
        return;
    }
    for (size_t i = 0; i < d->tenant_count; i++)
        if (d->tenants[i].info.isolated && d->tenants[i].verdict < VERDICT_SUSPECT)
            ending_begin(d, &d->tenants[i], d->config.fault_grace_ms, VERDICT_GUILTY,
                         "%.90s of its own", d->repair_cause);
}

bool repair_explains(const struct device_monitor *d, const struct tenant *t, bool failed)
{
    return failed && t->info.isolated && d->now_ms < d->fault_open_until_ms &&
           t->verdict < VERDICT_SUSPECT;
}

void repair_left(struct device_monitor *d, struct tenant *t, bool failed)
{
    if (repair_explains(d, t, failed))
        d->fault_open_until_ms = 0;
}

/* Handles a fault of unknown origin; cause is for people. */
static void fault(struct device_monitor *d, const char *cause)
{
    size_t clients = tenants_unblamed(d, false), isolated = tenants_unblamed(d, true);
    if (d->repair != REPAIR_NONE || d->state == DEVICE_DISABLED || clients + isolated == 0)
        return; /* already being handled, or no fault of a tenant */
    begin(d, REPAIR_NONE, "%s", cause);
    if (isolated == 0) {
        blame_clients(d, true);
    } else if (clients == 0) {
        blame_isolated(d);
    } else {
        begin(d, REPAIR_ASKING, NULL);
        d->repair_until_ms = d->now_ms + ANSWER_MS;
    }
}

void repair_resume(struct device_monitor *d, struct tenant *t)
{
    bool of_all = !t->info.isolated && t->info.verdict >= VERDICT_SUSPECT;
    if (of_all && d->repair == REPAIR_NONE && d->state != DEVICE_DISABLED)
        begin(d, REPAIR_LEAVING, "%s", t->info.why);
    /* A tenant that only moves keeps its grace to save its work. Its supervisor keeps the earlier
     * deadline. */
    bool own_grace = t->info.verdict == VERDICT_MOVED &&
                     (t->info.isolated || (!d->mps_lost && d->repair == REPAIR_NONE));
    ending_begin(d, t, own_grace ? t->info.grace_ms : d->config.fault_grace_ms, t->info.verdict,
                 "%s", t->info.why);
}

/* ---- a disabled device ---- */

static void end_all(struct device_monitor *d, bool own_grace, const char *why)
{
    for (size_t i = 0; i < d->tenant_count; i++) {
        struct tenant *t = &d->tenants[i];
        ending_begin(d, t, own_grace ? t->info.grace_ms : d->config.fault_grace_ms, VERDICT_MOVED,
                     "its device is disabled: %.90s", why);
    }
}

/* Withdraws the blame for recent faults, which the broken device caused. Blame from an earlier
 * agent stays. */
static void acquit_all(struct device_monitor *d, const char *why)
{
    for (size_t i = 0; i < d->tenant_count; i++) {
        struct tenant *t = &d->tenants[i];
        if (t->verdict < VERDICT_SUSPECT || t->info.verdict >= VERDICT_SUSPECT)
            continue;
        t->verdict = VERDICT_MOVED;
        (void)snprintf(t->why, sizeof t->why, "its device is disabled: %.90s", why);
        struct device_action *a = device_act(d, DEVICE_ACT_ACQUIT);
        a->workload = t->info.workload;
        a->attempt = t->info.attempt;
        (void)snprintf(a->text, sizeof a->text, "%s", t->why);
    }
}

static void disable(struct device_monitor *d, const char *why)
{
    if (d->state != DEVICE_DISABLED)
        device_change(d, DEVICE_DISABLED, "%s", why);
    else
        (void)snprintf(d->cause, sizeof d->cause, "%s", why);
}

static void break_down(struct device_monitor *d, const char *cause)
{
    device_say(d, DEVICE_ACT_ALARM, "%s", cause);
    d->broken = true;
    disable(d, cause);
    acquit_all(d, cause);
    end_all(d, false, cause);
}

void repair_lost(struct device_monitor *d, const char *cause)
{
    if (!d->broken) /* otherwise already known */
        break_down(d, cause);
}

void repair_xid(struct device_monitor *d, int xid)
{
    char cause[DEVICE_CAUSE_MAX];
    (void)snprintf(cause, sizeof cause, "Xid %d: %s", xid, xid_text(xid));
    bool cleaning_up =
        xid == XID_CHANNEL_REMOVED && d->left_ms >= 0 && d->now_ms - d->left_ms < CLEANING_UP_MS;
    for (size_t i = 0; i < d->tenant_count && xid == XID_CHANNEL_REMOVED; i++)
        cleaning_up = cleaning_up || d->tenants[i].ending != ENDING_NO;
    switch (device_xid_kind(xid)) {
    case XID_NOTE:
        device_say(d, DEVICE_ACT_NOTE, "%s", cause);
        break;
    case XID_FAULT:
        device_say(d, DEVICE_ACT_NOTE, "%s", cause);
        if (!cleaning_up)
            fault(d, cause);
        break;
    case XID_FATAL:
        break_down(d, cause);
        break;
    }
}

void repair_operator(struct device_monitor *d, bool enable, const char *why)
{
    if (!enable) {
        const char *cause = why ? why : "an operator's word";
        d->by_operator = true;
        disable(d, cause);
        end_all(d, true, cause);
        return;
    }
    d->by_operator = d->broken = false;
    if (d->state == DEVICE_DISABLED && !d->mps_lost)
        device_change(d, DEVICE_INIT, "enabled by an operator");
}

/* ---- MPS ---- */

static void lose_mps(struct device_monitor *d, const char *cause)
{
    d->mps_lost = true;
    d->replaced_in_vain = false;
    device_say(d, DEVICE_ACT_ALARM, "%s", cause);
    begin(d, REPAIR_REPLACING, "%s", cause);
    d->repair_until_ms = d->now_ms + LEAVE_MS;
    if (d->state != DEVICE_DISABLED)
        disable(d, cause);
    for (size_t i = 0; i < d->tenant_count; i++)
        if (!d->tenants[i].info.isolated)
            ending_begin(d, &d->tenants[i], d->config.fault_grace_ms, VERDICT_MOVED, "%.100s",
                         cause);
}

static void replace_again_later(struct device_monitor *d)
{
    begin(d, REPAIR_REPLACING, NULL);
    d->replaced_in_vain = true;
    d->repair_until_ms = d->now_ms + d->config.self_test_again_ms;
}

static void mps_is_lost(struct device_monitor *d, const char *why)
{
    char cause[DEVICE_CAUSE_MAX];
    (void)snprintf(cause, sizeof cause, "MPS was lost%s%s", why ? ": " : "", why ? why : "");
    if (d->repair != REPAIR_REPLACING && d->repair != REPAIR_TESTING)
        lose_mps(d, cause);
    else if (d->repair_asked_ms >= 0) /* the new MPS failed, too */
        replace_again_later(d);
}

void repair_mps(struct device_monitor *d, enum device_mps mps, const char *why)
{
    switch (mps) {
    case DEVICE_MPS_LOST:
        mps_is_lost(d, why);
        break;
    case DEVICE_MPS_FAULTED:
        if (d->repair == REPAIR_ASKING) {
            blame_clients(d, true);
        } else if (d->repair == REPAIR_NONE && d->state != DEVICE_DISABLED &&
                   tenants_unblamed(d, false) > 0) {
            begin(d, REPAIR_NONE, "MPS says that a client faulted");
            blame_clients(d, true);
        }
        break;
    case DEVICE_MPS_READY:
        if (d->repair == REPAIR_ASKING) {
            blame_isolated(d);
        } else if (d->repair == REPAIR_SERVER) {
            finish(d);
        } else if (d->repair == REPAIR_REPLACING && d->repair_asked_ms >= 0) {
            begin(d, REPAIR_TESTING, NULL);
            d->repair_asked_ms = d->now_ms;
            device_act(d, DEVICE_ACT_SELF_TEST);
        }
        break;
    }
}

void repair_self_tested(struct device_monitor *d, bool passed)
{
    if (d->repair != REPAIR_TESTING)
        return;
    if (!passed) {
        device_say(d, DEVICE_ACT_ALARM, "the self-test of the device failed");
        replace_again_later(d);
        return;
    }
    d->mps_lost = false;
    finish(d);
    if (!d->by_operator && !d->broken)
        device_change(d, DEVICE_INIT, "MPS was replaced, and the self-test passed");
}

/* ---- time ---- */

static void ask_mps(struct device_monitor *d)
{
    if (d->repair_asked_ms >= 0 && d->now_ms - d->repair_asked_ms < ASK_AGAIN_MS)
        return;
    d->repair_asked_ms = d->now_ms;
    device_act(d, DEVICE_ACT_MPS_CHECK);
}

/* Replaces MPS. The clients of the lost MPS leave first, within a time limit. A failed replacement
 * is retried after a delay. */
static void replace_mps(struct device_monitor *d)
{
    bool waits = d->replaced_in_vain || clients_there(d) > 0;
    if (d->repair_asked_ms >= 0 || (waits && d->now_ms < d->repair_until_ms))
        return;
    d->repair_asked_ms = d->now_ms;
    device_act(d, DEVICE_ACT_MPS_REPLACE);
}

void repair_tick(struct device_monitor *d)
{
    if (d->repair == REPAIR_LEAVING && clients_there(d) == 0) {
        begin(d, REPAIR_SERVER, NULL);
        d->repair_until_ms = d->now_ms + d->config.server_ms;
    }
    switch (d->repair) {
    case REPAIR_ASKING:
        if (d->now_ms >= d->repair_until_ms)
            blame_clients(d, false);
        else
            ask_mps(d);
        break;
    case REPAIR_SERVER:
        if (d->now_ms >= d->repair_until_ms)
            lose_mps(d, "MPS takes no clients after a fault");
        else
            ask_mps(d);
        break;
    case REPAIR_REPLACING:
        replace_mps(d);
        break;
    case REPAIR_NONE:
    case REPAIR_LEAVING:
    case REPAIR_TESTING:
        break;
    }
}
