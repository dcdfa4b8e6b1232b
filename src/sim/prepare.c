/* Preparation of a run: nodes, workloads, and the capabilities of the policy's system. */
#include <stdio.h>

#include "base/str.h"
#include "sim/engine_internal.h"

static void describe_node(const struct hardware_group *group, uint32_t node, uint32_t first_site,
                          struct node_info *ret)
{
    *ret = (struct node_info){.device_count = group->devices_per_node};
    (void)snprintf(ret->name, sizeof ret->name, "n%u", node);
    (void)snprintf(ret->instance, sizeof ret->instance, "n%u", node);
    (void)snprintf(ret->version, sizeof ret->version, "sim");
    for (int d = 0; d < group->devices_per_node; d++) {
        struct device *device = &ret->devices[d];
        (void)snprintf(device->uuid, sizeof device->uuid, "GPU-%u", first_site + (uint32_t)d);
        (void)str_copy(device->model, sizeof device->model, group->gpu->model);
        device->index = d;
        device->memory_bytes = group->memory_bytes;
        device->sm_count = group->gpu->sm_count;
        device->emulated = true;
    }
}

/* Returns the group of a node and the first of the node's devices. */
static const struct hardware_group *find_node(const struct hardware *h, size_t node,
                                              uint32_t *ret_first_site)
{
    size_t site = 0, i = 0;
    for (; node >= h->groups[i].node_count; i++) {
        node -= h->groups[i].node_count;
        site += h->groups[i].node_count * (size_t)h->groups[i].devices_per_node;
    }
    *ret_first_site = (uint32_t)(site + node * (size_t)h->groups[i].devices_per_node);
    return &h->groups[i];
}

void prepare_node(struct engine *g, uint32_t node)
{
    struct node_info info;
    struct device_health health[NODE_DEVICES_MAX];
    uint32_t first_site;
    const struct hardware_group *group = find_node(g->config->hardware, node, &first_site);
    describe_node(group, node, first_site, &info);
    for (int d = 0; d < info.device_count; d++) {
        health[d] = (struct device_health){.state = DEVICE_HEALTHY, .admits = ADMIT_ALL};
        (void)str_copy(health[d].uuid, sizeof health[d].uuid, info.devices[d].uuid);
    }
    struct cluster_event event = {.kind = CLUSTER_NODE_HELLO, .now = engine_clock(g), .request = 1};
    event.hello.info = &info;
    event.hello.health = health;
    event.hello.health_count = (size_t)info.device_count;
    engine_step(g, &event);
}

void prepare_nodes(struct engine *g)
{
    for (size_t i = 0; g->failed == 0 && i < g->config->hardware->node_count; i++)
        prepare_node(g, (uint32_t)i);
}

/* Creates all services at the start, cycling through the kinds. */
static void prepare_services(struct engine *g)
{
    const struct serving *serving = g->config->serving;
    size_t models = truth_tables(g->config->truth)->model_count;
    for (size_t i = 0; i < g->config->service_count; i++) {
        size_t profile = i % serving->profile_count;
        g->service_items[i] =
            (struct trace_item){.devices = 1,
                                .batch = 1,
                                .duration_s = 1,
                                .model = (uint32_t)serving->profiles[profile].like};
        g->tasks[i].service = &serving->profiles[profile];
        g->tasks[i].item = &g->service_items[i];
        g->tasks[i].event.kind = ENGINE_TASK;
        g->tasks[i].clearing.kind = ENGINE_CLEAR;
        g->result->workloads[i] = (struct result_workload){.id = i + 1,
                                                           .kind = WORKLOAD_SERVICE,
                                                           .state = WORKLOAD_QUEUED,
                                                           .model = (uint32_t)(models + profile),
                                                           .devices = 1,
                                                           .start_s = -1,
                                                           .end_s = -1,
                                                           .batch_user = 1,
                                                           .batch_last = 1};
    }
}

static void prepare_trace(struct engine *g)
{
    size_t services = g->config->service_count;
    for (size_t i = services; i < g->task_count; i++) {
        const struct trace_item *item = &g->config->trace->items[i - services];
        g->tasks[i].item = item;
        g->tasks[i].event.kind = ENGINE_TASK;
        g->tasks[i].clearing.kind = ENGINE_CLEAR;
        g->result->workloads[i] = (struct result_workload){.id = i + 1,
                                                           .kind = WORKLOAD_TASK,
                                                           .state = WORKLOAD_QUEUED,
                                                           .model = item->model,
                                                           .devices = item->devices,
                                                           .submit_s = item->submit_s,
                                                           .start_s = -1,
                                                           .end_s = -1,
                                                           .alone_s = item->duration_s,
                                                           .batch_user = item->batch,
                                                           .batch_last = item->batch};
    }
}

void prepare_tasks(struct engine *g)
{
    prepare_services(g);
    prepare_trace(g);
}

void prepare_system(struct engine *g)
{
    const struct policy *policy = g->config->policy;
    const bool *without = g->config->options.without;
    g->is_true = policy->needs_truth;
    g->tunes = policy->tunes && !without[POLICY_PART_TUNER];
    g->ways = (struct serving_ways){.time = policy->gates && !without[POLICY_PART_GATE],
                                    .space = policy->shares};
}
