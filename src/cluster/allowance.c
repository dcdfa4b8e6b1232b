/*
 * Allowances: the amount of devices that the workloads of a user or a group may hold at a time.
 *
 * Workloads within the guaranteed amount precede all borrowers. Workloads beyond the guarantee
 * borrow up to the maximum, while no workload within its guarantee waits for the room. If a
 * workload finds no room within its guarantee, the cluster requeues a borrower with a checkpoint,
 * the one placed last. Users without an allowance borrow without a limit.
 *
 * The unit is a millionth of the largest device. A workload holds the larger of its guaranteed
 * share and its fraction of the memory, or a whole device if it has no quota. The count is rounded
 * down, so that three thirds of a device fit into an allowance of one.
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

bool allowance_borrows(const struct cluster *c, uint32_t number, const struct workload_needs *needs)
{
    const struct cluster_allowance *a = allowance_of(c, number);
    if (c->config.allowance_count == 0)
        return false;
    return !a || c->allowance_used[number] + allowance_ppm(c, needs) > a->guaranteed_ppm;
}

bool allowance_is_spent(const struct cluster *c, uint32_t number,
                        const struct workload_needs *needs)
{
    const struct cluster_allowance *a = allowance_of(c, number);
    return a && c->allowance_used[number] + allowance_ppm(c, needs) > a->most_ppm;
}

static double devices(int64_t ppm)
{
    return (double)ppm / CLUSTER_DEVICE_PPM;
}

bool allowance_explain(const struct cluster *c, uint32_t number, const struct workload_needs *needs,
                       char text[WORKLOAD_TEXT_MAX])
{
    const struct cluster_allowance *a = allowance_of(c, number);
    double asked = devices(allowance_ppm(c, needs)), most = devices(a->most_ppm);
    if (asked > most)
        (void)snprintf(
            text, WORKLOAD_TEXT_MAX,
            "the workload exceeds the allowance of %s (devices requested: %g, allowed: %g)",
            a->name, asked, most);
    else
        (void)snprintf(text, WORKLOAD_TEXT_MAX,
                       "the allowance of %s is used up (devices requested: %g, in use: %g of %g)",
                       a->name, asked, devices(c->allowance_used[number]), most);
    return asked > most && c->device_count > 0; /* before the first device, nothing is certain */
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

/* Returns whether the end of the borrower would make room for the workload on one of its devices.
 */
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
    if (c->config.allowance_count == 0 || allowance_borrows(c, r->allowance, &r->needs) ||
        waiting->needs->devices != 1)
        return;
    for (size_t n = 0; n < c->node_count; n++)
        list_for_each (it, &c->nodes[n]->open) {
            struct workload *w = list_entry(it, struct workload, on_node);
            if (w->status.stop == STOP_REQUEUE)
                return; /* its end may make room */
            if (may_be_taken(c, w) &&
                (!last || w->booked_boot_ms > last->booked_boot_ms ||
                 (w->booked_boot_ms == last->booked_boot_ms && w->id > last->id)) &&
                makes_room(c, snapshot, w, waiting))
                last = w;
        }
    if (last)
        stop_reclaim(c, last);
}
