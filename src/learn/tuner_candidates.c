/* Candidate points of the tuner. */
#include "learn/tuner_internal.h"

#include <math.h>
#include <string.h>

void tuner_point_coordinates(const struct tuner *t, const struct tuner_point *p, double *ret_x)
{
    for (size_t i = 0; i < t->task_count; i++)
        ret_x[i] = t->coordinates[i][p->choices[i]];
}

double tuner_point_prior(const struct tuner *t, const struct tuner_point *p)
{
    uint32_t batches[TUNER_TASKS_MAX];
    if (!t->prior.log_pd)
        return 0;
    tuner_point_batches(t, p, batches);
    double value = t->prior.log_pd(t->prior.context, batches);
    return isfinite(value) ? value : 0;
}

void tuner_point_batches(const struct tuner *t, const struct tuner_point *p, uint32_t *ret_batches)
{
    for (size_t i = 0; i < t->task_count; i++)
        ret_batches[i] = t->tasks[i].choices[p->choices[i]].batch;
}

int tuner_point_of_batches(const struct tuner *t, const uint32_t *batches,
                           struct tuner_point *ret_point)
{
    struct tuner_point p = {0};
    for (size_t i = 0; i < t->task_count; i++) {
        size_t choice = 0;
        while (choice < t->tasks[i].choice_count && t->tasks[i].choices[choice].batch != batches[i])
            choice++;
        if (choice == t->tasks[i].choice_count)
            return -ERR_INVALID;
        p.choices[i] = (uint8_t)choice;
    }
    *ret_point = p;
    return 0;
}

bool tuner_point_fits(const struct tuner *t, const struct tuner_point *p)
{
    uint64_t left = t->options.memory_bytes;
    for (size_t i = 0; i < t->task_count; i++) {
        uint64_t bytes = t->tasks[i].choices[p->choices[i]].memory_bytes;
        if (bytes > left)
            return false;
        left -= bytes;
    }
    return true;
}

static void append(struct tuner *t, const struct tuner_point *p)
{
    struct tuner_candidates *c = &t->candidates;
    double x[TUNER_TASKS_MAX];
    tuner_point_coordinates(t, p, x);
    gp_field_add(c->field, x);
    c->priors[c->count] = tuner_point_prior(t, p);
    c->points[c->count++] = *p;
}

/* Adds the point if it fits and is not a candidate yet. */
static void add(struct tuner *t, const struct tuner_point *p)
{
    const struct tuner_candidates *c = &t->candidates;
    if (c->count == TUNER_CANDIDATES_MAX || !tuner_point_fits(t, p))
        return;
    for (size_t i = 0; i < c->count; i++)
        if (memcmp(&c->points[i], p, sizeof *p) == 0)
            return;
    append(t, p);
}

static void fill_whole(struct tuner *t)
{
    struct tuner_point p = {0};
    size_t at = 0;
    while (at < t->task_count) {
        if (tuner_point_fits(t, &p))
            append(t, &p);
        for (at = 0; at < t->task_count; at++) {
            if (++p.choices[at] < t->tasks[at].choice_count)
                break;
            p.choices[at] = 0;
        }
    }
}

/* Adds evenly spread points: multiples of the powers of 1/g, where g is the root of g^(tasks + 1) =
 * g + 1 (a generalized golden ratio). */
static void fill_quasi_random(struct tuner *t)
{
    double g = 2;
    for (int i = 0; i < 64; i++)
        g = pow(1 + g, 1 / ((double)t->task_count + 1));
    for (size_t n = 1; n <= TUNER_QUASI_RANDOM; n++) {
        struct tuner_point p = {0};
        double stride = 1;
        for (size_t i = 0; i < t->task_count; i++) {
            stride /= g;
            double at = 0.5 + stride * (double)n;
            p.choices[i] = (uint8_t)((at - floor(at)) * (double)t->tasks[i].choice_count);
        }
        add(t, &p);
    }
}

/* Returns the point closest to the users' batches. */
static struct tuner_point users_point(const struct tuner *t)
{
    struct tuner_point p = {0};
    for (size_t i = 0; i < t->task_count; i++)
        for (size_t c = 1; c < t->tasks[i].choice_count; c++)
            if (fabs(t->coordinates[i][c]) < fabs(t->coordinates[i][p.choices[i]]))
                p.choices[i] = (uint8_t)c;
    return p;
}

int tuner_candidates_fill(struct tuner *t)
{
    static const struct tuner_point smallest = {0};
    struct tuner_point first = users_point(t);
    if (t->task_count <= TUNER_WHOLE_GRID_TASKS) {
        fill_whole(t);
    } else {
        add(t, &first);
        add(t, &smallest);
        fill_quasi_random(t);
    }
    if (t->candidates.count == 0)
        return -ERR_TOO_LARGE;
    t->next = tuner_point_fits(t, &first) ? first : t->candidates.points[0];
    return 0;
}

void tuner_candidates_around(struct tuner *t, const struct tuner_point *p)
{
    if (t->task_count <= TUNER_WHOLE_GRID_TASKS)
        return;
    size_t ways = 3 * t->task_count; /* for each task: stay, down, up */
    for (size_t a = 0; a < ways; a++)
        for (size_t b = a; b < ways; b++) {
            struct tuner_point near = *p;
            size_t moved[2] = {a, b};
            bool legal = true;
            for (size_t i = 0; i < 2; i++) {
                const struct tuner_task *task = &t->tasks[moved[i] / 3];
                int to = near.choices[moved[i] / 3] + (int)(moved[i] % 3) - 1;
                legal &= to >= 0 && (size_t)to < task->choice_count;
                if (legal)
                    near.choices[moved[i] / 3] = (uint8_t)to;
            }
            if (legal)
                add(t, &near);
        }
}
