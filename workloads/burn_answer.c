/*
 * A service that answers one request at a time and reports the begin and the end of each request to
 * gpumux. Requests arrive at random times (Poisson). A request is one or more kernels with host
 * time between them: with short kernels and much host time, the host bounds the service. The
 * latency counts from the time when the request was due, or with `slips` from its begin.
 */
#include <math.h>
#include <stdio.h>

#include "base/rng.h"
#include "workloads/burn_run.h"

enum { MARK_END = 0 };
#define PROGRESS_HOST_MS 1000.0

static int answer(struct error *e, struct burn_device *device, const struct burn_service *service)
{
    struct burn_kernel kernel = service->kernel;
    kernel.duration_ms /= service->kernels_per_request;
    double gap_ms = service->gap_ms / burn_device_speed(device);
    int r = 0;
    for (unsigned k = 0; r == 0 && k < service->kernels_per_request; k++) {
        if (k > 0 && gap_ms > 0)
            burn_host_sleep_until(burn_host_ms() + gap_ms);
        r = burn_device_launch(e, device, &kernel);
    }
    if (r == 0)
        r = burn_device_mark(e, device, MARK_END);
    return r == 0 ? burn_device_wait(e, device, MARK_END) : r;
}

int burn_answer(struct error *e, struct burn_device *device, const struct burn_service *service,
                const volatile sig_atomic_t *stop)
{
    struct rng rng;
    rng_seed(&rng, service->seed);
    double speed = burn_device_speed(device), due_ms = burn_host_ms(), printed_ms = due_ms;
    double total_ms = 0;
    uint64_t answered = 0;
    int r = 0;
    (void)gpumux_tell_ready(service->gpumux, 0);
    (void)gpumux_report_progress(service->gpumux, 0);
    while (r == 0 && !*stop && (service->requests == 0 || answered < service->requests)) {
        due_ms += -log(1 - rng_double(&rng)) / service->rate * 1e3 / speed;
        burn_host_sleep_until(due_ms);
        double now_ms = burn_host_ms();
        if (*stop)
            break;
        if (service->slips && now_ms > due_ms)
            due_ms = now_ms;
        double age_ms = now_ms > due_ms ? now_ms - due_ms : 0;
        uint64_t token = gpumux_request_begin(service->gpumux, (uint64_t)(age_ms * 1e3));
        r = answer(e, device, service);
        if (r < 0) {
            gpumux_request_drop(service->gpumux, token);
            break;
        }
        (void)gpumux_request_end(service->gpumux, token);
        total_ms += burn_host_ms() - due_ms;
        answered++;
        if (burn_host_ms() - printed_ms >= PROGRESS_HOST_MS) {
            printf("requests=%llu mean_ms=%.3f\n", (unsigned long long)answered,
                   total_ms / (double)answered);
            fflush(stdout);
            (void)gpumux_report_progress(service->gpumux, answered);
            printed_ms = burn_host_ms();
        }
    }
    while (r == 0 && service->then_idles && !*stop)
        burn_host_sleep_until(burn_host_ms() + PROGRESS_HOST_MS);
    if (r == 0)
        printf("requests=%llu mean_ms=%.3f %s\n", (unsigned long long)answered,
               answered > 0 ? total_ms / (double)answered : 0, *stop ? "stopped" : "done");
    return r;
}
