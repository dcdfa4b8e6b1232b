#include "node/device/monitor.h"

#include <event2/event.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/durable.h"
#include "device/device.h"
#include "node/agent_internal.h"
#include "node/device/holders.h"
#include "node/supervisor/latency.h"
#include "node/device/monitor_lists.h"
#include "node/device/notes.h"
#include "node/supervisor/process.h"
#include "node/device/self_test.h"
#include "node/device/watch.h"

struct monitor {
    struct agent *agent;
    struct gpu *gpu;
    struct watch *watch;
    struct event *readable;
    int count;
    struct device_monitor *devices[NODE_DEVICES_MAX]; /* same index as agent.info.devices */
    struct device_health health[NODE_DEVICES_MAX];
    bool needs_test[NODE_DEVICES_MAX];
    bool reads_lists;
    struct self_test tests[NODE_DEVICES_MAX];
    bool test_failed[NODE_DEVICES_MAX]; /* the test could not be started */
    bool changed;                       /* control should get a beat soon */
    struct notes notes;
    /* time at which the state of MPS was requested; 0: no request */
    int64_t mps_asked_ms[NODE_DEVICES_MAX];
    bool mps_held[NODE_DEVICES_MAX]; /* daemon in use for a self-test */
    struct device_actions actions;
    struct watch_news news;
};

/* ---- actions of devices ---- */

static void note(struct monitor *m, int device, bool alarm, const char *text)
{
    const char *uuid = m->agent->info.devices[device].uuid;
    log_write(m->agent->log, alarm ? LOG_ERROR : LOG_WARN,
              alarm ? "device alarm raised" : "device note recorded", "device=%s detail=\"%s\"",
              uuid, text);
    /* else the list is full, and only the log has the note */
    if (notes_add(&m->notes, uuid, alarm, text))
        m->changed = true;
}

void monitor_note(struct agent *a, int device, const char *text)
{
    if (a->monitor)
        note(a->monitor, device, false, text);
}

static void take_verdict(const struct monitor *m, int device, const struct run *r,
                         const struct device_action *action, struct attempt_stop *stop)
{
    const char *why;
    stop->reason = STOP_REASON_DEVICE;
    stop->verdict = device_verdict(m->devices[device], r->workload, r->attempt, false, &why);
    str_copy(stop->why, sizeof stop->why, stop->verdict == VERDICT_OWN ? action->text : why);
}

static void tell_run(struct monitor *m, int device, const struct device_action *action)
{
    static const enum attempt_event_kind kinds[DEVICE_ACTION_END] = {
        [DEVICE_ACT_SUSPEND] = ATTEMPT_EVICT,
        [DEVICE_ACT_END] = ATTEMPT_STOP,
        [DEVICE_ACT_ACQUIT] = ATTEMPT_ACQUIT,
        [DEVICE_ACT_CLEAR] = ATTEMPT_CLEARED};
    struct run *r = run_find(m->agent, action->workload, action->attempt);
    struct attempt_event event = {.kind = kinds[action->kind]};
    if (!r)
        return;
    str_copy(event.text, sizeof event.text, action->text);
    if (event.kind == ATTEMPT_STOP || event.kind == ATTEMPT_ACQUIT)
        take_verdict(m, device, r, action, &event.stop);
    event.stop.grace_ms = action->grace_ms;
    if (event.kind != ATTEMPT_CLEARED)
        log_write(m->agent->log, LOG_WARN, "device action taken",
                  "device=%s attempt=%s action=%s reason=\"%s\"",
                  m->agent->info.devices[device].uuid, r->name,
                  event.kind == ATTEMPT_EVICT  ? "suspend"
                  : event.kind == ATTEMPT_STOP ? "stop"
                                               : "acquit",
                  action->text);
    run_tell(r, &event);
}

static void start_self_test(struct monitor *m, int device)
{
    struct agent *a = m->agent;
    const char *uuid = a->info.devices[device].uuid;
    char mps_path[PATH_MAX];
    bool has_mps = !protect_mps_is_off(a) && mps_takes(a->mps, uuid, geteuid()) &&
                   protect_mps_path(a, uuid, mps_path, sizeof mps_path);
    const struct self_test_place place = {.uuid = uuid,
                                          .emulate = a->emulate,
                                          .emulate_libraries = a->emulate_libraries,
                                          .mps_directory = has_mps ? mps_path : NULL};
    self_test_cancel(&m->tests[device], &a->reaper);
    m->test_failed[device] = self_test_start(&m->tests[device], &place) < 0;
}

static void hold_mps(struct monitor *m, int device, bool hold)
{
    struct mps *mps = m->agent->mps;
    const char *uuid = m->agent->info.devices[device].uuid;
    if (protect_mps_is_off(m->agent) || m->mps_held[device] == hold)
        return;
    if (hold)
        m->mps_held[device] = mps_use(NULL, mps, uuid, geteuid()) == 0;
    else
        mps_release(mps, uuid);
    m->mps_held[device] = m->mps_held[device] && hold;
}

/* Adds a note on a state that control does not see while it is away; otherwise control makes
 * events. */
static void note_unseen(struct monitor *m, int device, const struct device_action *action)
{
    char text[WORKLOAD_TEXT_MAX];
    if (m->agent->link.welcomed || !m->agent->link.session)
        return;
    (void)snprintf(text, sizeof text, "became %s while control was away: %.120s",
                   device_state_name(action->to), action->text);
    (void)notes_add(&m->notes, m->agent->info.devices[device].uuid, false, text);
}

static void act(struct monitor *m, int device, const struct device_action *action)
{
    switch (action->kind) {
    case DEVICE_ACT_STATE:
        note_unseen(m, device, action);
        log_write(m->agent->log, action->to == DEVICE_HEALTHY ? LOG_INFO : LOG_WARN,
                  "device state changed", "device=%s from=%s to=%s reason=\"%s\"",
                  m->agent->info.devices[device].uuid, device_state_name(action->from),
                  device_state_name(action->to), action->text);
        break;
    case DEVICE_ACT_NOTE:
    case DEVICE_ACT_ALARM:
        note(m, device, action->kind == DEVICE_ACT_ALARM, action->text);
        break;
    case DEVICE_ACT_THROTTLE:
        registrar_throttle(m->agent->registrar, m->agent->info.devices[device].uuid,
                           (uint32_t)action->rate_permille);
        break;
    case DEVICE_ACT_RELEASE:
        registrar_throttle(m->agent->registrar, m->agent->info.devices[device].uuid, 0);
        break;
    case DEVICE_ACT_GUIDE:
        registrar_guide(m->agent->registrar, m->agent->info.devices[device].uuid,
                        action->is_guided ? &action->limits : NULL);
        break;
    case DEVICE_ACT_MPS_REPLACE: /* mps.h itself replaces a broken daemon that is in use */
        hold_mps(m, device, false);
        hold_mps(m, device, true);
        m->mps_asked_ms[device] = clock_boot_ms();
        break;
    case DEVICE_ACT_MPS_CHECK:
        m->mps_asked_ms[device] = clock_boot_ms();
        break;
    case DEVICE_ACT_SELF_TEST:
        start_self_test(m, device);
        break;
    default:
        tell_run(m, device, action);
        break;
    }
}

static void refresh_health(struct monitor *m, int device)
{
    const struct device_monitor *d = m->devices[device];
    struct device_health *h = &m->health[device];
    enum device_state state = device_state(d);
    enum device_admission admits = device_admission(d);
    const char *mps = m->agent->mps ? mps_state_name(mps_state_of(m->agent->mps, h->uuid)) : "";
    bool needs_operator = device_needs_operator(d);
    m->changed = m->changed || h->state != state || h->admits != admits ||
                 !str_equal(h->mps, mps) || h->needs_operator != needs_operator;
    h->needs_operator = needs_operator;
    h->state = state;
    h->admits = admits;
    str_copy(h->mps, sizeof h->mps, mps);
    str_copy(h->cause, sizeof h->cause, device_cause(d));
}

/* Writes the lists, also when only the reason of an unusable device has changed, not its state. */
static void keep_lists(struct monitor *m, int device)
{
    const struct device_monitor *d = m->devices[device];
    const struct device_health *h = &m->health[device]; /* the earlier health */
    bool needs_operator = device_needs_operator(d), needs_test = device_needs_test(d);
    bool is_listed = needs_operator || needs_test;
    bool is_new = needs_operator != h->needs_operator || needs_test != m->needs_test[device] ||
                  (is_listed && !str_equal(device_cause(d), h->cause));
    m->needs_test[device] = needs_test;
    if (is_new && !m->reads_lists)
        monitor_lists_write(m->agent, m->devices, m->count);
}

static void step(struct monitor *m, int device, struct device_event event)
{
    event.now_ms = clock_boot_ms();
    agent_hold(m->agent); /* consequences for attempts could step a device again */
    device_step(m->devices[device], &event, &m->actions);
    keep_lists(m, device); /* before any consequence */
    for (size_t i = 0; i < m->actions.count; i++)
        act(m, device, &m->actions.items[i]);
    refresh_health(m, device);
    agent_release(m->agent);
}

/* Sends control a beat at once if a step changed something. */
static void tell_control(struct monitor *m)
{
    if (!m->changed)
        return;
    m->changed = false;
    link_beat(m->agent);
}

/* ---- samples ---- */

/* Takes one kind of time, unless it is stale. Returns how much of its target the service uses. */
static double take_time(const struct run *r, enum control_time time, double slo_ms,
                        struct device_tenant_sample *ret)
{
    const struct control_latency *latency = &r->latency[time];
    int64_t age_ms = clock_boot_ms() - r->latency_at_ms[time];
    ret->slo_ms = slo_ms;
    ret->slo_percentile = r->own.terms.slo_percentile;
    if (age_ms < LATENCY_SOFT_MS)
        ret->latency_5s_ms = (double)latency->us_5s / 1000;
    if (age_ms < LATENCY_HARD_MS) {
        ret->latency_10s_ms = (double)latency->us_10s / 1000;
        ret->requests_10s = (int64_t)latency->requests_10s;
    }
    return (ret->latency_5s_ms > ret->latency_10s_ms ? ret->latency_5s_ms : ret->latency_10s_ms) /
           slo_ms;
}

/* Takes the times that the service reports: of several targets, the one that is nearest to its
 * limit, or furthest beyond. */
static void take_latency(const struct run *r, struct device_tenant_sample *ret)
{
    const struct terms *terms = &r->own.terms;
    const double targets_ms[CONTROL_TIMES] = {[CONTROL_TIME_LATENCY] = terms->slo_latency_ms,
                                              [CONTROL_TIME_FIRST] = terms->slo_first_ms,
                                              [CONTROL_TIME_BETWEEN] = terms->slo_between_ms};
    const struct device_tenant_sample before = *ret;
    double worst = -1;
    for (int time = 0; time < CONTROL_TIMES; time++) {
        struct device_tenant_sample taken = before;
        if (!(targets_ms[time] > 0) || r->latency_at_ms[time] == 0)
            continue;
        double used = take_time(r, (enum control_time)time, targets_ms[time], &taken);
        if (used <= worst)
            continue;
        worst = used;
        *ret = taken;
    }
}

static void sample_device(struct monitor *m, int device, struct process_table *table)
{
    const struct gpu_reading *reading = &m->news.readings[device];
    struct device_tenant_sample tenants[DEVICE_TENANTS_MAX];
    struct device_sample sample = {.valid = reading->valid,
                                   .lost = reading->lost,
                                   .memory_used_bytes = reading->memory_used_bytes,
                                   .memory_bytes = reading->memory_bytes,
                                   .slowdown = reading->slowdown,
                                   .tenants = tenants};
    sample.has_strangers =
        table && holders_have_stranger(m->agent, table, &m->news.processes, device);
    list_for_each (it, &m->agent->runs) {
        struct run *r = list_entry(it, struct run, link);
        if (!run_is_on(r, device) || sample.tenant_count == DEVICE_TENANTS_MAX)
            continue;
        struct device_tenant_sample *tenant = &tenants[sample.tenant_count++];
        *tenant =
            (struct device_tenant_sample){.workload = r->workload, .has_memory = table != NULL};
        if (table) {
            process_table_mark_tree(table, run_supervisor(r));
            tenant->memory_bytes = holders_members_bytes(table, &m->news.processes, device);
        }
        tenant->movable_bytes = give_way_movable(r, device);
        take_latency(r, tenant);
    }
    step(m, device, (struct device_event){.kind = DEVICE_SAMPLE, .sample = &sample});
}

static void answer_for_mps(struct monitor *m, int device)
{
    const struct agent *a = m->agent;
    const char *uuid = a->info.devices[device].uuid;
    int64_t asked_ms = m->mps_asked_ms[device];
    if (asked_ms == 0 || (a->mps && !mps_is_well_since(a->mps, uuid, asked_ms)))
        return;
    m->mps_asked_ms[device] = 0;
    enum mps_state state = a->mps ? mps_state_of(a->mps, uuid) : MPS_READY;
    step(m, device,
         (struct device_event){.kind = DEVICE_MPS,
                               .mps = state == MPS_FAULTED  ? DEVICE_MPS_FAULTED
                                      : state == MPS_FAILED ? DEVICE_MPS_LOST
                                                            : DEVICE_MPS_READY});
}

static void look_at_self_test(struct monitor *m, int device)
{
    enum self_test_result result = SELF_TEST_RUNS;
    if (m->tests[device].pid != 0)
        result = self_test_look(&m->tests[device], &m->agent->reaper);
    else if (m->test_failed[device])
        result = SELF_TEST_FAILED;
    if (result == SELF_TEST_RUNS)
        return;
    m->test_failed[device] = false;
    step(m, device,
         (struct device_event){.kind = DEVICE_SELF_TESTED, .passed = result == SELF_TEST_PASSED});
    hold_mps(m, device, false);
}

static void on_news(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct monitor *m = arg;
    struct process_table table;
    watch_read(m->watch, &m->news);
    for (size_t i = 0; i < m->news.xid_count; i++)
        step(m, m->news.xids[i].device,
             (struct device_event){.kind = DEVICE_XID, .xid = m->news.xids[i].xid});
    bool has_table = m->news.looked && m->news.has_processes && process_table_read(&table) == 0;
    for (int i = 0; i < m->count && m->news.looked; i++)
        sample_device(m, i, has_table ? &table : NULL);
    if (m->news.looked) {
        divide_look(m->agent, m->news.readings);
        steer_look(m->agent);
        give_way_sampled(m->agent, m->news.readings);
        protect_look(m->agent);
    }
    for (int i = 0; i < m->count; i++)
        look_at_self_test(m, i);
    if (has_table)
        process_table_done(&table);
    for (int i = 0; i < m->count; i++)
        answer_for_mps(m, i);
    tell_control(m);
}

/* ---- MPS ---- */

/* Handles a new state of MPS. A fault or failure is noted; start on demand, end and slowness are
 * not. */
void monitor_mps(struct agent *a, const char *uuid, enum mps_state state, const char *text)
{
    struct monitor *m = a->monitor;
    int d = m ? agent_find_device(a, uuid) : -1;
    char said[DEVICE_CAUSE_MAX];
    if (d < 0)
        return;
    (void)snprintf(said, sizeof said, "MPS: %.100s", text);
    if (state == MPS_FAILED)
        (void)snprintf(said, sizeof said, "%s: %.80s",
                       device_needs_test(m->devices[d]) ? "MPS cannot be replaced"
                                                        : "without MPS, its workloads take turns",
                       text);
    if (state == MPS_FAILED || state == MPS_FAULTED)
        note(m, d, state == MPS_FAILED, said);
    if (state == MPS_BROKEN)
        step(m, d,
             (struct device_event){
                 .kind = DEVICE_MPS, .mps = DEVICE_MPS_LOST, .mps_why = text[0] ? text : NULL});
    else if (state == MPS_FAULTED)
        step(m, d, (struct device_event){.kind = DEVICE_MPS, .mps = DEVICE_MPS_FAULTED});
    else
        refresh_health(m, d);
    tell_control(m);
}

/* ---- attempts ---- */

static bool device_admits(const struct device_monitor *device, enum workload_kind kind,
                          char why[WORKLOAD_TEXT_MAX])
{
    enum device_admission admits = device_admission(device);
    if (admits == ADMIT_ALL || (admits == ADMIT_SERVICES && kind == WORKLOAD_SERVICE))
        return true;
    (void)snprintf(why, WORKLOAD_TEXT_MAX, "its device is %s%s%.120s",
                   device_state_name(device_state(device)), device_cause(device)[0] ? ": " : "",
                   device_cause(device));
    return false;
}

bool monitor_admits(struct agent *a, const struct grant *grant, char why[WORKLOAD_TEXT_MAX])
{
    for (int i = 0; a->monitor && i < grant->device_count; i++) {
        int d = agent_find_device(a, grant->devices[i]);
        if (d >= 0 && !device_admits(a->monitor->devices[d], grant->spec->needs.kind, why))
            return false;
    }
    return true;
}

bool monitor_readmits(const struct run *r, char why[WORKLOAD_TEXT_MAX])
{
    for (int i = 0; i < r->device_count; i++)
        if (!device_admits(r->agent->monitor->devices[r->devices[i]], r->own.terms.kind, why))
            return false;
    return true;
}

/* Returns the remaining grace period; for a stop of an earlier agent the supervisor has counted
 * since then. */
static int64_t grace_left_ms(const struct run *r)
{
    int64_t grace_ms = r->own.grace_ms;
    int64_t left_ms =
        r->life.kept.end_by_ms == INT64_MAX ? grace_ms : r->life.kept.end_by_ms - clock_boot_ms();
    if (left_ms < ATTEMPT_LEAST_GRACE_MS)
        left_ms = ATTEMPT_LEAST_GRACE_MS;
    return left_ms < grace_ms ? left_ms : grace_ms;
}

static struct device_tenant_info describe_tenant(const struct run *r)
{
    const struct terms *terms = &r->own.terms;
    struct device_tenant_info info = {.workload = r->workload,
                                      .attempt = r->attempt,
                                      .kind = terms->kind,
                                      .grace_ms = grace_left_ms(r),
                                      .isolated = !r->life.traits.uses_mps,
                                      .suspendable = terms->suspendable,
                                      .suspect = terms->is_suspect && !r->life.kept.report.cleared,
                                      .adopted = r->is_adopted};
    if (r->is_adopted) {
        info.verdict = r->life.kept.verdict;
        str_copy(info.why, sizeof info.why, r->life.kept.why);
    }
    return info;
}

void monitor_tell(struct run *r, const struct attempt_action *action)
{
    static const enum device_event_kind kinds[ATTEMPT_ACTION_END] = {
        [ATTEMPT_ACT_COME] = DEVICE_TENANT_CAME,
        [ATTEMPT_ACT_RUN] = DEVICE_TENANT_RUNS,
        [ATTEMPT_ACT_LEAVE] = DEVICE_TENANT_LEFT,
        [ATTEMPT_ACT_STAY] = DEVICE_TENANT_STAYS,
        [ATTEMPT_ACT_CHANGE] = DEVICE_TENANT_CHANGED};
    const struct device_tenant_info info = describe_tenant(r);
    struct device_event event = {.kind = kinds[action->kind]};
    if (event.kind == DEVICE_TENANT_CAME || event.kind == DEVICE_TENANT_CHANGED) {
        event.came = &info;
    } else {
        event.tenant.workload = r->workload;
        event.tenant.attempt = r->attempt;
        event.tenant.failed = action->failed;
        event.tenant.why = action->text;
    }
    for (int i = 0; i < r->device_count; i++)
        step(r->agent->monitor, r->devices[i], event);
    if (event.kind == DEVICE_TENANT_LEFT)
        r->is_adopted = false;
    if (event.kind == DEVICE_TENANT_CAME || event.kind == DEVICE_TENANT_RUNS)
        give_way_hurry(r->agent);
    if (r->device_count > 0)
        tell_control(r->agent->monitor);
}

void monitor_moves(struct run *r, const char *why)
{
    for (int i = 0; attempt_is_on_devices(&r->life) && i < r->device_count; i++)
        step(r->agent->monitor, r->devices[i],
             (struct device_event){
                 .kind = DEVICE_TENANT_MOVES,
                 .tenant = {.workload = r->workload, .attempt = r->attempt, .why = why}});
    if (r->device_count > 0)
        tell_control(r->agent->monitor);
}

void monitor_look_at_service(struct run *r, int device, const struct controller_look *look)
{
    step(r->agent->monitor, device,
         (struct device_event){
             .kind = DEVICE_SERVICE_LOOK,
             .service = {.workload = r->workload, .attempt = r->attempt, .look = look}});
}

const struct controller_answer *monitor_guidance(const struct run *r)
{
    const struct monitor *m = r->agent->monitor;
    return m && r->device_count > 0
               ? device_guidance(m->devices[r->devices[0]], r->workload, r->attempt)
               : NULL;
}

/* Selects the gravest verdict of several devices. */
void monitor_judge(const struct run *r, bool failed, struct attempt_view *view)
{
    for (int i = 0; attempt_is_on_devices(&r->life) && i < r->device_count; i++) {
        const struct device_monitor *device = r->agent->monitor->devices[r->devices[i]];
        const char *why;
        enum attempt_verdict verdict =
            device_verdict(device, r->workload, r->attempt, failed, &why);
        view->device_asks = view->device_asks || device_is_asking(device);
        if (verdict <= view->verdict)
            continue;
        view->verdict = verdict;
        str_copy(view->verdict_why, sizeof view->verdict_why, why);
    }
}

/* ---- exchange with control ---- */

size_t monitor_health(struct agent *a, const struct device_health **ret)
{
    *ret = a->monitor ? a->monitor->health : NULL;
    return a->monitor ? (size_t)a->monitor->count : 0;
}

struct notes *monitor_notes(struct agent *a)
{
    return a->monitor ? &a->monitor->notes : NULL;
}

int monitor_enable(struct agent *a, const char *uuid, bool enable)
{
    int d = a->monitor ? agent_find_device(a, uuid) : -1;
    if (d < 0)
        return -ERR_NOT_FOUND;
    step(a->monitor, d,
         (struct device_event){.kind = DEVICE_OPERATOR, .operator_says = {.enable = enable}});
    tell_control(a->monitor);
    return 0;
}

/* ---- life ---- */

/* Steps each listed device with `event` and the listed cause. */
static void obey_list(struct monitor *m, const struct device_list *list,
                      struct device_event (*event)(const char *cause))
{
    for (size_t i = 0; i < list->count; i++) {
        const struct device_listed *item = &list->items[i];
        int d = agent_find_device(m->agent, item->uuid);
        if (d >= 0)
            step(m, d, event(item->cause[0] ? item->cause : NULL));
    }
}

static struct device_event is_disabled(const char *cause)
{
    return (struct device_event){.kind = DEVICE_OPERATOR, .operator_says = {.why = cause}};
}

static struct device_event is_untested(const char *cause)
{
    (void)cause; /* always the same cause */
    return (struct device_event){
        .kind = DEVICE_MPS, .mps = DEVICE_MPS_LOST, .mps_why = "no self-test has passed since"};
}

static void read_lists(struct monitor *m)
{
    struct device_list untested, disabled;
    monitor_lists_read(m->agent, &untested, &disabled);
    m->reads_lists = true; /* devices whose entry was not handled yet must stay listed */
    obey_list(m, &untested, is_untested);
    obey_list(m, &disabled, is_disabled);
    m->reads_lists = false;
}

static void configure(const struct config *c, struct device_config *ret)
{
    device_config_default(ret);
    ret->memory_soft_percent = (int)c->monitor_memory_soft;
    ret->memory_hard_percent = (int)c->monitor_memory_hard;
    ret->latency_soft_percent = (int)c->monitor_latency_soft;
    ret->latency_hard_percent = (int)c->monitor_latency_hard;
    ret->latency_requests_least = c->monitor_requests;
    ret->calm_ms = c->monitor_calm_ms;
    ret->outside_ms = c->monitor_outside_ms;
    ret->hold_min_ms = c->monitor_hold_min_ms;
    ret->hold_max_ms = c->monitor_hold_max_ms;
    ret->hold_reset_ms = c->monitor_hold_max_ms;
    ret->probation_ms = c->fault_probation_ms;
}

int monitor_open(struct error *e, struct agent *a)
{
    if (a->info.device_count == 0)
        return 0;
    struct monitor *m = calloc(1, sizeof *m);
    if (!m)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    a->monitor = m;
    m->agent = a;
    struct device_config config;
    configure(a->config, &config);
    config.memory = steer_memory(a);
    int full_percent = config.memory_soft_percent < config.memory_hard_percent
                           ? config.memory_soft_percent
                           : config.memory_hard_percent;
    for (; m->count < a->info.device_count; m->count++) {
        if (device_monitor_new(&config, &m->devices[m->count]) < 0)
            return error_set(e, ERR_NO_MEMORY, "out of memory");
        str_copy(m->health[m->count].uuid, DEVICE_UUID_MAX, a->info.devices[m->count].uuid);
        refresh_health(m, m->count);
    }
    read_lists(m);
    /* A separate library handle, because the sampler's thread uses the other. */
    int r = gpu_open(e, a->emulate, a->emulate_libraries, &m->gpu);
    if (r == 0)
        r = watch_new(e, m->gpu, m->count, full_percent, &m->watch);
    if (r < 0)
        return r;
    m->readable = event_new(a->base, watch_fd(m->watch), EV_READ | EV_PERSIST, on_news, m);
    if (!m->readable || event_add(m->readable, NULL) < 0)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    return 0;
}

void monitor_close(struct agent *a)
{
    struct monitor *m = a->monitor;
    if (!m)
        return;
    if (m->readable)
        event_free(m->readable);
    watch_free(m->watch);
    gpu_close(m->gpu);
    for (int i = 0; i < NODE_DEVICES_MAX; i++) {
        self_test_cancel(&m->tests[i], &a->reaper);
        device_monitor_free(m->devices[i]);
    }
    free(m);
    a->monitor = NULL;
}
