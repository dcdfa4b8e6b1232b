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
#include "node/attempt/verdict_file.h"
#include "node/device/watch.h"

enum {
    /* From a process's failure until the driver must have told of the fault behind it. */
    DOUBT_MS = 2 * WATCH_EVERY_MS + 100,
    /* The supervisor's own patience, beyond the device's: terminate_client comes first. */
    SUPERVISOR_MORE_MS = 5000,
};

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
    bool test_failed[NODE_DEVICES_MAX]; /* it could not even be started */
    bool changed;                       /* control should hear of it soon */
    struct notes notes;
    int64_t mps_asked_ms[NODE_DEVICES_MAX]; /* how MPS is, somebody wants to know; 0: nobody */
    bool mps_held[NODE_DEVICES_MAX];        /* it is there for a self-test */
    struct device_actions actions;
    struct watch_news news;
};

/* ---- what the devices ask for ---- */

static void stop_run(struct run *r, int64_t grace_ms)
{
    if (suspend_is_on_the_way(r))
        grace_ms = 0; /* it stands still */
    bool news = r->stop_grace_ms < 0 || grace_ms < r->stop_grace_ms;
    const struct control_command stop = {.kind = CONTROL_STOP, .grace_ms = grace_ms};
    if (run_is_alive(r) && news && mailbox_post(r, 0, &stop) == 0)
        r->stop_grace_ms = grace_ms;
}

static void note(struct monitor *m, int device, bool alarm, const char *text)
{
    const char *uuid = m->agent->info.devices[device].uuid;
    log_write(m->agent->log, alarm ? LOG_ERROR : LOG_WARN,
              alarm ? "a device needs attention" : "a device told something",
              "device=%s text=\"%s\"", uuid, text);
    if (notes_add(&m->notes, uuid, alarm, text)) /* else nobody listens, and the log has it */
        m->changed = true;
}

void monitor_note(struct agent *a, int device, const char *text)
{
    if (a->monitor)
        note(a->monitor, device, false, text);
}

static void remember(struct run *r, const struct verdict *verdict)
{
    struct error e = {0};
    if (verdict_save(&e, r->agent->terms_fd, r->name, verdict) < 0)
        log_write(r->agent->log, LOG_ERROR, "cannot record why an attempt is ended",
                  "attempt=%s error=\"%s\"", r->name, e.text);
}

/* The next agent must know why, if this one dies. */
static void judge_run(struct monitor *m, int device, struct run *r,
                      const struct device_action *action)
{
    struct verdict verdict;
    const char *why;
    log_write(m->agent->log, LOG_WARN, "attempt is ended by its device", "attempt=%s why=\"%s\"",
              r->name, action->text);
    verdict.verdict = device_verdict(m->devices[device], r->workload, r->attempt, false, &why);
    str_copy(verdict.why, sizeof verdict.why, why);
    const struct device_tenant_info *info = &r->tenancy.info;
    bool is_known = verdict.verdict == info->verdict && str_equal(verdict.why, info->why);
    if (verdict.verdict != VERDICT_OWN && !is_known) /* its age is that of the first word */
        remember(r, &verdict);
}

static void end_run(struct monitor *m, int device, struct run *r,
                    const struct device_action *action)
{
    judge_run(m, device, r, action); /* before it is told to leave */
    if (r->pending)
        launch_give_up(r);
    else
        stop_run(r, action->grace_ms + (action->grace_ms ? SUPERVISOR_MORE_MS : 0));
}

static void act_on_run(struct monitor *m, int device, const struct device_action *action)
{
    struct run *r = run_find(m->agent, action->workload, action->attempt);
    if (!r)
        return;
    switch (action->kind) {
    case DEVICE_ACT_SUSPEND:
        log_write(m->agent->log, LOG_WARN, "attempt is suspended by its device",
                  "attempt=%s why=\"%s\"", r->name, action->text);
        suspend_evict(r, action->text);
        break;
    case DEVICE_ACT_END:
        end_run(m, device, r, action);
        break;
    case DEVICE_ACT_TERMINATE:
        protect_terminate(r);
        break;
    case DEVICE_ACT_KILL:
        if (!protect_will_kill(r))
            stop_run(r, 0);
        break;
    case DEVICE_ACT_ACQUIT:
        judge_run(m, device, r, action);
        break;
    case DEVICE_ACT_CLEAR:
        r->report.cleared = true;
        run_report(r);
        break;
    default:
        break;
    }
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

/* Control makes an event of each state that it sees, and sees none while it is away. */
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
                  "device changed its state", "device=%s from=%s to=%s why=\"%s\"",
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
    case DEVICE_ACT_MPS_REPLACE: /* mps.h replaces what is broken by itself, if somebody uses it */
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
        act_on_run(m, device, action);
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

/* A device may get another reason to be out of use while it is so already, and not change its state. */
static void keep_lists(struct monitor *m, int device)
{
    const struct device_monitor *d = m->devices[device];
    const struct device_health *h = &m->health[device]; /* as it was before */
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
    device_step(m->devices[device], &event, &m->actions);
    keep_lists(m, device); /* before anything follows from it */
    for (size_t i = 0; i < m->actions.count; i++)
        act(m, device, &m->actions.items[i]);
    refresh_health(m, device);
}

/* After steps: what control should know, it knows now. */
static void tell_control(struct monitor *m)
{
    if (!m->changed)
        return;
    m->changed = false;
    link_beat(m->agent);
}

/* ---- what the watch sees ---- */

static bool is_on(const struct run *r, int device)
{
    for (int i = 0; i < r->tenancy.device_count; i++)
        if (r->tenancy.there && r->tenancy.devices[i] == device)
            return true;
    return false;
}

/* By its own word; what is too old says nothing. */
static void take_latency(const struct run *r, struct device_tenant_sample *ret)
{
    const struct terms *terms = r->ward ? ward_terms(r->ward) : NULL;
    int64_t age_ms = clock_boot_ms() - r->latency_at_ms;
    if (!terms || !(terms->slo_latency_ms > 0) || r->latency_at_ms == 0)
        return;
    ret->slo_ms = terms->slo_latency_ms;
    ret->slo_percentile = terms->slo_percentile;
    if (age_ms < LATENCY_SOFT_MS)
        ret->latency_5s_ms = (double)r->latency.us_5s / 1000;
    if (age_ms < LATENCY_HARD_MS) {
        ret->latency_10s_ms = (double)r->latency.us_10s / 1000;
        ret->requests_10s = (int64_t)r->latency.requests_10s;
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
        if (!is_on(r, device) || sample.tenant_count == DEVICE_TENANTS_MAX)
            continue;
        struct device_tenant_sample *tenant = &tenants[sample.tenant_count++];
        *tenant =
            (struct device_tenant_sample){.workload = r->workload, .has_memory = table != NULL};
        if (table) {
            process_table_mark_tree(table, r->recorded ? r->record.supervisor_pid : 0);
            tenant->memory_bytes = holders_members_bytes(table, &m->news.processes, device);
        }
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

/* What somebody must know is an event; that it starts when it is needed, ends, or is slow, is not. */
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
    const struct tenancy *t = &r->tenancy;
    for (int i = 0; i < t->device_count; i++)
        if (!device_admits(r->agent->monitor->devices[t->devices[i]], t->info.kind, why))
            return false;
    return true;
}

static void come(struct run *r)
{
    struct monitor *m = r->agent->monitor;
    r->tenancy.there = true;
    for (int i = 0; i < r->tenancy.device_count; i++)
        step(m, r->tenancy.devices[i],
             (struct device_event){.kind = DEVICE_TENANT_CAME, .came = &r->tenancy.info});
    tell_control(m);
}

void monitor_returns(struct run *r)
{
    if (r->tenancy.device_count > 0 && !r->tenancy.there)
        come(r);
}

static void tell_devices(struct run *r, enum device_event_kind kind, bool failed, const char *why)
{
    for (int i = 0; i < r->tenancy.device_count; i++)
        step(r->agent->monitor, r->tenancy.devices[i],
             (struct device_event){.kind = kind,
                                   .tenant = {.workload = r->workload,
                                              .attempt = r->attempt,
                                              .failed = failed,
                                              .why = why}});
}

void monitor_suspended(struct run *r)
{
    if (!r->tenancy.there)
        return;
    r->tenancy.there = r->tenancy.told_running = false;
    r->tenancy.info.adopted = false;
    tell_devices(r, DEVICE_TENANT_LEFT, false, NULL);
    tell_control(r->agent->monitor);
}

void monitor_stays(struct run *r, const char *why)
{
    if (!r->tenancy.there)
        return;
    tell_devices(r, DEVICE_TENANT_STAYS, false, why);
    tell_control(r->agent->monitor);
}

void monitor_moves(struct run *r, const char *why)
{
    if (!r->tenancy.there)
        return;
    tell_devices(r, DEVICE_TENANT_MOVES, false, why);
    tell_control(r->agent->monitor);
}

void monitor_came(struct run *r, const struct grant *grant, const struct terms *terms)
{
    struct tenancy *t = &r->tenancy;
    for (int i = 0; r->agent->monitor && i < grant->device_count; i++) {
        int d = agent_find_device(r->agent, grant->devices[i]);
        if (d >= 0)
            t->devices[t->device_count++] = d;
    }
    if (t->device_count == 0)
        return;
    t->info = (struct device_tenant_info){.workload = r->workload,
                                          .attempt = r->attempt,
                                          .kind = grant->spec->needs.kind,
                                          .grace_ms = grant->spec->needs.grace_ms,
                                          .isolated = !terms->has_mps,
                                          .suspendable = terms->suspendable,
                                          .suspect = grant->suspect};
    come(r);
}

void monitor_isolated(struct run *r, const struct terms *terms)
{
    r->tenancy.info.isolated = true;
    r->tenancy.info.suspendable = terms->suspendable;
    for (int i = 0; r->tenancy.there && i < r->tenancy.device_count; i++)
        step(r->agent->monitor, r->tenancy.devices[i],
             (struct device_event){.kind = DEVICE_TENANT_CHANGED, .came = &r->tenancy.info});
}

/* "GPU-a,GPU-b", as the attempt has it in its environment. */
static void take_devices(struct run *r, const char *list)
{
    struct tenancy *t = &r->tenancy;
    while (*list && t->device_count < WORKLOAD_DEVICES_MAX) {
        size_t length = strcspn(list, ",");
        char uuid[DEVICE_UUID_MAX];
        (void)snprintf(uuid, sizeof uuid, "%.*s", (int)length, list);
        int d = agent_find_device(r->agent, uuid);
        if (d >= 0)
            t->devices[t->device_count++] = d;
        list += length + (list[length] == ',');
    }
}

void monitor_recall(struct run *r)
{
    struct verdict verdict;
    if (!verdict_load(r->agent->terms_fd, r->name, &verdict))
        return;
    r->tenancy.verdict = verdict.verdict;
    str_copy(r->tenancy.why, sizeof r->tenancy.why, verdict.why);
}

void monitor_adopted(struct run *r, bool suspended)
{
    static const char variable[] = "CUDA_VISIBLE_DEVICES=";
    struct str text;
    struct arena arena;
    struct attempt_grant grant;
    if (!r->agent->monitor)
        return;
    str_init(&text, ATTEMPT_FILE_MAX);
    arena_init(&arena, ATTEMPT_FILE_MAX);
    if (durable_read(NULL, r->directory_fd, "grant.json", r->uid, &text) == 0 &&
        attempt_grant_parse(NULL, &arena, str_text(&text), text.length, &grant) == 0) {
        for (size_t i = 0; i < grant.environment.count; i++)
            if (str_starts_with(grant.environment.items[i], variable))
                take_devices(r, grant.environment.items[i] + sizeof variable - 1);
        r->tenancy.info = (struct device_tenant_info){
            .workload = r->workload,
            .attempt = r->attempt,
            .kind = grant.service ? WORKLOAD_SERVICE : WORKLOAD_TASK,
            .grace_ms = verdict_grace_left_ms(r->agent->terms_fd, r->name, grant.grace_ms),
            .isolated = !r->uses_mps,
            .suspect = r->ward && ward_terms(r->ward)->is_suspect,
            .suspendable = r->ward && ward_terms(r->ward)->suspendable,
            .adopted = true,
            .verdict = r->tenancy.verdict};
        str_copy(r->tenancy.info.why, sizeof r->tenancy.info.why, r->tenancy.why);
        if (r->tenancy.device_count > 0 && !suspended)
            come(r);
    }
    arena_done(&arena);
    str_done(&text);
}

void monitor_alive(struct run *r)
{
    if (!r->tenancy.there || r->tenancy.told_running || r->report.phase < ATTEMPT_RUNNING)
        return;
    r->tenancy.told_running = true;
    tell_devices(r, DEVICE_TENANT_RUNS, false, NULL);
}

/* Of several devices the gravest word counts. */
static void judge(struct run *r, bool failed)
{
    for (int i = 0; r->tenancy.there && i < r->tenancy.device_count; i++) {
        const char *why;
        enum attempt_verdict verdict =
            device_verdict(r->agent->monitor->devices[r->tenancy.devices[i]], r->workload,
                           r->attempt, failed, &why);
        if (verdict <= r->tenancy.verdict)
            continue;
        r->tenancy.verdict = verdict;
        str_copy(r->tenancy.why, sizeof r->tenancy.why, why);
    }
}

/* MPS gives a fault to all its clients, and forgets it when they have left: if several failed, it may have been that. */
static void judge_unseen(struct run *r, bool failed)
{
    struct tenancy *t = &r->tenancy;
    if (!failed || !t->not_the_only_one || t->verdict != VERDICT_OWN)
        return;
    t->verdict = t->info.kind == WORKLOAD_SERVICE ? VERDICT_MOVED : VERDICT_SUSPECT;
    str_copy(t->why, sizeof t->why, "it failed with others of its device, while no agent ran");
}

bool monitor_doubts(struct run *r, bool failed)
{
    judge(r, failed);
    /* What was told to stop is expected to fail. */
    if (!r->tenancy.there || !failed || r->tenancy.verdict != VERDICT_OWN || r->stop_grace_ms >= 0)
        return false;
    for (int i = 0; i < r->tenancy.device_count; i++)
        if (device_is_asking(r->agent->monitor->devices[r->tenancy.devices[i]]))
            return true; /* not for long: without an answer the device goes on */
    int64_t now_ms = clock_boot_ms();
    if (r->tenancy.doubt_until_ms == 0)
        r->tenancy.doubt_until_ms = now_ms + DOUBT_MS;
    return now_ms < r->tenancy.doubt_until_ms;
}

void monitor_left(struct run *r, bool failed)
{
    if (!r->tenancy.there)
        return;
    enum attempt_verdict before = r->tenancy.verdict;
    judge(r, failed);
    judge_unseen(r, failed);
    if (r->tenancy.verdict != before) {
        struct verdict verdict = {.verdict = r->tenancy.verdict};
        str_copy(verdict.why, sizeof verdict.why, r->tenancy.why);
        remember(r, &verdict);
    }
    r->tenancy.there = false;
    tell_devices(r, DEVICE_TENANT_LEFT, failed, NULL);
    tell_control(r->agent->monitor);
}

/* ---- what control hears and says ---- */

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

/* A device that is listed there: `event` with the cause that stands beside it. */
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
    (void)cause; /* "MPS was lost", in so many words */
    return (struct device_event){
        .kind = DEVICE_MPS, .mps = DEVICE_MPS_LOST, .mps_why = "no self-test has passed since"};
}

static void read_lists(struct monitor *m)
{
    struct device_list untested, disabled;
    monitor_lists_read(m->agent, &untested, &disabled);
    m->reads_lists = true; /* what is not obeyed yet must not be forgotten */
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
    /* A library of its own: the sampler's thread is in the other. */
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
