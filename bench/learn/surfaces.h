/*
 * Mean PD over the joint batch sizes of tasks on one device, interpolated from the measured tables
 * (bench/replay_tables.h), with gradient noise scales drawn by seed:
 *
 * - iteration time and SM activity of a task alone: linear between its measured batch sizes, over
 *   the logarithms of batch and time;
 * - slowdown by a neighbour: measured at two joint batch sizes of every pair; at others its
 *   logarithm is linear in the two tasks' summed SM activity;
 * - several neighbours: their slowdowns add up;
 * - φ / user's batch: log-uniform from 1 to 100. Trainings in the public tables of Pollux nearly
 *   always have 12 and more, for which the largest batch size wins. Smaller values put the optimum
 *   inside.
 */
#pragma once
#include "bench/replay_tables.h"
#include "learn/tuner.h"

enum { SURFACE_TASKS_MAX = 4 };

struct surface {
    const struct replay_tables *tables; /* borrowed */
    size_t task_count;
    struct tuner_task tasks[SURFACE_TASKS_MAX];
    const char *models[SURFACE_TASKS_MAX];
    double noise_scales[SURFACE_TASKS_MAX];
    double log_pd_best; /* least of all points */
};

void surface_draw(const struct replay_tables *tables, size_t task_count, uint64_t seed,
                  struct surface *ret_surface);
/* Returns the log of the mean PD, without noise. */
double surface_log_pd(const struct surface *s, const uint32_t *batches);
