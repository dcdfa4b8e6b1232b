/*
 * The cluster's step under all kinds of faults, one world per seed.
 *
 *   cluster_torture [--seeds A..B] [--events N] [--verbose]
 *
 * GPUMUX_SEED is added to the seeds, so that a soak test tries new ones.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

enum { CALM_ROUNDS_MAX = 2000 };

void world_broken(struct world *w, const char *format, ...)
{
    va_list args;
    if (w->broken)
        return;
    w->broken = true;
    va_start(args, format);
    fprintf(stderr, "seed %llu, event %llu: ", (unsigned long long)w->seed,
            (unsigned long long)w->events);
    vfprintf(stderr, format, args);
    fprintf(stderr,
            "\nreplay: GPUMUX_SEED=0 cluster_torture --seeds %llu..%llu --events %llu "
            "--verbose\n",
            (unsigned long long)w->seed, (unsigned long long)w->seed,
            (unsigned long long)w->events_wanted);
    va_end(args);
}

void world_trace(struct world *w, const char *format, ...)
{
    va_list args;
    if (!w->verbose)
        return;
    va_start(args, format);
    printf("%6llu %7lld ", (unsigned long long)w->events, (long long)w->now_ms);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
}

uint64_t world_below(struct world *w, uint64_t bound)
{
    return rng_below(&w->rng, bound);
}

bool world_chance(struct world *w, unsigned percent)
{
    return world_below(w, 100) < percent;
}

/* ---- actions of users ---- */

/* Returns whether a node of machine_init() could ever hold the workload. */
static bool can_ever_fit(const struct row *row)
{
    static const char *const models[WORLD_NODES] = {"3090", "3090", "H200"};
    for (int n = 0; n < WORLD_NODES; n++)
        if ((!row->labelled || n == 1) &&
            (row->needs.devices == 0 ||
             ((!row->needs.model[0] || strcmp(row->needs.model, models[n]) == 0) &&
              row->needs.devices <= 1 + n)))
            return true;
    return false;
}

static struct row random_row(struct world *w)
{
    static const char *const models[] = {"", "", "", "", "", "3090", "H200", "H300"};
    static const int devices[] = {0, 1, 1, 1, 1, 1, 1, 2, 2, 3};
    struct row row = {.key = -1};
    struct workload_needs *needs = &row.needs;
    needs->kind = world_chance(w, 12) ? WORKLOAD_SERVICE : WORKLOAD_TASK;
    needs->devices = devices[world_below(w, 10)];
    needs->quota_bytes = world_chance(w, 15) ? 0 : 10 + world_below(w, 4) * 20;
    needs->share_min_percent = (int)world_below(w, 3) * 20;
    needs->share_max_percent = 100;
    needs->priority = (int)world_below(w, 3) - 1;
    needs->retries = (int)world_below(w, 3);
    needs->grace_ms = (int64_t)world_below(w, 3) * 100;
    needs->on_node_lost = world_chance(w, 20) ? ON_NODE_LOST_WAIT : ON_NODE_LOST_REQUEUE;
    (void)snprintf(needs->model, sizeof needs->model, "%s", models[world_below(w, 8)]);
    row.labelled = world_chance(w, 8);
    row.never_fits = !can_ever_fit(&row);
    return row;
}

static struct policy_known random_known(struct world *w)
{
    return (struct policy_known){.kind = (uint32_t)world_below(w, FORECAST_MODEL_KINDS),
                                 .program = (uint32_t)world_below(w, FORECAST_MODEL_KINDS),
                                 .alone_ms =
                                     (double)world_below(w, 2) * (double)world_below(w, 500),
                                 .checkpoints = world_chance(w, 50)};
}

static void learn(struct world *w)
{
    struct cluster_event event = {.kind = CLUSTER_LEARN};
    uint64_t workload = 1 + world_below(w, w->last_id + 1);
    bool known[FORECAST_MODEL_KINDS];
    if (world_chance(w, 40)) {
        event.learn.workload = workload;
        event.learn.known = random_known(w);
    } else if (world_chance(w, 70)) {
        event.kind = CLUSTER_MEASURED;
        event.measured.workload = workload;
        event.measured.attempt = 1 + (int)world_below(w, 2);
        event.measured.pd = 1 + (double)world_below(w, 3);
        event.measured.predicted_pd = 1;
    } else {
        event.kind = CLUSTER_FORECAST;
        event.forecast.known = known;
        event.forecast.count = FORECAST_MODEL_KINDS;
        for (size_t i = 0; i < FORECAST_MODEL_KINDS; i++)
            known[i] = i > 0 && world_chance(w, 50);
    }
    control_step(w, &event, NULL, NULL);
}

static void add_dependencies(struct world *w, struct row *row, size_t index)
{
    row->after_count = world_chance(w, 20) ? 1 + world_below(w, WORLD_AFTER_MAX) : 0;
    for (size_t i = 0; i < row->after_count; i++) {
        struct cluster_after *after = &row->after[i];
        after->within = world_chance(w, 40) && (index > 0 || world_chance(w, 5));
        after->workload = after->within ? world_below(w, index + (world_chance(w, 5) || !index))
                                        : w->last_id - world_below(w, w->last_id + 1) / 4;
        after->succeeded = world_chance(w, 60);
    }
}

static void submit(struct world *w)
{
    static struct pair gpu[] = {{"gpu", "yes"}};
    static const struct pairs labels = {.count = 1, .items = gpu};
    struct row fresh[WORLD_SUBMIT_MAX];
    struct cluster_submission items[WORLD_SUBMIT_MAX];
    struct request request = {.kind = CLUSTER_SUBMIT, .key = -1, .uid = world_chance(w, 50)};
    struct cluster_event event = {.kind = CLUSTER_SUBMIT};
    char key[8] = "k";
    size_t count = world_chance(w, 80) ? 1 : 1 + world_below(w, WORLD_SUBMIT_MAX);
    if (w->pending_last_id + WORLD_SUBMIT_MAX >= WORLD_IDS)
        return;
    if (world_chance(w, 30)) {
        request.key = (int)world_below(w, WORLD_KEYS);
        key[1] = (char)('a' + request.key);
        event.submit.key = key;
    }
    for (size_t i = 0; i < count; i++) {
        fresh[i] = i > 0 && world_chance(w, 70) ? fresh[0] : random_row(w);
        fresh[i].uid = request.uid;
        fresh[i].key = request.key;
        fresh[i].submitted = count;
        add_dependencies(w, &fresh[i], i);
        items[i] = (struct cluster_submission){.name = "w",
                                               .needs = &fresh[i].needs,
                                               .node_labels = fresh[i].labelled ? &labels : NULL,
                                               .after_count = fresh[i].after_count,
                                               .after = fresh[i].after,
                                               .known = random_known(w),
                                               .allowance = 1 + request.uid,
                                               .owner = request.uid,
                                               .is_admin = world_chance(w, 20)};
    }
    event.submit.uid = request.uid;
    event.submit.count = count;
    event.submit.items = items;
    world_trace(w, "submit %zu", count);
    control_step(w, &event, fresh, &request);
}

static void stop(struct world *w, enum cluster_event_kind kind, uint64_t id, int64_t grace_ms)
{
    struct cluster_event event = {.kind = kind};
    event.stop.workload = id;
    event.stop.grace_ms = grace_ms;
    static const char *const words[CLUSTER_EVENT_END] = {[CLUSTER_CANCEL] = "cancel",
                                                         [CLUSTER_REQUEUE] = "requeue",
                                                         [CLUSTER_SUSPEND] = "suspend",
                                                         [CLUSTER_RESUME] = "resume"};
    world_trace(w, "%s %llu", words[kind], (unsigned long long)id);
    control_step(w, &event, NULL, NULL);
}

static void stop_any(struct world *w, enum cluster_event_kind kind)
{
    uint64_t recent = 1 + w->last_id - world_below(w, w->last_id < 30 ? w->last_id + 1 : 30);
    stop(w, kind, recent, world_chance(w, 50) ? -1 : (int64_t)world_below(w, 300));
}

/* Suspends or resumes a workload that has started. */
static void turn_any(struct world *w)
{
    uint64_t id = 1 + world_below(w, w->last_id + 1);
    for (uint64_t tries = 0; tries < w->last_id; tries++, id = id % w->last_id + 1) {
        enum workload_state state = w->rows[id].status.state;
        if (state == WORKLOAD_RUNNING || state == WORKLOAD_SUSPENDED)
            break;
    }
    stop(w, world_chance(w, 60) ? CLUSTER_SUSPEND : CLUSTER_RESUME, id, -1);
}

static void advise_any(struct world *w)
{
    struct cluster_event event = {.kind = CLUSTER_ADVISE};
    event.advise.workload = 1 + world_below(w, w->last_id + 1);
    event.advise.batch = world_chance(w, 60) ? (int64_t)world_below(w, 100) : -1;
    event.advise.checkpoint = event.advise.batch < 0;
    world_trace(w, "advise %llu", (unsigned long long)event.advise.workload);
    control_step(w, &event, NULL, NULL);
}

static void drain(struct world *w, int node, bool on)
{
    struct cluster_event event = {.kind = CLUSTER_DRAIN};
    event.drain.node = w->machines[node].info.name;
    event.drain.on = on;
    world_trace(w, "%s n%d", on ? "drain" : "undrain", node);
    control_step(w, &event, NULL, NULL);
}

/* ---- time ---- */

static void pass_time(struct world *w, int64_t ms)
{
    w->now_ms += ms;
    for (int n = 0; n < WORLD_NODES; n++)
        machine_time_passed(w, n);
    struct clock_now now = world_control_clock(w);
    if (cluster_next_tick(w->cluster) <= now.boot_ms && (w->calm || world_chance(w, 85))) {
        struct cluster_event event = {.kind = CLUSTER_TICK};
        control_step(w, &event, NULL, NULL);
    }
}

static void pass_some_time(struct world *w)
{
    uint64_t lot = world_below(w, 100);
    /* May be long past. */
    int64_t until_tick_ms = cluster_next_tick(w->cluster) - w->now_ms - w->boot_offset_ms;
    if (lot < 3)
        w->wall_offset_ms = (int64_t)world_below(w, UINT64_C(4000000000000));
    if (lot < 2)
        pass_time(w, 1000 + (int64_t)world_below(w, 3000));
    else if (lot < 30 && until_tick_ms > 0 && until_tick_ms < 500)
        pass_time(w, until_tick_ms);
    else
        pass_time(w, 1 + (int64_t)world_below(w, 40));
}

/* ---- faults ---- */

static void fault(struct world *w)
{
    int node = (int)world_below(w, WORLD_NODES);
    struct machine *m = &w->machines[node];
    switch (world_below(w, 8)) {
    case 0:
        world_trace(w, "cut n%d", node);
        machine_cut(w, node);
        break;
    case 1:
        world_trace(w, "agent of n%d dies", node);
        machine_agent_dies(w, node);
        break;
    case 2:
    case 3:
        world_trace(w, "a supervisor of n%d dies", node);
        machine_supervisor_dies(w, node);
        break;
    case 4: {
        bool wiped = world_chance(w, 60);
        world_trace(w, "n%d dies%s", node, wiped ? " and is wiped" : "");
        machine_dies(w, node, wiped);
        if (world_chance(w, 50)) { /* back before its last messages have arrived */
            machine_starts(w, node);
            machine_speak(w, node);
        }
        break;
    }
    case 5:
        control_crash(w);
        break;
    case 6:
        m->devices_present = 1 + (int)world_below(w, (uint64_t)node + 1);
        break;
    default:
        if (world_chance(w, 50))
            control_flush(w);
        else
            drain(w, node, world_chance(w, 50));
        break;
    }
}

static void one_event(struct world *w)
{
    uint64_t lot = world_below(w, 100);
    int node = (int)world_below(w, WORLD_NODES);
    struct machine *m = &w->machines[node];
    w->events++;
    if (lot < 48)
        (void)network_deliver(w);
    else if (lot < 54)
        submit(w);
    else if (lot < 70)
        machine_progress(w, node);
    else if (lot < 84) {
        if (!m->up || !m->agent) {
            if (world_chance(w, 30))
                machine_starts(w, node);
        } else {
            machine_speak(w, node);
        }
    } else if (lot < 92)
        pass_some_time(w);
    else if (lot < 94)
        stop_any(w, CLUSTER_CANCEL);
    else if (lot < 95)
        stop_any(w, CLUSTER_REQUEUE);
    else if (lot < 96 && world_chance(w, 50))
        learn(w);
    else if (lot < 96 && world_chance(w, 70))
        turn_any(w);
    else if (lot < 96)
        advise_any(w);
    else
        fault(w);
}

/* ---- the end: without further faults, all workloads must end ---- */

static bool all_ended(const struct world *w)
{
    if (w->live_rows > 0 || w->pending_count > 0)
        return false;
    for (int n = 0; n < WORLD_NODES; n++)
        if (w->machines[n].run_count > 0)
            return false;
    return true;
}

static void calm_down(struct world *w)
{
    w->calm = true;
    control_flush(w);
    for (int n = 0; n < WORLD_NODES; n++) {
        if (!w->node_known[n] || w->node_stored[n].device_count != 1 + n ||
            w->machines[n].info.device_count != 1 + n || w->machines[n].devices_present != 1 + n) {
            w->machines[n].devices_present = 1 + n;
            machine_cut(w, n); /* so that its hello lists the present devices */
        }
        machine_starts(w, n);
        if (w->node_known[n])
            drain(w, n, false);
    }
    for (uint64_t id = 1; id <= w->last_id; id++) {
        const struct row *row = &w->rows[id];
        if (!workload_state_is_terminal(row->status.state) &&
            (row->needs.kind == WORKLOAD_SERVICE || row->never_fits))
            stop(w, CLUSTER_CANCEL, id, 0);
        else if (row->status.hold == HOLD_USER)
            stop(w, CLUSTER_RESUME, id, 0);
    }
}

static void calm_round(struct world *w, int round)
{
    w->events++;
    while (!w->broken && network_deliver(w))
        ;
    for (int n = 0; n < WORLD_NODES; n++) {
        for (int i = 0; i < 8; i++)
            machine_progress(w, n);
        if (round % 2 == 0)
            machine_speak(w, n);
    }
    int64_t until_tick_ms = cluster_next_tick(w->cluster) - w->now_ms - w->boot_offset_ms;
    pass_time(w, until_tick_ms < 1 ? 1 : until_tick_ms > 60 ? 60 : until_tick_ms);
}

/* ---- one seed ---- */

/* Allowances of the two users. Each allows the largest workload. */
static const struct cluster_allowance allowances[] = {
    {.name = "zero", .guaranteed_ppm = 1500000, .most_ppm = 3000000},
    {.name = "one", .guaranteed_ppm = 0, .most_ppm = 1000000000},
};

static const struct policy *random_policy(struct world *w)
{
    size_t count = 0;
    while (policy_at(count))
        count++;
    return policy_at(world_below(w, count));
}

static void world_init(struct world *w, uint64_t seed, bool verbose)
{
    memset(w->keys, 0, sizeof w->keys);
    memset(w->bookings, 0, sizeof w->bookings);
    memset(w->node_attempts, 0, sizeof w->node_attempts);
    memset(w->node_cpu_only, 0, sizeof w->node_cpu_only);
    memset(w->node_known, 0, sizeof w->node_known);
    memset(w->control_connection, 0, sizeof w->control_connection);
    w->seed = seed;
    w->verbose = verbose;
    w->calm = w->broken = false;
    w->events = w->last_id = w->pending_last_id = w->cluster_lives = 0;
    w->live_rows = w->kept_rows = w->pending_count = 0;
    w->dead_connections = w->last_connection;
    rng_seed(&w->rng, seed);
    w->now_ms = 1000000;
    w->wall_offset_ms = 1700000000000;
    cluster_config_default(&w->config);
    w->config.policy = random_policy(w);
    w->config.forecast = world_chance(w, 80) ? &forecast_model : NULL;
    w->config.allowances = allowances;
    w->config.allowance_count = world_chance(w, 40) ? 2 : 0;
    for (int p = 0; p < POLICY_PART_END; p++)
        w->config.options.without[p] = world_chance(w, 20);
    w->config.max_neighbours = 2 + (int)world_below(w, 3);
    w->config.attempts_max = world_chance(w, 50) ? 4 + (int)world_below(w, 8) : 1024;
    w->config.cpu_tasks_max = (int)world_below(w, 4);
    w->config.ageing_ms = world_chance(w, 50) ? 500 : 1000000;
    w->config.queue_max = 10 + world_below(w, 60);
    w->config.queue_max_user = world_chance(w, 50) ? 5 + world_below(w, 40) : 0;
    w->config.lease_ms = 1000;
    w->config.fence_ms = 300;
    w->config.drain_ms = 200;
    w->config.margin_ms = 50;
    w->config.resend_ms = 100;
    w->config.backoff_min_ms = 20;
    w->config.backoff_max_ms = 300;
    w->config.keep_finished_ms = world_chance(w, 50) ? 5000 : 1000000;
    w->config.clock_steady_ms = 1000;
    w->config.keep_finished_max = 5 + world_below(w, 100);
    for (int n = 0; n < WORLD_NODES; n++)
        machine_init(w, n);
    store_rebuild_cluster(w);
}

static bool run_seed(struct world *w, uint64_t seed, uint64_t events, bool verbose)
{
    w->events_wanted = events;
    world_init(w, seed, verbose);
    for (uint64_t i = 0; i < events && !w->broken; i++)
        one_event(w);
    int round = 0;
    if (!w->broken)
        calm_down(w);
    while (!w->broken && !all_ended(w) && round < CALM_ROUNDS_MAX)
        calm_round(w, round++);
    bool good = !w->broken;
    machine_done(w);
    store_drop_pending(w);
    store_done(w);
    network_done(w);
    cluster_free(w->cluster);
    w->cluster = NULL;
    if (verbose)
        printf("seed %llu: %llu workloads, %llu lives of control, %d calm rounds\n",
               (unsigned long long)seed, (unsigned long long)w->last_id,
               (unsigned long long)w->cluster_lives, round);
    return good && !w->broken;
}

static bool parse_range(const char *text, uint64_t *ret_first, uint64_t *ret_last)
{
    char *end;
    *ret_first = strtoull(text, &end, 10);
    *ret_last = *ret_first;
    if (strncmp(end, "..", 2) == 0)
        *ret_last = strtoull(end + 2, &end, 10);
    return *end == '\0' && *ret_first <= *ret_last;
}

int main(int argc, char **argv)
{
    uint64_t first = 1, last = 100, events = 1000;
    bool verbose = false, usage = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc)
            usage = !parse_range(argv[++i], &first, &last) || usage;
        else if (strcmp(argv[i], "--events") == 0 && i + 1 < argc)
            events = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--verbose") == 0)
            verbose = true;
        else
            usage = true;
    }
    if (usage) {
        fprintf(stderr, "usage: cluster_torture [--seeds A..B] [--events N] [--verbose]\n");
        return 2;
    }
    const char *offset_text = getenv("GPUMUX_SEED");
    uint64_t offset = offset_text ? strtoull(offset_text, NULL, 10) : 0;
    struct world *w = calloc(1, sizeof *w);
    bool good = w != NULL;
    if (w)
        cluster_actions_init(&w->actions);
    for (uint64_t seed = first; good && seed <= last; seed++)
        good = run_seed(w, seed + offset, events, verbose);
    if (w)
        cluster_actions_done(&w->actions);
    free(w);
    if (good)
        printf("%llu seeds of %llu events: nothing lost, nothing twice\n",
               (unsigned long long)(last - first + 1), (unsigned long long)events);
    return good ? 0 : 1;
}
