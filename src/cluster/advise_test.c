/* Tests of advice to the programs of a workload. */
#include "cluster/cluster_fixture.h"

static const struct cluster_action *advise(struct fixture *f, uint64_t id, int64_t batch,
                                           bool checkpoint)
{
    struct cluster_event event = {.kind = CLUSTER_ADVISE};
    event.advise.workload = id;
    event.advise.batch = batch;
    event.advise.checkpoint = checkpoint;
    step(f, &event);
    return find(f, CLUSTER_REPLY);
}

static void say(struct fixture *f, uint64_t session, uint64_t id, int attempt, int advice)
{
    struct attempt_report report = {
        .workload = id, .attempt = attempt, .phase = ATTEMPT_RUNNING, .advice = advice};
    report_full(f, "a", session, &report);
}

static void expect_sent(struct fixture *f, int sequence, int64_t batch, int checkpoints)
{
    const struct cluster_action *sent = find(f, CLUSTER_SEND_ADVISE);
    assert_non_null(sent);
    assert_int_equal(sent->advice.sequence, sequence);
    assert_int_equal(sent->advice.batch, batch);
    assert_int_equal(sent->advice.checkpoints, checkpoints);
}

static void advice_is_stored_and_repeated_until_received(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    struct workload_needs needs = task_needs();
    uint64_t id = submit(&f, &needs);
    say(&f, session, id, 1, 0);
    assert_null(find(&f, CLUSTER_SEND_ADVISE));
    assert_int_equal(advise(&f, id, 64, true)->result, 0);
    expect_sent(&f, 1, 64, 1);
    assert_int_equal(find(&f, CLUSTER_STORE_STATUS)->status->advice.sequence, 1);
    assert_true(logged(&f, "advised"));
    tick_after(&f, f.config.resend_ms);
    expect_sent(&f, 1, 64, 1);
    say(&f, session, id, 1, 1);
    tick_after(&f, f.config.resend_ms);
    assert_null(find(&f, CLUSTER_SEND_ADVISE));
    assert_int_equal(advise(&f, id, -1, true)->result, 0);
    expect_sent(&f, 2, 64, 2);  /* the batch size is unchanged */
    say(&f, session, id, 1, 1); /* an old report */
    tick_after(&f, f.config.resend_ms);
    expect_sent(&f, 2, 64, 2);
    /* A new session of the node repeats it at once. */
    struct attempt_report open = {
        .workload = id, .attempt = 1, .phase = ATTEMPT_RUNNING, .advice = 1};
    (void)hello_as(&f, "a", "i", &open, 1);
    expect_sent(&f, 2, 64, 2);
    fixture_close(&f);
}

static void batch_outlives_attempt_and_checkpoint_does_not(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    uint64_t session = hello(&f, "a");
    struct workload_needs needs = task_needs();
    uint64_t id = submit(&f, &needs);
    assert_int_equal(advise(&f, id, -1, true)->result, -ERR_CONFLICT); /* not running yet */
    assert_int_equal(advise(&f, id, 48, false)->result, 0);
    assert_null(find(&f, CLUSTER_SEND_ADVISE));
    say(&f, session, id, 1, 0);
    expect_sent(&f, 1, 48, 0);
    say(&f, session, id, 1, 1);
    assert_int_equal(advise(&f, id, -1, true)->result, 0);
    assert_int_equal(stop(&f, CLUSTER_REQUEUE, id, 0)->result, 0);
    assert_int_equal(advise(&f, id, 32, false)->result, -ERR_CONFLICT); /* being ended */
    struct attempt_report end = {.workload = id,
                                 .attempt = 1,
                                 .phase = ATTEMPT_EXITED,
                                 .failure = FAILURE_SIGNAL,
                                 .signal = 15,
                                 .advice = 1};
    report_full(&f, "a", session, &end);
    say(&f, session, id, 2, 0);
    expect_sent(&f, 2, 48, 0);
    assert_int_equal(stop(&f, CLUSTER_CANCEL, id, 0)->result, 0);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(advice_is_stored_and_repeated_until_received),
        cmocka_unit_test(batch_outlives_attempt_and_checkpoint_does_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
