#include "contention/contention.h"

#include <assert.h>
#include <stdbool.h>

enum { SMS_PER_PAIR = 2 };
#define NO_CLAIM UINT64_MAX

void contention_init(struct contention_device *device)
{
    *device = (struct contention_device){.slice_left_ns = CONTENTION_SLICE_NS};
}

void contention_kernel_init(struct contention_kernel *kernel,
                            const struct contention_launch *launch)
{
    assert(launch->duration_ns <= CONTENTION_DURATION_NS_MAX);
    assert(launch->sm_permille <= CONTENTION_FULL_PERMILLE);
    assert(launch->dram_permille <= CONTENTION_FULL_PERMILLE);
    assert(launch->client < CONTENTION_CLIENTS_MAX);
    uint64_t block_ns = launch->block_ns > 0 ? launch->block_ns : launch->duration_ns;
    *kernel = (struct contention_kernel){
        .work = launch->duration_ns << CONTENTION_RATE_BITS,
        .tag = launch->tag,
        .claim_ns = NO_CLAIM,
        .party = launch->party,
        .client = launch->client,
        .block_ns = block_ns < UINT32_MAX ? (uint32_t)block_ns : UINT32_MAX,
        .sm_demand = launch->sm_permille,
        .dram_demand = launch->dram_permille,
        .sm_share = launch->share_permille,
        .priority = launch->priority,
    };
}

unsigned contention_share_sms(unsigned sms, unsigned share_permille)
{
    assert(share_permille <= CONTENTION_FULL_PERMILLE);
    if (share_permille == CONTENTION_FULL_PERMILLE)
        return sms;
    unsigned pairs = sms * share_permille / CONTENTION_FULL_PERMILLE / SMS_PER_PAIR;
    unsigned share = (pairs > 0 ? pairs : 1) * SMS_PER_PAIR;
    return share < sms ? share : sms;
}

unsigned contention_share_permille(unsigned sms, unsigned share_permille)
{
    return contention_share_sms(sms, share_permille) * CONTENTION_FULL_PERMILLE / sms;
}

/* Chooses the party that runs. Turns follow the numbers of the parties, so the order of arrival
 * gives no advantage. */
static void choose_turn(struct contention_device *device, const struct contention_kernel *kernels,
                        size_t count)
{
    bool has_current = false, has_next = false, is_one = true;
    uint32_t lowest = kernels[0].party, next = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t party = kernels[i].party;
        is_one &= party == kernels[0].party;
        has_current |= party == device->turn_party;
        if (party < lowest)
            lowest = party;
        if (party > device->turn_party && (!has_next || party < next)) {
            next = party;
            has_next = true;
        }
    }
    if (!has_current || (device->slice_left_ns == 0 && !is_one)) {
        device->turn_party = has_next ? next : lowest;
        device->slice_left_ns = CONTENTION_SLICE_NS;
        device->switch_left_ns = device->others_wait ? CONTENTION_SWITCH_NS : 0;
    }
    device->others_wait = !is_one;
    if (is_one)
        device->slice_left_ns = CONTENTION_SLICE_NS;
}

static bool may_run(const struct contention_device *device, const struct contention_kernel *kernel)
{
    return kernel->party == device->turn_party && device->switch_left_ns == 0;
}

/* Returns the delay of a kernel's start by running kernels of other clients. */
static uint64_t beginning_ns(const struct contention_device *device,
                             const struct contention_kernel *kernels, size_t count,
                             const struct contention_kernel *kernel)
{
    uint64_t ns = 0;
    for (size_t i = 0; i < count; i++) {
        const struct contention_kernel *other = &kernels[i];
        if (other->client == kernel->client || !other->has_begun || other->sm_demand == 0 ||
            other->priority > kernel->priority || !may_run(device, other))
            continue;
        if (other->priority < kernel->priority)
            return CONTENTION_BELOW_NS;
        ns = CONTENTION_BESIDE_NS;
    }
    return ns;
}

static void begin_kernels(const struct contention_device *device, struct contention_kernel *kernels,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct contention_kernel *kernel = &kernels[i];
        if (kernel->has_begun || !may_run(device, kernel))
            continue;
        kernel->has_begun = 1;
        if (kernel->work > 0 && kernel->sm_demand > 0)
            kernel->work += beginning_ns(device, kernels, count, kernel) << CONTENTION_RATE_BITS;
    }
}

/* Summary of the kernels that have the turn. */
struct survey {
    unsigned free_sms;    /* not in use */
    unsigned urgent, lax; /* range of the priorities */
    bool has_claims;
};

/* Summarizes the kernels, and takes the SMs from those without the turn. */
static struct survey survey_kernels(struct contention_device *device,
                                    struct contention_kernel *kernels, size_t count)
{
    struct survey survey = {.free_sms = CONTENTION_FULL_PERMILLE, .urgent = UINT16_MAX};
    for (size_t i = 0; i < count; i++)
        device->client_sms[kernels[i].client] = 0;
    for (size_t i = 0; i < count; i++) {
        struct contention_kernel *kernel = &kernels[i];
        if (!may_run(device, kernel)) {
            kernel->sm_used = 0;
            kernel->claim_ns = NO_CLAIM;
            continue;
        }
        survey.free_sms -= kernel->sm_used;
        device->client_sms[kernel->client] =
            (uint16_t)(device->client_sms[kernel->client] + kernel->sm_used);
        if (kernel->priority < survey.urgent)
            survey.urgent = kernel->priority;
        if (kernel->priority > survey.lax)
            survey.lax = kernel->priority;
        survey.has_claims |= kernel->claim_ns != NO_CLAIM;
    }
    return survey;
}

/* Returns the number of SMs that a kernel lacks, within its client's share. */
static unsigned lacking(const struct contention_device *device,
                        const struct contention_kernel *kernel)
{
    unsigned want = kernel->sm_demand - kernel->sm_used;
    unsigned used = device->client_sms[kernel->client];
    unsigned room = kernel->sm_share > used ? kernel->sm_share - used : 0;
    return want < room ? want : room;
}

static void give(struct contention_device *device, struct contention_kernel *kernel, int sms)
{
    kernel->sm_used = (uint16_t)(kernel->sm_used + sms);
    device->client_sms[kernel->client] = (uint16_t)(device->client_sms[kernel->client] + sms);
}

static void give_free(struct contention_device *device, struct contention_kernel *kernels,
                      size_t count, unsigned priority, unsigned *left)
{
    for (size_t i = 0; i<count && * left> 0; i++) {
        struct contention_kernel *kernel = &kernels[i];
        if (kernel->priority != priority || !may_run(device, kernel))
            continue;
        unsigned want = lacking(device, kernel);
        unsigned got = want < *left ? want : *left;
        give(device, kernel, (int)got);
        *left -= got;
    }
}

static bool is_victim(const struct contention_device *device,
                      const struct contention_kernel *kernel, unsigned priority)
{
    return may_run(device, kernel) && kernel->priority > priority && kernel->sm_used > 0;
}

/* Returns the time until this number of SMs of less urgent kernels reach the end of a block. */
static uint64_t claim_time_ns(const struct contention_device *device,
                              const struct contention_kernel *kernels, size_t count,
                              unsigned priority, unsigned sms)
{
    uint64_t held = 0, ends = 0; /* SMs in use, and the number that become free in 2^32 ns */
    for (size_t i = 0; i < count; i++) {
        if (!is_victim(device, &kernels[i], priority))
            continue;
        held += kernels[i].sm_used;
        ends += ((uint64_t)kernels[i].sm_used << 32) / (kernels[i].block_ns | 1);
    }
    if (held == 0)
        return NO_CLAIM;
    uint64_t wanted = sms < held ? sms : held;
    uint64_t ns = (wanted << 32) / (ends | 1);
    return ns > 0 ? ns : 1;
}

/* Takes SMs from the least urgent kernels first, and among equals from the last to arrive. */
static void take_from_victims(struct contention_device *device, struct contention_kernel *kernels,
                              size_t count, unsigned lax, struct contention_kernel *taker,
                              unsigned sms)
{
    for (unsigned priority = lax; priority > taker->priority && sms > 0; priority--) {
        for (size_t i = count; i-- > 0 && sms > 0;) {
            struct contention_kernel *victim = &kernels[i];
            if (victim->priority != priority || !is_victim(device, victim, taker->priority))
                continue;
            unsigned taken = victim->sm_used < sms ? victim->sm_used : sms;
            give(device, victim, -(int)taken);
            give(device, taker, (int)taken);
            sms -= taken;
        }
    }
}

/* Starts, completes and drops the claims of kernels that lack SMs. */
static void settle_claims(struct contention_device *device, struct contention_kernel *kernels,
                          size_t count, unsigned lax)
{
    for (size_t i = 0; i < count; i++) {
        struct contention_kernel *kernel = &kernels[i];
        if (!may_run(device, kernel))
            continue;
        unsigned want = lacking(device, kernel);
        if (want > 0 && kernel->claim_ns == 0) {
            take_from_victims(device, kernels, count, lax, kernel, want);
            want = lacking(device, kernel);
            kernel->claim_ns = NO_CLAIM;
        }
        if (want == 0)
            kernel->claim_ns = NO_CLAIM;
        else if (kernel->claim_ns == NO_CLAIM)
            kernel->claim_ns = claim_time_ns(device, kernels, count, kernel->priority, want);
    }
}

static void divide_sms(struct contention_device *device, struct contention_kernel *kernels,
                       size_t count)
{
    struct survey survey = survey_kernels(device, kernels, count);
    unsigned left = survey.free_sms;
    for (unsigned priority = survey.urgent; priority <= survey.lax && left > 0; priority++)
        give_free(device, kernels, count, priority, &left);
    if (survey.urgent < survey.lax || survey.has_claims)
        settle_claims(device, kernels, count, survey.lax);
}

/* Sets the rates that follow from the SMs. Returns the DRAM demand at these rates, in permille of
 * the bandwidth << CONTENTION_RATE_BITS. */
static uint64_t rate_by_sms(const struct contention_device *device,
                            struct contention_kernel *kernels, size_t count)
{
    uint64_t dram_total = 0;
    for (size_t i = 0; i < count; i++) {
        struct contention_kernel *kernel = &kernels[i];
        if (!may_run(device, kernel))
            kernel->rate = 0;
        else if (kernel->sm_used == kernel->sm_demand)
            kernel->rate = CONTENTION_RATE_ONE;
        else
            kernel->rate =
                (uint32_t)kernel->sm_used * (uint32_t)CONTENTION_RATE_ONE / kernel->sm_demand;
        kernel->dram_used =
            (uint16_t)((uint64_t)kernel->dram_demand * kernel->rate >> CONTENTION_RATE_BITS);
        dram_total += (uint64_t)kernel->dram_demand * kernel->rate;
    }
    return dram_total;
}

static void divide_dram(struct contention_kernel *kernels, size_t count, uint64_t dram_total)
{
    const uint64_t dram_full = (uint64_t)CONTENTION_FULL_PERMILLE * CONTENTION_RATE_ONE;
    if (dram_total <= dram_full)
        return;
    for (size_t i = 0; i < count; i++) {
        struct contention_kernel *kernel = &kernels[i];
        if (kernel->dram_demand == 0 || kernel->rate == 0)
            continue;
        /* A rate that rounds to 0 would stall a kernel that holds SMs. */
        uint64_t rate = (uint64_t)((unsigned __int128)kernel->rate * dram_full / dram_total);
        kernel->rate = rate > 0 ? (uint32_t)rate : 1;
        kernel->dram_used =
            (uint16_t)((uint64_t)kernel->dram_demand * kernel->rate >> CONTENTION_RATE_BITS);
    }
}

static uint64_t time_to_end_ns(const struct contention_kernel *kernel)
{
    if (kernel->rate == CONTENTION_RATE_ONE)
        return (kernel->work + CONTENTION_RATE_ONE - 1) >> CONTENTION_RATE_BITS;
    return (kernel->work + kernel->rate - 1) / kernel->rate;
}

uint64_t contention_plan(struct contention_device *device, struct contention_kernel *kernels,
                         size_t count)
{
    device->sm_used = device->dram_used = 0;
    if (count == 0) {
        device->others_wait = 0;
        device->switch_left_ns = 0;
        return CONTENTION_NEVER;
    }
    choose_turn(device, kernels, count);
    begin_kernels(device, kernels, count);
    divide_sms(device, kernels, count);
    divide_dram(kernels, count, rate_by_sms(device, kernels, count));

    uint64_t change_ns = device->others_wait ? device->slice_left_ns : CONTENTION_NEVER;
    if (device->switch_left_ns > 0)
        change_ns = device->switch_left_ns;
    for (size_t i = 0; i < count; i++) {
        const struct contention_kernel *kernel = &kernels[i];
        device->sm_used += kernel->sm_used;
        device->dram_used += kernel->dram_used;
        if (kernel->work == 0)
            change_ns = 0;
        if (kernel->claim_ns < change_ns)
            change_ns = kernel->claim_ns;
        if (kernel->rate == 0)
            continue;
        uint64_t end_ns = time_to_end_ns(kernel);
        if (end_ns < change_ns)
            change_ns = end_ns;
    }
    return change_ns;
}

void contention_elapse(struct contention_device *device, struct contention_kernel *kernels,
                       size_t count, uint64_t ns)
{
    for (size_t i = 0; i < count; i++) {
        struct contention_kernel *kernel = &kernels[i];
        unsigned __int128 done = (unsigned __int128)kernel->rate * ns;
        kernel->work = done < kernel->work ? kernel->work - (uint64_t)done : 0;
        if (kernel->claim_ns != NO_CLAIM)
            kernel->claim_ns -= ns;
    }
    if (device->switch_left_ns > 0) {
        assert(ns <= device->switch_left_ns);
        device->switch_left_ns -= ns;
    } else if (device->others_wait) {
        assert(ns <= device->slice_left_ns);
        device->slice_left_ns -= ns;
    }
}
