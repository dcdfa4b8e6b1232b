/* Tests of tasks that move their memory to the host and back. */
#include "cluster/cluster_fixture.h"

static struct workload_needs whole_device(void)
{
    struct workload_needs needs = task_needs();
    needs.quota_bytes = 0;
    return needs;
}

static uint64_t run_task(struct fixture *f, uint64_t session)
{
    struct workload_needs needs = whole_device();
    uint64_t id = submit(f, &needs);
    report(f, "a", session, id, 1, ATTEMPT_RUNNING);
    assert_int_equal(state_of(f, id), WORKLOAD_RUNNING);
    return id;
}

static void say(struct fixture *f, uint64_t session, uint64_t id, int turn,
                enum suspension suspension)
{
    struct attempt_report report = {.workload = id,
                                    .attempt = 1,
                                    .phase = ATTEMPT_RUNNING,
                                    .turn = turn,
                                    .suspension = suspension,
                                    .text = "the reason of the node"};
    report_full(f, "a", session, &report);
}

/* Runs a task and suspends it by order 1. */
static uint64_t suspend_one(struct fixture *f, uint64_t session)
{
    uint64_t id = run_task(f, session);
    assert_int_equal(stop(f, CLUSTER_SUSPEND, id, -1)->result, 0);
    assert_int_equal(state_of(f, id), WORKLOAD_SUSPENDING);
    assert_int_equal(find(f, CLUSTER_SEND_SUSPEND)->turn, 1);
    say(f, session, id, 1, SUSPENSION_LEAVING);
    assert_int_equal(state_of(f, id), WORKLOAD_SUSPENDING);
    say(f, session, id, 1, SUSPENSION_DONE);
    assert_int_equal(state_of(f, id), WORKLOAD_SUSPENDED);
    assert_true(logged(f, "suspended"));
    return id;
}

static void suspended_task_frees_device_until_resume(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    uint64_t id = suspend_one(&f, session);
    uint64_t other = run_task(&f, session);
    uint64_t ids[4];
    assert_int_equal(cluster_device_workloads(f.cluster, "a", "a-0", ids, 4), 1);
    assert_int_equal(ids[0], other);

    assert_int_equal(stop(&f, CLUSTER_RESUME, id, -1)->result, 0);
    assert_int_equal(state_of(&f, id), WORKLOAD_SUSPENDED);
    assert_string_equal(cluster_live_status(f.cluster, id)->text,
                        "waits to resume: the device is in use");

    struct workload_needs needs = whole_device();
    uint64_t third = submit(&f, &needs);
    assert_int_equal(state_of(&f, third), WORKLOAD_QUEUED);
    report(&f, "a", session, other, 1, ATTEMPT_EXITED);
    assert_int_equal(state_of(&f, id), WORKLOAD_RESUMING); /* precedes the queue */
    assert_int_equal(state_of(&f, third), WORKLOAD_QUEUED);
    assert_int_equal(find(&f, CLUSTER_SEND_RESUME)->turn, 2);
    say(&f, session, id, 2, SUSPENSION_RETURNING);
    say(&f, session, id, 2, SUSPENSION_NONE);
    assert_int_equal(state_of(&f, id), WORKLOAD_RUNNING);
    assert_true(logged(&f, "resumed"));
    fixture_close(&f);
}

/* The driver of a node without any device may have a problem. */
static void resume_waits_for_devices_of_node(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t id = suspend_one(&f, hello(&f, "a"));
    struct node_info info = node_info("a", "i", 0);
    const struct attempt_report report = {.workload = id,
                                          .attempt = 1,
                                          .phase = ATTEMPT_RUNNING,
                                          .turn = 1,
                                          .suspension = SUSPENSION_DONE};
    struct cluster_event event = {.kind = CLUSTER_NODE_HELLO};
    event.hello.info = &info;
    event.hello.attempts = &report;
    event.hello.count = 1;
    step(&f, &event);
    assert_int_equal(stop(&f, CLUSTER_RESUME, id, -1)->result, 0);
    assert_string_equal(cluster_live_status(f.cluster, id)->text,
                        "waits to resume: node a reports no device");
    fixture_close(&f);
}

static void suspend_order_is_repeated_until_reported(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    uint64_t id = run_task(&f, session);
    (void)stop(&f, CLUSTER_SUSPEND, id, -1);
    tick_after(&f, f.config.resend_ms);
    assert_int_equal(find(&f, CLUSTER_SEND_SUSPEND)->turn, 1);
    say(&f, session, id, 1, SUSPENSION_LEAVING);
    tick_after(&f, f.config.resend_ms);
    assert_null(find(&f, CLUSTER_SEND_SUSPEND));
    fixture_close(&f);
}

static void failed_suspend_leaves_task_running(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    uint64_t id = run_task(&f, session);
    (void)stop(&f, CLUSTER_SUSPEND, id, -1);
    say(&f, session, id, 0, SUSPENSION_NONE); /* older than the order: ignored */
    assert_int_equal(state_of(&f, id), WORKLOAD_SUSPENDING);
    say(&f, session, id, 1, SUSPENSION_NONE);
    assert_int_equal(state_of(&f, id), WORKLOAD_RUNNING);
    assert_true(logged(&f, "suspend_failed"));
    assert_string_equal(cluster_live_status(f.cluster, id)->text,
                        "suspend failed: the reason of the node");
    tick_after(&f, 1000);
    assert_non_null(strstr(cluster_live_status(f.cluster, id)->text, "suspend failed"));
    tick_after(&f, 9000); /* long enough for a client that polls */
    assert_string_equal(cluster_live_status(f.cluster, id)->text, "");
    assert_int_equal(find(&f, CLUSTER_STORE_STATUS)->workload, id);
    (void)stop(&f, CLUSTER_SUSPEND, id, -1);
    say(&f, session, id, 1, SUSPENSION_NONE); /* repeated answer to the first order: ignored */
    assert_int_equal(state_of(&f, id), WORKLOAD_SUSPENDING);
    fixture_close(&f);
}

static void failed_resume_is_retried(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    uint64_t id = suspend_one(&f, session);
    (void)stop(&f, CLUSTER_RESUME, id, -1);
    assert_int_equal(state_of(&f, id), WORKLOAD_RESUMING);
    say(&f, session, id, 2, SUSPENSION_DONE);
    assert_int_equal(state_of(&f, id), WORKLOAD_SUSPENDED);
    assert_true(logged(&f, "resume_failed"));
    assert_true(cluster_live_status(f.cluster, id)->off_device);
    tick_after(&f, f.config.backoff_min_ms);
    assert_int_equal(state_of(&f, id), WORKLOAD_RESUMING);
    assert_int_equal(find(&f, CLUSTER_SEND_RESUME)->turn, 3);
    fixture_close(&f);
}

static void evicted_task_resumes_on_healthy_device(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    uint64_t id = run_task(&f, session);
    struct attempt_report evicted = {.workload = id,
                                     .attempt = 1,
                                     .phase = ATTEMPT_RUNNING,
                                     .evicted = true,
                                     .text = "evicted: too hot"};
    report_full(&f, "a", session, &evicted);
    assert_int_equal(state_of(&f, id), WORKLOAD_SUSPENDING);
    assert_string_equal(cluster_live_status(f.cluster, id)->text, "evicted: too hot");
    struct device_health health = {
        .uuid = "a-0", .state = DEVICE_OVERLIMIT, .admits = ADMIT_SERVICES, .cause = "too hot"};
    struct cluster_event event = {.kind = CLUSTER_NODE_BEAT};
    event.node.node = "a";
    event.node.session = session;
    event.node.health = &health;
    event.node.health_count = 1;
    step(&f, &event);
    say(&f, session, id, 1, SUSPENSION_DONE);
    assert_int_equal(state_of(&f, id), WORKLOAD_SUSPENDED);
    assert_string_equal(cluster_live_status(f.cluster, id)->text,
                        "waits to resume: the device is overlimit: too hot");
    health.state = DEVICE_HEALTHY;
    health.admits = ADMIT_ALL;
    step(&f, &event);
    assert_int_equal(state_of(&f, id), WORKLOAD_RESUMING);
    /* A user suspends the task while it resumes: the task stays suspended. */
    assert_int_equal(stop(&f, CLUSTER_SUSPEND, id, -1)->result, 0);
    assert_int_equal(find(&f, CLUSTER_SEND_SUSPEND)->turn, 3);
    say(&f, session, id, 3, SUSPENSION_DONE);
    assert_int_equal(state_of(&f, id), WORKLOAD_SUSPENDED);
    assert_int_equal(cluster_live_status(f.cluster, id)->hold, HOLD_USER);
    fixture_close(&f);
}

static void task_evicted_on_resume_suspends_again(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    uint64_t id = suspend_one(&f, session);
    (void)stop(&f, CLUSTER_RESUME, id, -1);
    struct attempt_report back = {.workload = id,
                                  .attempt = 1,
                                  .phase = ATTEMPT_RUNNING,
                                  .turn = 2,
                                  .evicted = true,
                                  .text = "evicted: too hot"};
    report_full(&f, "a", session, &back);
    assert_true(logged(&f, "resumed"));
    assert_int_equal(state_of(&f, id), WORKLOAD_SUSPENDING);
    assert_int_equal(find(&f, CLUSTER_SEND_SUSPEND)->turn, 3);
    assert_int_equal(cluster_live_status(f.cluster, id)->hold, HOLD_ROOM);
    fixture_close(&f);
}

static void suspended_task_can_be_cancelled(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    uint64_t id = suspend_one(&f, session);
    uint64_t other = run_task(&f, session);
    assert_int_equal(stop(&f, CLUSTER_CANCEL, id, -1)->result, 0);
    assert_int_equal(state_of(&f, id), WORKLOAD_STOPPING);
    assert_non_null(find(&f, CLUSTER_SEND_STOP));
    assert_int_equal(stop(&f, CLUSTER_SUSPEND, id, -1)->result, -ERR_CONFLICT);
    report(&f, "a", session, id, 1, ATTEMPT_EXITED);
    assert_null(cluster_live_status(f.cluster, id));
    uint64_t ids[4]; /* the booking must not be released twice */
    assert_int_equal(cluster_device_workloads(f.cluster, "a", "a-0", ids, 4), 1);
    struct workload_needs needs = whole_device();
    uint64_t third = submit(&f, &needs);
    assert_int_equal(state_of(&f, third), WORKLOAD_QUEUED);
    report(&f, "a", session, other, 1, ATTEMPT_EXITED);
    assert_int_equal(state_of(&f, third), WORKLOAD_PLACED);
    fixture_close(&f);
}

static void impossible_suspend_is_refused(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    struct workload_needs needs = task_needs();
    needs.kind = WORKLOAD_SERVICE;
    uint64_t service = submit(&f, &needs);
    needs = task_needs();
    needs.devices = 0;
    uint64_t deviceless = submit(&f, &needs);
    uint64_t id = submit_task(&f);
    assert_int_equal(stop(&f, CLUSTER_SUSPEND, service, -1)->result, -ERR_CONFLICT);
    assert_int_equal(stop(&f, CLUSTER_SUSPEND, deviceless, -1)->result, -ERR_CONFLICT);
    assert_int_equal(stop(&f, CLUSTER_SUSPEND, id, -1)->result, -ERR_CONFLICT);
    assert_int_equal(stop(&f, CLUSTER_SUSPEND, 99, -1)->result, -ERR_NOT_FOUND);
    report(&f, "a", session, id, 1, ATTEMPT_RUNNING);
    assert_int_equal(stop(&f, CLUSTER_RESUME, id, -1)->result, -ERR_CONFLICT);
    assert_int_equal(stop(&f, CLUSTER_SUSPEND, id, -1)->result, 0);
    assert_int_equal(stop(&f, CLUSTER_SUSPEND, id, -1)->result, 0);
    assert_null(find(&f, CLUSTER_SEND_SUSPEND)); /* already sent */
    fixture_close(&f);
}

static void self_resumed_task_is_suspended_again(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    uint64_t id = suspend_one(&f, session);
    say(&f, session, id, 1, SUSPENSION_NONE);
    assert_int_equal(state_of(&f, id), WORKLOAD_SUSPENDING);
    assert_int_equal(find(&f, CLUSTER_SEND_SUSPEND)->turn, 2);
    assert_false(cluster_live_status(f.cluster, id)->off_device);
    say(&f, session, id, 2, SUSPENSION_DONE);
    assert_int_equal(state_of(&f, id), WORKLOAD_SUSPENDED);
    assert_int_equal(cluster_live_status(f.cluster, id)->hold, HOLD_USER);
    fixture_close(&f);
}

static void say_disabled(struct fixture *f, uint64_t session, bool needs_operator)
{
    struct device_health health = {.uuid = "a-0",
                                   .state = DEVICE_DISABLED,
                                   .admits = ADMIT_NONE,
                                   .needs_operator = needs_operator,
                                   .cause = "a cause"};
    struct cluster_event event = {.kind = CLUSTER_NODE_BEAT};
    event.node.node = "a";
    event.node.session = session;
    event.node.health = &health;
    event.node.health_count = 1;
    step(f, &event);
}

static void resumed_task_on_broken_device_restarts(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    uint64_t id = suspend_one(&f, session);
    say_disabled(&f, session, false);
    assert_int_equal(stop(&f, CLUSTER_RESUME, id, -1)->result, 0);
    assert_int_equal(state_of(&f, id), WORKLOAD_SUSPENDED); /* the device may recover by itself */
    say_disabled(&f, session, true);
    assert_int_equal(state_of(&f, id), WORKLOAD_STOPPING);
    assert_non_null(find(&f, CLUSTER_SEND_STOP));
    report_failure(&f, "a", session, id, 1);
    const struct workload_status *status = cluster_live_status(f.cluster, id);
    assert_int_equal(status->state, WORKLOAD_QUEUED);
    assert_int_equal(status->failures, 0);
    assert_int_equal(status->hold, HOLD_NONE);
    assert_true(logged(&f, "requeued"));
    fixture_close(&f);
}

static void user_suspension_outlasts_broken_device(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    uint64_t id = suspend_one(&f, session);
    say_disabled(&f, session, true);
    assert_int_equal(state_of(&f, id), WORKLOAD_SUSPENDED);
    assert_int_equal(stop(&f, CLUSTER_RESUME, id, -1)->result, 0);
    assert_int_equal(state_of(&f, id), WORKLOAD_STOPPING);
    fixture_close(&f);
}

static void lost_node_requeues_suspended_task(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    uint64_t id = suspend_one(&f, session);
    gone(&f, "a", session);
    tick_after(&f, LOST_MS);
    const struct workload_status *status = cluster_live_status(f.cluster, id);
    assert_int_equal(status->state, WORKLOAD_QUEUED);
    assert_int_equal(status->hold, HOLD_NONE);
    assert_false(status->off_device);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(suspended_task_frees_device_until_resume),
        cmocka_unit_test(resume_waits_for_devices_of_node),
        cmocka_unit_test(suspend_order_is_repeated_until_reported),
        cmocka_unit_test(failed_suspend_leaves_task_running),
        cmocka_unit_test(failed_resume_is_retried),
        cmocka_unit_test(evicted_task_resumes_on_healthy_device),
        cmocka_unit_test(task_evicted_on_resume_suspends_again),
        cmocka_unit_test(suspended_task_can_be_cancelled),
        cmocka_unit_test(impossible_suspend_is_refused),
        cmocka_unit_test(self_resumed_task_is_suspended_again),
        cmocka_unit_test(resumed_task_on_broken_device_restarts),
        cmocka_unit_test(user_suspension_outlasts_broken_device),
        cmocka_unit_test(lost_node_requeues_suspended_task),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
