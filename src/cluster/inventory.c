/* The devices as policies see them, updated with every attempt that opens or closes. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cluster/cluster_internal.h"

enum { CPU_TASKS_A_CORE = 2 }; /* the default of cpu_tasks_max */

size_t inventory_devices(const struct cluster *c, const struct workload *w,
                         size_t ret_devices[WORKLOAD_DEVICES_MAX])
{
    const struct attempt *a = workload_status_attempt(&w->status);
    size_t count = 0;
    if (w->node->index >= c->node_count || !c->policy_nodes)
        return 0;
    const struct policy_node *n = &c->policy_nodes[w->node->index];
    for (int i = 0; i < a->device_count; i++)
        for (size_t d = n->first_device; d < n->first_device + n->device_count; d++)
            if (count < WORKLOAD_DEVICES_MAX &&
                strcmp(c->policy_devices[d].uuid, a->devices[i]) == 0)
                ret_devices[count++] = d;
    return count;
}

/* A refused requirement examines only the devices that changed since. */
static void note_change(struct cluster *c, size_t device)
{
    c->changed[c->changes++ % CHANGES_KEPT] = device;
}

static void fleet_book(struct cluster *c, const struct workload *w, size_t device)
{
    struct policy_snapshot snapshot;
    struct fleet_member member = {.workload = w->id,
                                  .needs = &w->needs,
                                  .node_labels = &w->requirement->node_labels,
                                  .kind = w->known.kind,
                                  .checkpoints = w->known.checkpoints,
                                  .is_known = w->left_ms > 0,
                                  .alone_ms = w->left_ms,
                                  .begun_ms = w->booked_boot_ms};
    cluster_inventory(c, &snapshot);
    note_change(c, device);
    if (fleet_take(&c->fleet, &snapshot, device, &member, c->now.boot_ms) < 0)
        c->failed = true;
}

static void book(struct cluster *c, struct workload *w)
{
    size_t devices[WORKLOAD_DEVICES_MAX], count = inventory_devices(c, w, devices);
    for (size_t i = 0; i < count; i++) {
        policy_device_take(&c->policy_devices[devices[i]], &w->needs);
        if (c->judges && !c->fleet_stale)
            fleet_book(c, w, devices[i]);
    }
}

void inventory_book(struct cluster *c, struct workload *w)
{
    book(c, w);
    c->facts++;
    w->booked = true;
    allowance_charge(c, w);
}

void inventory_release(struct cluster *c, struct workload *w)
{
    size_t devices[WORKLOAD_DEVICES_MAX], count;
    struct policy_snapshot snapshot;
    if (!w->booked)
        return;
    cluster_inventory(c, &snapshot);
    count = inventory_devices(c, w, devices);
    for (size_t i = 0; i < count; i++) {
        policy_device_release(&c->policy_devices[devices[i]], &w->needs);
        note_change(c, devices[i]);
        if (c->judges && !c->fleet_stale &&
            fleet_release(&c->fleet, &snapshot, devices[i], w->id, c->now.boot_ms, &w->left_ms) < 0)
            c->failed = true;
    }
    w->booked = false;
    c->facts++;
    allowance_discharge(c, w);
}

void inventory_device_changed(struct cluster *c, size_t device)
{
    struct policy_snapshot snapshot;
    c->facts++;
    if (!c->judges || c->fleet_stale)
        return;
    cluster_inventory(c, &snapshot);
    note_change(c, device);
    if (fleet_update(&c->fleet, &snapshot, device) < 0)
        c->failed = true;
}

static void describe_node(const struct cluster *c, const struct node *n, struct policy_node *p)
{
    int most = c->config.attempts_max, cores = n->info.cores;
    if (c->config.cpu_tasks_max > 0)
        most = c->config.cpu_tasks_max;
    else if (cores > 0 && cores < most) /* an older node does not state its cores */
        most = CPU_TASKS_A_CORE * cores;
    p->usable = n->connected && !n->drained && !n->held;
    p->doubtful = n->doubtful;
    p->attempts = (int)n->open_count;
    p->attempts_max = c->config.attempts_max;
    p->cpu_only = (int)n->cpu_only_count;
    p->cpu_tasks_max = most;
}

void inventory_refresh_node(struct cluster *c, struct node *n)
{
    struct policy_node *p = &c->policy_nodes[n->index];
    const struct policy_node was = *p;
    describe_node(c, n, p);
    bool changed = p->usable != was.usable || p->doubtful != was.doubtful ||
                   (p->attempts < p->attempts_max) != (was.attempts < was.attempts_max);
    c->facts++;
    for (size_t d = 0; changed && d < p->device_count; d++)
        inventory_device_changed(c, p->first_device + d);
    if ((p->usable && !was.usable) || (was.doubtful && !p->doubtful))
        queue_room_appeared(c);
}

void inventory_count(struct cluster *c, struct node *n, const struct workload_needs *needs,
                     int sign)
{
    n->open_count += (size_t)sign;
    if (needs->devices == 0)
        n->cpu_only_count += (size_t)sign;
    inventory_refresh_node(c, n);
}

static int reserve(struct cluster *c, size_t device_count)
{
    struct policy_node *nodes = realloc(c->policy_nodes, (c->node_count + 1) * sizeof *nodes);
    if (!nodes)
        return -ERR_NO_MEMORY;
    c->policy_nodes = nodes;
    if (device_count <= c->device_capacity)
        return 0;
    struct policy_device *devices = realloc(c->policy_devices, device_count * sizeof *devices);
    if (devices)
        c->policy_devices = devices;
    struct policy_device *scratch = realloc(c->scratch, device_count * sizeof *scratch);
    if (scratch)
        c->scratch = scratch;
    if (!devices || !scratch)
        return -ERR_NO_MEMORY;
    c->device_capacity = device_count;
    return 0;
}

/* Saves the remaining times that the fleet has computed in the workloads. */
static void fleet_give_up(struct cluster *c)
{
    if (!c->judges || c->fleet_stale)
        return;
    for (size_t d = 0; d < c->fleet.device_count; d++)
        for (size_t i = 0; i < c->fleet.devices[d].member_count; i++) {
            const struct fleet_member *m = &c->fleet.devices[d].members[i];
            struct workload *w = workload_find(c, m->workload);
            if (w && m->is_known)
                w->left_ms = fleet_remaining_ms(&c->fleet, d, i, c->now.boot_ms);
        }
    c->fleet_stale = true;
}

static void fleet_make(struct cluster *c)
{
    struct policy_snapshot snapshot;
    const struct device **specs = malloc((c->device_count + 1) * sizeof(*specs));
    size_t count = 0;
    if (!specs) {
        c->failed = true;
        return;
    }
    cluster_inventory(c, &snapshot);
    for (size_t i = 0; i < c->node_count; i++)
        for (int d = 0; d < c->nodes[i]->info.device_count; d++)
            specs[count++] = &c->nodes[i]->info.devices[d];
    if (fleet_reset(&c->fleet, &snapshot, specs) < 0)
        c->failed = true;
    free(specs);
    c->fleet_stale = false;
    c->changes += CHANGES_KEPT + 1; /* as if all devices had changed */
    for (size_t i = 0; !c->failed && i < c->node_count; i++)
        list_for_each (it, &c->nodes[i]->open) {
            size_t devices[WORKLOAD_DEVICES_MAX];
            const struct workload *w = list_entry(it, const struct workload, on_node);
            size_t found = w->booked ? inventory_devices(c, w, devices) : 0;
            for (size_t k = 0; !c->failed && k < found; k++)
                fleet_book(c, w, devices[k]);
        }
}

void inventory_forecast_changed(struct cluster *c)
{
    fleet_give_up(c);
    c->facts++;
    queue_room_appeared(c);
}

void inventory_snapshot(struct cluster *c, struct policy_snapshot *ret)
{
    if (c->judges && c->fleet_stale)
        fleet_make(c);
    cluster_inventory(c, ret);
}

int inventory_rebuild(struct cluster *c)
{
    size_t device_count = 0;
    fleet_give_up(c);
    for (size_t i = 0; i < c->node_count; i++)
        device_count += (size_t)c->nodes[i]->info.device_count;
    if (reserve(c, device_count) < 0)
        return -ERR_NO_MEMORY;
    keep_forget(c);
    c->facts++;
    c->device_count = 0;
    c->memory_max_bytes = 0;
    for (size_t i = 0; i < c->node_count; i++) {
        const struct node *n = c->nodes[i];
        c->policy_nodes[i] = (struct policy_node){.name = n->info.name,
                                                  .labels = &n->info.labels,
                                                  .first_device = c->device_count,
                                                  .device_count = (size_t)n->info.device_count};
        describe_node(c, n, &c->policy_nodes[i]);
        for (int d = 0; d < n->info.device_count; d++) {
            if (n->info.devices[d].memory_bytes > c->memory_max_bytes)
                c->memory_max_bytes = n->info.devices[d].memory_bytes;
            c->policy_devices[c->device_count++] =
                (struct policy_device){.uuid = n->info.devices[d].uuid,
                                       .model = n->info.devices[d].model,
                                       .node = i,
                                       .admits = n->health[d].admits,
                                       .health = &n->health[d],
                                       .memory_bytes = n->info.devices[d].memory_bytes};
        }
        list_for_each (it, &n->open)
            if (list_entry(it, struct workload, on_node)->booked)
                book(c, list_entry(it, struct workload, on_node));
    }
    queue_room_appeared(c);
    return 0;
}

void cluster_inventory(const struct cluster *c, struct policy_snapshot *ret)
{
    *ret = (struct policy_snapshot){.nodes = c->policy_nodes,
                                    .node_count = c->node_count,
                                    .devices = c->policy_devices,
                                    .device_count = c->device_count,
                                    .max_neighbours = c->config.max_neighbours,
                                    .options = c->config.options,
                                    .fleet = c->judges && !c->fleet_stale ? &c->fleet : NULL,
                                    .now_ms = c->now.boot_ms,
                                    .seed = c->config.seed};
}

static bool attempt_is_on(const struct attempt *a, const char *uuid)
{
    for (int i = 0; a && i < a->device_count; i++)
        if (strcmp(a->devices[i], uuid) == 0)
            return true;
    return false;
}

size_t cluster_device_workloads(const struct cluster *c, const char *node, const char *uuid,
                                uint64_t *ret_ids, size_t room)
{
    const struct node *n = node_find(c, node);
    size_t count = 0;
    if (!n)
        return 0;
    list_for_each (it, &n->open) {
        const struct workload *w = list_entry(it, struct workload, on_node);
        if (count < room && w->booked && attempt_is_on(workload_status_attempt(&w->status), uuid))
            ret_ids[count++] = w->id;
    }
    return count;
}
