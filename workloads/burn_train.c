/*
 * A training task: steps of kernels, with host time between the kernels.
 *
 * Short steps are folded into one step of at least FOLD_MS of device and of host time, so that late
 * wake-ups of the host (about 0.1 ms each) do not distort the emulated task. The host keeps to a
 * schedule: a delay shortens the next pauses. Host time runs beside device time: the host delays a
 * step only when the device is faster.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "workloads/burn_run.h"

#define FOLD_MS           20.0
#define PIECE_HOST_MS_MIN 2.0    /* a shorter pause between two kernels is dropped */
#define PROGRESS_HOST_MS  1000.0 /* between two lines of progress */
#define LATENESS_KEPT_MS  10.0   /* the largest delay that the schedule makes up for */

enum { MARK_START, MARK_END };

double burn_host_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

void burn_host_sleep_until(double host_ms)
{
    double seconds = floor(host_ms / 1e3);
    struct timespec at = {
        .tv_sec = (time_t)seconds,
        .tv_nsec = (long)((host_ms - seconds * 1e3) * 1e6),
    };
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

struct run {
    struct burn_device *device;
    const struct burn_training *training;
    double speed;
    double samples_per_step; /* as weighted by noise_scale */
    double steps_wanted;     /* INFINITY: no end */
    double steps;
    double started_ms, due_ms, printed_ms; /* host time */
};

static void print_progress(const struct run *run, double now_ms, const char *end)
{
    double device_s = (now_ms - run->started_ms) * run->speed / 1e3;
    double samples = run->steps * run->samples_per_step;
    printf("step=%.0f samples=%.0f samples_per_s=%.1f%s\n", run->steps, samples,
           device_s > 0 ? samples / device_s : 0, end);
    fflush(stdout);
}

/* The result is ignored: the next report includes the samples of a failed one. */
static void report_progress(const struct run *run)
{
    (void)gpumux_report_progress(run->training->gpumux,
                                 (uint64_t)(run->steps * run->samples_per_step));
}

/* Runs `count` steps as one. */
static int run_fold(struct error *e, struct run *run, double count)
{
    const struct burn_profile *profile = &run->training->profile;
    double fold_ms = count * profile->step_ms, busy_ms = fold_ms * profile->busy_percent / 100;
    double pieces = run->training->kernels_per_step * count;
    if (pieces > fold_ms / run->speed / PIECE_HOST_MS_MIN)
        pieces = floor(fold_ms / run->speed / PIECE_HOST_MS_MIN);
    if (pieces < 1 || profile->busy_percent >= 100)
        pieces = 1;

    const struct burn_kernel kernel = {
        .duration_ms = busy_ms / pieces,
        .sm_percent = profile->sm_percent,
        .dram_percent = profile->dram_percent,
    };
    burn_host_sleep_until(run->due_ms);
    double start_ms = run->due_ms, now_ms = burn_host_ms();
    if (now_ms - start_ms > LATENESS_KEPT_MS)
        start_ms = now_ms;
    double mark_ms = burn_host_ms();
    int r = burn_device_mark(e, run->device, MARK_START);
    for (double i = 0; i < pieces && r == 0; i++) {
        burn_host_sleep_until(start_ms + i * fold_ms / pieces / run->speed);
        r = burn_device_launch(e, run->device, &kernel);
    }
    double device_ms = 0;
    if (r == 0)
        r = burn_device_mark(e, run->device, MARK_END);
    if (r == 0)
        r = burn_device_wait(e, run->device, MARK_END);
    if (r == 0)
        r = burn_device_elapsed_ms(e, run->device, MARK_START, MARK_END, &device_ms);
    /* The next step is due on schedule, or when the device is done if neighbours slow it down. */
    run->due_ms = fmax(start_ms + fold_ms / run->speed, mark_ms + device_ms / run->speed);
    run->steps += count;
    return r;
}

static double fold_count(const struct run *run)
{
    double longest_ms = FOLD_MS * (run->speed > 1 ? run->speed : 1);
    double count = ceil(longest_ms / run->training->profile.step_ms);
    double left = run->steps_wanted - run->steps;
    if (run->training->crash_after_steps > 0)
        left = fmin(left, (double)run->training->crash_after_steps - run->steps);
    return fmax(1, fmin(count, left));
}

int burn_train(struct error *e, struct burn_device *device, const struct burn_training *training,
               const volatile sig_atomic_t *stop)
{
    /* A larger batch reduces gradient noise by less than its samples cost: each counts less. */
    double noise = training->noise_scale;
    double efficiency =
        noise > 0 ? (noise + training->reference_batch) / (noise + training->batch) : 1;
    struct run run = {
        .device = device,
        .training = training,
        .speed = burn_device_speed(device),
        .samples_per_step = training->batch * efficiency,
        .started_ms = burn_host_ms(),
    };
    run.steps_wanted =
        training->samples > 0 ? ceil(training->samples / run.samples_per_step) : INFINITY;
    run.due_ms = run.printed_ms = run.started_ms;
    int r = 0;
    report_progress(&run);
    while (r == 0 && !*stop && run.steps < run.steps_wanted) {
        r = run_fold(e, &run, fold_count(&run));
        if (training->crash_after_steps > 0 && run.steps >= (double)training->crash_after_steps)
            abort();
        double now_ms = burn_host_ms();
        if (r == 0 && now_ms - run.printed_ms >= PROGRESS_HOST_MS) {
            print_progress(&run, now_ms, "");
            report_progress(&run);
            run.printed_ms = now_ms;
        }
    }
    if (r < 0)
        return r;
    if (!*stop)
        burn_host_sleep_until(run.due_ms);
    print_progress(&run, burn_host_ms(), *stop ? " stopped" : " done");
    return 0;
}
