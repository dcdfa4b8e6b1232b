#include "learn/linear.h"

#include <assert.h>
#include <math.h>
#include <string.h>

void linear_add_scaled(double *to, const double *from, double factor, size_t count)
{
    linear_pair both = {factor, factor};
    size_t i = 0;
    for (; i + 2 <= count; i += 2) {
        linear_pair sum = linear_load(to + i) + both * linear_load(from + i);
        memcpy(to + i, &sum, sizeof sum);
    }
    if (i < count)
        to[i] += factor * from[i];
}

/* Computes two sums with a common factor, Σ a[i]·c[i] and Σ b[i]·c[i], as linear_dot() does. */
static inline linear_pair dot_both(const double *a, const double *b, const double *c, size_t count)
{
    linear_pair a_even = {0, 0}, a_odd = {0, 0}, b_even = {0, 0}, b_odd = {0, 0};
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        linear_pair even = linear_load(c + i), odd = linear_load(c + i + 2);
        a_even += linear_load(a + i) * even;
        b_even += linear_load(b + i) * even;
        a_odd += linear_load(a + i + 2) * odd;
        b_odd += linear_load(b + i + 2) * odd;
    }
    if (count & 2) {
        a_odd += linear_load(a + i) * linear_load(c + i);
        b_odd += linear_load(b + i) * linear_load(c + i);
        i += 2;
    }
    a_even += a_odd;
    b_even += b_odd;
    linear_pair sums = {a_even[0] + a_even[1], b_even[0] + b_even[1]};
    if (count & 1)
        sums += (linear_pair){a[i], b[i]} * c[i];
    return sums;
}

/* Computes elements [from, to) of a row of the factor from the elements before them and the rows
 * above. */
static void finish_row(const double *a, size_t stride, const double *reciprocals, size_t from,
                       size_t to, double *row)
{
    for (size_t j = from; j < to; j++)
        row[j] = (row[j] - linear_dot(row, a + j * stride, j)) * reciprocals[j];
}

bool linear_cholesky(double *a, size_t n, size_t stride)
{
    double reciprocals[LINEAR_ROWS_MAX];
    assert(n <= LINEAR_ROWS_MAX);
    /* Each element of a row depends on the previous one, so two rows are computed together. */
    for (size_t i = 0; i < n; i++) {
        double *row = a + i * stride, *next = row + stride;
        if (i % 2 == 1)
            finish_row(a, stride, reciprocals, i - 1, i, row);
        else if (i + 1 == n)
            finish_row(a, stride, reciprocals, 0, i, row);
        else
            for (size_t j = 0; j < i; j++) {
                linear_pair sums = dot_both(row, next, a + j * stride, j);
                row[j] = (row[j] - sums[0]) * reciprocals[j];
                next[j] = (next[j] - sums[1]) * reciprocals[j];
            }
        double square = row[i] - linear_dot(row, row, i);
        if (!(square > 0) || !isfinite(square))
            return false;
        row[i] = sqrt(square);
        reciprocals[i] = 1 / row[i];
    }
    return true;
}

void linear_solve_lower(const double *l, size_t n, size_t stride, double *b)
{
    for (size_t i = 0; i < n; i++)
        b[i] = (b[i] - linear_dot(l + i * stride, b, i)) / l[i * stride + i];
}

void linear_solve_lower_transposed(const double *l, size_t n, size_t stride, double *b)
{
    for (size_t i = n; i-- > 0;) {
        const double *row = l + i * stride;
        b[i] /= row[i];
        for (size_t j = 0; j < i; j++)
            b[j] -= row[j] * b[i];
    }
}

void linear_invert_lower(const double *l, size_t n, size_t stride, double *ret_rows)
{
    for (size_t i = 0; i < n; i++) {
        const double *row = l + i * stride;
        double reciprocal = 1 / row[i];
        for (size_t j = 0; j < i; j++) {
            double *column = ret_rows + j * stride;
            column[i] = -linear_dot(row + j, column + j, i - j) * reciprocal;
        }
        ret_rows[i * stride + i] = reciprocal;
    }
}

/* Solves the least squares over the columns in `chosen`, the others 0, from the normal equations.
 * Returns false if these columns are dependent. */
static bool solve_subset(const double *normal, const double *right, size_t columns, unsigned chosen,
                         double *ret_c)
{
    double part[LINEAR_COLUMNS_MAX * LINEAR_COLUMNS_MAX], c[LINEAR_COLUMNS_MAX];
    size_t index[LINEAR_COLUMNS_MAX], count = 0;
    for (size_t j = 0; j < columns; j++)
        if (chosen & 1u << j)
            index[count++] = j;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j <= i; j++)
            part[i * count + j] = normal[index[i] * columns + index[j]];
        /* Columns that are equal up to rounding must not count as independent. */
        part[i * count + i] *= 1 + 1e-13;
        c[i] = right[index[i]];
    }
    if (!linear_cholesky(part, count, count))
        return false;
    linear_solve_lower(part, count, count, c);
    linear_solve_lower_transposed(part, count, count, c);
    memset(ret_c, 0, columns * sizeof *ret_c);
    for (size_t i = 0; i < count; i++)
        ret_c[index[i]] = c[i];
    return true;
}

static double squared_error(const double *a, const double *y, size_t rows, size_t columns,
                            const double *c)
{
    double sum = 0;
    for (size_t i = 0; i < rows; i++) {
        double error = linear_dot(a + i * columns, c, columns) - y[i];
        sum += error * error;
    }
    return sum;
}

/* The problem is convex: the solution is the best one over all subsets of columns whose signs are
 * allowed. Four columns have sixteen subsets, so all are tried. */
double linear_least_squares(const double *a, const double *y, size_t rows, size_t columns,
                            unsigned unbounded, double *ret_c)
{
    double normal[LINEAR_COLUMNS_MAX * LINEAR_COLUMNS_MAX] = {0}, right[LINEAR_COLUMNS_MAX] = {0};
    assert(columns <= LINEAR_COLUMNS_MAX);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) {
            const double *row = a + i * columns;
            right[j] += row[j] * y[i];
            for (size_t k = 0; k < columns; k++)
                normal[j * columns + k] += row[j] * row[k];
        }
    memset(ret_c, 0, columns * sizeof *ret_c);
    double best = squared_error(a, y, rows, columns, ret_c);
    for (unsigned chosen = 1; chosen < 1u << columns; chosen++) {
        double c[LINEAR_COLUMNS_MAX];
        if (!solve_subset(normal, right, columns, chosen, c))
            continue;
        bool allowed = true;
        for (size_t j = 0; j < columns; j++)
            allowed &= c[j] >= 0 || (unbounded & 1u << j) != 0;
        double error = allowed ? squared_error(a, y, rows, columns, c) : INFINITY;
        if (error < best) {
            best = error;
            memcpy(ret_c, c, columns * sizeof *c);
        }
    }
    return best;
}
