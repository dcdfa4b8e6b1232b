/*
 * A forecast from what was learnt: how much each task is slowed by the others comes from the
 * predictor (learn/predictor.h, which starts cold), its PD from that and its batch size, the p99 of
 * a service from its latency curves and the rate of its requests; or, where that was measured, from
 * its p99 alone and by how much longer its requests take beside others.
 *
 * A guess refuses nothing: what no measurement speaks for is thought to slow nobody more than
 * if nothing were known (forecast_blind), and one that was never measured makes none of the
 * others faster. A p99 beside others that was not measured is a guess, unless it is too long
 * alone already.
 *
 * Answers are remembered by set, so that a decision over many classes of devices costs little more
 * than looking them up; a new model forgets them.
 */
#pragma once
#include "learn/observations.h"
#include "learn/predictor.h"
#include "policy/forecast.h"

enum {
    LEARNT_KINDS_MAX = 4096,
    LEARNT_SETS_MAX = 1 << 16, /* answers that are remembered; then they are all forgotten */
    LEARNT_BATCHES_MAX = 8,    /* batch sizes of a service */
    LEARNT_DEVICES_MAX = 4,    /* types of devices that a kind is known on */
    LEARNT_ANY_DEVICE = 0,     /* in place of forecast_device.hash */
    LEARNT_BESIDES_MAX = 16,   /* sets of neighbours that a service was measured beside */
    LEARNT_NEIGHBOURS_MAX = 4, /* in one of them */
};

/* By how much longer a service's requests take beside others than alone. */
struct learnt_beside {
    size_t count;
    uint32_t kinds[LEARNT_NEIGHBOURS_MAX]; /* ascending */
    double slowdown;                       /* of the p99 */
};

/* A kind of workloads as it is alone. */
struct learnt_kind {
    const char *name; /* copied */
    enum workload_kind kind;
    uint32_t batch_reference, batch;
    double iteration_reference_ms, iteration_ms; /* at those */
    double noise_scale;
    uint64_t memory_bytes;
    bool is_unmeasured; /* its features say nothing */
    struct task_profile features;
    /* Of a service: */
    double slo_ms, rate_per_s;
    size_t batch_count; /* ascending */
    uint32_t batches[LEARNT_BATCHES_MAX];
    struct pwl_curve curves[LEARNT_BATCHES_MAX]; /* ms of one batch over the share, alone */
    double p99_ms;       /* as it was measured alone, in place of curves; 0: it was not */
    bool is_p99_recent;  /* if not, it alone refuses nobody */
    size_t beside_count; /* what is known of these counts with p99_ms */
    struct learnt_beside besides[LEARNT_BESIDES_MAX];
};

struct learnt;

/* NULL when memory is out. */
struct learnt *learnt_new(void);
void learnt_free(struct learnt *l);
/* As long as l. Its version changes with whatever its answers depend on. */
const struct forecast *learnt_forecast(const struct learnt *l);

/*
 * What is known of kind `number` (1 to LEARNT_KINDS_MAX - 1) on devices of this type; it replaces
 * what was. On a type on which it is not known it counts as on LEARNT_ANY_DEVICE, or on the one
 * that came first. -ERR_TOO_LARGE for a number, a type, a batch size or a set too many;
 * -ERR_NO_MEMORY.
 */
int learnt_set_kind(struct learnt *l, uint32_t number, uint64_t device,
                    const struct learnt_kind *kind);
void learnt_forget_kind(struct learnt *l, uint32_t number);
/* Both borrowed until the next call; either may be NULL. Measurements that are added meanwhile
 * count from then on in what was asked before. */
void learnt_set_model(struct learnt *l, const struct predictor *p, const struct observations *o);

/* The p99 of a service's requests, when a batch takes latency_ms: waiting in the queue included.
 * INFINITY when more come than can be answered. */
double learnt_sojourn_ms(uint32_t batch, double latency_ms, double rate_per_s);
