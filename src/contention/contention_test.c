#include "contention/contention.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"

enum { KERNELS_MAX = 32, MS = 1000000, SMS = 132 };

/* Makes a kernel with this client and tag; its party is its client unless changed. */
static struct contention_launch launch_of(unsigned client, unsigned tag, uint64_t duration_ns,
                                          unsigned sm_permille, unsigned dram_permille)
{
    return (struct contention_launch){
        .tag = tag,
        .duration_ns = duration_ns,
        .party = client,
        .client = client,
        .sm_permille = (uint16_t)sm_permille,
        .dram_permille = (uint16_t)dram_permille,
        .share_permille = CONTENTION_FULL_PERMILLE,
    };
}

struct set {
    struct contention_device device;
    struct contention_kernel kernels[KERNELS_MAX];
    size_t count;
    uint64_t now_ns;
    uint64_t switch_ns;           /* time between turns, part of now_ns */
    uint64_t end_ns[KERNELS_MAX]; /* by tag */
};

static void set_init(struct set *set)
{
    memset(set, 0, sizeof(*set));
    contention_init(&set->device);
}

static void set_add(struct set *set, struct contention_launch launch)
{
    contention_kernel_init(&set->kernels[set->count++], &launch);
}

/* Adds a kernel under MPS, where all clients are one party. */
static void set_add_shared(struct set *set, struct contention_launch launch)
{
    launch.party = 0;
    set_add(set, launch);
}

static void check_capacity(const struct set *set)
{
    unsigned sm_used = 0, dram_used = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct contention_kernel *kernel = &set->kernels[i];
        unsigned client_used = 0;
        sm_used += kernel->sm_used;
        dram_used += kernel->dram_used;
        for (size_t j = 0; j < set->count; j++)
            client_used += set->kernels[j].client == kernel->client ? set->kernels[j].sm_used : 0;
        assert_true(client_used <= kernel->sm_share);
        assert_true(kernel->sm_used <= kernel->sm_demand);
        assert_true(kernel->rate <= CONTENTION_RATE_ONE);
    }
    assert_true(sm_used <= CONTENTION_FULL_PERMILLE);
    assert_true(dram_used <= CONTENTION_FULL_PERMILLE);
    assert_int_equal(set->device.sm_used, sm_used);
    assert_int_equal(set->device.dram_used, dram_used);
}

/* Advances to the next change, at most to `until_ns`. */
static void set_step(struct set *set, uint64_t until_ns)
{
    uint64_t ns = contention_plan(&set->device, set->kernels, set->count);
    check_capacity(set);
    if (ns > until_ns - set->now_ns)
        ns = until_ns - set->now_ns;
    if (set->device.switch_left_ns > 0) {
        assert_int_equal(set->device.sm_used, 0);
        set->switch_ns += ns;
    }
    contention_elapse(&set->device, set->kernels, set->count, ns);
    set->now_ns += ns;
    size_t kept = 0;
    for (size_t i = 0; i < set->count; i++) {
        if (set->kernels[i].work == 0)
            set->end_ns[set->kernels[i].tag] = set->now_ns;
        else
            set->kernels[kept++] = set->kernels[i];
    }
    set->count = kept;
}

static void set_run_until(struct set *set, uint64_t until_ns)
{
    while (set->now_ns < until_ns)
        set_step(set, until_ns);
}

/* Runs all kernels to their end and returns the time. */
static uint64_t set_run(struct set *set)
{
    while (set->count > 0)
        set_step(set, UINT64_MAX);
    return set->now_ns;
}

static void kernel_alone_takes_exact_duration(void **state)
{
    (void)state;
    const uint64_t durations_ns[] = {0, 1, 3 * MS, 123456789, CONTENTION_DURATION_NS_MAX};
    for (size_t i = 0; i < sizeof(durations_ns) / sizeof(*durations_ns); i++) {
        struct set set;
        set_init(&set);
        set_add(&set, launch_of(7, 0, durations_ns[i], 1000, 1000));
        set_run(&set);
        assert_int_equal(set.end_ns[0], durations_ns[i]);
    }
}

static void idle_device_never_changes(void **state)
{
    (void)state;
    struct contention_device device;
    contention_init(&device);
    assert_true(contention_plan(&device, NULL, 0) == CONTENTION_NEVER);
}

static void small_shared_kernels_overlap(void **state)
{
    (void)state;
    struct set set;
    set_init(&set);
    for (unsigned i = 0; i < 3; i++)
        set_add_shared(&set, launch_of(i, i, 5 * MS + i, 300, 200));
    set_run(&set);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(set.end_ns[i], 5 * MS + i + (i > 0 ? CONTENTION_BESIDE_NS : 0));
}

static void full_kernel_starves_later_kernel(void **state)
{
    (void)state;
    struct set set;
    set_init(&set);
    set_add_shared(&set, launch_of(1, 0, 70 * MS, 1000, 50));
    set_add_shared(&set, launch_of(2, 1, MS, 300, 50));
    set_run(&set);
    assert_int_equal(set.end_ns[0], 70 * MS);
    assert_int_equal(set.end_ns[1], 71 * MS + CONTENTION_BESIDE_NS);
}

static void later_kernel_runs_on_remaining_sms(void **state)
{
    (void)state;
    struct set set;
    set_init(&set);
    set_add_shared(&set, launch_of(1, 0, 100 * MS, 750, 0));
    set_add_shared(&set, launch_of(2, 1, 10 * MS, 500, 0));
    set_run(&set);
    assert_int_equal(set.end_ns[0], 100 * MS);
    assert_int_equal(set.end_ns[1], 20 * MS + 2 * CONTENTION_BESIDE_NS);
}

/* A short kernel behind the long kernels of a continuous stream: each short kernel waits for one
 * whole long kernel, and the long kernels never wait. */
static void freed_sms_serve_longest_waiting_kernel(void **state)
{
    (void)state;
    struct set set;
    set_init(&set);
    set_add_shared(&set, launch_of(1, 0, 10 * MS, 1000, 0));
    set_run_until(&set, 2 * MS);
    set_add_shared(&set, launch_of(2, 1, MS, 400, 0));
    set_run_until(&set, 10 * MS);
    set_add_shared(&set, launch_of(1, 2, 10 * MS, 1000, 0));
    set_run_until(&set, 11 * MS + CONTENTION_BESIDE_NS);
    assert_int_equal(set.end_ns[1], 11 * MS + CONTENTION_BESIDE_NS); /* the first to get SMs */
    set_add_shared(&set, launch_of(2, 3, MS, 400, 0));
    set_run_until(&set, 12 * MS);
    assert_int_equal(set.kernels[0].sm_used, 1000); /* the freed SMs went to the long kernel */
    set_run(&set);
    uint64_t end_ns = 20 * MS + 400000 + CONTENTION_BESIDE_NS * 14 / 10;
    assert_in_range(set.end_ns[2], end_ns, end_ns + 2); /* rates are rounded down */
    assert_int_equal(set.end_ns[3], set.end_ns[2] + MS + CONTENTION_BESIDE_NS);
}

/* Returns the time of a kernel of 1 ms of client 1 beside a longer kernel of the given client. */
static uint64_t beside_ns(unsigned client, unsigned priority)
{
    struct set set;
    set_init(&set);
    struct contention_launch other = launch_of(client, 0, 100 * MS, 300, 0);
    other.priority = (uint16_t)priority;
    struct contention_launch launch = launch_of(1, 1, MS, 300, 0);
    launch.priority = 1;
    set_add_shared(&set, other);
    set_run_until(&set, MS);
    set_add_shared(&set, launch);
    set_run(&set);
    return set.end_ns[1] - MS;
}

static void kernel_start_beside_others_is_delayed(void **state)
{
    (void)state;
    assert_int_equal(beside_ns(1, 1), MS);
    assert_int_equal(beside_ns(2, 2), MS);
    assert_int_equal(beside_ns(2, 1), MS + CONTENTION_BESIDE_NS);
    assert_int_equal(beside_ns(2, 0), MS + CONTENTION_BELOW_NS);
}

static void dram_is_divided_by_demand(void **state)
{
    (void)state;
    struct set set;
    set_init(&set);
    set_add_shared(&set, launch_of(1, 0, 8 * MS, 100, 1000));
    set_add_shared(&set, launch_of(2, 1, 8 * MS, 100, 600));
    set_add_shared(&set, launch_of(3, 2, 8 * MS, 100, 400));
    contention_plan(&set.device, set.kernels, set.count);
    assert_int_equal(set.kernels[0].dram_used, 500);
    assert_int_equal(set.kernels[1].dram_used, 300);
    assert_int_equal(set.kernels[2].dram_used, 200);
    assert_int_equal(set.kernels[0].rate, CONTENTION_RATE_ONE / 2);
}

static void shares_are_whole_pairs_of_sms(void **state)
{
    (void)state;
    assert_int_equal(contention_share_sms(SMS, 300), 38);
    assert_int_equal(contention_share_sms(SMS, 500), 66);
    assert_int_equal(contention_share_sms(SMS, 1000), 132);
    assert_int_equal(contention_share_sms(SMS, 1), 2);
    assert_int_equal(contention_share_sms(1, 1), 1);
    assert_int_equal(contention_share_permille(SMS, 500), 500);
    assert_int_equal(contention_share_permille(SMS, 300), 287);
}

static void share_bounds_client_across_streams(void **state)
{
    (void)state;
    struct set set;
    set_init(&set);
    for (unsigned i = 0; i < 2; i++) { /* two streams of one client */
        struct contention_launch launch = launch_of(1, i, 10 * MS, 400, 0);
        launch.share_permille = 500;
        set_add_shared(&set, launch);
    }
    set_add_shared(&set, launch_of(2, 2, 10 * MS, 500, 0));
    contention_plan(&set.device, set.kernels, set.count);
    assert_int_equal(set.kernels[0].sm_used, 400);
    assert_int_equal(set.kernels[1].sm_used, 100);
    assert_int_equal(set.kernels[2].sm_used, 500);
    set_run(&set);
    assert_int_equal(set.end_ns[2], 10 * MS + CONTENTION_BESIDE_NS);
}

/* Returns the time of a kernel of 1 ms on 40 % of the SMs that arrives behind a kernel of 100 ms on
 * all SMs. */
static uint64_t urgent_end_ns(unsigned priority, unsigned block_ns, uint64_t *ret_other_ns)
{
    struct set set;
    set_init(&set);
    struct contention_launch other = launch_of(1, 0, 100 * MS, 1000, 0);
    other.block_ns = block_ns;
    other.priority = 1;
    struct contention_launch urgent = launch_of(2, 1, MS, 400, 0);
    urgent.priority = (uint16_t)priority;
    set_add_shared(&set, other);
    set_run_until(&set, MS);
    set_add_shared(&set, urgent);
    set_run(&set);
    *ret_other_ns = set.end_ns[0];
    return set.end_ns[1] - MS;
}

static void urgent_kernel_preempts_between_blocks(void **state)
{
    (void)state;
    uint64_t other_ns;
    /* Without higher priority, the kernel waits for the whole long kernel. */
    assert_int_equal(urgent_end_ns(1, 50000, &other_ns), 100 * MS + CONTENTION_BESIDE_NS);
    assert_int_equal(other_ns, 100 * MS);
    /* Two fifths of the SMs become free in two fifths of a block. */
    uint64_t end_ns = urgent_end_ns(0, 50000, &other_ns);
    assert_in_range(end_ns, MS + 19990, MS + 20010);
    assert_in_range(other_ns, 100 * MS + 399000, 100 * MS + 401000);
    end_ns = urgent_end_ns(0, 10 * MS, &other_ns);
    assert_in_range(end_ns, 5 * MS - 10, 5 * MS + 10);
    /* Blocks as long as the kernel. */
    assert_true(urgent_end_ns(0, 0, &other_ns) >= 40 * MS);
}

static void priority_has_no_effect_across_parties(void **state)
{
    (void)state;
    struct set set;
    set_init(&set);
    struct contention_launch urgent = launch_of(2, 1, 4 * MS, 1000, 0);
    struct contention_launch other = launch_of(1, 0, 4 * MS, 1000, 0);
    other.priority = 5;
    set_add(&set, other);
    set_add(&set, urgent);
    set_run(&set);
    assert_int_equal(set.end_ns[0], 6 * MS + 2 * CONTENTION_SWITCH_NS);
    assert_int_equal(set.end_ns[1], 8 * MS + 3 * CONTENTION_SWITCH_NS);
}

static void two_parties_take_twice_as_long(void **state)
{
    (void)state;
    /* Both orders of arrival have the same ends, up to one slice. */
    for (unsigned first = 0; first < 2; first++) {
        struct set set;
        set_init(&set);
        for (unsigned i = 0; i < 2; i++)
            set_add(&set, launch_of(1 + (first ^ i), first ^ i, 100 * MS, 200, 0));
        assert_int_equal(set_run(&set), 200 * MS + 99 * CONTENTION_SWITCH_NS);
        assert_int_equal(set.end_ns[0], 198 * MS + 98 * CONTENTION_SWITCH_NS);
        assert_int_equal(set.end_ns[1], set.now_ns);
    }
}

static void party_kernels_overlap_within_turn(void **state)
{
    (void)state;
    struct set set;
    set_init(&set);
    set_add(&set, launch_of(1, 0, 10 * MS, 400, 0));
    struct contention_launch launch = launch_of(3, 1, 10 * MS - CONTENTION_BESIDE_NS, 400, 0);
    launch.party = 1;
    set_add(&set, launch);
    set_add(&set, launch_of(2, 2, 10 * MS, 400, 0));
    set_run(&set);
    assert_int_equal(set.now_ns, 20 * MS + set.switch_ns);
    assert_int_equal(set.end_ns[0], set.end_ns[1]);
}

static void kernel_on_idle_device_avoids_switch(void **state)
{
    (void)state;
    struct set set;
    set_init(&set);
    set_add(&set, launch_of(1, 0, MS, 1000, 0));
    set_run(&set);
    set_add(&set, launch_of(2, 1, MS, 1000, 0));
    set_run(&set);
    assert_int_equal(set.end_ns[1], 2 * MS);
}

static void party_without_work_yields_turn(void **state)
{
    (void)state;
    struct set set;
    set_init(&set);
    set_add(&set, launch_of(1, 0, MS / 2, 1000, 0));
    set_add(&set, launch_of(2, 1, 3 * MS, 1000, 0));
    assert_int_equal(set_run(&set), 3 * MS + MS / 2 + CONTENTION_SWITCH_NS);
    assert_int_equal(set.end_ns[0], MS / 2);
}

static struct contention_launch random_launch(struct rng *rng, unsigned client, unsigned tag)
{
    struct contention_launch launch =
        launch_of(client, tag, rng_below(rng, 20 * MS), (unsigned)rng_below(rng, 1001),
                  (unsigned)rng_below(rng, 1001));
    launch.block_ns = (uint32_t)rng_below(rng, 5 * MS);
    launch.priority = (uint16_t)rng_below(rng, 3);
    return launch;
}

/* As after an error that ends all clients in the middle of a turn. */
static void emptied_device_keeps_valid_slice(void **state)
{
    (void)state;
    struct set set;
    set_init(&set);
    set_add(&set, launch_of(0, 0, 50 * MS, 1000, 0));
    set_add(&set, launch_of(1, 1, 50 * MS, 1000, 0));
    assert_int_equal(contention_plan(&set.device, set.kernels, set.count), CONTENTION_SLICE_NS);
    contention_elapse(&set.device, set.kernels, set.count, MS);
    assert_true(contention_plan(&set.device, set.kernels, 0) == CONTENTION_NEVER);
    contention_elapse(&set.device, set.kernels, 0, 100 * MS);
    assert_true(set.device.slice_left_ns <= CONTENTION_SLICE_NS);
}

/* Conservation of work for random kernels: a device with one kernel per party is busy exactly for
 * the sum of the durations plus switches, and a shared device no longer than that. */
static void random_kernels_conserve_work(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 20261115);
    for (unsigned round = 0; round < 2000; round++) {
        unsigned count = 1 + (unsigned)rng_below(&rng, KERNELS_MAX);
        uint64_t sum_ns = 0, longest_ns = 0;
        struct set sliced, shared;
        set_init(&sliced);
        set_init(&shared);
        for (unsigned i = 0; i < count; i++) {
            struct contention_launch launch = random_launch(&rng, i * 3, i);
            set_add(&sliced, launch);
            set_add_shared(&shared, launch);
            sum_ns += launch.duration_ns;
            longest_ns = launch.duration_ns > longest_ns ? launch.duration_ns : longest_ns;
        }
        set_run(&sliced);
        assert_int_equal(sliced.now_ns, sum_ns + sliced.switch_ns);
        uint64_t shared_ns = set_run(&shared);
        assert_true(shared_ns >= longest_ns);
        /* Rates are rounded to 2^-20, which loses a little at every change. */
        assert_true(shared_ns <= sum_ns + sum_ns / 1000 + (3 + CONTENTION_BELOW_NS) * count);
    }
}

/* Kernels arrive at random times at a device with shares, priorities and several parties: the
 * capacity is checked at every step, all kernels end, and a second run gives the same times. */
static void random_arrivals_obey_limits_and_repeat(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 500; round++) {
        uint64_t end_ns[2][KERNELS_MAX];
        for (unsigned run = 0; run < 2; run++) {
            struct rng rng;
            struct set set;
            rng_seed(&rng, round);
            set_init(&set);
            uint16_t shares[4];
            for (unsigned i = 0; i < 4; i++)
                shares[i] = (uint16_t)(1 + rng_below(&rng, 1000));
            for (unsigned i = 0; i < KERNELS_MAX; i++) {
                struct contention_launch launch =
                    random_launch(&rng, (unsigned)rng_below(&rng, 4), i);
                launch.duration_ns /= 10;
                launch.share_permille = shares[launch.client];
                launch.party = launch.client / 2; /* two clients per party */
                set_add(&set, launch);
                set_run_until(&set, set.now_ns + rng_below(&rng, MS));
            }
            set_run(&set);
            memcpy(end_ns[run], set.end_ns, sizeof(set.end_ns));
        }
        assert_memory_equal(end_ns[0], end_ns[1], sizeof(end_ns[0]));
    }
}

static void equal_parties_end_within_one_slice(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 7);
    for (unsigned round = 0; round < 200; round++) {
        unsigned count = 2 + (unsigned)rng_below(&rng, 6);
        struct set set;
        set_init(&set);
        for (unsigned i = 0; i < count; i++)
            set_add(&set,
                    launch_of((i + round) % count, i, 40 * MS, (unsigned)rng_below(&rng, 1001), 0));
        uint64_t all_ns = set_run(&set);
        for (unsigned i = 0; i < count; i++)
            assert_true(all_ns - set.end_ns[i] <=
                        count * (CONTENTION_SLICE_NS + CONTENTION_SWITCH_NS));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernel_alone_takes_exact_duration),
        cmocka_unit_test(idle_device_never_changes),
        cmocka_unit_test(small_shared_kernels_overlap),
        cmocka_unit_test(full_kernel_starves_later_kernel),
        cmocka_unit_test(later_kernel_runs_on_remaining_sms),
        cmocka_unit_test(freed_sms_serve_longest_waiting_kernel),
        cmocka_unit_test(kernel_start_beside_others_is_delayed),
        cmocka_unit_test(dram_is_divided_by_demand),
        cmocka_unit_test(shares_are_whole_pairs_of_sms),
        cmocka_unit_test(share_bounds_client_across_streams),
        cmocka_unit_test(urgent_kernel_preempts_between_blocks),
        cmocka_unit_test(priority_has_no_effect_across_parties),
        cmocka_unit_test(two_parties_take_twice_as_long),
        cmocka_unit_test(party_kernels_overlap_within_turn),
        cmocka_unit_test(kernel_on_idle_device_avoids_switch),
        cmocka_unit_test(party_without_work_yields_turn),
        cmocka_unit_test(emptied_device_keeps_valid_slice),
        cmocka_unit_test(random_kernels_conserve_work),
        cmocka_unit_test(random_arrivals_obey_limits_and_repeat),
        cmocka_unit_test(equal_parties_end_within_one_slice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
