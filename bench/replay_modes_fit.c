/*
 * replay_modes_fit [SEED [TRIALS]]: searches kernels of a service and a task for which the model
 * reproduces measurements of a real H200 (replay_modes.h), and prints them as
 * data/h200_mode_kernels.csv.
 *
 * Known: the service has some hundred short kernels that take 1.14 ms alone; kernels of the task
 * take from 20 µs to 1 ms. Unknown, and searched: the traits below. Both lists mix wide and narrow
 * kernels, evenly spread, with random lengths from a fixed seed. The search is random at first,
 * then continues around the best point in ever smaller steps. The cost is the sum of squared
 * logarithms of the ratios of model to measurement, plus a penalty for modes in the wrong order.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "bench/replay_modes.h"

enum trait {
    SERVICE_KERNELS,
    SERVICE_WIDE_PART, /* fraction of the kernels */
    SERVICE_WIDE_SM,
    SERVICE_NARROW_SM,
    SERVICE_SPREAD, /* spread of lengths, ± as an exponent of e */
    SERVICE_DRAM,
    TASK_WIDE_PART, /* fraction of the time */
    TASK_NARROW_SM,
    TASK_BLOCK_US,
    TASK_MEAN_US,
    TASK_NARROW_LENGTH, /* length of narrow kernels, relative to wide ones */
    TASK_DRAM,
    TRAIT_COUNT,
};

static const double trait_min[TRAIT_COUNT] = {40, 0, 0.5, 0.05, 0, 0.1, 0.2, 0.02, 2, 40, 0.2, 0.1};
static const double trait_max[TRAIT_COUNT] = {200, 0.9, 1, 0.5, 1, 0.6, 0.9, 0.5, 200, 400, 2, 0.6};

#define SERVICE_NS     1.14e6
#define SEARCH_SECONDS 15
#define FINAL_SECONDS  30
enum { TASK_KERNELS = 120, LIST_SEED = 5, FIRST_PART = 4, TRIALS = 300 };

static bool is_nth(size_t i, double part)
{
    return floor((double)(i + 1) * part) > floor((double)i * part);
}

static void make_service(const double *traits, struct rng *rng, struct mode_kernels *kernels)
{
    double lengths[MODE_KERNELS_MAX], sum = 0;
    kernels->service_count = (size_t)traits[SERVICE_KERNELS];
    for (size_t i = 0; i < kernels->service_count; i++) {
        lengths[i] = exp(traits[SERVICE_SPREAD] * (2 * rng_double(rng) - 1));
        sum += lengths[i];
    }
    for (size_t i = 0; i < kernels->service_count; i++) {
        double sm = is_nth(i, traits[SERVICE_WIDE_PART]) ? traits[SERVICE_WIDE_SM]
                                                         : traits[SERVICE_NARROW_SM];
        kernels->service[i] = (struct replay_kernel){
            .duration_ns = (uint64_t)(SERVICE_NS * lengths[i] / sum),
            .sm_permille = (uint16_t)(1000 * sm),
            .dram_permille = (uint16_t)(1000 * traits[SERVICE_DRAM]),
        };
    }
}

/* Spreads lengths over the logarithm of 20 µs … 1 ms, then scales them. */
static void make_task(const double *traits, struct rng *rng, struct mode_kernels *kernels)
{
    static const double shortest_us = 20, longest_us = 1000;
    double mean_us = (longest_us - shortest_us) / log(longest_us / shortest_us);
    double wide_us = 0, narrow_us = 0, part = traits[TASK_WIDE_PART];
    kernels->task_count = TASK_KERNELS;
    for (size_t i = 0; i < TASK_KERNELS; i++) {
        bool is_wide = wide_us * (1 - part) <= narrow_us * part;
        double us = shortest_us * pow(longest_us / shortest_us, rng_double(rng));
        us *= traits[TASK_MEAN_US] / mean_us * (is_wide ? 1 : traits[TASK_NARROW_LENGTH]);
        us = fmin(longest_us, fmax(shortest_us, us));
        *(is_wide ? &wide_us : &narrow_us) += us;
        kernels->task[i] = (struct replay_kernel){
            .duration_ns = (uint64_t)(us * 1e3),
            .block_ns = (uint32_t)(fmin(us, traits[TASK_BLOCK_US]) * 1e3),
            .sm_permille = (uint16_t)(is_wide ? 1000 : 1000 * traits[TASK_NARROW_SM]),
            .dram_permille = (uint16_t)(1000 * traits[TASK_DRAM]),
        };
    }
}

static void make_kernels(const double *traits, struct mode_kernels *kernels)
{
    struct rng rng;
    rng_seed(&rng, LIST_SEED);
    make_service(traits, &rng, kernels);
    make_task(traits, &rng, kernels);
}

static void run_all(const struct mode_kernels *kernels, double seconds,
                    struct mode_result results[MODE_COUNT])
{
    for (size_t i = 0; i < MODE_COUNT; i++) {
        if (mode_run(&modes[i], kernels, seconds, &results[i]) < 0) {
            fprintf(stderr, "replay_modes_fit: out of memory\n");
            exit(1);
        }
    }
}

/* A large error costs more than its square. */
static double cost_of_ratio(double ratio)
{
    static const double far = 0.22;
    double difference = fabs(log(ratio > 0 ? ratio : 1e-3));
    return difference * difference + (difference > far ? 0.05 + 0.3 * difference : 0);
}

static double cost_of(const struct mode_result results[MODE_COUNT])
{
    static const double margins[] = {0.002, 0.03}; /* for speeds and for p99 */
    double cost = 0;
    size_t pair[2];
    for (size_t i = 0; i < MODE_COUNT; i++) {
        struct mode_ratios ratios = mode_compare(results, i);
        cost += cost_of_ratio(ratios.p99) + cost_of_ratio(ratios.kept);
    }
    for (unsigned by_p99 = 0; by_p99 < 2; by_p99++) {
        if (!mode_is_ranked(results, by_p99, margins[by_p99], pair))
            cost += 0.1;
        if (!mode_is_ranked(results, by_p99, 0, pair))
            cost += 0.2;
    }
    return cost;
}

static void choose_traits(struct rng *rng, const double *best, double reach, double *traits)
{
    for (unsigned j = 0; j < TRAIT_COUNT; j++) {
        double range = trait_max[j] - trait_min[j];
        traits[j] = reach >= 1 ? trait_min[j] + range * rng_double(rng) : best[j];
        if (reach < 1 && rng_double(rng) < 0.35)
            traits[j] += range * reach * (2 * rng_double(rng) - 1);
        traits[j] = fmin(trait_max[j], fmax(trait_min[j], traits[j]));
    }
}

static void search(struct rng *rng, unsigned trials, double best[TRAIT_COUNT])
{
    double best_cost = INFINITY;
    unsigned first = trials / FIRST_PART;
    for (unsigned trial = 0; trial < trials; trial++) {
        double traits[TRAIT_COUNT];
        double reach =
            trial < first ? 1 : 0.3 * pow(0.1, (double)(trial - first) / (double)(trials - first));
        struct mode_kernels kernels;
        struct mode_result results[MODE_COUNT];
        choose_traits(rng, best, reach, traits);
        make_kernels(traits, &kernels);
        run_all(&kernels, SEARCH_SECONDS, results);
        double cost = cost_of(results);
        if (cost < best_cost) {
            best_cost = cost;
            memcpy(best, traits, sizeof(traits));
            fprintf(stderr, "trial %u: cost %.4f\n", trial, cost);
        }
    }
}

static void print_list(const char *name, const struct replay_kernel *kernels, size_t count)
{
    for (size_t i = 0; i < count; i++)
        printf("%s,%.3f,%.3f,%u,%u\n", name, (double)kernels[i].duration_ns / 1e3,
               (double)kernels[i].block_ns / 1e3, kernels[i].sm_permille, kernels[i].dram_permille);
}

int main(int argc, char **argv)
{
    struct rng rng;
    struct mode_kernels kernels;
    struct mode_result results[MODE_COUNT];
    double best[TRAIT_COUNT] = {0};
    rng_seed(&rng, argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    search(&rng, argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : TRIALS, best);
    make_kernels(best, &kernels);
    run_all(&kernels, FINAL_SECONDS, results);
    for (size_t i = 0; i < MODE_COUNT; i++) {
        struct mode_ratios ratios = mode_compare(results, i);
        fprintf(stderr, "%-32s p50 %5.2f ms, p99 %5.2f ms; to measured: p99 %.2f, kept %.2f\n",
                modes[i].name, results[i].p50_ms, results[i].p99_ms, ratios.p99, ratios.kept);
    }
    printf("workload,duration_us,block_us,sm_permille,dram_permille\n");
    print_list("service", kernels.service, kernels.service_count);
    print_list("task", kernels.task, kernels.task_count);
    return 0;
}
