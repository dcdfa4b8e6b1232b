/* gpumux-burn uses a device in two ways: as a training task and as a service. */
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
    double reference_batch; /* batch size that noise_scale relates to */
    double noise_scale;     /* 0: every sample counts as one at any batch size */
    double samples;         /* wanted; 0: no limit */
    unsigned kernels_per_step;
    const struct burn_kernels *kernels; /* of a step; not owned; NULL: the profile's kernels */
    uint64_t crash_after_steps;         /* 0: never */
    struct gpumux *gpumux;              /* gets reports of progress; not owned; may be NULL */
};

struct burn_service {
    double rate;                        /* requests a second of device time, Poisson */
    struct burn_kernel kernel;          /* of a request */
    const struct burn_kernels *kernels; /* of a request, as a graph; not owned; NULL: `kernel` */
    uint64_t requests;                  /* 0: no limit */
    bool slips;            /* a late host delays requests instead of adding to their latency */
    bool leaves_queue;     /* ends without waiting for the last requests */
    uint64_t seed;         /* of the arrivals */
    struct gpumux *gpumux; /* gets reports of readiness and requests; not owned; may be NULL */
};

/* Runs the training task until its end or until *stop is set, and prints its progress. */
int burn_train(struct error *e, struct burn_device *device, const struct burn_training *training,
               const volatile sig_atomic_t *stop);
/* Like burn_train, for a task with training->kernels. */
int burn_train_list(struct error *e, struct burn_device *device,
                    const struct burn_training *training, const volatile sig_atomic_t *stop);
/* Runs the service until its end or until *stop is set, and prints its latencies. */
int burn_serve(struct error *e, struct burn_device *device, const struct burn_service *service,
               const volatile sig_atomic_t *stop);

/* Time of the host's monotonic clock. */
double burn_host_ms(void);
/* Sleeps until that time; a signal ends the sleep. */
void burn_host_sleep_until(double host_ms);
