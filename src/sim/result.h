/*
 * Result of a simulated run: a row for every workload, the spans of workloads on devices, the
 * course of the cluster over time, and a summary. A table or a report needs no input other than a
 * result. A result does not depend on the machine that ran the simulation: the same seed gives the
 * same bytes.
 *
 * Times are in seconds since the first submission.
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
    enum workload_state state; /* at the end of the run; running for a service */
    uint32_t model;            /* index into result.models */
    int devices;
    bool is_split; /* larger than a node: spread over whole nodes, counted separately */
    double submit_s;
    double start_s, end_s;   /* start of the first attempt, end of the last; -1: never */
    double alone_s;          /* duration alone at the user's batch size */
    double wait_s;           /* time without running, from submission to end */
    double pd;               /* running time ÷ alone_s; 0: not ended */
    int attempts, evictions; /* evictions: by the device or a fault */
    double batch_user, batch_last;
    double requests, late_requests; /* of a service */
};

/* One stay of a workload on a device. */
struct result_span {
    uint32_t device;   /* index in the order of the hardware */
    uint32_t workload; /* index into result.workloads */
    double from_s, to_s;
};

/* Means over one interval of the course. */
struct result_point {
    double from_s;
    double sm, dram, memory;        /* fractions of all devices, 0 to 1; memory as reserved */
    double running, waiting;        /* numbers of workloads */
    double requests, late_requests; /* numbers of requests to services */
};

/* Statistics of the ended tasks. */
struct result_times {
    double mean_s, p50_s, p95_s, p99_s;
};

struct result_summary {
    size_t submitted, succeeded, failed, unfinished; /* tasks: submitted is the sum of the others */
    struct result_times completion, waiting;         /* of all tasks */
    struct result_times completion_single;           /* of tasks with one device */
    size_t multi_count, split_count; /* tasks of several devices, tasks of several nodes */
    double makespan_s;               /* from the first submission to the last end */
    double speed_mean;               /* mean of 1 / PD over the tasks */
    double pd_mean;
    double sm_mean, memory_mean; /* over the makespan and all devices */
    double requests, late_requests;
    size_t evictions, faults, outages, placements; /* outages: of whole nodes */
    uint64_t decisions;                            /* of the policy, including refusals */
};

struct result {
    char policy[RESULT_NAME_MAX]; /* name with ablations: "gpumux without tuner" */
    uint64_t seed;
    /* rate: arrival rate relative to the trace. load: offered load of all devices. */
    double rate, load;
    bool is_extrapolated; /* at least one GPU model is not measured */
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

/* Frees the members that the result owns; may be called on a zeroed result. */
void result_done(struct result *r);
/* Appends a span, merged with an adjoining span of the same workload and device. Returns
 * -ERR_NO_MEMORY. */
int result_add_span(struct result *r, const struct result_span *span);
/* Sorts the spans and computes the times of the summary from the workloads. Call once, after all
 * workloads are filled in. Returns -ERR_NO_MEMORY. */
int result_finish(struct result *r);
