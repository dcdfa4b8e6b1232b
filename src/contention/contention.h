/*
 * How kernels share one GPU. At any instant every running kernel progresses at a rate between 0 and
 * 1 of its speed alone, and the rates change only when a kernel arrives, a kernel ends, a time
 * slice ends or blocks of a less urgent kernel have ended. The caller keeps the set of running
 * kernels, in order of arrival, and the time; between two changes it alternates
 *
 *   ns = contention_plan(device, kernels, count);         the rates from now on, and how long for
 *   contention_elapse(device, kernels, count, at_most_ns) let that much time, or less, go by
 *
 * and takes out the kernels whose work is 0. Pure: no clock, no allocation, no I/O; integers only,
 * so the same events give the same times everywhere, to the nanosecond.
 *
 * Parties. Kernels of one party overlap; parties with something to run take turns of
 * CONTENTION_SLICE_NS. The clients of an MPS server are one party, any other client is one alone. A
 * party that runs out of work gives the rest of its turn away; one that is alone has no turns to
 * end. Between the turns of two parties the device does nothing for CONTENTION_SWITCH_NS.
 *
 * SMs, within a party. A kernel is blocks, each of which holds its SM for block_ns and is never
 * interrupted but by the end of the turn. SMs that are free go to the most urgent kernel and, among
 * equals, to the one that arrived first, up to its demand and up to what is left of its client's
 * share; when a block has ended the next of the same kernel takes its place. So a kernel keeps what
 * it has until it ends, and a long one starves those behind it. Its speed is the part of its demand
 * that it holds. A kernel that lacks SMs while less urgent ones hold some gets those as their
 * blocks end: with h SMs in blocks of b ns, staggered, that takes b·x/h for all x of them.
 *
 * Beginning, within a party. Kernels are dealt out to the SMs in turns, also where there is room
 * for all: one that begins while other clients' are there takes CONTENTION_BESIDE_NS longer, or, if
 * one of those is more urgent, CONTENTION_BELOW_NS. Less urgent ones cost it nothing.
 *
 * DRAM bandwidth is divided in proportion to demand when the sum is above 1000 permille.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { CONTENTION_FULL_PERMILLE = 1000, CONTENTION_CLIENTS_MAX = 256 };
enum { CONTENTION_RATE_BITS = 20, CONTENTION_RATE_ONE = 1 << CONTENTION_RATE_BITS };
#define CONTENTION_SLICE_NS  UINT64_C(2000000)
#define CONTENTION_SWITCH_NS UINT64_C(150000)
#define CONTENTION_BESIDE_NS UINT64_C(350)
#define CONTENTION_BELOW_NS  UINT64_C(30000)
/* The longest kernel, about 2.4 hours: its work still fits 64 bits. */
#define CONTENTION_DURATION_NS_MAX (UINT64_C(1) << 43)
/* What contention_plan answers when nothing will ever change. */
#define CONTENTION_NEVER UINT64_MAX

/* A kernel as it arrives. */
struct contention_launch {
    uint64_t tag;           /* the caller's */
    uint64_t duration_ns;   /* alone; at most CONTENTION_DURATION_NS_MAX */
    uint32_t block_ns;      /* how long a block of it takes; 0: as long as the kernel */
    uint32_t party;         /* who overlaps */
    uint32_t client;        /* below CONTENTION_CLIENTS_MAX: whose share it counts to */
    uint16_t sm_permille;   /* of the device's SMs that it would use alone; 0: needs none */
    uint16_t dram_permille; /* of the bandwidth, likewise */
    uint16_t
        share_permille; /* of the SMs, for all kernels of the client; the same in all of them */
    uint16_t priority;  /* smaller is more urgent */
};

struct contention_kernel {
    uint64_t work; /* what is left of its duration alone: ns << CONTENTION_RATE_BITS */
    uint64_t tag;
    uint64_t claim_ns; /* set by contention_plan: until SMs of less urgent kernels come to it */
    uint32_t party, client;
    uint32_t block_ns;
    uint32_t rate;                   /* set by contention_plan, of CONTENTION_RATE_ONE */
    uint16_t sm_demand, dram_demand; /* permille */
    uint16_t sm_share, priority;
    uint16_t sm_used, dram_used; /* set by contention_plan: what it gets of each, permille */
    uint16_t has_begun;          /* likewise: 1: it has had a turn */
};

struct contention_device {
    uint64_t slice_left_ns;
    uint64_t switch_left_ns;     /* until the turn begins: nobody runs */
    uint32_t turn_party;         /* whose turn it is */
    uint32_t others_wait;        /* 1: parties without a turn have kernels */
    uint32_t sm_used, dram_used; /* set by contention_plan: by all kernels together, permille */
    /* SMs in use, by client: those with a running kernel are right after contention_plan. */
    uint16_t client_sms[CONTENTION_CLIENTS_MAX];
};

void contention_init(struct contention_device *device);
void contention_kernel_init(struct contention_kernel *kernel,
                            const struct contention_launch *launch);
/* What an active thread percentage of an MPS client comes to on a device with that many SMs: whole
 * pairs of SMs, as measured (30 % of 132 are 38), at least one. In SMs, and in permille. */
unsigned contention_share_sms(unsigned sms, unsigned share_permille);
unsigned contention_share_permille(unsigned sms, unsigned share_permille);

/* Sets rate, sm_used and dram_used of every kernel, and ends the turn that is over. Returns the
 * nanoseconds to the next change: the end of a kernel (0 when one has no work left), of a slice, of
 * a switch or of a wait for blocks; CONTENTION_NEVER without kernels. */
uint64_t contention_plan(struct contention_device *device, struct contention_kernel *kernels,
                         size_t count);
/* Lets time go by under the plan. ns is at most what contention_plan returned, and no kernel has
 * arrived or left since. */
void contention_elapse(struct contention_device *device, struct contention_kernel *kernels,
                       size_t count, uint64_t ns);
