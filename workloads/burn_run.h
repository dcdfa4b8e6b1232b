/*
 * The two modes of gpumux-burn: a training task and a service.
 *
 * This folder contains programs that behave like training and services. Files of the folder
 * workloads may include base, model, client, abi.
 */
#pragma once
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/gpumux.h"
#include "workloads/burn_device.h"
#include "workloads/burn_profile.h"

struct burn_training {
    struct burn_profile profile;
    double batch;
    double reference_batch; /* batch size to which noise_scale refers */
    double noise_scale;     /* 0: every sample counts fully at any batch size */
    double samples;         /* number of samples to process; 0: no limit */
    unsigned kernels_per_step;
    const struct burn_kernels *kernels; /* a step's kernels; not owned; NULL: from the profile */
    uint64_t crash_after_steps;         /* 0: never */
    struct gpumux *gpumux;              /* receives progress reports; not owned; may be NULL */
};

struct burn_service {
    double rate;                        /* requests per second of device time; Poisson arrivals */
    struct burn_kernel kernel;          /* kernel of a request */
    const struct burn_kernels *kernels; /* a request's graph; not owned; NULL: `kernel` alone */
    uint64_t requests;                  /* number of requests to serve; 0: no limit */
    bool slips;            /* a late host delays requests instead of adding to their latency */
    bool leaves_queue;     /* the service ends without waiting for the last requests */
    uint64_t seed;         /* seed of the arrivals */
    struct gpumux *gpumux; /* receives readiness and request reports; not owned; may be NULL */
    unsigned kernels_per_request; /* for burn_answer(): the kernel's time is divided among them */
    double gap_ms;                /* for burn_answer(): host time between two kernels */
    bool then_idles;              /* for burn_answer(): is idle after the last request */
};

/* Runs the training task until its end or until *stop is set, and prints its progress. */
int burn_train(struct error *e, struct burn_device *device, const struct burn_training *training,
               const volatile sig_atomic_t *stop);
/* Like burn_train(), for a task with training->kernels. */
int burn_train_list(struct error *e, struct burn_device *device,
                    const struct burn_training *training, const volatile sig_atomic_t *stop);
/* Runs the service until its end or until *stop is set, and prints its latencies. */
int burn_serve(struct error *e, struct burn_device *device, const struct burn_service *service,
               const volatile sig_atomic_t *stop);

/* Like burn_serve(), for a service that answers one request at a time and reports begin and end. */
int burn_answer(struct error *e, struct burn_device *device, const struct burn_service *service,
                const volatile sig_atomic_t *stop);

/* Returns the time of the host's monotonic clock, in ms. */
double burn_host_ms(void);
/* Sleeps until the host's monotonic clock reaches host_ms; a signal ends the sleep. */
void burn_host_sleep_until(double host_ms);
