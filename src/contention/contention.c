#include "contention/contention.h"

#include <assert.h>
#include <stdbool.h>

void contention_init(struct contention_device *device, enum contention_mode mode)
{
    device->slice_left_ns = CONTENTION_SLICE_NS;
    device->turn_client = 0;
    device->mode = mode;
}

void contention_kernel_init(struct contention_kernel *kernel, uint32_t client, uint64_t tag,
                            uint64_t duration_ns, unsigned sm_permille, unsigned dram_permille)
{
    assert(duration_ns <= CONTENTION_DURATION_NS_MAX);
    assert(sm_permille <= CONTENTION_FULL_PERMILLE && dram_permille <= CONTENTION_FULL_PERMILLE);
    *kernel = (struct contention_kernel){
        .work = duration_ns << CONTENTION_RATE_BITS,
        .tag = tag,
        .client = client,
        .sm_demand = (uint16_t)sm_permille,
        .dram_demand = (uint16_t)dram_permille,
    };
}

/* Clients take turns in the order of their numbers, so the order of arrival gives no advantage. */
static void choose_turn(struct contention_device *device, const struct contention_kernel *kernels,
                        size_t count)
{
    bool has_current = false, has_lowest = false, has_next = false;
    uint32_t lowest = 0, next = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t client = kernels[i].client;
        has_current |= client == device->turn_client;
        if (!has_lowest || client < lowest) {
            lowest = client;
            has_lowest = true;
        }
        if (client > device->turn_client && (!has_next || client < next)) {
            next = client;
            has_next = true;
        }
    }
    if (has_current && device->slice_left_ns > 0)
        return;
    device->turn_client = has_next ? next : lowest;
    device->slice_left_ns = CONTENTION_SLICE_NS;
}

static bool may_run(const struct contention_device *device, const struct contention_kernel *kernel)
{
    return device->mode == CONTENTION_SHARED || kernel->client == device->turn_client;
}

/* Hands out the SMs in order of arrival. Returns the DRAM demand at those speeds, in permille of
 * the bandwidth << CONTENTION_RATE_BITS. */
static uint64_t divide_sms(const struct contention_device *device,
                           struct contention_kernel *kernels, size_t count)
{
    unsigned sm_left = CONTENTION_FULL_PERMILLE;
    uint64_t dram_total = 0;
    for (size_t i = 0; i < count; i++) {
        struct contention_kernel *kernel = &kernels[i];
        kernel->rate = 0;
        kernel->sm_used = kernel->dram_used = 0;
        if (!may_run(device, kernel))
            continue;
        if (kernel->sm_demand == 0) {
            kernel->rate = CONTENTION_RATE_ONE;
        } else {
            unsigned got = kernel->sm_demand < sm_left ? kernel->sm_demand : sm_left;
            sm_left -= got;
            kernel->sm_used = (uint16_t)got;
            kernel->rate = (uint32_t)((uint64_t)got * CONTENTION_RATE_ONE / kernel->sm_demand);
        }
        dram_total += (uint64_t)kernel->dram_demand * kernel->rate;
    }
    return dram_total;
}

static void divide_dram(struct contention_kernel *kernels, size_t count, uint64_t dram_total)
{
    const uint64_t dram_full = (uint64_t)CONTENTION_FULL_PERMILLE * CONTENTION_RATE_ONE;
    for (size_t i = 0; i < count; i++) {
        struct contention_kernel *kernel = &kernels[i];
        /* A rate that rounds to 0 would let a kernel that holds SMs wait for ever. */
        if (kernel->dram_demand > 0 && kernel->rate > 0 && dram_total > dram_full) {
            uint64_t rate = (uint64_t)((unsigned __int128)kernel->rate * dram_full / dram_total);
            kernel->rate = rate > 0 ? (uint32_t)rate : 1;
        }
        kernel->dram_used =
            (uint16_t)((uint64_t)kernel->dram_demand * kernel->rate / CONTENTION_RATE_ONE);
    }
}

uint64_t contention_plan(struct contention_device *device, struct contention_kernel *kernels,
                         size_t count)
{
    if (count == 0)
        return CONTENTION_NEVER;
    if (device->mode == CONTENTION_TIME_SLICED)
        choose_turn(device, kernels, count);
    divide_dram(kernels, count, divide_sms(device, kernels, count));

    uint64_t change_ns = CONTENTION_NEVER;
    bool others_wait = false;
    for (size_t i = 0; i < count; i++) {
        const struct contention_kernel *kernel = &kernels[i];
        others_wait |= !may_run(device, kernel);
        if (kernel->work == 0)
            return 0;
        if (kernel->rate == 0)
            continue;
        uint64_t end_ns = (kernel->work + kernel->rate - 1) / kernel->rate;
        if (end_ns < change_ns)
            change_ns = end_ns;
    }
    if (!others_wait)
        device->slice_left_ns = CONTENTION_SLICE_NS;
    else if (device->slice_left_ns < change_ns)
        change_ns = device->slice_left_ns;
    return change_ns;
}

void contention_elapse(struct contention_device *device, struct contention_kernel *kernels,
                       size_t count, uint64_t ns)
{
    bool others_wait = false;
    for (size_t i = 0; i < count; i++) {
        struct contention_kernel *kernel = &kernels[i];
        others_wait |= !may_run(device, kernel);
        unsigned __int128 done = (unsigned __int128)kernel->rate * ns;
        kernel->work = done < kernel->work ? kernel->work - (uint64_t)done : 0;
    }
    if (others_wait) {
        assert(ns <= device->slice_left_ns);
        device->slice_left_ns -= ns;
    }
}
