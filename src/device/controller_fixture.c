#include "device/controller_fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double NEVER = 1e300;
static const double LOOK_US = 150000;
static const double REOPEN_US = 20;

static double uniform(struct rng *r, double least, double most)
{
    return least + (most - least) * rng_double(r);
}

static double log_uniform(struct rng *r, double least, double most)
{
    return least * pow(most / least, rng_double(r));
}

static double exponential(struct rng *r, double mean)
{
    return -mean * log(1 - rng_double(r));
}

/* ---- scenarios ---- */

static void draw_device_bound(struct scenario *s, struct rng *r)
{
    double busy = uniform(r, 0.05, 0.6);
    s->name = "bursts";
    s->request_us = log_uniform(r, 500, 10000);
    s->spread = uniform(r, 0, 0.2);
    s->rate = fmin(200, fmax(20, busy * 1e6 / s->request_us));
    s->share = uniform(r, 0.2, 0.7);
    s->task_share = uniform(r, 0.2, 0.9) * (1.2 - s->share);
    s->gap = 0;
}

static void draw_host_bound(struct scenario *s, struct rng *r)
{
    bool is_stream = rng_double(r) < 0.5;
    s->name = is_stream ? "stream" : "host";
    s->request_us = log_uniform(r, 3000, 20000);
    s->spread = uniform(r, 0, 0.15);
    s->rate = is_stream ? 0 : fmin(150, uniform(r, 0.05, 0.7) * 1e6 / s->request_us);
    s->share = uniform(r, 0.85, 0.995);
    s->task_share = uniform(r, 0.85, 0.97);
    s->gap = uniform(r, 0.3, 0.75);
}

void scenario_draw(struct scenario *s, uint64_t seed)
{
    static const double ALLOWED[] = {0.01, 0.01, 0.05};
    struct rng r;
    rng_seed(&r, seed * 7919 + 17);
    *s = (struct scenario){.has_mps = rng_double(&r) < 0.75};
    if (rng_double(&r) < 0.55)
        draw_device_bound(s, &r);
    else
        draw_host_bound(s, &r);
    s->allowed = ALLOWED[rng_below(&r, 3)];
    s->kernel_us = log_uniform(&r, 5, 20000);
    s->wait = s->has_mps ? uniform(&r, 0, 0.4) : uniform(&r, 0.3, 1);
    s->depth_us = log_uniform(&r, 1000, 20000);
    s->bubble_us = log_uniform(&r, 2, 30);
    s->stall_chance = uniform(&r, 0, 0.2) * s->allowed;
    s->stall_us = uniform(&r, 1, 4) * s->request_us;
    s->wobble = uniform(&r, 0, 0.15);
    s->reports = rng_double(&r) < 0.7;
    s->slo_us = -1; /* drawn when the service alone is known */
    if (!s->has_mps) {
        s->share = fmin(s->share, uniform(&r, 0.4, 0.9));
        s->task_share = fmin(s->task_share, 1 - 0.8 * s->share);
    }
}

/* ---- the world ---- */

void world_init(struct world *w, const struct scenario *s, uint64_t seed)
{
    *w = (struct world){.s = *s, .has_tasks = true, .load = 1};
    rng_seed(&w->arrivals, seed * 2 + 1);
    rng_seed(&w->chance, seed * 2 + 2);
    w->limits = (struct controller_limits){.window_us = 20000};
    w->next_arrival_us = s->rate > 0 ? exponential(&w->arrivals, 1e6 / s->rate) : 0;
}

void world_clear(struct world *w)
{
    w->answered = w->late = w->latency_us = w->work_us = w->busy_us = 0;
    memset(w->alone, 0, sizeof w->alone);
    memset(w->beside, 0, sizeof w->beside);
}

static double task_rate(const struct world *w)
{
    return w->limits.rate_permille ? w->limits.rate_permille / 1000.0 : 1;
}

static void begin_request(struct world *w)
{
    bool is_gated = !w->has_tasks || w->gate == WORLD_SHUT;
    double chance = rng_double(&w->chance), part = rng_double(&w->chance);
    w->left_us = w->needs_us[w->head];
    w->begin_us = w->now_us;
    w->is_beside = !is_gated;
    w->wait_us = !is_gated && chance < task_rate(w) ? part * w->s.wait * w->s.kernel_us : 0;
}

static void arrive(struct world *w)
{
    double spread = 1 + w->s.spread * (2 * rng_double(&w->arrivals) - 1);
    double stall = rng_double(&w->arrivals) < w->s.stall_chance ? w->s.stall_us : 0;
    if (w->now_us >= w->load_until_us) {
        w->load = 1 + w->s.wobble * (2 * rng_double(&w->arrivals) - 1);
        w->load_until_us = w->now_us + 1e6;
    }
    w->next_arrival_us =
        w->s.rate > 0 ? w->now_us + exponential(&w->arrivals, 1e6 / (w->s.rate * w->load)) : NEVER;
    if (w->count == WORLD_QUEUE) { /* refused */
        w->answered++;
        w->late++;
        return;
    }
    size_t place = (w->head + w->count++) % WORLD_QUEUE;
    w->arrived_us[place] = w->now_us;
    w->needs_us[place] = w->s.request_us * spread + stall;
    if (w->count == 1)
        begin_request(w);
}

static void finish_request(struct world *w)
{
    double us = w->now_us - w->arrived_us[w->head], burst_us = w->now_us - w->begin_us;
    size_t kind = w->s.gap > 0 ? 8 + (w->needs_us[w->head] > w->s.request_us) : 0;
    struct controller_bursts *b = w->is_beside ? &w->beside[kind] : &w->alone[kind];
    w->answered++;
    w->late += w->s.slo_us > 0 && us > w->s.slo_us;
    w->latency_us += us;
    b->count++;
    b->total_us += (uint64_t)burst_us;
    w->head = (w->head + 1) % WORLD_QUEUE;
    w->count--;
    if (w->count)
        begin_request(w);
    if (w->s.rate <= 0)
        w->next_arrival_us = w->now_us;
}

/* Time at which the gate shuts, by the rule in force. */
static double shut_us(const struct world *w)
{
    const struct controller_limits *l = &w->limits;
    double first = NEVER;
    if (!w->has_tasks)
        return NEVER;
    if (l->is_paused)
        return 0;
    if (!l->has_gate || !w->count)
        return NEVER;
    if (l->rule == CONTROLLER_RULE_BUSY)
        return 0;
    if (!w->s.reports)
        return w->begin_us + l->burst_us;
    for (size_t i = 0; i < w->count; i++) {
        double due_us = w->arrived_us[(w->head + i) % WORLD_QUEUE] + w->s.slo_us;
        first = fmin(first, due_us - l->need_us - l->each_us * (double)i);
    }
    return first;
}

static void move_gate(struct world *w)
{
    bool is_shut = shut_us(w) <= w->now_us;
    if (is_shut && w->gate == WORLD_OPEN) {
        double window_us = fmin(w->limits.window_us, w->s.depth_us);
        w->gate = WORLD_DRAINS;
        w->drain_us = rng_double(&w->chance) * w->s.kernel_us + rng_double(&w->chance) * window_us;
    } else if (is_shut && w->gate == WORLD_DRAINS && w->drain_us <= 1e-6) {
        w->gate = WORLD_SHUT;
    } else if (!is_shut && w->gate != WORLD_OPEN) {
        w->work_us -= fmin(w->work_us, REOPEN_US);
        w->gate = WORLD_OPEN;
    }
}

static double speeds(const struct world *w, double *ret_task)
{
    double window_us = fmax(fmin(w->limits.window_us, w->s.depth_us), w->s.kernel_us);
    double task = w->has_tasks ? task_rate(w) * window_us / (window_us + w->s.bubble_us) : 0;
    bool is_busy = w->count > 0, is_shut = w->gate == WORLD_SHUT;
    *ret_task = is_shut && w->limits.is_paused ? 0
                : is_shut                      ? task * (is_busy ? w->s.gap : 0)
                                               : task * (is_busy ? w->s.task_share : 1);
    if (w->wait_us > 0)
        return 0;
    return is_shut || !w->has_tasks ? 1 : 1 - (1 - w->s.share) * task_rate(w);
}

void world_run(struct world *w, double until_us)
{
    while (w->now_us < until_us) {
        double task, next_us, shut = shut_us(w), service = speeds(w, &task);
        next_us = fmin(until_us, w->next_arrival_us);
        if (w->count && w->wait_us > 0)
            next_us = fmin(next_us, w->now_us + w->wait_us);
        else if (w->count)
            next_us = fmin(next_us, w->now_us + w->left_us / service);
        if (w->gate == WORLD_DRAINS)
            next_us = fmin(next_us, w->now_us + w->drain_us);
        else if (w->gate == WORLD_OPEN)
            next_us = fmin(next_us, fmax(shut, w->now_us));
        double passed_us = next_us - w->now_us;
        w->now_us = next_us;
        w->work_us += task * passed_us;
        w->drain_us = fmax(0, w->drain_us - passed_us);
        if (w->count) {
            w->busy_us += passed_us;
            w->left_us -= service * passed_us;
            w->wait_us = w->wait_us - passed_us > 1e-6 ? w->wait_us - passed_us : 0;
            w->is_beside = w->is_beside || task > 0;
        }
        if (w->count && w->left_us <= 1e-6)
            finish_request(w);
        if (w->next_arrival_us <= w->now_us)
            arrive(w);
        move_gate(w);
    }
}

struct controller_solo world_solo(const struct scenario *s, uint64_t seed)
{
    struct controller_solo solo = {.service = 1};
    struct world w;
    (void)seed;
    world_init(&w, s, 4711);
    w.has_tasks = false;
    world_run(&w, 30e6);
    for (int k = 0; k < CONTROLLER_KINDS; k++) {
        solo.bursts[k] = (double)w.alone[k].count;
        solo.bursts_us[k] =
            w.alone[k].count ? (double)w.alone[k].total_us / (double)w.alone[k].count : 0;
    }
    solo.requests = w.answered;
    solo.request_us = w.busy_us / w.answered;
    solo.busy_fraction = w.busy_us / 30e6;
    solo.latency_us = w.latency_us / w.answered;
    return solo;
}

struct outcome run_fixed(const struct scenario *s, uint64_t seed, int setting,
                         const struct controller_solo *solo, double settle_s, double run_s)
{
    struct world w;
    double target = s->slo_us > 0 ? s->slo_us / solo->latency_us : 1.1;
    struct controller_facts facts = {
        s->reports, controller_stretch_allowed(fmax(1, target), fmin(0.94, solo->busy_fraction)),
        s->slo_us, s->kernel_us};
    world_init(&w, s, seed);
    w.limits = controller_limits_of(setting, solo, &facts);
    world_run(&w, settle_s * 1e6);
    world_clear(&w);
    world_run(&w, (settle_s + run_s) * 1e6);
    return (struct outcome){.late = w.late / fmax(1, w.answered),
                            .latency = w.latency_us / fmax(1, w.answered),
                            .speed = w.work_us / (run_s * 1e6),
                            .requests = w.answered,
                            .setting = setting};
}

/* ---- the loop ---- */

void loop_init(struct loop *l, const struct scenario *s, uint64_t seed,
               struct controller_memory *memory)
{
    memset(l, 0, sizeof *l);
    world_init(&l->w, s, seed);
    controller_init(&l->c, memory);
    rng_seed(&l->noise, seed * 3 + 5);
    l->neighbours = 7;
}

void loop_clear(struct loop *l)
{
    l->changes = l->paused_looks = l->looks = 0;
    l->answered = l->late = l->latency_us = l->work_us = 0;
}

static void look(struct loop *l)
{
    struct world *w = &l->w;
    struct controller_look k = {.now_ms = l->now_ms,
                                .service = 3,
                                .neighbours = l->neighbours,
                                .slo_us = w->s.slo_us > 0 ? w->s.slo_us : 0,
                                .percentile = 100 * (1 - w->s.allowed),
                                .has_mps = w->s.has_mps,
                                .reports_requests = w->s.reports,
                                .has_requests = w->s.reports,
                                .answered = w->s.reports ? (uint64_t)w->answered : 0,
                                .late = w->s.reports ? (uint64_t)w->late : 0,
                                .busy_fraction = w->busy_us / LOOK_US,
                                .work =
                                    w->work_us / 1000 * (1 + 0.05 * (rng_double(&l->noise) - 0.5)),
                                .kernel_us = w->s.kernel_us};
    memcpy(k.alone, w->alone, sizeof k.alone);
    memcpy(k.beside, w->beside, sizeof k.beside);
    controller_look(&l->c, &k, &l->answer);
    if (l->is_traced && l->answer.is_changed)
        printf("%7.2f s: %s\n", (double)l->now_ms / 1000, l->answer.why);
    l->changes += l->answer.is_changed;
    l->paused_looks += l->answer.limits.is_paused;
    l->looks++;
    l->answered += w->answered;
    l->late += w->late;
    l->latency_us += w->latency_us;
    l->work_us += w->work_us;
    world_clear(w);
    w->limits = l->answer.limits;
    w->has_tasks = l->neighbours != 0 && !l->tasks_rest;
}

void loop_run(struct loop *l, double seconds)
{
    double until_us = l->w.now_us + seconds * 1e6;
    while (l->w.now_us < until_us - 1) {
        l->now_ms += (int64_t)(LOOK_US / 1000);
        world_run(&l->w, l->w.now_us + LOOK_US);
        look(l);
    }
}

struct outcome loop_outcome(const struct loop *l)
{
    struct outcome o = {.late = l->late / fmax(1, l->answered),
                        .latency = l->latency_us / fmax(1, l->answered),
                        .speed = l->work_us / (l->looks * LOOK_US),
                        .requests = l->answered,
                        .changes_per_minute = l->changes / (l->looks * LOOK_US / 60e6),
                        .paused = (double)l->paused_looks / l->looks,
                        .setting = l->answer.setting,
                        .is_unreachable = l->answer.is_unreachable,
                        .gives_up = l->answer.gives_up};
    (void)snprintf(o.why, sizeof o.why, "%s", l->answer.why);
    return o;
}
