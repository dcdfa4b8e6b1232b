#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "learn/order.h"
#include "learn/predictor_internal.h"

/* Number of weights tried: 0, 0.1 … 1. */
enum { PARTS = 11, HELD_OUT_MIN = 3, HELD_OUT_MAX = 64, OTHERS_MIN = 4 };
/* Smallest useful gain, as a fraction of the median's error. */
static const double worth = 0.05;

bool observation_has_family(const struct observation *o, uint64_t family)
{
    for (size_t i = 0; i <= o->neighbour_count; i++)
        if (o->families[i] == family)
            return true;
    return false;
}

/* One round: the held-out points and their predictions. */
struct round {
    size_t group[SMOOTH_POINTS_MAX], others[SMOOTH_POINTS_MAX];
    size_t group_count, other_count;
    double predictions[SMOOTH_POINTS_MAX], sorted[SMOOTH_POINTS_MAX];
    double work[SMOOTH_POINTS_MAX * SMOOTH_POINTS_MAX];
};

struct tally {
    size_t rounds;
    /* Relative error of the median minus relative error of the guess. */
    double gains[HELD_OUT_MAX][PARTS];
    double squares[HELD_OUT_MAX][PARTS]; /* mean squared error of the guess's logarithm */
    double of_median;                    /* sum of the median's relative error over the rounds */
    double reach;                        /* largest smooth_outside of a held-out point */
};

static void hold_out(const struct smooth_points *points, uint64_t family, struct round *r)
{
    r->group_count = r->other_count = 0;
    for (size_t i = 0; i < points->count; i++)
        if (observation_has_family(points->of[i], family))
            r->group[r->group_count++] = i;
        else
            r->others[r->other_count++] = i;
}

static void judge(const struct smooth *smooth, const struct smooth_points *points, struct round *r,
                  struct tally *tally)
{
    smooth_leave_out(smooth, points->inverse, points->values, r->group, r->group_count, r->work,
                     r->predictions);
    for (size_t i = 0; i < r->other_count; i++)
        r->sorted[i] = points->values[r->others[i]];
    double median = order_median(r->sorted, r->other_count);
    double least = r->sorted[0], most = r->sorted[r->other_count - 1];
    double *gains = tally->gains[tally->rounds], *squares = tally->squares[tally->rounds];
    double share = 1 / (double)r->group_count;
    for (size_t i = 0; i < r->group_count; i++) {
        double truth = points->values[r->group[i]];
        double guess = fmax(least, fmin(most, r->predictions[i]));
        double of_median = fabs(expm1(median - truth));
        tally->of_median += share * of_median;
        for (size_t k = 0; k < PARTS; k++) {
            double part = (double)k / (PARTS - 1), off = median + part * (guess - median) - truth;
            gains[k] += share * (of_median - fabs(expm1(off)));
            squares[k] += share * off * off;
        }
        tally->reach =
            fmax(tally->reach, smooth_outside_of(smooth, r->group[i], r->others, r->other_count));
    }
    tally->rounds++;
}

/* Chooses the weight with the largest gain after subtracting a standard error, so that a gain on
 * few programs does not count. */
static void conclude(const struct tally *tally, struct trust *ret)
{
    double best = 0, count = (double)tally->rounds;
    *ret = (struct trust){.reach = tally->reach};
    if (tally->rounds < HELD_OUT_MIN)
        return;
    for (size_t k = 0; k < PARTS; k++) {
        double mean = 0, square = 0, error = 0;
        for (size_t i = 0; i < tally->rounds; i++) {
            mean += tally->gains[i][k] / count;
            error += tally->squares[i][k] / count;
        }
        for (size_t i = 0; i < tally->rounds; i++)
            square += (tally->gains[i][k] - mean) * (tally->gains[i][k] - mean) / (count - 1);
        double sure = mean - sqrt(square / count);
        if (k > 0 && (!(sure > best) || mean < worth * tally->of_median / count))
            continue;
        best = fmax(0, sure);
        ret->part = (double)k / (PARTS - 1);
        ret->error = sqrt(error);
    }
}

static bool was_held_out(const uint64_t *families, size_t count, uint64_t family)
{
    for (size_t i = 0; i < count; i++)
        if (families[i] == family)
            return true;
    return false;
}

int trust_measure(const struct smooth *smooth, const struct smooth_points *points,
                  struct trust *ret_trust)
{
    struct round *round = calloc(1, sizeof *round);
    struct tally *tally = calloc(1, sizeof *tally);
    uint64_t done[HELD_OUT_MAX];
    size_t done_count = 0;
    int rc = round == NULL || tally == NULL ? -ERR_NO_MEMORY : 0;
    for (size_t i = 0; rc == 0 && i < points->count && done_count < HELD_OUT_MAX; i++) {
        uint64_t family = points->of[i]->families[0];
        if (family == 0 || was_held_out(done, done_count, family))
            continue;
        done[done_count++] = family;
        hold_out(points, family, round);
        if (round->other_count >= OTHERS_MIN)
            judge(smooth, points, round, tally);
    }
    if (rc == 0)
        conclude(tally, ret_trust);
    free(round);
    free(tally);
    return rc;
}
