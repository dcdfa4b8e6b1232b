/*
 * Runs clients with known kernels through the model, without processes or a clock. Each client has
 * one stream.
 *
 * A service has requests with given due times; each request is a pass over all kernels, queued at
 * the due time and completed in order. A task repeats its kernels; its host needs launch_ns for
 * each launch, and runs ahead of the device without limit.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { REPLAY_CLIENTS_MAX = 16 };

struct replay_kernel {
    uint64_t duration_ns;
    uint32_t block_ns;
    uint16_t sm_permille, dram_permille;
};

struct replay_client {
    /* Set by the caller, never changed: */
    const struct replay_kernel *kernels; /* of a step or a request, not owned */
    size_t kernel_count;
    const uint64_t *due_ns; /* due times of requests, ascending, not owned; NULL: a task */
    size_t due_count;
    uint64_t launch_ns; /* of a task */
    uint32_t party;
    uint16_t share_permille, priority; /* as in struct contention_launch */
    uint64_t
        *latency_ns; /* latency of each request from its due time; not owned, due_count entries */

    /* Results; 0 before: */
    uint64_t kernels_done; /* in all rounds */
    uint64_t end_ns;       /* end of the last kernel */
    uint64_t is_running;
};

/* Runs from time 0 to `until_ns`, or to the end of all requests without tasks. */
void replay_run(struct replay_client *clients, size_t count, uint64_t until_ns);
