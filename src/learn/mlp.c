#include "learn/mlp.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "learn/linear.h"

enum {
    BATCH = 16,
    VISITS = 40000, /* total visits of samples; bounds the training time */
    PASSES_MIN = 4,
    PASSES_MAX = 300,
};
static const double rate_begin = 3e-3, weight_decay = 0.02;
static const double average_keep = 0.9, square_keep = 0.999, epsilon = 1e-8;

/* Offsets of the layers in the weights: rows of inputs, then the offsets. */
struct layout {
    size_t first, first_offset, second, second_offset, last, last_offset, all;
};

struct mlp {
    size_t features;
    struct layout at;
    double centre[MLP_FEATURES_MAX], scale[MLP_FEATURES_MAX]; /* scale 0: constant in all samples */
    double target_centre, target_scale;
    double *weights;
};

/* Activations for one sample. */
struct trace {
    double input[MLP_FEATURES_MAX], first[MLP_HIDDEN], second[MLP_HIDDEN], output;
};

static struct layout layout_of(size_t features)
{
    struct layout at = {.first = 0};
    at.first_offset = MLP_HIDDEN * features;
    at.second = at.first_offset + MLP_HIDDEN;
    at.second_offset = at.second + MLP_HIDDEN * MLP_HIDDEN;
    at.last = at.second_offset + MLP_HIDDEN;
    at.last_offset = at.last + MLP_HIDDEN;
    at.all = at.last_offset + 1;
    return at;
}

static struct mlp *mlp_new(size_t features)
{
    struct mlp *m = calloc(1, sizeof *m);
    if (m == NULL)
        return NULL;
    m->features = features;
    m->at = layout_of(features);
    m->weights = calloc(m->at.all, sizeof *m->weights);
    if (m->weights == NULL) {
        free(m);
        return NULL;
    }
    return m;
}

void mlp_free(struct mlp *m)
{
    if (m == NULL)
        return;
    free(m->weights);
    free(m);
}

static void standard_of(const double *numbers, size_t count, size_t stride, double *ret_centre,
                        double *ret_deviation)
{
    double mean = 0, square = 0;
    for (size_t i = 0; i < count; i++)
        mean += numbers[i * stride] / (double)count;
    for (size_t i = 0; i < count; i++) {
        double off = numbers[i * stride] - mean;
        square += off * off / (double)count;
    }
    *ret_centre = mean;
    *ret_deviation = square > 1e-18 * (1 + mean * mean) ? sqrt(square) : 0;
}

static void standardise(struct mlp *m, const double *rows, const double *targets, size_t count)
{
    for (size_t f = 0; f < m->features; f++) {
        double deviation;
        standard_of(rows + f, count, m->features, &m->centre[f], &deviation);
        m->scale[f] = deviation > 0 ? 1 / deviation : 0;
    }
    standard_of(targets, count, 1, &m->target_centre, &m->target_scale);
}

/* He initialisation: uniform, with variance 2 / number of varying inputs. */
static void fill(struct rng *rng, double *weights, size_t count, double inputs)
{
    double width = sqrt(6 / fmax(1, inputs));
    for (size_t i = 0; i < count; i++)
        weights[i] = width * (2 * rng_double(rng) - 1);
}

static void layer(const double *weights, const double *offsets, const double *input, size_t inputs,
                  double *ret_output)
{
    for (size_t i = 0; i < MLP_HIDDEN; i++) {
        double sum = offsets[i] + linear_dot(weights + i * inputs, input, inputs);
        ret_output[i] = sum > 0 ? sum : 0;
    }
}

static void forward(const struct mlp *m, const double *row, struct trace *t)
{
    const double *w = m->weights;
    for (size_t f = 0; f < m->features; f++)
        t->input[f] = (row[f] - m->centre[f]) * m->scale[f];
    layer(w + m->at.first, w + m->at.first_offset, t->input, m->features, t->first);
    layer(w + m->at.second, w + m->at.second_offset, t->first, MLP_HIDDEN, t->second);
    t->output = w[m->at.last_offset] + linear_dot(w + m->at.last, t->second, MLP_HIDDEN);
}

/* Adds the gradient of half the squared error for one sample. */
static void backward(const struct mlp *m, const struct trace *t, double error, double *gradient)
{
    const double *w = m->weights;
    double to_second[MLP_HIDDEN], to_first[MLP_HIDDEN] = {0};
    gradient[m->at.last_offset] += error;
    linear_add_scaled(gradient + m->at.last, t->second, error, MLP_HIDDEN);
    for (size_t i = 0; i < MLP_HIDDEN; i++) {
        to_second[i] = t->second[i] > 0 ? error * w[m->at.last + i] : 0;
        if (to_second[i] == 0)
            continue;
        gradient[m->at.second_offset + i] += to_second[i];
        linear_add_scaled(gradient + m->at.second + i * MLP_HIDDEN, t->first, to_second[i],
                          MLP_HIDDEN);
        linear_add_scaled(to_first, w + m->at.second + i * MLP_HIDDEN, to_second[i], MLP_HIDDEN);
    }
    for (size_t i = 0; i < MLP_HIDDEN; i++) {
        if (!(t->first[i] > 0))
            continue;
        gradient[m->at.first_offset + i] += to_first[i];
        linear_add_scaled(gradient + m->at.first + i * m->features, t->input, to_first[i],
                          m->features);
    }
}

struct adam {
    double *gradient, *average, *square;
    double average_left, square_left; /* remaining bias of the averages, which start at 0 */
};

static void adam_step(struct adam *a, double *weights, size_t count, double rate)
{
    a->average_left *= average_keep;
    a->square_left *= square_keep;
    double average_scale = 1 / (1 - a->average_left), square_scale = 1 / (1 - a->square_left);
    for (size_t i = 0; i < count; i++) {
        double g = a->gradient[i];
        a->average[i] = average_keep * a->average[i] + (1 - average_keep) * g;
        a->square[i] = square_keep * a->square[i] + (1 - square_keep) * g * g;
        double step = a->average[i] * average_scale / (sqrt(a->square[i] * square_scale) + epsilon);
        weights[i] -= rate * (step + weight_decay * weights[i]);
    }
}

static size_t passes_of(size_t count)
{
    size_t passes = VISITS / count;
    if (passes > PASSES_MAX)
        return PASSES_MAX;
    return passes < PASSES_MIN ? PASSES_MIN : passes;
}

/* `order` has room for count; the gradient in `a` is 0 before and after. */
static void descend(struct mlp *m, struct adam *a, const double *rows, const double *targets,
                    size_t count, size_t *order, struct rng *rng)
{
    size_t passes = passes_of(count);
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    for (size_t pass = 0; pass < passes; pass++) {
        double rate = rate_begin * (1 + cos(M_PI * (double)pass / (double)passes)) / 2;
        for (size_t i = 0; i < count; i++) {
            size_t other = i + rng_below(rng, count - i);
            size_t sample = order[other];
            order[other] = order[i];
            order[i] = sample;
            struct trace t;
            forward(m, rows + sample * m->features, &t);
            double target = (targets[sample] - m->target_centre) / m->target_scale;
            backward(m, &t, (t.output - target) / BATCH, a->gradient);
            if ((i + 1) % BATCH != 0 && i + 1 < count)
                continue;
            adam_step(a, m->weights, m->at.all, rate);
            memset(a->gradient, 0, m->at.all * sizeof *a->gradient);
        }
    }
}

int mlp_train(const double *rows, const double *targets, size_t count, size_t features,
              uint64_t seed, struct mlp **ret_mlp)
{
    assert(count > 0 && features > 0 && features <= MLP_FEATURES_MAX);
    struct mlp *m = mlp_new(features);
    struct adam a = {.average_left = 1, .square_left = 1};
    size_t *order = calloc(count, sizeof *order);
    int rc = -ERR_NO_MEMORY;
    if (m == NULL || order == NULL)
        goto out;
    a.gradient = calloc(m->at.all, sizeof *a.gradient);
    a.average = calloc(m->at.all, sizeof *a.average);
    a.square = calloc(m->at.all, sizeof *a.square);
    if (a.gradient == NULL || a.average == NULL || a.square == NULL)
        goto out;
    standardise(m, rows, targets, count);
    double telling = 0;
    for (size_t f = 0; f < features; f++)
        telling += m->scale[f] > 0;
    struct rng rng;
    rng_seed(&rng, seed);
    fill(&rng, m->weights + m->at.first, MLP_HIDDEN * features, telling);
    fill(&rng, m->weights + m->at.second, (size_t)MLP_HIDDEN * MLP_HIDDEN, MLP_HIDDEN);
    fill(&rng, m->weights + m->at.last, MLP_HIDDEN, MLP_HIDDEN);
    if (m->target_scale > 0)
        descend(m, &a, rows, targets, count, order, &rng);
    *ret_mlp = m;
    m = NULL;
    rc = 0;
out:
    free(a.gradient);
    free(a.average);
    free(a.square);
    free(order);
    mlp_free(m);
    return rc;
}

double mlp_predict(const struct mlp *m, const double *row)
{
    struct trace t;
    forward(m, row, &t);
    return m->target_centre + m->target_scale * t.output;
}

void mlp_save(const struct mlp *m, struct str *to)
{
    stored_put_double(to, m->target_centre);
    stored_put_double(to, m->target_scale);
    for (size_t f = 0; f < m->features; f++) {
        stored_put_double(to, m->centre[f]);
        stored_put_double(to, m->scale[f]);
    }
    for (size_t i = 0; i < m->at.all; i++)
        stored_put_double(to, m->weights[i]);
}

struct mlp *mlp_load(struct stored_reader *r, size_t features)
{
    struct mlp *m = mlp_new(features);
    if (m == NULL) {
        r->failed = true;
        return NULL;
    }
    m->target_centre = stored_get_double(r);
    m->target_scale = stored_get_double(r);
    for (size_t f = 0; f < features; f++) {
        m->centre[f] = stored_get_double(r);
        m->scale[f] = stored_get_double(r);
    }
    for (size_t i = 0; i < m->at.all; i++)
        m->weights[i] = stored_get_double(r);
    if (!r->failed)
        return m;
    mlp_free(m);
    return NULL;
}
