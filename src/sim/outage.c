/*
 * Nodes that fall silent: the machine is lost with its workloads, and returns later without any
 * state. The cluster is not told. The cluster misses the node's beats, gives up its attempts when
 * the lease and the periods after it have expired, and queues them again; messages to the node are
 * lost meanwhile. A node that returns earlier says hello, and is asked for attempts that it does
 * not know.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/engine_internal.h"

enum { BEATS_A_LEASE = 2 };

/* Outage state of a node. */
struct outage {
    struct engine_event back;
    bool is_down;
};

static double draw_s(struct engine *g, double mean_s)
{
    return -log(1 - rng_double(&g->outage_rng)) * mean_s;
}

static void schedule_next(struct engine *g)
{
    double nodes = (double)g->config->hardware->node_count;
    double gap_s = draw_s(g, 86400 / (g->config->outages_per_node_day * nodes));
    engine_schedule(g, &g->next_outage, g->now_ms + (int64_t)(gap_s * 1000) + 1);
}

static void schedule_beat(struct engine *g)
{
    engine_schedule(g, &g->beat, g->now_ms + g->lease_ms / BEATS_A_LEASE);
}

int outage_init(struct engine *g)
{
    size_t count = g->config->hardware->node_count;
    if (g->config->outages_per_node_day <= 0)
        return 0;
    g->outages = calloc(count, sizeof *g->outages);
    if (!g->outages)
        return -ERR_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        g->outages[i].back.kind = ENGINE_BACK;
    rng_seed(&g->outage_rng, g->config->seed + 2);
    g->next_outage.kind = ENGINE_OUTAGE;
    g->beat.kind = ENGINE_BEAT;
    schedule_next(g);
    schedule_beat(g);
    return 0;
}

bool outage_is_down(const struct engine *g, uint32_t node)
{
    return g->outages && g->outages[node].is_down;
}

void outage_beat(struct engine *g)
{
    for (size_t i = 0; g->failed == 0 && i < g->config->hardware->node_count; i++) {
        char name[NODE_NAME_MAX];
        struct cluster_event event = {.kind = CLUSTER_NODE_BEAT, .now = engine_clock(g)};
        if (g->outages[i].is_down)
            continue;
        (void)snprintf(name, sizeof name, "n%zu", i);
        event.node.node = name;
        event.node.session = g->sessions[i];
        engine_step(g, &event);
    }
    schedule_beat(g);
}

/* Returns whether the node has a part of a task of several nodes, running or reserved for its
 * start. */
static bool has_part(const struct engine *g, uint32_t node)
{
    for (size_t i = 0; i < g->gang_first; i++) {
        const struct task *t = &g->tasks[g->gangs[i]];
        for (uint32_t k = 0; t->slots && k < t->slot_count; k++)
            if (t->slots[k].site != SITE_NONE && g->sites[t->slots[k].site].node == node)
                return true;
    }
    return false;
}

static void cut(struct engine *g, uint32_t node)
{
    for (size_t i = 0; i < g->config->hardware->device_count; i++) {
        struct site *s = &g->sites[i];
        if (s->node != node)
            continue;
        while (s->resident_count > 0)
            engine_cut(g, s->residents[0].task);
        watch_forget(g, s);
    }
}

void outage_strike(struct engine *g)
{
    uint32_t node = (uint32_t)rng_below(&g->outage_rng, g->config->hardware->node_count);
    double away_s = draw_s(g, g->config->outage_mean_s);
    struct outage *o = &g->outages[node];
    if (!o->is_down && !has_part(g, node)) {
        o->is_down = true;
        g->result->summary.outages++;
        cut(g, node);
        engine_schedule(g, &o->back, g->now_ms + (int64_t)(away_s * 1000) + 1);
    }
    schedule_next(g);
}

void outage_end(struct engine *g, struct engine_event *event)
{
    struct outage *o = list_entry(event, struct outage, back);
    o->is_down = false;
    prepare_node(g, (uint32_t)(o - g->outages));
}
