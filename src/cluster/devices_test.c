/* The device health that a node reports, and its effect on workloads. */
#include "cluster/cluster_fixture.h"

static void say_health_with(struct fixture *f, uint64_t session, const char *uuid,
                            enum device_state state, enum device_admission admits,
                            const char *cause)
{
    struct device_health health = {.state = state, .admits = admits};
    (void)snprintf(health.uuid, sizeof health.uuid, "%s", uuid);
    (void)snprintf(health.cause, sizeof health.cause, "%s", cause);
    struct cluster_event event = {.kind = CLUSTER_NODE_BEAT};
    event.node.node = "a";
    event.node.session = session;
    event.node.beat = 1;
    event.node.health = &health;
    event.node.health_count = 1;
    step(f, &event);
}

static void say_health(struct fixture *f, uint64_t session, const char *uuid,
                       enum device_state state, enum device_admission admits)
{
    say_health_with(f, session, uuid, state, admits, state == DEVICE_HEALTHY ? "" : "a cause");
}

static void fail_with(struct fixture *f, uint64_t session, uint64_t id, int attempt,
                      enum failure_reason failure, enum attempt_verdict verdict)
{
    struct attempt_report report = {.workload = id,
                                    .attempt = attempt,
                                    .phase = ATTEMPT_EXITED,
                                    .failure = failure,
                                    .exit_code = 1,
                                    .verdict = verdict,
                                    .text = "what happened"};
    struct cluster_event event = {.kind = CLUSTER_NODE_REPORT};
    event.node.node = "a";
    event.node.session = session;
    event.node.report = &report;
    step(f, &event);
}

static void end_with(struct fixture *f, uint64_t session, uint64_t id, int attempt,
                     enum attempt_verdict verdict)
{
    fail_with(f, session, id, attempt, FAILURE_EXIT, verdict);
}

static void unhealthy_device_admits_only_services(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    say_health(&f, session, "a-0", DEVICE_UNHEALTHY, ADMIT_SERVICES);
    assert_true(logged(&f, "device_state"));
    uint64_t task = submit_task(&f);
    assert_int_equal(state_of(&f, task), WORKLOAD_QUEUED);
    assert_non_null(strstr(note_of(&f, task), "1 takes no new tasks now (unhealthy: a cause)"));
    struct workload_needs needs = task_needs();
    needs.kind = WORKLOAD_SERVICE;
    uint64_t service = submit(&f, &needs);
    assert_int_equal(state_of(&f, service), WORKLOAD_PLACED);
    say_health(&f, session, "a-0", DEVICE_UNHEALTHY, ADMIT_SERVICES);
    assert_false(logged(&f, "device_state")); /* only changes are logged */
    say_health(&f, session, "a-0", DEVICE_HEALTHY, ADMIT_ALL);
    assert_int_equal(state_of(&f, task), WORKLOAD_PLACED);
    assert_int_equal(cluster_device_health(f.cluster, "a", "a-0")->state, DEVICE_HEALTHY);
    assert_null(cluster_device_health(f.cluster, "a", "a-1"));
    fixture_close(&f);
}

/* A device that is in use fails, recovers and fails again: the note always has the present
 * reason. */
static void queue_note_follows_device_health(void **state)
{
    (void)state;
    for (size_t p = 0; policy_at(p); p++) {
        struct fixture f;
        struct workload_needs whole = task_needs();
        fixture_open(&f);
        cluster_free(f.cluster);
        f.config.policy = policy_at(p);
        assert_int_equal(cluster_new(&f.config, &f.cluster), 0);
        cluster_load_done(f.cluster, 0, f.now);
        uint64_t session = hello(&f, "a");
        whole.quota_bytes = 0;
        (void)submit(&f, &whole);
        uint64_t first = submit(&f, &whole), second = submit(&f, &whole);
        for (int round = 0; round < 2; round++) {
            const char *cause = round ? "too hot" : "lost";
            say_health_with(&f, session, "a-0", DEVICE_UNHEALTHY, ADMIT_NONE, cause);
            assert_non_null(strstr(note_of(&f, first), cause));
            assert_non_null(strstr(note_of(&f, second), cause));
            say_health(&f, session, "a-0", DEVICE_HEALTHY, ADMIT_ALL);
            assert_non_null(strstr(note_of(&f, first), "1 in use"));
            assert_non_null(strstr(note_of(&f, second), "1 in use"));
        }
        say_health_with(&f, session, "a-0", DEVICE_UNHEALTHY, ADMIT_NONE, "cold");
        say_health_with(&f, session, "a-0", DEVICE_UNHEALTHY, ADMIT_NONE, "colder");
        assert_non_null(strstr(note_of(&f, second), "colder"));
        fixture_close(&f);
    }
}

static void queue_note_follows_node_drain(void **state)
{
    struct fixture f;
    struct workload_needs whole = task_needs(), cpu = task_needs();
    (void)state;
    fixture_open(&f);
    (void)hello(&f, "a");
    whole.quota_bytes = 0;
    cpu.devices = 0;
    cpu.quota_bytes = 0;
    (void)submit(&f, &whole);
    drain(&f, "a", true);
    uint64_t first = submit(&f, &whole), second = submit(&f, &whole), third = submit(&f, &cpu);
    assert_non_null(strstr(note_of(&f, second), "drained"));
    assert_non_null(strstr(note_of(&f, third), "drained"));
    drain(&f, "a", false);
    assert_null(strstr(note_of(&f, first), "drained"));
    assert_null(strstr(note_of(&f, second), "drained"));
    assert_int_equal(state_of(&f, third), WORKLOAD_PLACED);
    fixture_close(&f);
}

/* The cluster explains a bounded number of workloads between two steps; the others keep their last
 * note. */
static void queue_notes_between_steps_are_bounded(void **state)
{
    enum { MANY = 100 };
    struct fixture f;
    uint64_t ids[MANY];
    size_t old = 0;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    drain(&f, "a", true);
    for (size_t i = 0; i < MANY; i++) {
        struct workload_needs needs = task_needs();
        needs.quota_bytes = 1 + i; /* separate requirements */
        ids[i] = submit(&f, &needs);
    }
    say_health_with(&f, session, "a-0", DEVICE_DISABLED, ADMIT_NONE, "lost");
    drain(&f, "a", false);
    for (size_t i = 0; i < MANY; i++)
        old += strstr(note_of(&f, ids[i]), "lost") == NULL;
    assert_true(old > 0 && old < MANY);
    for (int step = 0; step < MANY && old > 0; step++) {
        beat(&f, "a", session);
        old = 0;
        for (size_t i = 0; i < MANY; i++)
            old += strstr(note_of(&f, ids[i]), "lost") == NULL;
    }
    assert_int_equal(old, 0);
    fixture_close(&f);
}

static void moved_task_restarts_without_counted_failure(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    uint64_t id = submit_task(&f);
    report(&f, "a", session, id, 1, ATTEMPT_RUNNING);
    end_with(&f, session, id, 1, VERDICT_MOVED);
    const struct workload_status *status = cluster_live_status(f.cluster, id);
    assert_int_equal(status->state, WORKLOAD_PLACED); /* placed at once, because there is room */
    assert_int_equal(status->failures, 0);
    assert_int_equal(status->attempts_total, 2);
    assert_int_equal(status->attempts[0].failure, FAILURE_NONE);
    assert_string_equal(status->attempts[0].text, "what happened");
    assert_false(status->suspect);
    assert_false(find(&f, CLUSTER_SEND_GRANT)->suspect);
    fixture_close(&f);
}

static void second_suspect_waits_until_first_cleared(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    uint64_t one = submit_task(&f), two = submit_task(&f);
    report(&f, "a", session, one, 1, ATTEMPT_RUNNING);
    report(&f, "a", session, two, 1, ATTEMPT_RUNNING);
    say_health(&f, session, "a-0", DEVICE_HEALTHY, ADMIT_NONE);
    end_with(&f, session, one, 1, VERDICT_SUSPECT);
    end_with(&f, session, two, 1, VERDICT_SUSPECT);
    assert_int_equal(state_of(&f, one), WORKLOAD_QUEUED);
    assert_true(cluster_live_status(f.cluster, one)->suspect);
    say_health(&f, session, "a-0", DEVICE_HEALTHY, ADMIT_ALL);
    assert_int_equal(state_of(&f, one), WORKLOAD_PLACED);
    assert_true(find(&f, CLUSTER_SEND_GRANT)->suspect);
    assert_int_equal(state_of(&f, two), WORKLOAD_QUEUED);
    assert_non_null(strstr(note_of(&f, two), "another suspect"));
    /* A workload that is no suspect may share the device. */
    assert_int_equal(state_of(&f, submit_task(&f)), WORKLOAD_PLACED);
    struct attempt_report runs = {
        .workload = one, .attempt = 2, .phase = ATTEMPT_RUNNING, .cleared = true};
    struct cluster_event event = {.kind = CLUSTER_NODE_REPORT};
    event.node.node = "a";
    event.node.session = session;
    event.node.report = &runs;
    step(&f, &event);
    assert_true(logged(&f, "cleared"));
    assert_false(cluster_live_status(f.cluster, one)->suspect);
    assert_int_equal(state_of(&f, two), WORKLOAD_PLACED);
    fixture_close(&f);
}

static void third_fault_fails_task(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    uint64_t id = submit_task(&f);
    for (int attempt = 1; attempt <= 2; attempt++) {
        report(&f, "a", session, id, attempt, ATTEMPT_RUNNING);
        end_with(&f, session, id, attempt, VERDICT_GUILTY);
        const struct workload_status *status = cluster_live_status(f.cluster, id);
        assert_int_equal(status->faults, attempt);
        assert_int_equal(status->failures, 0);
        assert_int_equal(status->attempts[attempt - 1].failure, FAILURE_FAULT);
    }
    end_with(&f, session, id, 3, VERDICT_GUILTY);
    const struct workload_status *status = find(&f, CLUSTER_STORE_STATUS)->status;
    assert_int_equal(status->state, WORKLOAD_FAILED);
    assert_int_equal(status->failure, FAILURE_FAULT);
    assert_non_null(strstr(status->text, "what happened"));
    fixture_close(&f);
}

static void cancel_overrides_moved_verdict(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    uint64_t id = submit_task(&f);
    report(&f, "a", session, id, 1, ATTEMPT_RUNNING);
    struct cluster_event event = {.kind = CLUSTER_CANCEL};
    event.stop.workload = id;
    event.stop.grace_ms = -1;
    step(&f, &event);
    end_with(&f, session, id, 1, VERDICT_MOVED);
    assert_int_equal(find(&f, CLUSTER_STORE_STATUS)->status->state, WORKLOAD_CANCELLED);
    fixture_close(&f);
}

static void device_notes_become_events(void **state)
{
    struct fixture f;
    struct device_note notes[] = {{.uuid = "a-0", .text = "Xid 62"},
                                  {.uuid = "a-0", .alarm = true, .text = "Xid 79"},
                                  {.uuid = "b-0", .text = "not ours"}};
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    struct cluster_event event = {.kind = CLUSTER_NODE_BEAT};
    event.node.node = "a";
    event.node.session = session;
    event.node.notes = notes;
    event.node.note_count = 3;
    step(&f, &event);
    assert_true(logged(&f, "device_note") && logged(&f, "device_alarm"));
    assert_string_equal(find(&f, CLUSTER_EVENT_LOG)->text, "device a:0: Xid 62");
    assert_int_equal(count_of(&f, CLUSTER_EVENT_LOG), 2);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queue_note_follows_device_health),
        cmocka_unit_test(queue_note_follows_node_drain),
        cmocka_unit_test(queue_notes_between_steps_are_bounded),
        cmocka_unit_test(unhealthy_device_admits_only_services),
        cmocka_unit_test(moved_task_restarts_without_counted_failure),
        cmocka_unit_test(second_suspect_waits_until_first_cleared),
        cmocka_unit_test(third_fault_fails_task),
        cmocka_unit_test(cancel_overrides_moved_verdict),
        cmocka_unit_test(device_notes_become_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
