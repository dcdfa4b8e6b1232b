/*
 * mudi: Mudi's placement (EuroSys'25).
 *
 * A service shares no device with another service. A task goes beside the service whose latency
 * becomes least sensitive to the share: the mean, over the service's batch sizes, of the predicted
 * |k1| / SLO, where k1 is the slope left of the knee of the latency curve beside the task. At most
 * one service and three tasks share a device.
 *
 * A placement is feasible by the published rule: W/b batches of latency L each within the SLO,
 * where W is the number of requests that arrive within one SLO (the paper leaves W open), for some
 * batch size b, at the share that the device can give. Differences: a device without a service
 * accepts tasks as well, up to the same number and the emptiest first; a service without curves
 * counts as insensitive.
 */
#include <math.h>

#include "policy/policy_internal.h"

enum { TASKS_MAX = 3, SHARE_MOST_PERCENT = 90 };

struct sensitivity {
    double slope_sum; /* of |k1| / SLO */
    size_t batches;
    bool feasible;
};

/* Adds the sensitivity of the service to the others of `beside`. */
static void feel(const struct forecast *f, const struct forecast_set *beside, uint32_t service,
                 struct sensitivity *s)
{
    const struct forecast_profile *p = f->profile(f->context, beside->device, service);
    bool feasible = !p || p->slo_ms <= 0 || !f->curve || p->service_batch_count == 0;
    for (size_t i = 0; !feasible && i < p->service_batch_count; i++) {
        struct pwl_curve curve;
        uint32_t batch = p->service_batches[i];
        if (!f->curve(f->context, beside, service, batch, &curve))
            continue;
        s->slope_sum += fabs(curve.left_slope) / p->slo_ms;
        s->batches++;
        double arriving = fmax(1, p->rate_per_s * p->slo_ms / 1000);
        double rounds = fmax(1, arriving / batch);
        if (rounds * pwl_latency(&curve, SHARE_MOST_PERCENT) <= p->slo_ms)
            s->feasible = true;
    }
    s->feasible = s->feasible || feasible;
}

static void judge_task(const struct policy_snapshot *snapshot, const struct fleet_class *c,
                       uint32_t kind, struct policy_candidate *candidate)
{
    const struct forecast *f = snapshot->fleet->forecast;
    struct forecast_set beside = {.device = c->set.device};
    struct sensitivity s = {0};
    size_t services = 0;
    for (size_t i = 0; i < c->set.count; i++) {
        const struct forecast_profile *p = f->profile(f->context, c->set.device, c->set.kinds[i]);
        if (p && p->kind == WORKLOAD_SERVICE)
            services++;
        else
            (void)forecast_set_add(&beside, c->set.kinds[i]);
    }
    if (beside.count >= TASKS_MAX) {
        candidate->objection = POLICY_OBJECTS_TASKS;
        return;
    }
    size_t tasks = beside.count;
    (void)forecast_set_add(&beside, kind);
    for (size_t i = 0; services > 0 && i < c->set.count; i++) {
        const struct forecast_profile *p = f->profile(f->context, c->set.device, c->set.kinds[i]);
        if (p && p->kind == WORKLOAD_SERVICE)
            feel(f, &beside, c->set.kinds[i], &s);
    }
    if (services > 0 && !s.feasible)
        candidate->objection = POLICY_OBJECTS_SLO;
    candidate->score = s.batches ? -s.slope_sum / (double)s.batches : -(double)tasks;
}

static void judge(const struct policy_snapshot *snapshot, const struct policy_waiting *waiting,
                  struct policy_candidate *candidate)
{
    const struct fleet_class *c = &snapshot->fleet->classes[candidate->class_index];
    if (waiting->needs->kind == WORKLOAD_TASK) {
        judge_task(snapshot, c, waiting->known.kind, candidate);
    } else {
        candidate->score = -(double)c->set.count;
        if (c->has_service)
            candidate->objection = POLICY_OBJECTS_SERVICES;
    }
}

const struct policy policy_mudi = {
    .name = "mudi",
    .summary = "beside the service whose latency is least sensitive to the share (Mudi)",
    .shares = true,
    .judge = judge,
};
