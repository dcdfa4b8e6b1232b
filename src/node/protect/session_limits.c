/* The content of the limits pages: how sessions share their devices. */
#include "base/clock.h"
#include "base/str.h"
#include "node/protect/registrar_internal.h"

enum {
    /* window without a service: work that a killed process may leave without harm to others */
    WINDOW_ALONE_US = 20000,
    FULL_PERCENT = 100,
    MS_US = 1000,
    PERMILLE_OF_PERCENT = 10,
    CALM_TARGET_MS = 25,
    CALM_WINDOW_US = 2000, /* beside a sleeping service with a shorter target, or none */
};

void limits_changed(struct session *s)
{
    atomic_fetch_add(&s->limits.page->sequence, 1);
}

static bool has_service(const struct registrar *r, const char *uuid)
{
    list_for_each (it, &r->sessions) {
        const struct session *s = list_entry(it, struct session, link);
        for (int i = 0; s->terms->kind == WORKLOAD_SERVICE && i < s->terms->device_count; i++)
            if (str_equal(s->terms->devices[i], uuid))
                return true;
    }
    return false;
}

/* ---- devices ---- */

static const struct shared_device UNDIVIDED = {
    .division = {.mode = SHARE_TIME, .forecast_percent = -1}};

static struct shared_device shared_find(const struct registrar *r, const char *uuid)
{
    for (size_t i = 0; i < r->shared_count; i++)
        if (str_equal(r->shared[i].uuid, uuid))
            return r->shared[i];
    return UNDIVIDED;
}

/* Returns the entry of a device, added if absent; NULL: too many devices. */
static struct shared_device *shared_get(struct registrar *r, const char *uuid)
{
    for (size_t i = 0; i < r->shared_count; i++)
        if (str_equal(r->shared[i].uuid, uuid))
            return &r->shared[i];
    if (r->shared_count == NODE_DEVICES_MAX)
        return NULL;
    struct shared_device *d = &r->shared[r->shared_count++];
    *d = UNDIVIDED;
    str_copy(d->uuid, sizeof d->uuid, uuid);
    return d;
}

uint32_t registrar_throttled_to(const struct registrar *r, const char *uuid)
{
    return shared_find(r, uuid).throttle_permille;
}

void registrar_throttle(struct registrar *r, const char *uuid, uint32_t rate_permille)
{
    struct shared_device *d = shared_get(r, uuid);
    if (!d)
        return;
    d->throttle_permille = rate_permille;
    sessions_update_limits(r);
}

void registrar_divide(struct registrar *r, const char *uuid, const struct share_division *division)
{
    struct shared_device *d = shared_get(r, uuid);
    if (!d || (d->division.mode == division->mode &&
               d->division.forecast_percent == division->forecast_percent &&
               d->division.task_count == division->task_count))
        return;
    d->division = *division;
    sessions_update_limits(r);
}

void registrar_guide(struct registrar *r, const char *uuid, const struct controller_limits *limits)
{
    struct shared_device *d = shared_get(r, uuid);
    if (!d)
        return;
    d->is_guided = limits != NULL;
    d->limits = limits ? *limits : (struct controller_limits){0};
    sessions_update_limits(r);
}

/* ---- one attempt ---- */

static uint32_t least_rate(uint32_t a, uint32_t b)
{
    return a == 0 || (b > 0 && b < a) ? b : a;
}

/* Returns the part of the device's time that the attempt may have, as the smallest of all
 * limits. */
static uint32_t rate_of(const struct terms *terms, const struct shared_device *shared,
                        bool is_in_space)
{
    int started_percent = terms->has_mps ? terms_share_percent(terms) : terms->share_max_percent;
    uint32_t rate = shared->throttle_permille;
    if (!terms->has_mps && terms->share_max_percent < FULL_PERCENT)
        rate = least_rate(rate, (uint32_t)terms->share_max_percent * PERMILLE_OF_PERCENT);
    int left = is_in_space ? share_rate_permille(&shared->division, started_percent) : 0;
    int guaranteed = terms->share_min_percent * PERMILLE_OF_PERCENT;
    return least_rate(rate, (uint32_t)(left > 0 && left < guaranteed ? guaranteed : left));
}

/* The gate of a task beside services, and its small window. */
struct gate {
    uint32_t window_us, gate_us_max, linger_us, rate_permille, calm_us;
    struct controller_limits due; /* rule of the gate, and its times */
    uint64_t hold_deadline_ms;
};

/* While services sleep, work that a task has launched delays their first request: by at most
 * LAUNCH_AHEAD_NS of the shim, which a target from CALM_TARGET_MS on can bear. */
static uint32_t calm_us_of(const struct registrar *r, const char *uuid)
{
    uint32_t calm_us = LIMITS_CALM_FREE;
    list_for_each (it, &r->sessions) {
        const struct terms *terms = list_entry(it, struct session, link)->terms;
        for (int i = 0; terms->kind == WORKLOAD_SERVICE && i < terms->device_count; i++)
            if (str_equal(terms->devices[i], uuid) && terms->slo_latency_ms < CALM_TARGET_MS)
                calm_us = CALM_WINDOW_US;
    }
    return calm_us;
}

static struct gate gate_of(const struct registrar *r, const char *uuid,
                           const struct shared_device *shared)
{
    const struct registrar_options *options = &r->options;
    const struct controller_limits *limits = &shared->limits;
    struct gate gate = {.window_us = options->window_us,
                        .gate_us_max = options->gate_us_max,
                        .linger_us = options->linger_us,
                        .calm_us = calm_us_of(r, uuid)};
    if (!shared->is_guided)
        return gate;
    gate.window_us = limits->window_us;
    gate.gate_us_max = limits->has_gate ? options->gate_us_max : 0;
    gate.rate_permille = limits->rate_permille;
    gate.due = *limits;
    if (limits->is_paused)
        gate.hold_deadline_ms = (uint64_t)clock_boot_ms() + REGISTRAR_PAUSE_MS;
    return gate;
}

static void write_gate(struct limits_device *device, const struct gate *gate)
{
    atomic_store(&device->gate_us_max, gate->gate_us_max);
    atomic_store(&device->linger_us, gate->linger_us);
    atomic_store(&device->gate_rule,
                 gate->due.rule == CONTROLLER_RULE_DUE ? LIMITS_GATE_DUE : LIMITS_GATE_BUSY);
    atomic_store(&device->need_us, gate->due.need_us);
    atomic_store(&device->each_us, gate->due.each_us);
    atomic_store(&device->burst_us, gate->due.burst_us);
    atomic_store(&device->calm_us, gate->calm_us);
    atomic_store(&device->hold_deadline_ms, gate->hold_deadline_ms);
}

/* Writes the limits: none for a service; for a task the small window beside a service, and
 * everywhere a window that makes killing it harmless. */
static void update_device(struct session *s, int i)
{
    const struct registrar *r = s->registrar;
    const char *uuid = s->terms->devices[i];
    struct limits_device *device = &s->limits.page->devices[i];
    const struct shared_device shared = shared_find(r, uuid);
    bool is_task = s->terms->kind == WORKLOAD_TASK;
    bool is_beside = is_task && has_service(r, uuid);
    bool is_in_space =
        is_beside && share_mode_of_task(shared.division.mode, s->is_coarse) == SHARE_SPACE;
    bool is_in_time = is_beside && !is_in_space;
    struct gate gate = {.window_us = WINDOW_ALONE_US};
    if (is_in_time)
        gate = gate_of(r, uuid, &shared);
    if (shared.throttle_permille && gate.window_us > r->options.window_us)
        gate.window_us = r->options.window_us;
    atomic_store(&device->mode, is_in_time    ? LIMITS_TIME
                                : is_in_space ? LIMITS_SPACE
                                              : LIMITS_ALONE);
    atomic_store(&device->window_us, is_task ? gate.window_us : 0);
    write_gate(device, &gate);
    atomic_store(&device->rate_permille,
                 is_task ? least_rate(rate_of(s->terms, &shared, is_in_space), gate.rate_permille)
                         : 0);
    /* Only MPS limits a process to a part of the SMs. */
    atomic_store(&device->share_percent,
                 s->terms->has_mps ? (uint32_t)terms_share_percent(s->terms) : 0);
}

static void update_limits(struct session *s)
{
    for (int i = 0; s->limits.page && i < s->terms->device_count; i++)
        update_device(s, i);
    if (s->limits.page)
        limits_changed(s);
}

void sessions_update_limits(struct registrar *r)
{
    if (r->is_leaving)
        return;
    list_for_each (it, &r->sessions)
        update_limits(list_entry(it, struct session, link));
}

void session_fill_limits(struct session *s)
{
    struct limits_page *page = s->limits.page;
    bool is_task = s->terms->kind == WORKLOAD_TASK;
    /* Larger than in the page of an earlier agent, so that its readers notice the change. */
    atomic_store(&page->sequence, (uint64_t)clock_boot_ms());
    atomic_store(&page->kind, is_task ? LIMITS_TASK : LIMITS_SERVICE);
    atomic_store(&page->is_swappable, s->terms->swappable);
    atomic_store(&page->room_wait_ms, is_task ? 0 : s->registrar->options.room_wait_ms);
    page->device_count = (uint32_t)s->terms->device_count;
    atomic_store(&page->target_us, is_task ? 0 : (uint64_t)(s->terms->slo_latency_ms * MS_US));
    atomic_store(&page->fence_ms, s->registrar->fence_ms);
    atomic_store(&page->lease_deadline_ms, is_task ? s->registrar->lease_deadline_ms : 0);
    for (int i = 0; i < s->terms->device_count; i++) {
        struct limits_device *device = &page->devices[i];
        (void)pages_parse_uuid(s->terms->devices[i], device->uuid);
        atomic_store(&device->quota_bytes, s->terms->quota_bytes);
        atomic_store(&device->context_bytes, s->registrar->options.context_bytes);
    }
}

void session_advise(struct session *s, const struct advice *advice)
{
    struct limits_page *page = s ? s->limits.page : NULL;
    if (!page)
        return;
    atomic_store(&page->batch, (uint64_t)advice->batch);
    atomic_store(&page->checkpoint, (uint64_t)advice->checkpoints);
    atomic_store(&page->advice_sequence, (uint64_t)advice->sequence);
    limits_changed(s);
}

bool session_followed(const struct session *s, uint64_t *ret_sequence, uint64_t *ret_batch)
{
    uint64_t sequence = 0, batch = 0;
    if (!s)
        return false;
    list_for_each (it, &s->members) {
        const struct member *m = list_entry(it, struct member, link);
        const struct status_page *page = m->status.page;
        uint64_t used = page ? atomic_load(&page->advice_used) : 0;
        uint64_t size = page ? atomic_load(&page->batch_used) : 0;
        if (used > sequence || (used == sequence && size > batch)) {
            sequence = used;
            batch = size;
        }
    }
    *ret_sequence = sequence;
    *ret_batch = batch;
    return sequence > 0 || batch > 0;
}

bool session_look_for_coarse(struct session *s)
{
    uint64_t count = s->ended_counters[STATUS_launches_coarse];
    list_for_each (it, &s->members) {
        const struct member *m = list_entry(it, struct member, link);
        if (m->status.page)
            count = claims_add(count, m->status.page->counters[STATUS_launches_coarse]);
    }
    if (s->is_coarse || count == 0 || s->terms->kind != WORKLOAD_TASK)
        return s->is_coarse;
    s->is_coarse = true;
    update_limits(s);
    return true;
}

void registrar_extend_lease(struct registrar *r, uint64_t deadline_ms, uint32_t fence_ms)
{
    r->lease_deadline_ms = deadline_ms;
    r->fence_ms = fence_ms;
    list_for_each (it, &r->sessions) {
        struct session *s = list_entry(it, struct session, link);
        if (!s->limits.page || s->terms->kind != WORKLOAD_TASK)
            continue;
        atomic_store(&s->limits.page->fence_ms, fence_ms);
        atomic_store(&s->limits.page->lease_deadline_ms, deadline_ms);
    }
}
