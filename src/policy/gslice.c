/*
 * gslice: GSLICE's shares (SoCC'20), a baseline of Mudi, with training tasks added.
 *
 * A service gets the smallest share at which its own latency curve, measured alone, keeps its SLO
 * and its request rate, at the best of its batch sizes. Services share a device while their shares
 * fit. A task goes where services leave the most to each task. The effect of neighbours on a
 * latency is ignored.
 */
#include <math.h>

#include "policy/policy_internal.h"

enum { WHOLE_PERCENT = 100 };
/* Half of the SLO for waiting to be in a batch, half for the batch. */
#define LATENCY_PART 0.5

static double share_at(const struct forecast *f, const struct forecast_profile *p,
                       const struct forecast_device *device, uint32_t kind, uint32_t batch)
{
    struct forecast_set alone = {.device = device};
    struct pwl_curve curve;
    double latency_ms = p->slo_ms * LATENCY_PART;
    if (!f->curve || !f->curve(f->context, &alone, kind, batch, &curve))
        return INFINITY;
    if (p->rate_per_s > 0)
        latency_ms = fmin(latency_ms, 1000.0 * batch / p->rate_per_s);
    return pwl_share(&curve, latency_ms);
}

/* Returns the share of a service; 0 for a task, the whole device for a service without a curve. */
static double share_of(const struct policy_snapshot *snapshot, const struct forecast_device *device,
                       uint32_t kind)
{
    const struct forecast *f = snapshot->fleet->forecast;
    const struct forecast_profile *p = f->profile(f->context, device, kind);
    double share = INFINITY;
    if (!p || p->kind == WORKLOAD_TASK)
        return 0;
    for (size_t b = 0; b < p->service_batch_count; b++)
        share = fmin(share, share_at(f, p, device, kind, p->service_batches[b]));
    return fmin(share, WHOLE_PERCENT);
}

static void judge(const struct policy_snapshot *snapshot, const struct policy_waiting *waiting,
                  struct policy_candidate *candidate)
{
    const struct fleet_class *c = &snapshot->fleet->classes[candidate->class_index];
    double taken = 0;
    size_t tasks = 1;
    for (size_t i = 0; i < c->set.count; i++) {
        double share = share_of(snapshot, c->set.device, c->set.kinds[i]);
        taken += share;
        tasks += !(share > 0);
    }
    if (waiting->needs->kind == WORKLOAD_SERVICE) {
        candidate->score = -taken;
        if (taken > 0 &&
            taken + share_of(snapshot, c->set.device, waiting->known.kind) > WHOLE_PERCENT)
            candidate->objection = POLICY_OBJECTS_SLO;
        return;
    }
    candidate->score = (WHOLE_PERCENT - taken) / (double)tasks;
    if (candidate->score <= 0)
        candidate->objection = POLICY_OBJECTS_SLO;
}

const struct policy policy_gslice = {
    .name = "gslice",
    .summary = "services by their own latency curve, tasks where services leave most (GSLICE)",
    .shares = true,
    .judge = judge,
};
