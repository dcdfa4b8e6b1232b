/*
 * One policy on one trace: a cluster without machines. cluster_step decides, unchanged; the engine
 * plays the nodes (a grant is answered by reports), and true speeds (truth.h) say when a task ends.
 * Events only, no steps of time: what a device does is computed when who is there changes.
 *
 * What a policy believes is learnt from what ran (belief.h), but for `oracle`, which is told the
 * truth. A task larger than a node is several workloads to the cluster, one a node; it runs when
 * all of them do, and one such task at a time is gathered.
 *
 * Services come first and stay. A policy whose system protects them (gpumux, muxflow, mudi, gslice)
 * has that: tasks are gated, or squeezed into what is left, and where a p99 comes near its SLO all
 * the same, the device's own state machine (device_step, unchanged) throttles and evicts. With
 * others, tasks and services simply share.
 *
 * Everything random comes from the seed: the same configuration gives the same result.
 */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

#include "cluster/cluster.h"
#include "policy/policy.h"
#include "sim/hardware.h"
#include "sim/result.h"
#include "sim/serving.h"
#include "sim/trace.h"
#include "sim/truth.h"

/* All borrowed for the run. */
struct engine_config {
    const struct truth *truth;
    const struct hardware *hardware;
    const struct trace *trace;
    const struct serving *serving; /* NULL: there are no services */
    size_t service_count;          /* that are there from the beginning to the end */
    const struct policy *policy;
    struct policy_options options;
    uint64_t seed;
    int max_neighbours;
    double
        estimate_error; /* of the durations that tasks say: standard deviation of the logarithm */
    double start_s;     /* from a grant to the first iteration */
    /* GPU faults: each ends all that share the device, as the state machine of the device says.
     * Tasks of several nodes are spared. */
    double faults_per_device_day;
    /* Nodes that fall silent, for that long on average: what ran there is gone, and is queued
     * again when the cluster has missed it for long enough. Nodes with a task of several of them
     * are spared. */
    double outages_per_node_day, outage_mean_s;
    bool keeps_spans; /* who was where: for a report; else the result has none */
    uint64_t explain; /* what is thought of this workload when it comes; 0: of none … */
    struct cluster_explanation *explanation; /* … into here; untouched if it never comes */
    _Atomic size_t *ended; /* workloads that have ended so far, for whoever watches; may be NULL */
    const _Atomic bool *stop; /* gives up when it becomes true; may be NULL */
};
void engine_config_default(struct engine_config *config);

/* -ERR_NO_MEMORY; -ERR_UNAVAILABLE when it was stopped. The caller calls result_done(). */
int engine_run(struct error *e, const struct engine_config *config, struct result *ret_result);
