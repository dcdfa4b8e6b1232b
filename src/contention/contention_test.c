#include "contention/contention.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/rng.h"

enum { KERNELS_MAX = 32 };

/* Runs the kernels, all there from the start, to their ends; ret_end_ns[tag] is when each ended. */
static uint64_t run_to_end(struct contention_device *device, struct contention_kernel *kernels,
                           size_t count, uint64_t ret_end_ns[])
{
    uint64_t now_ns = 0;
    while (count > 0) {
        uint64_t ns = contention_plan(device, kernels, count);
        assert_true(ns != CONTENTION_NEVER);
        unsigned sm_used = 0, dram_used = 0;
        for (size_t i = 0; i < count; i++) {
            sm_used += kernels[i].sm_used;
            dram_used += kernels[i].dram_used;
            assert_true(kernels[i].rate <= CONTENTION_RATE_ONE);
        }
        assert_true(sm_used <= CONTENTION_FULL_PERMILLE);
        assert_true(dram_used <= CONTENTION_FULL_PERMILLE);
        contention_elapse(device, kernels, count, ns);
        now_ns += ns;
        size_t kept = 0;
        for (size_t i = 0; i < count; i++) {
            if (kernels[i].work == 0)
                ret_end_ns[kernels[i].tag] = now_ns;
            else
                kernels[kept++] = kernels[i];
        }
        count = kept;
    }
    return now_ns;
}

static void alone_a_kernel_takes_its_duration_exactly(void **state)
{
    (void)state;
    const uint64_t durations_ns[] = {0, 1, 3000000, 123456789, CONTENTION_DURATION_NS_MAX};
    const enum contention_mode modes[] = {CONTENTION_TIME_SLICED, CONTENTION_SHARED};
    for (size_t m = 0; m < 2; m++) {
        for (size_t i = 0; i < sizeof(durations_ns) / sizeof(*durations_ns); i++) {
            struct contention_device device;
            struct contention_kernel kernel;
            uint64_t end_ns[1];
            contention_init(&device, modes[m]);
            contention_kernel_init(&kernel, 7, 0, durations_ns[i], 1000, 1000);
            run_to_end(&device, &kernel, 1, end_ns);
            assert_int_equal(end_ns[0], durations_ns[i]);
        }
    }
}

static void nothing_to_run_never_changes(void **state)
{
    (void)state;
    struct contention_device device;
    contention_init(&device, CONTENTION_SHARED);
    assert_true(contention_plan(&device, NULL, 0) == CONTENTION_NEVER);
}

static void small_kernels_overlap_when_shared(void **state)
{
    (void)state;
    struct contention_device device;
    struct contention_kernel kernels[3];
    uint64_t end_ns[3];
    contention_init(&device, CONTENTION_SHARED);
    for (unsigned i = 0; i < 3; i++)
        contention_kernel_init(&kernels[i], i, i, 5000000 + i, 300, 200);
    run_to_end(&device, kernels, 3, end_ns);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(end_ns[i], 5000000 + i);
}

static void a_full_kernel_starves_the_later_one(void **state)
{
    (void)state;
    struct contention_device device;
    struct contention_kernel kernels[2];
    uint64_t end_ns[2];
    contention_init(&device, CONTENTION_SHARED);
    contention_kernel_init(&kernels[0], 1, 0, 70000000, 1000, 50);
    contention_kernel_init(&kernels[1], 2, 1, 1000000, 300, 50);
    run_to_end(&device, kernels, 2, end_ns);
    assert_int_equal(end_ns[0], 70000000);
    assert_int_equal(end_ns[1], 71000000);
}

static void what_is_left_of_the_sms_slows_the_later_one(void **state)
{
    (void)state;
    struct contention_device device;
    struct contention_kernel kernels[2];
    uint64_t end_ns[2];
    contention_init(&device, CONTENTION_SHARED);
    contention_kernel_init(&kernels[0], 1, 0, 100000000, 750, 0);
    contention_kernel_init(&kernels[1], 2, 1, 10000000, 500, 0);
    run_to_end(&device, kernels, 2, end_ns);
    assert_int_equal(end_ns[0], 100000000);
    assert_int_equal(end_ns[1], 20000000);
}

static void dram_is_divided_by_demand(void **state)
{
    (void)state;
    struct contention_device device;
    struct contention_kernel kernels[3];
    contention_init(&device, CONTENTION_SHARED);
    contention_kernel_init(&kernels[0], 1, 0, 8000000, 100, 1000);
    contention_kernel_init(&kernels[1], 2, 1, 8000000, 100, 600);
    contention_kernel_init(&kernels[2], 3, 2, 8000000, 100, 400);
    contention_plan(&device, kernels, 3);
    assert_int_equal(kernels[0].dram_used, 500);
    assert_int_equal(kernels[1].dram_used, 300);
    assert_int_equal(kernels[2].dram_used, 200);
    assert_int_equal(kernels[0].rate, CONTENTION_RATE_ONE / 2);
}

static void time_sliced_clients_each_take_twice_as_long(void **state)
{
    (void)state;
    /* Both orders of arrival: the same ends up to one slice. */
    for (unsigned first = 0; first < 2; first++) {
        struct contention_device device;
        struct contention_kernel kernels[2];
        uint64_t end_ns[2];
        contention_init(&device, CONTENTION_TIME_SLICED);
        contention_kernel_init(&kernels[first], 1, 0, 100000000, 200, 0);
        contention_kernel_init(&kernels[1 - first], 2, 1, 100000000, 200, 0);
        uint64_t all_ns = run_to_end(&device, kernels, 2, end_ns);
        assert_int_equal(all_ns, 200000000);
        assert_int_equal(end_ns[0], 198000000);
        assert_int_equal(end_ns[1], 200000000);
    }
}

static void streams_of_one_client_overlap_within_its_turn(void **state)
{
    (void)state;
    struct contention_device device;
    struct contention_kernel kernels[3];
    uint64_t end_ns[3];
    contention_init(&device, CONTENTION_TIME_SLICED);
    contention_kernel_init(&kernels[0], 1, 0, 10000000, 400, 0);
    contention_kernel_init(&kernels[1], 1, 1, 10000000, 400, 0);
    contention_kernel_init(&kernels[2], 2, 2, 10000000, 400, 0);
    assert_int_equal(run_to_end(&device, kernels, 3, end_ns), 20000000);
    assert_int_equal(end_ns[0], end_ns[1]);
}

static void a_client_without_work_gives_its_turn_away(void **state)
{
    (void)state;
    struct contention_device device;
    struct contention_kernel kernels[2];
    uint64_t end_ns[2];
    contention_init(&device, CONTENTION_TIME_SLICED);
    contention_kernel_init(&kernels[0], 1, 0, 500000, 1000, 0);
    contention_kernel_init(&kernels[1], 2, 1, 3000000, 1000, 0);
    assert_int_equal(run_to_end(&device, kernels, 2, end_ns), 3500000);
    assert_int_equal(end_ns[0], 500000);
}

/* No time is lost and none is made up: whatever the kernels are, a time-sliced device with one
 * kernel a client is busy exactly as long as the durations add up to, and a shared one no longer.
 */
static void work_is_conserved_for_random_kernels(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 20261115);
    for (unsigned round = 0; round < 2000; round++) {
        size_t count = 1 + rng_below(&rng, KERNELS_MAX);
        struct contention_kernel kernels[KERNELS_MAX], copy[KERNELS_MAX];
        uint64_t end_ns[KERNELS_MAX], sum_ns = 0, longest_ns = 0;
        for (unsigned i = 0; i < count; i++) {
            uint64_t duration_ns = rng_below(&rng, 20000000);
            contention_kernel_init(&kernels[i], i * 3, i, duration_ns,
                                   (unsigned)rng_below(&rng, 1001),
                                   (unsigned)rng_below(&rng, 1001));
            copy[i] = kernels[i];
            sum_ns += duration_ns;
            longest_ns = duration_ns > longest_ns ? duration_ns : longest_ns;
        }
        struct contention_device device;
        contention_init(&device, CONTENTION_TIME_SLICED);
        assert_int_equal(run_to_end(&device, kernels, count, end_ns), sum_ns);

        contention_init(&device, CONTENTION_SHARED);
        uint64_t shared_ns = run_to_end(&device, copy, count, end_ns);
        assert_true(shared_ns >= longest_ns);
        /* Rates are cut to 2^-20: a little is lost at every change. */
        assert_true(shared_ns <= sum_ns + sum_ns / 1000 + count);
    }
}

static void equal_clients_end_within_a_slice_of_each_other(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 7);
    for (unsigned round = 0; round < 200; round++) {
        unsigned count = 2 + (unsigned)rng_below(&rng, 6);
        struct contention_kernel kernels[8];
        uint64_t end_ns[8];
        for (unsigned i = 0; i < count; i++)
            contention_kernel_init(&kernels[i], (i + round) % count, i, 40000000,
                                   (unsigned)rng_below(&rng, 1001), 0);
        struct contention_device device;
        contention_init(&device, CONTENTION_TIME_SLICED);
        uint64_t all_ns = run_to_end(&device, kernels, count, end_ns);
        for (unsigned i = 0; i < count; i++)
            assert_true(all_ns - end_ns[i] <= count * CONTENTION_SLICE_NS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_a_kernel_takes_its_duration_exactly),
        cmocka_unit_test(nothing_to_run_never_changes),
        cmocka_unit_test(small_kernels_overlap_when_shared),
        cmocka_unit_test(a_full_kernel_starves_the_later_one),
        cmocka_unit_test(what_is_left_of_the_sms_slows_the_later_one),
        cmocka_unit_test(dram_is_divided_by_demand),
        cmocka_unit_test(time_sliced_clients_each_take_twice_as_long),
        cmocka_unit_test(streams_of_one_client_overlap_within_its_turn),
        cmocka_unit_test(a_client_without_work_gives_its_turn_away),
        cmocka_unit_test(work_is_conserved_for_random_kernels),
        cmocka_unit_test(equal_clients_end_within_a_slice_of_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
