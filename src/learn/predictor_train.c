#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "learn/order.h"
#include "learn/predictor_internal.h"

/* Every VALIDATE_ONE_IN-th combination of tasks is held out to compare the learners. */
enum { VALIDATE_ONE_IN = 4, VALIDATED_MIN = 4 };
/* The network replaces the forest if its error is below this fraction of the forest's, because a
 * single comparison is noisy. */
static const double network_margin = 0.9;
/* Factor by which a distance must exceed the largest nearest-neighbour distance of the points to
 * count as far. */
static const double span_factor = 2;

static void table_done(struct training_table *t)
{
    free(t->of);
    free(t->rows);
    free(t->targets);
}

static int table_init(struct training_table *t, size_t room)
{
    *t = (struct training_table){0};
    t->of = calloc(room, sizeof *t->of);
    t->rows = calloc(room, FEATURES_ALL * sizeof *t->rows);
    t->targets = calloc(room, sizeof *t->targets);
    return t->of == NULL || t->rows == NULL || t->targets == NULL ? -ERR_NO_MEMORY : 0;
}

static void table_add(struct training_table *t, const struct observation *o)
{
    t->of[t->count] = o;
    t->targets[t->count] = o->log_interference;
    memcpy(t->rows + t->count * FEATURES_ALL, o->features, sizeof o->features);
    t->count++;
}

/* A smooth function, the trees, and the points to which the smooth function was fitted. */
struct grown {
    struct smooth *smooth;
    struct forest *trees;
    struct smooth_points points;
};

static void grown_done(struct grown *g)
{
    smooth_free(g->smooth);
    forest_free(g->trees);
    free(g->points.inverse);
    *g = (struct grown){0};
}

/* Fits the smooth function to at most SMOOTH_POINTS_MAX random points, marked in is_point. */
static int grow_smooth(struct grown *g, const struct training_table *t, uint64_t seed,
                       double *points, bool *is_point)
{
    struct rng rng;
    rng_seed(&rng, seed);
    size_t wanted = t->count < SMOOTH_POINTS_MAX ? t->count : SMOOTH_POINTS_MAX;
    for (size_t i = 0; i < t->count; i++) {
        if (rng_below(&rng, t->count - i) >= wanted - g->points.count)
            continue;
        size_t at = g->points.count++;
        is_point[i] = true;
        g->points.of[at] = t->of[i];
        g->points.values[at] = t->targets[i];
        memcpy(points + at * FEATURES_ALL, t->rows + i * FEATURES_ALL,
               FEATURES_ALL * sizeof *points);
    }
    g->points.inverse = calloc(wanted * wanted, sizeof *g->points.inverse);
    if (g->points.inverse == NULL)
        return -ERR_NO_MEMORY;
    return smooth_fit(points, g->points.values, wanted, FEATURES_ALL, g->points.inverse,
                      &g->smooth);
}

/* Computes the residual of each sample, from a smooth function without that sample. */
static void leave(const struct grown *g, const struct training_table *t, const bool *is_point,
                  double *ret_rests)
{
    size_t at = 0;
    for (size_t i = 0; i < t->count; i++) {
        double prediction, other;
        if (is_point[i]) {
            smooth_leave_out(g->smooth, g->points.inverse, g->points.values, &at, 1, &other,
                             &prediction);
            at++;
        } else {
            prediction = smooth_predict(g->smooth, t->rows + i * FEATURES_ALL, &other);
        }
        ret_rests[i] = t->targets[i] - prediction;
    }
}

static int grown_train(struct grown *g, const struct training_table *t, uint64_t seed)
{
    *g = (struct grown){0};
    double *points = calloc(SMOOTH_POINTS_MAX, FEATURES_ALL * sizeof *points);
    double *rests = calloc(t->count, sizeof *rests);
    bool *is_point = calloc(t->count, sizeof *is_point);
    int rc = -ERR_NO_MEMORY;
    if (points != NULL && rests != NULL && is_point != NULL)
        rc = grow_smooth(g, t, seed, points, is_point);
    if (rc == 0) {
        leave(g, t, is_point, rests);
        rc = forest_train(t->rows, rests, t->count, FEATURES_ALL, seed, &g->trees);
    }
    free(points);
    free(rests);
    free(is_point);
    if (rc < 0)
        grown_done(g);
    return rc;
}

/* Returns a hash of the tasks in any order, so that all samples of a combination are held out
 * together. */
static uint64_t company(const struct observation *o, uint64_t seed)
{
    uint64_t sum = 0;
    for (size_t i = 0; i <= o->neighbour_count; i++)
        sum += hash_u64(o->families[i] != 0 ? o->families[i] : o->pattern);
    return hash_u64(sum ^ hash_u64(seed));
}

struct contest {
    struct training_table shown, held_out;
};

static double relative_error(double log_prediction, double log_truth)
{
    return fabs(expm1(log_prediction - log_truth));
}

static int contest_run(const struct contest *c, uint64_t seed, bool *ret_network_wins)
{
    struct grown grown;
    struct mlp *network;
    const struct training_table *shown = &c->shown, *held_out = &c->held_out;
    int rc = mlp_train(shown->rows, shown->targets, shown->count, FEATURES_ALL, seed, &network);
    if (rc < 0)
        return rc;
    rc = grown_train(&grown, shown, seed);
    if (rc < 0) {
        mlp_free(network);
        return rc;
    }
    double of_forest = 0, of_network = 0;
    for (size_t i = 0; i < held_out->count; i++) {
        const double *row = held_out->rows + i * FEATURES_ALL;
        double unused, truth = held_out->targets[i];
        double smooth = smooth_predict(grown.smooth, row, &unused);
        of_forest += relative_error(smooth + forest_predict(grown.trees, row, &unused), truth);
        of_network += relative_error(mlp_predict(network, row), truth);
    }
    *ret_network_wins = of_network < network_margin * of_forest;
    mlp_free(network);
    grown_done(&grown);
    return 0;
}

static int network_wins(const struct training_table *t, uint64_t seed, bool *ret_wins)
{
    struct contest c;
    int rc = table_init(&c.shown, t->count);
    if (rc == 0)
        rc = table_init(&c.held_out, t->count);
    else
        c.held_out = (struct training_table){0};
    for (size_t i = 0; rc == 0 && i < t->count; i++) {
        bool held = company(t->of[i], seed) % VALIDATE_ONE_IN == 0;
        table_add(held ? &c.held_out : &c.shown, t->of[i]);
    }
    *ret_wins = false;
    if (rc == 0 && c.held_out.count >= VALIDATED_MIN && c.shown.count >= VALIDATED_MIN)
        rc = contest_run(&c, seed, ret_wins);
    table_done(&c.shown);
    table_done(&c.held_out);
    return rc;
}

static int compare_families(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void note_families(struct predictor *p, const struct training_table *t)
{
    uint64_t *all = p->families;
    for (size_t i = 0; i < t->count; i++)
        for (size_t k = 0; k <= t->of[i]->neighbour_count; k++) {
            uint64_t family = t->of[i]->families[k];
            bool is_new = family != 0;
            for (size_t j = 0; is_new && j < p->family_count; j++)
                is_new = all[j] != family;
            if (is_new && p->family_count < PREDICTOR_FAMILIES_MAX)
                all[p->family_count++] = family;
        }
    qsort(all, p->family_count, sizeof *all, compare_families);
}

/* Sorts the targets, so this function must be called last. */
static void note_range(struct predictor *p, struct training_table *t)
{
    p->median = order_median(t->targets, t->count);
    p->least = t->targets[0];
    p->most = t->targets[t->count - 1];
    for (size_t i = 0; i < t->count; i++) {
        double off = t->targets[i] - p->median;
        p->deviation += off * off;
    }
    p->deviation = sqrt(p->deviation / (double)t->count);
}

static double span_of(const struct smooth *smooth, size_t count)
{
    double span = 0;
    for (size_t i = 0; i < count; i++) {
        double nearest = INFINITY;
        for (size_t j = 0; j < count; j++)
            if (j != i)
                nearest = fmin(nearest, smooth_distance(smooth, i, j));
        span = fmax(span, nearest);
    }
    return span_factor * span;
}

static uint64_t id_of(const struct training_table *t, enum predictor_learners learners,
                      uint64_t seed)
{
    uint64_t id = hash_u64(seed ^ (uint64_t)learners);
    id = hash_bytes(t->targets, t->count * sizeof *t->targets, id);
    return hash_bytes(t->rows, t->count * FEATURES_ALL * sizeof *t->rows, id);
}

static int train(struct predictor *p, struct training_table *t, enum predictor_learners learners,
                 uint64_t seed)
{
    struct grown grown;
    bool wins = false;
    int rc = grown_train(&grown, t, seed);
    if (rc < 0)
        return rc;
    rc = trust_measure(grown.smooth, &grown.points, &p->trust);
    p->span = span_of(grown.smooth, grown.points.count);
    p->smooth = grown.smooth;
    p->trees = grown.trees;
    free(grown.points.inverse);
    p->id = id_of(t, learners, seed);
    note_families(p, t);
    if (rc == 0 && learners == PREDICTOR_FOREST_OR_NETWORK)
        rc = network_wins(t, seed, &wins);
    if (rc == 0 && wins)
        rc = mlp_train(t->rows, t->targets, t->count, FEATURES_ALL, seed, &p->network);
    note_range(p, t);
    return rc;
}

int predictor_train(const struct observations *o, enum predictor_learners learners, uint64_t seed,
                    struct predictor **ret_predictor)
{
    size_t count = observations_count(o);
    if (count < PREDICTOR_OBSERVATIONS_MIN)
        return -ERR_UNAVAILABLE;
    struct training_table t;
    int rc = table_init(&t, count);
    struct predictor *p = calloc(1, sizeof *p);
    if (p == NULL)
        rc = -ERR_NO_MEMORY;
    if (rc == 0) {
        for (size_t i = 0; i < count; i++)
            table_add(&t, observations_at(o, i));
        rc = train(p, &t, learners, seed);
    }
    table_done(&t);
    if (rc < 0) {
        predictor_free(p);
        return rc;
    }
    *ret_predictor = p;
    return 0;
}
