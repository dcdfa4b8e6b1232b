/*
 * Small dense linear algebra. Matrices are row-major with an explicit stride. Sums have a fixed
 * order, so every machine computes the same bits.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { LINEAR_ROWS_MAX = 512 }; /* maximum size of a factorised matrix */

/* Two doubles that the processor multiplies and adds in one instruction. */
typedef double linear_pair __attribute__((vector_size(16)));

static inline linear_pair linear_load(const double *from)
{
    linear_pair pair;
    memcpy(&pair, from, sizeof pair);
    return pair;
}

/* Returns Σ a[i]·b[i]. Inline, because all other functions build on the dot product, and a function
 * call would take twice the time. */
static inline double linear_dot(const double *a, const double *b, size_t count)
{
    linear_pair even = {0, 0}, odd = {0, 0};
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        even += linear_load(a + i) * linear_load(b + i);
        odd += linear_load(a + i + 2) * linear_load(b + i + 2);
    }
    if (count & 2) {
        odd += linear_load(a + i) * linear_load(b + i);
        i += 2;
    }
    even += odd;
    double sum = even[0] + even[1];
    return count & 1 ? sum + a[i] * b[i] : sum;
}

/* to[i] += factor · from[i]. */
void linear_add_scaled(double *to, const double *from, double factor, size_t count);

/* Replaces the lower triangle of the symmetric `a` (n × n) by L with L·Lᵀ = a, without reading the
 * upper triangle. Returns false if `a` is not positive definite; `a` is then destroyed. */
bool linear_cholesky(double *a, size_t n, size_t stride);
/* Replace b by the solution x of L·x = b, or of Lᵀ·x = b. */
void linear_solve_lower(const double *l, size_t n, size_t stride, double *b);
void linear_solve_lower_transposed(const double *l, size_t n, size_t stride, double *b);
/* Writes the columns of L⁻¹ as the rows of ret_rows (n × n, same stride). In row j, the elements
 * before index j are not written. */
void linear_invert_lower(const double *l, size_t n, size_t stride, double *ret_rows);

enum { LINEAR_COLUMNS_MAX = 4 };

/*
 * Finds the c that minimises |a·c − y|², with c[j] ≥ 0 unless bit j of `unbounded` is set. `a` is
 * rows × columns without gaps, columns ≤ LINEAR_COLUMNS_MAX. A column without influence gets 0.
 * Returns the minimal sum of squares.
 */
double linear_least_squares(const double *a, const double *y, size_t rows, size_t columns,
                            unsigned unbounded, double *ret_c);
