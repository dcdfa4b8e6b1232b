/*
 * Bursts of a service (abi/page.h): the stand-in for requests of a program that reports none. The
 * shim opens a burst at a launch, and ends the burst when a call that waits for the device returns
 * and no work is outstanding. The first launch after more than BURSTS_SLEEP_NS without a launch
 * wakes the keepers of tasks on the device, which sleep while services are idle.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/page.h"
#include "shim/sys/lock.h"

struct process;

/* Shorter than the idle time after which keepers sleep, so that no launch goes unnoticed. */
#define BURSTS_SLEEP_NS UINT64_C(1000000000)

struct bursts {
    struct lock lock;          /* protects the fields below */
    uint64_t kernels, graphs;  /* counters before the first launch of the open burst */
    uint32_t device;           /* device of the first launch */
    uint32_t company;          /* enum limits_company at the begin */
    _Atomic uint64_t ended_ns; /* end of the latest burst; 0: none */
};

/* Opens a burst, after its first launch was counted and is in the marks. */
void bursts_begin(struct process *p, int device, bool is_graph);
/* Ends the open burst, if no work is outstanding. */
void bursts_end(struct process *p);

/* Returns the kind of a burst with these numbers of launches. */
static inline uint32_t bursts_kind(uint64_t kernels, uint64_t graphs)
{
    uint32_t octave = kernels > 0 ? 64 - (uint32_t)__builtin_clzll(kernels) : 1;
    return graphs > 0 ? 0 : octave < PAGE_BURST_KINDS ? octave : PAGE_BURST_KINDS - 1;
}

/* Returns the place of a duration in `burst_lengths`. */
static inline uint32_t bursts_place(uint64_t ns)
{
    uint64_t us = ns / 1000;
    if (us < 16)
        return 0;
    uint32_t top = 63 - (uint32_t)__builtin_clzll(us);
    uint64_t place = (top - 4) * 4 + (us >> (top - 2) & 3);
    return place < PAGE_BURST_PLACES ? (uint32_t)place : PAGE_BURST_PLACES - 1;
}
