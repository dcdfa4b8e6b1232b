/*
 * Clients with known kernels, run through the model without processes or a clock: what a device
 * would do with them. Each client has one stream.
 *
 * A service has requests, each of which is all its kernels, due at given times; they are queued
 * then and done in order. A task goes through its kernels again and again; its host needs launch_ns
 * for each, runs ahead of the device without bound, and is never stopped by it.
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
    /* The caller's, unchanged. */
    const struct replay_kernel *kernels; /* of a step or a request, not owned */
    size_t kernel_count;
    const uint64_t *due_ns; /* of requests, rising, not owned; NULL: a task */
    size_t due_count;
    uint64_t launch_ns; /* of a task */
    uint32_t party;
    uint16_t share_permille, priority; /* as struct contention_launch has them */
    uint64_t *latency_ns; /* of each request, from when it was due; not owned, due_count of them */

    /* What came of it; 0 before. */
    uint64_t kernels_done; /* of all rounds */
    uint64_t end_ns;       /* of the last of them */
    uint64_t is_running;
};

/* From time 0 to `until_ns`, or to the end of all requests when there are no tasks. */
void replay_run(struct replay_client *clients, size_t count, uint64_t until_ns);
