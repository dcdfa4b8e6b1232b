/*
 * kernelest: packs by estimated utilisation (Kernel Est., a baseline of IADeep).
 *
 * A device accepts workloads while the estimated SM activity of all its workloads stays within 100
 * %. Of these devices the busiest is chosen. A workload of unknown activity counts as using all
 * SMs.
 */
#include "policy/policy_internal.h"

static double sm_activity(const struct policy_snapshot *snapshot,
                          const struct forecast_device *device, uint32_t kind)
{
    const struct forecast *f = snapshot->fleet->forecast;
    const struct forecast_profile *p = f->profile(f->context, device, kind);
    return p && p->sm_activity > 0 ? p->sm_activity : 1;
}

static void judge(const struct policy_snapshot *snapshot, const struct policy_waiting *waiting,
                  struct policy_candidate *candidate)
{
    const struct fleet_class *c = &snapshot->fleet->classes[candidate->class_index];
    double sum = 0;
    for (size_t i = 0; i < c->set.count; i++)
        sum += sm_activity(snapshot, c->set.device, c->set.kinds[i]);
    candidate->score = sum;
    if (sum > 0 && sum + sm_activity(snapshot, c->set.device, waiting->known.kind) > 1)
        candidate->objection = POLICY_OBJECTS_UTILISATION;
}

const struct policy policy_kernelest = {
    .name = "kernelest",
    .summary = "the busiest device whose SM activity stays within 100 % (Kernel Est.)",
    .judge = judge,
};
