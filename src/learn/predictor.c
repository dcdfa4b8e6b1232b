#include "learn/predictor.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "learn/predictor_internal.h"
#include "learn/stored.h"

static const char kind[] = "pred";
enum { VERSION = 1 };

/* Uncertainty of a prediction by the cold-start formula. */
static const double cold_spread = 0.5;
/* Number of measurements whose weight equals that of the formula. */
static const double cold_weight = 2;

const char *predictor_source_name(enum predictor_source source)
{
    static const char *const names[] = {
#define X(name, text) [PREDICTOR_##name] = text,
        PREDICTOR_SOURCES(X)
#undef X
    };
    assert(source >= 0 && source < PREDICTOR_SOURCE_END);
    return names[source];
}

void predictor_free(struct predictor *p)
{
    if (p == NULL)
        return;
    smooth_free(p->smooth);
    forest_free(p->trees);
    mlp_free(p->network);
    free(p);
}

uint64_t predictor_id(const struct predictor *p)
{
    return p->id;
}

static bool is_known(const struct predictor *p, uint64_t family)
{
    size_t from = 0, end = p->family_count;
    while (from < end) {
        size_t middle = from + (end - from) / 2;
        if (p->families[middle] < family)
            from = middle + 1;
        else
            end = middle;
    }
    return from < p->family_count && p->families[from] == family;
}

static bool all_known(const struct predictor *p, const struct task_profile *own,
                      const struct task_profile *neighbours, size_t neighbour_count)
{
    bool known = is_known(p, own->family);
    for (size_t i = 0; known && i < neighbour_count; i++)
        known = is_known(p, neighbours[i].family);
    return known;
}

static struct prediction answer(const struct predictor *p, double log_interference, double spread,
                                enum predictor_source source)
{
    return (struct prediction){
        .interference = exp(fmax(p->least, fmin(p->most, log_interference))),
        .spread = spread,
        .source = source,
    };
}

static struct prediction predict_by_model(const struct predictor *p, bool known,
                                          const double features[FEATURES_ALL])
{
    double distance, spread;
    double smooth = smooth_predict(p->smooth, features, &distance);
    if (known && distance <= p->span) {
        double rest = forest_predict(p->trees, features, &spread);
        if (p->network != NULL)
            return answer(p, mlp_predict(p->network, features), spread, PREDICTOR_NETWORK);
        return answer(p, smooth + rest, spread, PREDICTOR_FOREST);
    }
    if (known || p->trust.part == 0 || smooth_outside(p->smooth, features) > p->trust.reach)
        return answer(p, p->median, p->deviation, PREDICTOR_MEDIAN);
    double guess = fmax(p->least, fmin(p->most, smooth));
    return answer(p, p->median + p->trust.part * (guess - p->median), p->trust.error,
                  PREDICTOR_GUESS);
}

/* Corrects the formula by its mean error on the first measurements, in proportion to their
 * number. */
static struct prediction predict_cold(const struct observations *o,
                                      const double features[FEATURES_ALL])
{
    double wrong = 0;
    size_t count = o == NULL ? 0 : observations_count(o);
    if (count > PREDICTOR_OBSERVATIONS_MIN)
        count = PREDICTOR_OBSERVATIONS_MIN;
    for (size_t i = 0; i < count; i++) {
        const struct observation *one = observations_at(o, i);
        wrong += one->log_interference - log(features_cold_start(one->features));
    }
    double interference =
        features_cold_start(features) * exp(wrong / ((double)count + cold_weight));
    return (struct prediction){
        .interference = fmax(1, interference), .spread = cold_spread, .source = PREDICTOR_COLD};
}

/*
 * Adds up the slowdowns of single neighbours, for several neighbours of which the combination is
 * unknown. A median over measurements with fewer neighbours would make every further neighbour
 * free.
 */
static struct prediction add_up(const struct predictor *p, const struct observations *o,
                                const struct task_profile *own,
                                const struct task_profile *neighbours, size_t neighbour_count)
{
    struct prediction sum = {.interference = 1, .source = PREDICTOR_SUM};
    for (size_t i = 0; i < neighbour_count; i++) {
        struct prediction one;
        predictor_predict(p, o, own, &neighbours[i], 1, &one);
        sum.interference += fmax(0, one.interference - 1);
        sum.spread = fmax(sum.spread, one.spread);
    }
    return sum;
}

void predictor_predict(const struct predictor *p, const struct observations *o,
                       const struct task_profile *own, const struct task_profile *neighbours,
                       size_t neighbour_count, struct prediction *ret_prediction)
{
    double features[FEATURES_ALL], mean, error;
    if (neighbour_count == 0) {
        *ret_prediction = (struct prediction){.interference = 1, .source = PREDICTOR_ALONE};
        return;
    }
    features_combine(own, neighbours, neighbour_count, features);
    if (o != NULL && observations_recall(o, observations_pattern(features), &mean, &error)) {
        *ret_prediction = (struct prediction){
            .interference = exp(mean), .spread = error, .source = PREDICTOR_PATTERN};
        return;
    }
    if (p == NULL)
        *ret_prediction = predict_cold(o, features);
    else
        *ret_prediction =
            predict_by_model(p, all_known(p, own, neighbours, neighbour_count), features);
    if (neighbour_count > 1 &&
        (ret_prediction->source == PREDICTOR_MEDIAN || ret_prediction->source == PREDICTOR_GUESS))
        *ret_prediction = add_up(p, o, own, neighbours, neighbour_count);
}

void predictor_save(const struct predictor *p, struct str *to)
{
    size_t start = stored_begin(to, kind, VERSION);
    stored_put_u64(to, FEATURES_ALL);
    stored_put_u64(to, p->id);
    const double numbers[] = {p->median, p->least,      p->most,        p->deviation,
                              p->span,   p->trust.part, p->trust.reach, p->trust.error};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        stored_put_double(to, numbers[i]);
    stored_put_u64(to, p->family_count);
    for (size_t i = 0; i < p->family_count; i++)
        stored_put_u64(to, p->families[i]);
    smooth_save(p->smooth, to);
    forest_save(p->trees, to);
    stored_put_u64(to, p->network != NULL);
    if (p->network != NULL)
        mlp_save(p->network, to);
    stored_end(to, start);
}

static void load_numbers(struct stored_reader *r, struct predictor *p)
{
    p->id = stored_get_u64(r);
    double *const numbers[] = {&p->median, &p->least,      &p->most,        &p->deviation,
                               &p->span,   &p->trust.part, &p->trust.reach, &p->trust.error};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        *numbers[i] = stored_get_double(r);
    p->family_count = stored_get_size(r, PREDICTOR_FAMILIES_MAX);
    for (size_t i = 0; i < p->family_count; i++) {
        p->families[i] = stored_get_u64(r);
        if (i > 0 && p->families[i] <= p->families[i - 1])
            r->failed = true;
    }
    if (p->least > p->median || p->median > p->most || p->deviation < 0 || p->trust.part < 0 ||
        p->trust.part > 1)
        r->failed = true;
}

int predictor_load(struct error *e, const void *bytes, size_t length,
                   struct predictor **ret_predictor)
{
    struct stored_reader r;
    uint32_t version;
    int rc = stored_open(e, bytes, length, kind, VERSION, &r, &version);
    if (rc < 0)
        return rc;
    if (stored_get_u64(&r) != FEATURES_ALL)
        return error_set(e, ERR_CORRUPT, "the model is of other features");
    struct predictor *p = calloc(1, sizeof *p);
    if (p == NULL)
        return error_set(e, ERR_NO_MEMORY, "no memory for the model");
    load_numbers(&r, p);
    if (!r.failed)
        p->smooth = smooth_load(&r, FEATURES_ALL);
    if (!r.failed)
        p->trees = forest_load(&r, FEATURES_ALL);
    if (!r.failed && stored_get_size(&r, 1) == 1)
        p->network = mlp_load(&r, FEATURES_ALL);
    rc = stored_close(e, &r);
    if (rc < 0) {
        predictor_free(p);
        return rc;
    }
    *ret_predictor = p;
    return 0;
}
