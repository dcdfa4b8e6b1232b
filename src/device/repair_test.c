/* Faults: tenants that are ended, suspected or blamed, and the repair of the device. */
#include "device/device_fixture.h"

#include <stdio.h>
#include <string.h>

static void fault_among_clients_makes_tasks_suspects(void **state)
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

static void services_return_before_tasks_after_repair(void **state)
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

static void client_faulting_alone_is_guilty(void **state)
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
static void broken_device_acquits_tenants(void **state)
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

static void fault_outside_mps_blames_only_suspect(void **state)
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

static void fault_seen_by_mps_keeps_suspect(void **state)
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

static void silent_mps_ends_clients_as_suspects(void **state)
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

static void failing_task_without_mps_is_guilty(void **state)
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

static void suspect_is_cleared_after_probation(void **state)
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

static void suspect_during_fault_is_not_cleared(void **state)
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

static void removed_channel_after_end_is_noted(void **state)
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

static void fatal_xid_disables_device(void **state)
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

static void lost_device_is_disabled_without_xid(void **state)
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

static void unresponsive_device_is_disabled(void **state)
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

static void other_xid_is_only_noted(void **state)
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

static void fault_without_tenants_keeps_admission(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    xid(&f, 31);
    assert_int_equal(f.actions.count, 1);
    assert_int_equal(device_admission(f.d), ADMIT_ALL);
    fixture_close(&f);
}

static void lost_mps_is_replaced_and_tested(void **state)
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

static void failed_mps_replacement_is_retried(void **state)
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

static void isolated_tenant_fault_spares_neighbour(void **state)
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

static void lingering_client_never_blocks_mps_replacement(void **state)
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

static void mps_staying_faulted_is_replaced(void **state)
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

static void repair_continues_with_next_agent(void **state)
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

static void adopted_moved_tenant_alone_is_ended(void **state)
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

static void moved_tenant_grace_shortens_after_fault(void **state)
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

static void fault_during_grace_ends_earlier(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 1, WORKLOAD_TASK, false);
    came(&f, 2, WORKLOAD_SERVICE, false);
    known(&f, 1)->memory_bytes = 5 * (uint64_t)FIXTURE_GIB;
    known(&f, 1)->has_memory = f.sample.has_strangers = true;
    f.sample.memory_used_bytes = f.sample.memory_bytes / 100 * 98;
    sample(&f);
    assert_int_equal(grace_of(&f, 1), 10000);
    pass(&f, 1000);
    fixture_forget(&f);
    xid(&f, 31);
    assert_int_equal(grace_of(&f, 1), 1000);
    assert_int_equal(verdict(&f, 1, false), VERDICT_SUSPECT);
    xid(&f, 31); /* neither graver nor earlier */
    assert_null(find_action(&f, DEVICE_ACT_END, 1));
    fixture_close(&f);
}

static void lost_mps_needs_passed_self_test(void **state)
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

static void operator_disable_survives_mps_repair(void **state)
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
        cmocka_unit_test(fault_among_clients_makes_tasks_suspects),
        cmocka_unit_test(services_return_before_tasks_after_repair),
        cmocka_unit_test(client_faulting_alone_is_guilty),
        cmocka_unit_test(broken_device_acquits_tenants),
        cmocka_unit_test(fault_outside_mps_blames_only_suspect),
        cmocka_unit_test(fault_seen_by_mps_keeps_suspect),
        cmocka_unit_test(silent_mps_ends_clients_as_suspects),
        cmocka_unit_test(failing_task_without_mps_is_guilty),
        cmocka_unit_test(suspect_is_cleared_after_probation),
        cmocka_unit_test(suspect_during_fault_is_not_cleared),
        cmocka_unit_test(removed_channel_after_end_is_noted),
        cmocka_unit_test(fatal_xid_disables_device),
        cmocka_unit_test(lost_device_is_disabled_without_xid),
        cmocka_unit_test(unresponsive_device_is_disabled),
        cmocka_unit_test(other_xid_is_only_noted),
        cmocka_unit_test(fault_without_tenants_keeps_admission),
        cmocka_unit_test(lost_mps_is_replaced_and_tested),
        cmocka_unit_test(failed_mps_replacement_is_retried),
        cmocka_unit_test(isolated_tenant_fault_spares_neighbour),
        cmocka_unit_test(lingering_client_never_blocks_mps_replacement),
        cmocka_unit_test(mps_staying_faulted_is_replaced),
        cmocka_unit_test(repair_continues_with_next_agent),
        cmocka_unit_test(adopted_moved_tenant_alone_is_ended),
        cmocka_unit_test(moved_tenant_grace_shortens_after_fault),
        cmocka_unit_test(fault_during_grace_ends_earlier),
        cmocka_unit_test(lost_mps_needs_passed_self_test),
        cmocka_unit_test(operator_disable_survives_mps_repair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
