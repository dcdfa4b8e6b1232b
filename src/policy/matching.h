/*
 * Maximum-weight matching of tasks (rows) and devices (columns), each used at most once. A weight ≤
 * 0 is no edge. Exact for dense problems of a few thousand rows; within a proven gap for large
 * sparse problems.
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
 * Finds the best matching of rows × columns finite weights, row-major, by shortest augmenting paths
 * (Jonker and Volgenant). ret_columns receives a column or MATCHING_NONE for every row, *ret_total
 * the sum. Returns -ERR_TOO_LARGE or -ERR_NO_MEMORY.
 */
int matching_dense(const double *weights, size_t rows, size_t columns, uint32_t *ret_columns,
                   double *ret_total);

struct matching_edge {
    uint32_t column;
    float weight;
};

/* Row i has the edges [first_edges[i], first_edges[i + 1]). All pointers are borrowed. */
struct matching_graph {
    size_t rows, columns;
    const size_t *first_edges; /* rows + 1 entries, ascending from 0 */
    const struct matching_edge *edges;
};

struct matching_result {
    double total; /* sum of the weights in the matching */
    double bound; /* upper bound of the total of any matching */
};

/*
 * Finds a matching whose total is at most the fraction gap_max (in (0, 1)) below the bound, by
 * Bertsekas' auction. ret_prices (may be NULL) receives a price ≥ 0 per column. With further edges,
 * Σ prices + Σ over rows of the largest positive (weight − price) remains a bound. Returns
 * -ERR_INVALID for a malformed graph, -ERR_TOO_LARGE or -ERR_NO_MEMORY.
 */
int matching_sparse(const struct matching_graph *graph, double gap_max, uint32_t *ret_columns,
                    double *ret_prices, struct matching_result *ret_result);
