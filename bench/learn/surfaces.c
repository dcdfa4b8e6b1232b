#include "bench/learn/surfaces.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"

static const double noise_scale_min = 1, noise_scale_max = 100;

struct alone {
    double iter_ms, sm_percent;
};

static double between(double x, double x0, double x1, double y0, double y1)
{
    return y0 + (x - x0) / (x1 - x0) * (y1 - y0);
}

static struct alone alone_at(const struct replay_tables *tables, const char *model, double batch)
{
    const struct replay_solo *below = NULL, *above = NULL;
    for (size_t i = 0; i < tables->solo_count; i++) {
        const struct replay_solo *s = &tables->solo[i];
        if (strcmp(s->model, model) != 0)
            continue;
        if (s->batch <= batch && (!below || s->batch > below->batch))
            below = s;
        if (s->batch >= batch && (!above || s->batch < above->batch))
            above = s;
    }
    assert(below && above);
    if (below == above)
        return (struct alone){below->iter_ms, below->sm_percent};
    double x = log(batch), x0 = log(below->batch), x1 = log(above->batch);
    return (struct alone){exp(between(x, x0, x1, log(below->iter_ms), log(above->iter_ms))),
                          between(x, x0, x1, below->sm_percent, above->sm_percent)};
}

/* Returns the slowdown of `own` beside `other`: Tco / T, at least 1. */
static double slowed(const struct surface *s, size_t own, size_t other, const double *sm_percent)
{
    double sum[2], log_if[2];
    size_t found = 0;
    for (size_t i = 0; i < s->tables->pair_count && found < 2; i++) {
        const struct replay_pair *p = &s->tables->pairs[i];
        for (size_t side = 0; side < 2 && found < 2; side++) {
            if (strcmp(p->models[side], s->models[own]) != 0 ||
                strcmp(p->models[1 - side], s->models[other]) != 0)
                continue;
            sum[found] = alone_at(s->tables, p->models[0], p->batches[0]).sm_percent +
                         alone_at(s->tables, p->models[1], p->batches[1]).sm_percent;
            log_if[found++] = -log(p->kept[side]);
            break;
        }
    }
    assert(found == 2);
    double here = sm_percent[own] + sm_percent[other];
    double slope = fabs(sum[1] - sum[0]) < 5 ? 0 : (log_if[1] - log_if[0]) / (sum[1] - sum[0]);
    double middle = (log_if[0] + log_if[1]) / 2;
    slope = fmax(0, slope); /* more work on the device makes no task faster */
    return exp(fmax(0, middle + slope * (here - (sum[0] + sum[1]) / 2)));
}

double surface_log_pd(const struct surface *s, const uint32_t *batches)
{
    struct alone alone[SURFACE_TASKS_MAX];
    double sm_percent[SURFACE_TASKS_MAX], sum = 0;
    for (size_t i = 0; i < s->task_count; i++) {
        alone[i] = alone_at(s->tables, s->models[i], batches[i]);
        sm_percent[i] = alone[i].sm_percent;
    }
    for (size_t i = 0; i < s->task_count; i++) {
        double interference = 1, user = s->tasks[i].user_batch, phi = s->noise_scales[i];
        for (size_t j = 0; j < s->task_count; j++)
            if (j != i)
                interference += slowed(s, i, j, sm_percent) - 1;
        double efficiency = (phi + user) / (phi + batches[i]);
        double user_ms = alone_at(s->tables, s->models[i], user).iter_ms;
        sum += interference * alone[i].iter_ms / (batches[i] * efficiency) / (user_ms / user);
    }
    return log(sum / (double)s->task_count);
}

/* The first pair with a model has the model's reference batch size. */
static uint32_t reference_batch(const struct replay_tables *tables, const char *model)
{
    for (size_t i = 0; i < tables->pair_count; i++)
        for (size_t side = 0; side < 2; side++)
            if (strcmp(tables->pairs[i].models[side], model) == 0)
                return tables->pairs[i].batches[side];
    return 0;
}

static struct tuner_limits measured_limits(const struct replay_tables *tables, const char *model)
{
    struct tuner_limits limits = {UINT32_MAX, 0, 1};
    for (size_t i = 0; i < tables->solo_count; i++) {
        if (strcmp(tables->solo[i].model, model) != 0)
            continue;
        limits.batch_min =
            tables->solo[i].batch < limits.batch_min ? tables->solo[i].batch : limits.batch_min;
        limits.batch_max =
            tables->solo[i].batch > limits.batch_max ? tables->solo[i].batch : limits.batch_max;
    }
    return limits;
}

static double least_log_pd(const struct surface *s)
{
    size_t at[SURFACE_TASKS_MAX] = {0}, k = 0;
    double least = INFINITY;
    while (k < s->task_count) {
        uint32_t batches[SURFACE_TASKS_MAX];
        for (size_t i = 0; i < s->task_count; i++)
            batches[i] = s->tasks[i].choices[at[i]].batch;
        least = fmin(least, surface_log_pd(s, batches));
        for (k = 0; k < s->task_count; k++) {
            if (++at[k] < s->tasks[k].choice_count)
                break;
            at[k] = 0;
        }
    }
    return least;
}

void surface_draw(const struct replay_tables *tables, size_t task_count, uint64_t seed,
                  struct surface *ret_surface)
{
    struct rng r;
    struct surface *s = ret_surface;
    *s = (struct surface){.tables = tables, .task_count = task_count};
    assert(task_count <= SURFACE_TASKS_MAX);
    rng_seed(&r, seed);
    for (size_t i = 0; i < task_count; i++) {
        const char *model = tables->models[rng_below(&r, tables->model_count)].name;
        struct tuner_limits limits = measured_limits(tables, model);
        struct memory_model memory = {0};
        s->models[i] = model;
        /* Memory is no limit here: the memory model accepts every measured batch size. */
        (void)memory_observe(&memory, limits.batch_max, 1);
        (void)tuner_task_make(reference_batch(tables, model), &limits, &memory, 0, &s->tasks[i]);
        s->noise_scales[i] = s->tasks[i].user_batch * noise_scale_min *
                             pow(noise_scale_max / noise_scale_min, rng_double(&r));
    }
    s->log_pd_best = least_log_pd(s);
}
