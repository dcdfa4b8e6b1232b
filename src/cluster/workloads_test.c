#include "cluster/cluster_fixture.h"

/* ---- from submit to success ---- */

static void task_runs_from_submit_to_success(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    assert_int_equal(count_of(&f, CLUSTER_STORE_NODE), 1);
    uint64_t id = submit_task(&f);
    assert_int_equal(id, 1);
    /* Acceptance and placement are stored together. */
    assert_int_equal(count_of(&f, CLUSTER_STORE_NEW), 1);
    assert_int_equal(count_of(&f, CLUSTER_STORE_STATUS), 0);
    assert_int_equal(find(&f, CLUSTER_STORE_NEW)->status->state, WORKLOAD_PLACED);
    assert_true(logged(&f, "submitted") && logged(&f, "placed"));
    const struct cluster_action *grant = find(&f, CLUSTER_SEND_GRANT);
    assert_non_null(grant);
    assert_int_equal(grant->session, session);
    assert_string_equal(grant->placed->node, "a");
    assert_string_equal(grant->placed->devices[0], "a-0");
    report(&f, "a", session, id, 1, ATTEMPT_STARTING);
    assert_int_equal(state_of(&f, id), WORKLOAD_STARTING);
    report(&f, "a", session, id, 1, ATTEMPT_RUNNING);
    assert_int_equal(state_of(&f, id), WORKLOAD_RUNNING);
    report(&f, "a", session, id, 1, ATTEMPT_STARTING); /* a late report: ignored */
    assert_int_equal(state_of(&f, id), WORKLOAD_RUNNING);
    report(&f, "a", session, id, 1, ATTEMPT_EXITED);
    assert_int_equal(find(&f, CLUSTER_STORE_STATUS)->status->state, WORKLOAD_SUCCEEDED);
    assert_non_null(find(&f, CLUSTER_SEND_SETTLE));
    assert_null(cluster_live_status(f.cluster, id));
    report(&f, "a", session, id, 1, ATTEMPT_EXITED); /* the settle was lost: repeated */
    assert_null(find(&f, CLUSTER_STORE_STATUS));
    assert_non_null(find(&f, CLUSTER_SEND_SETTLE));
    fixture_close(&f);
}

static void queue_orders_by_priority_then_age(void **state)
{
    struct fixture f;
    struct workload_needs low = task_needs(), high = task_needs();
    (void)state;
    fixture_open(&f);
    low.quota_bytes = high.quota_bytes = 0;
    high.priority = 5;
    submit(&f, &low);
    submit(&f, &low);
    submit(&f, &high);
    uint64_t session = hello(&f, "a");
    assert_int_equal(find(&f, CLUSTER_SEND_GRANT)->workload, 3);
    report(&f, "a", session, 3, 1, ATTEMPT_EXITED);
    assert_int_equal(find(&f, CLUSTER_SEND_GRANT)->workload, 1);
    fixture_close(&f);
}

static void queued_task_states_wait_reason(void **state)
{
    struct fixture f;
    struct workload_needs needs = task_needs();
    (void)state;
    fixture_open(&f);
    submit_task(&f);
    assert_string_equal(find(&f, CLUSTER_STORE_NEW)->status->text, "no node has joined yet");
    hello(&f, "a");
    (void)snprintf(needs.model, sizeof needs.model, "H300");
    submit(&f, &needs);
    assert_string_equal(find(&f, CLUSTER_STORE_NEW)->status->text,
                        "no such model in the cluster (requested 'H300', present: NVIDIA H200)");
    struct cluster_after after[] = {{.workload = 1}, {.workload = 2}};
    needs = task_needs();
    submit_after(&f, &needs, after, 2);
    assert_string_equal(find(&f, CLUSTER_STORE_NEW)->status->text, "waits for 1, 2");
    fixture_close(&f);
}

static void preview_predicts_placement(void **state)
{
    struct fixture f;
    struct cluster_preview preview;
    struct workload_needs whole = task_needs();
    const struct cluster_submission item = {.needs = &whole};
    (void)state;
    fixture_open(&f);
    whole.quota_bytes = 0;
    assert_int_equal(cluster_preview(NULL, f.cluster, &item, 1, &preview), 0);
    assert_string_equal(preview.node, "");
    assert_string_equal(preview.text, "no node has joined yet");
    hello(&f, "a");
    assert_int_equal(cluster_preview(NULL, f.cluster, &item, 1, &preview), 0);
    assert_string_equal(preview.node, "a");
    assert_string_equal(preview.devices[0], "a-0");
    submit(&f, &whole);
    assert_int_equal(cluster_preview(NULL, f.cluster, &item, 1, &preview), 0);
    assert_string_equal(
        preview.text,
        "0 of 1 device fit: 1 in use, and a workload without a quota needs a whole device");
    fixture_close(&f);
}

/* ---- submissions ---- */

static void submission_beyond_queue_limit_is_refused(void **state)
{
    struct fixture f;
    struct workload_needs needs = task_needs();
    struct cluster_submission items[3] = {{.name = "w", .needs = &needs},
                                          {.name = "w", .needs = &needs},
                                          {.name = "w", .needs = &needs}};
    (void)state;
    fixture_open(&f);
    fixture_close(&f);
    f.config.queue_max = 4;
    cluster_actions_init(&f.actions);
    assert_int_equal(cluster_new(&f.config, &f.cluster), 0);
    assert_int_equal(submit_all(&f, items, 3, NULL)->result, 0);
    assert_int_equal(submit_all(&f, items, 2, NULL)->result, -ERR_QUEUE_FULL);
    assert_int_equal(f.actions.count, 1); /* all or nothing */
    assert_int_equal(submit_all(&f, items, 1, NULL)->first, 4);
    fixture_close(&f);
}

static void submission_beyond_user_limit_is_refused(void **state)
{
    struct fixture f;
    struct workload_needs needs = task_needs();
    struct cluster_submission items[3] = {{.name = "w", .needs = &needs, .owner = 7},
                                          {.name = "w", .needs = &needs, .owner = 7},
                                          {.name = "w", .needs = &needs, .owner = 7}};
    const struct cluster_submission other = {.name = "w", .needs = &needs, .owner = 8};
    const struct cluster_submission admin = {
        .name = "w", .needs = &needs, .owner = 7, .is_admin = true};
    struct cluster_preview previews[3];
    (void)state;
    fixture_open(&f);
    fixture_close(&f);
    f.config.queue_max = 8;
    f.config.queue_max_user = 4;
    cluster_actions_init(&f.actions);
    assert_int_equal(cluster_new(&f.config, &f.cluster), 0);
    assert_int_equal(submit_all(&f, items, 3, NULL)->result, 0);
    const struct cluster_action *refused = submit_all(&f, items, 2, NULL);
    assert_int_equal(refused->result, -ERR_QUEUE_FULL);
    assert_string_equal(
        refused->text,
        "3 workloads of yours are not finished, 2 more would pass the limit of 4 for "
        "one user (queue_max_user): cancel some, or submit these when some have ended");
    assert_int_equal(cluster_preview(NULL, f.cluster, items, 2, previews), -ERR_QUEUE_FULL);
    assert_int_equal(submit_all(&f, items, 1, NULL)->first, 4);
    /* Other owners have their own limit; administrators may use the whole queue. */
    assert_int_equal(submit_all(&f, &other, 1, NULL)->first, 5);
    assert_int_equal(submit_all(&f, &admin, 1, NULL)->first, 6);
    /* Ended workloads do not count; those submitted as an administrator do. */
    for (uint64_t id = 1; id <= 3; id++)
        stop(&f, CLUSTER_CANCEL, id, 0);
    assert_int_equal(submit_all(&f, items, 3, NULL)->result, -ERR_QUEUE_FULL);
    assert_int_equal(submit_all(&f, items, 2, NULL)->first, 7);
    fixture_close(&f);
}

static void repeated_key_returns_first_submission(void **state)
{
    struct fixture f;
    struct workload_needs needs = task_needs();
    struct cluster_submission items[2] = {{.name = "w", .needs = &needs},
                                          {.name = "w", .needs = &needs}};
    (void)state;
    fixture_open(&f);
    assert_int_equal(submit_all(&f, items, 2, "k")->first, 1);
    const struct cluster_action *again = submit_all(&f, items, 2, "k");
    assert_int_equal(again->first, 1);
    assert_int_equal(again->count, 2);
    assert_true(again->repeated);
    assert_int_equal(f.actions.count, 1);
    assert_int_equal(submit_all(&f, items, 1, "l")->first, 3);
    /* The keys of another user are different keys. */
    struct cluster_event event = {.kind = CLUSTER_SUBMIT};
    event.submit.uid = 1;
    event.submit.key = "k";
    event.submit.count = 1;
    event.submit.items = items;
    step(&f, &event);
    assert_int_equal(find(&f, CLUSTER_REPLY)->first, 4);
    fixture_close(&f);
}

static void invalid_dependencies_are_refused(void **state)
{
    struct fixture f;
    struct workload_needs needs = task_needs();
    struct cluster_after unknown = {.workload = 9}, self = {.workload = 0, .within = true};
    (void)state;
    fixture_open(&f);
    const struct cluster_action *reply = submit_after(&f, &needs, &unknown, 1);
    assert_int_equal(reply->result, -ERR_INVALID);
    assert_string_equal(reply->field, "after");
    assert_int_equal(submit_after(&f, &needs, &self, 1)->result, -ERR_INVALID);
    assert_int_equal(submit_all(&f, NULL, 0, NULL)->result, -ERR_INVALID);
    assert_int_equal(submit_task(&f), 1); /* refused submissions take no ids */
    fixture_close(&f);
}

/* An array after an array would take memory for the product of both sizes. */
static void dependencies_beyond_limit_are_refused(void **state)
{
    enum { EACH = 10000, ALL = CLUSTER_DEPENDENCIES_MAX / EACH };
    static struct cluster_after after[EACH];
    static struct cluster_submission items[ALL + 1];
    struct fixture f;
    struct workload_needs needs = task_needs();
    (void)state;
    fixture_open(&f);
    uint64_t on = submit_task(&f);
    for (size_t i = 0; i < EACH; i++)
        after[i].workload = on;
    for (size_t i = 0; i <= ALL; i++)
        items[i] = (struct cluster_submission){
            .name = "x", .needs = &needs, .after_count = EACH, .after = after};
    const struct cluster_action *reply = submit_all(&f, items, ALL + 1, NULL);
    assert_int_equal(reply->result, -ERR_TOO_LARGE);
    assert_string_equal(reply->field, "after");
    assert_int_equal(submit_all(&f, items, ALL - 1, NULL)->result, 0);
    assert_int_equal(submit_all(&f, items, 1, NULL)->result, 0);
    reply = submit_all(&f, items, 1, NULL);
    assert_int_equal(reply->result, -ERR_QUEUE_FULL);
    assert_string_equal(reply->field, "after");
    submit_task(&f); /* no dependency: not limited */
    stop(&f, CLUSTER_CANCEL, on + 1, 0);
    assert_int_equal(submit_all(&f, items, 1, NULL)->result, 0);
    stop(&f, CLUSTER_CANCEL, on, 0); /* all dependencies are met */
    assert_int_equal(submit_all(&f, items, ALL, NULL)->result, 0);
    fixture_close(&f);
}

static void dependents_start_or_fail_with_dependency(void **state)
{
    struct fixture f;
    struct workload_needs needs = task_needs();
    struct cluster_after well = {.workload = 1, .succeeded = true}, any = {.workload = 1},
                         chain = {.workload = 2, .succeeded = true};
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    submit_task(&f);
    submit_after(&f, &needs, &well, 1);  /* 2 */
    submit_after(&f, &needs, &any, 1);   /* 3 */
    submit_after(&f, &needs, &chain, 1); /* 4 */
    assert_int_equal(state_of(&f, 2), WORKLOAD_QUEUED);
    report_failure(&f, "a", session, 1, 1);
    assert_null(cluster_live_status(f.cluster, 2));
    assert_null(cluster_live_status(f.cluster, 4)); /* failures cascade */
    assert_int_equal(state_of(&f, 3), WORKLOAD_PLACED);
    for (size_t i = 0; i < 4; i++) {
        const struct cluster_action *store = find_nth(&f, CLUSTER_STORE_STATUS, i);
        assert_non_null(store);
        if (store->workload == 2 || store->workload == 4) {
            assert_int_equal(store->status->state, WORKLOAD_FAILED);
            assert_int_equal(store->status->failure, FAILURE_DEPENDENCY);
        }
    }
    /* A dependency on an ended workload is decided at once. */
    submit_after(&f, &needs, &well, 1);
    assert_int_equal(find(&f, CLUSTER_STORE_NEW)->status->failure, FAILURE_DEPENDENCY);
    assert_string_equal(find(&f, CLUSTER_STORE_NEW)->status->text, "workload 1 did not succeed");
    submit_after(&f, &needs, &any, 1);
    assert_int_equal(find(&f, CLUSTER_STORE_NEW)->status->state, WORKLOAD_PLACED);
    fixture_close(&f);
}

/* ---- failures ---- */

static void retries_back_off_then_fail_task(void **state)
{
    struct fixture f;
    struct workload_needs needs = task_needs();
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    needs.retries = 2;
    uint64_t id = submit(&f, &needs);
    report_failure(&f, "a", session, id, 1);
    assert_int_equal(state_of(&f, id), WORKLOAD_QUEUED);
    assert_int_equal(cluster_live_status(f.cluster, id)->backoff_ms, 1000);
    tick_after(&f, 999);
    assert_int_equal(state_of(&f, id), WORKLOAD_QUEUED);
    assert_int_equal(cluster_next_tick(f.cluster), f.now.boot_ms + 1);
    tick_after(&f, 1);
    assert_int_equal(state_of(&f, id), WORKLOAD_PLACED);
    report_failure(&f, "a", session, id, 2);
    assert_int_equal(cluster_live_status(f.cluster, id)->backoff_ms, 2000);
    tick_after(&f, 2000);
    report_failure(&f, "a", session, id, 3);
    const struct workload_status *last = find(&f, CLUSTER_STORE_STATUS)->status;
    assert_int_equal(last->state, WORKLOAD_FAILED);
    assert_int_equal(last->failure, FAILURE_EXIT);
    assert_int_equal(last->exit_code, 3);
    assert_int_equal(last->failures, 3);
    assert_string_equal(last->text, "exited with code 3");
    fixture_close(&f);
}

static void same_start_failure_twice_fails_task(void **state)
{
    struct fixture f;
    struct workload_needs needs = task_needs();
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    needs.retries = 9;
    uint64_t id = submit(&f, &needs);
    struct attempt_report failed = {
        .workload = id, .phase = ATTEMPT_EXITED, .failure = FAILURE_START, .never_ran = true};
    const char *const reasons[] = {"no directory", "no user 'ghost'", "no user 'ghost'"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(state_of(&f, id), WORKLOAD_PLACED);
        failed.attempt = i + 1;
        snprintf(failed.text, sizeof failed.text, "%s", reasons[i]);
        report_full(&f, "a", session, &failed);
        if (i < 2)
            tick_after(&f, 1000 << i);
    }
    const struct workload_status *last = find(&f, CLUSTER_STORE_STATUS)->status;
    assert_int_equal(last->state, WORKLOAD_FAILED);
    assert_int_equal(last->failures, 3);
    assert_string_equal(last->text, "no user 'ghost'");
    fixture_close(&f);
}

static void kill_by_node_counts_no_failure(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    uint64_t id = submit_task(&f);
    struct attempt_report ended = {
        .workload = id, .attempt = 1, .phase = ATTEMPT_EXITED, .signal = 9};
    report_full(&f, "a", session, &ended);
    assert_int_equal(state_of(&f, id), WORKLOAD_PLACED); /* placed again at once */
    assert_int_equal(cluster_live_status(f.cluster, id)->failures, 0);
    assert_int_equal(cluster_live_status(f.cluster, id)->attempts_total, 2);
    fixture_close(&f);
}

static void service_restarts_with_bounded_backoff(void **state)
{
    struct fixture f;
    struct workload_needs needs = task_needs();
    int64_t expected_ms = 1000;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    needs.kind = WORKLOAD_SERVICE;
    uint64_t id = submit(&f, &needs);
    for (int attempt = 1; attempt <= 20; attempt++) {
        report(&f, "a", session, id, attempt,
               ATTEMPT_EXITED); /* an exit of a service is a failure, even with code 0 */
        const struct workload_status *status = cluster_live_status(f.cluster, id);
        assert_int_equal(status->state, WORKLOAD_QUEUED);
        assert_int_equal(status->backoff_ms, expected_ms);
        assert_in_range(status->attempts_kept, 1, WORKLOAD_ATTEMPTS_KEPT);
        for (int64_t waited = 0; waited < expected_ms; waited += 30000) {
            tick_after(&f, expected_ms - waited < 30000 ? expected_ms - waited : 30000);
            beat(&f, "a", session);
        }
        assert_int_equal(state_of(&f, id), WORKLOAD_PLACED);
        expected_ms = expected_ms * 2 > 300000 ? 300000 : expected_ms * 2;
    }
    /* A long run resets the back-off. */
    report(&f, "a", session, id, 21, ATTEMPT_RUNNING);
    for (int i = 0; i < 11; i++) {
        tick_after(&f, 30000);
        beat(&f, "a", session);
    }
    report(&f, "a", session, id, 21, ATTEMPT_EXITED);
    assert_int_equal(cluster_live_status(f.cluster, id)->backoff_ms, 1000);
    fixture_close(&f);
}

/* ---- cancel and requeue ---- */

static void cancel_ends_queued_and_running_tasks(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t waiting = submit_task(&f);
    assert_int_equal(stop(&f, CLUSTER_CANCEL, waiting, -1)->result, 0);
    assert_int_equal(find(&f, CLUSTER_STORE_STATUS)->status->state, WORKLOAD_CANCELLED);
    const struct cluster_action *reply = stop(&f, CLUSTER_CANCEL, waiting, -1);
    assert_int_equal(reply->result, -ERR_CONFLICT);
    assert_string_equal(reply->text, "it has already ended (cancelled)");
    assert_int_equal(stop(&f, CLUSTER_CANCEL, 99, -1)->result, -ERR_NOT_FOUND);

    uint64_t session = hello(&f, "a");
    uint64_t id = submit_task(&f);
    stop(&f, CLUSTER_CANCEL, id, -1);
    assert_int_equal(state_of(&f, id), WORKLOAD_STOPPING);
    assert_int_equal(find(&f, CLUSTER_SEND_STOP)->grace_ms, 10000);
    stop(&f, CLUSTER_CANCEL, id, 20000); /* longer than the present grace period: ignored */
    assert_null(find(&f, CLUSTER_SEND_STOP));
    stop(&f, CLUSTER_CANCEL, id, 0);
    assert_int_equal(find(&f, CLUSTER_SEND_STOP)->grace_ms, 0);
    assert_int_equal(stop(&f, CLUSTER_REQUEUE, id, -1)->result, -ERR_CONFLICT);
    tick_after(&f, f.config.resend_ms);
    assert_non_null(find(&f, CLUSTER_SEND_STOP)); /* repeated until confirmed */
    report(&f, "a", session, id, 1, ATTEMPT_RUNNING);
    report(&f, "a", session, id, 1, ATTEMPT_EXITED);
    assert_int_equal(find(&f, CLUSTER_STORE_STATUS)->status->state, WORKLOAD_CANCELLED);
    assert_string_equal(find(&f, CLUSTER_STORE_STATUS)->status->text, "cancelled while running");
    fixture_close(&f);
}

static void requeue_opens_uncounted_attempt(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t id = submit_task(&f);
    assert_int_equal(stop(&f, CLUSTER_REQUEUE, id, -1)->result, -ERR_CONFLICT);
    uint64_t session = hello(&f, "a");
    report(&f, "a", session, id, 1, ATTEMPT_RUNNING);
    assert_int_equal(stop(&f, CLUSTER_REQUEUE, id, 5)->result, 0);
    assert_int_equal(find(&f, CLUSTER_SEND_STOP)->grace_ms, 5);
    report_failure(&f, "a", session, id, 1);
    assert_int_equal(state_of(&f, id), WORKLOAD_PLACED);
    assert_int_equal(cluster_live_status(f.cluster, id)->attempts_total, 2);
    assert_int_equal(cluster_live_status(f.cluster, id)->failures, 0);
    stop(&f, CLUSTER_REQUEUE, id, -1);
    stop(&f, CLUSTER_CANCEL, id, -1); /* the last command counts */
    report(&f, "a", session, id, 2, ATTEMPT_EXITED);
    assert_int_equal(find(&f, CLUSTER_STORE_STATUS)->status->state, WORKLOAD_CANCELLED);
    const struct cluster_action *reply = stop(&f, CLUSTER_REQUEUE, id, -1);
    assert_string_equal(reply->text, "it has already ended (cancelled); submit it again instead");
    fixture_close(&f);
}

/* ---- time, retention, loading, cost ---- */

static void clock_jumps_keep_timers_correct(void **state)
{
    struct fixture f;
    struct workload_needs needs = task_needs();
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    needs.retries = 1;
    uint64_t id = submit(&f, &needs);
    report_failure(&f, "a", session, id, 1);
    f.now.wall_ms = 0; /* 1970 */
    tick_after(&f, 500);
    assert_int_equal(state_of(&f, id), WORKLOAD_QUEUED);
    f.now.wall_ms = INT64_C(4102444800000); /* 2100 */
    tick_after(&f, 500);
    assert_int_equal(state_of(&f, id), WORKLOAD_PLACED);
    f.now.boot_ms -= 5000; /* impossible on one machine, but harmless */
    beat(&f, "a", session);
    assert_non_null(find(&f, CLUSTER_SEND_BEAT));
    assert_true(cluster_next_tick(f.cluster) < INT64_MAX);
    fixture_close(&f);
}

static void finished_workloads_beyond_retention_are_deleted(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    fixture_close(&f);
    f.config.keep_finished_max = 2;
    f.config.keep_finished_ms = 1000;
    f.config.clock_steady_ms = 0;
    cluster_actions_init(&f.actions);
    assert_int_equal(cluster_new(&f.config, &f.cluster), 0);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(submit_task(&f), id);
        stop(&f, CLUSTER_CANCEL, id, -1);
    }
    assert_int_equal(find(&f, CLUSTER_STORE_DELETE)->workload, 1);
    assert_int_equal(stop(&f, CLUSTER_CANCEL, 1, -1)->result, -ERR_NOT_FOUND);
    assert_int_equal(cluster_next_tick(f.cluster), f.now.boot_ms + 1000);
    tick_after(&f, 1000);
    assert_int_equal(count_of(&f, CLUSTER_STORE_DELETE), 2);
    assert_int_equal(cluster_next_tick(f.cluster), INT64_MAX);
    fixture_close(&f);
}

static void wrong_clock_deletes_no_history(void **state)
{
    enum { HOUR_MS = 3600 * 1000, DAY_MS = 24 * HOUR_MS };
    struct fixture f;
    (void)state;
    fixture_open(&f);
    submit_task(&f);
    stop(&f, CLUSTER_CANCEL, 1, -1);
    int64_t right_wall_ms = f.now.wall_ms;
    f.now.wall_ms += INT64_C(200) * DAY_MS;
    tick_after(&f, 1000);
    assert_int_equal(count_of(&f, CLUSTER_STORE_DELETE), 0);
    tick_after(&f, HOUR_MS - 1000);
    assert_int_equal(count_of(&f, CLUSTER_STORE_DELETE), 0);
    assert_true(cluster_next_tick(f.cluster) <= f.now.boot_ms + HOUR_MS);
    f.now.wall_ms = right_wall_ms + HOUR_MS;
    for (int hour = 0; hour < 3; hour++) {
        tick_after(&f, HOUR_MS);
        assert_int_equal(count_of(&f, CLUSTER_STORE_DELETE), 0);
    }
    assert_true(cluster_next_tick(f.cluster) > f.now.boot_ms); /* no busy loop */

    f.now.wall_ms += INT64_C(31) * DAY_MS; /* the correct time from now on */
    tick_after(&f, 1000);
    assert_int_equal(count_of(&f, CLUSTER_STORE_DELETE), 0);
    tick_after(&f, cluster_next_tick(f.cluster) - f.now.boot_ms);
    tick_after(&f, HOUR_MS);
    assert_int_equal(count_of(&f, CLUSTER_STORE_DELETE), 1);
    fixture_close(&f);
}

static void loaded_cluster_continues_stored_workloads(void **state)
{
    struct fixture f;
    struct node_info info = node_info("a", "i", 1);
    struct workload_needs needs = task_needs();
    struct attempt attempt = {.number = 1, .node = "a", .device_count = 1, .devices = {"a-0"}};
    struct workload_status running = {.state = WORKLOAD_RUNNING,
                                      .attempts_total = 1,
                                      .attempts_kept = 1,
                                      .attempts = &attempt},
                           ended = {.state = WORKLOAD_FAILED, .ended_wall_ms = 1},
                           waiting = {.state = WORKLOAD_QUEUED};
    struct cluster_after on_running = {.workload = 2, .succeeded = true},
                         on_failed = {.workload = 1, .succeeded = true};
    struct cluster_stored stored[] = {
        {.id = 4,
         .name = "w",
         .needs = &needs,
         .after_count = 1,
         .after = &on_failed,
         .status = &waiting},
        {.id = 3,
         .name = "w",
         .needs = &needs,
         .after_count = 1,
         .after = &on_running,
         .status = &waiting},
        {.id = 2,
         .name = "w",
         .key = "k",
         .key_first = 1,
         .key_count = 2,
         .needs = &needs,
         .status = &running},
        {.id = 1, .name = "w", .key = "k", .key_first = 1, .key_count = 2, .status = &ended},
    };
    (void)state;
    fixture_open(&f);
    cluster_free(f.cluster);
    assert_int_equal(cluster_new(&f.config, &f.cluster), 0);
    assert_int_equal(cluster_load_node(f.cluster, &info, true), 0);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(cluster_load_workload(f.cluster, &stored[i]), 0);
    cluster_load_done(f.cluster, 9, f.now);
    assert_int_equal(cluster_next_tick(f.cluster), f.now.boot_ms);
    tick_after(&f, 0);
    assert_null(cluster_live_status(f.cluster, 4));
    tick_after(&f, LOST_MS - 1);
    assert_int_equal(state_of(&f, 2), WORKLOAD_RUNNING);
    struct attempt_report exited = {.workload = 2, .attempt = 1, .phase = ATTEMPT_EXITED};
    hello_as(&f, "a", "i", &exited, 1);
    assert_null(cluster_live_status(f.cluster, 2));
    assert_int_equal(state_of(&f, 3), WORKLOAD_QUEUED); /* the node is still drained */
    drain(&f, "a", false);
    assert_int_equal(state_of(&f, 3), WORKLOAD_PLACED);
    struct cluster_submission item = {.name = "w", .needs = &needs};
    struct cluster_event event = {.kind = CLUSTER_SUBMIT};
    event.submit.key = "k";
    event.submit.count = 1;
    event.submit.items = &item;
    step(&f, &event);
    assert_true(find(&f, CLUSTER_REPLY)->repeated);
    assert_int_equal(find(&f, CLUSTER_REPLY)->count, 2);
    assert_int_equal(submit_task(&f), 10);
    fixture_close(&f);
}

/* A submission to a full cluster costs no decision; a freed device costs one per requirement. */
static size_t decisions;

static size_t counting_decide(const struct policy_snapshot *snapshot, struct policy_device *scratch,
                              struct policy_decision *out)
{
    decisions++;
    return policy_find("firstfit")->decide(snapshot, scratch, out);
}

static void long_queue_costs_few_decisions(void **state)
{
    static const struct policy counting = {
        .name = "counting", .summary = "counts", .decide = counting_decide};
    struct fixture f;
    struct workload_needs whole = task_needs();
    (void)state;
    fixture_open(&f);
    fixture_close(&f);
    f.config.policy = &counting;
    cluster_actions_init(&f.actions);
    assert_int_equal(cluster_new(&f.config, &f.cluster), 0);
    whole.quota_bytes = 0;
    uint64_t session = hello(&f, "a");
    for (int i = 0; i < 10000; i++)
        submit(&f, &whole);
    assert_int_equal(decisions, 2); /* for the first workload, and for the first refused one */
    decisions = 0;
    report(&f, "a", session, 1, 1, ATTEMPT_EXITED);
    assert_int_equal(find(&f, CLUSTER_SEND_GRANT)->workload, 2);
    assert_int_equal(decisions, 2);
    struct cluster_counts counts;
    cluster_count(f.cluster, &counts);
    assert_int_equal(counts.live, 9999);
    assert_int_equal(counts.by_state[WORKLOAD_QUEUED], 9998);
    assert_int_equal(counts.by_state[WORKLOAD_SUCCEEDED], 1);
    fixture_close(&f);
}

/* The flag tells the node whether there may be a checkpoint to continue from. */
static void grant_after_run_sets_ran_before(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    uint64_t id = submit_task(&f);
    assert_false(find(&f, CLUSTER_SEND_GRANT)->ran_before);
    const struct attempt_report never = {
        .workload = id, .attempt = 1, .phase = ATTEMPT_EXITED, .never_ran = true};
    report_full(&f, "a", session, &never);
    assert_false(find(&f, CLUSTER_SEND_GRANT)->ran_before);
    report(&f, "a", session, id, 2, ATTEMPT_RUNNING);
    const struct attempt_report ended = {
        .workload = id, .attempt = 2, .phase = ATTEMPT_EXITED, .verdict = VERDICT_MOVED};
    report_full(&f, "a", session, &ended);
    assert_true(find(&f, CLUSTER_SEND_GRANT)->ran_before);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(task_runs_from_submit_to_success),
        cmocka_unit_test(queue_orders_by_priority_then_age),
        cmocka_unit_test(queued_task_states_wait_reason),
        cmocka_unit_test(preview_predicts_placement),
        cmocka_unit_test(submission_beyond_queue_limit_is_refused),
        cmocka_unit_test(submission_beyond_user_limit_is_refused),
        cmocka_unit_test(repeated_key_returns_first_submission),
        cmocka_unit_test(invalid_dependencies_are_refused),
        cmocka_unit_test(dependencies_beyond_limit_are_refused),
        cmocka_unit_test(dependents_start_or_fail_with_dependency),
        cmocka_unit_test(retries_back_off_then_fail_task),
        cmocka_unit_test(same_start_failure_twice_fails_task),
        cmocka_unit_test(kill_by_node_counts_no_failure),
        cmocka_unit_test(service_restarts_with_bounded_backoff),
        cmocka_unit_test(cancel_ends_queued_and_running_tasks),
        cmocka_unit_test(requeue_opens_uncounted_attempt),
        cmocka_unit_test(clock_jumps_keep_timers_correct),
        cmocka_unit_test(finished_workloads_beyond_retention_are_deleted),
        cmocka_unit_test(wrong_clock_deletes_no_history),
        cmocka_unit_test(loaded_cluster_continues_stored_workloads),
        cmocka_unit_test(long_queue_costs_few_decisions),
        cmocka_unit_test(grant_after_run_sets_ran_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
