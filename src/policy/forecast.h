/*
 * What is believed of workloads that share a device, as policies ask for it.
 *
 * A forecast is a table of functions that whoever runs a policy passes in: control's answers come
 * from what was measured and learnt, a simulator's from the same, or from truth (policy `oracle`).
 * Pure, as far as a policy can see: one question has one answer for as long as `version` stays.
 * Answers may be remembered behind `context`; nothing else may happen there.
 *
 * Workloads are known by their kind: a number that the owner of the forecast gives to all that run
 * the same program at the same batch size. Kind 0 is one of which nothing is known.
 *
 * PD is the time per unit of progress, relative to running alone at the user's batch size (IADeep);
 * 1 / PD is the speed. Where batch sizes are tuned, it is that at the sizes that they will have.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "learn/pwl.h"
#include "model/node.h"

enum {
    FORECAST_MEMBERS_MAX = 16, /* workloads on one device that a forecast can be asked of */
    FORECAST_KIND_UNKNOWN = 0,
};

/* Devices that are not told apart. */
struct forecast_device {
    char model[DEVICE_MODEL_MAX];
    uint64_t memory_bytes;
    int sm_count; /* 0: not known */
    uint64_t hash;
};
void forecast_device_make(const struct device *device, struct forecast_device *ret_device);

/* A kind, alone on a device. 0 what is not known. */
struct forecast_profile {
    const char *name;
    enum workload_kind kind;
    uint32_t batch_reference;                 /* its user's */
    uint32_t batch;                           /* at which it would run */
    double iteration_ms;                      /* at `batch` */
    double sm_activity, dram_rate, pcie_rate; /* parts of the device, 0 to 1 */
    double noise_scale;                       /* samples */
    uint64_t memory_bytes;                    /* at `batch`, with the margin */
    double slo_ms, rate_per_s;                /* of a service: its p99 and its requests */
    size_t service_batch_count;               /* batch sizes it can answer with, ascending */
    const uint32_t *service_batches;
};

/* Who would be on one device together. */
struct forecast_set {
    const struct forecast_device *device;
    size_t count;
    uint32_t kinds[FORECAST_MEMBERS_MAX]; /* ascending */
};

/* In the order of the set. */
struct forecast_answer {
    double pd[FORECAST_MEMBERS_MAX]; /* of tasks, > 0; 1 of services */
    double
        p99_ms[FORECAST_MEMBERS_MAX]; /* of services with an SLO; 0: not known, and of all others */
    bool is_p99_guess[FORECAST_MEMBERS_MAX]; /* no measurement speaks for it: it refuses nobody */
};

struct forecast {
    void *context;
    uint64_t version; /* of the model behind it: what a decision records */
    /* NULL for a kind that it does not know. Valid as long as the version. */
    const struct forecast_profile *(*profile)(void *context, const struct forecast_device *device,
                                              uint32_t kind);
    /* For unknown kinds too. The PD of a task that is alone is that of its batch size, 1 at its
     * user's. */
    void (*together)(void *context, const struct forecast_set *set,
                     struct forecast_answer *ret_answer);
    /* The latency in ms of one batch of this service over its share, beside others. false: not
     * known. May be NULL: none is. */
    bool (*curve)(void *context, const struct forecast_set *beside, uint32_t service,
                  uint32_t batch, struct pwl_curve *ret_curve);
};

/* Where kind `kind` is, or would be, in the set; adding keeps the order. The set has room. */
size_t forecast_set_add(struct forecast_set *set, uint32_t kind);
void forecast_set_remove(struct forecast_set *set, size_t position);

/* Knows nothing: any workload that shares a device slows each other by half of its speed alone. For
 * where there is no other. */
extern const struct forecast forecast_blind;
/* The forecast of a cold start: by the profiles of another one alone, max(1, ΣSM, ΣDRAM). `known`
 * is borrowed. */
void forecast_cold_make(const struct forecast *known, struct forecast *ret_forecast);

/*
 * F(S): the sum of the times at which the members of a set end, if none comes, by stepping through
 * their departures: what is left runs on at the speed it has among those left. remaining_ms is
 * time alone at the user's batch, in the set's order; INFINITY (a service) never ends and is not
 * summed. ret_first_ms, unless NULL: when the first of them ends, INFINITY if none does.
 */
double forecast_finish_sum(const struct forecast *f, const struct forecast_set *set,
                           const double *remaining_ms, double *ret_first_ms);
