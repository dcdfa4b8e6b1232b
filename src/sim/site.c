/* Devices: residents, speeds and batch sizes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "sim/engine_internal.h"

/* Shortest interval whose measurement counts. */
#define OBSERVE_MS 60000
/* Noise of the mean PD that a search round measures: standard deviation of the logarithm. */
#define MEASURE_NOISE 0.05
/* A round changes the batch sizes, settles, and lasts at least this time and this number of
 * iterations. */
#define ROUND_SETTLE_MS  1000
#define ROUND_MS         1000
#define ROUND_ITERATIONS 5

static struct task *task_at(const struct engine *g, const struct site *s, size_t i)
{
    return &g->tasks[s->residents[i].task];
}

static struct task_slot *slot_at(const struct engine *g, const struct site *s, size_t i)
{
    return &task_at(g, s, i)->slots[s->residents[i].slot];
}

static const struct hardware_group *group_of(const struct engine *g, const struct site *s)
{
    return &g->config->hardware->groups[s->group];
}

bool task_is_service(const struct task *t)
{
    return t->service != NULL;
}

/* Ranks of one task need the same batch size, so they keep the user's. */
static bool is_tunable(const struct task *t)
{
    return t->slot_count == 1 && !task_is_service(t);
}

/* Returns the memory booked for a task on each of its devices. */
static uint64_t booking_bytes(const struct engine *g, const struct task *t)
{
    if (task_is_service(t))
        return (uint64_t)t->service->memory_bytes;
    return truth_booking_bytes(g->config->truth, t->item->model, t->batch);
}

static void count_requests(struct engine *g, const struct task *t, double passed_s)
{
    struct result_workload *row = &g->result->workloads[t - g->tasks];
    double requests = t->rate_per_s * passed_s, late = requests * t->serving.late;
    row->requests += requests;
    row->late_requests += late;
    course_count_requests(&g->course, requests, late);
}

void task_advance(struct engine *g, struct task *t)
{
    double passed_s = engine_seconds(g->now_ms - t->advanced_ms);
    t->advanced_ms = g->now_ms;
    if (t->phase != TASK_RUNNING)
        return;
    if (task_is_service(t)) {
        count_requests(g, t, passed_s);
        return;
    }
    t->remaining_s = fmax(0, t->remaining_s - passed_s * t->speed);
    t->running_s += passed_s;
}

void task_reschedule(struct engine *g, struct task *t)
{
    if (t->phase != TASK_RUNNING || task_is_service(t))
        return;
    t->speed = INFINITY;
    for (uint32_t i = 0; i < t->slot_count; i++)
        t->speed = fmin(t->speed, t->slots[i].speed);
    engine_schedule(g, &t->event, g->now_ms + (int64_t)ceil(t->remaining_s / t->speed * 1000));
}

/* Returns the speed of this group's devices relative to the first group's, for the task alone. */
static double group_speed(const struct engine *g, const struct site *s, const struct task *t)
{
    const struct hardware_group *groups = g->config->hardware->groups;
    const struct trace_item *item = t->item;
    if (groups[0].gpu == groups[s->group].gpu)
        return 1;
    return truth_alone(g->config->truth, groups[0].gpu, item->model, item->batch).iter_ms /
           truth_alone(g->config->truth, groups[s->group].gpu, item->model, item->batch).iter_ms;
}

/* Gathers the tasks on a device, without the services. */
static size_t gather_tasks(const struct engine *g, const struct site *s,
                           struct truth_resident *ret_residents, size_t *ret_places)
{
    size_t count = 0;
    for (size_t i = 0; i < s->resident_count; i++) {
        const struct task *t = task_at(g, s, i);
        if (task_is_service(t))
            continue;
        ret_places[count] = i;
        ret_residents[count++] = (struct truth_resident){
            .id = hash_u64(g->config->seed ^ hash_u64(s->residents[i].task + 1)) | 1,
            .model = t->item->model,
            .batch = t->batch,
            .speed = t->phase == TASK_RUNNING ? 1 : 0};
    }
    return count;
}

/* Activity of a device. */
struct doing {
    double sm, dram, memory;
};

/* Returns the fraction of the SMs that other services keep busy. */
static double crowd_of(const struct engine *g, const struct site *s, size_t but)
{
    double crowd = 0;
    for (size_t i = 0; i < s->resident_count; i++) {
        const struct task *t = task_at(g, s, i);
        if (i != but && task_is_service(t) && t->phase == TASK_RUNNING)
            crowd += t->service->width * serving_at(t->service, t->rate_per_s, 1, 1, 0).busy;
    }
    return crowd;
}

/* Serves the services first, and multiplies `slowdowns` of the tasks by the cost. */
static void serve(struct engine *g, struct site *s, const struct truth_resident *tasks,
                  size_t task_count, double *slowdowns, struct doing *doing)
{
    const struct hardware_gpu *gpu = group_of(g, s)->gpu;
    for (size_t i = 0; i < s->resident_count; i++) {
        struct task *t = task_at(g, s, i);
        if (!task_is_service(t))
            continue;
        task_advance(g, t);
        t->rate_per_s =
            serving_rate(g->config->serving, (size_t)(t->service - g->config->serving->profiles),
                         s->residents[i].task ^ g->config->seed << 20, engine_seconds(g->now_ms));
        struct serving_device d =
            serving_choose(g->config->truth, gpu, t->service, t->rate_per_s, &g->ways, tasks,
                           task_count, s->throttle, crowd_of(g, s, i));
        t->serving = d.state;
        slot_at(g, s, i)->pd = 1;
        for (size_t j = 0; j < task_count; j++) {
            struct table_size alone =
                truth_alone(g->config->truth, gpu, tasks[j].model, tasks[j].batch);
            slowdowns[j] *= d.mode == SERVING_SPACE ? serving_squeeze(&alone, d.available)
                                                    : 1 / fmax(d.available, 0.01);
        }
        doing->sm += t->service->width * d.state.busy;
        doing->dram += t->service->dram * d.state.busy;
        doing->memory += t->service->memory_bytes;
    }
}

static void set_doing(struct engine *g, struct site *s, const struct doing *doing)
{
    double sm = fmin(doing->sm, 1), dram = fmin(doing->dram, 1);
    double memory = fmin(1, doing->memory / (double)group_of(g, s)->memory_bytes);
    g->course.now.sm += sm - s->sm;
    g->course.now.dram += dram - s->dram;
    g->course.now.memory += memory - s->memory;
    s->sm = sm;
    s->dram = dram;
    s->memory = memory;
}

/* Updates the speeds of all residents after a change. */
static void refresh(struct engine *g, struct site *s)
{
    const struct hardware_gpu *gpu = group_of(g, s)->gpu;
    const struct truth *truth = g->config->truth;
    struct truth_resident residents[SITE_RESIDENTS_MAX] = {0};
    size_t places[SITE_RESIDENTS_MAX];
    double slowdowns[SITE_RESIDENTS_MAX];
    struct doing doing = {0};
    size_t count = gather_tasks(g, s, residents, places);
    truth_slowdowns(truth, gpu, residents, count, slowdowns);
    if (count < s->resident_count)
        serve(g, s, residents, count, slowdowns, &doing);
    for (size_t i = 0; i < count; i++) {
        struct task *t = task_at(g, s, places[i]);
        struct task_slot *slot = slot_at(g, s, places[i]);
        task_advance(g, t);
        if (slot->pd > 0)
            slot->done_ms += (double)(g->now_ms - s->steady_ms) / slot->pd;
        slot->pd = truth_pd(truth, gpu, t->item->model, t->batch, t->item->batch, slowdowns[i]);
        slot->speed = group_speed(g, s, t) / slot->pd;
        task_reschedule(g, t);
        struct table_size size = truth_alone(truth, gpu, t->item->model, t->batch);
        doing.sm += residents[i].speed * size.sm / slowdowns[i];
        doing.dram += residents[i].speed * size.dram / slowdowns[i];
        doing.memory += (double)booking_bytes(g, t);
    }
    set_doing(g, s, &doing);
    s->steady_ms = g->now_ms;
    if (count > 0 && count < s->resident_count)
        watch_consider(g, s);
}

void site_refresh(struct engine *g, struct site *s)
{
    refresh(g, s);
}

/* Returns the PD over the whole stay of this set of residents, which includes the cost of a search.
 * A task alone is measured without it, because others are compared with that figure. */
static double measured_pd(const struct engine *g, const struct site *s,
                          const struct task_slot *slot)
{
    double now_ms = (double)(g->now_ms - s->steady_ms) / slot->pd;
    if (s->resident_count == 1)
        return slot->pd;
    return (double)(g->now_ms - s->company_ms) / (slot->done_ms + now_ms);
}

/* Lets the belief learn from a set that ran long enough, before its residents change. */
static void observe(struct engine *g, const struct site *s)
{
    uint32_t kinds[SITE_RESIDENTS_MAX];
    double batches[SITE_RESIDENTS_MAX], pds[SITE_RESIDENTS_MAX];
    if (s->resident_count == 0 || g->now_ms - s->company_ms < OBSERVE_MS ||
        (s->resident_count == 1 && s->tuner))
        return;
    for (size_t i = 0; i < s->resident_count; i++) {
        const struct task *t = task_at(g, s, i);
        if (t->phase != TASK_RUNNING || task_is_service(t))
            return; /* the effect of a service is not attributed to neighbours */
        kinds[i] = t->kind;
        batches[i] = t->batch;
        pds[i] = measured_pd(g, s, slot_at(g, s, i));
    }
    if (belief_observe(g->belief, s->group, kinds, s->resident_count, batches, pds) < 0)
        g->failed = -ERR_NO_MEMORY;
    g->observed++;
}

/* ---- batch sizes ---- */

/* Hashes the inputs of a search: the kinds, which of them are tunable, and the device. */
static uint64_t set_hash(const struct engine *g, const struct site *s)
{
    uint64_t hash = hash_u64(s->group + 1);
    for (size_t i = 0; i < s->resident_count; i++)
        hash =
            hash_u64(hash ^ (2 * (uint64_t)task_at(g, s, i)->kind + is_tunable(task_at(g, s, i))));
    return hash;
}

static size_t tunable_count(const struct engine *g, const struct site *s)
{
    size_t count = 0;
    for (size_t i = 0; i < s->resident_count; i++)
        count += is_tunable(task_at(g, s, i));
    return count;
}

/* Applies batch sizes; NULL: the users'. */
static void apply(struct engine *g, struct site *s, const uint32_t *batches)
{
    size_t tunable = 0;
    for (size_t i = 0; i < s->resident_count; i++) {
        struct task *t = task_at(g, s, i);
        if (is_tunable(t)) {
            task_advance(g, t);
            t->batch = batches ? batches[tunable] : t->item->batch;
            tunable++;
        }
    }
    refresh(g, s);
}

static void end_search(struct engine *g, struct site *s)
{
    engine_unschedule(g, &s->event);
    tuner_free(s->tuner);
    s->tuner = NULL;
}

static void schedule_round(struct engine *g, struct site *s)
{
    double iterations_ms = 0;
    for (size_t i = 0; i < s->resident_count; i++) {
        const struct task *t = task_at(g, s, i);
        if (task_is_service(t))
            continue;
        double alone_ms =
            truth_alone(g->config->truth, group_of(g, s)->gpu, t->item->model, t->batch).iter_ms;
        iterations_ms =
            fmax(iterations_ms, ROUND_ITERATIONS * alone_ms * fmax(1, slot_at(g, s, i)->pd));
    }
    engine_schedule(g, &s->event,
                    g->now_ms + ROUND_SETTLE_MS + (int64_t)fmax(ROUND_MS, iterations_ms));
}

static int make_choices(const struct engine *g, const struct task *t, struct tuner_task *ret)
{
    const struct truth *truth = g->config->truth;
    uint32_t user = (uint32_t)t->item->batch;
    const struct tuner_limits limits = {
        .batch_min = user >= 4 ? user / 4 : 1, .batch_max = 4 * user, .batch_step = 1};
    struct memory_model memory = {0};
    /* A memory profile has four sizes. */
    for (double batch = t->item->batch / 2; batch <= 4 * t->item->batch; batch *= 2)
        (void)memory_observe(&memory, (uint32_t)fmax(1, batch),
                             truth_booking_bytes(truth, t->item->model, batch));
    return tuner_task_make(user, &limits, &memory,
                           truth_booking_bytes(truth, t->item->model, t->item->batch), ret);
}

static void begin_search(struct engine *g, struct site *s)
{
    struct tuner_task tasks[TUNER_TASKS_MAX];
    struct tuner_options options = TUNER_OPTIONS_DEFAULT;
    uint32_t batches[TUNER_TASKS_MAX];
    uint64_t fixed_bytes = 0;
    size_t count = 0;
    for (size_t i = 0; i < s->resident_count; i++) {
        const struct task *t = task_at(g, s, i);
        if (!is_tunable(t))
            fixed_bytes += booking_bytes(g, t);
        else if (make_choices(g, t, &tasks[count++]) < 0)
            return;
    }
    uint64_t memory_bytes = group_of(g, s)->memory_bytes;
    options.memory_bytes = memory_bytes > fixed_bytes ? memory_bytes - fixed_bytes : 0;
    /* If not even the users' batch sizes fit with their margins, they are kept. */
    if (tuner_new(NULL, tasks, count, &options, NULL, &s->tuner) < 0)
        return;
    if (!tuner_ask(s->tuner, batches)) {
        end_search(g, s);
        return;
    }
    apply(g, s, batches);
    schedule_round(g, s);
}

static void begin_company(struct engine *g, struct site *s)
{
    s->company_ms = s->steady_ms = g->now_ms;
    for (size_t i = 0; i < s->resident_count; i++)
        slot_at(g, s, i)->done_ms = 0;
}

/* Chooses batch sizes after the residents changed or one of them started. */
static void choose_batches(struct engine *g, struct site *s)
{
    double best[SITE_RESIDENTS_MAX], pds[SITE_RESIDENTS_MAX];
    uint32_t kinds[SITE_RESIDENTS_MAX], batches[SITE_RESIDENTS_MAX];
    size_t tunable = tunable_count(g, s);
    begin_company(g, s);
    if (s->tuner)
        end_search(g, s);
    if (!g->tunes || tunable == 0 || tunable > TUNER_TASKS_MAX) {
        apply(g, s, NULL);
        return;
    }
    for (size_t i = 0; i < s->resident_count; i++) {
        if (task_at(g, s, i)->phase != TASK_RUNNING) {
            apply(g, s, NULL); /* called again when the task has started */
            return;
        }
        kinds[i] = task_at(g, s, i)->kind;
    }
    if (g->is_true && tunable == s->resident_count) {
        belief_best(g->belief, s->group, kinds, s->resident_count, best, pds);
        for (size_t i = 0; i < s->resident_count; i++)
            batches[i] = (uint32_t)best[i];
        apply(g, s, batches);
        return;
    }
    const struct tuned *known = hash_map_get(&g->tuned, set_hash(g, s));
    apply(g, s, known ? known->batches : NULL);
    if (!known)
        begin_search(g, s);
}

static double draw_normal(struct rng *rng)
{
    double u = 1 - rng_double(rng), v = rng_double(rng);
    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

void site_tune(struct engine *g, struct site *s)
{
    double sum = 0, count = 0;
    uint32_t batches[TUNER_TASKS_MAX];
    for (size_t i = 0; i < s->resident_count; i++) {
        if (task_is_service(task_at(g, s, i)))
            continue;
        sum += slot_at(g, s, i)->pd;
        count++;
    }
    double measured = sum / count * exp(MEASURE_NOISE * draw_normal(&g->rng));
    if (tuner_tell(s->tuner, measured) == 0 && tuner_ask(s->tuner, batches)) {
        apply(g, s, batches);
        schedule_round(g, s);
        return;
    }
    struct tuned *found = calloc(1, sizeof *found);
    double pd;
    if (found && tuner_best(s->tuner, found->batches, &pd)) {
        uint64_t hash = set_hash(g, s);
        end_search(g, s);
        apply(g, s, found->batches);
        void *before = hash_map_get(&g->tuned, hash);
        if (hash_map_put(&g->tuned, hash, found) == 0) {
            free(before);
            return;
        }
    }
    free(found);
    g->failed = -ERR_NO_MEMORY;
}

/* ---- residents ---- */

static bool comes_before(const struct engine *g, struct resident a, struct resident b)
{
    const struct task *x = &g->tasks[a.task], *y = &g->tasks[b.task];
    if (x->kind != y->kind)
        return x->kind < y->kind;
    if (is_tunable(x) != is_tunable(y))
        return is_tunable(x);
    return a.task < b.task;
}

void site_add(struct engine *g, uint32_t site, struct resident resident)
{
    struct site *s = &g->sites[site];
    size_t at = s->resident_count;
    observe(g, s);
    while (at > 0 && comes_before(g, resident, s->residents[at - 1])) {
        s->residents[at] = s->residents[at - 1];
        at--;
    }
    s->residents[at] = resident;
    s->resident_count++;
    watch_came(g, s, &g->tasks[resident.task]);
    choose_batches(g, s);
}

void site_remove(struct engine *g, uint32_t site, struct resident resident)
{
    struct site *s = &g->sites[site];
    size_t at = 0;
    observe(g, s);
    while (at < s->resident_count && s->residents[at].task != resident.task)
        at++;
    if (at == s->resident_count)
        return;
    memmove(&s->residents[at], &s->residents[at + 1],
            (s->resident_count - at - 1) * sizeof *s->residents);
    s->resident_count--;
    watch_left(g, s, &g->tasks[resident.task]);
    choose_batches(g, s);
}

void site_began(struct engine *g, uint32_t site)
{
    choose_batches(g, &g->sites[site]);
}

int site_init_all(struct engine *g)
{
    const struct hardware *hardware = g->config->hardware;
    uint32_t site = 0, node = 0;
    g->sites = calloc(hardware->device_count, sizeof *g->sites);
    if (!g->sites)
        return -ERR_NO_MEMORY;
    for (size_t group = 0; group < hardware->group_count; group++)
        for (size_t n = 0; n < hardware->groups[group].node_count; n++, node++)
            for (int d = 0; d < hardware->groups[group].devices_per_node; d++)
                g->sites[site++] = (struct site){.group = (uint16_t)group,
                                                 .node = node,
                                                 .event.kind = ENGINE_TUNE,
                                                 .watch.kind = ENGINE_WATCH,
                                                 .throttle = 1};
    return 0;
}

void site_done_all(struct engine *g)
{
    size_t cursor = 0;
    uint64_t key;
    void *value;
    for (size_t i = 0; g->sites && i < g->config->hardware->device_count; i++) {
        tuner_free(g->sites[i].tuner);
        device_monitor_free(g->sites[i].monitor);
    }
    while (hash_map_next(&g->tuned, &cursor, &key, &value))
        free(value);
    hash_map_done(&g->tuned);
    free(g->sites);
}
