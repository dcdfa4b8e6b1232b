/* The event loop, and the exchange with the cluster. */
#include "sim/engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "sim/engine_internal.h"

/* Lease if no node falls silent: reports arrive at once, and no beats are simulated. */
#define FOR_EVER_MS (INT64_C(1000) * 365 * 24 * 3600 * 1000)
/* Interval between two checkpoints of a task. */
#define CHECKPOINT_S 600
/* Time without a placement, with nothing running or arriving, after which the waiting workloads are
 * given up. */
#define HOPELESS_MS (INT64_C(24) * 3600 * 1000)
/* The cluster reevaluates its forecast after one observation per this number of devices, because
 * the cost is proportional to the devices. */
enum { OBSERVED_DEVICES = 20 };
enum { UUID_PREFIX = 4, NODE_PREFIX = 1 }; /* "GPU-17", "n3" */

void engine_config_default(struct engine_config *config)
{
    *config = (struct engine_config){.max_neighbours = 4,
                                     .estimate_error = 0.3,
                                     .start_s = 5,
                                     .outage_mean_s = 600,
                                     .keeps_spans = true};
}

static bool event_before(const struct heap_member *a, const struct heap_member *b)
{
    const struct engine_event *x = list_entry(a, const struct engine_event, member);
    const struct engine_event *y = list_entry(b, const struct engine_event, member);
    return x->due_ms != y->due_ms ? x->due_ms < y->due_ms : x->order < y->order;
}

void engine_schedule(struct engine *g, struct engine_event *event, int64_t due_ms)
{
    event->due_ms = due_ms;
    event->order = ++g->event_count;
    if (event->member.position)
        heap_moved(&g->events, &event->member);
    else if (heap_insert(&g->events, &event->member) < 0)
        g->failed = -ERR_NO_MEMORY;
}

void engine_unschedule(struct engine *g, struct engine_event *event)
{
    heap_remove(&g->events, &event->member);
}

struct clock_now engine_clock(const struct engine *g)
{
    return (struct clock_now){.boot_ms = g->now_ms, .wall_ms = g->now_ms};
}

/* ---- the cluster's actions ---- */

static struct task *task_of(struct engine *g, uint64_t id)
{
    return &g->tasks[g->task_of_id[id - 1]];
}

static void remember(struct engine *g, const struct cluster_action *a, bool is_stop)
{
    if (g->granted_count == g->granted_capacity) {
        size_t capacity = g->granted_capacity ? 2 * g->granted_capacity : 64;
        struct granted *granted = realloc(g->granted, capacity * sizeof *granted);
        if (!granted) {
            g->failed = -ERR_NO_MEMORY;
            return;
        }
        g->granted = granted;
        g->granted_capacity = capacity;
    }
    struct granted *to = &g->granted[g->granted_count++];
    *to = (struct granted){.id = a->workload,
                           .session = a->session,
                           .attempt = a->attempt,
                           .is_stop = is_stop,
                           .is_suspect = a->suspect,
                           .node = (uint32_t)strtoul(a->node + NODE_PREFIX, NULL, 10)};
    if (is_stop)
        return;
    to->device_count = a->placed->device_count;
    for (int i = 0; i < to->device_count; i++)
        to->sites[i] = (uint32_t)strtoul(a->placed->devices[i] + UUID_PREFIX, NULL, 10);
}

static void set_phase(struct engine *g, struct task *t, enum task_phase phase);

/* Ends a task that the cluster has failed. */
static void give_up(struct engine *g, struct task *t)
{
    if (t->phase != TASK_WAITING)
        return;
    g->result->workloads[t - g->tasks].state = WORKLOAD_FAILED;
    set_phase(g, t, TASK_OVER);
}

void engine_step(struct engine *g, const struct cluster_event *event)
{
    g->actions.count = 0;
    if (g->failed == 0)
        g->failed = cluster_step(g->cluster, event, &g->actions);
    for (size_t i = 0; g->failed == 0 && i < g->actions.count; i++) {
        const struct cluster_action *a = &g->actions.items[i];
        if (a->kind == CLUSTER_SEND_GRANT)
            remember(g, a, false);
        else if (a->kind == CLUSTER_SEND_STOP)
            remember(g, a, true);
        else if (a->kind == CLUSTER_STORE_STATUS && a->status->state == WORKLOAD_FAILED)
            give_up(g, task_of(g, a->workload));
        else if (a->kind == CLUSTER_SEND_WELCOME)
            g->sessions[strtoul(a->node + NODE_PREFIX, NULL, 10)] = a->session;
    }
}

static void report(struct engine *g, uint32_t node, const struct attempt_report *said)
{
    char name[NODE_NAME_MAX];
    struct cluster_event event = {.kind = CLUSTER_NODE_REPORT, .now = engine_clock(g)};
    (void)snprintf(name, sizeof name, "n%u", node);
    event.node.node = name;
    event.node.session = g->sessions[node];
    event.node.report = said;
    engine_step(g, &event);
}

/* ---- tasks ---- */

static size_t index_of(const struct engine *g, const struct task *t)
{
    return (size_t)(t - g->tasks);
}

static struct result_workload *row_of(const struct engine *g, const struct task *t)
{
    return &g->result->workloads[index_of(g, t)];
}

static void set_phase(struct engine *g, struct task *t, enum task_phase phase)
{
    if (task_is_service(t)) {
        t->phase = phase;
        return;
    }
    g->waiting_count -= t->phase == TASK_WAITING;
    g->running_count -= t->phase == TASK_STARTING || t->phase == TASK_RUNNING;
    t->phase = phase;
    g->waiting_count += t->phase == TASK_WAITING;
    g->running_count += t->phase == TASK_STARTING || t->phase == TASK_RUNNING;
    g->course.now.waiting = (double)g->waiting_count;
    g->course.now.running = (double)g->running_count;
    if (phase != TASK_OVER)
        return;
    g->over_count++;
    if (g->config->ended)
        atomic_store_explicit(g->config->ended, g->over_count, memory_order_relaxed);
}

static int part_devices(const struct task *t)
{
    return (int)(t->slot_count / t->part_count);
}

/* Starts a task that has all its devices. */
static void start(struct engine *g, struct task *t)
{
    struct result_workload *row = row_of(g, t);
    double now_s = engine_seconds(g->now_ms);
    task_advance(g, t);
    t->batch = t->item->batch;
    set_phase(g, t, TASK_STARTING);
    row->attempts++;
    if (row->start_s < 0)
        row->start_s = now_s;
    for (uint32_t i = 0; i < t->slot_count; i++) {
        t->slots[i].from_s = now_s;
        site_add(g, t->slots[i].site,
                 (struct resident){.task = (uint32_t)index_of(g, t), .slot = i});
    }
    engine_schedule(g, &t->event, g->now_ms + (int64_t)(g->config->start_s * 1000));
    g->result->summary.placements++;
    g->placed_ms = g->now_ms;
}

static void keep_span(struct engine *g, const struct task *t, const struct task_slot *slot,
                      double to_s)
{
    struct result_span span = {.device = slot->site,
                               .workload = (uint32_t)index_of(g, t),
                               .from_s = slot->from_s,
                               .to_s = to_s};
    if (g->config->keeps_spans && result_add_span(g->result, &span) < 0)
        g->failed = -ERR_NO_MEMORY;
}

/* Removes a task from its devices. */
static void leave(struct engine *g, struct task *t, enum task_phase phase)
{
    double now_s = engine_seconds(g->now_ms);
    engine_unschedule(g, &t->event);
    engine_unschedule(g, &t->clearing);
    task_advance(g, t);
    row_of(g, t)->batch_last = t->batch;
    set_phase(g, t, phase);
    for (uint32_t i = 0; i < t->slot_count; i++) {
        struct task_slot *slot = &t->slots[i];
        keep_span(g, t, slot, now_s);
        site_remove(g, slot->site, (struct resident){.task = (uint32_t)index_of(g, t), .slot = i});
        slot->site = SITE_NONE;
    }
    t->parts_granted = 0;
}

static void submit_gang(struct engine *g);

static void answer_grant(struct engine *g, const struct granted *said)
{
    struct task *t = task_of(g, said->id);
    uint32_t part = (uint32_t)said->id - t->first_id;
    struct attempt_report running = {.workload = said->id,
                                     .attempt = said->attempt,
                                     .phase = ATTEMPT_RUNNING,
                                     .started_wall_ms = g->now_ms + 1};
    for (int i = 0; i < said->device_count; i++)
        t->slots[(int)part * part_devices(t) + i].site = said->sites[i];
    t->attempt = said->attempt;
    t->parts_granted++;
    if (t->parts_granted == t->part_count) {
        bool was_gathering = t->part_count > 1 && g->is_gathering;
        start(g, t);
        if (was_gathering) {
            g->is_gathering = false;
            submit_gang(g);
        }
    }
    report(g, said->node, &running);
    if (said->is_suspect) {
        struct device_config device;
        device_config_default(&device);
        engine_schedule(g, &t->clearing, g->now_ms + device.probation_ms);
    }
}

/* Reports that a suspect ended its probation. */
static void clear(struct engine *g, struct task *t)
{
    struct attempt_report cleared = {.workload = t->first_id,
                                     .attempt = t->attempt,
                                     .phase = ATTEMPT_RUNNING,
                                     .started_wall_ms = g->now_ms,
                                     .cleared = true};
    report(g, g->sites[t->slots[0].site].node, &cleared);
}

/* Ends a task that the cluster wants to requeue. Its progress is in a checkpoint. */
static void answer_stop(struct engine *g, const struct granted *said)
{
    struct task *t = task_of(g, said->id);
    struct attempt_report stopped = {.workload = said->id,
                                     .attempt = said->attempt,
                                     .phase = ATTEMPT_EXITED,
                                     .started_wall_ms = g->now_ms + 1,
                                     .ended_wall_ms = g->now_ms + 1,
                                     .signal = 15};
    if (t->phase == TASK_STARTING || t->phase == TASK_RUNNING) {
        leave(g, t, TASK_WAITING);
        row_of(g, t)->evictions++;
    } else {
        /* The node is back from an outage and does not know the attempt. */
        stopped.never_ran = true;
        stopped.started_wall_ms = 0;
        stopped.signal = 0;
    }
    report(g, said->node, &stopped);
}

static void answer_all(struct engine *g)
{
    for (size_t i = 0; g->failed == 0 && i < g->granted_count; i++) {
        struct granted said = g->granted[i]; /* a copy, because the array may be reallocated */
        if (outage_is_down(g, said.node))
            continue;
        if (said.is_stop)
            answer_stop(g, &said);
        else
            answer_grant(g, &said);
    }
    g->granted_count = 0;
}

static void finish(struct engine *g, struct task *t)
{
    struct result_workload *row = row_of(g, t);
    uint32_t nodes[TRACE_DEVICES_MAX];
    for (uint32_t p = 0; p < t->part_count; p++)
        nodes[p] = g->sites[t->slots[(int)p * part_devices(t)].site].node;
    leave(g, t, TASK_OVER);
    row->state = WORKLOAD_SUCCEEDED;
    row->end_s = engine_seconds(g->now_ms);
    row->wait_s = row->end_s - row->submit_s - t->running_s;
    row->pd = t->running_s / row->alone_s;
    for (uint32_t p = 0; p < t->part_count; p++)
        report(g, nodes[p],
               &(struct attempt_report){.workload = t->first_id + p,
                                        .attempt = t->attempt,
                                        .phase = ATTEMPT_EXITED,
                                        .started_wall_ms = g->now_ms,
                                        .ended_wall_ms = g->now_ms + 1});
    free(t->slots);
    t->slots = NULL;
}

static void begin(struct engine *g, struct task *t)
{
    task_advance(g, t);
    set_phase(g, t, TASK_RUNNING);
    for (uint32_t i = 0; i < t->slot_count; i++)
        site_began(g, t->slots[i].site);
    if (task_is_service(t))
        engine_schedule(g, &t->event, g->now_ms + SERVING_STEP_S * 1000);
}

/* Applies a new request rate of a service. */
static void change_rate(struct engine *g, struct task *t)
{
    site_refresh(g, &g->sites[t->slots[0].site]);
    engine_schedule(g, &t->event, g->now_ms + SERVING_STEP_S * 1000);
}

/* Loses the work since the last checkpoint through a fault. */
static void lose_work(struct engine *g, struct task *t)
{
    double done_s = t->item->duration_s - t->remaining_s;
    t->remaining_s += fmin(done_s, CHECKPOINT_S * rng_double(&g->fault_rng));
}

void engine_evict(struct engine *g, uint64_t id, enum attempt_verdict verdict, const char *why)
{
    struct task *t = task_of(g, id);
    struct attempt_report moved = {.workload = id,
                                   .phase = ATTEMPT_EXITED,
                                   .attempt = t->attempt,
                                   .started_wall_ms = g->now_ms + 1,
                                   .ended_wall_ms = g->now_ms + 1,
                                   .signal = 15,
                                   .verdict = verdict};
    if (t->phase != TASK_STARTING && t->phase != TASK_RUNNING)
        return;
    uint32_t node = g->sites[t->slots[0].site].node;
    (void)str_copy(moved.text, sizeof moved.text, why);
    leave(g, t, TASK_WAITING);
    row_of(g, t)->evictions++;
    if (verdict != VERDICT_MOVED && !task_is_service(t))
        lose_work(g, t);
    report(g, node, &moved);
}

void engine_cut(struct engine *g, uint32_t task)
{
    struct task *t = &g->tasks[task];
    leave(g, t, TASK_WAITING);
    row_of(g, t)->evictions++;
    if (!task_is_service(t))
        lose_work(g, t);
}

void engine_say_health(struct engine *g, const struct site *s)
{
    char name[NODE_NAME_MAX];
    struct device_health health = {.state = device_state(s->monitor),
                                   .admits = device_admission(s->monitor),
                                   .needs_operator = device_needs_operator(s->monitor)};
    struct cluster_event event = {.kind = CLUSTER_NODE_BEAT, .now = engine_clock(g)};
    (void)snprintf(health.uuid, sizeof health.uuid, "GPU-%u", (unsigned)(s - g->sites));
    (void)snprintf(name, sizeof name, "n%u", s->node);
    event.node.node = name;
    event.node.session = g->sessions[s->node];
    event.node.health = &health;
    event.node.health_count = 1;
    engine_step(g, &event);
}

/* ---- submission ---- */

static int reserve_ids(struct engine *g, size_t count, uint32_t task)
{
    if (g->id_count + count > g->id_capacity) {
        size_t capacity = 2 * (g->id_count + count);
        uint32_t *ids = realloc(g->task_of_id, capacity * sizeof *ids);
        if (!ids)
            return -ERR_NO_MEMORY;
        g->task_of_id = ids;
        g->id_capacity = capacity;
    }
    for (size_t i = 0; i < count; i++)
        g->task_of_id[g->id_count++] = task;
    return 0;
}

/* Returns the duration alone that the user states. */
static double stated_ms(const struct engine *g, const struct task *t)
{
    struct rng rng;
    rng_seed(&rng, hash_u64(g->config->seed) ^ (index_of(g, t) + 1 - g->config->service_count));
    double u = 1 - rng_double(&rng), v = rng_double(&rng);
    double normal = sqrt(-2 * log(u)) * cos(2 * M_PI * v);
    double error = g->is_true ? 0 : g->config->estimate_error * normal;
    return t->item->duration_s * 1000 * exp(error);
}

static void submit_task(struct engine *g, struct task *t)
{
    bool is_service = task_is_service(t);
    struct workload_needs needs = {.kind = is_service ? WORKLOAD_SERVICE : WORKLOAD_TASK,
                                   .devices = part_devices(t),
                                   .share_max_percent = 100,
                                   .grace_ms = 10000};
    if (is_service)
        needs.quota_bytes = (uint64_t)t->service->memory_bytes;
    else if (t->part_count == 1) /* whole nodes are exclusive */
        needs.quota_bytes = truth_booking_bytes(g->config->truth, t->item->model, t->item->batch);
    struct cluster_submission item = {.name = "task",
                                      .needs = &needs,
                                      .known = {.kind = t->kind,
                                                .alone_ms = is_service ? 0 : stated_ms(g, t),
                                                .checkpoints = !is_service}};
    t->slots = calloc(t->slot_count, sizeof *t->slots);
    t->first_id = (uint32_t)g->id_count + 1;
    if (!t->slots || reserve_ids(g, t->part_count, (uint32_t)index_of(g, t)) < 0) {
        g->failed = -ERR_NO_MEMORY;
        return;
    }
    for (uint32_t i = 0; i < t->slot_count; i++)
        t->slots[i].site = SITE_NONE;
    set_phase(g, t, TASK_WAITING);
    for (uint32_t p = 0; p < t->part_count; p++) {
        struct cluster_event event = {.kind = CLUSTER_SUBMIT, .now = engine_clock(g)};
        event.submit.count = 1;
        event.submit.items = &item;
        engine_step(g, &event);
    }
    if (g->config->explain == index_of(g, t) + 1 && g->failed == 0)
        g->failed = cluster_explain(g->cluster, t->first_id, g->config->explanation);
}

static void submit_gang(struct engine *g)
{
    if (g->is_gathering || g->gang_first == g->gang_count)
        return;
    g->is_gathering = true;
    submit_task(g, &g->tasks[g->gangs[g->gang_first++]]);
}

/* Returns the number of nodes with at least this number of devices. */
static size_t nodes_of(const struct hardware *h, int devices)
{
    size_t count = 0;
    for (size_t i = 0; i < h->group_count; i++)
        if (h->groups[i].devices_per_node >= devices)
            count += h->groups[i].node_count;
    return count;
}

static int largest_node(const struct hardware *h)
{
    int largest = 1;
    for (size_t i = 0; i < h->group_count; i++)
        if (h->groups[i].devices_per_node > largest)
            largest = h->groups[i].devices_per_node;
    return largest < WORKLOAD_DEVICES_MAX ? largest : WORKLOAD_DEVICES_MAX;
}

static void arrive(struct engine *g, struct task *t)
{
    const struct hardware *h = g->config->hardware;
    struct belief_kind kind = {.model = t->item->model,
                               .batch = t->item->batch,
                               .is_tuned = g->tunes && t->item->devices == 1};
    if (task_is_service(t)) {
        kind.is_service = true;
        kind.is_tuned = false;
        kind.service = (uint32_t)(t->service - g->config->serving->profiles);
    }
    int node_devices = largest_node(h);
    int r = belief_kind_of(g->belief, &kind, &t->kind);
    if (r < 0) {
        g->failed = r;
        return;
    }
    t->remaining_s = t->item->duration_s;
    t->part_count = (uint32_t)((t->item->devices + node_devices - 1) / node_devices);
    t->slot_count =
        t->part_count == 1 ? (uint32_t)t->item->devices : t->part_count * (uint32_t)node_devices;
    if (t->part_count > nodes_of(h, part_devices(t))) {
        row_of(g, t)->state = WORKLOAD_FAILED; /* larger than the cluster */
        set_phase(g, t, TASK_OVER);
    } else if (t->part_count == 1) {
        submit_task(g, t);
    } else {
        row_of(g, t)->is_split = true;
        g->gangs[g->gang_count++] = (uint32_t)index_of(g, t);
        submit_gang(g);
    }
}

/* ---- faults ---- */

static void schedule_fault(struct engine *g)
{
    double devices = (double)g->config->hardware->device_count;
    double gap_s =
        -log(1 - rng_double(&g->fault_rng)) * 86400 / (g->config->faults_per_device_day * devices);
    engine_schedule(g, &g->fault, g->now_ms + (int64_t)(gap_s * 1000) + 1);
}

static bool has_gang(const struct engine *g, const struct site *s)
{
    for (size_t i = 0; i < s->resident_count; i++)
        if (g->tasks[s->residents[i].task].part_count > 1)
            return true;
    return false;
}

static void strike(struct engine *g)
{
    struct site *s = &g->sites[rng_below(&g->fault_rng, g->config->hardware->device_count)];
    if (s->resident_count > 0 && !has_gang(g, s)) {
        g->result->summary.faults++;
        watch_fault(g, s);
    }
    schedule_fault(g);
}

/* ---- the loop ---- */

static int64_t next_submit_ms(const struct engine *g)
{
    if (g->next_task == g->task_count)
        return INT64_MAX;
    return (int64_t)llround(g->tasks[g->next_task].item->submit_s * 1000);
}

static void happen(struct engine *g, struct engine_event *event)
{
    engine_unschedule(g, event);
    struct task *t = list_entry(event, struct task, event); /* valid for ENGINE_TASK */
    if (event->kind == ENGINE_TUNE)
        site_tune(g, list_entry(event, struct site, event));
    else if (event->kind == ENGINE_WATCH)
        watch_sample(g, list_entry(event, struct site, watch));
    else if (event->kind == ENGINE_FAULT)
        strike(g);
    else if (event->kind == ENGINE_OUTAGE)
        outage_strike(g);
    else if (event->kind == ENGINE_BACK)
        outage_end(g, event);
    else if (event->kind == ENGINE_BEAT)
        outage_beat(g);
    else if (event->kind == ENGINE_CLEAR)
        clear(g, list_entry(event, struct task, clearing));
    else if (t->phase == TASK_STARTING)
        begin(g, t);
    else if (task_is_service(t))
        change_rate(g, t);
    else
        finish(g, t);
}

static bool is_hopeless(const struct engine *g, int64_t next_ms)
{
    return g->running_count == 0 && g->next_task == g->task_count &&
           next_ms - g->placed_ms > HOPELESS_MS;
}

/* Processes one event. Returns false if no event is left. */
static bool advance(struct engine *g)
{
    struct heap_member *first = heap_first(&g->events);
    int64_t event_ms = first ? list_entry(first, struct engine_event, member)->due_ms : INT64_MAX;
    int64_t submit_ms = next_submit_ms(g), tick_ms = cluster_next_tick(g->cluster);
    int64_t next_ms = event_ms < submit_ms ? event_ms : submit_ms;
    if (tick_ms < next_ms)
        next_ms = tick_ms;
    if (g->over_count + g->config->service_count == g->task_count || next_ms == INT64_MAX ||
        is_hopeless(g, next_ms))
        return false;
    if (next_ms > g->now_ms) {
        course_pass(&g->course, engine_seconds(next_ms));
        g->now_ms = next_ms;
    }
    if (event_ms <= next_ms)
        happen(g, list_entry(first, struct engine_event, member));
    else if (submit_ms <= next_ms)
        arrive(g, &g->tasks[g->next_task++]);
    else
        engine_step(g, &(struct cluster_event){.kind = CLUSTER_TICK, .now = engine_clock(g)});
    answer_all(g);
    if (g->observed * OBSERVED_DEVICES >= g->config->hardware->device_count) {
        g->observed = 0;
        engine_step(g, &(struct cluster_event){.kind = CLUSTER_FORECAST, .now = engine_clock(g)});
        answer_all(g);
    }
    return g->failed == 0;
}

/* ---- life ---- */

static int open_engine(struct engine *g, const struct engine_config *config, struct result *result)
{
    struct cluster_config cluster;
    *g = (struct engine){.config = config,
                         .result = result,
                         .task_count = config->service_count + config->trace->count};
    prepare_system(g);
    hash_map_init(&g->tuned);
    heap_init(&g->events, event_before);
    cluster_actions_init(&g->actions);
    course_init(&g->course);
    rng_seed(&g->rng, config->seed);
    rng_seed(&g->fault_rng, config->seed + 1);
    g->fault.kind = ENGINE_FAULT;
    g->tasks = calloc(g->task_count, sizeof *g->tasks);
    g->gangs = calloc(g->task_count, sizeof *g->gangs);
    g->service_items = calloc(config->service_count + 1, sizeof *g->service_items);
    g->device_actions = calloc(1, sizeof *g->device_actions);
    g->sessions = calloc(config->hardware->node_count, sizeof *g->sessions);
    result->workloads = calloc(g->task_count, sizeof *result->workloads);
    result->workload_count = g->task_count;
    if (!g->tasks || !g->gangs || !g->service_items || !g->device_actions || !g->sessions ||
        !result->workloads || site_init_all(g) < 0)
        return -ERR_NO_MEMORY;
    prepare_tasks(g);
    const struct belief_config belief = {.truth = config->truth,
                                         .hardware = config->hardware,
                                         .serving = config->serving,
                                         .ways = g->ways,
                                         .is_true = g->is_true,
                                         .seed = config->seed};
    int r = belief_new(&belief, &g->belief);
    if (r < 0)
        return r;
    cluster_config_default(&cluster);
    cluster.policy = config->policy;
    cluster.options = config->options;
    cluster.forecast = belief_forecast(g->belief);
    cluster.max_neighbours = config->max_neighbours;
    cluster.queue_max = (size_t)TRACE_ITEMS_MAX + TRACE_DEVICES_MAX;
    cluster.keep_finished_ms = FOR_EVER_MS;
    if (config->outages_per_node_day <= 0)
        cluster.lease_ms = FOR_EVER_MS;
    g->lease_ms = cluster.lease_ms;
    cluster.keep_finished_max = SIZE_MAX;
    cluster.seed = config->seed;
    return cluster_new(&cluster, &g->cluster);
}

static void close_engine(struct engine *g)
{
    for (size_t i = 0; g->tasks && i < g->task_count; i++)
        free(g->tasks[i].slots);
    site_done_all(g);
    cluster_free(g->cluster);
    cluster_actions_done(&g->actions);
    belief_free(g->belief);
    heap_done(&g->events);
    free(g->tasks);
    free(g->gangs);
    free(g->service_items);
    free(g->device_actions);
    free(g->outages);
    free(g->sessions);
    free(g->task_of_id);
    free(g->granted);
}

static void fill_result(struct engine *g, struct result *r)
{
    const struct hardware *h = g->config->hardware;
    double end_s = 0;
    struct cluster_counts counts;
    cluster_count(g->cluster, &counts);
    r->summary.decisions = counts.decisions;
    (void)str_copy(r->policy, sizeof r->policy, g->config->policy->name);
    for (enum policy_part part = 0; part < POLICY_PART_END; part++)
        if (g->config->options.without[part])
            (void)snprintf(r->policy + strlen(r->policy), sizeof r->policy - strlen(r->policy),
                           " without %s", policy_part_name(part));
    r->seed = g->config->seed;
    r->load = trace_load(g->config->trace, h->device_count);
    r->node_count = h->node_count;
    r->device_count = h->device_count;
    for (size_t i = 0; i < h->group_count; i++)
        r->is_extrapolated |= !h->groups[i].gpu->is_measured;
    for (size_t i = 0; i < r->workload_count; i++)
        end_s = fmax(end_s, r->workloads[i].end_s);
    for (size_t i = 0; i < g->config->service_count; i++) {
        const struct task *t = &g->tasks[i];
        task_advance(g, &g->tasks[i]);
        if (t->phase != TASK_RUNNING)
            continue;
        r->workloads[i].state = WORKLOAD_RUNNING;
        for (uint32_t slot = 0; slot < t->slot_count; slot++)
            keep_span(g, t, &t->slots[slot], end_s);
    }
    course_finish(&g->course, end_s, h->device_count, r);
}

int engine_run(struct error *e, const struct engine_config *config, struct result *ret_result)
{
    struct engine *g = calloc(1, sizeof *g);
    struct result result = {0};
    if (!g)
        return error_set(e, ERR_NO_MEMORY, "no memory to simulate");
    g->failed = open_engine(g, config, &result);
    if (g->failed == 0)
        prepare_nodes(g);
    if (g->failed == 0 && config->faults_per_device_day > 0)
        schedule_fault(g);
    if (g->failed == 0)
        g->failed = outage_init(g);
    while (g->failed == 0 && advance(g))
        if (config->stop && atomic_load_explicit(config->stop, memory_order_relaxed))
            g->failed = -ERR_UNAVAILABLE;
    if (g->failed == 0)
        fill_result(g, &result);
    int r = g->failed;
    close_engine(g);
    free(g);
    if (r == 0)
        r = result_finish(&result);
    if (r < 0) {
        result_done(&result);
        return error_set(e, (enum error_code) - r, "%s",
                         r == -ERR_UNAVAILABLE ? "the simulation was interrupted" : error_title(r));
    }
    *ret_result = result;
    return 0;
}
