/* Shared by the parts of the tuner: the search, its candidates and its saved form. */
#pragma once
#include "learn/gp_field.h"
#include "learn/tuner.h"

enum {
    TUNER_QUASI_RANDOM = 2048,   /* candidates if the whole grid is too large */
    TUNER_CANDIDATES_MAX = 4096, /* including the neighbours of the best points */
    TUNER_WHOLE_GRID_TASKS = 2,
};

/* One choice for every task. */
struct tuner_point {
    uint8_t choices[TUNER_TASKS_MAX];
};

struct tuner_candidates {
    struct tuner_point *points; /* room for TUNER_CANDIDATES_MAX points and priors; owned */
    double *priors;
    struct gp_field *field; /* a place for every point; owned */
    size_t count;
};

struct tuner_measurement {
    struct tuner_point point;
    double log_pd;
    double prior;    /* prior at this point */
    double distrust; /* 0: measured in this search */
};

struct tuner {
    struct tuner_task tasks[TUNER_TASKS_MAX];
    size_t task_count;
    struct tuner_options options;
    struct tuner_prior prior;                               /* log_pd NULL: no prior */
    double coordinates[TUNER_TASKS_MAX][TUNER_CHOICES_MAX]; /* log2(batch / user's batch) */
    struct tuner_candidates candidates;

    /* Recalled measurements first, then one measurement per round. */
    struct tuner_measurement measurements[GP_POINTS_MAX];
    size_t recall_count, round_count;

    struct gp *gp;
    struct gp_kernel kernel;
    double level; /* mean of this search's measurements above the prior */

    struct tuner_point next;
    size_t best; /* index into measurements; valid if round_count > 0 */
    size_t quiet_count;
    bool done;
};

void tuner_point_coordinates(const struct tuner *t, const struct tuner_point *p, double *ret_x);
/* Returns the prior at the point; 0 without a prior. */
double tuner_point_prior(const struct tuner *t, const struct tuner_point *p);
void tuner_point_batches(const struct tuner *t, const struct tuner_point *p, uint32_t *ret_batches);
/* Returns the point with these batch sizes, or -ERR_INVALID if a batch size is not among the
 * choices of its task. */
int tuner_point_of_batches(const struct tuner *t, const uint32_t *batches,
                           struct tuner_point *ret_point);
bool tuner_point_fits(const struct tuner *t, const struct tuner_point *p);

/* tuner_candidates.c. Adds all points that fit, or a quasi-random part of them. Returns
 * -ERR_TOO_LARGE if no point fits. */
int tuner_candidates_fill(struct tuner *t);
/* Adds the points that differ from p by one step in one or two tasks, while there is room. */
void tuner_candidates_around(struct tuner *t, const struct tuner_point *p);

/* tuner.c. Records the measurement at p and chooses the next point. The caller ensures that
 * round_count < rounds_max. */
void tuner_learn_round(struct tuner *t, const struct tuner_point *p, double log_pd);
/* Records a measurement of an earlier search. The caller ensures that recall_count <
 * TUNER_RECALLS_MAX. */
void tuner_learn_recalled(struct tuner *t, const struct tuner_point *p, double log_pd,
                          double distrust);
