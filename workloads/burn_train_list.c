/*
 * A training task whose kernels are known: steps follow each other without a pause, as in a task
 * that the device limits. The host queues the next step while the last step still runs, so that
 * late wake-ups of the host leave no gap.
 */
#include <math.h>
#include <stdio.h>

#include "workloads/burn_run.h"

#define PROGRESS_HOST_MS 1000.0

enum { MARK_START = BURN_MARKS - 1, STEPS_IN_FLIGHT = 2 };

struct list_run {
    struct burn_device *device;
    const struct burn_training *training;
    uint64_t queued, done; /* steps */
    double device_ms;      /* from the start to the end of the last step done */
};

static void print_progress(const struct list_run *run, const char *end)
{
    double samples = (double)run->done * run->training->batch;
    printf("step=%llu samples=%.0f samples_per_s=%.1f%s\n", (unsigned long long)run->done, samples,
           run->device_ms > 0 ? samples / run->device_ms * 1e3 : 0, end);
    fflush(stdout);
}

static int queue_step(struct error *e, struct list_run *run)
{
    const struct burn_kernels *kernels = run->training->kernels;
    int r = 0;
    for (size_t i = 0; r == 0 && i < kernels->count; i++)
        r = burn_device_launch(e, run->device, &kernels->list[i]);
    if (r == 0)
        r = burn_device_mark(e, run->device, (unsigned)(run->queued++ % STEPS_IN_FLIGHT));
    return r;
}

static int finish_step(struct error *e, struct list_run *run)
{
    unsigned mark = (unsigned)(run->done % STEPS_IN_FLIGHT);
    int r = burn_device_wait(e, run->device, mark);
    if (r == 0)
        r = burn_device_elapsed_ms(e, run->device, MARK_START, mark, &run->device_ms);
    run->done++;
    return r;
}

int burn_train_list(struct error *e, struct burn_device *device,
                    const struct burn_training *training, const volatile sig_atomic_t *stop)
{
    struct list_run run = {.device = device, .training = training};
    double steps_wanted =
        training->samples > 0 ? ceil(training->samples / training->batch) : INFINITY;
    double printed_ms = burn_host_ms();
    (void)gpumux_report_progress(training->gpumux, 0);
    int r = burn_device_mark(e, device, MARK_START);
    while (r == 0 && !*stop && (double)run.done < steps_wanted) {
        if (run.queued < run.done + STEPS_IN_FLIGHT && (double)run.queued < steps_wanted)
            r = queue_step(e, &run);
        else
            r = finish_step(e, &run);
        if (r == 0 && burn_host_ms() - printed_ms >= PROGRESS_HOST_MS) {
            print_progress(&run, "");
            (void)gpumux_report_progress(training->gpumux,
                                         (uint64_t)((double)run.done * training->batch));
            printed_ms = burn_host_ms();
        }
    }
    if (r == 0)
        print_progress(&run, *stop ? " stopped" : " done");
    return r;
}
