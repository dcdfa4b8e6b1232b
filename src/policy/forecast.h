/*
 * Predictions about workloads that share a device, as an interface for policies.
 *
 * A forecast is a table of functions, passed in by the owner of a policy. Control's forecast uses
 * measurements and learnt models. A simulator's forecast uses measurements and learnt models too,
 * or the truth (policy `oracle`). A forecast is pure: the same call gives the same result as long
 * as `version` is unchanged. An implementation may cache results behind `context`, but has no other
 * side effect.
 *
 * Workloads are identified by their kind, a number that the forecast's owner assigns to all runs of
 * the same program at the same batch size. Nothing is known about kind 0.
 *
 * PD is the time per unit of progress, relative to running alone at the user's batch size (IADeep);
 * 1 / PD is the speed. If batch sizes are tuned, PD refers to the tuned sizes.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "learn/pwl.h"
#include "model/node.h"

enum {
    FORECAST_MEMBERS_MAX = 16, /* maximum of workloads on one device in a forecast */
    FORECAST_KIND_UNKNOWN = 0,
};

/* A type of device: the properties that a forecast distinguishes. */
struct forecast_device {
    char model[DEVICE_MODEL_MAX];
    uint64_t memory_bytes;
    int sm_count; /* 0: unknown */
    uint64_t hash;
};
void forecast_device_make(const struct device *device, struct forecast_device *ret_device);

/* A kind of workload, alone on a device. 0: unknown. */
struct forecast_profile {
    const char *name;
    enum workload_kind kind;
    uint32_t batch_reference;                 /* the user's batch size */
    uint32_t batch;                           /* batch size of the run */
    double iteration_ms;                      /* at `batch` */
    double sm_activity, dram_rate, pcie_rate; /* fractions of the device, 0 to 1 */
    double noise_scale;                       /* in samples */
    uint64_t memory_bytes;                    /* at `batch`, including the margin */
    /* SLO and request rate of a service. */
    double slo_ms, rate_per_s;
    size_t service_batch_count; /* batch sizes of a service, ascending */
    const uint32_t *service_batches;
};

/* The workloads on one device, present or proposed. */
struct forecast_set {
    const struct forecast_device *device;
    size_t count;
    uint32_t kinds[FORECAST_MEMBERS_MAX]; /* ascending */
};

/* Predictions for a set; the arrays are indexed like the set. */
struct forecast_answer {
    double pd[FORECAST_MEMBERS_MAX]; /* PD of a task, > 0; 1 for a service */
    /* p99 of a service with an SLO; 0: unknown, or not a service with an SLO. */
    double p99_ms[FORECAST_MEMBERS_MAX];
    /* No measurement supports p99_ms, so p99_ms must not cause a refusal. */
    bool is_p99_guess[FORECAST_MEMBERS_MAX];
};

struct forecast {
    void *context;
    uint64_t version; /* of the underlying model; recorded with decisions */
    /* Returns NULL for an unknown kind. The result is valid until the version changes. */
    const struct forecast_profile *(*profile)(void *context, const struct forecast_device *device,
                                              uint32_t kind);
    /* Predicts PD and p99 for every member of the set, including unknown kinds. The PD of a task
     * alone follows from its batch size: 1 at the user's batch size. */
    void (*together)(void *context, const struct forecast_set *set,
                     struct forecast_answer *ret_answer);
    /* Returns the latency in ms of one batch of this service over its share, beside others; false
     * if unknown. The function pointer may be NULL: all curves are unknown. */
    bool (*curve)(void *context, const struct forecast_set *beside, uint32_t service,
                  uint32_t batch, struct pwl_curve *ret_curve);
};

/* Adds a kind at its sorted position. Returns the position. The caller ensures room in the set. */
size_t forecast_set_add(struct forecast_set *set, uint32_t kind);
void forecast_set_remove(struct forecast_set *set, size_t position);

/* Forecast without knowledge, as a last resort: each neighbour adds 0.5 to a workload's PD. */
extern const struct forecast forecast_blind;
/* Makes a cold-start forecast from the profiles of another forecast: max(1, ΣSM, ΣDRAM). Borrows
 * `known`. */
void forecast_cold_make(const struct forecast *known, struct forecast *ret_forecast);

/*
 * Returns F(S), the sum of the end times of the set's members if no workload arrives. After each
 * departure the remaining members continue at their speed in the smaller set. remaining_ms: time
 * alone at the user's batch, in the set's order; INFINITY for a service, which never ends and is
 * not summed. ret_first_ms (may be NULL): first end time, or INFINITY.
 */
double forecast_finish_sum(const struct forecast *f, const struct forecast_set *set,
                           const double *remaining_ms, double *ret_first_ms);
