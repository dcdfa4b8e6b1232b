/*
 * Costs are negative weights, and 0 without an edge, so a match at no cost means unmatched. There
 * are at least as many columns as rows (otherwise the problem is transposed), and every row gets a
 * column. Prices of columns keep the reduced cost of each matched edge the smallest in its row. A
 * quick first pass matches most rows. Each remaining row gets its column by a shortest path over
 * reduced costs, along which matched rows change columns.
 */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "policy/matching.h"

enum { REDUCTION_PASSES = 2 };

struct assignment {
    size_t rows, columns;
    double *costs;  /* rows × columns */
    double *prices; /* of columns; 0 while a column is free, unless rows == columns */
    uint32_t *column_of, *row_of;
    uint32_t *free_rows;
    size_t free_count;

    /* State of one search for a path: */
    double *distances;
    uint32_t *came_from; /* predecessor row of each column */
    uint32_t *order;     /* columns: final ones, then those at the front, then the rest */
};

static void done(struct assignment *a)
{
    free(a->costs);
    free(a->prices);
    free(a->column_of);
    free(a->row_of);
    free(a->free_rows);
    free(a->distances);
    free(a->came_from);
    free(a->order);
}

static int init(struct assignment *a, const double *weights, size_t rows, size_t columns)
{
    bool turned = rows > columns;
    *a = (struct assignment){.rows = turned ? columns : rows, .columns = turned ? rows : columns};
    a->costs = malloc(rows * columns * sizeof *a->costs);
    a->prices = calloc(a->columns, sizeof *a->prices);
    a->column_of = malloc(a->rows * sizeof *a->column_of);
    a->row_of = malloc(a->columns * sizeof *a->row_of);
    a->free_rows = malloc(a->rows * sizeof *a->free_rows);
    a->distances = malloc(a->columns * sizeof *a->distances);
    a->came_from = malloc(a->columns * sizeof *a->came_from);
    a->order = malloc(a->columns * sizeof *a->order);
    if (!a->costs || !a->prices || !a->column_of || !a->row_of || !a->free_rows || !a->distances ||
        !a->came_from || !a->order) {
        done(a);
        return -ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) {
            double weight = weights[i * columns + j];
            a->costs[turned ? j * rows + i : i * columns + j] = weight > 0 ? -weight : 0;
        }
    for (size_t i = 0; i < a->rows; i++)
        a->column_of[i] = MATCHING_NONE;
    for (size_t j = 0; j < a->columns; j++)
        a->row_of[j] = MATCHING_NONE;
    return 0;
}

static void match(struct assignment *a, uint32_t row, uint32_t column)
{
    a->column_of[row] = column;
    a->row_of[column] = row;
}

/* Starts each column at the price of its cheapest row, if every column will be matched. */
static void price_columns(struct assignment *a)
{
    uint32_t *cheapest = a->came_from;
    memcpy(a->prices, a->costs, a->columns * sizeof *a->prices);
    memset(cheapest, 0, a->columns * sizeof *cheapest);
    for (size_t i = 1; i < a->rows; i++) {
        const double *costs = a->costs + i * a->columns;
        for (size_t j = 0; j < a->columns; j++)
            if (costs[j] < a->prices[j]) {
                a->prices[j] = costs[j];
                cheapest[j] = (uint32_t)i;
            }
    }
    for (size_t j = a->columns; j-- > 0;)
        if (a->column_of[cheapest[j]] == MATCHING_NONE)
            match(a, cheapest[j], (uint32_t)j);
}

struct two_cheapest {
    double first, second;
    uint32_t column, next_column;
};

static struct two_cheapest find_two(const struct assignment *a, uint32_t row)
{
    const double *costs = a->costs + row * a->columns;
    struct two_cheapest two = {INFINITY, INFINITY, 0, MATCHING_NONE};
    for (size_t j = 0; j < a->columns; j++) {
        double reduced = costs[j] - a->prices[j];
        if (reduced >= two.second)
            continue;
        if (reduced < two.first) {
            two.second = two.first;
            two.next_column = two.column;
            two.first = reduced;
            two.column = (uint32_t)j;
        } else {
            two.second = reduced;
            two.next_column = (uint32_t)j;
        }
    }
    return two;
}

/* Gives free rows their cheapest column and lowers its price to the value of the second best. The
 * previous owner continues at once if it lost value, else in the next pass. */
static void reduce_rows(struct assignment *a)
{
    size_t waiting = 0, count = a->free_count, i = 0;
    size_t steps_left = 8 * a->rows; /* leave price wars with tiny steps to the shortest paths */
    while (i < count) {
        uint32_t row = a->free_rows[i++];
        struct two_cheapest two = find_two(a, row);
        uint32_t before = a->row_of[two.column];
        bool lowers = isfinite(two.second) &&
                      a->prices[two.column] - (two.second - two.first) < a->prices[two.column];
        if (lowers) {
            a->prices[two.column] -= two.second - two.first;
        } else if (before != MATCHING_NONE && two.next_column != MATCHING_NONE) {
            two.column = two.next_column;
            before = a->row_of[two.column];
        }
        match(a, row, two.column);
        if (before == MATCHING_NONE)
            continue;
        a->column_of[before] = MATCHING_NONE;
        if (lowers && steps_left > 0) {
            a->free_rows[--i] = before;
            steps_left--;
        } else {
            a->free_rows[waiting++] = before;
        }
    }
    a->free_count = waiting;
}

/* Moves the columns at the least distance right after the first `ready` ones in the order. Returns
 * the end of that front. */
static size_t gather_front(const struct assignment *a, size_t ready)
{
    size_t front = ready + 1;
    double least = a->distances[a->order[ready]];
    for (size_t k = ready + 1; k < a->columns; k++) {
        uint32_t column = a->order[k];
        double distance = a->distances[column];
        if (distance > least)
            continue;
        if (distance < least) {
            front = ready;
            least = distance;
        }
        a->order[k] = a->order[front];
        a->order[front++] = column;
    }
    return front;
}

/* Shortens distances by paths through `column`, which is at `least`. Returns a free column at that
 * distance as soon as one is found. */
static uint32_t scan_over(struct assignment *a, uint32_t column, double least, size_t *front)
{
    uint32_t row = a->row_of[column];
    const double *costs = a->costs + row * a->columns;
    double offset = costs[column] - a->prices[column] - least;
    for (size_t k = *front; k < a->columns; k++) {
        uint32_t j = a->order[k];
        double distance = costs[j] - a->prices[j] - offset;
        if (distance >= a->distances[j])
            continue;
        a->distances[j] = distance;
        a->came_from[j] = row;
        if (distance > least)
            continue;
        if (a->row_of[j] == MATCHING_NONE)
            return j;
        a->order[k] = a->order[*front];
        a->order[(*front)++] = j;
    }
    return MATCHING_NONE;
}

static void augment(struct assignment *a, uint32_t start)
{
    const double *costs = a->costs + start * a->columns;
    for (size_t j = 0; j < a->columns; j++) {
        a->distances[j] = costs[j] - a->prices[j];
        a->came_from[j] = start;
        a->order[j] = (uint32_t)j;
    }
    size_t scanned = 0, front = 0, ready = 0;
    double least = 0;
    uint32_t end = MATCHING_NONE;
    while (end == MATCHING_NONE) {
        if (scanned == front) {
            ready = scanned;
            front = gather_front(a, scanned);
            least = a->distances[a->order[scanned]];
            for (size_t k = scanned; k < front && end == MATCHING_NONE; k++)
                if (a->row_of[a->order[k]] == MATCHING_NONE)
                    end = a->order[k];
        }
        if (end == MATCHING_NONE)
            end = scan_over(a, a->order[scanned++], least, &front);
    }
    for (size_t k = 0; k < ready; k++)
        a->prices[a->order[k]] += a->distances[a->order[k]] - least;
    for (uint32_t row = MATCHING_NONE; row != start;) {
        row = a->came_from[end];
        uint32_t next = a->column_of[row];
        match(a, row, end);
        end = next;
    }
}

static void assign(struct assignment *a)
{
    if (a->rows == a->columns)
        price_columns(a);
    for (size_t i = 0; i < a->rows; i++)
        if (a->column_of[i] == MATCHING_NONE)
            a->free_rows[a->free_count++] = (uint32_t)i;
    for (int pass = 0; pass < REDUCTION_PASSES && a->free_count > 0; pass++)
        reduce_rows(a);
    for (size_t i = 0; i < a->free_count; i++)
        augment(a, a->free_rows[i]);
}

int matching_dense(const double *weights, size_t rows, size_t columns, uint32_t *ret_columns,
                   double *ret_total)
{
    struct assignment a = {0};
    if (rows > MATCHING_DENSE_MAX || columns > MATCHING_DENSE_MAX)
        return -ERR_TOO_LARGE;
    if (rows > 0 && columns > 0) {
        int rc = init(&a, weights, rows, columns);
        if (rc < 0)
            return rc;
        assign(&a);
    }
    double total = 0;
    for (size_t i = 0; i < rows; i++)
        ret_columns[i] = MATCHING_NONE;
    for (uint32_t i = 0; i < a.rows; i++) {
        uint32_t row = rows > columns ? a.column_of[i] : i;
        uint32_t column = rows > columns ? i : a.column_of[i];
        double weight = weights[row * columns + column];
        if (weight <= 0)
            continue;
        ret_columns[row] = column;
        total += weight;
    }
    *ret_total = total;
    done(&a);
    return 0;
}
