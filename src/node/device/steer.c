#include "node/device/steer.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "node/agent_internal.h"
#include "node/device/kept.h"
#include "node/supervisor/latency.h"

#define SETTINGS_MAGIC UINT64_C(0x3173676e69746573) /* "settings1" */

struct settings_file {
    uint64_t magic;
    uint64_t bytes; /* of the memory, by which another layout is detected */
    struct controller_memory memory;
};

/* The tasks on a device, since the last look. */
struct company {
    uint64_t programs; /* identity of the set; 0: no task runs */
    uint64_t launches;
    bool is_unknown; /* a task without pages: its work is invisible */
};

struct steer {
    struct settings_file *file;
};

int steer_open(struct error *e, struct agent *a)
{
    struct steer *s = calloc(1, sizeof *s);
    void *map = NULL;
    if (!s)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    a->steer = s;
    int r = kept_open(e, a->directory_fd, "settings", sizeof *s->file, &map);
    if (r < 0)
        return r;
    s->file = map;
    if (s->file->magic != SETTINGS_MAGIC || s->file->bytes != sizeof s->file->memory ||
        !controller_memory_is_sane(&s->file->memory))
        controller_memory_init(&s->file->memory);
    s->file->magic = SETTINGS_MAGIC;
    s->file->bytes = sizeof s->file->memory;
    return 0;
}

void steer_close(struct agent *a)
{
    if (a->steer)
        kept_close(a->steer->file, sizeof *a->steer->file);
    free(a->steer);
    a->steer = NULL;
}

struct controller_memory *steer_memory(const struct agent *a)
{
    return a->config->live_control && a->steer ? &a->steer->file->memory : NULL;
}

/* ---- measurements ---- */

static uint64_t grown(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0; /* a process has ended, with its counts */
}

static void subtract_bursts(struct controller_bursts *now, const struct controller_bursts *before)
{
    for (int k = 0; k < CONTROLLER_KINDS; k++) {
        now[k].count = grown(now[k].count, before[k].count);
        now[k].total_us = now[k].count > 0 ? grown(now[k].total_us, before[k].total_us) : 0;
    }
}

/* Returns the session's activity since the last call for this attempt. */
static struct session_activity activity_since(struct run *r)
{
    struct session_activity now;
    session_activity(r->session, &now);
    /* The first look may follow the end of an earlier agent, with counts of hours. */
    const struct session_activity before = r->is_steered ? r->activity : now;
    r->is_steered = true;
    r->activity = now;
    now.answered = grown(now.answered, before.answered);
    now.late = grown(now.late, before.late);
    now.launches = grown(now.launches, before.launches);
    subtract_bursts(now.alone, before.alone);
    subtract_bursts(now.beside, before.beside);
    return now;
}

static bool is_running_task(const struct run *r)
{
    return r->own.terms.kind == WORKLOAD_TASK && r->session && attempt_is_on_devices(&r->life);
}

static void join(struct company companies[NODE_DEVICES_MAX], struct run *r)
{
    uint64_t launches = activity_since(r).launches;
    for (int i = 0; i < r->device_count; i++) {
        struct company *c = &companies[r->devices[i]];
        c->programs += hash_u64(r->own.terms.program) | 1;
        c->launches += launches;
        c->is_unknown = c->is_unknown || !r->own.terms.is_protected || r->is_unheld;
    }
}

/* Takes the requests that the supervisor has counted, for a service that does not show its requests
 * in its pages. */
static void take_answers(struct run *r, const struct control_latency *now,
                         struct controller_look *look)
{
    bool is_first = r->answered == 0;
    look->has_requests = now->answered > 0;
    look->answered = is_first ? 0 : grown(now->answered, r->answered);
    look->late = is_first ? 0 : grown(now->late, r->late);
    r->answered = now->answered;
    r->late = now->late;
}

/* Takes the target and the recent times of one kind, always the same, because the controller
 * compares the times with those alone: of several targets the first. */
static void take_latency(struct run *r, struct controller_look *look)
{
    const struct terms *terms = &r->own.terms;
    enum control_time time = terms->slo_latency_ms > 0   ? CONTROL_TIME_LATENCY
                             : terms->slo_first_ms > 0   ? CONTROL_TIME_FIRST
                             : terms->slo_between_ms > 0 ? CONTROL_TIME_BETWEEN
                                                         : CONTROL_TIME_LATENCY;
    const double targets_ms[CONTROL_TIMES] = {[CONTROL_TIME_LATENCY] = terms->slo_latency_ms,
                                              [CONTROL_TIME_FIRST] = terms->slo_first_ms,
                                              [CONTROL_TIME_BETWEEN] = terms->slo_between_ms};
    look->slo_us = targets_ms[time] * 1000;
    int64_t at_ms = r->latency_at_ms[time], age_ms = clock_boot_ms() - at_ms;
    if (at_ms == 0 || age_ms >= LATENCY_SOFT_MS)
        return;
    look->latency_us = (double)r->latency[time].us_5s;
    look->latency_window_ms = LATENCY_SOFT_MS + age_ms;
    if (!look->reports_requests && look->slo_us > 0)
        take_answers(r, &r->latency[time], look);
}

/* ---- looks ---- */

static void look_at(struct run *r, const struct company companies[NODE_DEVICES_MAX])
{
    const struct terms *terms = &r->own.terms;
    const struct session_activity activity = activity_since(r);
    struct controller_look look = {.service = terms->program ? terms->program : 1,
                                   .percentile = terms->slo_percentile,
                                   .has_mps = terms->has_mps,
                                   .reports_requests = activity.reports_requests,
                                   .has_requests = activity.reports_requests,
                                   .answered = activity.answered,
                                   .late = activity.late,
                                   .busy_fraction = r->busy_fraction};
    memcpy(look.alone, activity.alone, sizeof look.alone);
    memcpy(look.beside, activity.beside, sizeof look.beside);
    take_latency(r, &look);
    attainment_add(&r->attainment, clock_boot_ms(), look.answered, look.late);
    for (int i = 0; i < r->device_count; i++) {
        const struct company *company = &companies[r->devices[i]];
        look.neighbours = company->programs;
        look.work = company->is_unknown ? -1 : (double)company->launches;
        monitor_look_at_service(r, r->devices[i], &look);
        bool works = company->is_unknown || company->launches > 0;
        session_set_company(r->session, terms->devices[i],
                            works ? LIMITS_BESIDE_NOW : LIMITS_ALONE_NOW);
    }
}

void steer_look(struct agent *a)
{
    struct company companies[NODE_DEVICES_MAX] = {0};
    if (!steer_memory(a))
        return;
    list_for_each (it, &a->runs) {
        struct run *r = list_entry(it, struct run, link);
        if (is_running_task(r))
            join(companies, r);
    }
    list_for_each (it, &a->runs) {
        struct run *r = list_entry(it, struct run, link);
        if (r->own.terms.kind == WORKLOAD_SERVICE && r->session && r->own.terms.is_protected &&
            attempt_is_on_devices(&r->life))
            look_at(r, companies);
    }
}
