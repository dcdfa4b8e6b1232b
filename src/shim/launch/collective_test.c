#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdint.h>
#include <stdlib.h>

#include "shim/launch/collective.h"

static void collective_kernels_match_by_name(void **state)
{
    (void)state;
    assert_true(collective_matches("ncclDevKernel_AllReduce_Sum_f32_RING_LL", NULL));
    assert_true(
        collective_matches("_Z40ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgs", NULL));
    assert_true(collective_matches("nvshmemi_proxy", NULL));
    assert_false(collective_matches("gemm_nccl", NULL));
    assert_false(collective_matches("_Z4gemmPfS_", NULL));
    assert_false(collective_matches("", NULL));
    assert_true(collective_matches("my_all_reduce_f16", "other,my_*reduce*"));
    assert_true(collective_matches("other", "other,my_*reduce*"));
    assert_false(collective_matches("others", "other,my_*reduce*"));
    assert_false(collective_matches("my_all", "other,my_*reduce*"));
    assert_true(collective_matches("a*b", "a*b"));
    assert_false(collective_matches("x", ",,"));
    assert_true(collective_matches("_Z3abcv", "_Z*v"));
}

static const void *handle(uint64_t number)
{
    return (const void *)(uintptr_t)(number * 64);
}

static void collective_table_tracks_kernel_handles(void **state)
{
    struct collectives *collectives = calloc(1, sizeof(*collectives));
    (void)state;
    assert_non_null(collectives);
    assert_false(collective_has(collectives, handle(1)));
    assert_true(collective_note(collectives, handle(1), "ncclA"));
    /* The handle is known already. */
    assert_false(collective_note(collectives, handle(1), "ncclA"));
    assert_false(collective_note(collectives, handle(2), "gemm"));
    assert_false(collective_note(collectives, NULL, "ncclA"));
    assert_true(collective_has(collectives, handle(1)));
    assert_false(collective_has(collectives, handle(2)));
    collective_note_same(collectives, handle(3), handle(1));
    assert_true(collective_has(collectives, handle(3)));
    /* The driver reuses handles. */
    collective_note(collectives, handle(1), "gemm");
    assert_false(collective_has(collectives, handle(1)));
    assert_true(collective_has(collectives, handle(3)));
    collective_note_same(collectives, handle(3), handle(2));
    assert_false(collective_has(collectives, handle(3)));
    /* More handles than the table has room for: those that have a place keep it. */
    for (uint64_t i = 10; i < 10 + 2 * COLLECTIVE_HANDLES_MAX; i++)
        collective_note(collectives, handle(i), "ncclB");
    assert_true(collective_has(collectives, handle(10)));
    assert_false(collective_has(collectives, handle(9 + 2 * COLLECTIVE_HANDLES_MAX)));
    free(collectives);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collective_kernels_match_by_name),
        cmocka_unit_test(collective_table_tracks_kernel_handles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
