#include "control/learning.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "policy/learnt.h"

enum {
    MEASUREMENT_MS = 1000,            /* shortest time that a measurement spans */
    INTERVAL_MS_MAX = 10 * 60 * 1000, /* longest time between two kept measurements of one set */
    SPEEDS_COUNTED = 16,              /* number of measurements in the mean of a speed alone */
    REQUESTS_COUNTED = 8,             /* number of measurements in the mean of a p99 */
    /* new measurements before training, plus the part below of the old ones */
    TRAIN_AFTER_MIN = 12,
    TRAIN_AFTER_PART = 4,
    TELL_MS = 10 * 1000, /* shortest time between two outcomes of a slow task */
    OLD_MS = 60 * 1000,  /* time between two searches for stale measurements */
};
static const double watch_step_s_max = 10; /* longest time between two reports of one watch */
static const double watch_memory_s = 600;  /* time that the means of a program alone remember */
/* time alone until a program with reported speed is known */
static const double settle_s = 1;
/* time alone until a program without reported speed is known */
static const double settle_silent_s = 5;
static const double p99_ms_min = 1e-3, p99_ms_max = 1e9;
/* Changes below these limits leave a program the same, and its measurements beside others
 * comparable. */
static const double drift_part = 0.1, drift_ratio = 1.25;

struct watched_member {
    int64_t began_ms; /* start of the last measurement that counted */
    double log_sum;   /* sum of log interference since the last kept measurement */
    size_t count;     /* number of terms in log_sum */
    size_t kept;
    int64_t next_ms; /* time before which no measurement is kept */
    int64_t interval_ms;
    /* The task's progress on this device: */
    double predicted_pd;    /* 0: not measured yet */
    double measured_log_pd; /* mean */
    size_t measured;        /* number of measurements in measured_log_pd */
    double told_log_pd;
    int64_t told_ms; /* 0: never */
    /* The service's requests: */
    /* p99 when the set came together, before its members could slow each other; -1: unknown */
    double first_p99_ms;
    int64_t served_ms; /* time up to which requests were counted */
};

/* A device and the set of programs on it. */
struct watch {
    uint64_t set;     /* hash of the set */
    int64_t since_ms; /* start of the time with all members at work; 0: not all at work */
    int64_t seen_ms;
    struct watched_member members[LEARNING_MEMBERS_MAX];
};

struct learning {
    struct programs *programs;
    struct observations *measurements;
    struct predictor *model; /* NULL: none */
    uint64_t trained_total;
    struct learnt *learnt;
    struct hash_map watches; /* hash of the uuid → watch; owned */
    /* Content that the forecast lacks: */
    bool is_due[PROGRAMS_MAX]; /* measurements of these programs alone */
    bool has_measured;         /* measurements of interference */
    bool changed;              /* any of the above, or content that the forecast got directly */
    size_t outcome_count;      /* outcomes not taken yet */
    struct learning_outcome outcomes[LEARNING_OUTCOMES_MAX];
    uint64_t programs_version, measurements_version;
    /* times of the last publication and of the last search for stale measurements */
    int64_t now_wall_ms, looked_wall_ms;
};

/* ---- life ---- */

static void forget_watches(struct learning *l)
{
    size_t cursor = 0;
    void *value;
    while (hash_map_next(&l->watches, &cursor, NULL, &value))
        free(value);
    hash_map_done(&l->watches);
    hash_map_init(&l->watches);
}

struct learning *learning_new(void)
{
    struct learning *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    hash_map_init(&l->watches);
    l->programs = programs_new();
    l->measurements = observations_new(1);
    l->learnt = learnt_new();
    if (!l->programs || !l->measurements || !l->learnt) {
        learning_free(l);
        return NULL;
    }
    learnt_set_model(l->learnt, NULL, l->measurements);
    return l;
}

void learning_free(struct learning *l)
{
    if (!l)
        return;
    forget_watches(l);
    hash_map_done(&l->watches);
    learnt_free(l->learnt);
    programs_free(l->programs);
    observations_free(l->measurements);
    predictor_free(l->model);
    free(l);
}

const struct forecast *learning_forecast(const struct learning *l)
{
    return learnt_forecast(l->learnt);
}

const struct programs *learning_programs(const struct learning *l)
{
    return l->programs;
}

const struct observations *learning_measurements(const struct learning *l)
{
    return l->measurements;
}

uint64_t learning_programs_version(const struct learning *l)
{
    return l->programs_version;
}

uint64_t learning_measurements_version(const struct learning *l)
{
    return l->measurements_version;
}

/* ---- the model ---- */

bool learning_wants_model(const struct learning *l)
{
    uint64_t total = observations_total(l->measurements);
    if (total < PREDICTOR_OBSERVATIONS_MIN)
        return false;
    return !l->model ||
           total >= l->trained_total + l->trained_total / TRAIN_AFTER_PART + TRAIN_AFTER_MIN;
}

static void take_model(struct learning *l, struct predictor *model)
{
    learnt_set_model(l->learnt, model, l->measurements);
    predictor_free(l->model);
    l->model = model;
    l->changed = true;
}

void learning_set_model(struct learning *l, struct predictor *model, uint64_t total)
{
    take_model(l, model);
    l->trained_total = total;
}

/* ---- programs ---- */

/* Converts a measurement beside others. Returns false if a neighbour's program is unknown now. */
static bool teach_beside(const struct learning *l, const struct program_beside *b,
                         struct learnt_beside *ret_beside)
{
    struct forecast_set others = {0};
    for (size_t i = 0; i < b->count; i++) {
        uint32_t number = programs_find(l->programs, b->keys[i]);
        if (number == 0)
            return false;
        (void)forecast_set_add(&others, number);
    }
    *ret_beside = (struct learnt_beside){.count = b->count, .slowdown = b->requests.p99};
    memcpy(ret_beside->kinds, others.kinds, b->count * sizeof others.kinds[0]);
    return true;
}

static void teach_requests(const struct learning *l, struct program *p, struct program_alone *alone,
                           struct learnt_kind *kind)
{
    struct program_requests *q = &alone->requests;
    if (q->count < PROGRAM_REQUESTS_MIN)
        return;
    kind->p99_ms = q->told = q->p99;
    kind->is_p99_recent = q->told_as_recent = program_is_recent(q, l->now_wall_ms);
    for (size_t i = 0; i < p->beside_count; i++) {
        struct program_beside *b = &p->besides[i];
        if (b->device != alone->device || !program_beside_is_known(b) ||
            !teach_beside(l, b, &kind->besides[kind->beside_count]))
            continue;
        kind->beside_count++;
        b->requests.told = b->requests.p99;
        b->requests.told_as_recent = true;
    }
}

/* Updates the forecast with the knowledge of a program on one type of device. */
static int teach(struct learning *l, uint32_t number, struct program *p,
                 struct program_alone *alone)
{
    bool is_known = alone && alone->settled_s > 0;
    struct learnt_kind kind = {.name = p->name,
                               .kind = p->kind,
                               .batch_reference = p->batch,
                               .batch = p->batch,
                               .is_unmeasured = !is_known,
                               .slo_ms = p->slo_ms};
    if (is_known) {
        kind.features = alone->features;
        kind.iteration_ms = kind.iteration_reference_ms = alone->features.iteration_ms;
        teach_requests(l, p, alone, &kind);
    }
    l->changed = true;
    return learnt_set_kind(l->learnt, number, alone ? alone->device : LEARNT_ANY_DEVICE, &kind);
}

static void teach_due(struct learning *l, uint32_t number)
{
    struct program *p = programs_at(l->programs, number);
    for (size_t i = 0; p && i < p->alone_count; i++)
        if (p->alone[i].settled_s > 0)
            (void)teach(l, number, p, &p->alone[i]);
    l->is_due[number] = false;
}

/* Marks stale measurements for publication: they exclude no placement any more, so that they are
 * measured again. */
static void look_for_old(struct learning *l)
{
    if (llabs(l->now_wall_ms - l->looked_wall_ms) < OLD_MS)
        return;
    for (uint32_t n = 1; n < PROGRAMS_MAX; n++) {
        struct program *p = programs_at(l->programs, n);
        bool is_old = p && program_forget_besides(p, l->now_wall_ms);
        for (size_t i = 0; p && !is_old && i < p->alone_count; i++) {
            const struct program_requests *q = &p->alone[i].requests;
            is_old = q->told > 0 && q->told_as_recent != program_is_recent(q, l->now_wall_ms);
        }
        if (is_old)
            l->is_due[n] = l->changed = true;
    }
    l->looked_wall_ms = l->now_wall_ms;
}

bool learning_publish(struct learning *l, int64_t now_wall_ms)
{
    l->now_wall_ms = now_wall_ms;
    look_for_old(l);
    if (!l->changed)
        return false;
    for (uint32_t n = 1; n < PROGRAMS_MAX; n++)
        if (l->is_due[n])
            teach_due(l, n);
    if (l->has_measured)
        learnt_set_model(l->learnt, l->model, l->measurements);
    l->has_measured = l->changed = false;
    return true;
}

uint32_t learning_program(struct learning *l, const char *user, const struct workload_spec *spec,
                          int64_t now_wall_ms)
{
    struct program program;
    uint32_t number;
    size_t before = programs_count(l->programs);
    program_identify(user, spec, &program);
    if (programs_number(l->programs, &program, now_wall_ms, &number) < 0)
        return 0;
    /* The forecast must know that the program is a service. */
    if (programs_count(l->programs) > before && program.kind == WORKLOAD_SERVICE)
        (void)teach(l, number, &program, NULL);
    return number;
}

bool learning_is_known(const struct learning *l, uint32_t program)
{
    const struct program *p = programs_at(l->programs, program);
    bool is_known = p && (p->kind == WORKLOAD_SERVICE || p->is_met);
    for (size_t i = 0; p && !is_known && i < p->alone_count; i++)
        is_known = p->alone[i].settled_s > 0;
    return is_known;
}

static void forget_program(void *arg, uint32_t number)
{
    struct learning *l = arg;
    l->is_due[number] = false;
    learnt_forget_kind(l->learnt, number);
}

void learning_make_room(struct learning *l, const bool used[PROGRAMS_MAX], int64_t since_wall_ms)
{
    programs_make_room(l->programs, used, since_wall_ms, forget_program, l);
    l->programs_version++;
}

int learning_restore(struct learning *l, struct programs *programs,
                     struct observations *measurements, struct predictor *model)
{
    int r = 0;
    if (programs) {
        programs_free(l->programs);
        l->programs = programs;
    }
    for (uint32_t n = 1; programs && n < PROGRAMS_MAX; n++) {
        struct program *p = programs_at(programs, n);
        for (size_t i = 0; p && r == 0 && i < p->alone_count; i++)
            r = teach(l, n, p, &p->alone[i]);
    }
    if (measurements) {
        learnt_set_model(l->learnt, l->model, measurements);
        observations_free(l->measurements);
        l->measurements = measurements;
    }
    if (model) {
        take_model(l, model);
        l->trained_total = observations_total(l->measurements);
    }
    return r;
}

/* ---- outcomes ---- */

bool learning_take_outcome(struct learning *l, struct learning_outcome *ret_outcome)
{
    if (l->outcome_count == 0)
        return false;
    *ret_outcome = l->outcomes[--l->outcome_count];
    return true;
}

/* Adds a measurement of a task's PD, and an outcome if due. */
static void fare(struct learning *l, struct watched_member *m, const struct learning_report *r,
                 size_t i, double log_pd)
{
    const struct program *p = programs_at(l->programs, r->members[i].program);
    if (p->kind != WORKLOAD_TASK || l->outcome_count == LEARNING_OUTCOMES_MAX)
        return;
    m->measured += m->measured < SPEEDS_COUNTED;
    m->measured_log_pd += (log_pd - m->measured_log_pd) / (double)m->measured;
    if (m->measured < OBSERVATIONS_PATTERN_MIN)
        return;
    bool is_slower = m->measured_log_pd > log(drift_ratio * m->predicted_pd);
    bool is_news = m->told_ms == 0 || fabs(m->measured_log_pd - m->told_log_pd) > drift_part;
    if (!is_news && !(is_slower && r->now_ms - m->told_ms >= TELL_MS))
        return;
    m->told_ms = r->now_ms;
    m->told_log_pd = m->measured_log_pd;
    l->outcomes[l->outcome_count++] = (struct learning_outcome){.workload = r->members[i].workload,
                                                                .attempt = r->members[i].attempt,
                                                                .pd = exp(m->measured_log_pd),
                                                                .predicted_pd = m->predicted_pd};
}

/* Records the predictions for the set before its first measurement. */
static void predict(const struct learning *l, struct watch *w, const struct learning_report *r)
{
    const struct forecast *f = learning_forecast(l);
    struct forecast_set set = {.device = r->type};
    struct forecast_answer answer;
    if (w->members[0].predicted_pd > 0)
        return;
    for (size_t i = 0; i < r->count; i++)
        (void)forecast_set_add(&set, r->members[i].program);
    f->together(f->context, &set, &answer);
    for (size_t i = 0; i < r->count; i++)
        for (size_t k = 0; k < set.count; k++)
            if (set.kinds[k] == r->members[i].program)
                w->members[i].predicted_pd = answer.pd[k];
}

/* ---- requests ---- */

/* Returns whether the service reports plausible latencies, for this device alone. */
static bool says_requests(const struct learning_member *m)
{
    return m->p99_ms >= p99_ms_min && m->p99_ms <= p99_ms_max && m->requests > 0 && !m->is_gang;
}

/* Returns whether the measurement of latencies is new, and began after the set came together. */
static bool is_served(const struct watch *w, const struct learning_report *r, size_t i)
{
    const struct learning_member *m = &r->members[i];
    int64_t began_ms = r->now_ms - m->latency_since_ms;
    return m->latency_since_ms >= 0 && began_ms >= w->since_ms + LEARNING_SETTLE_MS &&
           began_ms >= w->members[i].served_ms;
}

/* Adds a measurement of a p99. The mean soon covers only the last few, and a change is
 * published. */
static void learn_requests(struct learning *l, const struct learning_report *r, size_t own,
                           double p99, struct program_requests *q)
{
    const struct learning_member *m = &r->members[own];
    double before = q->count > 0 ? q->p99 : p99;
    q->count += (double)m->requests;
    q->measured_wall_ms = r->now_wall_ms;
    double weight = fmax((double)m->requests / q->count, 1.0 / REQUESTS_COUNTED);
    q->p99 = before * pow(p99 / before, weight);
    bool is_news = q->told == 0 || !q->told_as_recent || fabs(log(q->p99 / q->told)) > drift_part;
    if (!is_news)
        return;
    l->programs_version++;
    if (q->count >= PROGRAM_REQUESTS_MIN)
        l->is_due[m->program] = l->changed = true;
}

static void serve_alone(struct learning *l, struct watch *w, const struct learning_report *r,
                        struct program_alone *alone)
{
    if (!says_requests(&r->members[0]) || !is_served(w, r, 0))
        return;
    w->members[0].served_ms = r->now_ms;
    learn_requests(l, r, 0, r->members[0].p99_ms, &alone->requests);
}

/* Returns the measurements beside this set; NULL: too many members, or an unknown program. */
static struct program_beside *beside_of(const struct learning *l, const struct learning_report *r,
                                        size_t own, struct program *p)
{
    uint64_t keys[PROGRAM_NEIGHBOURS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < r->count; i++) {
        const struct program *other = programs_at(l->programs, r->members[i].program);
        size_t at = count;
        if (i == own)
            continue;
        if (!other || count == PROGRAM_NEIGHBOURS_MAX)
            return NULL;
        for (; at > 0 && keys[at - 1] > other->key; at--)
            keys[at] = keys[at - 1];
        keys[at] = other->key;
        count++;
    }
    return program_beside_add(p, r->type->hash, keys, count);
}

/*
 * Returns whether a service misses its SLO beside this set. Such a service loses its neighbours
 * before a whole measurement. An earlier measurement covers time alone too, so that a p99 above the
 * first one is a lower bound. The bound is used until a measurement exists.
 */
static bool is_missed(const struct watch *w, const struct learning_report *r, size_t own,
                      const struct program *p)
{
    const struct learning_member *m = &r->members[own];
    double first_ms = w->members[own].first_p99_ms;
    return w->members[own].served_ms == 0 && p->slo_ms > 0 && m->p99_ms > p->slo_ms &&
           m->requests >= PROGRAM_REQUESTS_MIN && first_ms > 0 &&
           m->p99_ms > drift_ratio * first_ms;
}

static void serve_beside(struct learning *l, struct watch *w, const struct learning_report *r,
                         size_t own)
{
    const struct learning_member *m = &r->members[own];
    struct program *p = programs_at(l->programs, m->program);
    struct program_alone *alone = p ? program_alone(p, r->type->hash) : NULL;
    if (!alone || alone->requests.count < PROGRAM_REQUESTS_MIN || !says_requests(m))
        return;
    double slowdown = m->p99_ms / alone->requests.p99;
    bool is_bound = !is_served(w, r, own);
    if (is_bound && !is_missed(w, r, own, p))
        return;
    struct program_beside *b = beside_of(l, r, own, p);
    if (!b || (is_bound && slowdown <= b->requests.p99))
        return;
    if (is_bound || b->is_bound)
        b->requests = (struct program_requests){0};
    b->is_bound = is_bound;
    learn_requests(l, r, own, slowdown, &b->requests);
    if (!is_bound)
        w->members[own].served_ms = r->now_ms;
    /* From now on the forecast must distinguish these programs. */
    for (size_t i = 0; program_beside_is_known(b) && i < r->count; i++)
        programs_at(l->programs, r->members[i].program)->is_met = true;
}

/* ---- alone ---- */

/* Returns whether the measurement of speed is new, and began after the set came together. */
static bool is_measured(const struct watch *w, const struct learning_report *r, size_t i)
{
    const struct learning_member *m = &r->members[i];
    int64_t began_ms = r->now_ms - m->speed_since_ms;
    return m->speed_since_ms >= 0 && m->samples_per_s > 0 && !m->is_gang &&
           began_ms >= w->since_ms + LEARNING_SETTLE_MS &&
           began_ms >= w->members[i].began_ms + MEASUREMENT_MS / 2;
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= drift_part;
}

static bool is_alike(const struct task_profile *a, const struct task_profile *b)
{
    double least = fmin(a->iteration_ms, b->iteration_ms);
    return is_near(a->sm_activity, b->sm_activity) && is_near(a->dram_rate, b->dram_rate) &&
           is_near(a->memory_part, b->memory_part) &&
           fmax(a->iteration_ms, b->iteration_ms) <= drift_ratio * least;
}

/* Updates the program's features: soon at first, and then whenever the time watched has doubled. */
static void settle(struct learning *l, uint32_t number, const struct program *p,
                   struct program_alone *alone, const struct forecast_device *type)
{
    struct task_profile features;
    bool says_more = alone->speeds > 0 || p->kind == WORKLOAD_SERVICE;
    if (alone->watched_s < (says_more ? settle_s : settle_silent_s) ||
        alone->watched_s < 2 * alone->settled_s)
        return;
    program_features(p, alone, type, &features);
    bool is_new = alone->settled_s == 0 || !is_alike(&features, &alone->features);
    alone->settled_s = alone->watched_s;
    l->programs_version++;
    if (!is_new)
        return;
    alone->features = features;
    l->is_due[number] = l->changed = true;
}

static void learn_speed(struct learning *l, struct program_alone *alone, double samples_per_s)
{
    bool is_power_of_two = (alone->speeds & (alone->speeds + 1)) == 0;
    if (alone->speeds < SPEEDS_COUNTED) {
        alone->speeds++;
        l->programs_version += is_power_of_two; /* the first measurements change the mean most */
    }
    alone->samples_per_s += (samples_per_s - alone->samples_per_s) / alone->speeds;
}

static void watch_alone(struct learning *l, struct watch *w, const struct learning_report *r,
                        double step_s)
{
    const struct learning_member *m = &r->members[0];
    struct program *p = programs_at(l->programs, m->program);
    struct program_alone *alone =
        p && r->sm_activity >= 0 ? program_alone_add(p, r->type->hash) : NULL;
    if (!alone)
        return;
    alone->watched_s += step_s;
    double weight = alone->watched_s > 0 ? step_s / fmin(alone->watched_s, watch_memory_s) : 0;
    alone->sm_activity += weight * (r->sm_activity - alone->sm_activity);
    alone->dram_rate += weight * (fmax(0, r->dram_rate) - alone->dram_rate);
    if (r->type->memory_bytes > 0)
        alone->memory_part =
            fmax(alone->memory_part, (double)m->memory_bytes / (double)r->type->memory_bytes);
    if (is_measured(w, r, 0)) {
        w->members[0].began_ms = r->now_ms - m->speed_since_ms;
        predict(l, w, r);
        if (alone->speeds > 0)
            fare(l, &w->members[0], r, 0, log(alone->samples_per_s / m->samples_per_s));
        learn_speed(l, alone, m->samples_per_s);
    }
    serve_alone(l, w, r, alone);
    settle(l, m->program, p, alone, r->type);
}

/* ---- together ---- */

/* Collects the measurements alone. Returns false unless all are known, and all members that report
 * progress make progress. */
static bool know_all(const struct learning *l, const struct learning_report *r,
                     const struct program_alone *ret_alone[LEARNING_MEMBERS_MAX])
{
    for (size_t i = 0; i < r->count; i++) {
        struct program *p = programs_at(l->programs, r->members[i].program);
        ret_alone[i] = p ? program_alone(p, r->type->hash) : NULL;
        if (!ret_alone[i] || ret_alone[i]->settled_s == 0 ||
            (ret_alone[i]->speeds > 0 && !(r->members[i].samples_per_s > 0)))
            return false;
    }
    return true;
}

static bool keep(struct learning *l, const struct learning_report *r,
                 const struct program_alone *const alone[], size_t own, double interference)
{
    struct task_profile neighbours[LEARNING_MEMBERS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < r->count; i++)
        if (i != own)
            neighbours[count++] = alone[i]->features;
    return observations_add(l->measurements, &alone[own]->features, neighbours, count,
                            interference) == 0;
}

static void watch_together(struct learning *l, struct watch *w, const struct learning_report *r)
{
    const struct program_alone *alone[LEARNING_MEMBERS_MAX];
    bool kept = false;
    for (size_t i = 0; i < r->count; i++)
        serve_beside(l, w, r, i);
    if (!know_all(l, r, alone))
        return;
    for (size_t i = 0; i < r->count; i++) {
        struct watched_member *m = &w->members[i];
        if (alone[i]->speeds == 0 || !is_measured(w, r, i))
            continue;
        double log_pd = log(alone[i]->samples_per_s / r->members[i].samples_per_s);
        m->began_ms = r->now_ms - r->members[i].speed_since_ms;
        m->log_sum += log_pd;
        m->count++;
        predict(l, w, r);
        fare(l, m, r, i, log_pd);
        if (r->now_ms < m->next_ms)
            continue;
        kept = keep(l, r, alone, i, exp(m->log_sum / (double)m->count)) || kept;
        m->log_sum = 0;
        m->count = 0;
        if (++m->kept < OBSERVATIONS_PATTERN_MIN)
            continue;
        m->interval_ms = m->interval_ms ? 2 * m->interval_ms : 2 * MEASUREMENT_MS;
        if (m->interval_ms > INTERVAL_MS_MAX)
            m->interval_ms = INTERVAL_MS_MAX;
        m->next_ms = r->now_ms + m->interval_ms;
    }
    if (!kept)
        return;
    l->measurements_version++;
    l->has_measured = l->changed = true;
}

/* ---- devices ---- */

/* Returns the watch of a device; NULL when out of memory. */
static struct watch *watch_of(struct learning *l, const char *uuid)
{
    uint64_t hash = hash_string(uuid);
    struct watch *w = hash_map_get(&l->watches, hash);
    if (w)
        return w;
    if (l->watches.count >= LEARNING_DEVICES_MAX)
        forget_watches(l);
    w = calloc(1, sizeof *w);
    if (w && hash_map_put(&l->watches, hash, w) < 0) {
        free(w);
        w = NULL;
    }
    return w;
}

/* Returns the hash of the set; 0: nothing can be learnt from the set. */
static uint64_t set_of(const struct learning_report *r)
{
    uint64_t hash = 1;
    if (r->count > LEARNING_MEMBERS_MAX)
        return 0;
    for (size_t i = 0; i < r->count; i++) {
        const struct learning_member *m = &r->members[i];
        if (!m->is_at_work || m->program == 0)
            return 0;
        hash = hash_u64(hash ^ hash_u64(m->workload ^ hash_u64((uint64_t)m->attempt)));
    }
    return r->count > 0 ? hash : 0;
}

void learning_report(struct learning *l, const struct learning_report *r)
{
    struct watch *w = watch_of(l, r->uuid);
    uint64_t set = set_of(r);
    if (!w)
        return;
    if (set == 0 || set != w->set) {
        *w = (struct watch){.set = set, .since_ms = r->now_ms, .seen_ms = r->now_ms};
        for (size_t i = 0; set != 0 && i < r->count; i++)
            w->members[i].first_p99_ms = r->members[i].p99_ms;
        return;
    }
    double step_s = (double)(r->now_ms - w->seen_ms) / 1000;
    w->seen_ms = r->now_ms;
    if (r->now_ms - w->since_ms < LEARNING_SETTLE_MS)
        return;
    if (r->count == 1)
        watch_alone(l, w, r, fmin(step_s, watch_step_s_max));
    else
        watch_together(l, w, r);
}
