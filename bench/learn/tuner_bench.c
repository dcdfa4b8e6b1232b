/*
 * tuner_bench DATA TASKS FIRST_SEED SEEDS: searches on surfaces interpolated from the tables in
 * DATA, with 5 % noise on each measurement, beside a random search of the same surface.
 *
 * Prints the median round from which on the tuner's choice stayed within 3 % of the best point,
 * without noise, and the median round in which the random search first had such a point, whether or
 * not it left the point again (1000000: never in more than half of the searches). Prints for the
 * tuner also the final regret, the number of rounds, and the CPU time of a whole search.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "bench/learn/surfaces.h"

enum { SEEDS_MAX = 1000, RANDOM_ROUNDS_MAX = 400, NEVER = 1000000 };
static const double noise = 0.05, regret_max = 0.03;

static double normal(struct rng *r)
{
    double u = 1 - rng_double(r), v = rng_double(r);
    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double regret(const struct surface *s, const uint32_t *batches)
{
    return expm1(surface_log_pd(s, batches) - s->log_pd_best);
}

struct outcome {
    double rounds_needed, random_needed, rounds, regret, cpu_ms;
};

static void run_tuner(const struct surface *s, struct rng *r, struct outcome *ret)
{
    struct tuner_options options = TUNER_OPTIONS_DEFAULT;
    struct tuner *t;
    uint32_t batches[TUNER_TASKS_MAX];
    double cpu = cpu_ms(), outside = 0, unused;
    if (tuner_new(NULL, s->tasks, s->task_count, &options, NULL, &t) < 0)
        exit(1);
    ret->rounds_needed = NEVER;
    while (tuner_ask(t, batches)) {
        double before = cpu_ms();
        double log_pd = surface_log_pd(s, batches) + noise * normal(r);
        outside += cpu_ms() - before;
        (void)tuner_tell(t, exp(log_pd));
        before = cpu_ms();
        (void)tuner_best(t, batches, &unused);
        ret->regret = regret(s, batches);
        double round = (double)tuner_rounds(t);
        if (ret->regret > regret_max)
            ret->rounds_needed = NEVER;
        else if (ret->rounds_needed >= NEVER)
            ret->rounds_needed = round;
        outside += cpu_ms() - before;
    }
    ret->rounds = (double)tuner_rounds(t);
    tuner_free(t);
    ret->cpu_ms = cpu_ms() - cpu - outside;
}

/* Draws points at random; the choice is the point with the best measurement. */
static void run_random(const struct surface *s, struct rng *r, struct outcome *ret)
{
    double least = INFINITY;
    ret->random_needed = NEVER;
    double here = INFINITY;
    for (size_t round = 1; round <= RANDOM_ROUNDS_MAX; round++) {
        uint32_t batches[TUNER_TASKS_MAX];
        for (size_t i = 0; i < s->task_count; i++)
            batches[i] = s->tasks[i].choices[rng_below(r, s->tasks[i].choice_count)].batch;
        double log_pd = surface_log_pd(s, batches) + noise * normal(r);
        if (log_pd < least) {
            least = log_pd;
            here = regret(s, batches);
        }
        if (here <= regret_max)
            ret->random_needed = fmin(ret->random_needed, (double)round);
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(const struct outcome *outcomes, size_t count, size_t offset, double q)
{
    double values[SEEDS_MAX];
    for (size_t i = 0; i < count; i++)
        memcpy(&values[i], (const char *)&outcomes[i] + offset, sizeof values[i]);
    qsort(values, count, sizeof *values, compare);
    return values[(size_t)ceil(q * (double)count) - 1];
}
#define QUANTILE(field, q) quantile(outcomes, seeds, offsetof(struct outcome, field), q)

int main(int argc, char **argv)
{
    static struct replay_tables tables;
    static struct outcome outcomes[SEEDS_MAX];
    struct error e = {0};
    if (argc != 5)
        return 2;
    size_t tasks = strtoul(argv[2], NULL, 10), seeds = strtoul(argv[4], NULL, 10);
    uint64_t first = strtoull(argv[3], NULL, 10);
    if (tasks < 1 || tasks > SURFACE_TASKS_MAX || seeds < 1 || seeds > SEEDS_MAX)
        return 2;
    if (replay_tables_load(&e, argv[1], true, &tables) < 0) {
        fprintf(stderr, "tuner_bench: %s\n", e.text);
        return 1;
    }
    for (size_t i = 0; i < seeds; i++) {
        struct surface surface;
        struct rng r;
        surface_draw(&tables, tasks, first + i, &surface);
        rng_seed(&r, ~(first + i));
        run_tuner(&surface, &r, &outcomes[i]);
        run_random(&surface, &r, &outcomes[i]);
    }
    printf(
        "rounds_needed=%.0f rounds_needed_p90=%.0f random_needed=%.0f regret=%.4f regret_p90=%.4f "
        "rounds=%.0f cpu_ms=%.2f cpu_ms_max=%.2f\n",
        QUANTILE(rounds_needed, 0.5), QUANTILE(rounds_needed, 0.9), QUANTILE(random_needed, 0.5),
        QUANTILE(regret, 0.5), QUANTILE(regret, 0.9), QUANTILE(rounds, 0.5), QUANTILE(cpu_ms, 0.5),
        QUANTILE(cpu_ms, 1));
    return 0;
}
