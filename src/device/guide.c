/*
 * The controllers of the services on a device (controller.h): looks at services go in, limits for
 * all tasks of the device come out. With several services the strictest numbers apply. A service
 * that gets no look for GUIDE_STALE_MS counts as absent here.
 */
#include "device/device_internal.h"

enum { GUIDE_STALE_MS = 3000 };

static struct guide *find(struct device_monitor *d, uint64_t workload, int attempt)
{
    for (size_t i = 0; i < d->guide_count; i++)
        if (d->guides[i].workload == workload && d->guides[i].attempt == attempt)
            return &d->guides[i];
    return NULL;
}

static bool is_fresh(const struct device_monitor *d, const struct guide *g)
{
    return d->now_ms - g->looked_ms < GUIDE_STALE_MS;
}

const struct controller_answer *device_guidance(const struct device_monitor *d, uint64_t workload,
                                                int attempt)
{
    for (size_t i = 0; i < d->guide_count; i++) {
        const struct guide *g = &d->guides[i];
        if (g->workload == workload && g->attempt == attempt)
            return is_fresh(d, g) ? &g->answer : NULL;
    }
    return NULL;
}

static struct guide *get(struct device_monitor *d, uint64_t workload, int attempt)
{
    const struct tenant *t = tenant_find(d, workload, attempt);
    struct guide *g = find(d, workload, attempt);
    if (g || !t || tenant_is_task(t) || !d->config.memory || d->guide_count == DEVICE_GUIDES_MAX)
        return g;
    g = &d->guides[d->guide_count++];
    *g = (struct guide){.workload = workload, .attempt = attempt};
    controller_init(&g->controller, d->config.memory);
    return g;
}

/* ---- limits for the tasks ---- */

static bool is_same(const struct controller_limits *a, const struct controller_limits *b)
{
    return a->has_gate == b->has_gate && a->is_paused == b->is_paused && a->rule == b->rule &&
           a->window_us == b->window_us && a->rate_permille == b->rate_permille &&
           a->need_us == b->need_us && a->each_us == b->each_us && a->burst_us == b->burst_us;
}

/* A pause is repeated at each look, because its deadline in the limits pages must be extended. */
static void apply(struct device_monitor *d)
{
    struct controller_limits limits = {0};
    bool is_guided = false;
    for (size_t i = 0; i < d->guide_count; i++) {
        if (!is_fresh(d, &d->guides[i]))
            continue;
        const struct controller_limits *own = &d->guides[i].answer.limits;
        limits = is_guided ? controller_stricter(&limits, own) : *own;
        is_guided = true;
    }
    if (is_guided == d->is_guided && is_same(&limits, &d->guided) && !limits.is_paused)
        return;
    d->is_guided = is_guided;
    d->guided = limits;
    struct device_action *a = device_act(d, DEVICE_ACT_GUIDE);
    a->is_guided = is_guided;
    a->limits = limits;
}

static void give_up(struct device_monitor *d, uint64_t workload)
{
    if ((d->state == DEVICE_HEALTHY || d->state == DEVICE_UNHEALTHY) && tenants_tasks(d) > 0)
        device_change(d, DEVICE_OVERLIMIT, "service %llu misses its SLO while tasks are held",
                      (unsigned long long)workload);
}

void guide_look(struct device_monitor *d, uint64_t workload, int attempt,
                const struct controller_look *look)
{
    struct guide *g = get(d, workload, attempt);
    struct controller_look now = *look;
    if (!g)
        return;
    now.now_ms = g->looked_ms = d->now_ms;
    controller_look(&g->controller, &now, &g->answer);
    if (g->answer.is_changed && !g->answer.is_trial)
        device_say(d, DEVICE_ACT_NOTE, "service %llu: %.100s", (unsigned long long)workload,
                   g->answer.why);
    apply(d);
    if (g->answer.gives_up)
        give_up(d, workload);
}

void guide_left(struct device_monitor *d, uint64_t workload, int attempt)
{
    struct guide *g = find(d, workload, attempt);
    if (!g)
        return;
    *g = d->guides[--d->guide_count];
    apply(d);
}
