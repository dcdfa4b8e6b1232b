/*
 * matching_bench dense FILE ROWS COLUMNS TIMES: finds the best matching of the doubles in FILE;
 * prints its total and the least CPU time of TIMES runs. matching_bench sparse KIND ROWS COLUMNS
 * SEED: finds a matching with 64 edges a row.
 *
 * KIND is uniform (any weight to any column), classes (weights by class of task and of device, and
 * age: the 32 best and 32 random columns, as in the rounds of matching), same (all rows prefer the
 * same tenth of the columns), or equal (every weight is 1, and all rows want the same tenth).
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "policy/matching.h"

enum { EDGES = 64, BEST = 32, TASK_CLASSES = 60, DEVICE_CLASSES = 200 };

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Of this program only; getrusage() would include the parent. */
static long resident_max_kb(void)
{
    char line[256];
    long kb = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        (void)sscanf(line, "VmHWM: %ld kB", &kb);
    if (file)
        fclose(file);
    return kb;
}

static void *must(void *memory)
{
    if (!memory) {
        fprintf(stderr, "matching_bench: out of memory\n");
        exit(1);
    }
    return memory;
}

static int bench_dense(const char *path, size_t rows, size_t columns, size_t times)
{
    double *weights = must(malloc(rows * columns * sizeof *weights)), total = 0, least = INFINITY;
    uint32_t *matched = must(malloc(rows * sizeof *matched));
    FILE *file = fopen(path, "r");
    if (!file || fread(weights, sizeof *weights, rows * columns, file) != rows * columns) {
        fprintf(stderr, "matching_bench: cannot read %s\n", path);
        return 1;
    }
    fclose(file);
    for (size_t i = 0; i < times; i++) {
        double before = cpu_ms();
        if (matching_dense(weights, rows, columns, matched, &total) < 0)
            return 1;
        least = fmin(least, cpu_ms() - before);
    }
    printf("total=%.17g ms=%.3f\n", total, least);
    free(weights);
    free(matched);
    return 0;
}

struct liking {
    float speeds[TASK_CLASSES][DEVICE_CLASSES];
    uint32_t ranked[TASK_CLASSES][DEVICE_CLASSES]; /* device classes, best first */
};

static void rank_classes(struct liking *l, struct rng *r)
{
    for (size_t t = 0; t < TASK_CLASSES; t++)
        for (size_t d = 0; d < DEVICE_CLASSES; d++) {
            l->speeds[t][d] = (float)rng_double(r);
            size_t at = d;
            for (; at > 0 && l->speeds[t][l->ranked[t][at - 1]] < l->speeds[t][d]; at--)
                l->ranked[t][at] = l->ranked[t][at - 1];
            l->ranked[t][at] = (uint32_t)d;
        }
}

/* The class of a device is its number modulo DEVICE_CLASSES. */
static uint32_t device_of(struct rng *r, uint32_t class, size_t columns)
{
    return class + DEVICE_CLASSES * (uint32_t)rng_below(r, columns / DEVICE_CLASSES);
}

static void make_row(const char *kind, const struct liking *l, struct rng *r, size_t columns,
                     struct matching_edge *edges)
{
    size_t class = rng_below(r, TASK_CLASSES);
    float age = 0.2F * (float)rng_double(r);
    for (size_t k = 0; k < EDGES; k++) {
        uint32_t any = (uint32_t)rng_below(r, columns), few = any / 10;
        bool best = k < BEST;
        if (strcmp(kind, "uniform") == 0)
            edges[k] = (struct matching_edge){any, (float)rng_double(r)};
        else if (strcmp(kind, "equal") == 0)
            edges[k] = (struct matching_edge){few, 1};
        else if (strcmp(kind, "same") == 0)
            edges[k] = (struct matching_edge){best ? few : any,
                                              (best || any < columns / 10 ? 0.8F : 0.2F) + age};
        else {
            uint32_t column = best ? device_of(r, l->ranked[class][k / 4], columns) : any;
            edges[k] =
                (struct matching_edge){column, l->speeds[class][column % DEVICE_CLASSES] + age};
        }
    }
}

static int bench_sparse(const char *kind, size_t rows, size_t columns, uint64_t seed)
{
    struct rng r;
    static struct liking liking;
    size_t *first = must(malloc((rows + 1) * sizeof *first));
    struct matching_edge *edges = must(malloc(rows * EDGES * sizeof *edges));
    uint32_t *matched = must(malloc(rows * sizeof *matched));
    rng_seed(&r, seed);
    rank_classes(&liking, &r);
    for (size_t i = 0; i < rows; i++) {
        first[i] = i * EDGES;
        make_row(kind, &liking, &r, columns, edges + i * EDGES);
    }
    first[rows] = rows * EDGES;
    struct matching_graph graph = {rows, columns, first, edges};
    struct matching_result result;
    double before = cpu_ms();
    if (matching_sparse(&graph, 0.01, matched, NULL, &result) < 0)
        return 1;
    double ms = cpu_ms() - before;
    size_t count = 0;
    for (size_t i = 0; i < rows; i++)
        count += matched[i] != MATCHING_NONE;
    printf("cpu_ms=%.1f gap=%.5f matched=%zu total=%.1f resident_kb=%ld\n", ms,
           1 - result.total / result.bound, count, result.total, resident_max_kb());
    free(first);
    free(edges);
    free(matched);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    size_t rows = strtoul(argv[3], NULL, 10), columns = strtoul(argv[4], NULL, 10);
    if (strcmp(argv[1], "dense") == 0)
        return bench_dense(argv[2], rows, columns, strtoul(argv[5], NULL, 10));
    return bench_sparse(argv[2], rows, columns, strtoull(argv[5], NULL, 10));
}
