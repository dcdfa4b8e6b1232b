/* Before a run: who is there, who will come, and what the policy's system can do. */
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

void prepare_nodes(struct engine *g)
{
    const struct hardware *h = g->config->hardware;
    struct node_info info;
    uint32_t node = 0, site = 0;
    for (size_t i = 0; i < h->group_count; i++) {
        for (size_t n = 0; g->failed == 0 && n < h->groups[i].node_count; n++, node++) {
            describe_node(&h->groups[i], node, site, &info);
            site += (uint32_t)h->groups[i].devices_per_node;
            struct cluster_event event = {
                .kind = CLUSTER_NODE_HELLO, .now = engine_clock(g), .request = 1};
            event.hello.info = &info;
            engine_step(g, &event);
        }
    }
}

/* Services come first, all at once, of each kind in turn. */
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
    g->is_true = str_equal(policy->name, "oracle");
    g->tunes = policy->tunes && !without[POLICY_PART_TUNER];
    g->ways = (struct serving_ways){.time = policy->gates && !without[POLICY_PART_GATE],
                                    .space = policy->shares};
}
