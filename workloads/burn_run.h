/* The two ways of gpumux-burn to use a device: as a training task and as a service. */
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
    double reference_batch; /* what noise_scale relates to */
    double noise_scale;     /* 0: every sample counts the same at any batch size */
    double samples;         /* to be done; 0: no end */
    unsigned kernels_per_step;
    const struct burn_kernels *kernels; /* a step is these, in place of the profile; not owned;
                                         * NULL: the profile */
    uint64_t crash_after_steps;         /* 0: never */
    struct gpumux *gpumux;              /* who is told of samples done; not owned; NULL: nobody */
};

struct burn_service {
    double rate;                        /* requests a second of device time, Poisson */
    struct burn_kernel kernel;          /* each */
    const struct burn_kernels *kernels; /* each is these, as a graph, instead; not owned; or NULL */
    uint64_t requests;                  /* 0: no end */
    bool slips;        /* a late host puts requests off instead of adding to their latency */
    bool leaves_queue; /* does not wait for its last requests */
    uint64_t seed;
    struct gpumux
        *gpumux; /* who is told that it is ready, and of requests; not owned; NULL: nobody */
};

/* Both run until they are done or *stop is set, and print as they go. */
int burn_train(struct error *e, struct burn_device *device, const struct burn_training *training,
               const volatile sig_atomic_t *stop);
/* The same for a task of which training->kernels is known. */
int burn_train_list(struct error *e, struct burn_device *device,
                    const struct burn_training *training, const volatile sig_atomic_t *stop);
int burn_serve(struct error *e, struct burn_device *device, const struct burn_service *service,
               const volatile sig_atomic_t *stop);

/* Host time, and sleeping until it. A signal ends the sleep. */
double burn_host_ms(void);
void burn_host_sleep_until(double host_ms);
