#include "sim/pressure.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "learn/linear.h"

enum {
    OF_DEMAND = 0,
    TO_DEMAND = PRESSURE_DEMANDS,
    PRODUCT = 2 * PRESSURE_DEMANDS,
    CONSTANT,
    OF_MODEL,
    STEPS_MAX = 100,
};
static_assert(PRESSURE_PARAMETERS_MAX <= (int)LINEAR_ROWS_MAX, "one matrix has them all");

/*
 * The penalties are inverse standard deviations: the strength of shrinking a parameter to 0. Chosen
 * by cross-validation on the shipped pairs (docs/simulate.md): 0.01 or 0.03 for demands and 0.03 to
 * 0.2 for models make little difference; without the models' parameters the error is a third
 * larger.
 */
static const double demand_penalty = 0.03, model_penalty = 0.2;
static const double delay_log_max = 5; /* a slowdown of 150, which leaves almost no speed */

struct pressure_task pressure_task_of(size_t model, const struct table_size *size)
{
    return (struct pressure_task){
        .model = model,
        .demands = {size->busy, size->sm, size->occupancy, 3 * size->dram, log(size->iter_ms) / 4},
    };
}

/* Computes the factor of each parameter in the logarithm of the delay. */
static size_t design(size_t model_count, const struct pressure_task *task,
                     const struct pressure_task *neighbour, double *ret_row)
{
    size_t count = OF_MODEL + 2 * model_count;
    memset(ret_row, 0, count * sizeof *ret_row);
    for (size_t i = 0; i < PRESSURE_DEMANDS; i++) {
        ret_row[OF_DEMAND + i] = neighbour->demands[i];
        ret_row[TO_DEMAND + i] = task->demands[i];
    }
    ret_row[CONSTANT] = 1;
    ret_row[PRODUCT] = task->demands[1] * neighbour->demands[1];
    ret_row[OF_MODEL + neighbour->model] = 1;
    ret_row[OF_MODEL + model_count + task->model] = 1;
    return count;
}

struct fit {
    size_t parameter_count, row_count;
    double *rows; /* row_count × parameter_count; owned */
    double *kept; /* owned */
};

static double penalty_of(size_t parameter)
{
    if (parameter == CONSTANT)
        return 0;
    return parameter < OF_MODEL ? demand_penalty : model_penalty;
}

static double squares(const struct fit *f, const double *x)
{
    double sum = 0;
    for (size_t i = 0; i < f->row_count; i++) {
        double z = linear_dot(f->rows + i * f->parameter_count, x, f->parameter_count);
        double off = 1 / (1 + exp(fmin(z, delay_log_max))) - f->kept[i];
        sum += off * off;
    }
    for (size_t j = 0; j < f->parameter_count; j++)
        sum += penalty_of(j) * penalty_of(j) * x[j] * x[j];
    return sum;
}

/* Computes JᵀJ and −Jᵀr of the residuals at x, including the penalties. */
static void normal_equations(const struct fit *f, const double *x, double *ret_matrix,
                             double *ret_right)
{
    size_t n = f->parameter_count;
    memset(ret_matrix, 0, n * n * sizeof *ret_matrix);
    memset(ret_right, 0, n * sizeof *ret_right);
    for (size_t i = 0; i < f->row_count; i++) {
        const double *row = f->rows + i * n;
        double z = fmin(linear_dot(row, x, n), delay_log_max);
        double kept = 1 / (1 + exp(z)), slope = -kept * (1 - kept);
        linear_add_scaled(ret_right, row, -slope * (kept - f->kept[i]), n);
        for (size_t j = 0; j < n; j++)
            if (row[j] != 0)
                linear_add_scaled(ret_matrix + j * n, row, slope * slope * row[j], j + 1);
    }
    for (size_t j = 0; j < n; j++) {
        double weight = penalty_of(j) * penalty_of(j);
        ret_matrix[j * n + j] += weight;
        ret_right[j] -= weight * x[j];
    }
}

/* Improves x by Levenberg's steps until no step helps. */
static void descend(const struct fit *f, double *x)
{
    double matrix[PRESSURE_PARAMETERS_MAX * PRESSURE_PARAMETERS_MAX];
    double right[PRESSURE_PARAMETERS_MAX], tried[PRESSURE_PARAMETERS_MAX];
    double damping = 1e-2, best = squares(f, x);
    size_t n = f->parameter_count;
    for (int step = 0; step < STEPS_MAX && damping < 1e6; step++) {
        normal_equations(f, x, matrix, right);
        for (size_t j = 0; j < n; j++)
            matrix[j * n + j] += damping * (matrix[j * n + j] + 1e-9);
        if (!linear_cholesky(matrix, n, n)) {
            damping *= 10;
            continue;
        }
        linear_solve_lower(matrix, n, n, right);
        linear_solve_lower_transposed(matrix, n, n, right);
        for (size_t j = 0; j < n; j++)
            tried[j] = x[j] + right[j];
        double sum = squares(f, tried);
        if (sum >= best) {
            damping *= 4;
            continue;
        }
        bool is_done = sum > best * (1 - 1e-9);
        memcpy(x, tried, n * sizeof *x);
        best = sum;
        damping *= 0.3;
        if (is_done)
            break;
    }
}

static void add_pair_rows(const struct tables *t, const struct table_pair *pair, struct fit *f)
{
    struct pressure_task tasks[2];
    for (int k = 0; k < 2; k++) {
        struct table_size size = tables_at(&t->models[pair->models[k]], pair->batches[k]);
        tasks[k] = pressure_task_of(pair->models[k], &size);
    }
    for (int k = 0; k < 2; k++) {
        f->parameter_count = design(t->model_count, &tasks[k], &tasks[1 - k],
                                    f->rows + f->row_count * f->parameter_count);
        f->kept[f->row_count++] = pair->kept[k];
    }
}

int pressure_fit(const struct tables *t, const struct pressure_held_out *held_out,
                 struct pressure *ret_pressure)
{
    double x[PRESSURE_PARAMETERS_MAX] = {[CONSTANT] = -1};
    struct fit f = {.parameter_count = OF_MODEL + 2 * t->model_count};
    f.rows = calloc(2 * t->pair_count + 1, f.parameter_count * sizeof *f.rows);
    f.kept = calloc(2 * t->pair_count + 1, sizeof *f.kept);
    int r = f.rows && f.kept ? 0 : -ERR_NO_MEMORY;
    for (size_t i = 0; r == 0 && i < t->pair_count; i++)
        if (!held_out || !held_out->is(held_out->context, &t->pairs[i]))
            add_pair_rows(t, &t->pairs[i], &f);
    if (r == 0 && f.row_count == 0)
        r = -ERR_INVALID;
    if (r == 0) {
        descend(&f, x);
        *ret_pressure = (struct pressure){.constant = x[CONSTANT], .product = x[PRODUCT]};
        memcpy(ret_pressure->of_demand, x + OF_DEMAND, sizeof ret_pressure->of_demand);
        memcpy(ret_pressure->to_demand, x + TO_DEMAND, sizeof ret_pressure->to_demand);
        memcpy(ret_pressure->of_model, x + OF_MODEL, t->model_count * sizeof *x);
        memcpy(ret_pressure->to_model, x + OF_MODEL + t->model_count, t->model_count * sizeof *x);
    }
    free(f.rows);
    free(f.kept);
    return r;
}

double pressure_delay(const struct pressure *p, const struct pressure_task *task,
                      const struct pressure_task *neighbour)
{
    double z = p->constant + p->product * task->demands[1] * neighbour->demands[1] +
               p->of_model[neighbour->model] + p->to_model[task->model];
    for (size_t i = 0; i < PRESSURE_DEMANDS; i++)
        z += p->of_demand[i] * neighbour->demands[i] + p->to_demand[i] * task->demands[i];
    return exp(fmin(z, delay_log_max));
}
