/*
 * Allowances: how much of the devices the workloads of a user or a group may hold at a time.
 *
 * Up to what is guaranteed they go before everybody who borrows; beyond it they borrow, when nobody
 * with a guarantee waits for the room, up to a limit. One that finds no room within its guarantee takes
 * it back: a borrower that has a checkpoint, the one placed last, is queued again. Who has no allowance
 * borrows without a limit.
 *
 * What a workload holds is counted in millionths of a device, the largest there is: the larger of its
 * guaranteed share and its part of the memory, all of it if it named no quota. The count is rounded down,
 * so that three thirds of a device fit into an allowance of one.
 */
#include <stdio.h>

#include "cluster/cluster_internal.h"

static const struct cluster_allowance *allowance_of(const struct cluster *c, uint32_t number)
{
    return number > 0 && number <= c->config.allowance_count ? &c->config.allowances[number - 1]
                                                             : NULL;
}

int64_t allowance_ppm(const struct cluster *c, const struct workload_needs *needs)
{
    int64_t part = CLUSTER_DEVICE_PPM;
    if (needs->quota_bytes > 0 && needs->quota_bytes < c->memory_max_bytes) {
        int64_t share = (int64_t)needs->share_min_percent * (CLUSTER_DEVICE_PPM / 100);
        part = (int64_t)((double)needs->quota_bytes * CLUSTER_DEVICE_PPM /
                         (double)c->memory_max_bytes);
        part = part < share ? share : part;
    }
    return part * needs->devices;
}

bool allowance_borrows(const struct cluster *c, const struct requirement *r)
{
    const struct cluster_allowance *a = allowance_of(c, r->allowance);
    if (c->config.allowance_count == 0)
        return false;
    return !a || c->allowance_used[r->allowance] + allowance_ppm(c, &r->needs) > a->guaranteed_ppm;
}

static double devices(int64_t ppm)
{
    return (double)ppm / CLUSTER_DEVICE_PPM;
}

bool allowance_is_spent(const struct cluster *c, const struct requirement *r, char *text,
                        size_t room)
{
    const struct cluster_allowance *a = allowance_of(c, r->allowance);
    int64_t wanted = allowance_ppm(c, &r->needs);
    if (!a || c->allowance_used[r->allowance] + wanted <= a->most_ppm)
        return false;
    (void)snprintf(text, room, "the allowance of %s is %g device%s: %g are in use, %g are asked",
                   a->name, devices(a->most_ppm), a->most_ppm == CLUSTER_DEVICE_PPM ? "" : "s",
                   devices(c->allowance_used[r->allowance]), devices(wanted));
    return true;
}

void allowance_charge(struct cluster *c, struct workload *w)
{
    if (c->config.allowance_count == 0)
        return;
    w->charged_ppm = allowance_ppm(c, &w->needs);
    c->allowance_used[w->requirement->allowance] += w->charged_ppm;
    queue_order_changed(c, w->requirement->allowance);
}

void allowance_discharge(struct cluster *c, struct workload *w)
{
    if (c->config.allowance_count == 0)
        return;
    c->allowance_used[w->requirement->allowance] -= w->charged_ppm;
    w->charged_ppm = 0;
    queue_order_changed(c, w->requirement->allowance);
}

/* Would there be room for it on the device of this one, if that left? */
static bool makes_room(const struct cluster *c, const struct policy_snapshot *snapshot,
                       const struct workload *borrower, const struct policy_waiting *waiting)
{
    size_t devices[WORKLOAD_DEVICES_MAX], count = inventory_devices(c, borrower, devices);
    for (size_t i = 0; i < count; i++) {
        struct policy_device then = c->policy_devices[devices[i]];
        policy_device_release(&then, &borrower->needs);
        if (policy_device_fit(snapshot, &then, waiting,
                              c->config.policy->one_a_device ? 1 : c->config.max_neighbours) ==
            POLICY_FITS)
            return true;
    }
    return false;
}

static bool may_be_taken(const struct cluster *c, const struct workload *w)
{
    const struct cluster_allowance *a = allowance_of(c, w->requirement->allowance);
    return w->booked && w->known.checkpoints && w->needs.kind == WORKLOAD_TASK &&
           w->status.state == WORKLOAD_RUNNING && w->status.stop == STOP_NONE &&
           c->allowance_used[w->requirement->allowance] > (a ? a->guaranteed_ppm : 0);
}

void allowance_reclaim(struct cluster *c, const struct policy_snapshot *snapshot,
                       const struct policy_waiting *waiting, const struct requirement *r)
{
    struct workload *last = NULL;
    if (c->config.allowance_count == 0 || allowance_borrows(c, r) || waiting->needs->devices != 1)
        return;
    for (size_t n = 0; n < c->node_count; n++)
        list_for_each (it, &c->nodes[n]->open) {
            struct workload *w = list_entry(it, struct workload, on_node);
            if (w->status.stop == STOP_REQUEUE)
                return; /* wait and see what room that makes */
            if (may_be_taken(c, w) &&
                (!last || w->booked_boot_ms > last->booked_boot_ms ||
                 (w->booked_boot_ms == last->booked_boot_ms && w->id > last->id)) &&
                makes_room(c, snapshot, w, waiting))
                last = w;
        }
    if (last)
        stop_reclaim(c, last);
}
