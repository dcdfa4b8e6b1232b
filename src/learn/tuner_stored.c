/*
 * A search as bytes. Payload, all u64 or double:
 *
 *   task count; of each task: user's batch, choice count, batch and memory bytes of each choice
 *   options, in the order of their declaration
 *   recall count, round count; of each measurement: choice of every task, log PD, distrust
 *
 * All other state is restored by replaying the rounds.
 */
#include <math.h>

#include "learn/stored.h"
#include "learn/tuner_internal.h"

static const char stored_kind[] = "tune";
enum { STORED_VERSION = 1 };

static void put_task(struct str *to, const struct tuner_task *task)
{
    stored_put_u64(to, task->user_batch);
    stored_put_u64(to, task->choice_count);
    for (size_t i = 0; i < task->choice_count; i++) {
        stored_put_u64(to, task->choices[i].batch);
        stored_put_u64(to, task->choices[i].memory_bytes);
    }
}

static void get_task(struct stored_reader *r, struct tuner_task *ret_task)
{
    ret_task->user_batch = (uint32_t)stored_get_size(r, UINT32_MAX);
    ret_task->choice_count = stored_get_size(r, TUNER_CHOICES_MAX);
    for (size_t i = 0; i < ret_task->choice_count; i++) {
        ret_task->choices[i].batch = (uint32_t)stored_get_size(r, UINT32_MAX);
        ret_task->choices[i].memory_bytes = stored_get_u64(r);
    }
}

static void put_options(struct str *to, const struct tuner_options *o)
{
    stored_put_u64(to, o->memory_bytes);
    stored_put_u64(to, o->rounds_max);
    stored_put_u64(to, o->quiet_rounds);
    stored_put_double(to, o->gain_min);
    stored_put_double(to, o->exploration);
    stored_put_double(to, o->failure_probability);
}

static void get_options(struct stored_reader *r, struct tuner_options *ret_options)
{
    ret_options->memory_bytes = stored_get_u64(r);
    ret_options->rounds_max = stored_get_size(r, TUNER_ROUNDS_MAX);
    ret_options->quiet_rounds = stored_get_size(r, SIZE_MAX);
    ret_options->gain_min = stored_get_double(r);
    ret_options->exploration = stored_get_double(r);
    ret_options->failure_probability = stored_get_double(r);
}

void tuner_save(const struct tuner *t, struct str *to)
{
    size_t start = stored_begin(to, stored_kind, STORED_VERSION);
    stored_put_u64(to, t->task_count);
    for (size_t i = 0; i < t->task_count; i++)
        put_task(to, &t->tasks[i]);
    put_options(to, &t->options);
    stored_put_u64(to, t->recall_count);
    stored_put_u64(to, t->round_count);
    for (size_t i = 0; i < t->recall_count + t->round_count; i++) {
        for (size_t k = 0; k < t->task_count; k++)
            stored_put_u64(to, t->measurements[i].point.choices[k]);
        stored_put_double(to, t->measurements[i].log_pd);
        stored_put_double(to, t->measurements[i].distrust);
    }
    stored_end(to, start);
}

static void get_measurements(struct stored_reader *r, const struct tuner *t, size_t recalls,
                             size_t count, struct tuner_measurement *ret_measurements)
{
    for (size_t i = 0; i < count; i++) {
        struct tuner_measurement *m = &ret_measurements[i];
        for (size_t k = 0; k < t->task_count; k++)
            m->point.choices[k] = (uint8_t)stored_get_size(r, t->tasks[k].choice_count - 1);
        m->log_pd = stored_get_double(r);
        m->distrust = stored_get_double(r);
        /* Limits of a valid logarithm, and of the distrust of recalls and rounds. */
        r->failed |= fabs(m->log_pd) > 1000 || !(i < recalls ? m->distrust > 0 : m->distrust == 0);
    }
}

int tuner_load(struct error *e, const void *bytes, size_t length, const struct tuner_prior *prior,
               struct tuner **ret_tuner)
{
    struct stored_reader r;
    uint32_t version;
    struct tuner_task tasks[TUNER_TASKS_MAX] = {0};
    struct tuner_options options;
    struct tuner_measurement measurements[GP_POINTS_MAX] = {0};
    struct tuner *t;
    int rc = stored_open(e, bytes, length, stored_kind, STORED_VERSION, &r, &version);
    if (rc < 0)
        return rc;
    size_t task_count = stored_get_size(&r, TUNER_TASKS_MAX);
    for (size_t i = 0; i < task_count; i++)
        get_task(&r, &tasks[i]);
    get_options(&r, &options);
    rc = tuner_new(e, tasks, task_count, &options, prior, &t);
    if (rc < 0)
        return rc == -ERR_NO_MEMORY
                   ? rc
                   : error_set(e, ERR_CORRUPT, "the saved search has no valid tasks");
    size_t recalls = stored_get_size(&r, TUNER_RECALLS_MAX);
    size_t rounds = stored_get_size(&r, options.rounds_max);
    get_measurements(&r, t, recalls, recalls + rounds, measurements);
    rc = stored_close(e, &r);
    if (rc < 0) {
        tuner_free(t);
        return rc;
    }
    for (size_t i = 0; i < recalls; i++)
        tuner_learn_recalled(t, &measurements[i].point, measurements[i].log_pd,
                             measurements[i].distrust);
    for (size_t i = recalls; i < recalls + rounds; i++)
        tuner_learn_round(t, &measurements[i].point, measurements[i].log_pd);
    *ret_tuner = t;
    return 0;
}
