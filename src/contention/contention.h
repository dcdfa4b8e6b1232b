/*
 * How kernels share one GPU. A fluid model: at any instant every running kernel progresses at a
 * rate between 0 and 1 of its speed alone, and the rates change only when a kernel arrives, a
 * kernel ends or a time slice ends. The caller keeps the set of running kernels, in order of
 * arrival, and the time; between two changes it alternates
 *
 *   ns = contention_plan(device, kernels, count);         the rates from now on, and how long for
 *   contention_elapse(device, kernels, count, at_most_ns) let that much time, or less, go by
 *
 * and takes out the kernels whose work is 0. Pure: no clock, no allocation, no I/O; integers only,
 * so the same events give the same times everywhere, to the nanosecond.
 *
 * CONTENTION_SHARED        (under MPS) kernels of all clients overlap. SMs are handed out in order
 *                          of arrival: a kernel gets what is left of the 1000 permille, up to its
 *                          demand, and its speed is the part of its demand that it got; with
 *                          nothing left it waits. DRAM bandwidth is divided in proportion to
 *                          demand when the sum is above 1000 permille.
 * CONTENTION_TIME_SLICED   (without MPS) clients with something to run take turns of
 *                          CONTENTION_SLICE_NS; within a client the rules above hold. A client
 *                          that runs out of work gives the rest of its turn away; one that is
 *                          alone has no turns to end.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum contention_mode { CONTENTION_TIME_SLICED, CONTENTION_SHARED };

enum { CONTENTION_FULL_PERMILLE = 1000 };
enum { CONTENTION_RATE_BITS = 20, CONTENTION_RATE_ONE = 1 << CONTENTION_RATE_BITS };
#define CONTENTION_SLICE_NS UINT64_C(2000000)
/* The longest kernel, about 2.4 hours: its work still fits 64 bits. */
#define CONTENTION_DURATION_NS_MAX (UINT64_C(1) << 43)
/* What contention_plan answers when nothing will ever change. */
#define CONTENTION_NEVER UINT64_MAX

struct contention_kernel {
    uint64_t work;      /* what is left of its duration alone: ns << CONTENTION_RATE_BITS */
    uint64_t tag;       /* the caller's */
    uint32_t client;    /* equal for the kernels of one client */
    uint32_t rate;      /* set by contention_plan, of CONTENTION_RATE_ONE */
    uint16_t sm_demand; /* permille of the device's SMs that it would use alone; 0: needs none */
    uint16_t dram_demand;
    uint16_t sm_used; /* set by contention_plan: what it gets of each, permille */
    uint16_t dram_used;
};

struct contention_device {
    uint64_t slice_left_ns;
    uint32_t turn_client; /* whose turn it is, when time-sliced */
    uint32_t mode;        /* enum contention_mode */
};

void contention_init(struct contention_device *device, enum contention_mode mode);
/* duration_ns ≤ CONTENTION_DURATION_NS_MAX, demands ≤ 1000. */
void contention_kernel_init(struct contention_kernel *kernel, uint32_t client, uint64_t tag,
                            uint64_t duration_ns, unsigned sm_permille, unsigned dram_permille);
/* Sets rate, sm_used and dram_used of every kernel, and ends the turn that is over. Returns the
 * nanoseconds to the next change: the end of a kernel (0 when one has no work left) or of a slice;
 * CONTENTION_NEVER without kernels. */
uint64_t contention_plan(struct contention_device *device, struct contention_kernel *kernels,
                         size_t count);
/* Lets time go by under the plan. ns is at most what contention_plan returned, and no kernel has
 * arrived or left since. */
void contention_elapse(struct contention_device *device, struct contention_kernel *kernels,
                       size_t count, uint64_t ns);
