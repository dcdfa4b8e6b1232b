/*
 * A forecast from learnt models. The predictor (learn/predictor.h), which needs no measurements to
 * start, gives the slowdown of each task by its neighbours; PD follows from slowdown and batch
 * size. The p99 of a service follows from the p99 alone and the measured slowdown of its requests
 * beside others. If the p99 alone was not measured, the p99 follows from the latency curves and the
 * request rate of the service.
 *
 * A guess never causes a refusal. Without a supporting measurement, the forecast assumes that a
 * workload slows its neighbours no more than forecast_blind predicts, and an unmeasured neighbour
 * never improves a prediction. A p99 that was not measured beside the same neighbours is a guess,
 * unless the p99 alone already exceeds the SLO.
 *
 * The forecast caches predictions by set, so that a decision over many classes of devices costs
 * little more than the lookups. A new model clears the cache.
 */
#pragma once
#include "learn/observations.h"
#include "learn/predictor.h"
#include "policy/forecast.h"

enum {
    LEARNT_KINDS_MAX = 4096,
    LEARNT_SETS_MAX = 1 << 16, /* cached answers; a full cache is cleared */
    LEARNT_BATCHES_MAX = 8,    /* batch sizes of a service */
    LEARNT_DEVICES_MAX = 4,    /* device types with separate figures for one kind */
    LEARNT_ANY_DEVICE = 0,     /* instead of a forecast_device.hash */
    LEARNT_BESIDES_MAX = 16,   /* measured sets of neighbours of a service */
    LEARNT_NEIGHBOURS_MAX = 4, /* members of a measured set */
};

/* Slowdown of a service's requests beside a set of neighbours. */
struct learnt_beside {
    size_t count;
    uint32_t kinds[LEARNT_NEIGHBOURS_MAX]; /* ascending */
    double slowdown;                       /* factor of the p99 */
};

/* A kind of workload, alone. */
struct learnt_kind {
    const char *name; /* copied */
    enum workload_kind kind;
    uint32_t batch_reference, batch;
    double iteration_reference_ms, iteration_ms; /* at these batch sizes */
    double noise_scale;
    uint64_t memory_bytes;
    bool is_unmeasured; /* `features` are not measured */
    struct task_profile features;
    /* Fields of a service: */
    double slo_ms, rate_per_s;
    size_t batch_count; /* length of batches (ascending) and curves */
    uint32_t batches[LEARNT_BATCHES_MAX];
    struct pwl_curve curves[LEARNT_BATCHES_MAX]; /* ms of one batch over the share, alone */
    double p99_ms;       /* measured alone, replaces the curves; 0: not measured */
    bool is_p99_recent;  /* false: p99_ms by itself causes no refusal */
    size_t beside_count; /* length of besides, which require p99_ms */
    struct learnt_beside besides[LEARNT_BESIDES_MAX];
};

struct learnt;

/* Returns NULL if out of memory. */
struct learnt *learnt_new(void);
void learnt_free(struct learnt *l);
/* Returns the forecast, valid as long as l. The version of the forecast changes with everything on
 * which the predictions depend. */
const struct forecast *learnt_forecast(const struct learnt *l);

/*
 * Sets the figures of kind `number` (1 to LEARNT_KINDS_MAX - 1) on devices of this type, replacing
 * earlier figures. On a type without figures, the figures of LEARNT_ANY_DEVICE apply, or else the
 * figures of the type that was set first. Returns -ERR_TOO_LARGE for too many kinds, types, batch
 * sizes or sets, or -ERR_NO_MEMORY.
 */
int learnt_set_kind(struct learnt *l, uint32_t number, uint64_t device,
                    const struct learnt_kind *kind);
void learnt_forget_kind(struct learnt *l, uint32_t number);
/* Borrows p and o until the next call; each may be NULL. Measurements added to `o` later also
 * change predictions that were made before. */
void learnt_set_model(struct learnt *l, const struct predictor *p, const struct observations *o);

/* Returns the p99 of a service's requests, including their time in the queue, if a batch takes
 * latency_ms; INFINITY if requests arrive faster than the service can answer. */
double learnt_sojourn_ms(uint32_t batch, double latency_ms, double rate_per_s);
