/*
 * A model of kernels that share one GPU. At any instant, every running kernel progresses at a rate
 * between 0 and 1 of its speed alone. Rates change only when a kernel arrives or ends, a time slice
 * ends, or blocks of a less urgent kernel have ended. The caller keeps the time and the set of
 * running kernels in order of arrival. Between two changes the caller alternates
 *
 *   ns = contention_plan(device, kernels, count);         computes the rates and their duration
 *   contention_elapse(device, kernels, count, at_most_ns) advances by at most that duration
 *
 * and removes kernels with no work left. Pure: no clock, no allocation, no I/O. All arithmetic is
 * on integers, so the same events give the same times everywhere, to the nanosecond.
 *
 * Parties. Kernels of one party overlap. Parties with kernels take turns of CONTENTION_SLICE_NS.
 * The clients of an MPS server form one party; every other client is a party of its own. A party
 * without work ends its turn early; a single party runs without turns. Between turns of different
 * parties the device idles for CONTENTION_SWITCH_NS.
 *
 * SMs, within a party. A kernel consists of blocks. A block occupies its SM for block_ns and is
 * interrupted only by the end of the turn. Free SMs go to the most urgent kernel and, among equals,
 * to the first to arrive, up to the kernel's demand and its client's remaining share. When a block
 * ends, the next block of the same kernel takes its SM. So a kernel keeps its SMs until it ends,
 * and a long kernel starves later kernels. The speed of a kernel is the fraction of its demand that
 * the kernel occupies. A kernel that lacks SMs takes over SMs from less urgent kernels as their
 * blocks end: if those kernels occupy h SMs in staggered blocks of b ns, the takeover of x SMs
 * lasts b·x/h.
 *
 * Start, within a party. Even on a device with room for all, kernels are assigned to SMs in turn: a
 * kernel that starts beside running kernels of other clients takes CONTENTION_BESIDE_NS longer, or
 * CONTENTION_BELOW_NS if any of these kernels is more urgent. Less urgent kernels do not delay a
 * start.
 *
 * DRAM bandwidth is divided in proportion to demand when the total demand exceeds 1000 permille.
 *
 * This folder contains the model of kernels that share a GPU. Files of the folder contention may
 * include base, model.
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
/* Longest kernel, about 2.4 hours, whose work fits in 64 bits. */
#define CONTENTION_DURATION_NS_MAX (UINT64_C(1) << 43)
/* Result of contention_plan() when no change will ever occur. */
#define CONTENTION_NEVER UINT64_MAX

/* A kernel on arrival. */
struct contention_launch {
    uint64_t tag;           /* for the caller */
    uint64_t duration_ns;   /* alone; at most CONTENTION_DURATION_NS_MAX */
    uint32_t block_ns;      /* duration of one block; 0: as long as the kernel */
    uint32_t party;         /* kernels of one party overlap */
    uint32_t client;        /* below CONTENTION_CLIENTS_MAX; owner of the share */
    uint16_t sm_permille;   /* SMs that the kernel uses alone; 0: none */
    uint16_t dram_permille; /* bandwidth that the kernel uses alone */
    /* Share of the SMs for all kernels of the client; equal in all of them. */
    uint16_t share_permille;
    uint16_t priority; /* smaller is more urgent */
};

struct contention_kernel {
    uint64_t work; /* remaining duration alone: ns << CONTENTION_RATE_BITS */
    uint64_t tag;
    /* Set by contention_plan(): time until SMs of less urgent kernels are available. */
    uint64_t claim_ns;
    uint32_t party, client;
    uint32_t block_ns;
    uint32_t rate;                   /* set by contention_plan(), in units of CONTENTION_RATE_ONE */
    uint16_t sm_demand, dram_demand; /* permille */
    uint16_t sm_share, priority;
    uint16_t sm_used, dram_used; /* set by contention_plan(): permille in use by the kernel */
    uint16_t has_begun;          /* set by contention_plan(): 1 after the kernel's first turn */
};

struct contention_device {
    uint64_t slice_left_ns;
    uint64_t switch_left_ns;     /* remaining switch time, during which no kernel runs */
    uint32_t turn_party;         /* party that has the turn */
    uint32_t others_wait;        /* 1: parties without the turn have kernels */
    uint32_t sm_used, dram_used; /* set by contention_plan(): total of all kernels, permille */
    /* SMs in use by each client; valid for clients with a running kernel after
     * contention_plan(). */
    uint16_t client_sms[CONTENTION_CLIENTS_MAX];
};

void contention_init(struct contention_device *device);
void contention_kernel_init(struct contention_kernel *kernel,
                            const struct contention_launch *launch);
/* Return the SMs that an MPS client gets for an active thread percentage, in SMs or in permille of
 * the device. The client gets whole pairs of SMs, as measured (30 % of 132 are 38), and at least
 * one pair. */
unsigned contention_share_sms(unsigned sms, unsigned share_permille);
unsigned contention_share_permille(unsigned sms, unsigned share_permille);

/* Sets rate, sm_used and dram_used of every kernel, and ends an expired turn. Returns the time in
 * ns until the next change: the end of a kernel (0 if a kernel has no work left), of a slice, of a
 * switch or of a wait for blocks; CONTENTION_NEVER without kernels. */
uint64_t contention_plan(struct contention_device *device, struct contention_kernel *kernels,
                         size_t count);
/* Advances the time under the plan. ns is at most the result of contention_plan(); no kernel may
 * have arrived or left after that call. */
void contention_elapse(struct contention_device *device, struct contention_kernel *kernels,
                       size_t count, uint64_t ns);
