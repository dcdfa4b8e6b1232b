/* Tests of the quota between threads that stand for processes: each has a slot of its own in one
 * ledger. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>

#include "shim/life/devices.h"
#include "shim/memory/quota.h"

enum { PROCESSES = 8, ROUNDS = 20000, QUOTA = 1000, LARGEST = 400 };

static struct limits_page limits;
static struct ledger_page ledger;
static struct status_page statuses[PROCESSES];
static _Atomic uint64_t granted, granted_most;

static struct client client_of(uint32_t slot)
{
    return (struct client){
        .limits = &limits, .ledger = &ledger, .status = &statuses[slot], .slot = slot};
}

static int reset(void **state)
{
    (void)state;
    limits = (struct limits_page){.slot_count = PROCESSES};
    ledger = (struct ledger_page){0};
    for (int i = 0; i < PROCESSES; i++)
        statuses[i] = (struct status_page){0};
    limits.devices[0].quota_bytes = QUOTA;
    granted = granted_most = 0;
    return 0;
}

static void process_beyond_quota_is_refused(void **state)
{
    struct client client = client_of(0);
    (void)state;
    assert_true(quota_reserve(&client, 0, 600));
    assert_false(quota_reserve(&client, 0, 401));
    assert_int_equal(quota_held(&client, 0), 600);
    assert_true(quota_reserve(&client, 0, 400));
    assert_false(quota_reserve(&client, 0, 1));
    quota_release(&client, 0, 1000);
    assert_int_equal(quota_held(&client, 0), 0);
    quota_release(&client, 0, 5);
    assert_int_equal(quota_held(&client, 0), 0);
    assert_false(quota_reserve(&client, 0, UINT64_MAX));
    assert_int_equal(quota_held(&client, 0), 0);
    assert_int_equal(statuses[0].counters[STATUS_held_peak], 1000);
}

static void quota_counts_all_processes(void **state)
{
    struct client a = client_of(0), b = client_of(7);
    (void)state;
    assert_true(quota_reserve(&a, 0, 600));
    assert_false(quota_reserve(&b, 0, 500));
    assert_true(quota_reserve(&b, 0, 400));
    quota_release(&a, 0, 600);
    limits.overhead_bytes[0][3] = 550;
    assert_false(quota_reserve(&a, 0, 51));
    assert_true(quota_reserve(&a, 0, 50));
}

static void corrupt_ledger_grants_nothing(void **state)
{
    struct client client = client_of(0);
    (void)state;
    ledger.held_bytes[0][1] = UINT64_MAX;
    ledger.held_bytes[0][2] = UINT64_MAX;
    assert_false(quota_reserve(&client, 0, 1));
    assert_int_equal(ledger.held_bytes[0][0], 0);
    limits.slot_count = UINT32_MAX;
    assert_false(quota_reserve(&client, 0, 1));
}

static void quota_depends_on_device(void **state)
{
    struct client client = client_of(0);
    (void)state;
    assert_true(quota_reserve(&client, 1, UINT64_C(1) << 40)); /* no limit there */
    assert_false(quota_reserve(&client, 1, UINT64_MAX));
    assert_true(quota_reserve(&client, DEVICES_UNKNOWN, 1));
    limits.device_count = 2;
    assert_false(quota_reserve(&client, DEVICES_UNKNOWN, 1));
    assert_int_equal(quota_limit(&client, DEVICES_UNKNOWN), 0);
}

static void contexts_beyond_quota_are_refused(void **state)
{
    struct client a = client_of(0), b = client_of(1);
    (void)state;
    limits.devices[0].context_bytes = 600;
    assert_true(quota_begin_context(&a, 0));
    assert_int_equal(quota_held(&b, 0), 600); /* the reservation, before the context is made */
    assert_false(quota_begin_context(&b, 0));
    assert_int_equal(quota_held(&a, 0), 600);
    quota_end_context(&a, 0, true);
    assert_int_equal(quota_held_by_process(&a, 0), 600);
    assert_int_equal(quota_held_by_process(&b, 0), 0);
    assert_false(quota_reserve(&b, 0, 401));
    /* The agent's measurement counts instead of the assumed size. */
    limits.overhead_bytes[0][0] = 450;
    limits.measured_ms[0][0] =
        ledger.context_ms[0][0]; /* at the same time, the context may have been half made */
    assert_int_equal(quota_held(&a, 0), 1050);
    limits.measured_ms[0][0] = ledger.context_ms[0][0] + 1;
    assert_int_equal(quota_held(&a, 0), 450);
    /* A second context that fails leaves the numbers as they were. */
    limits.devices[0].context_bytes = 500;
    assert_true(quota_begin_context(&a, 0));
    assert_int_equal(quota_held(&a, 0), 950);
    quota_end_context(&a, 0, false);
    assert_int_equal(quota_held(&a, 0), 450);
    assert_true(quota_begin_context(&a, 0));
    quota_end_context(&a, 0, true);
    quota_forget_context(&a, 0);
    quota_forget_context(&a, 0);
    assert_int_equal(quota_held(&a, 0), 450);
    limits.devices[0].context_bytes = 0;
    assert_false(quota_begin_context(&b, 0)); /* 600 MiB, the default */
    limits.devices[0].quota_bytes = LIMITS_CONTEXT_BYTES + 450;
    assert_true(quota_begin_context(&b, 0));
}

static void forced_memory_counts_against_quota(void **state)
{
    struct client client = client_of(0);
    struct quota_view view;
    (void)state;
    quota_force(&client, 0, QUOTA + 500);
    view = quota_view(&client, 0);
    assert_true(view.limit == QUOTA && view.held == QUOTA + 500 && view.left == 0);
    assert_false(quota_reserve(&client, 0, 1));
    quota_release(&client, 0, QUOTA);
    assert_int_equal(quota_view(&client, 0).left, QUOTA - 500);
    view = quota_view(&client, 1); /* no limit there */
    assert_true(view.limit == 0 && view.held == 0 && view.left == 0);
    assert_int_equal(quota_charged(1), 4096);
    assert_int_equal(quota_charged(4096), 4096);
    assert_int_equal(quota_charged(1 << 20), 2 << 20);
    assert_int_equal(quota_charged((2 << 20) + 1), 4 << 20);
    assert_true(quota_charged(UINT64_MAX) > UINT64_MAX - (2 << 20));
}

static void *race(void *argument)
{
    struct client client = client_of((uint32_t)(uintptr_t)argument);
    unsigned seed = client.slot + 1;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t bytes = 1 + (unsigned)rand_r(&seed) % LARGEST;
        if (!quota_reserve(&client, 0, bytes))
            continue;
        uint64_t now = atomic_fetch_add(&granted, bytes) + bytes;
        uint64_t most = atomic_load(&granted_most);
        while (now > most && !atomic_compare_exchange_weak(&granted_most, &most, now)) {
        }
        atomic_fetch_sub(&granted, bytes);
        quota_release(&client, 0, bytes);
    }
    return NULL;
}

static void races_never_exceed_quota(void **state)
{
    pthread_t threads[PROCESSES];
    (void)state;
    for (uintptr_t i = 0; i < PROCESSES; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, race, (void *)i), 0);
    for (int i = 0; i < PROCESSES; i++)
        pthread_join(threads[i], NULL);
    assert_in_range(granted_most, LARGEST, QUOTA);
    struct client client = client_of(0);
    assert_int_equal(quota_held(&client, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(process_beyond_quota_is_refused, reset),
        cmocka_unit_test_setup(quota_counts_all_processes, reset),
        cmocka_unit_test_setup(corrupt_ledger_grants_nothing, reset),
        cmocka_unit_test_setup(quota_depends_on_device, reset),
        cmocka_unit_test_setup(contexts_beyond_quota_are_refused, reset),
        cmocka_unit_test_setup(forced_memory_counts_against_quota, reset),
        cmocka_unit_test_setup(races_never_exceed_quota, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
