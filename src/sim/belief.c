#include "sim/belief.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"
#include "sim/lessons.h"

enum {
    SETS_MAX = 1 << 16, /* sets with a stored guess */
    OCTAVE_PARTS = 4,
    GRID = 4 * OCTAVE_PARTS + 1, /* batch sizes from a quarter to four times the user's */
    SWEEPS = 3,
};

/* Stored PDs of a set of kinds on devices of one group. */
struct set_memory {
    size_t count, seen;
    uint32_t kinds[FORECAST_MEMBERS_MAX];
    double pds[FORECAST_MEMBERS_MAX];     /* means of the measurements, or the guess */
    uint64_t guessed_by;                  /* guess_version() of the guess */
    double batches[FORECAST_MEMBERS_MAX]; /* of a true belief */
};

/* A kind alone on devices of a group, at the batch size that it had there. */
struct alone {
    bool is_seen; /* measured; false: assumed as at the user's batch size */
    double pd;
    struct task_profile features;
};

struct belief {
    const struct truth *truth;
    const struct hardware *hardware;
    const struct serving *serving; /* NULL: no services */
    struct serving_ways ways;
    bool is_true;
    struct forecast forecast;
    struct belief_kind *kinds;
    size_t kind_count, kind_capacity;
    struct forecast_device types[HARDWARE_GROUPS_MAX];
    struct forecast_profile *profiles; /* index: group · BELIEF_KINDS_MAX + kind */
    struct alone *alone;               /* same index */
    struct lessons *lessons;
    uint64_t firsts;      /* number of first observations; earlier guesses are stale */
    struct hash_map sets; /* hash → set_memory; owned */
};

static uint64_t set_hash(size_t group, const uint32_t *kinds, size_t count)
{
    return hash_bytes(kinds, count * sizeof *kinds, hash_u64(group + 1));
}

static struct set_memory *find_set(const struct belief *b, size_t group, const uint32_t *kinds,
                                   size_t count)
{
    struct set_memory *m = hash_map_get(&b->sets, set_hash(group, kinds, count));
    bool is_it = m && m->count == count && memcmp(m->kinds, kinds, count * sizeof *kinds) == 0;
    return is_it ? m : NULL;
}

/* Adds a new set. Returns NULL if out of memory, or if the hash is taken, with a probability of
 * 2^-64. */
static struct set_memory *add_set(struct belief *b, size_t group, const uint32_t *kinds,
                                  size_t count)
{
    uint64_t hash = set_hash(group, kinds, count);
    if (hash_map_get(&b->sets, hash))
        return NULL;
    struct set_memory *m = calloc(1, sizeof *m);
    if (!m || hash_map_put(&b->sets, hash, m) < 0) {
        free(m);
        return NULL;
    }
    m->count = count;
    memcpy(m->kinds, kinds, count * sizeof *kinds);
    return m;
}

static size_t group_of(const struct belief *b, const struct forecast_device *device)
{
    for (size_t i = 0; i < b->hardware->group_count; i++)
        if (b->types[i].hash == device->hash)
            return i;
    return 0;
}

static const struct forecast_profile *profile(void *context, const struct forecast_device *device,
                                              uint32_t kind)
{
    const struct belief *b = context;
    if (kind == FORECAST_KIND_UNKNOWN || kind > b->kind_count)
        return NULL;
    return &b->profiles[group_of(b, device) * BELIEF_KINDS_MAX + kind - 1];
}

/* ---- the truth ---- */

static void true_pds(const struct belief *b, size_t group, const uint32_t *kinds, size_t count,
                     const double *batches, double *ret_pds)
{
    const struct hardware_gpu *gpu = b->hardware->groups[group].gpu;
    struct truth_resident residents[FORECAST_MEMBERS_MAX] = {0};
    for (size_t i = 0; i < count; i++)
        residents[i] = (struct truth_resident){
            .model = b->kinds[kinds[i] - 1].model, .batch = batches[i], .speed = 1};
    truth_slowdowns(b->truth, gpu, residents, count, ret_pds);
    for (size_t i = 0; i < count; i++)
        ret_pds[i] = truth_pd(b->truth, gpu, residents[i].model, batches[i],
                              b->kinds[kinds[i] - 1].batch, ret_pds[i]);
}

static double sum_of(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return sum;
}

static bool fits(const struct belief *b, size_t group, const uint32_t *kinds, size_t count,
                 const double *batches)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += truth_booking_bytes(b->truth, b->kinds[kinds[i] - 1].model, batches[i]);
    return bytes <= b->hardware->groups[group].memory_bytes;
}

/* Improves one batch size after another on the tuner's grid, while the mean PD falls. */
static void search_best(const struct belief *b, size_t group, const uint32_t *kinds, size_t count,
                        double *ret_batches, double *ret_pds)
{
    double tried[FORECAST_MEMBERS_MAX] = {0}, pds[FORECAST_MEMBERS_MAX];
    for (size_t i = 0; i < count; i++)
        tried[i] = b->kinds[kinds[i] - 1].batch;
    true_pds(b, group, kinds, count, tried, ret_pds);
    double best = sum_of(ret_pds, count);
    memcpy(ret_batches, tried, count * sizeof *tried);
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        double before = best;
        for (size_t i = 0; i < count; i++) {
            memcpy(tried, ret_batches, count * sizeof *tried);
            for (int step = 0; step < GRID && b->kinds[kinds[i] - 1].is_tuned; step++) {
                double octaves = (double)(step - GRID / 2) / OCTAVE_PARTS;
                tried[i] = fmax(1, round(b->kinds[kinds[i] - 1].batch * exp2(octaves)));
                if (!fits(b, group, kinds, count, tried))
                    continue;
                true_pds(b, group, kinds, count, tried, pds);
                if (sum_of(pds, count) >= best)
                    continue;
                best = sum_of(pds, count);
                memcpy(ret_batches, tried, count * sizeof *tried);
                memcpy(ret_pds, pds, count * sizeof *pds);
            }
        }
        if (best == before)
            break;
    }
}

void belief_best(struct belief *b, size_t group, const uint32_t *kinds, size_t count,
                 double *ret_batches, double *ret_pds)
{
    struct set_memory *m = find_set(b, group, kinds, count);
    if (!m || m->batches[0] == 0) {
        search_best(b, group, kinds, count, ret_batches, ret_pds);
        if (!m)
            m = add_set(b, group, kinds, count);
        if (!m)
            return;
        memcpy(m->batches, ret_batches, count * sizeof *ret_batches);
        memcpy(m->pds, ret_pds, count * sizeof *ret_pds);
    }
    memcpy(ret_batches, m->batches, count * sizeof *ret_batches);
    memcpy(ret_pds, m->pds, count * sizeof *ret_pds);
}

/* ---- learning ---- */

/* Returns the features of a kind alone at a batch size. */
static struct task_profile features_of(const struct belief *b, size_t group, uint32_t number,
                                       double batch)
{
    const struct hardware_group *h = &b->hardware->groups[group];
    const struct belief_kind *kind = &b->kinds[number - 1];
    struct table_size size = truth_alone(b->truth, h->gpu, kind->model, batch);
    return (struct task_profile){
        .family = kind->model + 1,
        .sm_activity = size.sm,
        .sm_occupancy = size.occupancy,
        .tensor_activity = size.tensor,
        .dram_rate = size.dram,
        .busy = size.busy,
        .memory_part =
            (double)truth_booking_bytes(b->truth, kind->model, batch) / (double)h->memory_bytes,
        .iteration_ms = size.iter_ms,
        .batch_log2 = log2(batch / kind->batch),
        .share = 1,
        .device_sms = h->gpu->sm_count,
        .device_gb_per_s = h->gpu->bandwidth_gb_s,
        .parameters = truth_tables(b->truth)->models[kind->model].parameters,
    };
}

/* Returns the stored figures of a kind on devices of a group. */
static struct alone *alone_of(const struct belief *b, size_t group, uint32_t kind)
{
    return &b->alone[group * BELIEF_KINDS_MAX + kind - 1];
}

static void believed(struct belief *b, size_t group, const uint32_t *kinds, size_t count,
                     double *ret_pds);

/* Returns the slowdown of the first kind by the second, relative to the first kind alone. */
static double slowed(struct belief *b, size_t group, uint32_t kind, uint32_t other)
{
    uint32_t pair[2] = {kind < other ? kind : other, kind < other ? other : kind};
    double pds[2];
    believed(b, group, pair, 2, pds);
    return fmax(1, pds[kind > other] / alone_of(b, group, kind)->pd);
}

static void guess(struct belief *b, size_t group, const uint32_t *kinds, size_t count,
                  double *ret_pds)
{
    for (size_t i = 0; i < count; i++) {
        const struct alone *own = alone_of(b, group, kinds[i]);
        double sum = 1; /* relative to the time alone */
        if (count == 2)
            sum = lessons_predict(b->lessons, &own->features,
                                  &alone_of(b, group, kinds[1 - i])->features);
        for (size_t j = 0; count > 2 && j < count; j++)
            sum += j == i ? 0 : slowed(b, group, kinds[i], kinds[j]) - 1;
        ret_pds[i] = own->pd * sum;
    }
}

/* Returns a version of the inputs of guesses. */
static uint64_t guess_version(const struct belief *b)
{
    return lessons_version(b->lessons) + b->firsts;
}

static void believed(struct belief *b, size_t group, const uint32_t *kinds, size_t count,
                     double *ret_pds)
{
    struct set_memory *m = find_set(b, group, kinds, count);
    if (!m && count > 0 && b->sets.count < SETS_MAX)
        m = add_set(b, group, kinds, count);
    if (m && m->seen == 0 && m->guessed_by != guess_version(b)) {
        guess(b, group, kinds, count, m->pds);
        m->guessed_by = guess_version(b);
    }
    if (m)
        memcpy(ret_pds, m->pds, count * sizeof *ret_pds);
    else
        guess(b, group, kinds, count, ret_pds);
}

/* Updates the PD of a kind alone, which is at most its PD beside others. */
static void teach_alone(struct belief *b, struct alone *own, double pd, bool is_alone,
                        const struct task_profile *features)
{
    if (is_alone) {
        b->firsts += !own->is_seen;
        *own = (struct alone){.is_seen = true, .pd = pd, .features = *features};
    } else if (!own->is_seen && pd < own->pd) {
        b->firsts++;
        own->pd = pd;
    }
}

/* Learns from a set that ran. */
static int teach(struct belief *b, size_t group, const struct set_memory *m, const double *batches,
                 const double *pds)
{
    for (size_t i = 0; i < m->count; i++) {
        struct task_profile features = features_of(b, group, m->kinds[i], batches[i]);
        teach_alone(b, alone_of(b, group, m->kinds[i]), m->pds[i], m->count == 1, &features);
    }
    for (size_t i = 0; m->count > 1 && i < m->count; i++) {
        const struct alone *own = alone_of(b, group, m->kinds[i]);
        struct task_profile others[FORECAST_MEMBERS_MAX];
        size_t other_count = 0;
        for (size_t j = 0; j < m->count; j++)
            if (j != i)
                others[other_count++] = alone_of(b, group, m->kinds[j])->features;
        if (own->is_seen)
            (void)lessons_add(b->lessons, &own->features, others, other_count, pds[i] / own->pd);
    }
    b->firsts += m->count == 2 && m->seen == 1;
    return lessons_revise(b->lessons);
}

int belief_observe(struct belief *b, size_t group, const uint32_t *kinds, size_t count,
                   const double *batches, const double *pds)
{
    if (b->is_true || count == 0 || count > FORECAST_MEMBERS_MAX)
        return 0;
    struct set_memory *m = find_set(b, group, kinds, count);
    if (!m)
        m = add_set(b, group, kinds, count);
    if (!m)
        return -ERR_NO_MEMORY;
    m->seen++;
    for (size_t i = 0; i < count; i++)
        m->pds[i] = m->seen == 1 ? pds[i] : m->pds[i] + (pds[i] - m->pds[i]) / (double)m->seen;
    b->forecast.version++;
    return teach(b, group, m, batches, pds);
}

/* ---- services ---- */

/* Margin over the mean request rate, which rises and falls over the day. */
static const double plan_rate = 1.5;

/* Returns the tasks of known kinds in a set, as residents at their users' batch sizes. */
static size_t residents_of(const struct belief *b, const struct forecast_set *set,
                           struct truth_resident *ret)
{
    size_t count = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct belief_kind *kind = set->kinds[i] ? &b->kinds[set->kinds[i] - 1] : NULL;
        if (kind && !kind->is_service)
            ret[count++] =
                (struct truth_resident){.model = kind->model, .batch = kind->batch, .speed = 1};
    }
    return count;
}

/* Returns the fraction of the SMs that the services of a set keep busy, except one. */
static double crowd_of(const struct belief *b, const struct forecast_set *set, size_t but)
{
    double crowd = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct belief_kind *kind = set->kinds[i] ? &b->kinds[set->kinds[i] - 1] : NULL;
        if (i == but || !kind || !kind->is_service)
            continue;
        const struct serving_profile *p = &b->serving->profiles[kind->service];
        crowd += p->width * serving_at(p, plan_rate * p->rate_per_s, 1, 1, 0).busy;
    }
    return crowd;
}

/* Computes the p99 of services, and their effect on the tasks. */
static void serve(const struct belief *b, const struct forecast_set *set, size_t group,
                  struct forecast_answer *answer)
{
    const struct hardware_gpu *gpu = b->hardware->groups[group].gpu;
    struct truth_resident tasks[FORECAST_MEMBERS_MAX] = {0};
    size_t task_count = residents_of(b, set, tasks);
    for (size_t i = 0; i < set->count; i++) {
        const struct belief_kind *kind = set->kinds[i] ? &b->kinds[set->kinds[i] - 1] : NULL;
        if (!kind || !kind->is_service)
            continue;
        const struct serving_profile *p = &b->serving->profiles[kind->service];
        struct serving_device d =
            serving_choose(b->truth, gpu, p, plan_rate * p->rate_per_s, &b->ways, tasks, task_count,
                           1, crowd_of(b, set, i));
        answer->p99_ms[i] = fmin(d.state.p99_ms, 1e6);
        for (size_t j = 0; j < set->count; j++) {
            const struct belief_kind *other = set->kinds[j] ? &b->kinds[set->kinds[j] - 1] : NULL;
            if (!other || other->is_service)
                continue;
            struct table_size alone = truth_alone(b->truth, gpu, other->model, other->batch);
            answer->pd[j] *= d.mode == SERVING_SPACE ? serving_squeeze(&alone, d.available)
                                                     : 1 / fmax(d.available, 0.01);
        }
    }
}

static bool curve(void *context, const struct forecast_set *beside, uint32_t service,
                  uint32_t batch, struct pwl_curve *ret_curve)
{
    const struct belief *b = context;
    struct truth_resident tasks[FORECAST_MEMBERS_MAX] = {0};
    const struct belief_kind *kind =
        service && service <= b->kind_count ? &b->kinds[service - 1] : NULL;
    if (!kind || !kind->is_service)
        return false;
    size_t task_count = residents_of(b, beside, tasks);
    double slower =
        task_count == 0
            ? 1
            : serving_beside(b->truth, b->hardware->groups[group_of(b, beside->device)].gpu, tasks,
                             task_count);
    serving_curve(&b->serving->profiles[kind->service], batch, slower, ret_curve);
    return true;
}

/* Predicts a set. Unknown kinds have a PD of 1 and slow no other kind. */
static void together(void *context, const struct forecast_set *set,
                     struct forecast_answer *ret_answer)
{
    struct belief *b = context;
    uint32_t kinds[FORECAST_MEMBERS_MAX] = {0};
    double pds[FORECAST_MEMBERS_MAX] = {0}, batches[FORECAST_MEMBERS_MAX];
    size_t known = 0, group = group_of(b, set->device);
    bool has_service = false;
    for (size_t i = 0; i < set->count; i++) {
        bool is_known = set->kinds[i] != FORECAST_KIND_UNKNOWN;
        if (is_known && b->kinds[set->kinds[i] - 1].is_service)
            has_service = true;
        else if (is_known)
            kinds[known++] = set->kinds[i];
    }
    if (b->is_true && known > 0)
        belief_best(b, group, kinds, known, batches, pds);
    else
        believed(b, group, kinds, known, pds);
    for (size_t i = 0, task = 0; i < set->count; i++) {
        bool is_task = task < known && set->kinds[i] == kinds[task];
        ret_answer->pd[i] = is_task ? pds[task++] : 1;
        ret_answer->p99_ms[i] = 0;
        ret_answer->is_p99_guess[i] = false;
    }
    if (has_service)
        serve(b, set, group, ret_answer);
}

/* ---- life ---- */

int belief_new(const struct belief_config *config, struct belief **ret_belief)
{
    const struct hardware *hardware = config->hardware;
    struct belief *b = calloc(1, sizeof *b);
    if (!b)
        return -ERR_NO_MEMORY;
    *b = (struct belief){.truth = config->truth,
                         .hardware = hardware,
                         .serving = config->serving,
                         .ways = config->ways,
                         .is_true = config->is_true};
    b->forecast = (struct forecast){
        .context = b, .version = 1, .profile = profile, .together = together, .curve = curve};
    hash_map_init(&b->sets);
    b->profiles = calloc(hardware->group_count * BELIEF_KINDS_MAX, sizeof *b->profiles);
    b->alone = calloc(hardware->group_count * BELIEF_KINDS_MAX, sizeof *b->alone);
    b->lessons = lessons_new(config->seed);
    if (!b->profiles || !b->alone || !b->lessons) {
        belief_free(b);
        return -ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < hardware->group_count; i++) {
        const struct hardware_group *group = &hardware->groups[i];
        struct device device = {.memory_bytes = group->memory_bytes,
                                .sm_count = group->gpu->sm_count};
        (void)str_copy(device.model, sizeof device.model, group->gpu->model);
        forecast_device_make(&device, &b->types[i]);
    }
    *ret_belief = b;
    return 0;
}

void belief_free(struct belief *b)
{
    size_t cursor = 0;
    uint64_t key;
    void *value;
    if (!b)
        return;
    while (hash_map_next(&b->sets, &cursor, &key, &value))
        free(value);
    hash_map_done(&b->sets);
    lessons_free(b->lessons);
    free(b->alone);
    free(b->profiles);
    free(b->kinds);
    free(b);
}

const struct forecast *belief_forecast(const struct belief *b)
{
    return &b->forecast;
}

const struct belief_kind *belief_kind(const struct belief *b, uint32_t number)
{
    return &b->kinds[number - 1];
}

static struct forecast_profile service_profile(const struct serving_profile *p)
{
    return (struct forecast_profile){
        .name = p->name,
        .kind = WORKLOAD_SERVICE,
        .batch_reference = 1,
        .batch = 1,
        .iteration_ms = p->base_ms + p->request_ms,
        .sm_activity = fmin(1, p->width * p->rate_per_s * (p->base_ms + p->request_ms) / 1000),
        .dram_rate = fmin(1, p->dram * p->rate_per_s * (p->base_ms + p->request_ms) / 1000),
        .memory_bytes = (uint64_t)p->memory_bytes,
        .slo_ms = p->slo_ms,
        .rate_per_s = p->rate_per_s,
        .service_batch_count = SERVING_BATCHES,
        .service_batches = serving_batches,
    };
}

static void make_profiles(struct belief *b, const struct belief_kind *kind, size_t index)
{
    for (size_t i = 0; i < b->hardware->group_count; i++) {
        if (kind->is_service) {
            b->profiles[i * BELIEF_KINDS_MAX + index] =
                service_profile(&b->serving->profiles[kind->service]);
            continue;
        }
        struct table_size size =
            truth_alone(b->truth, b->hardware->groups[i].gpu, kind->model, kind->batch);
        *alone_of(b, i, (uint32_t)index + 1) = (struct alone){
            .pd = 1, .features = features_of(b, i, (uint32_t)index + 1, kind->batch)};
        b->profiles[i * BELIEF_KINDS_MAX + index] = (struct forecast_profile){
            .name = truth_tables(b->truth)->models[kind->model].name,
            .kind = WORKLOAD_TASK,
            .batch_reference = (uint32_t)kind->batch,
            .batch = (uint32_t)kind->batch,
            .iteration_ms = size.iter_ms,
            .sm_activity = size.sm,
            .dram_rate = size.dram,
            .noise_scale = truth_tables(b->truth)->models[kind->model].noise_scale,
            .memory_bytes = truth_booking_bytes(b->truth, kind->model, kind->batch),
        };
    }
}

int belief_kind_of(struct belief *b, const struct belief_kind *kind, uint32_t *ret_number)
{
    for (size_t i = 0; i < b->kind_count; i++) {
        const struct belief_kind *k = &b->kinds[i];
        if (k->model == kind->model && k->batch == kind->batch && k->is_tuned == kind->is_tuned &&
            k->is_service == kind->is_service && k->service == kind->service) {
            *ret_number = (uint32_t)i + 1;
            return 0;
        }
    }
    if (b->kind_count == BELIEF_KINDS_MAX)
        return -ERR_TOO_LARGE;
    if (b->kind_count == b->kind_capacity) {
        size_t capacity = b->kind_capacity ? 2 * b->kind_capacity : 16;
        struct belief_kind *kinds = realloc(b->kinds, capacity * sizeof *kinds);
        if (!kinds)
            return -ERR_NO_MEMORY;
        b->kinds = kinds;
        b->kind_capacity = capacity;
    }
    b->kinds[b->kind_count] = *kind;
    make_profiles(b, kind, b->kind_count);
    *ret_number = (uint32_t)++b->kind_count;
    return 0;
}
