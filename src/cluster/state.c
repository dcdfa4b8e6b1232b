/* Creation and end of the cluster, and operations on workloads that all parts share. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster_internal.h"

/* A task that is this much slower than predicted, for this long, is requeued. */
#define MISPLACED_PD 1.5
enum { MISPLACED_MS = 60 * 1000 };

void cluster_config_default(struct cluster_config *config)
{
    *config = (struct cluster_config){
        .policy = policy_find("gpumux"),
        .max_neighbours = 4,
        .attempts_max = 1024,
        .ageing_ms = 10 * 60 * 1000,
        .queue_max = 100000,
        .lease_ms = 60 * 1000,
        .fence_ms = 30 * 1000,
        .drain_ms = 30 * 1000,
        .margin_ms = 5 * 1000,
        .resend_ms = 2 * 1000,
        .backoff_min_ms = 1000,
        .backoff_max_ms = 5 * 60 * 1000,
        .faults_max = 3,
        .keep_finished_ms = INT64_C(30) * 24 * 3600 * 1000,
        .keep_finished_max = 200000,
        .clock_steady_ms = 3600 * 1000,
    };
}

static bool timer_before(const struct heap_member *a, const struct heap_member *b)
{
    return list_entry(a, const struct timer, member)->due_boot_ms <
           list_entry(b, const struct timer, member)->due_boot_ms;
}

static const struct forecast *forecast_of(struct cluster *c)
{
    const struct forecast *known = c->config.forecast ? c->config.forecast : &forecast_blind;
    if (!c->config.forecast || !c->config.options.without[POLICY_PART_PREDICTOR])
        return known;
    forecast_cold_make(known, &c->cold);
    return &c->cold;
}

int cluster_new(const struct cluster_config *config, struct cluster **ret)
{
    struct cluster *c = calloc(1, sizeof *c);
    if (!c)
        return -ERR_NO_MEMORY;
    c->config = *config;
    /* Sessions of successive clusters differ, and stay within the integers that JSON readers
     * represent exactly. */
    c->last_session = (hash_u64(config->seed) & 0xfffff) << 32;
    list_init(&c->touched);
    list_init(&c->ended);
    list_init(&c->buried);
    list_init(&c->unlinked);
    list_init(&c->refused);
    list_init(&c->held);
    hash_map_init(&c->live);
    hash_map_init(&c->keys);
    hash_map_init(&c->owners);
    hash_map_init(&c->requirements);
    hash_map_init(&c->nodes_by_name);
    heap_init(&c->ready, queue_requirement_before);
    heap_init(&c->timers, timer_before);
    finished_init(&c->finished);
    c->round_timer.owner = TIMER_ROUND;
    c->judges = config->policy->judge != NULL;
    c->allowance_used = calloc(config->allowance_count + 1, sizeof *c->allowance_used);
    if (!c->allowance_used) {
        cluster_free(c);
        return -ERR_NO_MEMORY;
    }
    c->fleet_stale = true;
    fleet_init(&c->fleet, forecast_of(c));
    *ret = c;
    return 0;
}

static void free_all_workloads(struct cluster *c)
{
    size_t cursor = 0;
    void *value;
    keep_forget(c);
    list_for_each_safe (it, &c->ended)
        workload_free(c, list_entry(it, struct workload, touched));
    list_for_each_safe (it, &c->buried)
        workload_free(c, list_entry(it, struct workload, touched));
    while (hash_map_next(&c->live, &cursor, NULL, &value)) {
        struct workload *w = value;
        /* All keys are freed at once below; dependents are freed as well. */
        w->key = NULL;
        w->dependency_count = 0;
        workload_free(c, w);
    }
}

void cluster_free(struct cluster *c)
{
    size_t cursor = 0;
    void *value;
    if (!c)
        return;
    free_all_workloads(c);
    while (hash_map_next(&c->keys, &cursor, NULL, &value))
        free(value);
    for (size_t i = 0; i < c->node_count; i++)
        node_free(c->nodes[i]);
    hash_map_done(&c->live);
    hash_map_done(&c->keys);
    hash_map_done(&c->owners);
    hash_map_done(&c->requirements);
    hash_map_done(&c->nodes_by_name);
    finished_done(&c->finished);
    heap_done(&c->ready);
    heap_done(&c->timers);
    free(c->nodes);
    fleet_done(&c->fleet);
    free(c->allowance_used);
    free(c->policy_nodes);
    free(c->policy_devices);
    free(c->scratch);
    free(c);
}

struct workload *workload_find(const struct cluster *c, uint64_t id)
{
    return hash_map_get(&c->live, id);
}

static struct owner *owner_get(struct cluster *c, uint64_t number)
{
    struct owner *o = hash_map_get(&c->owners, number);
    if (!o) {
        o = calloc(1, sizeof *o);
        if (!o || hash_map_put(&c->owners, number, o) < 0) {
            free(o);
            return NULL;
        }
        o->number = number;
    }
    o->live++;
    return o;
}

static void owner_put(struct cluster *c, struct owner *o)
{
    if (!o || --o->live > 0)
        return;
    (void)hash_map_remove(&c->owners, o->number);
    free(o);
}

struct workload *workload_add(struct cluster *c, uint64_t id, uint64_t owner,
                              const struct workload_needs *needs, const struct pairs *labels,
                              const struct policy_known *known, uint32_t allowance)
{
    struct workload *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->id = id;
    w->owner = owner_get(c, owner);
    w->needs = *needs;
    w->known = *known;
    w->left_ms = known->alone_ms;
    w->timer.owner = TIMER_WORKLOAD;
    w->queued_boot_ms = c->now.boot_ms;
    w->status.exit_code = -1;
    w->phase = ATTEMPT_PHASE_END;
    list_init(&w->dependents);
    list_init(&w->on_node);
    list_init(&w->touched);
    list_init(&w->held);
    if (allowance > c->config.allowance_count)
        allowance = 0;
    w->requirement = requirement_get(c, needs, labels, known->kind, allowance);
    if (!w->owner || !w->requirement || hash_map_put(&c->live, id, w) < 0) {
        workload_free(c, w);
        return NULL;
    }
    c->by_state[WORKLOAD_QUEUED]++;
    return w;
}

void workload_free(struct cluster *c, struct workload *w)
{
    depend_unlink(c, w);
    list_remove(&w->touched);
    list_remove(&w->on_node);
    list_remove(&w->held);
    timer_clear(c, &w->timer);
    if (w->requirement) {
        queue_leave(c, w);
        requirement_put(c, w->requirement);
    }
    owner_put(c, w->owner);
    free(w->status.attempts);
    free(w);
}

void workload_set_state(struct cluster *c, struct workload *w, enum workload_state state)
{
    c->by_state[w->status.state]--;
    w->status.state = state;
    c->by_state[state]++;
    workload_touch(c, w);
}

void workload_set_text(struct workload *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(w->status.text, sizeof w->status.text, format, args);
    va_end(args);
}

static void touch(struct cluster *c, struct workload *w)
{
    if (list_empty(&w->touched))
        list_append(&c->touched, &w->touched);
}

void workload_touch(struct cluster *c, struct workload *w)
{
    w->store_due = true;
    touch(c, w);
}

void workload_send_grant(struct cluster *c, struct workload *w)
{
    w->grant_due = true;
    touch(c, w);
}

void workload_send_stop(struct cluster *c, struct workload *w)
{
    w->stop_due = true;
    touch(c, w);
}

void workload_send_turn(struct cluster *c, struct workload *w)
{
    w->turn_due = true;
    touch(c, w);
}

void workload_send_advice(struct cluster *c, struct workload *w)
{
    w->advice_due = true;
    touch(c, w);
}

/* Updates the requirement after a change of the needs. */
static void change_requirement(struct cluster *c, struct workload *w, bool booked)
{
    struct requirement *before = w->requirement;
    struct requirement *after =
        requirement_get(c, &w->needs, &before->node_labels, w->known.kind, before->allowance);
    if (!after) {
        c->failed = true;
        return;
    }
    w->requirement = after;
    /* Not earlier, because the booking borrows the labels of the requirement. */
    if (booked)
        inventory_book(c, w);
    requirement_put(c, before);
}

void workload_set_suspect(struct cluster *c, struct workload *w, bool suspect)
{
    assert(!w->queued.position);
    if (w->needs.suspect == suspect)
        return;
    bool booked = w->booked;
    inventory_release(c, w);
    w->status.suspect = w->needs.suspect = suspect;
    change_requirement(c, w, booked);
    if (c->failed)
        return;
    workload_touch(c, w);
    queue_room_appeared(c);
}

void workload_set_wary(struct cluster *c, struct workload *w, bool wary)
{
    assert(!w->queued.position && !w->booked);
    if (w->needs.wary == wary)
        return;
    w->needs.wary = wary;
    change_requirement(c, w, false);
}

/* Moves the workload to the requirement of its new kind, which may have a turn now. */
static void change_kind(struct cluster *c, struct workload *w, uint32_t kind)
{
    struct requirement *before = w->requirement;
    struct requirement *after =
        requirement_get(c, &w->needs, &before->node_labels, kind, before->allowance);
    if (!after) {
        c->failed = true;
        return;
    }
    queue_leave(c, w);
    w->known.kind = kind;
    w->requirement = after;
    requirement_put(c, before);
    queue_consider(c, w);
}

/* Reports a workload that is much slower than predicted, and requeues it if it has a checkpoint. */
static void judge_placement(struct cluster *c, struct workload *w)
{
    bool is_bad =
        w->status.state == WORKLOAD_RUNNING && w->measured_pd > MISPLACED_PD * w->predicted_pd;
    if (!is_bad) {
        w->misplaced_since_ms = 0;
        return;
    }
    if (!w->misplaced_since_ms)
        w->misplaced_since_ms = c->now.boot_ms;
    if (!w->is_slowness_told)
        action_log(c, event_slowed, w->id, w->status.attempts_total, w->node->info.name,
                   "takes %.2f times as long as alone; %.2f was predicted", w->measured_pd,
                   w->predicted_pd);
    w->is_slowness_told = true;
    if (c->judges && w->known.checkpoints && c->now.boot_ms - w->misplaced_since_ms >= MISPLACED_MS)
        stop_misplaced(c, w);
}

void workload_measured(struct cluster *c, const struct cluster_event *event)
{
    struct workload *w = workload_find(c, event->measured.workload);
    if (!w || !w->node || w->status.attempts_total != event->measured.attempt)
        return;
    w->measured_pd = event->measured.pd;
    w->predicted_pd = event->measured.predicted_pd;
    judge_placement(c, w);
}

void workload_learn(struct cluster *c, const struct cluster_event *event)
{
    struct workload *w = workload_find(c, event->learn.workload);
    if (!w)
        return;
    bool booked = w->booked;
    inventory_release(c, w);
    if (w->known.kind != event->learn.known.kind)
        change_kind(c, w, event->learn.known.kind);
    w->known = event->learn.known;
    w->left_ms = w->known.alone_ms;
    if (booked) {
        inventory_book(c, w);
        queue_room_appeared(c); /* the forecast for neighbours and waiting workloads has changed */
    }
}

void workload_forecast(struct cluster *c, const struct cluster_event *event)
{
    size_t cursor = 0;
    void *value;
    while (hash_map_next(&c->live, &cursor, NULL, &value)) {
        struct workload *w = value;
        uint32_t program = w->known.program;
        if (program == w->known.kind || program >= event->forecast.count ||
            !event->forecast.known[program])
            continue;
        bool booked = w->booked;
        inventory_release(c, w);
        change_kind(c, w, program);
        if (booked)
            inventory_book(c, w);
    }
    inventory_forecast_changed(c);
}

void workload_end(struct cluster *c, struct workload *w, enum workload_state state,
                  enum failure_reason failure)
{
    assert(!w->node && workload_state_is_terminal(state));
    const char *word = state == WORKLOAD_SUCCEEDED ? event_succeeded
                       : state == WORKLOAD_FAILED  ? event_failed
                                                   : event_cancelled;
    workload_set_state(c, w, state);
    w->status.failure = failure;
    w->status.stop = STOP_NONE;
    w->status.ended_wall_ms = c->now.wall_ms;
    queue_leave(c, w);
    timer_clear(c, &w->timer);
    depend_unlink(c, w);
    w->grant_due = w->stop_due = w->turn_due = false;
    action_log(c, word, w->id, w->status.attempts_total, NULL, "%s", w->status.text);
    (void)hash_map_remove(&c->live, w->id);
    owner_put(c, w->owner);
    w->owner = NULL;
    struct finished row = {
        .id = w->id, .ended_wall_ms = c->now.wall_ms, .key = w->key, .state = state};
    if (finished_add(c, &row, false) < 0)
        c->failed = true;
    w->key = NULL;
    list_remove(&w->touched);
    list_append(&c->ended, &w->touched);
}

void timer_set(struct cluster *c, struct timer *t, int64_t due_boot_ms)
{
    t->due_boot_ms = due_boot_ms;
    if (t->member.position)
        heap_moved(&c->timers, &t->member);
    else if (heap_insert(&c->timers, &t->member) < 0)
        c->failed = true;
}

void timer_clear(struct cluster *c, struct timer *t)
{
    heap_remove(&c->timers, &t->member);
}

const struct workload_status *cluster_live_status(const struct cluster *c, uint64_t workload)
{
    const struct workload *w = workload_find(c, workload);
    return w ? &w->status : NULL;
}

uint32_t cluster_live_program(const struct cluster *c, uint64_t workload)
{
    const struct workload *w = workload_find(c, workload);
    return w ? w->known.program : 0;
}

void cluster_programs_in_use(const struct cluster *c, bool *ret_used, size_t count)
{
    size_t cursor = 0;
    void *value;
    while (hash_map_next(&c->live, &cursor, NULL, &value)) {
        const struct workload *w = value;
        if (w->known.program < count)
            ret_used[w->known.program] = true;
    }
}

void cluster_count(const struct cluster *c, struct cluster_counts *ret)
{
    *ret = (struct cluster_counts){.live = c->live.count,
                                   .finished = c->finished.count,
                                   .nodes_known = c->node_count,
                                   .decisions = c->decisions};
    for (int s = 0; s < WORKLOAD_STATE_END; s++)
        ret->by_state[s] = c->by_state[s];
    for (size_t i = 0; i < c->node_count; i++)
        ret->nodes_connected += c->nodes[i]->connected;
}
