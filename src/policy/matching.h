/*
 * Which task goes to which device so that the sum of the weights is largest, each task and each
 * device at most once: rows are tasks, columns are devices. A weight that is not positive is no
 * edge. Exact for dense problems of a few thousand; within a proven gap for large sparse ones.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum {
    MATCHING_DENSE_MAX = 8192,     /* rows or columns */
    MATCHING_SPARSE_MAX = 1000000, /* rows or columns */
    MATCHING_EDGES_MAX = 100000000,
};
#define MATCHING_NONE UINT32_MAX

/*
 * The best matching of rows × columns weights, row-major and finite, by shortest augmenting paths
 * (Jonker and Volgenant). ret_columns gets a column or MATCHING_NONE for every row, *ret_total the
 * sum. -ERR_TOO_LARGE, -ERR_NO_MEMORY.
 */
int matching_dense(const double *weights, size_t rows, size_t columns, uint32_t *ret_columns,
                   double *ret_total);

struct matching_edge {
    uint32_t column;
    float weight;
};

/* Row i has the edges [first_edges[i], first_edges[i + 1]). All borrowed. */
struct matching_graph {
    size_t rows, columns;
    const size_t *first_edges; /* rows + 1 of them, ascending from 0 */
    const struct matching_edge *edges;
};

struct matching_result {
    double total; /* the sum of the weights of the matching */
    double bound; /* no matching of this graph has a larger sum */
};

/*
 * A matching whose total is at most the part gap_max (in (0, 1)) below the bound, by Bertsekas'
 * auction. ret_columns as above; ret_prices, unless NULL, gets a price ≥ 0 for every column: with
 * any further edges, Σ prices + Σ over rows of the largest positive weight − price is again a
 * bound. -ERR_INVALID for a graph that is none, -ERR_TOO_LARGE, -ERR_NO_MEMORY.
 */
int matching_sparse(const struct matching_graph *graph, double gap_max, uint32_t *ret_columns,
                    double *ret_prices, struct matching_result *ret_result);
