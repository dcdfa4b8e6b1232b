/*
 * launch_bench PROCESSES RATE SECONDS BURST: cost of an emulated launch. PROCESSES processes on one
 * emulated device launch short kernels in bursts of BURST, RATE a second each (0: as fast as the
 * device accepts them, at 2 µs each), and wait for the last. Prints the rate reached and the CPU
 * time of all processes per launch, including queueing, simulation and waiting. GPUMUX_BUILD names
 * the build.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/emu/driver_api.h"

enum { PROCESSES_MAX = 64, SM_PERMILLE = 100, START_S = 2 }; /* START_S: time to open the device */

struct plan {
    unsigned processes, burst;
    double rate, seconds;
};

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void sleep_until(double at_s)
{
    struct timespec at = {.tv_sec = (time_t)at_s,
                          .tv_nsec = (long)((at_s - (double)(time_t)at_s) * 1e9)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* Runs one client; returns its number of launches, or exits. */
static unsigned long work(const struct plan *plan, double start_s)
{
    struct driver_api api;
    void *stream;
    driver_api_load(&api);
    driver_api_open_device(&api);
    if (api.cuStreamCreate(&stream, CUDA_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        exit(1);
    uint64_t duration_ns = plan->rate > 0 ? (uint64_t)(0.1e9 / plan->rate) : 2000;
    unsigned long launches = 0;
    sleep_until(start_s);
    while (now_s() < start_s + plan->seconds) {
        for (unsigned i = 0; i < plan->burst; i++) {
            if (driver_api_burn(&api, stream, SM_PERMILLE, 10, duration_ns) != CUDA_SUCCESS)
                exit(1);
        }
        launches += plan->burst;
        if (plan->rate > 0)
            sleep_until(start_s + (double)launches / plan->rate);
    }
    if (api.cuStreamSynchronize(stream) != CUDA_SUCCESS)
        exit(1);
    return launches;
}

static double cpu_s(int who)
{
    struct rusage usage;
    getrusage(who, &usage);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Runs the processes; returns false if one failed. */
static int run(const struct plan *plan, unsigned long *ret_launches)
{
    int results[2], failures = 0;
    double start_s = now_s() + START_S;
    if (pipe(results) < 0)
        return -1;
    for (unsigned i = 0; i < plan->processes; i++) {
        if (fork() == 0) {
            unsigned long launches = work(plan, start_s);
            _exit(write(results[1], &launches, sizeof(launches)) != (ssize_t)sizeof(launches));
        }
    }
    *ret_launches = 0;
    for (unsigned i = 0; i < plan->processes; i++) {
        int status;
        failures += wait(&status) < 0 || status != 0;
    }
    close(results[1]);
    for (unsigned long launches; read(results[0], &launches, sizeof(launches)) > 0;)
        *ret_launches += launches;
    close(results[0]);
    return failures;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: launch_bench PROCESSES RATE SECONDS BURST\n");
        return 2;
    }
    struct plan plan = {
        .processes = (unsigned)strtoul(argv[1], NULL, 10),
        .rate = strtod(argv[2], NULL),
        .seconds = strtod(argv[3], NULL),
        .burst = (unsigned)strtoul(argv[4], NULL, 10),
    };
    if (plan.processes == 0 || plan.processes > PROCESSES_MAX || plan.burst == 0)
        return 2;
    unsigned long launches = 0;
    driver_api_make_devices("H200", 1, 1);
    int failures = run(&plan, &launches);
    driver_api_remove_devices();
    double cpu = cpu_s(RUSAGE_CHILDREN);
    printf("processes=%u launches=%lu rate=%.0f cpu_us=%.3f cores=%.3f failures=%d\n",
           plan.processes, launches, (double)launches / plan.seconds, cpu * 1e6 / (double)launches,
           cpu / plan.seconds, failures);
    return failures != 0;
}
