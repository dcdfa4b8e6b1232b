#include "learn/degradation.h"

#include <assert.h>
#include <math.h>

static const double average_keep = 0.98;
/* Fraction of |mean gradient|² below which |G|² is lost in noise. */
static const double drowned_part = 0.05;
static const double scale_max_batches = 1000;
enum { PERIOD_MIN = 20, PERIOD_MAX = 1000000 };

double degradation_efficiency(double noise_scale, double batch_reference, double batch)
{
    return (noise_scale + batch_reference) / (noise_scale + batch);
}

double degradation(const struct degradation_run *run)
{
    double efficiency = degradation_efficiency(run->noise_scale, run->batch_reference, run->batch);
    return run->time_beside / (run->batch * efficiency) /
           (run->time_reference / run->batch_reference);
}

void noise_scale_observe(struct noise_scale *n, double part, double batch, double part_square,
                         double batch_square)
{
    assert(part > 0 && part < batch);
    double square = (batch * batch_square - part * part_square) / (batch - part);
    double noise = fmax(0, (part_square - batch_square) / (1 / part - 1 / batch));
    if (!isfinite(square) || !isfinite(noise) || !isfinite(batch_square))
        return;
    n->square = average_keep * n->square + (1 - average_keep) * square;
    n->noise = average_keep * n->noise + (1 - average_keep) * noise;
    n->measured = average_keep * n->measured + (1 - average_keep) * batch_square;
    n->samples++;
}

bool noise_scale_get(const struct noise_scale *n, double batch_reference, double *ret_noise_scale)
{
    if (n->samples < NOISE_SCALE_SAMPLES_MIN)
        return false;
    /* The averages start at 0; this bias cancels in their ratio. */
    double most = scale_max_batches * batch_reference;
    if (n->square <= drowned_part * n->measured)
        *ret_noise_scale = most;
    else
        *ret_noise_scale = fmin(n->noise / n->square, most);
    return true;
}

uint64_t noise_scale_period(double split_time, double plain_time)
{
    double period = ceil(100 * (split_time / plain_time - 1));
    if (!(period > PERIOD_MIN))
        return PERIOD_MIN;
    return period < PERIOD_MAX ? (uint64_t)period : PERIOD_MAX;
}

double learning_rate_gain(enum learning_rate_rule rule, double noise_scale, double batch_reference,
                          double batch)
{
    switch (rule) {
    case LEARNING_RATE_NONE:
        return 1;
    case LEARNING_RATE_LINEAR:
        return batch / batch_reference;
    case LEARNING_RATE_SQRT:
        return sqrt(batch / batch_reference);
    case LEARNING_RATE_ADASCALE:
        return (noise_scale / batch_reference + 1) / (noise_scale / batch + 1);
    }
    return 1;
}
