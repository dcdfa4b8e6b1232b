/*
 * Test fixture: a service with a queue of requests beside tasks on a device, in simulated time, and
 * a controller in a closed loop. The device is a fluid: service and task progress at rates that
 * depend on the gate, and a gate that shuts first drains the task's window and its longest kernel.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "device/controller_internal.h"

enum { WORLD_QUEUE = 1 << 12, WORLD_KINDS = 2 };

/* Properties of a service and the tasks beside it; all times in us. */
struct scenario {
    const char *name;
    double request_us, spread; /* alone; relative spread of the durations */
    double rate;               /* requests per second; 0: closed loop */
    double slo_us;             /* 0: none */
    double allowed;            /* fraction of late requests */
    bool reports, has_mps;
    double share;                  /* speed of the service beside an ungated task */
    double task_share;             /* speed of the task beside a request, without a gate */
    double gap;                    /* the same with the gate shut */
    double kernel_us;              /* of the task */
    double wait;                   /* part of the kernel that a request waits for */
    double depth_us;               /* work of the task in flight without a window */
    double bubble_us;              /* cost of a window for the task */
    double stall_chance, stall_us; /* of a request, whoever is there */
    double wobble;                 /* of the load, from second to second */
};

enum world_gate { WORLD_OPEN, WORLD_DRAINS, WORLD_SHUT };

struct world {
    struct scenario s;
    struct rng arrivals, chance;
    struct controller_limits limits;
    bool has_tasks;
    double now_us, next_arrival_us, load, load_until_us;
    double arrived_us[WORLD_QUEUE], needs_us[WORLD_QUEUE];
    size_t head, count;
    double left_us, wait_us, begin_us; /* of the request at the head */
    bool is_beside;                    /* a task worked during the request at the head */
    enum world_gate gate;
    double drain_us;
    /* Sums since they were cleared. */
    double answered, late, latency_us, work_us, busy_us;
    struct controller_bursts alone[CONTROLLER_KINDS], beside[CONTROLLER_KINDS];
};

/* Draws a service and its tasks. */
void scenario_draw(struct scenario *s, uint64_t seed);
void world_init(struct world *w, const struct scenario *s, uint64_t seed);
void world_run(struct world *w, double until_us);
void world_clear(struct world *w);
/* Returns the figures of the service alone. */
struct controller_solo world_solo(const struct scenario *s, uint64_t seed);

/* Result of a run, after a time to settle. */
struct outcome {
    double late;    /* fraction of the requests */
    double latency; /* mean, us */
    double speed;   /* of the task; 1: alone */
    double requests;
    double changes_per_minute, paused; /* part of the time */
    int setting;                       /* at the end */
    bool is_unreachable, gives_up;
    char why[CONTROLLER_WHY_MAX];
};
struct outcome run_fixed(const struct scenario *s, uint64_t seed, int setting,
                         const struct controller_solo *solo, double settle_s, double run_s);

/* A controller beside a world. */
struct loop {
    struct world w;
    struct controller c;
    struct controller_answer answer;
    struct rng noise;
    int64_t now_ms;
    uint64_t neighbours;
    bool tasks_rest; /* the tasks are there and do nothing */
    bool is_traced;  /* print changes */
    int changes, paused_looks, looks;
    double answered, late, latency_us, work_us; /* since loop_clear() */
    struct controller_bursts alone[CONTROLLER_KINDS], beside[CONTROLLER_KINDS];
};
void loop_init(struct loop *l, const struct scenario *s, uint64_t seed,
               struct controller_memory *memory);
void loop_run(struct loop *l, double seconds);
void loop_clear(struct loop *l);
struct outcome loop_outcome(const struct loop *l);
