/* Faults: tenants that are ended, suspected or blamed, and the repair of the device. */
#include "device/device_fixture.h"

#include <stdio.h>
#include <string.h>

static void test_a_fault_among_several_clients_blames_none(void **state)
{
    static const int own[] = {13, 31, 43, 45, 68};
    (void)state;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        struct fixture f;
        fixture_open_healthy(&f);
        came(&f, 1, WORKLOAD_TASK, false);
        came(&f, 2, WORKLOAD_TASK, false);
        came(&f, 3, WORKLOAD_SERVICE, false);
        xid(&f, own[i]);
        for (uint64_t w = 1; w <= 3; w++)
            assert_non_null(find_action(&f, DEVICE_ACT_END, w));
        assert_int_equal(verdict(&f, 1, true), VERDICT_SUSPECT);
        assert_int_equal(verdict(&f, 2, true), VERDICT_SUSPECT);
        assert_int_equal(verdict(&f, 3, true), VERDICT_MOVED);
        assert_int_equal(device_state(f.d), DEVICE_HEALTHY);
        assert_int_equal(device_admission(f.d), ADMIT_NONE);
        assert_non_null(strstr(device_cause(f.d), "Xid"));
        fixture_close(&f);
    }
}

static void test_services_come_back_before_tasks(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 1, WORKLOAD_TASK, false);
    came(&f, 2, WORKLOAD_SERVICE, false);
    xid(&f, 31);
    left(&f, 1, true);
    fixture_forget(&f);
    sample(&f);
    assert_int_equal(f.counts[DEVICE_ACT_MPS_CHECK], 0); /* one client is still present */
    left(&f, 2, true);
    assert_non_null(find_action(&f, DEVICE_ACT_MPS_CHECK, 0));
    mps(&f, DEVICE_MPS_FAULTED); /* not ready yet */
    assert_int_equal(device_admission(f.d), ADMIT_NONE);
    pass(&f, 600);
    assert_true(f.counts[DEVICE_ACT_MPS_CHECK] >= 2); /* MPS is asked again */
    mps(&f, DEVICE_MPS_READY);
    assert_int_equal(device_admission(f.d), ADMIT_SERVICES);
    pass(&f, 3000);
    assert_int_equal(device_admission(f.d), ADMIT_ALL);
    fixture_close(&f);
}

static void test_who_faults_alone_is_guilty(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 1, WORKLOAD_SERVICE, false);
    xid(&f, 13);
    assert_int_equal(verdict(&f, 1, true), VERDICT_GUILTY);
    fixture_close(&f);
}

/* MPS may report the fault shortly before the driver reports its cause. */
static void test_nobody_is_guilty_of_a_device_that_breaks(void **state)
{
    struct fixture f;
    (void)state;
    for (uint64_t tenants = 1; tenants <= 2; tenants++) {
        fixture_open_healthy(&f);
        for (uint64_t w = 1; w <= tenants; w++)
            came(&f, w, WORKLOAD_TASK, false);
        mps(&f, DEVICE_MPS_FAULTED);
        assert_int_equal(verdict(&f, 1, true), tenants == 1 ? VERDICT_GUILTY : VERDICT_SUSPECT);
        fixture_forget(&f);
        xid(&f, 48);
        for (uint64_t w = 1; w <= tenants; w++) {
            assert_int_equal(verdict(&f, w, true), VERDICT_MOVED);
            const struct device_action *acquits = find_action(&f, DEVICE_ACT_ACQUIT, w);
            assert_non_null(acquits);
            assert_non_null(strstr(acquits->text, "its device is disabled: Xid 48"));
        }
        fixture_close(&f);
    }
}

static void test_a_suspect_that_is_no_client_is_guilty_and_nobody_else_leaves(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 1, WORKLOAD_SERVICE, false);
    suspect_came(&f, 2);
    xid(&f, 31);
    assert_non_null(find_action(&f, DEVICE_ACT_MPS_CHECK, 0));
    assert_int_equal(f.counts[DEVICE_ACT_END], 0);
    assert_true(device_is_asking(f.d));
    mps(&f, DEVICE_MPS_READY);
    assert_false(device_is_asking(f.d));
    assert_non_null(find_action(&f, DEVICE_ACT_END, 2));
    assert_int_equal(verdict(&f, 2, true), VERDICT_GUILTY);
    assert_int_equal(verdict(&f, 1, true), VERDICT_OWN);
    xid(&f, 45); /* the removed channel belongs to the guilty tenant */
    assert_int_equal(verdict(&f, 1, true), VERDICT_OWN);
    assert_int_equal(device_admission(f.d), ADMIT_ALL);
    fixture_close(&f);
}

static void test_mps_saw_the_fault_then_the_suspect_stays(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 1, WORKLOAD_SERVICE, false);
    came(&f, 3, WORKLOAD_TASK, false);
    suspect_came(&f, 2);
    xid(&f, 31);
    mps(&f, DEVICE_MPS_FAULTED);
    assert_non_null(find_action(&f, DEVICE_ACT_END, 1));
    assert_non_null(find_action(&f, DEVICE_ACT_END, 3));
    assert_null(find_action(&f, DEVICE_ACT_END, 2));
    fixture_close(&f);
}

static void test_without_a_word_of_mps_its_clients_leave_and_none_is_blamed(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 1, WORKLOAD_TASK, false);
    suspect_came(&f, 2);
    xid(&f, 31);
    pass(&f, 4800);
    assert_int_equal(f.counts[DEVICE_ACT_END], 0);
    pass(&f, 400);
    assert_int_equal(f.counts[DEVICE_ACT_END], 1);
    /* The only client, but not certainly the culprit. */
    assert_int_equal(verdict(&f, 1, true), VERDICT_SUSPECT);
    assert_int_equal(verdict(&f, 2, true), VERDICT_OWN);
    fixture_close(&f);
}

static void test_without_mps_the_one_that_fails_did_it(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 1, WORKLOAD_TASK, true);
    came(&f, 2, WORKLOAD_TASK, true);
    assert_int_equal(verdict(&f, 2, true), VERDICT_OWN);
    xid(&f, 31);
    assert_int_equal(f.counts[DEVICE_ACT_END], 0);
    assert_int_equal(verdict(&f, 1, false), VERDICT_OWN);
    assert_int_equal(verdict(&f, 2, true), VERDICT_GUILTY);
    left(&f, 2, true);
    assert_int_equal(verdict(&f, 1, true), VERDICT_OWN); /* one fault has one culprit */
    xid(&f, 31);
    pass(&f, 5200);
    assert_int_equal(verdict(&f, 1, true), VERDICT_GUILTY); /* alone: judged at once */
    fixture_close(&f);
}

static void test_a_suspect_is_cleared_after_its_probation(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    suspect_came(&f, 2);
    pass(&f, 59800);
    assert_int_equal(f.counts[DEVICE_ACT_CLEAR], 0);
    sample(&f);
    assert_non_null(find_action(&f, DEVICE_ACT_CLEAR, 2));
    pass(&f, 60000);
    assert_int_equal(f.counts[DEVICE_ACT_CLEAR], 1);
    fixture_close(&f);
}

static void test_a_suspect_is_not_cleared_while_a_fault_is_judged(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 1, WORKLOAD_SERVICE, false);
    suspect_came(&f, 2);
    pass(&f, 59400);
    xid(&f, 31);
    assert_true(device_is_asking(f.d));
    pass(&f, 1000);
    assert_true(device_is_asking(f.d));
    assert_int_equal(f.counts[DEVICE_ACT_CLEAR], 0);
    mps(&f, DEVICE_MPS_READY);
    assert_non_null(find_action(&f, DEVICE_ACT_END, 2));
    assert_int_equal(verdict(&f, 2, true), VERDICT_GUILTY);
    fixture_close(&f);
}

static void test_removed_channels_after_an_end_are_no_fault(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 1, WORKLOAD_TASK, false);
    came(&f, 2, WORKLOAD_SERVICE, false);
    left(&f, 1, true);
    pass(&f, 400);
    xid(&f, 45);
    assert_int_equal(f.counts[DEVICE_ACT_NOTE], 1);
    assert_int_equal(f.counts[DEVICE_ACT_END], 0);
    fixture_close(&f);
}

static void test_fatal_xids_disable(void **state)
{
    static const int fatal[] = {48, 63, 64, 74, 79, 92, 94, 95, 119, 120};
    (void)state;
    for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++) {
        struct fixture f;
        fixture_open_healthy(&f);
        came(&f, 1, WORKLOAD_TASK, false);
        came(&f, 2, WORKLOAD_SERVICE, true);
        xid(&f, fatal[i]);
        assert_int_equal(device_state(f.d), DEVICE_DISABLED);
        assert_non_null(find_action(&f, DEVICE_ACT_ALARM, 0));
        assert_int_equal(verdict(&f, 1, true), VERDICT_MOVED);
        assert_int_equal(verdict(&f, 2, true), VERDICT_MOVED);
        pass(&f, 3600000);
        assert_int_equal(device_state(f.d), DEVICE_DISABLED);
        operator_says(&f, true);
        assert_int_equal(device_state(f.d), DEVICE_INIT);
        fixture_close(&f);
    }
}

static void test_a_device_that_is_lost_is_broken_without_an_xid(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 1, WORKLOAD_SERVICE, false);
    came(&f, 2, WORKLOAD_TASK, true);
    f.sample.valid = false;
    f.sample.lost = true;
    pass(&f, 60000);
    assert_int_equal(f.counts[DEVICE_ACT_ALARM], 1);
    assert_int_equal(f.counts[DEVICE_ACT_END], 2);
    assert_int_equal(device_state(f.d), DEVICE_DISABLED);
    assert_int_equal(device_admission(f.d), ADMIT_NONE);
    assert_true(device_needs_operator(f.d));
    assert_non_null(strstr(device_cause(f.d), "fallen off the bus"));
    for (uint64_t workload = 1; workload <= 2; workload++)
        assert_int_equal(verdict(&f, workload, true), VERDICT_MOVED);
    f.sample.valid = true; /* an operator must enable the device nevertheless */
    f.sample.lost = false;
    pass(&f, 60000);
    assert_int_equal(device_state(f.d), DEVICE_DISABLED);
    operator_says(&f, true);
    pass(&f, 600);
    assert_int_equal(device_state(f.d), DEVICE_HEALTHY);
    f.sample.valid = false;
    f.sample.lost = true;
    sample(&f);
    assert_int_equal(device_state(f.d), DEVICE_DISABLED);
    assert_int_equal(f.counts[DEVICE_ACT_ALARM], 2);
    fixture_close(&f);
}

static void test_a_device_that_answers_nothing_is_broken(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 1, WORKLOAD_TASK, false);
    for (int i = 0; i < 10; i++) { /* occasional silence and a stopped machine have no effect */
        f.sample.valid = false;
        pass(&f, 5000);
        f.now_ms += 3600000;
        sample(&f);
        f.sample.valid = true;
        sample(&f);
    }
    assert_int_equal(device_state(f.d), DEVICE_HEALTHY);
    f.sample.valid = false;
    pass(&f, 9800);
    assert_int_equal(device_state(f.d), DEVICE_HEALTHY);
    pass(&f, 200);
    assert_int_equal(device_state(f.d), DEVICE_DISABLED);
    assert_true(device_needs_operator(f.d));
    assert_non_null(find_action(&f, DEVICE_ACT_END, 1));
    assert_int_equal(verdict(&f, 1, true), VERDICT_MOVED);
    assert_int_equal(f.counts[DEVICE_ACT_ALARM], 1);
    fixture_close(&f);
}

static void test_any_other_xid_is_an_event(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 1, WORKLOAD_TASK, false);
    xid(&f, 62);
    assert_int_equal(f.actions.count, 1);
    assert_non_null(find_action(&f, DEVICE_ACT_NOTE, 0));
    assert_non_null(strstr(f.said, "62"));
    assert_int_equal(device_state(f.d), DEVICE_HEALTHY);
    fixture_close(&f);
}

static void test_a_fault_with_nobody_there_is_an_event(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    xid(&f, 31);
    assert_int_equal(f.actions.count, 1);
    assert_int_equal(device_admission(f.d), ADMIT_ALL);
    fixture_close(&f);
}

static void test_lost_mps_is_replaced_and_tested(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 1, WORKLOAD_TASK, false);
    came(&f, 2, WORKLOAD_SERVICE, false);
    mps(&f, DEVICE_MPS_LOST);
    assert_int_equal(device_state(f.d), DEVICE_DISABLED);
    assert_non_null(find_action(&f, DEVICE_ACT_END, 1));
    assert_non_null(find_action(&f, DEVICE_ACT_END, 2));
    assert_int_equal(verdict(&f, 1, true), VERDICT_MOVED);
    assert_null(find_action(&f, DEVICE_ACT_MPS_REPLACE, 0));
    left(&f, 1, true);
    left(&f, 2, true);
    assert_non_null(find_action(&f, DEVICE_ACT_MPS_REPLACE, 0));
    mps(&f, DEVICE_MPS_READY);
    assert_non_null(find_action(&f, DEVICE_ACT_SELF_TEST, 0));
    assert_int_equal(device_state(f.d), DEVICE_DISABLED);
    self_tested(&f, false);
    fixture_forget(&f);
    pass(&f, 9800);
    assert_int_equal(f.counts[DEVICE_ACT_MPS_REPLACE], 0);
    sample(&f);
    assert_int_equal(f.counts[DEVICE_ACT_MPS_REPLACE], 1);
    mps(&f, DEVICE_MPS_READY);
    self_tested(&f, true);
    assert_int_equal(device_state(f.d), DEVICE_INIT);
    fixture_close(&f);
}

static void test_a_replacement_that_fails_is_tried_again(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    mps(&f, DEVICE_MPS_LOST);
    assert_int_equal(f.counts[DEVICE_ACT_MPS_REPLACE], 1);
    mps(&f, DEVICE_MPS_LOST);
    assert_int_equal(f.counts[DEVICE_ACT_SELF_TEST], 0);
    assert_int_equal(device_state(f.d), DEVICE_DISABLED);
    fixture_forget(&f);
    pass(&f, 10000);
    assert_int_equal(f.counts[DEVICE_ACT_MPS_REPLACE], 1);
    fixture_close(&f);
}

static void test_one_that_does_without_mps_faults_for_itself(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 1, WORKLOAD_TASK, false);
    came(&f, 2, WORKLOAD_TASK, false);
    for (uint64_t i = 1; i <= 2; i++)
        step(&f, &(struct device_event){.kind = DEVICE_TENANT_CHANGED,
                                        .now_ms = f.now_ms,
                                        .came = &(const struct device_tenant_info){
                                            .workload = i, .attempt = 1, .isolated = true}});
    xid(&f, 31);
    assert_int_equal(f.counts[DEVICE_ACT_END], 0);
    assert_int_equal(verdict(&f, 1, true), VERDICT_GUILTY);
    left(&f, 1, true);
    assert_int_equal(verdict(&f, 2, true), VERDICT_OWN);
    fixture_close(&f);
}

static void test_a_client_that_stays_does_not_keep_mps_from_being_replaced(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 1, WORKLOAD_TASK, false);
    mps(&f, DEVICE_MPS_LOST);
    pass(&f, 2000);
    assert_int_equal(f.counts[DEVICE_ACT_END], 1);
    pass(&f, 3200);
    assert_int_equal(f.counts[DEVICE_ACT_MPS_REPLACE], 1);
    fixture_close(&f);
}

static void test_a_server_that_stays_faulted_is_lost(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 1, WORKLOAD_TASK, false);
    xid(&f, 31);
    left(&f, 1, true);
    for (int i = 0; i < 30 && device_state(f.d) != DEVICE_DISABLED; i++) {
        sample(&f);
        mps(&f, DEVICE_MPS_FAULTED);
    }
    assert_int_equal(device_state(f.d), DEVICE_DISABLED);
    assert_int_equal(f.counts[DEVICE_ACT_MPS_REPLACE], 1);
    fixture_close(&f);
}

static void adopted(struct fixture *f, uint64_t workload, bool isolated,
                    enum attempt_verdict verdict)
{
    struct device_tenant_info info = {.workload = workload,
                                      .attempt = 1,
                                      .kind = WORKLOAD_TASK,
                                      .grace_ms = 10000,
                                      .isolated = isolated,
                                      .adopted = true,
                                      .verdict = verdict};
    (void)snprintf(info.why, sizeof info.why, "%s", verdict == VERDICT_OWN ? "" : "Xid 31, before");
    step(f, &(struct device_event){.kind = DEVICE_TENANT_CAME, .now_ms = f->now_ms, .came = &info});
}

static void test_a_repair_goes_on_with_the_next_agent(void **state)
{
    struct fixture f;
    const char *why;
    (void)state;
    fixture_open(&f);
    adopted(&f, 1, false, VERDICT_SUSPECT);
    assert_non_null(find_action(&f, DEVICE_ACT_END, 1));
    assert_int_equal(device_admission(f.d), ADMIT_NONE);
    adopted(&f, 2, false, VERDICT_SUSPECT);
    assert_non_null(find_action(&f, DEVICE_ACT_END, 2));
    adopted(&f, 3, true, VERDICT_OWN); /* not a client, so unaffected */
    assert_null(find_action(&f, DEVICE_ACT_END, 3));
    assert_int_equal(device_verdict(f.d, 1, 1, true, &why), VERDICT_SUSPECT);
    assert_string_equal(why, "Xid 31, before");
    left(&f, 1, true);
    left(&f, 2, true);
    assert_non_null(find_action(&f, DEVICE_ACT_MPS_CHECK, 0));
    mps(&f, DEVICE_MPS_READY);
    assert_int_equal(device_admission(f.d), ADMIT_SERVICES);
    fixture_close(&f);
}

static void test_one_that_was_moved_goes_on_leaving_and_nobody_else(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    adopted(&f, 1, false, VERDICT_MOVED);
    assert_non_null(find_action(&f, DEVICE_ACT_END, 1));
    adopted(&f, 2, false, VERDICT_OWN);
    assert_null(find_action(&f, DEVICE_ACT_END, 2));
    fixture_close(&f);
}

static int64_t grace_of(const struct fixture *f, uint64_t workload)
{
    const struct device_action *end = find_action(f, DEVICE_ACT_END, workload);
    assert_non_null(end);
    return end->grace_ms;
}

static void test_one_that_was_moved_keeps_its_grace_unless_its_work_is_lost(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    adopted(&f, 1, false, VERDICT_MOVED);
    assert_int_equal(grace_of(&f, 1), 10000);
    adopted(&f, 2, false, VERDICT_SUSPECT);
    assert_int_equal(grace_of(&f, 2), 1000);
    adopted(&f, 3, false, VERDICT_MOVED); /* a client of the same MPS as the suspect */
    assert_int_equal(grace_of(&f, 3), 1000);
    adopted(&f, 4, true, VERDICT_MOVED);
    assert_int_equal(grace_of(&f, 4), 10000);
    fixture_close(&f);
    fixture_open(&f);
    mps(&f, DEVICE_MPS_LOST);
    adopted(&f, 1, false, VERDICT_MOVED);
    assert_int_equal(grace_of(&f, 1), 1000);
    fixture_close(&f);
}

static void test_a_lost_mps_needs_a_test_until_it_passed(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    assert_false(device_needs_test(f.d));
    step(&f, &(struct device_event){.kind = DEVICE_MPS,
                                    .now_ms = f.now_ms,
                                    .mps = DEVICE_MPS_LOST,
                                    .mps_why = "it hangs"});
    assert_true(device_needs_test(f.d));
    assert_string_equal(device_cause(f.d), "MPS was lost: it hangs");
    assert_false(device_needs_operator(f.d));
    mps(&f, DEVICE_MPS_READY);
    self_tested(&f, true);
    assert_false(device_needs_test(f.d));
    fixture_close(&f);
}

static void test_an_operator_is_not_overruled(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    operator_says(&f, false);
    mps(&f, DEVICE_MPS_LOST);
    mps(&f, DEVICE_MPS_READY);
    self_tested(&f, true);
    assert_int_equal(device_state(f.d), DEVICE_DISABLED);
    operator_says(&f, true);
    assert_int_equal(device_state(f.d), DEVICE_INIT);
    mps(&f, DEVICE_MPS_LOST);
    operator_says(&f, true); /* an operator cannot overrule the loss of MPS */
    assert_int_equal(device_state(f.d), DEVICE_DISABLED);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_fault_among_several_clients_blames_none),
        cmocka_unit_test(test_services_come_back_before_tasks),
        cmocka_unit_test(test_who_faults_alone_is_guilty),
        cmocka_unit_test(test_nobody_is_guilty_of_a_device_that_breaks),
        cmocka_unit_test(test_a_suspect_that_is_no_client_is_guilty_and_nobody_else_leaves),
        cmocka_unit_test(test_mps_saw_the_fault_then_the_suspect_stays),
        cmocka_unit_test(test_without_a_word_of_mps_its_clients_leave_and_none_is_blamed),
        cmocka_unit_test(test_without_mps_the_one_that_fails_did_it),
        cmocka_unit_test(test_a_suspect_is_cleared_after_its_probation),
        cmocka_unit_test(test_a_suspect_is_not_cleared_while_a_fault_is_judged),
        cmocka_unit_test(test_removed_channels_after_an_end_are_no_fault),
        cmocka_unit_test(test_fatal_xids_disable),
        cmocka_unit_test(test_a_device_that_is_lost_is_broken_without_an_xid),
        cmocka_unit_test(test_a_device_that_answers_nothing_is_broken),
        cmocka_unit_test(test_any_other_xid_is_an_event),
        cmocka_unit_test(test_a_fault_with_nobody_there_is_an_event),
        cmocka_unit_test(test_lost_mps_is_replaced_and_tested),
        cmocka_unit_test(test_a_replacement_that_fails_is_tried_again),
        cmocka_unit_test(test_one_that_does_without_mps_faults_for_itself),
        cmocka_unit_test(test_a_client_that_stays_does_not_keep_mps_from_being_replaced),
        cmocka_unit_test(test_a_server_that_stays_faulted_is_lost),
        cmocka_unit_test(test_a_repair_goes_on_with_the_next_agent),
        cmocka_unit_test(test_one_that_was_moved_goes_on_leaving_and_nobody_else),
        cmocka_unit_test(test_one_that_was_moved_keeps_its_grace_unless_its_work_is_lost),
        cmocka_unit_test(test_a_lost_mps_needs_a_test_until_it_passed),
        cmocka_unit_test(test_an_operator_is_not_overruled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
