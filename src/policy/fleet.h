/*
 * The devices for policies with a forecast: the workloads on each device and their remaining times.
 * Equivalent devices form a class, so that a decision examines classes instead of devices. The
 * owner of the policies (the cluster) updates the fleet with every booking, in time independent of
 * the number of devices; policies only read the fleet.
 *
 * Device indices are those of policy_snapshot.devices; times are on the boot clock.
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
    /* Smallest remaining time assumed for a workload of unknown length. */
    FLEET_UNKNOWN_MS = 60 * 1000,
    /* Smallest remaining time assumed for a workload of known length, also if the workload is
     * overdue. */
    FLEET_LEAST_MS = 1000,
};

struct fleet_member {
    uint64_t workload;
    /* Borrowed, like node_labels, while the member is on the device. */
    const struct workload_needs *needs;
    const struct pairs *node_labels;
    uint32_t kind;
    bool checkpoints;
    bool is_known; /* alone_ms is known */
    /* Remaining time alone at the user's batch size, when the device last changed. */
    double alone_ms;
    int64_t begun_ms; /* arrival on this device */
};

struct fleet_device {
    const struct forecast_device *type;
    size_t class_index;
    size_t next, previous; /* in the class; FLEET_NONE at the ends */
    size_t member_count;
    struct fleet_member members[FORECAST_MEMBERS_MAX]; /* in the order of the class's set */
    int64_t changed_ms;
    double departure_ms; /* expected end of the first member; INFINITY: none */
};

/* Devices that a policy can distinguish only by the remaining times of their workloads. */
struct fleet_class {
    uint64_t hash;
    size_t first, device_count; /* device_count 0: class not in use */
    struct forecast_set set;
    struct forecast_answer answer; /* for the current set */
    bool has_service, has_gang;
};

/* Devices in the order of their next expected departure. */
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
    double *class_numbers; /* one per class; scratch space for decisions */
    struct fleet_departure *departures;
    size_t departure_count;
    struct hash_map by_hash; /* class hash → index + 1 */
    size_t *unused;          /* classes without devices, for reuse */
    size_t unused_count;
    struct forecast_device **types;
    size_t type_count;
};

/* Borrows the forecast. */
void fleet_init(struct fleet *f, const struct forecast *forecast);
void fleet_done(struct fleet *f);

/* Replaces all devices of the fleet by these devices, without workloads. `specs` has one entry per
 * device. Returns -ERR_NO_MEMORY. */
int fleet_reset(struct fleet *f, const struct policy_snapshot *snapshot,
                const struct device *const *specs);

/*
 * Record that a workload arrives on a device or leaves the device, or (update) that the snapshot of
 * the device or its node changed. The snapshot shows the device after the change. A device has at
 * most FORECAST_MEMBERS_MAX members; the fleet drops further members. After -ERR_NO_MEMORY the
 * fleet can only be freed.
 */
int fleet_take(struct fleet *f, const struct policy_snapshot *snapshot, size_t device,
               const struct fleet_member *member, int64_t now_ms);
/* ret_alone_ms: remaining time of the workload, according to the forecast; unchanged if the time is
 * unknown or the workload is not on the device. */
int fleet_release(struct fleet *f, const struct policy_snapshot *snapshot, size_t device,
                  uint64_t workload, int64_t now_ms, double *ret_alone_ms);
int fleet_update(struct fleet *f, const struct policy_snapshot *snapshot, size_t device);

/* Returns the remaining time of member i of a device, alone; INFINITY for a service. */
double fleet_remaining_ms(const struct fleet *f, size_t device, size_t i, int64_t now_ms);
bool fleet_member_is_gang(const struct fleet_member *m); /* uses several devices */
bool fleet_member_is_service(const struct fleet_member *m);
/* Returns the remaining time of a waiting workload, alone; INFINITY for a service. */
double policy_remaining_ms(const struct policy_waiting *waiting);
