#include "policy/learnt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "learn/degradation.h"

enum { SHARE_WHOLE_PERCENT = 100 };
/* Features assumed for an unknown kind, which uses most of the SMs. */
static const struct task_profile unknown_features = {.sm_activity = 0.75};

struct remembered {
    uint64_t device; /* hash of the type, which may be freed earlier */
    size_t count;
    uint32_t kinds[FORECAST_MEMBERS_MAX];
    struct forecast_answer answer;
};

/* A kind on one type of device. */
struct known {
    struct known *next;
    uint64_t device;
    char *name; /* owned */
    struct learnt_kind kind;
    struct forecast_profile profile;
};

struct learnt {
    struct forecast forecast;
    struct known **kinds; /* by number, in order of arrival */
    const struct predictor *predictor;
    const struct observations *observations;
    struct hash_map sets; /* hash of a set → remembered; owned */
};

/* ---- services ---- */

/* Ratio of the p99 time in the system to the time of a batch, at 30, 50 and 70 % of the
 * capacity. */
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

/* Returns the slowdown of `own` measured beside exactly the other members; 0: not measured. */
static double measured_slowdown(const struct learnt_kind *k, const struct forecast_set *set,
                                size_t own)
{
    struct forecast_set others = *set;
    forecast_set_remove(&others, own);
    for (size_t i = 0; i < k->beside_count; i++)
        if (k->besides[i].count == others.count &&
            memcmp(k->besides[i].kinds, others.kinds, others.count * sizeof others.kinds[0]) == 0)
            return k->besides[i].slowdown;
    return others.count == 0 ? 1 : 0;
}

/* Predicts the p99 of the service `own`. Without a measurement, `slowed` is the slowdown by the
 * other members. */
static void forecast_p99(const struct learnt_kind *k, const struct forecast_set *set, size_t own,
                         double slowed, struct forecast_answer *answer)
{
    double measured = measured_slowdown(k, set, own);
    if (!(k->slo_ms > 0))
        return;
    if (!(k->p99_ms > 0)) {
        answer->p99_ms[own] = service_p99_ms(k, slowed);
        return;
    }
    answer->p99_ms[own] = k->p99_ms * (measured > 0 ? measured : fmax(1, slowed));
    bool is_too_long = k->is_p99_recent && k->p99_ms > k->slo_ms;
    answer->is_p99_guess[own] =
        set->count == 1 ? !k->is_p99_recent : !(measured > 0) && !is_too_long;
}

/* ---- sets ---- */

/* Returns NULL for an unknown kind. */
static const struct known *find(const struct learnt *l, uint32_t number, uint64_t device)
{
    const struct known *other = NULL;
    for (const struct known *k = number < LEARNT_KINDS_MAX ? l->kinds[number] : NULL; k;
         k = k->next) {
        if (k->device == device)
            return k;
        if (!other || k->device == LEARNT_ANY_DEVICE)
            other = k;
    }
    return other;
}

static const struct learnt_kind *kind_of(const struct learnt *l, const struct forecast_set *set,
                                         size_t i)
{
    static const struct learnt_kind unknown = {.name = "", .is_unmeasured = true};
    const struct known *k = find(l, set->kinds[i], set->device->hash);
    return k ? &k->kind : &unknown;
}

static const struct task_profile *features_of(const struct learnt_kind *k)
{
    return k->is_unmeasured ? &unknown_features : &k->features;
}

/* Returns the slowdown assumed for unknown workloads in a set of this size. */
static double blind_slowdown(const struct forecast_set *set)
{
    struct forecast_answer answer;
    forecast_blind.together(forecast_blind.context, set, &answer);
    return answer.pd[0];
}

/* Predicts the slowdown of the member `own`. The effect of unmeasured neighbours is a guess. */
static double interference(const struct learnt *l, const struct forecast_set *set, size_t own)
{
    struct task_profile neighbours[FEATURES_NEIGHBOURS_MAX];
    const struct learnt_kind *k = kind_of(l, set, own);
    struct prediction known, all;
    size_t measured = 0, count = 0;
    for (size_t i = 0; i < set->count && count < FEATURES_NEIGHBOURS_MAX; i++)
        if (i != own && !kind_of(l, set, i)->is_unmeasured)
            neighbours[count++] = kind_of(l, set, i)->features;
    measured = count;
    for (size_t i = 0; i < set->count && count < FEATURES_NEIGHBOURS_MAX; i++)
        if (i != own && kind_of(l, set, i)->is_unmeasured)
            neighbours[count++] = unknown_features;
    bool is_guess = k->is_unmeasured || measured < count;
    predictor_predict(is_guess ? NULL : l->predictor, is_guess ? NULL : l->observations,
                      features_of(k), neighbours, count, &all);
    if (all.source == PREDICTOR_COLD)
        all.interference = fmin(all.interference, blind_slowdown(set));
    if (!is_guess || k->is_unmeasured)
        return all.interference;
    predictor_predict(l->predictor, l->observations, &k->features, neighbours, measured, &known);
    if (known.source == PREDICTOR_COLD)
        return all.interference;
    return fmax(all.interference, known.interference);
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
        const struct learnt_kind *k = kind_of(l, set, i);
        /* Equal kinds are adjacent and have the same answer. */
        if (i > 0 && set->kinds[i] == set->kinds[i - 1]) {
            ret_answer->pd[i] = ret_answer->pd[i - 1];
            ret_answer->p99_ms[i] = ret_answer->p99_ms[i - 1];
            ret_answer->is_p99_guess[i] = ret_answer->is_p99_guess[i - 1];
            continue;
        }
        double slowed = interference(l, set, i);
        bool is_service = k->kind == WORKLOAD_SERVICE;
        ret_answer->pd[i] = is_service ? 1 : pd_of(k, slowed);
        ret_answer->p99_ms[i] = 0;
        ret_answer->is_p99_guess[i] = false;
        if (is_service)
            forecast_p99(k, set, i, slowed, ret_answer);
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

static bool is_of(const struct remembered *r, const struct forecast_set *set)
{
    return r->count == set->count && r->device == set->device->hash &&
           memcmp(r->kinds, set->kinds, r->count * sizeof r->kinds[0]) == 0;
}

static void together(void *context, const struct forecast_set *set,
                     struct forecast_answer *ret_answer)
{
    struct learnt *l = context;
    uint64_t hash = hash_bytes(set->kinds, set->count * sizeof set->kinds[0], set->device->hash);
    struct remembered *r = hash_map_get(&l->sets, hash);
    if (r && is_of(r, set)) {
        *ret_answer = r->answer;
        return;
    }
    compute(l, set, ret_answer);
    if (r)
        return; /* a different set with the same hash */
    if (l->sets.count >= LEARNT_SETS_MAX)
        forget(l);
    r = malloc(sizeof *r);
    if (!r)
        return;
    *r = (struct remembered){
        .device = set->device->hash, .count = set->count, .answer = *ret_answer};
    memcpy(r->kinds, set->kinds, set->count * sizeof set->kinds[0]);
    if (hash_map_put(&l->sets, hash, r) < 0)
        free(r);
}

static const struct forecast_profile *profile(void *context, const struct forecast_device *device,
                                              uint32_t kind)
{
    const struct learnt *l = context;
    const struct known *k = find(l, kind, device->hash);
    /* A service has a profile even if it was never measured. */
    return k && (!k->kind.is_unmeasured || k->kind.kind == WORKLOAD_SERVICE) ? &k->profile : NULL;
}

/* Scales the whole curve by the service's slowdown beside the others. */
static bool curve(void *context, const struct forecast_set *beside, uint32_t service,
                  uint32_t batch, struct pwl_curve *ret_curve)
{
    const struct learnt *l = context;
    const struct known *k = find(l, service, beside->device->hash);
    struct forecast_set all = *beside;
    size_t b = 0;
    while (k && b < k->kind.batch_count && k->kind.batches[b] != batch)
        b++;
    if (!k || b == k->kind.batch_count || all.count >= FORECAST_MEMBERS_MAX)
        return false;
    double slowed = interference(l, &all, forecast_set_add(&all, service));
    *ret_curve = k->kind.curves[b];
    ret_curve->knee_latency *= slowed;
    ret_curve->left_slope *= slowed;
    ret_curve->right_slope *= slowed;
    return true;
}

/* ---- kinds ---- */

static void known_free(struct known *k)
{
    free(k->name);
    free(k);
}

static void known_fill(struct known *k, uint64_t device, const struct learnt_kind *kind)
{
    k->device = device;
    k->kind = *kind;
    k->kind.name = k->name;
    k->profile = (struct forecast_profile){.name = k->name,
                                           .kind = kind->kind,
                                           .batch_reference = kind->batch_reference,
                                           .batch = kind->batch,
                                           .iteration_ms = kind->iteration_ms,
                                           .sm_activity = kind->features.sm_activity,
                                           .dram_rate = kind->features.dram_rate,
                                           .pcie_rate = kind->features.pcie_rate,
                                           .noise_scale = kind->noise_scale,
                                           .memory_bytes = kind->memory_bytes,
                                           .slo_ms = kind->slo_ms,
                                           .rate_per_s = kind->rate_per_s,
                                           .service_batch_count = kind->batch_count,
                                           .service_batches = k->kind.batches};
}

/* Invalidates all earlier answers. */
static void changed(struct learnt *l, uint64_t by)
{
    l->forecast.version = hash_u64(l->forecast.version ^ hash_u64(by));
    forget(l);
}

int learnt_set_kind(struct learnt *l, uint32_t number, uint64_t device,
                    const struct learnt_kind *kind)
{
    size_t count = 0;
    if (number == FORECAST_KIND_UNKNOWN || number >= LEARNT_KINDS_MAX ||
        kind->batch_count > LEARNT_BATCHES_MAX || kind->beside_count > LEARNT_BESIDES_MAX)
        return -ERR_TOO_LARGE;
    struct known **at = &l->kinds[number];
    for (; *at && (*at)->device != device; at = &(*at)->next)
        count++;
    if (!*at && count == LEARNT_DEVICES_MAX)
        return -ERR_TOO_LARGE;
    struct known *k = calloc(1, sizeof *k);
    if (k)
        k->name = strdup(kind->name);
    if (!k || !k->name) {
        free(k);
        return -ERR_NO_MEMORY;
    }
    known_fill(k, device, kind);
    if (*at) {
        struct known *before = *at;
        k->next = before->next;
        known_free(before);
    }
    *at = k;
    changed(l, hash_bytes(&kind->features, sizeof kind->features, device ^ number));
    return 0;
}

void learnt_forget_kind(struct learnt *l, uint32_t number)
{
    if (number >= LEARNT_KINDS_MAX || !l->kinds[number])
        return;
    while (l->kinds[number]) {
        struct known *k = l->kinds[number];
        l->kinds[number] = k->next;
        known_free(k);
    }
    changed(l, number);
}

void learnt_set_model(struct learnt *l, const struct predictor *p, const struct observations *o)
{
    l->predictor = p;
    l->observations = o;
    changed(l, (p ? predictor_id(p) : 0) ^ hash_u64(o ? observations_total(o) : 0));
}

/* ---- life ---- */

struct learnt *learnt_new(void)
{
    struct learnt *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->kinds = calloc(LEARNT_KINDS_MAX, sizeof(*l->kinds));
    hash_map_init(&l->sets);
    if (!l->kinds) {
        learnt_free(l);
        return NULL;
    }
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
    for (uint32_t i = 0; l->kinds && i < LEARNT_KINDS_MAX; i++)
        while (l->kinds[i]) {
            struct known *k = l->kinds[i];
            l->kinds[i] = k->next;
            known_free(k);
        }
    free(l->kinds);
    free(l);
}

const struct forecast *learnt_forecast(const struct learnt *l)
{
    return &l->forecast;
}
