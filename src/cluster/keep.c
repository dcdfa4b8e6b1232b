/*
 * Reserving room. A workload that needs several devices, or a whole one, would wait for ever if
 * smaller workloads took all room as it appears. So if the first workload in the queue does not fit
 * and has waited for `ageing`, devices are kept for it: those that could hold it when empty and
 * have the fewest workloads. No workload behind it is placed there, and the present ones end in
 * time. Services do not end, so a device with a service is not kept.
 *
 * None of this is stored. The kept devices follow from the queue and the running workloads, so a
 * restarted control finds the same ones. Kept devices only become emptier, so the choice is stable.
 */
#include <stdio.h>
#include <string.h>

#include "cluster/cluster_internal.h"

struct choice {
    size_t devices[WORKLOAD_DEVICES_MAX];
    size_t count;
    int neighbours; /* sum over all devices */
};

bool keep_yields(const struct cluster *c, bool borrows, double rank_ms, uint64_t workload)
{
    const struct workload *k = c->keeper;
    if (!k)
        return true;
    if (borrows != k->requirement->borrows)
        return !borrows;
    if (rank_ms < k->rank_ms || rank_ms > k->rank_ms)
        return rank_ms < k->rank_ms;
    return workload <= k->id;
}

/* Chooses the devices of one node with the fewest workloads; the first of equals. */
static void choose_of_node(const struct policy_snapshot *snapshot, const struct policy_node *node,
                           const struct policy_waiting *waiting, struct choice *ret)
{
    size_t wanted = (size_t)waiting->needs->devices;
    *ret = (struct choice){0};
    for (size_t d = node->first_device; d < node->first_device + node->device_count; d++) {
        const struct policy_device *device = &snapshot->devices[d];
        size_t at = ret->count;
        if (device->services > 0 || !policy_device_could(snapshot, device, waiting))
            continue;
        while (at > 0 && snapshot->devices[ret->devices[at - 1]].neighbours > device->neighbours)
            at--;
        if (at == wanted)
            continue;
        ret->count += ret->count < wanted;
        memmove(&ret->devices[at + 1], &ret->devices[at],
                (ret->count - 1 - at) * sizeof ret->devices[0]);
        ret->devices[at] = d;
    }
    for (size_t i = 0; i < ret->count; i++)
        ret->neighbours += snapshot->devices[ret->devices[i]].neighbours;
}

static bool choose(const struct policy_snapshot *snapshot, const struct policy_waiting *waiting,
                   struct choice *ret)
{
    *ret = (struct choice){0};
    for (size_t n = 0; n < snapshot->node_count; n++) {
        struct choice here;
        if (policy_node_fit(&snapshot->nodes[n], waiting) != POLICY_FITS)
            continue;
        choose_of_node(snapshot, &snapshot->nodes[n], waiting, &here);
        if (here.count == (size_t)waiting->needs->devices &&
            (ret->count == 0 || here.neighbours < ret->neighbours))
            *ret = here;
    }
    return ret->count > 0;
}

static void mark(struct cluster *c, uint64_t workload)
{
    for (size_t i = 0; i < c->kept_count; i++) {
        c->policy_devices[c->kept[i]].kept_for = workload;
        inventory_device_changed(c, c->kept[i]);
    }
}

void keep_end(struct cluster *c)
{
    if (!c->keeper)
        return;
    if (!c->failed) {
        mark(c, 0);
        queue_room_appeared(c);
    }
    keep_forget(c);
}

void keep_forget(struct cluster *c)
{
    c->keeper = NULL;
    c->kept_count = 0;
}

/* Returns whether a device has room, even if the policy has an objection. */
static bool is_room(struct cluster *c, const struct policy_snapshot *snapshot)
{
    struct policy_decision unused;
    int most = c->config.policy->one_a_device ? 1 : c->config.max_neighbours;
    if (c->device_count > 0)
        memcpy(c->scratch, c->policy_devices, c->device_count * sizeof *c->scratch);
    return policy_decide_first(snapshot, c->scratch, most, &unused) > 0;
}

void keep_refused(struct cluster *c, struct workload *w, const struct policy_snapshot *snapshot)
{
    struct choice choice;
    if (w->needs.devices == 0 ||
        c->now.wall_ms - w->status.submitted_wall_ms < c->config.ageing_ms ||
        !keep_yields(c, w->requirement->borrows, w->rank_ms, w->id))
        return;
    if (c->keeper != w) {
        if (c->keeps_left == 0)
            return;
        c->keeps_left--;
        if (is_room(c, snapshot))
            return;
    }
    if (!choose(snapshot, snapshot->waiting, &choice)) {
        if (c->keeper == w)
            keep_end(c);
        return;
    }
    if (c->keeper == w && c->kept_count == choice.count &&
        memcmp(c->kept, choice.devices, choice.count * sizeof c->kept[0]) == 0)
        return;
    keep_end(c);
    c->keeper = w;
    c->kept_count = choice.count;
    memcpy(c->kept, choice.devices, choice.count * sizeof c->kept[0]);
    mark(c, w->id);
}

void keep_explain(const struct cluster *c, const struct requirement *r,
                  char text[WORKLOAD_TEXT_MAX])
{
    size_t length = strlen(text), room = WORKLOAD_TEXT_MAX - length;
    if (!c->keeper || c->keeper->requirement != r || c->kept_count == 0)
        return;
    char name[DEVICE_NAME_MAX];
    const struct policy_device *first = &c->policy_devices[c->kept[0]];
    const char *node = c->policy_nodes[first->node].name;
    cluster_device_name(c, node, first->uuid, name);
    if (c->kept_count == 1)
        (void)snprintf(text + length, room, "; %s is kept for this workload", name);
    else
        (void)snprintf(text + length, room, "; %zu devices of %s are kept for this workload",
                       c->kept_count, node);
}
