#include "sim/serving.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "wire/csv.h"

const uint32_t serving_batches[SERVING_BATCHES] = {1, 2, 4, 8, 16};

/* Largest usable fraction of a batch size's capacity. */
static const double busy_most = 0.95;
/* Time that a task's outstanding work delays a request, as far as the window allows. */
static const double window_ms = 0.25;
/* Slowdown of a batch beside gated or squeezed tasks, by caches, DRAM and launches. */
static const double beside_slower = 1.05;
/* Cost of the gate, which closes and opens around every batch. */
static const double gate_cost = 1.1;
/* Fraction of the SLO for which a share is chosen. */
static const double slo_part = 0.8;

static int read_profile(struct error *e, const struct csv *c, const struct tables *t,
                        struct serving_profile *p)
{
    const struct {
        const char *name;
        double most, scale;
        double *to;
    } numbers[] = {
        {"base_ms", 1e5, 1, &p->base_ms},
        {"request_ms", 1e5, 1, &p->request_ms},
        {"width", 1, 1, &p->width},
        {"dram", 1, 1, &p->dram},
        {"memory_mib", 1e6, 0x1p20, &p->memory_bytes},
        {"rate_per_s", 1e6, 1, &p->rate_per_s},
        {"slo_ms", 1e6, 1, &p->slo_ms},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int column = csv_column_required(e, c, numbers[i].name);
        int r =
            column < 0 ? column : csv_number(e, c, column, 1e-6, numbers[i].most, numbers[i].to);
        if (r < 0)
            return r;
        *numbers[i].to *= numbers[i].scale;
    }
    char like[TABLES_NAME_MAX];
    int name = csv_column_required(e, c, "service"), model = csv_column_required(e, c, "like");
    if (name < 0 || model < 0)
        return -ERR_SYNTAX;
    int r = csv_text(e, c, name, p->name, sizeof p->name);
    if (r == 0)
        r = csv_text(e, c, model, like, sizeof like);
    if (r < 0)
        return r;
    int found = tables_find(t, like);
    if (found < 0)
        return error_set(e, ERR_SYNTAX, "line %u: the model '%s' was not measured", c->line, like);
    p->like = (size_t)found;
    return 0;
}

static int load_profiles(struct error *e, const struct tables *t, const char *text, size_t length,
                         struct serving *s)
{
    struct csv c;
    int r = csv_open(e, text, length, &c);
    while (r == 0 && (r = csv_next(e, &c)) == 1) {
        if (s->profile_count == SERVING_PROFILES_MAX)
            return error_set(e, ERR_TOO_LARGE, "more than %d services", SERVING_PROFILES_MAX);
        r = read_profile(e, &c, t, &s->profiles[s->profile_count++]);
    }
    return r;
}

static int load_rates(struct error *e, const char *text, size_t length, struct serving *s)
{
    static const char *const names[SERVING_SHAPES] = {"large", "middle", "small"};
    struct csv c;
    int r = csv_open(e, text, length, &c);
    while (r == 0 && (r = csv_next(e, &c)) == 1) {
        r = 0;
        if (s->step_count == SERVING_STEPS_MAX)
            return error_set(e, ERR_TOO_LARGE, "more than %d rates", SERVING_STEPS_MAX);
        for (size_t i = 0; r == 0 && i < SERVING_SHAPES; i++) {
            int column = csv_column_required(e, &c, names[i]);
            r = column < 0 ? column
                           : csv_number(e, &c, column, 0, 1e6, &s->shapes[i][s->step_count]);
        }
        s->step_count++;
    }
    return r;
}

int serving_load(struct error *e, const struct tables *t, const char *profiles,
                 size_t profiles_length, const char *rates, size_t rates_length,
                 struct serving *ret_serving)
{
    memset(ret_serving, 0, sizeof *ret_serving);
    int r = load_profiles(e, t, profiles, profiles_length, ret_serving);
    if (r == 0)
        r = load_rates(e, rates, rates_length, ret_serving);
    if (r == 0 && (ret_serving->profile_count == 0 || ret_serving->step_count == 0))
        r = error_set(e, ERR_INVALID, "the tables have no service, or no rate");
    return r;
}

double serving_rate(const struct serving *s, size_t profile, uint64_t instance, double time_s)
{
    uint64_t lot = hash_u64(instance + 1);
    size_t step = (size_t)(time_s / SERVING_STEP_S) + lot % s->step_count;
    return s->profiles[profile].rate_per_s *
           s->shapes[(lot >> 32) % SERVING_SHAPES][step % s->step_count];
}

/* Returns the ratio of the p99 sojourn to the time of a batch, for this load. */
static double queueing(size_t batch_index, double busy)
{
    static const double table[SERVING_BATCHES][3] = {
        {2.9, 4.3, 7.4}, {2.4, 3.1, 4.6}, {2, 2.4, 3.1}, {2, 2, 2.4}, {2, 2, 2.1}};
    const double *q = table[batch_index];
    if (busy <= 0.3)
        return q[0];
    if (busy <= 0.5)
        return q[0] + (q[1] - q[0]) * (busy - 0.3) / 0.2;
    if (busy <= 0.7)
        return q[1] + (q[2] - q[1]) * (busy - 0.5) / 0.2;
    return q[2] * 0.3 / (1 - busy);
}

static double batch_ms(const struct serving_profile *p, uint32_t batch, double share, double slower)
{
    return (p->base_ms + batch * p->request_ms) * fmax(1, p->width / share) * slower;
}

struct serving_state serving_at(const struct serving_profile *p, double rate_per_s, double share,
                                double slower, double held_ms)
{
    struct serving_state best = {
        .batch = serving_batches[0], .p99_ms = INFINITY, .busy = 1, .late = 1};
    double rate_per_ms = fmax(rate_per_s, 1e-3) / 1000;
    for (size_t i = 0; i < SERVING_BATCHES; i++) {
        double ms = batch_ms(p, serving_batches[i], share, slower) + held_ms;
        double busy = rate_per_ms * ms / serving_batches[i];
        if (busy > busy_most)
            continue;
        double fill_ms = fmin((serving_batches[i] - 1) / rate_per_ms, p->slo_ms / 4);
        double p99_ms = queueing(i, busy) * ms + fill_ms;
        if (p99_ms < best.p99_ms)
            best =
                (struct serving_state){.batch = serving_batches[i], .p99_ms = p99_ms, .busy = busy};
    }
    best.late = isfinite(best.p99_ms) ? fmin(1, pow(0.01, p->slo_ms / best.p99_ms)) : 1;
    return best;
}

double serving_share(const struct serving_profile *p, double rate_per_s, double slower, double part)
{
    for (int percent = 5; percent <= 100; percent += 5)
        if (serving_at(p, rate_per_s, percent / 100.0, slower, 0).p99_ms <= part * p->slo_ms)
            return percent / 100.0;
    return 2;
}

void serving_curve(const struct serving_profile *p, uint32_t batch, double slower,
                   struct pwl_curve *ret_curve)
{
    struct pwl_sample samples[6];
    static const double shares[6] = {10, 20, 30, 50, 70, 100};
    for (size_t i = 0; i < 6; i++)
        samples[i] = (struct pwl_sample){.share_percent = shares[i],
                                         .latency = batch_ms(p, batch, shares[i] / 100, slower)};
    if (pwl_fit(samples, 6, ret_curve) < 0)
        *ret_curve = (struct pwl_curve){.knee_share = 50, .knee_latency = samples[5].latency};
}

double serving_squeeze(const struct table_size *task, double available)
{
    double width = task->busy > 0 ? task->sm / task->busy : 0;
    double stretched = task->busy * fmax(1, width / fmax(available, 0.01)) + 1 - task->busy;
    return fmax(1, stretched);
}

/* Returns the slowdown of a batch by unrestricted tasks. */
static double contended(const struct truth *t, const struct hardware_gpu *gpu,
                        const struct serving_profile *p, const struct truth_resident *tasks,
                        size_t task_count, double throttle)
{
    struct truth_resident all[TRUTH_RESIDENTS_MAX];
    double slowdowns[TRUTH_RESIDENTS_MAX];
    const struct table_model *like = &truth_tables(t)->models[p->like];
    all[0] = (struct truth_resident){.model = p->like, .batch = like->sizes[0].batch, .speed = 1};
    for (size_t i = 0; i < task_count; i++) {
        all[i + 1] = tasks[i];
        all[i + 1].speed *= throttle;
    }
    truth_slowdowns(t, gpu, all, task_count + 1, slowdowns);
    return slowdowns[0];
}

double serving_beside(const struct truth *t, const struct hardware_gpu *gpu,
                      const struct truth_resident *tasks, size_t task_count)
{
    double dram = 0;
    for (size_t i = 0; i < task_count; i++)
        dram += truth_alone(t, gpu, tasks[i].model, tasks[i].batch).dram * tasks[i].speed;
    return beside_slower + 0.5 * fmin(1, dram);
}

struct serving_device serving_divide(const struct truth *t, const struct hardware_gpu *gpu,
                                     const struct serving_profile *p, double rate_per_s,
                                     enum serving_mode mode, const struct truth_resident *tasks,
                                     size_t task_count, double throttle, double crowd)
{
    struct serving_device d = {.mode = mode, .share = 1, .available = 1};
    double crowded = 1 / (1 - fmin(crowd, 0.9));
    if (task_count == 0) {
        d.state = serving_at(p, rate_per_s, 1, crowded, 0);
        return d;
    }
    if (mode == SERVING_TOGETHER) {
        d.state = serving_at(p, rate_per_s, 1,
                             crowded * contended(t, gpu, p, tasks, task_count, throttle), 0);
        d.available = throttle * (1 - p->width * d.state.busy);
    } else if (mode == SERVING_TIME) {
        d.state = serving_at(p, rate_per_s, 1, crowded * beside_slower, window_ms * throttle);
        d.available = throttle * fmax(0, 1 - gate_cost * d.state.busy);
    } else {
        double slower = crowded * serving_beside(t, gpu, tasks, task_count);
        d.share = fmin(0.95, serving_share(p, rate_per_s, slower, slo_part));
        d.state = serving_at(p, rate_per_s, d.share, slower, 0);
        d.available = 1 - d.share;
    }
    return d;
}

/* Returns the mean speed of the tasks, without their effect on each other. */
static double speed_left(const struct truth *t, const struct hardware_gpu *gpu,
                         const struct serving_device *d, const struct truth_resident *tasks,
                         size_t task_count)
{
    double sum = 0;
    if (d->mode != SERVING_SPACE)
        return d->available;
    for (size_t i = 0; i < task_count; i++) {
        struct table_size alone = truth_alone(t, gpu, tasks[i].model, tasks[i].batch);
        sum += 1 / serving_squeeze(&alone, d->available);
    }
    return sum / (double)task_count;
}

struct serving_device serving_choose(const struct truth *t, const struct hardware_gpu *gpu,
                                     const struct serving_profile *p, double rate_per_s,
                                     const struct serving_ways *ways,
                                     const struct truth_resident *tasks, size_t task_count,
                                     double throttle, double crowd)
{
    struct serving_device best =
        serving_divide(t, gpu, p, rate_per_s, SERVING_TOGETHER, tasks, task_count, throttle, crowd);
    bool has_best = !ways->time && !ways->space;
    if (task_count == 0)
        return best;
    for (enum serving_mode mode = SERVING_TIME; mode <= SERVING_SPACE; mode++) {
        if (mode == SERVING_TIME ? !ways->time : !ways->space)
            continue;
        struct serving_device d =
            serving_divide(t, gpu, p, rate_per_s, mode, tasks, task_count, throttle, crowd);
        double most_ms = slo_part * p->slo_ms + 1e-9;
        bool keeps = d.state.p99_ms <= most_ms, best_keeps = best.state.p99_ms <= most_ms;
        bool is_better = keeps && best_keeps ? speed_left(t, gpu, &d, tasks, task_count) >
                                                   speed_left(t, gpu, &best, tasks, task_count)
                                             : d.state.p99_ms < best.state.p99_ms;
        if (!has_best || is_better)
            best = d;
        has_best = true;
    }
    return best;
}
