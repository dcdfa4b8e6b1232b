#include "learn/observations.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "learn/stored.h"

static const char kind[] = "obsv";
enum { VERSION = 1 };

/* Differences below this step count as measurement noise of a profile. */
static const double pattern_step = 1.0 / 32, steps_max = 1e15;
static const double interference_log_max = 20;

struct observations {
    struct observation *items; /* OBSERVATIONS_MAX items */
    uint64_t *patterns;        /* of the items; separate, because every prediction searches them */
    size_t count;
    uint64_t total;
    struct rng rng;
};

struct observations *observations_new(uint64_t seed)
{
    struct observations *o = calloc(1, sizeof *o);
    if (o == NULL)
        return NULL;
    rng_seed(&o->rng, seed);
    o->items = calloc(OBSERVATIONS_MAX, sizeof *o->items);
    o->patterns = calloc(OBSERVATIONS_MAX, sizeof *o->patterns);
    if (o->items == NULL || o->patterns == NULL) {
        observations_free(o);
        return NULL;
    }
    return o;
}

void observations_free(struct observations *o)
{
    if (o == NULL)
        return;
    free(o->items);
    free(o->patterns);
    free(o);
}

struct observations *observations_copy(const struct observations *o)
{
    struct observations *copy = observations_new(0);
    if (copy == NULL)
        return NULL;
    memcpy(copy->items, o->items, o->count * sizeof *o->items);
    memcpy(copy->patterns, o->patterns, o->count * sizeof *o->patterns);
    copy->count = o->count;
    copy->total = o->total;
    copy->rng = o->rng;
    return copy;
}

uint64_t observations_pattern(const double features[FEATURES_ALL])
{
    uint64_t pattern = 0;
    for (int i = 0; i < FEATURES_ALL; i++) {
        double steps = features[i] / pattern_step;
        steps = steps < steps_max ? steps : steps_max;
        steps = steps > -steps_max ? steps : -steps_max;
        pattern = hash_u64(pattern ^ (uint64_t)(int64_t)(steps < 0 ? steps - 0.5 : steps + 0.5));
    }
    return pattern;
}

static void put(struct observations *o, size_t at, const struct observation *item)
{
    o->items[at] = *item;
    o->patterns[at] = item->pattern;
}

int observations_add(struct observations *o, const struct task_profile *own,
                     const struct task_profile *neighbours, size_t neighbour_count,
                     double interference)
{
    if (!(interference > 0) || !isfinite(interference) || neighbour_count > FEATURES_NEIGHBOURS_MAX)
        return -ERR_INVALID;
    struct observation item = {.neighbour_count = neighbour_count};
    item.log_interference =
        fmax(-interference_log_max, fmin(interference_log_max, log(interference)));
    item.families[0] = own->family;
    for (size_t i = 0; i < neighbour_count; i++)
        item.families[1 + i] = neighbours[i].family;
    features_combine(own, neighbours, neighbour_count, item.features);
    for (int i = 0; i < FEATURES_ALL; i++)
        if (!isfinite(item.features[i]))
            return -ERR_INVALID;
    item.pattern = observations_pattern(item.features);
    o->total++;
    if (o->count < OBSERVATIONS_MAX) {
        put(o, o->count++, &item);
        return 0;
    }
    uint64_t at = rng_below(&o->rng, o->total);
    if (at < OBSERVATIONS_MAX)
        put(o, (size_t)at, &item);
    return 0;
}

size_t observations_count(const struct observations *o)
{
    return o->count;
}

uint64_t observations_total(const struct observations *o)
{
    return o->total;
}

const struct observation *observations_at(const struct observations *o, size_t index)
{
    assert(index < o->count);
    return &o->items[index];
}

bool observations_recall(const struct observations *o, uint64_t pattern, double *ret_mean,
                         double *ret_error)
{
    double sum = 0, squares = 0, count = 0;
    for (size_t i = 0; i < o->count; i++)
        if (o->patterns[i] == pattern) {
            double value = o->items[i].log_interference;
            count++;
            sum += value;
            squares += value * value;
        }
    if (count < OBSERVATIONS_PATTERN_MIN)
        return false;
    *ret_mean = sum / count;
    *ret_error = sqrt(fmax(0, squares / count - *ret_mean * *ret_mean) / count);
    return true;
}

void observations_save(const struct observations *o, struct str *to)
{
    size_t start = stored_begin(to, kind, VERSION);
    stored_put_u64(to, FEATURES_ALL);
    stored_put_u64(to, o->total);
    for (size_t i = 0; i < 4; i++)
        stored_put_u64(to, o->rng.state[i]);
    stored_put_u64(to, o->count);
    for (size_t i = 0; i < o->count; i++) {
        const struct observation *item = &o->items[i];
        stored_put_u64(to, item->neighbour_count);
        for (size_t k = 0; k <= item->neighbour_count; k++)
            stored_put_u64(to, item->families[k]);
        stored_put_double(to, item->log_interference);
        for (int k = 0; k < FEATURES_ALL; k++)
            stored_put_double(to, item->features[k]);
    }
    stored_end(to, start);
}

static void load_item(struct stored_reader *r, struct observations *o)
{
    struct observation item = {0};
    item.neighbour_count = stored_get_size(r, FEATURES_NEIGHBOURS_MAX);
    for (size_t k = 0; k <= item.neighbour_count; k++)
        item.families[k] = stored_get_u64(r);
    item.log_interference = stored_get_double(r);
    if (fabs(item.log_interference) > interference_log_max)
        r->failed = true;
    for (int k = 0; k < FEATURES_ALL; k++)
        item.features[k] = stored_get_double(r);
    item.pattern = observations_pattern(item.features);
    put(o, o->count++, &item);
}

int observations_load(struct error *e, const void *bytes, size_t length,
                      struct observations **ret_observations)
{
    struct stored_reader r;
    uint32_t version;
    int rc = stored_open(e, bytes, length, kind, VERSION, &r, &version);
    if (rc < 0)
        return rc;
    if (stored_get_u64(&r) != FEATURES_ALL)
        return error_set(e, ERR_CORRUPT, "the measurements are of other features");
    struct observations *o = observations_new(0);
    if (o == NULL)
        return error_set(e, ERR_NO_MEMORY, "no memory for the measurements");
    o->total = stored_get_u64(&r);
    for (size_t i = 0; i < 4; i++)
        o->rng.state[i] = stored_get_u64(&r);
    size_t count = stored_get_size(&r, OBSERVATIONS_MAX);
    for (size_t i = 0; i < count && !r.failed; i++)
        load_item(&r, o);
    if (o->total < count || (count < OBSERVATIONS_MAX && o->total > count))
        r.failed = true;
    rc = stored_close(e, &r);
    if (rc < 0) {
        observations_free(o);
        return rc;
    }
    *ret_observations = o;
    return 0;
}
