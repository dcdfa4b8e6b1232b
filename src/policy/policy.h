/*
 * A policy decides which waiting workloads go to which devices. It sees a read-only snapshot and
 * returns decisions; it does no I/O, reads no clock and keeps no state of its own.
 *
 * To add one: a file with one `const struct policy`, one line in registry.c.
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
    bool usable;   /* connected, not drained and not held */
    bool doubtful; /* a start failed there */
    size_t first_device, device_count;
};

struct policy_device {
    const char *uuid, *model;
    size_t node;
    uint64_t memory_bytes;
    /* What its present workloads (placed and not yet ended) hold: */
    uint64_t quota_bytes;
    int share_min_percent;
    int neighbours;
    int suspects;
    int services;
    bool exclusive;    /* one of them takes the whole device (no quota was said) */
    uint64_t kept_for; /* a workload that waits until there is room for it here; 0: none */
    enum device_admission admits;
    const struct device_health *health; /* why it does not, for people; NULL: not known */
};

/* What is known of a workload beyond what it asks for. All zero: nothing. */
struct policy_known {
    uint32_t kind;    /* of the forecast */
    uint32_t program; /* the kind that it will be once the forecast knows it; not for policies */
    double alone_ms;  /* time that it has left to run, alone at its user's batch; 0: not known */
    bool checkpoints; /* it can go on elsewhere from where it was */
};

struct policy_waiting {
    uint64_t workload;
    const struct workload_needs *needs;
    const struct pairs *node_labels;
    int64_t waited_ms;
    struct policy_known known;
    bool takes_kept; /* it goes before the one that devices are kept for, or is that one */
    size_t ahead; /* workloads that wait as well and come before it, as far as they were counted */
};

/* Parts of a policy that can be left out, to see what they are worth. */
#define POLICY_PARTS(X)                                                                            \
    X(TUNER, "tuner")         /* batch sizes stay their users' */                                  \
    X(PREDICTOR, "predictor") /* devices are chosen without knowing who slows whom */              \
    X(OPTIMIZER, "optimizer") /* what fits is placed at once, however slow it would be */          \
    X(MATCHING, "matching")   /* one decision at a time, no rounds */                              \
    X(GATE, "gate")           /* tasks are not held while a service is busy */
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
    const struct policy_device *devices; /* those of one node are consecutive */
    size_t device_count;
    const struct policy_waiting *waiting; /* in the order in which they should be served */
    size_t waiting_count;
    int max_neighbours; /* workloads on one device */
    uint64_t seed;      /* for policies that draw lots */
    struct policy_options options;
    const struct fleet *fleet; /* of the same devices; NULL: for policies that do not judge */
    int64_t now_ms;            /* boot clock */
};

struct policy_decision {
    size_t waiting;                       /* index into snapshot->waiting */
    size_t node;                          /* index into snapshot->nodes */
    size_t device_count;                  /* 0 only for a workload that asks for no device */
    size_t devices[WORKLOAD_DEVICES_MAX]; /* indices into snapshot->devices, all of that node */
};

/* Why there is no room for a workload. */
enum policy_misfit {
    POLICY_FITS,
    POLICY_NODE_UNUSABLE,
    POLICY_NODE_DOUBTFUL, /* a start failed there, and so did one of its own */
    POLICY_WRONG_MODEL,
    POLICY_WRONG_LABELS,
    POLICY_NO_MEMORY,  /* Σ quotas would pass the device's memory */
    POLICY_NO_SHARE,   /* Σ share.min would pass 100 */
    POLICY_UNHEALTHY,  /* the device takes no workload of this kind now */
    POLICY_SUSPECT,    /* a suspect may go there only when no other is there */
    POLICY_NEIGHBOURS, /* max_neighbours reached, or held by one that shares with nobody */
    POLICY_KEPT,       /* there is room, kept for one that goes first */
    POLICY_MISFIT_END
};

/* Why a policy does not want a workload where there would be room. */
#define POLICY_OBJECTIONS(X)                                                                       \
    X(NONE, "")                                                                                    \
    X(SLO, "a service would miss its SLO")                                                         \
    X(SLOW, "together they would do too little more than one alone")                               \
    X(GANG, "it has a task of several devices already")                                            \
    X(SERVICES, "it has a service already")                                                        \
    X(TASKS, "it has as many tasks as may share a device")                                         \
    X(UTILISATION, "its SMs would be wanted by more than there are")                               \
    X(ROUND, "it shares a device only as a round of matching says")
enum policy_objection {
#define X(name, text) POLICY_OBJECTS_##name,
    POLICY_OBJECTIONS(X)
#undef X
        POLICY_OBJECTION_END
};
const char *policy_objection_text(enum policy_objection objection);

/* One class of devices, considered for one workload. */
struct policy_candidate {
    size_t class_index;                 /* of the fleet */
    enum policy_misfit misfit;          /* POLICY_FITS, or there is no room */
    enum policy_objection objection;    /* if there is room */
    double score;                       /* larger is better; if neither stands against it */
    double pd;                          /* its own there */
    double speed_before, speed_after;   /* sum over the tasks, without and with it */
    double pd_sum_before, pd_sum_after; /* the same of PD */
    /* Of the service that is nearest to its SLO, or misses it: */
    double p99_ms;     /* 0: not known */
    double slo_ms;     /* 0: there is none */
    bool is_p99_guess; /* no measurement speaks for it: it is no reason to refuse anybody */
    uint32_t service;  /* its kind */
};
/* Would a service miss its SLO, by what was measured? */
bool policy_misses_slo(const struct policy_candidate *candidate);

/* What becomes of a workload, by a policy that judges. */
enum policy_verdict {
    POLICY_PLACES,
    POLICY_REFUSES, /* nowhere now */
    POLICY_WAITS,   /* somewhere, but it ends sooner if it waits */
};

/* What a matching round wants: a decision for one that waits, or to move one that runs. */
struct policy_move {
    uint64_t workload;
    size_t from, to; /* devices */
};
struct policy_round {
    size_t decision_count, move_count;
    struct policy_decision *decisions; /* room for waiting_count */
    struct policy_move *moves;         /* room for POLICY_MOVES_MAX */
};
enum { POLICY_MOVES_MAX = 256 };

struct policy {
    const char *name, *summary;
    bool needs_truth;    /* its forecast must be the truth, which only the simulator knows */
    bool one_a_device;   /* never shares */
    bool shortest_first; /* who has little left goes before who has much */
    bool waits; /* waits for a better device where that ends sooner (IADeep's optimization 2) */
    bool by_end_times; /* of the best few classes takes the one where ends are delayed least */
    int64_t round_ms;  /* between rounds; 0: there are none */
    /* What its system does on a device, apart from placing, for whoever plays devices: */
    bool tunes;  /* searches for the batch sizes of tasks */
    bool gates;  /* holds tasks while a service is busy */
    bool shares; /* divides the SMs between a service and tasks */
    /*
     * Policies that use a forecast have this instead of `decide`: it completes what it thinks of
     * the candidate, for which there is room and whose forecast is filled in, by score or
     * objection. See policy/place.h.
     */
    void (*judge)(const struct policy_snapshot *snapshot, const struct policy_waiting *waiting,
                  struct policy_candidate *candidate);
    /* Matches the waiting, all of them with one device and a task, to devices. May be NULL.
     * -ERR_NO_MEMORY. */
    int (*round)(const struct policy_snapshot *snapshot, struct policy_round *ret_round);
    /*
     * Fills `out` (room for waiting_count decisions) and returns how many. `scratch` is a private
     * copy of snapshot->devices that the policy may change to account for its own decisions.
     * What is refused would be refused to any other workload of equal needs and labels, too, as
     * long as the devices stay as they are: the caller does not ask again before they change.
     */
    size_t (*decide)(const struct policy_snapshot *snapshot, struct policy_device *scratch,
                     struct policy_decision *out);
};

/* registry.c: the list of policies. NULL if there is none of that name. */
const struct policy *policy_find(const char *name);
/* Whether it could make a difference to leave that part out. */
bool policy_has_part(const struct policy *policy, enum policy_part part);
/* index 0, 1, … ; NULL past the last. */
const struct policy *policy_at(size_t index);

/* fit.c: what policies share. */
/* A few words; "" of POLICY_FITS. */
const char *policy_misfit_text(enum policy_misfit misfit);
enum policy_misfit policy_node_fit(const struct policy_node *node,
                                   const struct policy_waiting *waiting);
enum policy_misfit policy_device_fit(const struct policy_snapshot *snapshot,
                                     const struct policy_device *device,
                                     const struct policy_waiting *waiting, int max_neighbours);
/* Is there room for `needs` on the device, wherever that is? For one that comes back to it, too. */
enum policy_misfit policy_device_room(const struct policy_device *device,
                                      const struct workload_needs *needs, int max_neighbours);
/* Would there be room if nobody were there? */
bool policy_device_could(const struct policy_snapshot *snapshot, const struct policy_device *device,
                         const struct policy_waiting *waiting);
/* Does a device of this model satisfy the wish? A part of the name, whatever the case, spaces and
 * dashes; the empty wish takes any. */
bool policy_model_matches(const char *model, const char *wanted);
/* Books `needs` on a device, and gives it back. */
void policy_device_take(struct policy_device *device, const struct workload_needs *needs);
void policy_device_release(struct policy_device *device, const struct workload_needs *needs);
/* Serves the waiting in their order, each on the first node that has room: what firstfit and
 * exclusive are made of. Contract of policy.decide. */
size_t policy_decide_first(const struct policy_snapshot *snapshot, struct policy_device *scratch,
                           int max_neighbours, struct policy_decision *out);

/* explain.c. One sentence: why `waiting` fits nowhere now ("0 of 4 devices fit: 3 have too little
 * memory (…)"), or that it never will: then true. */
bool policy_explain_misfit(const struct policy_snapshot *snapshot,
                           const struct policy_waiting *waiting, const struct policy *policy,
                           char text[WORKLOAD_TEXT_MAX]);
