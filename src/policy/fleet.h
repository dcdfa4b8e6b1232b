/*
 * The devices as policies see them that use a forecast: who is on each of them and how long yet,
 * with those that are alike gathered in classes, so that a decision looks at classes. Kept up to
 * date with every booking by whoever runs policies (the cluster), in time that does not grow with
 * the devices; policies read it.
 *
 * Devices have the indices that they have in policy_snapshot.devices, times are the boot clock's.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "policy/forecast.h"
#include "policy/policy.h"

#define FLEET_NONE SIZE_MAX
enum {
    FLEET_UNKNOWN_MS =
        60 * 1000,         /* how long one of unknown length is thought to run yet, at least */
    FLEET_LEAST_MS = 1000, /* and one of known length that should have ended */
};

struct fleet_member {
    uint64_t workload;
    const struct workload_needs *needs; /* both borrowed as long as it is here */
    const struct pairs *node_labels;
    uint32_t kind;
    bool checkpoints;
    bool is_known;    /* alone_ms is */
    double alone_ms;  /* left when the device last changed, alone at its user's batch */
    int64_t begun_ms; /* since when it is here */
};

struct fleet_device {
    const struct forecast_device *type;
    size_t class_index;
    size_t next, previous; /* of its class; FLEET_NONE at the ends */
    size_t member_count;
    struct fleet_member members[FORECAST_MEMBERS_MAX]; /* in the order of its class' set */
    int64_t changed_ms;
    double departure_ms; /* when the first of them should end; INFINITY: none will */
};

/* Devices between which a policy has nothing to choose but how long their workloads run yet. */
struct fleet_class {
    uint64_t hash;
    size_t first, device_count; /* 0 devices: this one is not in use */
    struct forecast_set set;
    struct forecast_answer answer; /* of the set as it is */
    bool has_service, has_gang;
};

/* Devices by when they expect their next departure, soonest first. */
struct fleet_departure {
    double at_ms;
    size_t device;
};

struct fleet {
    const struct forecast *forecast;
    struct fleet_device *devices;
    size_t device_count;
    struct fleet_class *classes;
    size_t class_count, class_capacity;
    double *class_numbers; /* one a class, for whoever decides */
    struct fleet_departure *departures;
    size_t departure_count;
    struct hash_map by_hash; /* class hash → index + 1 */
    size_t *unused;          /* classes without devices */
    size_t unused_count;
    struct forecast_device **types;
    size_t type_count;
};

/* The forecast is borrowed. */
void fleet_init(struct fleet *f, const struct forecast *forecast);
void fleet_done(struct fleet *f);

/* Starts anew with these devices, with nobody on them. `specs` has one for each. -ERR_NO_MEMORY. */
int fleet_reset(struct fleet *f, const struct policy_snapshot *snapshot,
                const struct device *const *specs);

/*
 * Somebody comes to a device, or leaves it; or (update) what the snapshot says of the device or its
 * node has changed. The snapshot shows the device as it is afterwards. Members beyond
 * FORECAST_MEMBERS_MAX are not kept: such a device is too full for anybody more anyway.
 * -ERR_NO_MEMORY leaves the fleet to be freed.
 */
int fleet_take(struct fleet *f, const struct policy_snapshot *snapshot, size_t device,
               const struct fleet_member *member, int64_t now_ms);
/* ret_alone_ms: what it has left, by the forecast; untouched if that is not known or it is not
 * there. */
int fleet_release(struct fleet *f, const struct policy_snapshot *snapshot, size_t device,
                  uint64_t workload, int64_t now_ms, double *ret_alone_ms);
int fleet_update(struct fleet *f, const struct policy_snapshot *snapshot, size_t device);

/* How long member i of a device has yet, alone; INFINITY of a service. */
double fleet_remaining_ms(const struct fleet *f, size_t device, size_t i, int64_t now_ms);
bool fleet_member_is_gang(const struct fleet_member *m); /* it has other devices, too */
bool fleet_member_is_service(const struct fleet_member *m);
/* Of one that waits. */
double policy_remaining_ms(const struct policy_waiting *waiting);
