/* What the parts of the tuner share: the search itself, its candidates, and its saved form. */
#pragma once
#include "learn/gp_field.h"
#include "learn/tuner.h"

enum {
    TUNER_QUASI_RANDOM = 2048,   /* candidates when the whole grid is too large */
    TUNER_CANDIDATES_MAX = 4096, /* with the neighbours of the best ones */
    TUNER_WHOLE_GRID_TASKS = 2,
};

/* One choice of every task. */
struct tuner_point {
    uint8_t choices[TUNER_TASKS_MAX];
};

struct tuner_candidates {
    struct tuner_point *points; /* these two with room for TUNER_CANDIDATES_MAX; owned */
    double *priors;
    struct gp_field *field; /* a place for every point; owned */
    size_t count;
};

struct tuner_measurement {
    struct tuner_point point;
    double log_pd;
    double prior;    /* what was expected there */
    double distrust; /* 0: measured in this search */
};

struct tuner {
    struct tuner_task tasks[TUNER_TASKS_MAX];
    size_t task_count;
    struct tuner_options options;
    struct tuner_prior prior;                               /* log_pd NULL: none */
    double coordinates[TUNER_TASKS_MAX][TUNER_CHOICES_MAX]; /* log2(batch / user's batch) */
    struct tuner_candidates candidates;

    /* First the recalled ones, then one a round. */
    struct tuner_measurement measurements[GP_POINTS_MAX];
    size_t recall_count, round_count;

    struct gp *gp;
    struct gp_kernel kernel;
    double level; /* mean of what this search measured, above the prior */

    struct tuner_point next;
    size_t best; /* index into measurements, once round_count > 0 */
    size_t quiet_count;
    bool done;
};

void tuner_point_coordinates(const struct tuner *t, const struct tuner_point *p, double *ret_x);
/* What the prior says of it; 0 without one. */
double tuner_point_prior(const struct tuner *t, const struct tuner_point *p);
void tuner_point_batches(const struct tuner *t, const struct tuner_point *p, uint32_t *ret_batches);
/* The point with these batch sizes. -ERR_INVALID when one is not offered. */
int tuner_point_of_batches(const struct tuner *t, const uint32_t *batches,
                           struct tuner_point *ret_point);
bool tuner_point_fits(const struct tuner *t, const struct tuner_point *p);

/* tuner_candidates.c. All that fit, or a quasi-random part of them. -ERR_TOO_LARGE when
 * none fits. */
int tuner_candidates_fill(struct tuner *t);
/* Adds the points one step from p in one or two tasks, as long as there is room. */
void tuner_candidates_around(struct tuner *t, const struct tuner_point *p);

/* tuner.c. Takes in what was measured at p, and chooses what is next. Fewer than
 * rounds_max were. */
void tuner_learn_round(struct tuner *t, const struct tuner_point *p, double log_pd);
/* The same for a measurement of an earlier search; fewer than TUNER_RECALLS_MAX were. */
void tuner_learn_recalled(struct tuner *t, const struct tuner_point *p, double log_pd,
                          double distrust);
