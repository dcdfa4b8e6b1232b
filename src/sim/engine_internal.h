/*
 * Inside the engine. prepare.c: who is there; engine.c: the loop and the conversation with the
 * cluster; site.c: who is on which device, how fast, at which batch size; watch.c: services that
 * come near their SLO; outage.c: nodes that fall silent.
 *
 *   task     a workload of the trace; to the cluster it is `part_count` workloads, one but for a
 *            task that is larger than a node. It has a slot for every device
 *   site     a device with those that are there (residents), in the order of their kinds
 */
#pragma once
#include "base/hash.h"
#include "base/list.h"
#include "base/rng.h"
#include "cluster/cluster.h"
#include "cluster/heap.h"
#include "device/device.h"
#include "learn/tuner.h"
#include "sim/belief.h"
#include "sim/course.h"
#include "sim/engine.h"

enum {
    SITE_RESIDENTS_MAX = FORECAST_MEMBERS_MAX,
    SITE_NONE = UINT32_MAX,
};

/* Something that will happen. */
enum engine_event_kind {
    ENGINE_TASK,
    ENGINE_TUNE,
    ENGINE_WATCH,
    ENGINE_FAULT,
    ENGINE_CLEAR,
    ENGINE_OUTAGE,
    ENGINE_BACK,
    ENGINE_BEAT
};
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
    double done_ms; /* time alone that it has got done since others there changed */
};

struct task {
    struct engine_event event;    /* it begins, or ends; of a service: its rate changes */
    struct engine_event clearing; /* it was a suspect, and has run long enough */
    const struct trace_item *item;
    const struct serving_profile *service; /* NULL: a task */
    struct serving_state serving;          /* of a service that runs */
    double rate_per_s;
    enum task_phase phase;
    int attempt;       /* as the cluster counts */
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
    int64_t company_ms;  /* since when they run there together, at whatever batch sizes */
    double sm, dram, memory;
    /* Where a service comes near its SLO beside tasks: */
    struct engine_event watch;
    struct device_monitor *monitor; /* NULL: all is well; owned */
    double throttle;                /* part of their time that tasks may use */
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
    bool is_stop, is_suspect;
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
    size_t task_count, next_task, over_count, running_count,
        waiting_count;                /* count: with services */
    struct trace_item *service_items; /* what services are in place of a trace's; owned */
    struct serving_ways ways;
    struct engine_event fault; /* the next one */
    struct rng fault_rng;
    struct outage *outages; /* of nodes; NULL: there are none; owned */
    struct engine_event next_outage, beat;
    struct rng outage_rng;
    int64_t lease_ms;
    struct device_actions *device_actions; /* of one step; owned */
    uint32_t *task_of_id;                  /* cluster ids from 1 on → task index */
    size_t id_count, id_capacity;
    struct site *sites;
    uint64_t *sessions; /* of nodes */
    struct hash_map tuned;
    size_t observed; /* since the cluster was last told that the belief has changed */

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

/* prepare.c */
void prepare_system(struct engine *g);
void prepare_tasks(struct engine *g);
/* All nodes join; one does, with nothing running and all devices well. */
void prepare_nodes(struct engine *g);
void prepare_node(struct engine *g, uint32_t node);

/* engine.c */
/* A step of the cluster; what nodes have to answer is remembered. */
void engine_step(struct engine *g, const struct cluster_event *event);
struct clock_now engine_clock(const struct engine *g);
/* Its device ends it, by that verdict. */
void engine_evict(struct engine *g, uint64_t id, enum attempt_verdict verdict, const char *why);
/* A task is gone with its node: nobody says so, and it waits from now on. */
void engine_cut(struct engine *g, uint32_t task);
/* What a device's monitor says of it, to the cluster. */
void engine_say_health(struct engine *g, const struct site *s);
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
/* All speeds there, after something has changed: a rate, a throttle. */
void site_refresh(struct engine *g, struct site *s);
/* A round of its search is over. */
void site_tune(struct engine *g, struct site *s);
/* Its progress up to now, at the speed that it had. */
void task_advance(struct engine *g, struct task *t);
/* When it ends, at the speed that it has now. */
void task_reschedule(struct engine *g, struct task *t);
bool task_is_service(const struct task *t);

/* watch.c */
/* After speeds changed: whether this device must be watched. */
void watch_consider(struct engine *g, struct site *s);
/* A fault that ends whoever is there. */
void watch_fault(struct engine *g, struct site *s);
/* A fifth of a second has passed. */
void watch_sample(struct engine *g, struct site *s);
/* Its agent is gone. */
void watch_forget(struct engine *g, struct site *s);
/* Of a device that is watched; else nothing. */
void watch_came(struct engine *g, struct site *s, const struct task *t);
void watch_left(struct engine *g, struct site *s, const struct task *t);

/* outage.c */
/* -ERR_NO_MEMORY. */
int outage_init(struct engine *g);
bool outage_is_down(const struct engine *g, uint32_t node);
/* Another node falls silent; one is back; all that are there say so. */
void outage_strike(struct engine *g);
void outage_end(struct engine *g, struct engine_event *event);
void outage_beat(struct engine *g);
