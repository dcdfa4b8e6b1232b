#include "learn/pwl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "learn/linear.h"
#include "learn/stored.h"

static const char stored_kind[] = "curv";
enum { STORED_VERSION = 1 };

struct line {
    double slope, intercept;
};

double pwl_latency(const struct pwl_curve *c, double share_percent)
{
    double beyond = share_percent - c->knee_share;
    return c->knee_latency + beyond * (beyond <= 0 ? c->left_slope : c->right_slope);
}

double pwl_share(const struct pwl_curve *c, double latency_max)
{
    double over = c->knee_latency - latency_max;
    double slope = over > 0 ? c->right_slope : c->left_slope;
    double share = c->knee_share;
    if (slope < 0)
        share -= over / slope;
    else if (over > 0)
        return INFINITY;
    if (share > 100)
        return INFINITY;
    return fmax(share, nextafter(0, 1));
}

static double relative_error(const struct pwl_curve *c, const struct pwl_sample *samples,
                             size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        double error = pwl_latency(c, samples[i].share_percent) / samples[i].latency - 1;
        sum += error * error;
    }
    return sum;
}

static struct line fit_line(const struct pwl_sample *samples, size_t count)
{
    double a[PWL_SAMPLES_MAX * 2], y[PWL_SAMPLES_MAX], c[2];
    for (size_t i = 0; i < count; i++) {
        a[2 * i] = 1 / samples[i].latency;
        a[2 * i + 1] = samples[i].share_percent / samples[i].latency;
        y[i] = 1;
    }
    (void)linear_least_squares(a, y, count, 2, 3, c);
    return (struct line){.slope = c[1], .intercept = c[0]};
}

/* Fits two independent lines, one to the first `left` samples. Returns false unless they form a
 * curve with the knee between the two parts. */
static bool fit_free(const struct pwl_sample *samples, size_t count, size_t left,
                     struct pwl_curve *ret_curve)
{
    struct line a = fit_line(samples, left), b = fit_line(samples + left, count - left);
    if (!(a.slope < b.slope && b.slope <= 0))
        return false;
    double knee = (b.intercept - a.intercept) / (a.slope - b.slope);
    if (knee < samples[left - 1].share_percent || knee > samples[left].share_percent)
        return false;
    *ret_curve = (struct pwl_curve){.knee_share = knee,
                                    .knee_latency = a.intercept + a.slope * knee,
                                    .left_slope = a.slope,
                                    .right_slope = b.slope};
    return true;
}

/* latency = c0 + c1·(knee − share)₊ + c2·(100 − share) with c1, c2 ≥ 0. */
static struct pwl_curve fit_hinge(const struct pwl_sample *samples, size_t count, double knee)
{
    double a[PWL_SAMPLES_MAX * 3], y[PWL_SAMPLES_MAX], c[3];
    for (size_t i = 0; i < count; i++) {
        a[3 * i] = 1 / samples[i].latency;
        a[3 * i + 1] = fmax(0, knee - samples[i].share_percent) / samples[i].latency;
        a[3 * i + 2] = (100 - samples[i].share_percent) / samples[i].latency;
        y[i] = 1;
    }
    (void)linear_least_squares(a, y, count, 3, 1, c);
    return (struct pwl_curve){.knee_share = knee,
                              .knee_latency = c[0] + c[2] * (100 - knee),
                              .left_slope = -c[1] - c[2],
                              .right_slope = -c[2]};
}

static int compare_samples(const void *a, const void *b)
{
    const struct pwl_sample *x = a, *y = b;
    if (x->share_percent != y->share_percent)
        return x->share_percent < y->share_percent ? -1 : 1;
    return (x->latency > y->latency) - (x->latency < y->latency);
}

int pwl_fit(const struct pwl_sample *samples, size_t count, struct pwl_curve *ret_curve)
{
    struct pwl_sample sorted[PWL_SAMPLES_MAX];
    if (count > PWL_SAMPLES_MAX)
        return -ERR_TOO_LARGE;
    if (count < PWL_SAMPLES_MIN)
        return -ERR_INVALID;
    for (size_t i = 0; i < count; i++) {
        const struct pwl_sample *s = &samples[i];
        if (!(s->share_percent > 0 && s->share_percent <= 100 && s->latency > 0 &&
              isfinite(s->latency)))
            return -ERR_INVALID;
        sorted[i] = *s;
    }
    qsort(sorted, count, sizeof *sorted, compare_samples);
    if (sorted[0].share_percent == sorted[count - 1].share_percent)
        return -ERR_INVALID;

    struct pwl_curve curve, best = {0};
    double error, least = INFINITY;
    for (size_t i = 0; i < count; i++) {
        curve = fit_hinge(sorted, count, sorted[i].share_percent);
        error = relative_error(&curve, sorted, count);
        if (error < least) {
            least = error;
            best = curve;
        }
        if (i < 2 || i + 2 > count || !fit_free(sorted, count, i, &curve))
            continue;
        error = relative_error(&curve, sorted, count);
        if (error < least) {
            least = error;
            best = curve;
        }
    }
    *ret_curve = best;
    return 0;
}

/* Payload: the four numbers. */
void pwl_save(const struct pwl_curve *c, struct str *to)
{
    size_t start = stored_begin(to, stored_kind, STORED_VERSION);
    stored_put_double(to, c->knee_share);
    stored_put_double(to, c->knee_latency);
    stored_put_double(to, c->left_slope);
    stored_put_double(to, c->right_slope);
    stored_end(to, start);
}

int pwl_load(struct error *e, const void *bytes, size_t length, struct pwl_curve *ret_curve)
{
    struct stored_reader r;
    uint32_t version;
    int rc = stored_open(e, bytes, length, stored_kind, STORED_VERSION, &r, &version);
    if (rc < 0)
        return rc;
    struct pwl_curve c;
    c.knee_share = stored_get_double(&r);
    c.knee_latency = stored_get_double(&r);
    c.left_slope = stored_get_double(&r);
    c.right_slope = stored_get_double(&r);
    r.failed |= !(c.knee_share > 0 && c.knee_share <= 100 && c.left_slope <= c.right_slope &&
                  c.right_slope <= 0);
    rc = stored_close(e, &r);
    if (rc == 0)
        *ret_curve = c;
    return rc;
}
