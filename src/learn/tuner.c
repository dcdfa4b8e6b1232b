/*
 * Rounds of the search. The inputs of the GP are log2(batch / user's batch); its values are the log
 * of the mean PD minus the prior and minus the mean level of the measurements, so that only the
 * shape remains. The hyper-parameters are refitted only at a few counts and within bounds, because
 * with a handful of noisy points the likelihood can be maximal at absurd parameters.
 */
#include "learn/tuner_internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const size_t learn_at[] = {3, 5, 8, 13, 20};

/* In octaves of batch size and in log PD. */
static const double length_min = 1, length_max = 16, length_start = 4;
static const double deviation_min = 0.03, deviation_max = 2, deviation_start = 0.3;
static const double noise_min = 0.01, noise_max = 0.15, noise_start = 0.05;

static struct gp_kernel make_kernel(double deviation, double length, double noise)
{
    struct gp_kernel k = {.variance = deviation * deviation, .noise = noise * noise};
    for (size_t d = 0; d < GP_DIMENSIONS_MAX; d++)
        k.lengths[d] = length;
    return k;
}

/* Returns the multiple of the step nearest to `wanted` within the limits; 0 if there is none. */
static uint32_t round_batch(double wanted, const struct tuner_limits *limits, uint32_t batch_max)
{
    uint64_t step = limits->batch_step;
    uint64_t least = (limits->batch_min + step - 1) / step * step, most = batch_max / step * step;
    double batch =
        fmin(fmax(round(wanted / (double)step) * (double)step, (double)least), (double)most);
    return least <= most ? (uint32_t)batch : 0;
}

int tuner_task_make(uint32_t user_batch, const struct tuner_limits *limits,
                    const struct memory_model *memory, uint64_t declared_bytes,
                    struct tuner_task *ret_task)
{
    struct tuner_task task = {.user_batch = user_batch};
    bool known = memory && memory->count > 0;
    uint32_t batch_max = known ? memory_batch_max(memory) : user_batch, last = 0;
    if (user_batch == 0 || limits->batch_step == 0 || limits->batch_min == 0)
        return -ERR_INVALID;
    if (batch_max > limits->batch_max)
        batch_max = limits->batch_max;
    for (int quarter = -8; quarter <= 8; quarter++) {
        uint32_t batch = round_batch(user_batch * exp2(quarter / 4.0), limits, batch_max);
        if (quarter == 0)
            batch = user_batch;
        if (batch <= last || (quarter < 0 && batch >= user_batch))
            continue;
        last = batch;
        task.choices[task.choice_count++] = (struct tuner_choice){
            .batch = batch, .memory_bytes = known ? memory_booking(memory, batch) : declared_bytes};
    }
    *ret_task = task;
    return 0;
}

static bool task_is_valid(const struct tuner_task *task)
{
    if (task->user_batch == 0 || task->choice_count == 0 ||
        task->choice_count > TUNER_CHOICES_MAX || task->choices[0].batch == 0)
        return false;
    for (size_t i = 1; i < task->choice_count; i++)
        if (task->choices[i].batch <= task->choices[i - 1].batch)
            return false;
    return true;
}

static bool options_are_valid(const struct tuner_options *o)
{
    return o->rounds_max >= 1 && o->rounds_max <= TUNER_ROUNDS_MAX && o->quiet_rounds >= 1 &&
           o->gain_min > 0 && o->gain_min < 1 && o->exploration >= 0 && isfinite(o->exploration) &&
           o->failure_probability > 0 && o->failure_probability < 1;
}

int tuner_new(struct error *e, const struct tuner_task *tasks, size_t task_count,
              const struct tuner_options *options, const struct tuner_prior *prior,
              struct tuner **ret_tuner)
{
    bool valid = task_count >= 1 && task_count <= TUNER_TASKS_MAX && options_are_valid(options);
    for (size_t i = 0; valid && i < task_count; i++)
        valid = task_is_valid(&tasks[i]);
    if (!valid)
        return error_set(e, ERR_INVALID, "a search needs tasks with ascending batch sizes");
    struct tuner *t = calloc(1, sizeof *t);
    if (!t)
        return error_set(e, ERR_NO_MEMORY, "no memory for a search of batch sizes");
    memcpy(t->tasks, tasks, task_count * sizeof *tasks);
    t->task_count = task_count;
    t->options = *options;
    if (prior)
        t->prior = *prior;
    t->kernel = make_kernel(deviation_start, length_start, noise_start);
    for (size_t i = 0; i < task_count; i++)
        for (size_t c = 0; c < tasks[i].choice_count; c++)
            t->coordinates[i][c] = log2(tasks[i].choices[c].batch / (double)tasks[i].user_batch);
    t->gp = gp_new(task_count);
    t->candidates.points = calloc(TUNER_CANDIDATES_MAX, sizeof *t->candidates.points);
    t->candidates.priors = calloc(TUNER_CANDIDATES_MAX, sizeof *t->candidates.priors);
    t->candidates.field = gp_field_new(task_count, TUNER_CANDIDATES_MAX);
    if (!t->gp || !t->candidates.points || !t->candidates.priors || !t->candidates.field) {
        tuner_free(t);
        return error_set(e, ERR_NO_MEMORY, "no memory for a search of batch sizes");
    }
    if (tuner_candidates_fill(t) < 0) {
        tuner_free(t);
        return error_set(e, ERR_TOO_LARGE, "no batch sizes of these tasks fit on the device");
    }
    *ret_tuner = t;
    return 0;
}

void tuner_free(struct tuner *t)
{
    if (!t)
        return;
    gp_free(t->gp);
    free(t->candidates.points);
    free(t->candidates.priors);
    gp_field_free(t->candidates.field);
    free(t);
}

/* Returns the posterior log PD at a measured point. */
static double posterior_measured(const struct tuner *t, size_t measurement)
{
    const struct tuner_measurement *m = &t->measurements[measurement];
    double x[TUNER_TASKS_MAX], mean, variance;
    tuner_point_coordinates(t, &m->point, x);
    gp_predict(t->gp, x, &mean, &variance);
    return mean + t->level + m->prior;
}

/* Returns the mean of measurements relative to the prior. */
static double level_of(const struct tuner *t, size_t first, size_t count)
{
    double sum = 0;
    for (size_t i = first; i < first + count; i++)
        sum += t->measurements[i].log_pd - t->measurements[i].prior;
    return count > 0 ? sum / (double)count : 0;
}

static bool is_time_to_learn(const struct tuner *t)
{
    for (size_t i = 0; i < sizeof learn_at / sizeof *learn_at; i++)
        if (t->round_count == learn_at[i])
            return true;
    return false;
}

/* Conditions the GP on all measurements. */
static void believe(struct tuner *t)
{
    double recalled_level = level_of(t, 0, t->recall_count);
    t->level = level_of(t, t->recall_count, t->round_count);
    gp_clear(t->gp);
    for (size_t i = 0; i < t->recall_count + t->round_count; i++) {
        const struct tuner_measurement *m = &t->measurements[i];
        double x[TUNER_TASKS_MAX];
        tuner_point_coordinates(t, &m->point, x);
        double level = i < t->recall_count ? recalled_level : t->level;
        (void)gp_add(t->gp, x, m->log_pd - m->prior - level, m->distrust * m->distrust);
    }
    if (is_time_to_learn(t)) {
        const struct gp_kernel starts[] = {t->kernel,
                                           make_kernel(deviation_start, length_start, noise_start)};
        struct gp_search search = {.lower = make_kernel(deviation_min, length_min, noise_min),
                                   .upper = make_kernel(deviation_max, length_max, noise_max),
                                   .starts = starts,
                                   .start_count = 2,
                                   .value_tolerance = 1e-4,
                                   .gradient_tolerance = 1e-3,
                                   .calls_max = 60};
        if (isfinite(gp_learn(t->gp, &search, &t->kernel)))
            return;
        t->kernel = starts[1];
    }
    (void)gp_condition(t->gp, &t->kernel);
}

static void find_best(struct tuner *t)
{
    double least = INFINITY;
    for (size_t i = t->recall_count; i < t->recall_count + t->round_count; i++) {
        double mean = posterior_measured(t, i);
        if (mean < least) {
            least = mean;
            t->best = i;
        }
    }
}

/* Chooses t->next by the lowest confidence bound, and returns that bound. */
static double choose_next(struct tuner *t)
{
    double round = (double)t->round_count + 1, least = INFINITY;
    double beta = t->options.exploration * 2 *
                  log((double)t->candidates.count * round * round * M_PI * M_PI /
                      (6 * t->options.failure_probability));
    double width = sqrt(fmax(beta, 0));
    gp_field_update(t->candidates.field, t->gp);
    for (size_t i = 0; i < t->candidates.count; i++) {
        double mean, variance;
        gp_field_at(t->candidates.field, i, &mean, &variance);
        double bound = mean + t->level + t->candidates.priors[i] - width * sqrt(variance);
        if (bound < least) {
            least = bound;
            t->next = t->candidates.points[i];
        }
    }
    return least;
}

void tuner_learn_round(struct tuner *t, const struct tuner_point *p, double log_pd)
{
    t->measurements[t->recall_count + t->round_count++] =
        (struct tuner_measurement){.point = *p, .log_pd = log_pd, .prior = tuner_point_prior(t, p)};
    believe(t);
    size_t best_before = t->best;
    find_best(t);
    if (t->best != best_before || t->round_count == 1)
        tuner_candidates_around(t, &t->measurements[t->best].point);
    if (t->round_count == t->options.rounds_max) {
        t->done = true;
        return;
    }
    double gain_log = posterior_measured(t, t->best) - choose_next(t);
    bool quiet = gain_log <= -log(1 - t->options.gain_min);
    t->quiet_count = quiet ? t->quiet_count + 1 : 0;
    t->done = t->quiet_count >= t->options.quiet_rounds;
}

void tuner_learn_recalled(struct tuner *t, const struct tuner_point *p, double log_pd,
                          double distrust)
{
    t->measurements[t->recall_count++] = (struct tuner_measurement){
        .point = *p, .log_pd = log_pd, .prior = tuner_point_prior(t, p), .distrust = distrust};
}

int tuner_recall(struct tuner *t, const uint32_t *batches, double mean_pd, double distrust)
{
    struct tuner_point p;
    if (!(mean_pd > 0 && isfinite(mean_pd) && distrust > 0 && isfinite(distrust)) ||
        tuner_point_of_batches(t, batches, &p) < 0)
        return -ERR_INVALID;
    if (t->round_count > 0)
        return -ERR_CONFLICT;
    if (t->recall_count == TUNER_RECALLS_MAX)
        return -ERR_TOO_LARGE;
    tuner_learn_recalled(t, &p, log(mean_pd), distrust);
    return 0;
}

bool tuner_ask(struct tuner *t, uint32_t *ret_batches)
{
    if (t->done)
        return false;
    tuner_point_batches(t, &t->next, ret_batches);
    return true;
}

int tuner_tell(struct tuner *t, double mean_pd)
{
    if (!(mean_pd > 0 && isfinite(mean_pd)))
        return -ERR_INVALID;
    if (t->done)
        return -ERR_CONFLICT;
    struct tuner_point here = t->next;
    tuner_learn_round(t, &here, log(mean_pd));
    return 0;
}

bool tuner_best(const struct tuner *t, uint32_t *ret_batches, double *ret_mean_pd)
{
    if (t->round_count == 0)
        return false;
    tuner_point_batches(t, &t->measurements[t->best].point, ret_batches);
    *ret_mean_pd = exp(posterior_measured(t, t->best));
    return true;
}

size_t tuner_rounds(const struct tuner *t)
{
    return t->round_count;
}
