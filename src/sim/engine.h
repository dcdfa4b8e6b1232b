/*
 * Simulates one policy on one trace, without real machines. The state machine of control
 * (cluster_step) decides, unchanged. The engine simulates the nodes, which answer a grant with
 * reports, and true speeds (truth.h) determine the end of each task. The simulation advances from
 * event to event, without time steps: the engine recomputes a device only when the device's
 * workloads change.
 *
 * A policy's forecast is learnt from the workloads that ran (belief.h); only `oracle` receives the
 * truth. The cluster sees a task larger than a node as several workloads, one per node. The task
 * runs when all these workloads run. The engine starts the workloads of only one such task at a
 * time.
 *
 * Services start first and run until the end. Policies whose systems protect services (gpumux,
 * muxflow, mudi, gslice) protect services in the simulation too. Under these policies, the gate
 * delays tasks, or tasks use only the remaining SMs. If a p99 still approaches its SLO, the
 * unchanged device_step throttles and evicts tasks. Under other policies, tasks and services share
 * without protection.
 *
 * All randomness derives from the seed: the same configuration gives the same result.
 *
 * This folder contains the simulator. Files of the folder sim may include base, model, wire,
 * cluster, policy, device, learn, contention.
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

/* All pointers are borrowed for the run. */
struct engine_config {
    const struct truth *truth;
    const struct hardware *hardware;
    const struct trace *trace;
    const struct serving *serving; /* NULL: no services */
    size_t service_count;          /* present from start to end */
    const struct policy *policy;
    struct policy_options options;
    uint64_t seed;
    int max_neighbours;
    /* Error of the durations that tasks state: standard deviation of the logarithm. */
    double estimate_error;
    double start_s; /* time from a grant to the first iteration */
    /* GPU faults. Each fault ends all workloads on the device, as device_step decides. Tasks of
     * several nodes are spared. */
    double faults_per_device_day;
    /* Nodes that fall silent, for outage_mean_s on average: the cluster requeues the workloads of a
     * silent node once the node's lease has expired. Nodes with a part of a task of several nodes
     * are spared. */
    double outages_per_node_day, outage_mean_s;
    bool keeps_spans; /* record the spans of workloads on devices, for a report */
    uint64_t explain; /* workload whose placement to explain on arrival; 0: none */
    /* Receives the explanation; unchanged if the workload never arrives. */
    struct cluster_explanation *explanation;
    _Atomic size_t *ended;    /* number of ended workloads, for observers; may be NULL */
    const _Atomic bool *stop; /* ends the run when true; may be NULL */
};
void engine_config_default(struct engine_config *config);

/* Runs the simulation. Returns -ERR_NO_MEMORY, or -ERR_UNAVAILABLE after `stop`. The caller calls
 * result_done(). */
int engine_run(struct error *e, const struct engine_config *config, struct result *ret_result);
