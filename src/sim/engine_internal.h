/*
 * Inside the engine. engine.c: the loop and the conversation with the cluster; site.c: who is on which
 * device, how fast, at which batch size.
 *
 *   task     a workload of the trace; to the cluster it is `part_count` workloads, one but for a task
 *            that is larger than a node. It has a slot for every device
 *   site     a device with those that are there (residents), in the order of their kinds
 */
#pragma once
#include "base/hash.h"
#include "base/list.h"
#include "base/rng.h"
#include "cluster/cluster.h"
#include "cluster/heap.h"
#include "learn/tuner.h"
#include "sim/belief.h"
#include "sim/course.h"
#include "sim/engine.h"

enum {
    SITE_RESIDENTS_MAX = FORECAST_MEMBERS_MAX,
    SITE_NONE = UINT32_MAX,
};

/* Something that will happen. */
enum engine_event_kind { ENGINE_TASK, ENGINE_TUNE };
struct engine_event {
    struct heap_member member;
    int64_t due_ms;
    uint64_t order; /* among those due at once: the order in which they were made */
    enum engine_event_kind kind;
};

enum task_phase { TASK_COMING, TASK_WAITING, TASK_STARTING, TASK_RUNNING, TASK_OVER };

struct task_slot {
    uint32_t site; /* SITE_NONE: not placed */
    double speed;  /* of its rank there: progress in seconds alone, a second */
    double from_s; /* since when it is there */
    double pd;
};

struct task {
    struct engine_event event; /* it begins, or ends */
    const struct trace_item *item;
    enum task_phase phase;
    uint32_t kind;     /* of the belief */
    uint32_t first_id; /* of its first part at the cluster; 0: not submitted */
    uint32_t part_count, parts_granted, parts_over;
    uint32_t slot_count, slots_placed;
    struct task_slot *slots; /* owned while it is submitted */
    double remaining_s;      /* alone, at its user's batch */
    double speed, batch;
    int64_t advanced_ms;
    double running_s; /* so far */
};

struct resident {
    uint32_t task, slot;
};

struct site {
    struct engine_event event; /* a round of its search ends */
    uint32_t node;
    uint16_t group;
    uint16_t resident_count;
    struct resident residents[SITE_RESIDENTS_MAX];
    struct tuner *tuner; /* the search under way, or NULL; owned */
    int64_t steady_ms;   /* since when nothing has changed there */
    double sm, dram, memory;
};

/* Batch sizes that a search ended with. */
struct tuned {
    uint32_t batches[TUNER_TASKS_MAX];
};

/* A grant that is to be answered. */
struct granted {
    uint64_t id, session;
    int attempt;
    uint32_t node;
    int device_count;
    uint32_t sites[WORKLOAD_DEVICES_MAX];
    bool is_stop;
};

struct engine {
    const struct engine_config *config;
    struct cluster *cluster;
    struct cluster_actions actions;
    struct belief *belief;
    struct result *result;
    struct course course;
    struct rng rng;
    struct heap events;
    uint64_t event_count;
    int64_t now_ms;
    bool tunes, is_true;
    int failed; /* the first error, or 0 */

    struct task *tasks;
    size_t task_count, next_task, over_count, running_count, waiting_count;
    uint32_t *task_of_id; /* cluster ids from 1 on → task index */
    size_t id_count, id_capacity;
    struct site *sites;
    uint64_t *sessions; /* of nodes */
    struct hash_map tuned;

    struct granted *granted; /* to be answered */
    size_t granted_count, granted_capacity;

    /* Tasks larger than a node that wait for their turn: indices, first come, first gathered. */
    uint32_t *gangs;
    size_t gang_first, gang_count;
    bool is_gathering;
    int64_t placed_ms; /* when something was last placed */
};

static inline double engine_seconds(int64_t ms)
{
    return (double)ms / 1000;
}

/* engine.c */
void engine_schedule(struct engine *g, struct engine_event *event, int64_t due_ms);
void engine_unschedule(struct engine *g, struct engine_event *event);

/* site.c */
int site_init_all(struct engine *g);
void site_done_all(struct engine *g);
/* A task comes to a device, or leaves it. The others' speeds change. */
void site_add(struct engine *g, uint32_t site, struct resident resident);
void site_remove(struct engine *g, uint32_t site, struct resident resident);
/* One there has begun. */
void site_began(struct engine *g, uint32_t site);
/* A round of its search is over. */
void site_tune(struct engine *g, struct site *s);
/* Its progress up to now, at the speed that it had. */
void task_advance(struct engine *g, struct task *t);
/* When it ends, at the speed that it has now. */
void task_reschedule(struct engine *g, struct task *t);
