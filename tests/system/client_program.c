/*
 * A workload that uses libgpumux.so.0, for client.sh:
 *
 *   client_program facts        prints the library's facts, one per line
 *   client_program train        reports 1,000 samples a second, in ten steps, until ended
 *   client_program follow [cuda]  trains with the batch size that gpumux advises, prints each new
 *                               size and each request for a checkpoint; cuda: uses the driver, so
 *                               that the process has pages
 *   client_program answer FILE  answers 200 requests per second, each in the microseconds
 *                               that FILE contains
 *   client_program serve FILE   reports ready once FILE exists, prints the result of the
 *                               call, and waits
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/gpumux.h"

enum {
    STEP_US = 100000,
    STEP_SAMPLES = 100,
    LOOK_US = 20000,
    READY_WAIT_MS = 60000,
    ANSWER_US = 5000,
    FOLLOW_US = 20000,
};

static void print_facts(const struct gpumux *g)
{
    printf("id=%" PRIu64 "\n", gpumux_workload_id(g));
    printf("name=%s\n", gpumux_workload_name(g));
    printf("attempt=%d\n", gpumux_attempt(g));
    printf("array_index=%d\n", gpumux_array_index(g));
    printf("node=%s\n", gpumux_node_name(g));
    printf("quota_bytes=%" PRIu64 "\n", gpumux_quota_bytes(g));
    printf("share=%d-%d\n", gpumux_share_min_percent(g), gpumux_share_max_percent(g));
    printf("batch=%" PRIu64 " %" PRIu64 "-%" PRIu64 " by %" PRIu64 "\n", gpumux_batch_size(g, 7),
           gpumux_batch_size_min(g), gpumux_batch_size_max(g), gpumux_batch_size_step(g));
}

static void train(struct gpumux *g)
{
    for (uint64_t samples = 0;; samples += STEP_SAMPLES) {
        if (gpumux_report_progress(g, samples) < 0)
            puts("not heard");
        usleep(STEP_US);
    }
}

static void follow(struct gpumux *g, bool uses_cuda)
{
    uint64_t samples = 0, last = 0;
    void *driver = uses_cuda ? dlopen("libcuda.so.1", RTLD_NOW) : NULL;
    int (*init)(unsigned) = driver ? (int (*)(unsigned))(uintptr_t)dlsym(driver, "cuInit") : NULL;
    if (uses_cuda && (!init || init(0) != 0))
        puts("no driver");
    for (;; usleep(FOLLOW_US)) {
        uint64_t batch = gpumux_batch_size(g, 7);
        if (batch != last)
            printf("batch %" PRIu64 "\n", batch);
        if (gpumux_checkpoint_wanted(g))
            puts("checkpoint");
        fflush(stdout);
        gpumux_use_batch(g, batch);
        (void)gpumux_report_progress(g, samples += batch);
        last = batch;
    }
}

static void answer(struct gpumux *g, const char *path)
{
    for (;; usleep(ANSWER_US)) {
        uint64_t latency_us;
        FILE *file = fopen(path, "re");
        if (file && fscanf(file, "%" SCNu64, &latency_us) == 1)
            (void)gpumux_report_latency(g, latency_us);
        if (file)
            fclose(file);
    }
}

static void serve(struct gpumux *g, const char *path)
{
    while (access(path, F_OK) < 0)
        usleep(LOOK_US);
    printf("ready: %d\n", gpumux_tell_ready(g, READY_WAIT_MS));
    fflush(stdout);
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    struct gpumux *g = gpumux_open();
    if (argc == 2 && strcmp(argv[1], "facts") == 0)
        print_facts(g);
    else if (argc == 2 && strcmp(argv[1], "train") == 0)
        train(g);
    else if (argc <= 3 && argc >= 2 && strcmp(argv[1], "follow") == 0)
        follow(g, argc == 3);
    else if (argc == 3 && strcmp(argv[1], "answer") == 0)
        answer(g, argv[2]);
    else if (argc == 3 && strcmp(argv[1], "serve") == 0)
        serve(g, argv[2]);
    else
        return 2;
    gpumux_close(g);
    return 0;
}
