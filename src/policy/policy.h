/*
 * A policy assigns waiting workloads to devices. A policy reads a snapshot and returns decisions,
 * does no I/O, reads no clock and keeps no state.
 *
 * To add a policy, write a file with one `const struct policy` and add one line to registry.c.
 *
 * This folder contains the policies, and the parts that policies share. Files of the folder policy
 * may include base, model, learn.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "model/node.h"
#include "model/workload.h"
#include "policy/forecast.h"

struct fleet;

struct policy_node {
    const char *name;
    const struct pairs *labels;
    bool usable;   /* connected, not drained, and not blocked after failed starts */
    bool doubtful; /* a start on this node failed recently */
    size_t first_device, device_count;
    int attempts, attempts_max;  /* open attempts and their limit */
    int cpu_only, cpu_tasks_max; /* attempts without devices; limit: policy_cpu_only_max() */
};

struct policy_device {
    const char *uuid, *model;
    size_t node;
    uint64_t memory_bytes;
    /* Demand of the workloads that are placed on the device and have not ended: */
    uint64_t quota_bytes;
    uint64_t swappable_bytes; /* part of quota_bytes that swappable tasks can give to services */
    int share_min_percent;
    int neighbours;
    int suspects;
    int services;
    bool exclusive; /* taken as a whole by a workload without a quota */
    /* Workload for which the device is reserved until the device has room; 0: none. */
    uint64_t kept_for;
    enum device_admission admits;
    const struct device_health *health; /* explains `admits` to people; NULL: unknown */
};

/* Knowledge about a workload beyond its needs. All zero: none. */
struct policy_known {
    uint32_t kind;    /* kind in the forecast */
    uint32_t program; /* future kind, once the forecast knows the program; not for policies */
    double alone_ms;  /* remaining time alone, at the user's batch size; 0: unknown */
    bool checkpoints; /* can continue on another device from its checkpoint */
};

struct policy_waiting {
    uint64_t workload;
    const struct workload_needs *needs;
    const struct pairs *node_labels;
    int64_t waited_ms;
    struct policy_known known;
    bool takes_kept; /* devices are reserved for this workload or for a workload behind it */
    size_t ahead;    /* waiting workloads that precede this workload, as far as counted */
};

/* Parts of a policy that can be disabled, to measure their effect. */
#define POLICY_PARTS(X)                                                                            \
    X(TUNER, "tuner")         /* search for batch sizes */                                         \
    X(PREDICTOR, "predictor") /* choice of devices by predicted slowdowns */                       \
    X(OPTIMIZER, "optimizer") /* refusal of slow placements that fit */                            \
    X(MATCHING, "matching")   /* rounds of matching, not single decisions */                       \
    X(GATE, "gate")           /* stopping of tasks while a service is busy */
enum policy_part {
#define X(name, text) POLICY_PART_##name,
    POLICY_PARTS(X)
#undef X
        POLICY_PART_END
};
const char *policy_part_name(enum policy_part part);
int policy_part_parse(const char *text, enum policy_part *ret_part);

struct policy_options {
    bool without[POLICY_PART_END];
};

struct policy_snapshot {
    const struct policy_node *nodes;
    size_t node_count;
    const struct policy_device *devices; /* devices of one node are consecutive */
    size_t device_count;
    const struct policy_waiting *waiting; /* in the order of the queue */
    size_t waiting_count;
    int max_neighbours; /* maximum of workloads on one device */
    uint64_t seed;      /* for randomised policies */
    struct policy_options options;
    const struct fleet *fleet; /* same devices; NULL: the policy has no `judge` */
    int64_t now_ms;            /* boot clock */
};

struct policy_decision {
    size_t waiting;                       /* index into snapshot->waiting */
    size_t node;                          /* index into snapshot->nodes */
    size_t device_count;                  /* 0 only for a workload that needs no device */
    size_t devices[WORKLOAD_DEVICES_MAX]; /* indices into snapshot->devices, all of one node */
};

/* Reasons why a device has no room for a workload. */
enum policy_misfit {
    POLICY_FITS,
    POLICY_NODE_UNUSABLE,
    POLICY_NODE_DOUBTFUL, /* a start failed on the node, and a start of the workload failed */
    POLICY_NODE_FULL, /* attempts_max reached, or for a workload without devices cpu_tasks_max */
    POLICY_WRONG_MODEL,
    POLICY_WRONG_LABELS,
    POLICY_NO_MEMORY,  /* Σ quotas would exceed the device's memory */
    POLICY_NO_SHARE,   /* Σ share.min would exceed 100 */
    POLICY_UNHEALTHY,  /* the device admits no workload of this kind */
    POLICY_SUSPECT,    /* the workload is a suspect, and another workload on the device is too */
    POLICY_NEIGHBOURS, /* max_neighbours reached, or a neighbour has the whole device */
    POLICY_KEPT,       /* the device has room, but is reserved for a workload with precedence */
    POLICY_MISFIT_END
};

/* Reasons why a policy rejects a device that has room. */
#define POLICY_OBJECTIONS(X)                                                                       \
    X(NONE, "")                                                                                    \
    X(SLO, "a service would miss its SLO")                                                         \
    X(SLOW, "sharing a device would add too little speed")                                         \
    X(GANG, "a task on the device already uses several devices")                                   \
    X(SERVICES, "the device has a service already")                                                \
    X(TASKS, "the device already has the maximum number of tasks")                                 \
    X(UTILISATION, "the workloads would need more SMs than the device has")                        \
    X(ROUND, "only rounds of matching let workloads share a device")
enum policy_objection {
#define X(name, text) POLICY_OBJECTS_##name,
    POLICY_OBJECTIONS(X)
#undef X
        POLICY_OBJECTION_END
};
const char *policy_objection_text(enum policy_objection objection);

/* A class of devices, considered for one workload. */
struct policy_candidate {
    size_t class_index;                 /* index in the fleet */
    enum policy_misfit misfit;          /* POLICY_FITS: the class has room */
    enum policy_objection objection;    /* set if misfit is POLICY_FITS */
    double score;                       /* larger is better; valid without misfit and objection */
    double pd;                          /* predicted PD of the workload */
    double speed_before, speed_after;   /* speed of all tasks, without and with the workload */
    double pd_sum_before, pd_sum_after; /* PD of all tasks, without and with the workload */
    /* The service closest to its SLO, or furthest beyond it: */
    double p99_ms;     /* 0: unknown */
    double slo_ms;     /* 0: none */
    bool is_p99_guess; /* no measurement supports p99_ms, so p99_ms must not cause a refusal */
    uint32_t service;  /* kind of the service */
};
/* Returns whether a service would miss its SLO according to measurements. */
bool policy_misses_slo(const struct policy_candidate *candidate);

/* Decision of a policy with a `judge` function about one workload. */
enum policy_verdict {
    POLICY_PLACES,
    POLICY_REFUSES, /* no device is acceptable now */
    POLICY_WAITS,   /* a device is acceptable, but the workload ends sooner if it waits */
};

/* Result of a matching round: placements of waiting workloads and moves of running workloads. */
struct policy_move {
    uint64_t workload;
    size_t from, to; /* indices of devices */
};
struct policy_round {
    size_t decision_count, move_count;
    struct policy_decision *decisions; /* room for waiting_count */
    struct policy_move *moves;         /* room for POLICY_MOVES_MAX */
};
enum { POLICY_MOVES_MAX = 256 };

struct policy {
    const char *name, *summary;
    bool needs_truth;    /* requires a forecast of the truth, which only the simulator has */
    bool one_a_device;   /* never shares a device */
    bool shortest_first; /* workloads with less remaining time precede others */
    /* Waits for a better device if the workload then ends sooner (IADeep's optimization 2). */
    bool waits;
    bool by_end_times; /* among the best few classes, takes the class whose end times grow least */
    int64_t round_ms;  /* interval between rounds; 0: no rounds */
    /* How the published system behind this policy shares a device; only device simulators read
     * these fields: */
    bool tunes;  /* tunes the batch sizes of tasks */
    bool gates;  /* stops tasks while a service is busy */
    bool shares; /* divides the SMs between a service and tasks */
    /*
     * Judges a candidate that has room and a complete forecast: sets its score or objection.
     * Policies that use a forecast have this function instead of `decide`; see policy/place.h.
     */
    void (*judge)(const struct policy_snapshot *snapshot, const struct policy_waiting *waiting,
                  struct policy_candidate *candidate);
    /* Matches waiting workloads (all of them tasks with one device) to devices. May be NULL.
     * Returns -ERR_NO_MEMORY. */
    int (*round)(const struct policy_snapshot *snapshot, struct policy_round *ret_round);
    /*
     * Fills `out` (room for waiting_count decisions) and returns the number of decisions. `scratch`
     * is a private copy of snapshot->devices, in which the policy may book its decisions. The
     * policy cannot book attempts on a node, so a caller with limits on attempts asks for one
     * workload at a time. A refusal applies to all workloads with equal needs and labels: the
     * caller does not call again for them until the devices change.
     */
    size_t (*decide)(const struct policy_snapshot *snapshot, struct policy_device *scratch,
                     struct policy_decision *out);
};

/* registry.c. Returns the policy of this name, or NULL. */
const struct policy *policy_find(const char *name);
/* Returns whether disabling the part could affect this policy. */
bool policy_has_part(const struct policy *policy, enum policy_part part);
/* Returns the policy at index 0, 1, …; NULL past the last. */
const struct policy *policy_at(size_t index);

/* fit.c: shared by the policies. */
/* Returns the limit of attempts without devices on this node: at most three quarters of all. The
 * rest is for workloads with devices. */
int policy_cpu_only_max(const struct policy_node *node);
/* Returns a phrase for the misfit; "" for POLICY_FITS. */
const char *policy_misfit_text(enum policy_misfit misfit);
enum policy_misfit policy_node_fit(const struct policy_node *node,
                                   const struct policy_waiting *waiting);
enum policy_misfit policy_device_fit(const struct policy_snapshot *snapshot,
                                     const struct policy_device *device,
                                     const struct policy_waiting *waiting, int max_neighbours);
/* Returns the reason why the device has no room for `needs`, or POLICY_FITS, without regard to the
 * device's node. Also used for a workload that returns to the device. */
enum policy_misfit policy_device_room(const struct policy_device *device,
                                      const struct workload_needs *needs, int max_neighbours);
/* Returns whether the device would have room if it were empty. */
bool policy_device_could(const struct policy_snapshot *snapshot, const struct policy_device *device,
                         const struct policy_waiting *waiting);
/* Returns whether `wanted` is a part of the model name, ignoring case, spaces and dashes. The empty
 * string matches every model. */
bool policy_model_matches(const char *model, const char *wanted);
/* Book `needs` on a device, and release them. */
void policy_device_take(struct policy_device *device, const struct workload_needs *needs);
void policy_device_release(struct policy_device *device, const struct workload_needs *needs);
/* Places the waiting workloads in order, each on the first node with room; the core of firstfit and
 * exclusive. The contract is that of policy.decide. */
size_t policy_decide_first(const struct policy_snapshot *snapshot, struct policy_device *scratch,
                           int max_neighbours, struct policy_decision *out);

/* explain.c. Writes one sentence that explains why `waiting` fits on no device now ("0 of 4 devices
 * fit: 3 have too little memory (…)"). Returns true if the workload can never fit, with a sentence
 * that says so. */
bool policy_explain_misfit(const struct policy_snapshot *snapshot,
                           const struct policy_waiting *waiting, const struct policy *policy,
                           char text[WORKLOAD_TEXT_MAX]);
