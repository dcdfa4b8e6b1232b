/*
 * What a simulated run came to: a row for every workload, who was where and when, the course of the
 * cluster over time, and a summary. Tables and reports are made from this alone. Nothing in it
 * depends on the machine that simulated it: the same seed gives the same bytes.
 *
 * Times are seconds since the first submission.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "model/workload.h"

enum {
    RESULT_SERIES_MAX = 512, /* points of a course */
    RESULT_NAME_MAX = 64,
};

struct result_workload {
    uint64_t id;
    enum workload_kind kind;
    enum workload_state state; /* at the end of the run; a service is running then */
    uint32_t model;            /* index into result.models */
    int devices;
    bool is_split; /* larger than a node: over whole nodes, counted apart */
    double submit_s;
    double start_s, end_s;   /* of the first attempt, of the last; -1: never */
    double alone_s;          /* how long it takes alone at its user's batch size */
    double wait_s;           /* not running, from submission to end */
    double pd;               /* time running ÷ alone_s; 0: it has not ended */
    int attempts, evictions; /* evictions: by its device, or a fault */
    double batch_user, batch_last;
    double requests, late_requests; /* of a service */
};

/* One workload on one device for a time. */
struct result_span {
    uint32_t device;   /* index, in the order of the hardware */
    uint32_t workload; /* index into result.workloads */
    double from_s, to_s;
};

/* Means over one interval of the course. */
struct result_point {
    double from_s;
    double sm, dram, memory;        /* parts of all devices, 0 to 1; memory by what is reserved */
    double running, waiting;        /* workloads */
    double requests, late_requests; /* of services, counts */
};

/* Of tasks that ended. */
struct result_times {
    double mean_s, p50_s, p95_s, p99_s;
};

struct result_summary {
    size_t submitted, succeeded, failed, unfinished; /* tasks: the first is the sum of the others */
    struct result_times completion, waiting;         /* of all tasks */
    struct result_times completion_single;           /* of tasks of one device */
    size_t multi_count, split_count; /* tasks of several devices; of several nodes */
    double makespan_s;               /* from the first submission to the last end */
    double speed_mean;               /* 1 / PD, over tasks */
    double pd_mean;
    double sm_mean, memory_mean; /* over the makespan and all devices */
    double requests, late_requests;
    size_t evictions, faults, outages, placements; /* outages: of whole nodes */
    uint64_t decisions;                            /* of the policy, refusals included */
};

struct result {
    char policy[RESULT_NAME_MAX]; /* with its ablations: "gpumux without tuner" */
    uint64_t seed;
    double rate, load;    /* as simulated: arrivals relative to the trace; offered to all devices */
    bool is_extrapolated; /* some GPUs were not measured */
    size_t device_count, node_count;
    size_t model_count;
    const char *const *models; /* names; borrowed from the truth */
    size_t workload_count;
    struct result_workload *workloads; /* in the order of submission; owned */
    size_t span_count, span_capacity;
    struct result_span *spans; /* by device, then time; owned */
    size_t point_count;
    struct result_point points[RESULT_SERIES_MAX];
    struct result_summary summary;
};

/* Frees what it owns; legal on a zeroed one. */
void result_done(struct result *r);
/* Appends a span; adjoining ones of the same workload and device become one. -ERR_NO_MEMORY. */
int result_add_span(struct result *r, const struct result_span *span);
/* Sorts the spans and computes the summary's times from the workloads: to be called once, when all
 * of them are filled in. -ERR_NO_MEMORY. */
int result_finish(struct result *r);
