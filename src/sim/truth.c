#include "sim/truth.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/hash.h"

enum { FOLDS = 9 };

/* Lower limit of a pair's slowdown, because a task that is faster beside a neighbour is noise of
 * the measurement. */
static const double slowdown_least = 0.85;
/* Range of a measurement's influence in octaves of batch size, and the weight of the model. */
static const double reach_octaves = 1, model_weight = 0.05;

/* A measurement of one task beside another, compared with the model. */
struct residual {
    double batch_log, neighbour_batch_log;
    double log_ratio; /* ratio of the measured to the modelled slowdown */
};

struct truth {
    struct tables tables;
    struct pressure pressure;
    double noise;
    uint64_t seed;
    /* Residuals of (task's model, neighbour's model): [firsts[i], firsts[i + 1]) with i = task ·
     * models + neighbour. */
    struct residual *residuals;
    size_t firsts[TABLES_MODELS_MAX * TABLES_MODELS_MAX + 1];
};

const struct tables *truth_tables(const struct truth *t)
{
    return &t->tables;
}

double truth_noise(const struct truth *t)
{
    return t->noise;
}

static struct pressure_task reference_task(const struct tables *t, size_t model, double batch)
{
    struct table_size size = tables_at(&t->models[model], batch);
    return pressure_task_of(model, &size);
}

static size_t cell_of(const struct truth *t, size_t model, size_t neighbour)
{
    return model * t->tables.model_count + neighbour;
}

/* Groups the residuals by ordered pair of models. */
static void place_residuals(struct truth *t)
{
    size_t cells = t->tables.model_count * t->tables.model_count;
    size_t counts[TABLES_MODELS_MAX * TABLES_MODELS_MAX] = {0};
    for (size_t i = 0; i < t->tables.pair_count; i++)
        for (int k = 0; k < 2; k++)
            counts[cell_of(t, t->tables.pairs[i].models[k], t->tables.pairs[i].models[1 - k])]++;
    for (size_t i = 0; i < cells; i++) {
        t->firsts[i + 1] = t->firsts[i] + counts[i];
        counts[i] = 0;
    }
    for (size_t i = 0; i < t->tables.pair_count; i++) {
        const struct table_pair *p = &t->tables.pairs[i];
        for (int k = 0; k < 2; k++) {
            size_t cell = cell_of(t, p->models[k], p->models[1 - k]);
            struct pressure_task a = reference_task(&t->tables, p->models[k], p->batches[k]);
            struct pressure_task b =
                reference_task(&t->tables, p->models[1 - k], p->batches[1 - k]);
            double modelled = 1 + pressure_delay(&t->pressure, &a, &b);
            t->residuals[t->firsts[cell] + counts[cell]++] = (struct residual){
                .batch_log = log2(p->batches[k]),
                .neighbour_batch_log = log2(p->batches[1 - k]),
                .log_ratio = log(fmax(1 / p->kept[k], slowdown_least) / modelled),
            };
        }
    }
}

int truth_new(struct error *e, struct tables *tables, double noise, uint64_t seed,
              struct truth **ret_truth)
{
    struct truth *t = calloc(1, sizeof *t);
    if (!t) {
        tables_done(tables);
        return error_set(e, ERR_NO_MEMORY, "no memory for the truth");
    }
    t->tables = *tables;
    *tables = (struct tables){0};
    t->noise = noise;
    t->seed = seed;
    t->residuals = calloc(2 * t->tables.pair_count + 1, sizeof *t->residuals);
    int r = t->residuals ? pressure_fit(&t->tables, NULL, &t->pressure) : -ERR_NO_MEMORY;
    if (r < 0) {
        truth_free(t);
        return error_set(e, (enum error_code) - r,
                         "the table has no pair to fit the contention model to");
    }
    place_residuals(t);
    *ret_truth = t;
    return 0;
}

void truth_free(struct truth *t)
{
    if (!t)
        return;
    tables_done(&t->tables);
    free(t->residuals);
    free(t);
}

struct table_size truth_alone(const struct truth *t, const struct hardware_gpu *gpu, size_t model,
                              double batch)
{
    const struct hardware_gpu *measured = hardware_gpu_at(0);
    struct table_size size = tables_at(&t->tables.models[model], batch);
    if (gpu->is_measured)
        return size;
    double weight = size.sm + size.dram > 0 ? size.dram / (size.sm + size.dram) : 0;
    double slower = (1 - weight) * measured->sm_count / gpu->sm_count +
                    weight * measured->bandwidth_gb_s / gpu->bandwidth_gb_s;
    double host_ms = size.iter_ms * (1 - size.busy), busy_ms = size.iter_ms * size.busy * slower;
    /* The host's launches are hidden behind longer kernels. */
    double iter_ms = fmax(size.iter_ms, busy_ms + (slower > 1 ? 0 : host_ms));
    double longer = iter_ms / size.iter_ms;
    size.iter_ms = iter_ms;
    size.busy = fmin(1, busy_ms / iter_ms);
    size.sm = fmin(size.busy, size.sm * measured->sm_count / gpu->sm_count / longer);
    size.occupancy = fmin(size.sm, size.occupancy * measured->sm_count / gpu->sm_count / longer);
    size.dram =
        fmin(size.busy, size.dram * measured->bandwidth_gb_s / gpu->bandwidth_gb_s / longer);
    return size;
}

/* Returns the correction of the modelled slowdown's logarithm from measurements nearby. */
static double correction(const struct truth *t, const struct truth_resident *task,
                         const struct truth_resident *neighbour)
{
    size_t cell = cell_of(t, task->model, neighbour->model);
    double batch_log = log2(task->batch), neighbour_log = log2(neighbour->batch);
    double sum = 0, weights = 0;
    for (size_t i = t->firsts[cell]; i < t->firsts[cell + 1]; i++) {
        const struct residual *r = &t->residuals[i];
        double x = (batch_log - r->batch_log) / reach_octaves;
        double y = (neighbour_log - r->neighbour_batch_log) / reach_octaves;
        double apart = x * x + y * y;
        /* An exact match outweighs all other measurements. */
        double weight = exp(-apart) / (apart + 1e-9);
        sum += weight * r->log_ratio;
        weights += weight;
    }
    return sum / (weights + model_weight);
}

/* Returns a standard normal number that depends on these three numbers only. */
static double normal_of(uint64_t seed, uint64_t a, uint64_t b)
{
    uint64_t x = hash_u64(seed ^ hash_u64(a + hash_u64(b)));
    uint64_t y = hash_u64(x);
    double u = ((double)(x >> 11) + 1) * 0x1p-53, v = (double)(y >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

void truth_slowdowns(const struct truth *t, const struct hardware_gpu *gpu,
                     const struct truth_resident *residents, size_t count, double *ret_slowdowns)
{
    struct pressure_task tasks[TRUTH_RESIDENTS_MAX];
    assert(count <= TRUTH_RESIDENTS_MAX);
    for (size_t i = 0; i < count; i++) {
        struct table_size size = truth_alone(t, gpu, residents[i].model, residents[i].batch);
        tasks[i] = pressure_task_of(residents[i].model, &size);
    }
    for (size_t i = 0; i < count; i++) {
        ret_slowdowns[i] = 1;
        for (size_t j = 0; j < count; j++) {
            if (j == i)
                continue;
            double pair = 1 + pressure_delay(&t->pressure, &tasks[i], &tasks[j]);
            if (gpu->is_measured)
                pair *= exp(correction(t, &residents[i], &residents[j]));
            if (t->noise > 0 && residents[i].id && residents[j].id)
                pair *= exp(t->noise * normal_of(t->seed, residents[i].id, residents[j].id));
            ret_slowdowns[i] += (fmax(pair, slowdown_least) - 1) * residents[j].speed;
        }
        ret_slowdowns[i] = fmax(ret_slowdowns[i], slowdown_least);
    }
}

double truth_pd(const struct truth *t, const struct hardware_gpu *gpu, size_t model, double batch,
                double user_batch, double slowdown)
{
    double scale = t->tables.models[model].noise_scale;
    if (batch == user_batch)
        return slowdown;
    double alone_ms = truth_alone(t, gpu, model, batch).iter_ms;
    double user_ms = truth_alone(t, gpu, model, user_batch).iter_ms;
    double throughput_drop = user_batch / user_ms / (batch / alone_ms);
    double efficiency = (scale + user_batch) / (scale + batch);
    return slowdown * throughput_drop / efficiency;
}

uint64_t truth_booking_bytes(const struct truth *t, size_t model, double batch)
{
    static const double margin = 1.1, context_bytes = 600 * 0x1p20;
    return (uint64_t)(tables_at(&t->tables.models[model], batch).memory_bytes * margin +
                      context_bytes);
}

/* ---- validation ---- */

struct fold {
    size_t model_count, number;
};

/* Pairs of the same two models are in the same fold, in any order and at any batch sizes. */
static bool is_in_fold(const void *context, const struct table_pair *pair)
{
    const struct fold *f = context;
    size_t low = pair->models[0] < pair->models[1] ? pair->models[0] : pair->models[1];
    size_t high = pair->models[0] + pair->models[1] - low;
    return (high * (high + 1) / 2 + low) % FOLDS == f->number;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

struct errors {
    double *absolute; /* room for all errors; owned by the caller */
    size_t count;
    double sum, signed_sum;
};

static void compare_pair(const struct tables *tables, const struct pressure *p,
                         const struct table_pair *pair, struct errors *errors)
{
    struct pressure_task tasks[2] = {reference_task(tables, pair->models[0], pair->batches[0]),
                                     reference_task(tables, pair->models[1], pair->batches[1])};
    for (int k = 0; k < 2; k++) {
        double kept = 1 / (1 + pressure_delay(p, &tasks[k], &tasks[1 - k]));
        double off = kept - pair->kept[k];
        errors->absolute[errors->count++] = fabs(off);
        errors->sum += fabs(off);
        errors->signed_sum += off;
    }
}

static int compare_folds(const struct truth *t, const struct tables *table, struct errors *errors)
{
    for (size_t number = 0; number < FOLDS; number++) {
        struct fold fold = {.model_count = t->tables.model_count, .number = number};
        struct pressure_held_out held_out = {.is = is_in_fold, .context = &fold};
        struct pressure fitted;
        int r = pressure_fit(&t->tables, &held_out, &fitted);
        if (r < 0)
            return r;
        for (size_t i = 0; i < table->pair_count; i++)
            if (is_in_fold(&fold, &table->pairs[i]))
                compare_pair(&t->tables, &fitted, &table->pairs[i], errors);
    }
    return 0;
}

int truth_validate(struct error *e, const struct truth *t, const char *text, size_t length,
                   struct truth_validation *ret)
{
    struct truth_validation v = {0};
    struct tables table = t->tables;
    table.pairs = NULL;
    table.pair_count = table.pair_capacity = 0;
    int r = tables_add_pairs(e, text, length, &table, &v.unknown_rows);
    double *absolute = calloc(2 * table.pair_count + 1, sizeof *absolute);
    struct errors errors = {.absolute = absolute}, fitted = {.absolute = absolute};
    if (r == 0 && table.pair_count == 0)
        r = error_set(e, ERR_INVALID, "no row of the table has two known models");
    if (r == 0 && !absolute)
        r = error_set(e, ERR_NO_MEMORY, "no memory for %zu errors", 2 * table.pair_count);
    for (size_t i = 0; r == 0 && i < table.pair_count; i++)
        compare_pair(&t->tables, &t->pressure, &table.pairs[i], &fitted);
    if (r == 0 && (r = compare_folds(t, &table, &errors)) < 0)
        r = error_set(e, (enum error_code) - r, "cannot fit the model without these pairs");
    if (r == 0) {
        qsort(absolute, errors.count, sizeof *absolute, compare_doubles);
        v.values = errors.count;
        v.error_mean = errors.sum / (double)errors.count;
        v.error_p90 = absolute[(errors.count - 1) * 9 / 10];
        v.error_max = absolute[errors.count - 1];
        v.bias = errors.signed_sum / (double)errors.count;
        v.fitted_error_mean = fitted.sum / (double)fitted.count;
        *ret = v;
    }
    free(absolute);
    tables_done(&table);
    return r;
}
