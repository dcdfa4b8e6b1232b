/* Tests of nodes where starts fail. */
#include "cluster/cluster_fixture.h"

enum { MINUTE_MS = 60 * 1000, STEP_MS = 20 * 1000 };

static void fail_start(struct fixture *f, const char *node, uint64_t session, uint64_t id,
                       int attempt)
{
    struct attempt_report r = {.workload = id,
                               .attempt = attempt,
                               .phase = ATTEMPT_EXITED,
                               .failure = FAILURE_START,
                               .never_ran = true,
                               .text = "no such directory"};
    report_full(f, node, session, &r);
}

static const char *node_of(const struct fixture *f, uint64_t id)
{
    const struct workload_status *status = cluster_live_status(f->cluster, id);
    assert_non_null(status);
    return status->state == WORKLOAD_QUEUED ? "" : status->attempts[status->attempts_kept - 1].node;
}

static uint64_t submit_whole(struct fixture *f)
{
    struct workload_needs needs = task_needs();
    needs.quota_bytes = 0;
    return submit(f, &needs);
}

/* Advances the clock while both nodes stay connected. */
static void pass(struct fixture *f, const uint64_t sessions[2], int64_t ms)
{
    for (; ms > 0; ms -= STEP_MS) {
        tick_after(f, STEP_MS);
        beat(f, "a", sessions[0]);
        beat(f, "b", sessions[1]);
    }
}

static void failed_start_is_retried_elsewhere_uncounted(void **state)
{
    (void)state;
    for (size_t p = 0; policy_at(p); p++) {
        struct fixture f;
        fixture_open(&f);
        fixture_close(&f);
        f.config.policy = policy_at(p);
        cluster_actions_init(&f.actions);
        assert_int_equal(cluster_new(&f.config, &f.cluster), 0);
        cluster_load_done(f.cluster, 0, f.now);
        uint64_t sessions[2] = {hello(&f, "a"), hello(&f, "b")};
        uint64_t id = submit_whole(&f); /* without retries */
        bool first_is_a = strcmp(node_of(&f, id), "a") == 0;
        const char *first = first_is_a ? "a" : "b", *second = first_is_a ? "b" : "a";
        fail_start(&f, first, sessions[!first_is_a], id, 1);
        assert_string_equal(node_of(&f, id), second);
        assert_int_equal(cluster_live_status(f.cluster, id)->failures, 0);
        fail_start(&f, second, sessions[first_is_a], id, 2); /* no other node is left */
        assert_true(logged(&f, "failed"));
        fixture_close(&f);
    }
}

/* A command that does not exist fails on every node. */
static void workload_failing_everywhere_holds_no_node(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t sessions[2] = {hello(&f, "a"), hello(&f, "b")};
    for (int i = 0; i < 10; i++) {
        uint64_t id = submit_whole(&f);
        bool is_on_a = strcmp(node_of(&f, id), "a") == 0;
        fail_start(&f, is_on_a ? "a" : "b", sessions[!is_on_a], id, 1);
        if (cluster_live_status(f.cluster, id))
            fail_start(&f, is_on_a ? "b" : "a", sessions[is_on_a], id, 2);
        assert_null(cluster_live_status(f.cluster, id));
        assert_false(cluster_node_held(f.cluster, "a") || cluster_node_held(f.cluster, "b"));
    }
    fixture_close(&f);
}

/* Submits `count` workloads whose starts fail on a and succeed on b. The last one is left
 * running. */
static uint64_t hold_a(struct fixture *f, const uint64_t sessions[2], int count)
{
    uint64_t id = 0;
    for (int i = 0; i < count; i++) {
        assert_false(cluster_node_held(f->cluster, "a"));
        if (id)
            report(f, "b", sessions[1], id, 2, ATTEMPT_EXITED);
        id = submit_whole(f);
        assert_string_equal(node_of(f, id), "a");
        fail_start(f, "a", sessions[0], id, 1);
        assert_string_equal(node_of(f, id), "b");
        report(f, "b", sessions[1], id, 2, ATTEMPT_RUNNING);
    }
    assert_true(cluster_node_held(f->cluster, "a"));
    assert_true(logged(f, "node_held"));
    return id;
}

static void node_with_failing_starts_is_held(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t sessions[2] = {hello(&f, "a"), hello(&f, "b")};
    uint64_t runs = hold_a(&f, sessions, 3);
    uint64_t waits = submit_whole(&f);
    assert_string_equal(node_of(&f, waits), "");
    assert_non_null(strstr(cluster_live_status(f.cluster, waits)->text, "held"));
    pass(&f, sessions, MINUTE_MS);
    assert_false(cluster_node_held(f.cluster, "a"));
    assert_string_equal(node_of(&f, waits), "a"); /* the node gets another chance */
    fail_start(&f, "a", sessions[0], waits, 1);
    assert_string_equal(node_of(&f, waits), "");
    assert_non_null(
        strstr(cluster_live_status(f.cluster, waits)->text, "on nodes where a start failed"));
    report(&f, "b", sessions[1], runs, 2, ATTEMPT_EXITED);
    report(&f, "b", sessions[1], waits, 2, ATTEMPT_RUNNING);
    assert_true(cluster_node_held(f.cluster, "a")); /* doubled time */
    pass(&f, sessions, MINUTE_MS);
    assert_true(cluster_node_held(f.cluster, "a"));
    pass(&f, sessions, MINUTE_MS);
    assert_false(cluster_node_held(f.cluster, "a"));
    fixture_close(&f);
}

static void released_node_forgets_failed_starts(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t sessions[2] = {hello(&f, "a"), hello(&f, "b")};
    uint64_t runs = hold_a(&f, sessions, 3);
    assert_int_equal(drain(&f, "a", false)->result, 0); /* an operator fixed the node */
    assert_true(logged(&f, "node_released"));
    assert_false(cluster_node_held(f.cluster, "a"));
    uint64_t works = submit_whole(&f);
    assert_string_equal(node_of(&f, works), "a");
    report(&f, "a", sessions[0], works, 1, ATTEMPT_EXITED);
    report(&f, "b", sessions[1], runs, 2, ATTEMPT_EXITED);
    (void)hold_a(&f, sessions, 3); /* the strikes count from zero */
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failed_start_is_retried_elsewhere_uncounted),
        cmocka_unit_test(workload_failing_everywhere_holds_no_node),
        cmocka_unit_test(node_with_failing_starts_is_held),
        cmocka_unit_test(released_node_forgets_failed_starts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
