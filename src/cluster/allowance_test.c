#include "cluster/cluster_fixture.h"

enum { NONE, ALICE, STUDENTS, HALF, WHOLE, ALLOWANCES };

static const struct cluster_allowance allowances[] = {
    {.name = "alice", .guaranteed_ppm = 1000000, .most_ppm = 2000000},
    {.name = "@students", .guaranteed_ppm = 0, .most_ppm = 500000},
    {.name = "half", .guaranteed_ppm = 500000, .most_ppm = 500000},
    {.name = "whole", .guaranteed_ppm = 1000000, .most_ppm = 1000000},
};

static void open_with(struct fixture *f, const char *policy)
{
    *f = (struct fixture){0};
    cluster_config_default(&f->config);
    f->config.policy = policy_find(policy);
    f->config.allowances = allowances;
    f->config.allowance_count = ALLOWANCES - 1;
    f->now = (struct clock_now){.wall_ms = 1700000000000, .boot_ms = 5000};
    cluster_actions_init(&f->actions);
    assert_int_equal(cluster_new(&f->config, &f->cluster), 0);
    cluster_load_done(f->cluster, 0, f->now);
}

/* quota_bytes: of the 100 bytes of a device; 0: the whole device. */
static uint64_t submit_as(struct fixture *f, uint32_t allowance, uint64_t quota_bytes, int priority)
{
    struct workload_needs needs = task_needs();
    struct cluster_submission item = {
        .name = "w", .needs = &needs, .allowance = allowance, .known = {.checkpoints = true}};
    needs.quota_bytes = quota_bytes;
    needs.priority = priority;
    const struct cluster_action *reply = submit_all(f, &item, 1, NULL);
    assert_int_equal(reply->result, 0);
    return reply->first;
}

static void end(struct fixture *f, uint64_t session, uint64_t id)
{
    struct attempt_report r = {.workload = id, .attempt = 1, .phase = ATTEMPT_EXITED};
    report_full(f, "a", session, &r);
}

static void unused_guarantee_outranks_priority(void **state)
{
    (void)state;
    for (size_t p = 0; policy_at(p); p++) {
        struct fixture f;
        open_with(&f, policy_at(p)->name);
        uint64_t session = hello(&f, "a");
        uint64_t running = submit_as(&f, NONE, 0, 0), other = submit_as(&f, NONE, 0, 900);
        uint64_t alice = submit_as(&f, ALICE, 0, 0), again = submit_as(&f, ALICE, 0, 0);
        end(&f, session, running);
        assert_int_equal(state_of(&f, alice), WORKLOAD_PLACED);
        end(&f, session, alice);
        assert_int_equal(state_of(&f, again), WORKLOAD_PLACED); /* alice uses nothing now */
        end(&f, session, again);
        assert_int_equal(state_of(&f, other), WORKLOAD_PLACED);
        fixture_close(&f);
    }
}

static void workload_beyond_allowance_waits(void **state)
{
    (void)state;
    for (size_t p = 0; policy_at(p); p++) {
        struct fixture f;
        open_with(&f, policy_at(p)->name);
        uint64_t session = hello(&f, "a"), ids[3];
        ids[0] = submit_as(&f, STUDENTS, 30, 0);
        ids[1] = submit_as(&f, STUDENTS, 30, 0);
        assert_int_equal(state_of(&f, ids[0]), WORKLOAD_PLACED);
        assert_int_equal(state_of(&f, ids[1]), WORKLOAD_QUEUED);
        assert_non_null(
            strstr(cluster_live_status(f.cluster, ids[1])->text, "the allowance of @students"));
        end(&f, session, ids[0]);
        assert_int_equal(state_of(&f, ids[1]), WORKLOAD_PLACED);
        fixture_close(&f);
    }
}

/* A borrower is stopped only for a workload within its guarantee. */
static void guarantee_claim_preempts_one_borrower(void **state)
{
    struct fixture f;
    (void)state;
    open_with(&f, "firstfit");
    uint64_t session = hello(&f, "a");
    uint64_t borrower = submit_as(&f, NONE, 60, 0), other = submit_as(&f, NONE, 30, 0);
    report(&f, "a", session, borrower, 1, ATTEMPT_RUNNING);
    report(&f, "a", session, other, 1, ATTEMPT_RUNNING);
    uint64_t more = submit_as(&f, NONE, 50, 0);
    assert_null(
        find(&f, CLUSTER_SEND_STOP)); /* no guarantee, so no precedence over other borrowers */
    uint64_t alice = submit_as(&f, ALICE, 50, 0);
    const struct cluster_action *stop = find(&f, CLUSTER_SEND_STOP);
    assert_non_null(stop); /* the end of `other` would not make enough room */
    assert_int_equal(stop->workload, borrower);
    assert_int_equal(count_of(&f, CLUSTER_SEND_STOP), 1);
    end(&f, session, borrower);
    assert_int_equal(state_of(&f, alice), WORKLOAD_PLACED);
    assert_int_equal(state_of(&f, borrower), WORKLOAD_QUEUED);
    assert_int_equal(state_of(&f, more), WORKLOAD_QUEUED);
    assert_int_equal(state_of(&f, other), WORKLOAD_RUNNING);
    fixture_close(&f);
}

static void hello_with_memory(struct fixture *f, uint64_t bytes)
{
    struct node_info info = node_info("a", "i", 1);
    struct cluster_event event = {.kind = CLUSTER_NODE_HELLO};
    info.devices[0].memory_bytes = bytes;
    event.hello.info = &info;
    step(f, &event);
}

static void assert_all_placed(uint32_t allowance, uint64_t memory_bytes, uint64_t quota_bytes,
                              int count)
{
    struct fixture f;
    open_with(&f, "firstfit");
    hello_with_memory(&f, memory_bytes);
    for (int i = 0; i < count; i++)
        assert_int_equal(state_of(&f, submit_as(&f, allowance, quota_bytes, 0)), WORKLOAD_PLACED);
    assert_int_equal(state_of(&f, submit_as(&f, allowance, quota_bytes, 0)), WORKLOAD_QUEUED);
    fixture_close(&f);
}

static void device_parts_fill_allowance_exactly(void **state)
{
    const uint64_t gib = UINT64_C(1) << 30;
    (void)state;
    assert_all_placed(HALF, 24 * gib, 12 * gib, 1);
    assert_all_placed(WHOLE, 24 * gib, 12 * gib, 2);
    assert_all_placed(WHOLE, 24 * gib, 8 * gib, 3);
    assert_all_placed(HALF, 7 * gib, gib, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unused_guarantee_outranks_priority),
        cmocka_unit_test(workload_beyond_allowance_waits),
        cmocka_unit_test(guarantee_claim_preempts_one_borrower),
        cmocka_unit_test(device_parts_fill_allowance_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
