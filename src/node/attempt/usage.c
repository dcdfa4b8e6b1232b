#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "node/agent_internal.h"
#include "node/device/holders.h"
#include "node/supervisor/latency.h"
#include "node/supervisor/process.h"
#include "node/supervisor/speed.h"

static enum sharing_mode sharing_of(enum limits_mode mode)
{
    return mode == LIMITS_TIME    ? SHARING_TIME
           : mode == LIMITS_SPACE ? SHARING_SPACE
                                  : SHARING_ALONE;
}

/* Returns which processes with device memory have the shim; the table has the attempt's processes
 * marked. */
static enum terms_loaded look_for_shim(const struct run *r, const struct process_table *table,
                                       const struct gpu_sample *sample)
{
    bool with = false, without = false;
    for (size_t i = 0; i < sample->process_count; i++) {
        const struct gpu_process *held = &sample->processes[i];
        const struct process *p = process_table_find(table, held->pid);
        if (!p || !p->member || p->zombie || held->memory_used_bytes == 0)
            continue;
        bool is_known = session_knows(r->session, held->pid);
        with = with || is_known;
        without = without || !is_known;
    }
    return !without ? LOADED_BY_ALL : with ? LOADED_BY_SOME : LOADED_BY_NONE;
}

static void tell_unheld(struct run *r, enum terms_loaded loaded)
{
    char text[WORKLOAD_TEXT_MAX];
    int device = agent_find_device(r->agent, r->own.terms.devices[0]);
    if (r->told_unheld || device < 0)
        return;
    r->told_unheld = true;
    (void)snprintf(
        text, sizeof text,
        "workload %" PRIu64 " is not held to its quota and share: %s loaded libgpumux-cuda.so",
        r->workload,
        loaded == LOADED_BY_NONE ? "no process of it has" : "one of its processes has not");
    monitor_note(r->agent, device, text);
}

static void measure_protection(struct run *r, const struct process_table *table,
                               const struct gpu_sample *sample, struct attempt_usage *usage)
{
    struct session_usage session;
    if (!r->session)
        return;
    bool is_protected = r->own.terms.is_protected;
    enum terms_loaded loaded = is_protected ? look_for_shim(r, table, sample) : LOADED_BY_ALL;
    if (loaded != LOADED_BY_ALL)
        tell_unheld(r, loaded);
    r->is_unheld = r->is_unheld || loaded == LOADED_BY_NONE;
    const struct terms_facts facts = {.loaded = loaded,
                                      .is_unlisted = !session_is_listed(r->session, sample)};
    terms_describe(&r->own.terms, &facts, usage->enforcement);
    usage->is_counted = is_protected && loaded != LOADED_BY_NONE;
    session_measure(r->session, &session);
    usage->counted_bytes = usage->suspended_bytes ? 0 : session.counted_bytes;
    usage->peak_bytes = session.peak_bytes;
    usage->overhead_bytes = usage->suspended_bytes ? 0 : session.overhead_bytes;
    if (usage->memory_used_bytes > usage->counted_bytes)
        usage->uncounted_bytes = usage->memory_used_bytes - usage->counted_bytes;
    memcpy(usage->counters, session.counters, sizeof usage->counters);
    usage->mode = sharing_of(session.mode);
    usage->limit_count = session_limits(r->session, usage->limits);
}

/* Writes the newest advice that a program has followed. The numbers are claims of the programs. */
static void measure_advice(const struct run *r, struct attempt_usage *usage)
{
    struct control_followed followed = r->followed, seen;
    uint64_t newest = (uint64_t)r->life.kept.advice.sequence;
    if (session_followed(r->session, &seen.sequence, &seen.batch) &&
        (seen.sequence > followed.sequence || followed.batch == 0))
        followed = seen;
    usage->advice_used = followed.sequence < newest ? followed.sequence : newest;
    usage->batch_used =
        followed.batch < (uint64_t)ADVICE_BATCH_MAX ? followed.batch : (uint64_t)ADVICE_BATCH_MAX;
}

static double known(double figure)
{
    return figure > 0 ? figure : -1;
}

static void measure_control(const struct run *r, struct attempt_usage *usage)
{
    const struct controller_answer *answer = monitor_guidance(r);
    struct attempt_control *c = &usage->control;
    if (!answer || r->own.terms.kind != WORKLOAD_SERVICE)
        return;
    usage->has_control = true;
    *c = (struct attempt_control){.is_trial = answer->is_trial,
                                  .is_unreachable = answer->is_unreachable,
                                  .target_us = known(answer->target_us),
                                  .allowed_fraction = known(answer->allowed_fraction),
                                  .late_fraction = answer->late_fraction,
                                  .stretch = known(answer->stretch),
                                  .allowed_stretch = known(answer->allowed_stretch),
                                  .held_latency_us = known(answer->solo_latency_us),
                                  .task_speed = answer->task_fraction};
    (void)str_copy(c->setting, sizeof c->setting, controller_setting_name(answer->setting));
    (void)str_copy(c->why, sizeof c->why, answer->why);
    attainment_read(&r->attainment, clock_boot_ms(), c);
}

static void measure_run(struct run *r, struct process_table *table, const struct gpu_sample *sample,
                        struct attempt_usage *usage)
{
    *usage = (struct attempt_usage){.workload = r->workload, .attempt = r->attempt};
    pid_t root = run_supervisor(r);
    uint64_t ticks = 0;
    process_table_mark_tree(table, root);
    for (size_t i = 0; i < table->count; i++) {
        const struct process *p = &table->items[i];
        if (!p->member || p->pid == root)
            continue;
        ticks += p->cpu_ticks;
        usage->resident_bytes += p->resident_bytes;
    }
    usage->memory_used_bytes = holders_members_bytes(table, sample, HOLDERS_EVERY_DEVICE);
    usage->suspended_bytes = suspend_bytes(r);
    measure_protection(r, table, sample, usage);
    int64_t now_ms = clock_boot_ms();
    /* The ticks of a process that nobody waited for are lost, so that the sum may decrease. */
    if (r->cpu_at_ms && now_ms > r->cpu_at_ms && ticks > r->cpu_ticks)
        usage->cpu_percent = 100.0 * 1000.0 * (double)(ticks - r->cpu_ticks) /
                             (double)sysconf(_SC_CLK_TCK) / (double)(now_ms - r->cpu_at_ms);
    bool fresh = r->speed_at_ms && now_ms - r->speed_at_ms < SPEED_FRESH_MS;
    usage->samples_per_s = fresh ? r->samples_per_s : -1;
    usage->speed_since_ms = fresh && r->speed_since_ms ? now_ms - r->speed_since_ms : -1;
    const struct control_latency *latency = &r->latency[CONTROL_TIME_LATENCY];
    int64_t answered_ms = r->latency_at_ms[CONTROL_TIME_LATENCY];
    bool answered = answered_ms && now_ms - answered_ms < LATENCY_HARD_MS;
    usage->latency_ms = answered ? (double)latency->us_10s / 1000 : -1;
    usage->requests_10s = answered ? latency->requests_10s : 0;
    usage->latency_since_ms = answered ? now_ms - answered_ms + LATENCY_WINDOW_MS : -1;
    measure_advice(r, usage);
    measure_control(r, usage);
    r->cpu_ticks = ticks;
    r->cpu_at_ms = now_ms;
}

size_t usage_measure(struct agent *a, const struct gpu_sample *sample, struct attempt_usage *usage,
                     size_t max)
{
    struct process_table table;
    size_t count = 0;
    if (agent_alive(a) == 0 || process_table_read(&table) < 0)
        return 0;
    list_for_each (it, &a->runs) {
        struct run *r = list_entry(it, struct run, link);
        if (run_is_alive(r) && r->recorded && count < max)
            measure_run(r, &table, sample, &usage[count++]);
    }
    process_table_done(&table);
    return count;
}
