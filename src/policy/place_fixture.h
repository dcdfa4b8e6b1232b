/* A small cluster for tests of policies with a `judge` function: devices with their workloads, and
 * a forecast. */
#pragma once
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "policy/place.h"
#include "policy/rounds.h"

enum {
    WORLD_NODES = 3,
    WORLD_NODE_DEVICES = 4,
    WORLD_DEVICES = WORLD_NODES * WORLD_NODE_DEVICES,
    WORLD_WORKLOADS = 64,
    /* Kinds 1 … 8 are tasks that use a tenth of the device each; kinds 9 and 10 are services. */
    WORLD_TASK_KINDS = 8,
    WORLD_SERVICE = 9,
    WORLD_KINDS = 11,
    WORLD_SLO_MS = 100,
};

struct world_workload {
    bool placed;
    struct workload_needs needs;
    struct policy_known known;
    struct policy_decision decision;
};

struct world {
    struct policy_node nodes[WORLD_NODES];
    struct policy_device devices[WORLD_DEVICES];
    struct device specs[WORLD_DEVICES];
    struct world_workload workloads[WORLD_WORKLOADS];
    size_t workload_count;
    struct policy_waiting waiting[WORLD_WORKLOADS];
    struct policy_snapshot snapshot;
    struct fleet fleet;
    struct forecast_profile profiles[WORLD_KINDS];
    struct forecast forecast;
    bool is_p99_guess; /* the forecast's p99 figures are not measured */
};

void world_open(struct world *w);
void world_close(struct world *w);

/* Makes a waiting workload of this kind, with a quota (a device has 100 bytes) and a remaining
 * time. */
struct policy_waiting world_ask(struct world *w, uint32_t kind, uint64_t quota_bytes,
                                double alone_ms);
/* Place a workload by a decision or on a device, or remove a workload. */
void world_place(struct world *w, const struct policy_waiting *waiting,
                 const struct policy_decision *decision);
void world_place_on(struct world *w, const struct policy_waiting *waiting, size_t device);
void world_remove(struct world *w, size_t workload);
/* Checks that no device is over-committed and that the fleet agrees with the devices. */
void world_check(const struct world *w);
