/*
 * Internals of the engine. prepare.c: the initial state; engine.c: the loop and the exchange with
 * the cluster; site.c: the workloads of each device, their speeds and batch sizes; watch.c:
 * services close to their SLO; outage.c: nodes that fall silent.
 *
 *   task     a workload of the trace. The cluster sees a task larger than a node as
 *            `part_count` workloads, and any other task as one workload. A task has a slot for
 *            every device
 *   site     a device and its workloads (residents), in the order of their kinds
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

/* A scheduled event. */
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
    uint64_t order; /* order of creation, among events due at the same time */
    enum engine_event_kind kind;
};

enum task_phase { TASK_COMING, TASK_WAITING, TASK_STARTING, TASK_RUNNING, TASK_OVER };

struct task_slot {
    uint32_t site; /* SITE_NONE: not placed */
    double speed;  /* progress per second on this site, in seconds of run time alone */
    double from_s; /* time of arrival */
    double pd;
    double done_ms; /* progress since the neighbours last changed, as run time of the task alone */
};

struct task {
    struct engine_event event;    /* start or end; of a service: change of its rate */
    struct engine_event clearing; /* end of a suspect's probation */
    const struct trace_item *item;
    const struct serving_profile *service; /* NULL: a task */
    struct serving_state serving;          /* of a running service */
    double rate_per_s;
    enum task_phase phase;
    int attempt;       /* the cluster's number of the attempt */
    uint32_t kind;     /* kind in the belief */
    uint32_t first_id; /* cluster id of the first part; 0: not submitted */
    uint32_t part_count, parts_granted;
    uint32_t slot_count;
    struct task_slot *slots; /* owned while submitted */
    double remaining_s;      /* alone, at the user's batch size */
    double speed, batch;
    int64_t advanced_ms;
    double running_s; /* total so far */
};

struct resident {
    uint32_t task, slot;
};

struct site {
    struct engine_event event; /* end of a search round */
    uint32_t node;
    uint16_t group;
    uint16_t resident_count;
    struct resident residents[SITE_RESIDENTS_MAX];
    struct tuner *tuner; /* current search, or NULL; owned */
    int64_t steady_ms;   /* time of the last change of speeds */
    int64_t company_ms;  /* time of the last change of residents, at any batch sizes */
    double sm, dram, memory;
    /* For a service close to its SLO beside tasks: */
    struct engine_event watch;
    struct device_monitor *monitor; /* NULL: not watched; owned */
    double throttle;                /* fraction of the time in which tasks may run */
};

/* Batch sizes that a search found. */
struct tuned {
    uint32_t batches[TUNER_TASKS_MAX];
};

/* A grant or a stop that a node has not answered yet. */
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
    int failed; /* first error, or 0 */

    struct task *tasks;
    size_t task_count, next_task, over_count, running_count,
        waiting_count;                /* waiting tasks; task_count includes services */
    struct trace_item *service_items; /* in place of a trace's items, for services; owned */
    struct serving_ways ways;
    struct engine_event fault; /* the next fault */
    struct rng fault_rng;
    struct outage *outages; /* one per node; NULL: no outages; owned */
    struct engine_event next_outage, beat;
    struct rng outage_rng;
    int64_t lease_ms;
    struct device_actions *device_actions; /* actions of one step; owned */
    uint32_t *task_of_id;                  /* index of a task, by cluster id - 1 */
    size_t id_count, id_capacity;
    struct site *sites;
    uint64_t *sessions; /* one per node */
    struct hash_map tuned;
    size_t observed; /* observations since the cluster was last notified of a new forecast */

    struct granted *granted; /* not answered yet */
    size_t granted_count, granted_capacity;

    /* Indices of waiting tasks larger than a node, in order of arrival. */
    uint32_t *gangs;
    size_t gang_first, gang_count;
    bool is_gathering;
    int64_t placed_ms; /* time of the last placement */
};

static inline double engine_seconds(int64_t ms)
{
    return (double)ms / 1000;
}

/* prepare.c */
void prepare_system(struct engine *g);
void prepare_tasks(struct engine *g);
/* Lets all nodes join, or one node: without workloads, and with healthy devices. */
void prepare_nodes(struct engine *g);
void prepare_node(struct engine *g, uint32_t node);

/* engine.c */
/* Steps the cluster, and records the grants and stops that nodes must answer. */
void engine_step(struct engine *g, const struct cluster_event *event);
struct clock_now engine_clock(const struct engine *g);
/* Ends a workload because of its device, with this verdict. */
void engine_evict(struct engine *g, uint64_t id, enum attempt_verdict verdict, const char *why);
/* Ends a task whose node fell silent, without a report; the task then waits again. */
void engine_cut(struct engine *g, uint32_t task);
/* Reports the health of a device to the cluster. */
void engine_say_health(struct engine *g, const struct site *s);
void engine_schedule(struct engine *g, struct engine_event *event, int64_t due_ms);
void engine_unschedule(struct engine *g, struct engine_event *event);

/* site.c */
int site_init_all(struct engine *g);
void site_done_all(struct engine *g);
/* Add a task to a device, or remove it, and update the speeds of the other residents. */
void site_add(struct engine *g, uint32_t site, struct resident resident);
void site_remove(struct engine *g, uint32_t site, struct resident resident);
/* Records that a resident has started to run. */
void site_began(struct engine *g, uint32_t site);
/* Updates all speeds on a device after a change of a rate or a throttle. */
void site_refresh(struct engine *g, struct site *s);
/* Ends a round of the search on a device. */
void site_tune(struct engine *g, struct site *s);
/* Credits a task's progress up to now, at its speed so far. */
void task_advance(struct engine *g, struct task *t);
/* Schedules the end of a task at its present speed. */
void task_reschedule(struct engine *g, struct task *t);
bool task_is_service(const struct task *t);

/* watch.c */
/* Starts the watch of the device if, after a change of speeds, a service is close to its SLO. */
void watch_consider(struct engine *g, struct site *s);
/* Raises a fault that ends all workloads of the device. */
void watch_fault(struct engine *g, struct site *s);
/* Takes one sample of a watched device; called every 200 ms. */
void watch_sample(struct engine *g, struct site *s);
/* Ends the watch of a device whose node fell silent. */
void watch_forget(struct engine *g, struct site *s);
/* Report a new or departed resident to the monitor of a watched device. Do nothing on other
 * devices. */
void watch_came(struct engine *g, struct site *s, const struct task *t);
void watch_left(struct engine *g, struct site *s, const struct task *t);

/* outage.c */
/* Returns -ERR_NO_MEMORY. */
int outage_init(struct engine *g);
bool outage_is_down(const struct engine *g, uint32_t node);
/* Silence a random node; restore a node; send the beats of all nodes that are up. */
void outage_strike(struct engine *g);
void outage_end(struct engine *g, struct engine_event *event);
void outage_beat(struct engine *g);
