#include "cluster/cluster_fixture.h"

/* ---- nodes ---- */

static void drained_node_takes_no_new_tasks(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    assert_int_equal(drain(&f, "a", true)->result, -ERR_NOT_FOUND);
    hello(&f, "a");
    uint64_t running = submit_task(&f);
    assert_int_equal(drain(&f, "a", true)->result, 0);
    assert_true(find(&f, CLUSTER_STORE_NODE)->drained);
    uint64_t waiting = submit_task(&f);
    assert_int_equal(state_of(&f, running), WORKLOAD_PLACED);
    assert_int_equal(state_of(&f, waiting), WORKLOAD_QUEUED);
    drain(&f, "a", true);
    assert_null(find(&f, CLUSTER_STORE_NODE)); /* nothing changed */
    drain(&f, "a", false);
    assert_int_equal(state_of(&f, waiting), WORKLOAD_PLACED);
    fixture_close(&f);
}

static void unconfirmed_grants_are_repeated(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    uint64_t id = submit_task(&f);
    uint64_t sequence = find(&f, CLUSTER_SEND_GRANT)->sequence;
    tick_after(&f, f.config.resend_ms);
    assert_non_null(find(&f, CLUSTER_SEND_GRANT));
    assert_true(find(&f, CLUSTER_SEND_GRANT)->sequence > sequence);
    report(&f, "a", session, id, 1, ATTEMPT_ACCEPTED);
    assert_int_equal(state_of(&f, id), WORKLOAD_PLACED);
    tick_after(&f, f.config.resend_ms * 2);
    assert_null(find(&f, CLUSTER_SEND_GRANT));
    fixture_close(&f);
}

static void messages_of_stale_session_change_nothing(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t old = hello(&f, "a");
    uint64_t id = submit_task(&f);
    uint64_t session = hello(&f, "a");
    assert_true(session > old);
    assert_non_null(find(
        &f, CLUSTER_SEND_GRANT)); /* the hello did not list the attempt, so the grant is repeated */
    report(&f, "a", old, id, 1, ATTEMPT_EXITED);
    assert_int_equal(find(&f, CLUSTER_REPLY)->result, -ERR_CONFLICT);
    assert_int_equal(state_of(&f, id), WORKLOAD_PLACED);
    gone(&f, "a", old);
    assert_true(cluster_node_connected(f.cluster, "a"));
    beat(&f, "a", session);
    assert_int_equal(find(&f, CLUSTER_SEND_BEAT)->beat, 7);
    gone(&f, "a", session);
    assert_false(cluster_node_connected(f.cluster, "a"));
    beat(&f, "a", session);
    assert_null(find(&f, CLUSTER_SEND_BEAT));
    fixture_close(&f);
}

static void hello_reconciles_attempts(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    uint64_t running = submit_task(&f), forgotten = submit_task(&f);
    report(&f, "a", session, forgotten, 1, ATTEMPT_RUNNING);
    gone(&f, "a", session);
    struct attempt_report listed[] = {
        {.workload = running, .attempt = 1, .phase = ATTEMPT_RUNNING},
        {.workload = 77, .attempt = 1, .phase = ATTEMPT_RUNNING},
        {.workload = 78, .attempt = 1, .phase = ATTEMPT_EXITED},
    };
    session = hello_as(&f, "a", "i", listed, 3);
    assert_int_equal(state_of(&f, running), WORKLOAD_RUNNING);
    assert_int_equal(find(&f, CLUSTER_SEND_SETTLE)->workload, 78);
    assert_int_equal(count_of(&f, CLUSTER_SEND_STOP), 2);
    assert_int_equal(find_nth(&f, CLUSTER_SEND_STOP, 0)->workload, 77);
    assert_int_equal(find_nth(&f, CLUSTER_SEND_STOP, 1)->workload, forgotten);
    /* The workload moves only when the node confirms that nothing of the attempt is alive. */
    assert_int_equal(state_of(&f, forgotten), WORKLOAD_RUNNING);
    struct attempt_report nothing = {
        .workload = forgotten, .attempt = 1, .phase = ATTEMPT_EXITED, .never_ran = true};
    report_full(&f, "a", session, &nothing);
    assert_int_equal(state_of(&f, forgotten), WORKLOAD_PLACED);
    assert_int_equal(cluster_live_status(f.cluster, forgotten)->attempts_total, 2);
    assert_int_equal(cluster_live_status(f.cluster, forgotten)->failures, 0);
    fixture_close(&f);
}

static void namesake_is_refused_until_node_lost(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    submit_task(&f);
    assert_int_equal(hello_as(&f, "a", "other", NULL, 0), 0);
    assert_int_equal(find(&f, CLUSTER_REPLY)->result, -ERR_CONFLICT);
    gone(&f, "a", session);
    assert_int_equal(hello_as(&f, "a", "other", NULL, 0), 0);
    tick_after(&f, LOST_MS);
    assert_int_not_equal(hello_as(&f, "a", "other", NULL, 0), 0);
    fixture_close(&f);
}

static void task_restarts_only_after_node_lost(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    uint64_t id = submit_task(&f);
    hello(&f, "b");
    tick_after(&f, 1000);
    beat(&f, "a", session);
    gone(&f, "a", session);
    uint64_t b = hello(&f, "b");
    for (int64_t waited = 0; waited < LOST_MS - 1000; waited += 31000) {
        tick_after(&f, 31000 < LOST_MS - 1 - waited ? 31000 : LOST_MS - 1 - waited);
        beat(&f, "b", b);
    }
    int64_t left_ms = 5000 + 1000 + LOST_MS - f.now.boot_ms;
    tick_after(&f, left_ms - 1);
    assert_string_equal(cluster_live_status(f.cluster, id)->attempts[0].node, "a");
    assert_int_equal(cluster_live_status(f.cluster, id)->attempts_total, 1);
    tick_after(&f, 1);
    assert_true(logged(&f, "node_lost"));
    const struct workload_status *status = cluster_live_status(f.cluster, id);
    assert_int_equal(status->attempts_total, 2);
    assert_true(status->attempts[0].lost);
    assert_string_equal(status->attempts[1].node, "b");
    assert_int_equal(status->failures, 0);
    /* The lost node returns with a report of the old copy's end. */
    struct attempt_report old = {.workload = id, .attempt = 1, .phase = ATTEMPT_EXITED};
    hello_as(&f, "a", "i", &old, 1);
    assert_int_equal(find(&f, CLUSTER_SEND_SETTLE)->attempt, 1);
    assert_int_equal(state_of(&f, id), WORKLOAD_PLACED);
    fixture_close(&f);
}

static void service_restarts_before_node_lost(void **state)
{
    struct fixture f;
    struct workload_needs needs = task_needs();
    (void)state;
    fixture_open(&f);
    needs.kind = WORKLOAD_SERVICE;
    uint64_t session = hello(&f, "a");
    uint64_t id = submit(&f, &needs);
    gone(&f, "a", session);
    tick_after(&f, f.config.lease_ms - 1);
    uint64_t b = hello(&f, "b");
    assert_int_equal(cluster_live_status(f.cluster, id)->attempts_total, 1);
    tick_after(&f, 1);
    assert_int_equal(cluster_live_status(f.cluster, id)->attempts_total, 2);
    assert_non_null(strstr(cluster_live_status(f.cluster, id)->attempts[0].text, "may still run"));
    report(&f, "b", b, id, 2, ATTEMPT_RUNNING);
    struct attempt_report old = {.workload = id, .attempt = 1, .phase = ATTEMPT_RUNNING};
    hello_as(&f, "a", "i", &old, 1);
    assert_int_equal(find(&f, CLUSTER_SEND_STOP)->attempt, 1);
    assert_int_equal(state_of(&f, id), WORKLOAD_RUNNING);
    fixture_close(&f);
}

static void on_node_lost_wait_keeps_placement(void **state)
{
    struct fixture f;
    struct workload_needs needs = task_needs();
    (void)state;
    fixture_open(&f);
    needs.on_node_lost = ON_NODE_LOST_WAIT;
    hello(&f, "a");
    uint64_t first = submit(&f, &needs), second = submit(&f, &needs);
    tick_after(&f, f.config.lease_ms); /* silence counts as a broken connection */
    assert_true(logged(&f, "node_gone"));
    tick_after(&f, LOST_MS);
    assert_int_equal(state_of(&f, first), WORKLOAD_PLACED);
    assert_non_null(strstr(cluster_live_status(f.cluster, first)->text, "waits for the node"));
    /* The node cannot be reached, so the user's command takes effect at once. */
    stop(&f, CLUSTER_CANCEL, first, -1);
    assert_null(cluster_live_status(f.cluster, first));
    stop(&f, CLUSTER_REQUEUE, second, -1);
    assert_int_equal(state_of(&f, second), WORKLOAD_QUEUED);
    fixture_close(&f);
}

static void vanished_device_takes_no_new_task(void **state)
{
    struct fixture f;
    struct node_info info = node_info("a", "i", 2);
    struct workload_needs whole = task_needs();
    struct policy_snapshot inventory;
    (void)state;
    fixture_open(&f);
    whole.quota_bytes = 0;
    struct cluster_event event = {.kind = CLUSTER_NODE_HELLO};
    event.hello.info = &info;
    step(&f, &event);
    submit(&f, &whole);
    uint64_t second = submit(&f, &whole);
    struct attempt_report reports[] = {
        {.workload = 1, .attempt = 1, .phase = ATTEMPT_RUNNING},
        {.workload = 2, .attempt = 1, .phase = ATTEMPT_RUNNING},
    };
    info.device_count = 1;
    event.hello.attempts = reports;
    event.hello.count = 2;
    step(&f, &event);
    uint64_t session = find(&f, CLUSTER_SEND_WELCOME)->session;
    assert_non_null(find(&f, CLUSTER_STORE_NODE));
    assert_int_equal(state_of(&f, second), WORKLOAD_RUNNING);
    cluster_inventory(f.cluster, &inventory);
    assert_int_equal(inventory.device_count, 1);
    assert_int_equal(inventory.devices[0].neighbours, 1);
    uint64_t third = submit(&f, &whole);
    report(&f, "a", session, 2, 1, ATTEMPT_EXITED); /* the device is gone */
    assert_int_equal(state_of(&f, third), WORKLOAD_QUEUED);
    report(&f, "a", session, 1, 1, ATTEMPT_EXITED);
    assert_int_equal(state_of(&f, third), WORKLOAD_PLACED);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drained_node_takes_no_new_tasks),
        cmocka_unit_test(unconfirmed_grants_are_repeated),
        cmocka_unit_test(messages_of_stale_session_change_nothing),
        cmocka_unit_test(hello_reconciles_attempts),
        cmocka_unit_test(namesake_is_refused_until_node_lost),
        cmocka_unit_test(task_restarts_only_after_node_lost),
        cmocka_unit_test(service_restarts_before_node_lost),
        cmocka_unit_test(on_node_lost_wait_keeps_placement),
        cmocka_unit_test(vanished_device_takes_no_new_task),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
