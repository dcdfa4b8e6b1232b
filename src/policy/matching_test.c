/* Matchings, compared with all matchings of small problems and with the proven bounds of large
 * ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/rng.h"
#include "policy/matching.h"

enum { SMALL_MAX = 7 };

/* Returns the best total of rows [row, rows) with the columns not in `taken`. */
static double best_of_all(const double *weights, size_t rows, size_t columns, size_t row,
                          unsigned taken)
{
    if (row == rows)
        return 0;
    double best = best_of_all(weights, rows, columns, row + 1, taken);
    for (size_t j = 0; j < columns; j++) {
        double weight = weights[row * columns + j];
        if (weight <= 0 || (taken & 1u << j) != 0)
            continue;
        best = fmax(best, weight + best_of_all(weights, rows, columns, row + 1, taken | 1u << j));
    }
    return best;
}

/* Checks that columns are unique and edges positive; returns the total. */
static double checked_total(const double *weights, size_t rows, size_t columns,
                            const uint32_t *matched)
{
    bool *taken = calloc(columns + 1, sizeof *taken);
    double total = 0;
    assert_non_null(taken);
    for (size_t i = 0; i < rows; i++) {
        if (matched[i] == MATCHING_NONE)
            continue;
        assert_true(matched[i] < columns && !taken[matched[i]]);
        taken[matched[i]] = true;
        assert_true(weights[i * columns + matched[i]] > 0);
        total += weights[i * columns + matched[i]];
    }
    free(taken);
    return total;
}

/* kind 0: any number; 1: few distinct numbers; 2: few edges. */
static double draw_weight(struct rng *r, int kind)
{
    if (kind == 0)
        return 2 * rng_double(r) - 0.5;
    if (kind == 1)
        return (double)rng_below(r, 4) - 1;
    return rng_below(r, 4) == 0 ? rng_double(r) : 0;
}

struct sparse_problem {
    struct matching_graph graph;
    size_t *first;
    struct matching_edge *edges;
};

static struct sparse_problem sparse_of(const double *weights, size_t rows, size_t columns)
{
    struct sparse_problem p = {.first = malloc((rows + 1) * sizeof *p.first),
                               .edges = malloc((rows * columns + 1) * sizeof *p.edges)};
    size_t count = 0;
    assert_non_null(p.first);
    assert_non_null(p.edges);
    for (size_t i = 0; i < rows; i++) {
        p.first[i] = count;
        for (size_t j = 0; j < columns; j++)
            if (weights[i * columns + j] > 0)
                p.edges[count++] =
                    (struct matching_edge){(uint32_t)j, (float)weights[i * columns + j]};
    }
    p.first[rows] = count;
    p.graph = (struct matching_graph){rows, columns, p.first, p.edges};
    return p;
}

static void sparse_done(struct sparse_problem *p)
{
    free(p->first);
    free(p->edges);
}

static void small_matching_equals_exhaustive_search(void **state)
{
    (void)state;
    struct rng r;
    rng_seed(&r, 11);
    for (int run = 0; run < 1500; run++) {
        double weights[SMALL_MAX * SMALL_MAX], total;
        uint32_t matched[SMALL_MAX];
        size_t rows = rng_below(&r, SMALL_MAX + 1), columns = rng_below(&r, SMALL_MAX + 1);
        for (size_t i = 0; i < rows * columns; i++)
            weights[i] = draw_weight(&r, run % 3);
        double best = best_of_all(weights, rows, columns, 0, 0);
        assert_int_equal(matching_dense(weights, rows, columns, matched, &total), 0);
        assert_true(fabs(checked_total(weights, rows, columns, matched) - total) < 1e-9);
        assert_true(fabs(total - best) < 1e-9);

        struct sparse_problem p = sparse_of(weights, rows, columns);
        struct matching_result result;
        assert_int_equal(matching_sparse(&p.graph, 0.001, matched, NULL, &result), 0);
        assert_true(fabs(checked_total(weights, rows, columns, matched) - result.total) < 1e-5);
        assert_true(result.bound >= best - 1e-5 && result.total >= best * 0.999 - 1e-5);
        sparse_done(&p);
    }
}

/* Compares the two algorithms, one of which proves a bound. */
static void dense_and_sparse_matching_agree(void **state)
{
    (void)state;
    static const size_t sizes[][2] = {{120, 120}, {150, 90}, {80, 160}};
    struct rng r;
    rng_seed(&r, 12);
    for (int run = 0; run < 9; run++) {
        size_t rows = sizes[run % 3][0], columns = sizes[run % 3][1];
        double *weights = malloc(rows * columns * sizeof *weights), *prices, total, bound = 0;
        uint32_t *matched = malloc(rows * sizeof *matched);
        prices = malloc(columns * sizeof *prices);
        assert_true(weights && matched && prices);
        for (size_t i = 0; i < rows * columns; i++)
            weights[i] = draw_weight(&r, run / 3);
        assert_int_equal(matching_dense(weights, rows, columns, matched, &total), 0);
        assert_true(fabs(checked_total(weights, rows, columns, matched) - total) < 1e-9);
        struct sparse_problem p = sparse_of(weights, rows, columns);
        struct matching_result result;
        assert_int_equal(matching_sparse(&p.graph, 0.01, matched, prices, &result), 0);
        assert_true(fabs(checked_total(weights, rows, columns, matched) - result.total) < 1e-3);
        assert_true(result.bound - result.total <= 0.01 * result.bound);
        assert_true(total >= result.total - 1e-3 && total <= result.bound + 1e-3);
        for (size_t j = 0; j < columns; j++) { /* the bound follows from the prices */
            assert_true(prices[j] >= 0);
            bound += prices[j];
        }
        for (size_t i = 0; i < rows; i++) {
            double worth = 0;
            for (size_t j = 0; j < columns; j++)
                worth = fmax(worth, weights[i * columns + j] - prices[j]);
            bound += worth;
        }
        assert_true(fabs(bound - result.bound) < 1e-3);
        sparse_done(&p);
        free(weights);
        free(prices);
        free(matched);
    }
}

static void contested_columns_are_all_matched(void **state)
{
    (void)state;
    enum { ROWS = 3000, COLUMNS = 40, EDGES = 20 };
    struct rng r;
    size_t *first = malloc((ROWS + 1) * sizeof *first), count = 0;
    struct matching_edge *edges = malloc((size_t)ROWS * EDGES * sizeof *edges);
    uint32_t *matched = malloc(ROWS * sizeof *matched);
    struct matching_result result;
    assert_true(first && edges && matched);
    rng_seed(&r, 13);
    for (size_t i = 0; i <= ROWS; i++)
        first[i] = i * EDGES;
    for (size_t k = 0; k < (size_t)ROWS * EDGES; k++)
        edges[k] = (struct matching_edge){(uint32_t)rng_below(&r, COLUMNS), 1};
    struct matching_graph graph = {ROWS, COLUMNS, first, edges};
    assert_int_equal(matching_sparse(&graph, 0.01, matched, NULL, &result), 0);
    for (size_t i = 0; i < ROWS; i++)
        count += matched[i] != MATCHING_NONE;
    assert_int_equal(count, COLUMNS);
    assert_true(fabs(result.total - COLUMNS) < 1e-6 && result.bound <= COLUMNS * 1.0102);
    free(first);
    free(edges);
    free(matched);
}

static void matching_invalid_input_is_refused(void **state)
{
    (void)state;
    uint32_t matched[2] = {7, 7};
    double total = 5;
    size_t first[] = {0, 1, 2}, falling[] = {0, 2, 1};
    struct matching_edge edges[] = {{0, 1}, {1, INFINITY}};
    struct matching_graph graph = {2, 2, first, edges};
    struct matching_result result = {.total = 5};
    assert_int_equal(matching_dense(NULL, MATCHING_DENSE_MAX + 1, 1, matched, &total),
                     -ERR_TOO_LARGE);
    assert_int_equal(matching_sparse(&graph, 0.01, matched, NULL, &result), -ERR_INVALID);
    edges[1] = (struct matching_edge){2, 1};
    assert_int_equal(matching_sparse(&graph, 0.01, matched, NULL, &result), -ERR_INVALID);
    edges[1].column = 1;
    assert_int_equal(matching_sparse(&graph, 0, matched, NULL, &result), -ERR_INVALID);
    graph.first_edges = falling;
    assert_int_equal(matching_sparse(&graph, 0.01, matched, NULL, &result), -ERR_INVALID);
    graph.rows = MATCHING_SPARSE_MAX + 1;
    assert_int_equal(matching_sparse(&graph, 0.01, matched, NULL, &result), -ERR_TOO_LARGE);
    assert_true(matched[0] == 7 && total == 5 && result.total == 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_matching_equals_exhaustive_search),
        cmocka_unit_test(dense_and_sparse_matching_agree),
        cmocka_unit_test(contested_columns_are_all_matched),
        cmocka_unit_test(matching_invalid_input_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
