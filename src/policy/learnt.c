#include "policy/learnt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "learn/degradation.h"

enum { SHARE_WHOLE_PERCENT = 100 };
/* Of a kind of which nothing is known: it takes most of the SMs. */
#define UNKNOWN_ACTIVITY 0.75

struct remembered {
    struct forecast_set set;
    struct forecast_answer answer;
};

struct learnt {
    struct forecast forecast;
    struct learnt_kind *kinds; /* [0] is the unknown */
    struct forecast_profile *profiles;
    size_t kind_count;
    const struct predictor *predictor;
    const struct observations *observations;
    struct hash_map sets; /* hash of a set → remembered; owned */
};

/* ---- services ---- */

/* p99 of the time in the system over that of a batch, at 30, 50 and 70 % of what can be answered. */
struct waiting_row {
    uint32_t batch;
    double at[3];
};
static const struct waiting_row waiting_table[] = {
    {1, {2.9, 4.3, 7.4}}, {2, {2.4, 3.1, 4.6}}, {4, {2, 2.4, 3.1}},
    {8, {2, 2, 2.4}},     {16, {2, 2, 2.1}},
};
static const double waiting_loads[] = {0.3, 0.5, 0.7};

double learnt_sojourn_ms(uint32_t batch, double latency_ms, double rate_per_s)
{
    enum { ROWS = sizeof waiting_table / sizeof waiting_table[0] };
    const struct waiting_row *row = &waiting_table[0];
    double load = rate_per_s / 1000 * latency_ms / batch;
    for (size_t i = 1; i < ROWS && waiting_table[i].batch <= batch; i++)
        row = &waiting_table[i];
    if (load > waiting_loads[2])
        return INFINITY;
    if (load <= waiting_loads[0])
        return row->at[0] * latency_ms;
    int right = load <= waiting_loads[1] ? 1 : 2;
    double part =
        (load - waiting_loads[right - 1]) / (waiting_loads[right] - waiting_loads[right - 1]);
    return (row->at[right - 1] + part * (row->at[right] - row->at[right - 1])) * latency_ms;
}

static double service_p99_ms(const struct learnt_kind *k, double interference)
{
    double best = INFINITY;
    for (size_t i = 0; i < k->batch_count; i++) {
        double latency_ms = interference * pwl_latency(&k->curves[i], SHARE_WHOLE_PERCENT);
        best = fmin(best, learnt_sojourn_ms(k->batches[i], latency_ms, k->rate_per_s));
    }
    return k->batch_count > 0 ? best : 0;
}

/* ---- sets ---- */

static const struct learnt_kind *kind_of(const struct learnt *l, uint32_t number)
{
    return &l->kinds[number < l->kind_count ? number : FORECAST_KIND_UNKNOWN];
}

static double interference(const struct learnt *l, const struct forecast_set *set, size_t own)
{
    struct task_profile neighbours[FEATURES_NEIGHBOURS_MAX];
    struct prediction prediction;
    size_t count = 0;
    for (size_t i = 0; i < set->count && count < FEATURES_NEIGHBOURS_MAX; i++)
        if (i != own)
            neighbours[count++] = kind_of(l, set->kinds[i])->features;
    predictor_predict(l->predictor, l->observations, &kind_of(l, set->kinds[own])->features,
                      neighbours, count, &prediction);
    return prediction.interference;
}

static double pd_of(const struct learnt_kind *k, double slowed)
{
    struct degradation_run run = {.batch_reference = k->batch_reference,
                                  .batch = k->batch,
                                  .time_reference = k->iteration_reference_ms,
                                  .time_beside = k->iteration_ms * slowed,
                                  .noise_scale = k->noise_scale};
    if (k->batch_reference == 0 || k->batch == 0 || k->batch == k->batch_reference ||
        !(k->iteration_ms > 0) || !(k->iteration_reference_ms > 0))
        return slowed;
    return degradation(&run);
}

static void compute(const struct learnt *l, const struct forecast_set *set,
                    struct forecast_answer *ret_answer)
{
    for (size_t i = 0; i < set->count; i++) {
        const struct learnt_kind *k = kind_of(l, set->kinds[i]);
        /* Equals stand beside each other, and have the same answer. */
        if (i > 0 && set->kinds[i] == set->kinds[i - 1]) {
            ret_answer->pd[i] = ret_answer->pd[i - 1];
            ret_answer->p99_ms[i] = ret_answer->p99_ms[i - 1];
            continue;
        }
        double slowed = interference(l, set, i);
        bool is_service = k->kind == WORKLOAD_SERVICE;
        ret_answer->pd[i] = is_service ? 1 : pd_of(k, slowed);
        ret_answer->p99_ms[i] = is_service && k->slo_ms > 0 ? service_p99_ms(k, slowed) : 0;
    }
}

static void forget(struct learnt *l)
{
    size_t cursor = 0;
    void *value;
    while (hash_map_next(&l->sets, &cursor, NULL, &value))
        free(value);
    hash_map_done(&l->sets);
    hash_map_init(&l->sets);
}

static bool is_same(const struct forecast_set *a, const struct forecast_set *b)
{
    return a->count == b->count && a->device->hash == b->device->hash &&
           memcmp(a->kinds, b->kinds, a->count * sizeof a->kinds[0]) == 0;
}

static void together(void *context, const struct forecast_set *set,
                     struct forecast_answer *ret_answer)
{
    struct learnt *l = context;
    uint64_t hash = hash_bytes(set->kinds, set->count * sizeof set->kinds[0], set->device->hash);
    struct remembered *r = hash_map_get(&l->sets, hash);
    if (r && is_same(&r->set, set)) {
        *ret_answer = r->answer;
        return;
    }
    compute(l, set, ret_answer);
    if (r)
        return; /* another set of the same hash */
    if (l->sets.count >= LEARNT_SETS_MAX)
        forget(l);
    r = malloc(sizeof *r);
    if (!r)
        return;
    *r = (struct remembered){.set = *set, .answer = *ret_answer};
    if (hash_map_put(&l->sets, hash, r) < 0)
        free(r);
}

static const struct forecast_profile *profile(void *context, const struct forecast_device *device,
                                              uint32_t kind)
{
    const struct learnt *l = context;
    (void)device;
    return kind > 0 && kind < l->kind_count ? &l->profiles[kind] : NULL;
}

/* Beside others all of it takes as much longer as the service is slowed. */
static bool curve(void *context, const struct forecast_set *beside, uint32_t service,
                  uint32_t batch, struct pwl_curve *ret_curve)
{
    const struct learnt *l = context;
    const struct learnt_kind *k = kind_of(l, service);
    struct forecast_set all = *beside;
    size_t b = 0;
    while (b < k->batch_count && k->batches[b] != batch)
        b++;
    if (b == k->batch_count || all.count >= FORECAST_MEMBERS_MAX)
        return false;
    double slowed = interference(l, &all, forecast_set_add(&all, service));
    *ret_curve = k->curves[b];
    ret_curve->knee_latency *= slowed;
    ret_curve->left_slope *= slowed;
    ret_curve->right_slope *= slowed;
    return true;
}

/* ---- life ---- */

struct learnt *learnt_new(void)
{
    struct learnt *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->kinds = calloc(LEARNT_KINDS_MAX, sizeof *l->kinds);
    l->profiles = calloc(LEARNT_KINDS_MAX, sizeof *l->profiles);
    hash_map_init(&l->sets);
    if (!l->kinds || !l->profiles) {
        learnt_free(l);
        return NULL;
    }
    l->kinds[0].features.sm_activity = UNKNOWN_ACTIVITY;
    l->kind_count = 1;
    l->forecast =
        (struct forecast){.context = l, .profile = profile, .together = together, .curve = curve};
    return l;
}

void learnt_free(struct learnt *l)
{
    if (!l)
        return;
    forget(l);
    hash_map_done(&l->sets);
    for (size_t i = 1; l->profiles && i < l->kind_count; i++)
        free((char *)(uintptr_t)l->profiles[i].name);
    free(l->kinds);
    free(l->profiles);
    free(l);
}

const struct forecast *learnt_forecast(const struct learnt *l)
{
    return &l->forecast;
}

int learnt_add_kind(struct learnt *l, const struct learnt_kind *kind, uint32_t *ret_number)
{
    if (l->kind_count == LEARNT_KINDS_MAX || kind->batch_count > LEARNT_BATCHES_MAX)
        return -ERR_TOO_LARGE;
    char *name = strdup(kind->name);
    if (!name)
        return -ERR_NO_MEMORY;
    struct learnt_kind *k = &l->kinds[l->kind_count];
    *k = *kind;
    k->name = name;
    l->profiles[l->kind_count] = (struct forecast_profile){.name = name,
                                                           .kind = k->kind,
                                                           .batch_reference = k->batch_reference,
                                                           .batch = k->batch,
                                                           .iteration_ms = k->iteration_ms,
                                                           .sm_activity = k->features.sm_activity,
                                                           .dram_rate = k->features.dram_rate,
                                                           .pcie_rate = k->features.pcie_rate,
                                                           .noise_scale = k->noise_scale,
                                                           .memory_bytes = k->memory_bytes,
                                                           .slo_ms = k->slo_ms,
                                                           .rate_per_s = k->rate_per_s,
                                                           .service_batch_count = k->batch_count,
                                                           .service_batches = k->batches};
    *ret_number = (uint32_t)l->kind_count++;
    return 0;
}

void learnt_set_model(struct learnt *l, const struct predictor *p, const struct observations *o)
{
    l->predictor = p;
    l->observations = o;
    l->forecast.version = p ? predictor_id(p) : 0;
    forget(l);
}
