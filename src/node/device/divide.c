#include "node/device/divide.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "node/agent_internal.h"
#include "node/device/history.h"

enum {
    SERVICES_MAX = 64,         /* services of one device that are evaluated */
    FORECAST_STEP_PERCENT = 2, /* smaller changes of a forecast are ignored */
    UNGATED_MAX = 1024,        /* known ungated tasks; the oldest is dropped */
};

struct divide {
    struct history *history;
    int64_t looked_ms;                /* boot clock; 0: never */
    uint64_t alone[NODE_DEVICES_MAX]; /* workload alone on the device at the last look; 0: none */
    struct share_division divisions[NODE_DEVICES_MAX];
    /* Workloads with kernels too long for a gate. A restarted attempt has not launched any yet;
     * without this record it would get all SMs and be restarted, for ever. */
    uint64_t ungated[UNGATED_MAX];
    size_t ungated_next; /* place of the next entry */
};

int divide_open(struct error *e, struct agent *a)
{
    struct divide *d = calloc(1, sizeof *d);
    if (!d)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    a->divide = d;
    for (int i = 0; i < NODE_DEVICES_MAX; i++)
        d->divisions[i].forecast_percent = -1;
    return history_open(e, a->directory_fd, &d->history);
}

void divide_close(struct agent *a)
{
    if (a->divide)
        history_close(a->divide->history);
    free(a->divide);
    a->divide = NULL;
}

/* ---- workloads on a device ---- */

static bool is_service(const struct run *r)
{
    return r->own.terms.kind == WORKLOAD_SERVICE;
}

/* Returns the only workload on a device; 0: none, or more than one. */
static uint64_t alone_on(const struct agent *a, int device)
{
    uint64_t alone = 0;
    size_t count = 0;
    list_for_each (it, &a->runs) {
        const struct run *r = list_entry(it, struct run, link);
        if (!run_is_on(r, device))
            continue;
        alone = r->workload;
        count++;
    }
    return count == 1 ? alone : 0;
}

/* Collects the known services of a device; returns their number. */
static size_t services_on(const struct agent *a, int device,
                          const struct share_service *services[SERVICES_MAX])
{
    size_t count = 0;
    list_for_each (it, &a->runs) {
        const struct run *r = list_entry(it, struct run, link);
        const struct share_service *known = run_is_on(r, device) && is_service(r)
                                                ? history_find(a->divide->history, r->workload)
                                                : NULL;
        if (known && count < SERVICES_MAX)
            services[count++] = known;
    }
    return count;
}

/* ---- tasks that do not give way at launches: kernels too long, or no limits enforced ---- */

static bool is_ungated(const struct divide *d, uint64_t workload)
{
    for (size_t i = 0; i < UNGATED_MAX; i++)
        if (d->ungated[i] == workload)
            return true;
    return false;
}

static void look_for_ungated(struct divide *d, struct run *r)
{
    bool is_new = session_look_for_coarse(r->session) || r->is_unheld;
    if (!is_new || is_ungated(d, r->workload))
        return;
    d->ungated[d->ungated_next] = r->workload;
    d->ungated_next = (d->ungated_next + 1) % UNGATED_MAX;
}

/* ---- shares of tasks ---- */

/* With live control, controllers decide how tasks run beside services, and no service gets the mode
 * space. */
static void divide_now(const struct agent *a, const struct share_service *const services[],
                       size_t count, struct share_division *ret)
{
    share_divide(services, count, clock_wall_ms(), ret);
    if (a->config->live_control)
        ret->mode = SHARE_TIME;
}

/* Returns whether the task gives way at its launches, as the shim makes it in mode time. Fewer SMs
 * would then only slow the task beside an idle service. */
static bool gives_way(const struct agent *a, const struct terms *terms, enum share_mode mode)
{
    return mode == SHARE_TIME && terms->is_protected && !a->config->share_in_time;
}

/* Counts the tasks on a device that continue while services work, without this one. */
static int tasks_in_space(const struct agent *a, int device, enum share_mode mode, uint64_t without)
{
    int count = 0;
    list_for_each (it, &a->runs) {
        const struct run *r = list_entry(it, struct run, link);
        if (r->workload == without || !run_is_on(r, device) || is_service(r))
            continue;
        enum share_mode own = share_mode_of_task(mode, is_ungated(a->divide, r->workload));
        count += !gives_way(a, &r->own.terms, own);
    }
    return count;
}

/* Returns the share that the task would start with now, and the reason if it is less than
 * allowed. */
static int wanted_percent(const struct agent *a, uint64_t workload, const struct terms *terms,
                          char why[TERMS_WHY_MAX])
{
    const struct share_service *services[SERVICES_MAX];
    struct share_division division;
    int device = agent_find_device(a, terms->devices[0]);
    if (device < 0)
        return terms->share_max_percent;
    size_t count = services_on(a, device, services);
    divide_now(a, services, count, &division);
    enum share_mode mode = share_mode_of_task(division.mode, is_ungated(a->divide, workload));
    if (division.forecast_percent < 0 || gives_way(a, terms, mode))
        return terms->share_max_percent;
    int tasks = 1 + tasks_in_space(a, device, division.mode, workload);
    int percent = share_in_whole_sms(share_of_task_percent(division.forecast_percent, tasks),
                                     a->info.devices[device].sm_count);
    if (percent > SHARE_MOST_PERCENT)
        percent = SHARE_MOST_PERCENT;
    if (percent < terms->share_min_percent)
        percent = terms->share_min_percent;
    if (percent >= terms->share_max_percent)
        return terms->share_max_percent;
    char rest[48] = "";
    if (tasks > 1)
        (void)snprintf(rest, sizeof rest, ", and %d tasks share the rest", tasks);
    if (count == 1)
        (void)snprintf(why, TERMS_WHY_MAX,
                       "service %" PRIu64 " beside it used up to %d %% lately (p95)%s",
                       services[0]->workload, division.forecast_percent, rest);
    else
        (void)snprintf(why, TERMS_WHY_MAX, "%zu services beside it used up to %d %% lately (p95)%s",
                       count, division.forecast_percent, rest);
    return percent;
}

/* ---- looks ---- */

static void tell_mode(struct agent *a, int device, uint64_t workload,
                      const struct share_choice *choice)
{
    char text[WORKLOAD_TEXT_MAX], busy[40] = "it is not known how busy it is";
    if (choice->busy_fraction >= 0)
        (void)snprintf(busy, sizeof busy, "it was busy %.0f %% of the time",
                       100 * choice->busy_fraction);
    (void)snprintf(text, sizeof text, "mode %s beside service %" PRIu64 ": %s",
                   choice->mode == SHARE_SPACE ? "space" : "time", workload, busy);
    monitor_note(a, device, text);
}

static void look_at_service(struct agent *a, struct run *r, int device, bool is_alone,
                            double sm_percent, int64_t elapsed_ms)
{
    struct share_service *s = history_get(a->divide->history, r->workload);
    r->busy_fraction = session_busy_fraction(r->session, clock_boot_us());
    const struct share_look look = {.facts = {.kept_ms = a->config->mode_kept_ms,
                                              .elapsed_ms = elapsed_ms,
                                              .busy_fraction = r->busy_fraction},
                                    .sm_percent = sm_percent,
                                    .alone = is_alone};
    if (share_service_look(s, clock_wall_ms(), &look) && !a->config->live_control)
        tell_mode(a, device, r->workload, &s->choice);
}

/* A task without a resume command keeps its share; the rate of its launches follows the room
 * left. */
static void look_at_task(struct run *r)
{
    const struct agent *a = r->agent;
    const struct terms *terms = &r->own.terms;
    char why[TERMS_WHY_MAX], text[WORKLOAD_TEXT_MAX];
    if (!terms->resumable || !terms->has_mps || !a->config->share_by_activity || r->pending)
        return;
    int started = terms_share_percent(terms);
    int wanted = wanted_percent(a, r->workload, terms, why);
    if (!share_drifts(&r->share_drift, clock_wall_ms(), a->config->share_kept_ms, started, wanted))
        return;
    (void)snprintf(text, sizeof text, "restarted: it has %d %% of the SMs, and would get %d %% now",
                   started, wanted);
    monitor_moves(r, text);
}

static void divide_device(struct agent *a, int device)
{
    const struct share_service *services[SERVICES_MAX];
    struct share_division *old = &a->divide->divisions[device], division;
    const char *uuid = a->info.devices[device].uuid;
    divide_now(a, services, services_on(a, device, services), &division);
    division.task_count = tasks_in_space(a, device, division.mode, 0);
    int moved = abs(division.forecast_percent - old->forecast_percent);
    bool is_known = division.forecast_percent >= 0, was_known = old->forecast_percent >= 0;
    if (division.mode == old->mode && is_known == was_known && moved < FORECAST_STEP_PERCENT &&
        division.task_count == old->task_count)
        return;
    *old = division;
    registrar_divide(a->registrar, uuid, &division);
}

static int first_device(const struct run *r)
{
    return r->session && r->device_count > 0 && attempt_is_on_devices(&r->life) ? r->devices[0]
                                                                                : -1;
}

void divide_look(struct agent *a, const struct gpu_reading *readings)
{
    struct divide *d = a->divide;
    int64_t now_ms = clock_boot_ms(), elapsed_ms = d->looked_ms ? now_ms - d->looked_ms : 0;
    uint64_t alone[NODE_DEVICES_MAX];
    if (d->looked_ms && elapsed_ms <= 0)
        return;
    d->looked_ms = now_ms;
    for (int i = 0; i < a->info.device_count; i++)
        alone[i] = alone_on(a, i);
    list_for_each (it, &a->runs) {
        struct run *r = list_entry(it, struct run, link);
        int device = first_device(r);
        if (device >= 0 && is_service(r))
            look_at_service(a, r, device, alone[device] && alone[device] == d->alone[device],
                            readings[device].sm_percent, elapsed_ms);
        else if (device >= 0) {
            look_for_ungated(d, r);
            look_at_task(r);
        }
    }
    for (int i = 0; i < a->info.device_count; i++) {
        d->alone[i] = alone[i];
        divide_device(a, i);
    }
}

/* ---- starting ---- */

void divide_share(const struct agent *a, uint64_t workload, struct terms *terms)
{
    if (terms->kind != WORKLOAD_TASK || !terms->has_mps || !a->config->share_by_activity)
        return;
    int percent = wanted_percent(a, workload, terms, terms->share_why);
    terms->share_percent = percent < terms->share_max_percent ? percent : 0;
}
