/* The devices as policies see them: kept up to date with every attempt that opens and closes. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cluster/cluster_internal.h"

/* Calls take or release for every device of w's open attempt that its node still has. */
static void for_each_device(struct cluster *c, const struct workload *w,
                            void (*fn)(struct policy_device *, const struct workload_needs *))
{
    const struct attempt *a = workload_status_attempt(&w->status);
    if (w->node->index >= c->node_count || !c->policy_nodes)
        return;
    const struct policy_node *n = &c->policy_nodes[w->node->index];
    for (int i = 0; i < a->device_count; i++)
        for (size_t d = n->first_device; d < n->first_device + n->device_count; d++)
            if (strcmp(c->policy_devices[d].uuid, a->devices[i]) == 0)
                fn(&c->policy_devices[d], &w->needs);
}

void inventory_book(struct cluster *c, struct workload *w)
{
    for_each_device(c, w, policy_device_take);
    w->booked = true;
}

void inventory_release(struct cluster *c, struct workload *w)
{
    if (w->booked)
        for_each_device(c, w, policy_device_release);
    w->booked = false;
}

static bool is_usable(const struct node *n)
{
    return n->connected && !n->drained && n->open_count < CLUSTER_NODE_ATTEMPTS_MAX;
}

void inventory_refresh_node(struct cluster *c, struct node *n)
{
    struct policy_node *p = &c->policy_nodes[n->index];
    bool was = p->usable;
    p->usable = is_usable(n);
    if (p->usable && !was)
        queue_room_appeared(c);
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

int inventory_rebuild(struct cluster *c)
{
    size_t device_count = 0;
    for (size_t i = 0; i < c->node_count; i++)
        device_count += (size_t)c->nodes[i]->info.device_count;
    if (reserve(c, device_count) < 0)
        return -ERR_NO_MEMORY;
    c->device_count = 0;
    for (size_t i = 0; i < c->node_count; i++) {
        const struct node *n = c->nodes[i];
        c->policy_nodes[i] = (struct policy_node){.name = n->info.name,
                                                  .labels = &n->info.labels,
                                                  .usable = is_usable(n),
                                                  .first_device = c->device_count,
                                                  .device_count = (size_t)n->info.device_count};
        for (int d = 0; d < n->info.device_count; d++)
            c->policy_devices[c->device_count++] =
                (struct policy_device){.uuid = n->info.devices[d].uuid,
                                       .model = n->info.devices[d].model,
                                       .node = i,
                                       .admits = n->health[d].admits,
                                       .memory_bytes = n->info.devices[d].memory_bytes};
        list_for_each (it, &n->open)
            if (list_entry(it, struct workload, on_node)->booked)
                inventory_book(c, list_entry(it, struct workload, on_node));
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
                                    .forecast = c->config.forecast,
                                    .options = c->config.options,
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

int cluster_preview(const struct cluster *c, const struct workload_needs *needs,
                    const struct pairs *node_labels, struct cluster_preview *ret)
{
    struct policy_waiting waiting = {.needs = needs, .node_labels = node_labels};
    struct policy_snapshot snapshot;
    struct policy_decision decision;
    struct policy_device *scratch = malloc((c->device_count + 1) * sizeof *scratch);
    if (!scratch)
        return -ERR_NO_MEMORY;
    if (c->device_count > 0)
        memcpy(scratch, c->policy_devices, c->device_count * sizeof *scratch);
    cluster_inventory(c, &snapshot);
    snapshot.waiting = &waiting;
    snapshot.waiting_count = 1;
    *ret = (struct cluster_preview){0};
    if (c->config.policy->decide(&snapshot, scratch, &decision) == 0) {
        policy_explain_misfit(&snapshot, &waiting, c->config.policy, ret->text);
    } else {
        (void)str_copy(ret->node, sizeof ret->node, c->nodes[decision.node]->info.name);
        ret->device_count = (int)decision.device_count;
        for (size_t i = 0; i < decision.device_count; i++)
            (void)str_copy(ret->devices[i], sizeof ret->devices[i],
                           c->policy_devices[decision.devices[i]].uuid);
    }
    free(scratch);
    return 0;
}
