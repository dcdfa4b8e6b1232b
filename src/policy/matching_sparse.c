/*
 * The auction. A free row bids for the column with the largest weight minus price, and raises that
 * price by its advantage over the second best plus ε; the previous owner becomes free. Staying
 * unmatched is always possible and worth 0. Prices start at 0, so a column that is unmatched at the
 * end costs nothing, and the total is at most ε per matched row below the bound.
 *
 * ε is derived from a greedy matching, which reaches at least half of the optimum. Larger steps
 * need fewer bids: the first ε is the one that the gap would allow if the proof were tight, and ε
 * shrinks while the gap is missed.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "policy/matching.h"

enum { ATTEMPTS_MAX = 6 };
static const double epsilon_first = 3, epsilon_shrink = 0.4;

struct auction {
    const struct matching_graph *graph;
    float *prices;
    uint32_t *row_of, *column_of;
    uint32_t *free_rows;
};

static void done(struct auction *a)
{
    free(a->prices);
    free(a->row_of);
    free(a->column_of);
    free(a->free_rows);
}

static int init(struct auction *a, const struct matching_graph *graph)
{
    *a = (struct auction){.graph = graph};
    a->prices = malloc((graph->columns + 1) * sizeof *a->prices);
    a->row_of = malloc((graph->columns + 1) * sizeof *a->row_of);
    a->column_of = malloc((graph->rows + 1) * sizeof *a->column_of);
    a->free_rows = malloc((graph->rows + 1) * sizeof *a->free_rows);
    if (a->prices && a->row_of && a->column_of && a->free_rows)
        return 0;
    done(a);
    return -ERR_NO_MEMORY;
}

static void begin(struct auction *a)
{
    for (size_t j = 0; j < a->graph->columns; j++) {
        a->prices[j] = 0;
        a->row_of[j] = MATCHING_NONE;
    }
    for (size_t i = 0; i < a->graph->rows; i++)
        a->column_of[i] = MATCHING_NONE;
}

/* Lets every row in turn take the best remaining column. Returns the mean weight of the matched
 * rows, or 0 if no row is matched. */
static double greedy_mean(struct auction *a)
{
    const struct matching_graph *g = a->graph;
    double total = 0;
    size_t matched = 0;
    begin(a);
    for (size_t i = 0; i < g->rows; i++) {
        const struct matching_edge *best = NULL;
        for (size_t k = g->first_edges[i]; k < g->first_edges[i + 1]; k++) {
            const struct matching_edge *edge = &g->edges[k];
            if (edge->weight > (best ? best->weight : 0) &&
                a->row_of[edge->column] == MATCHING_NONE)
                best = edge;
        }
        if (!best)
            continue;
        a->row_of[best->column] = (uint32_t)i;
        total += (double)best->weight;
        matched++;
    }
    return matched > 0 ? total / (double)matched : 0;
}

static void run(struct auction *a, float epsilon)
{
    const struct matching_graph *g = a->graph;
    size_t free_count = g->rows;
    begin(a);
    for (size_t i = 0; i < g->rows; i++)
        a->free_rows[i] = (uint32_t)(g->rows - 1 - i);
    while (free_count > 0) {
        uint32_t row = a->free_rows[free_count - 1];
        const struct matching_edge *edge = g->edges + g->first_edges[row];
        const struct matching_edge *end = g->edges + g->first_edges[row + 1];
        float first = 0, second = 0;
        uint32_t column = MATCHING_NONE;
        for (; edge < end; edge++) {
            float worth = edge->weight - a->prices[edge->column];
            if (worth <= second)
                continue;
            if (worth > first) {
                second = first;
                first = worth;
                column = edge->column;
            } else {
                second = worth;
            }
        }
        free_count--;
        a->column_of[row] = column;
        if (column == MATCHING_NONE)
            continue; /* prices only rise, so the row stays unmatched */
        a->prices[column] += first - second + epsilon;
        uint32_t before = a->row_of[column];
        a->row_of[column] = row;
        if (before != MATCHING_NONE) {
            a->column_of[before] = MATCHING_NONE;
            a->free_rows[free_count++] = before;
        }
    }
}

static struct matching_result judge(const struct auction *a)
{
    const struct matching_graph *g = a->graph;
    struct matching_result result = {0};
    for (size_t j = 0; j < g->columns; j++)
        result.bound += (double)a->prices[j];
    for (size_t i = 0; i < g->rows; i++) {
        double worth = 0, got = 0;
        for (size_t k = g->first_edges[i]; k < g->first_edges[i + 1]; k++) {
            const struct matching_edge *edge = &g->edges[k];
            worth = fmax(worth, (double)edge->weight - (double)a->prices[edge->column]);
            if (edge->column == a->column_of[i])
                got = fmax(got, (double)edge->weight);
        }
        result.bound += worth;
        result.total += got;
    }
    return result;
}

static int check(const struct matching_graph *g)
{
    if (g->rows > MATCHING_SPARSE_MAX || g->columns > MATCHING_SPARSE_MAX)
        return -ERR_TOO_LARGE;
    if (g->first_edges[0] != 0)
        return -ERR_INVALID;
    for (size_t i = 0; i < g->rows; i++)
        if (g->first_edges[i + 1] < g->first_edges[i])
            return -ERR_INVALID;
    if (g->first_edges[g->rows] > MATCHING_EDGES_MAX)
        return -ERR_TOO_LARGE;
    for (size_t k = 0; k < g->first_edges[g->rows]; k++)
        if (g->edges[k].column >= g->columns || !isfinite(g->edges[k].weight))
            return -ERR_INVALID;
    return 0;
}

int matching_sparse(const struct matching_graph *graph, double gap_max, uint32_t *ret_columns,
                    double *ret_prices, struct matching_result *ret_result)
{
    struct auction a;
    if (!(gap_max > 0 && gap_max < 1))
        return -ERR_INVALID;
    int rc = check(graph);
    if (rc < 0)
        return rc;
    rc = init(&a, graph);
    if (rc < 0)
        return rc;
    struct matching_result result = {0};
    double epsilon = epsilon_first * gap_max * greedy_mean(&a);
    begin(&a);
    for (int attempt = 0; attempt < ATTEMPTS_MAX && epsilon > 0; attempt++) {
        run(&a, (float)epsilon);
        result = judge(&a);
        if (result.bound - result.total <= gap_max * result.bound)
            break;
        epsilon *= epsilon_shrink;
    }
    memcpy(ret_columns, a.column_of, graph->rows * sizeof *ret_columns);
    for (size_t j = 0; ret_prices && j < graph->columns; j++)
        ret_prices[j] = (double)a.prices[j];
    *ret_result = result;
    done(&a);
    return 0;
}
