/* The table of states, row by row. */
#include "device/device_fixture.h"

#include <string.h>

static const uint64_t GIB = FIXTURE_GIB;

/* Sets the memory use; the rest is held by other users. */
static void use_memory(struct fixture *f, uint64_t tenant, double used_gib, double tenant_gib)
{
    f->sample.memory_used_bytes = (uint64_t)(used_gib * (double)GIB);
    f->sample.has_strangers = used_gib > tenant_gib;
    known(f, tenant)->memory_bytes = (uint64_t)(tenant_gib * (double)GIB);
    known(f, tenant)->has_memory = true;
}

/* ---- Init ---- */

static void init_needs_three_valid_samples(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    assert_int_equal(device_admission(f.d), ADMIT_SERVICES);
    sample(&f);
    sample(&f);
    f.sample.valid = false;
    sample(&f);
    f.sample.valid = true;
    sample(&f);
    sample(&f);
    assert_int_equal(device_state(f.d), DEVICE_INIT);
    sample(&f);
    assert_int_equal(device_state(f.d), DEVICE_HEALTHY);
    assert_int_equal(device_admission(f.d), ADMIT_ALL);
    const struct device_action *a = find_action(&f, DEVICE_ACT_STATE, 0);
    assert_non_null(a);
    assert_int_equal(a->from, DEVICE_INIT);
    assert_int_equal(a->to, DEVICE_HEALTHY);
    assert_true(a->text[0]);
    fixture_close(&f);
}

static void init_refuses_only_new_tasks(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    came(&f, 1, WORKLOAD_TASK, false);
    assert_non_null(find_action(&f, DEVICE_ACT_END, 1));
    assert_int_equal(verdict(&f, 1, false), VERDICT_MOVED);
    came(&f, 2, WORKLOAD_SERVICE, false);
    assert_null(find_action(&f, DEVICE_ACT_END, 2));
    const struct device_tenant_info adopted = {
        .workload = 3, .attempt = 1, .kind = WORKLOAD_TASK, .adopted = true};
    step(&f,
         &(struct device_event){.kind = DEVICE_TENANT_CAME, .now_ms = f.now_ms, .came = &adopted});
    assert_null(find_action(&f, DEVICE_ACT_END, 3));
    fixture_close(&f);
}

static void adopt(struct fixture *f, uint64_t workload)
{
    const struct device_tenant_info adopted = {.workload = workload,
                                               .attempt = 1,
                                               .kind = WORKLOAD_TASK,
                                               .grace_ms = 10000,
                                               .adopted = true};
    step(f,
         &(struct device_event){.kind = DEVICE_TENANT_CAME, .now_ms = f->now_ms, .came = &adopted});
}

static void init_beyond_hard_limit_becomes_overlimit(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    adopt(&f, 1);
    use_memory(&f, 1, 9.9, 5);
    sample(&f);
    sample(&f);
    assert_int_equal(device_state(f.d), DEVICE_INIT);
    sample(&f);
    assert_int_equal(device_state(f.d), DEVICE_OVERLIMIT);
    assert_int_equal(find_action(&f, DEVICE_ACT_END, 1)->grace_ms, 10000);
    assert_int_equal(verdict(&f, 1, false), VERDICT_MOVED);
    left(&f, 1, false);
    use_memory(&f, 1, 1, 0);
    pass(&f, 10400);
    assert_int_equal(device_state(f.d), DEVICE_HEALTHY);
    fixture_close(&f);
}

static void init_with_unsteady_samples_becomes_unhealthy(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open(&f);
    adopt(&f, 1);
    for (int i = 0; i < 5; i++) { /* never three equal samples in a row */
        assert_int_equal(device_state(f.d), DEVICE_INIT);
        use_memory(&f, 1, i % 2 ? 9 : 9.3, 5);
        sample(&f);
    }
    assert_int_equal(device_state(f.d), DEVICE_UNHEALTHY);
    assert_int_equal(f.counts[DEVICE_ACT_END], 0);
    fixture_close(&f);
}

/* ---- Healthy ---- */

static void healthy_over_soft_memory_throttles_task(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 1, WORKLOAD_TASK, false);
    use_memory(&f, 1, 9.19, 5);
    sample(&f);
    assert_int_equal(device_state(f.d), DEVICE_HEALTHY);
    use_memory(&f, 1, 9.3, 5);
    sample(&f);
    assert_int_equal(device_state(f.d), DEVICE_UNHEALTHY);
    assert_non_null(strstr(device_cause(f.d), "memory"));
    assert_int_equal(find_action(&f, DEVICE_ACT_THROTTLE, 0)->rate_permille, 500);
    assert_int_equal(f.counts[DEVICE_ACT_END], 0);
    assert_int_equal(device_admission(f.d), ADMIT_SERVICES);
    fixture_close(&f);
}

static void healthy_over_hard_memory_evicts_task(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 1, WORKLOAD_TASK, false);
    came(&f, 2, WORKLOAD_SERVICE, false);
    use_memory(&f, 1, 9.8, 5);
    sample(&f);
    assert_int_equal(device_state(f.d), DEVICE_OVERLIMIT);
    assert_int_equal(find_action(&f, DEVICE_ACT_END, 1)->grace_ms, 10000);
    assert_null(find_action(&f, DEVICE_ACT_END, 2));
    assert_int_equal(verdict(&f, 1, false), VERDICT_MOVED);
    assert_int_equal(verdict(&f, 2, false), VERDICT_OWN);
    fixture_close(&f);
}

static void limit_unrelated_to_tasks_is_ignored(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    use_memory(&f, 1, 9.9, 0); /* no task on the device */
    pass(&f, 1000);
    assert_int_equal(device_state(f.d), DEVICE_HEALTHY);
    came(&f, 1, WORKLOAD_TASK, false);
    came(&f, 2, WORKLOAD_SERVICE, false);
    use_memory(&f, 1, 9.9, 0.1); /* without the task, still above both limits */
    pass(&f, 1000);
    assert_int_equal(device_state(f.d), DEVICE_HEALTHY);
    use_memory(&f, 1, 9.9, 0.4); /* without the task, above the soft limit only */
    sample(&f);
    assert_int_equal(device_state(f.d), DEVICE_OVERLIMIT);
    fixture_close(&f);
}

static void movable_memory_counts_as_free(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 1, WORKLOAD_TASK, false);
    came(&f, 2, WORKLOAD_SERVICE, false);
    use_memory(&f, 1, 9.9, 5);
    known(&f, 1)->movable_bytes = (uint64_t)4 << 30;
    pass(&f, 5000);
    assert_int_equal(device_state(f.d), DEVICE_HEALTHY);
    known(&f, 1)->movable_bytes = 0;
    sample(&f);
    assert_int_equal(device_state(f.d), DEVICE_OVERLIMIT);
    fixture_close(&f);
}

static void sole_task_may_fill_device_memory(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 1, WORKLOAD_TASK, false);
    use_memory(&f, 1, 9.9, 9.9);
    pass(&f, 60000);
    assert_int_equal(device_state(f.d), DEVICE_HEALTHY);
    assert_int_equal(f.counts[DEVICE_ACT_THROTTLE] + f.counts[DEVICE_ACT_END], 0);
    f.sample.has_strangers = true;
    sample(&f);
    assert_int_equal(device_state(f.d), DEVICE_OVERLIMIT);
    fixture_close(&f);
}

static void memory_limit_applies_beside_neighbour(void **state)
{
    static const enum workload_kind kinds[] = {WORKLOAD_TASK, WORKLOAD_SERVICE};
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct fixture f;
        fixture_open_healthy(&f);
        came(&f, 1, WORKLOAD_TASK, false);
        use_memory(&f, 1, 9.5, 9.5);
        pass(&f, 1000);
        assert_int_equal(device_state(f.d), DEVICE_HEALTHY);
        came(&f, 2, kinds[i], false);
        sample(&f);
        assert_int_equal(device_state(f.d), DEVICE_UNHEALTHY);
        left(&f, 2, false);
        pass(&f, 5000);
        assert_int_equal(device_state(f.d), DEVICE_HEALTHY);
        fixture_close(&f);
    }
}

static void same_workload_attempt_is_no_neighbour(void **state)
{
    struct fixture f;
    const struct device_tenant_info next = {.workload = 1, .attempt = 2, .kind = WORKLOAD_TASK};
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 1, WORKLOAD_TASK, false);
    step(&f, &(struct device_event){.kind = DEVICE_TENANT_CAME, .now_ms = f.now_ms, .came = &next});
    use_memory(&f, 1, 9.9, 9.9);
    sample(&f);
    assert_int_equal(device_state(f.d), DEVICE_HEALTHY);
    fixture_close(&f);
}

static void latency_violation_escalates_to_overlimit(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 1, WORKLOAD_TASK, false);
    came(&f, 2, WORKLOAD_SERVICE, false);
    *known(&f, 2) = (struct device_tenant_sample){.workload = 2,
                                                  .slo_ms = 100,
                                                  .latency_5s_ms = 89,
                                                  .latency_10s_ms = 300,
                                                  .requests_10s = 199};
    pass(&f, 1000);
    assert_int_equal(device_state(f.d), DEVICE_HEALTHY); /* too few requests */
    known(&f, 2)->latency_5s_ms = 91;
    sample(&f);
    assert_int_equal(device_state(f.d), DEVICE_UNHEALTHY);
    known(&f, 2)->requests_10s = 200;
    sample(&f);
    assert_int_equal(device_state(f.d), DEVICE_OVERLIMIT);
    assert_non_null(strstr(device_cause(f.d), "service 2"));
    fixture_close(&f);
}

static void service_slow_alone_evicts_no_task(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 2, WORKLOAD_SERVICE, false);
    *known(&f, 2) = (struct device_tenant_sample){.workload = 2,
                                                  .slo_ms = 100,
                                                  .latency_5s_ms = 200,
                                                  .latency_10s_ms = 200,
                                                  .requests_10s = 500};
    pass(&f, 12000);
    came(&f, 1, WORKLOAD_TASK, false);
    pass(&f, 5000);
    assert_int_equal(device_state(f.d), DEVICE_HEALTHY);
    known(&f, 2)->latency_5s_ms = known(&f, 2)->latency_10s_ms =
        50; /* within limits: later violations are the tasks' doing */
    sample(&f);
    known(&f, 2)->latency_10s_ms = 200;
    sample(&f);
    assert_int_equal(device_state(f.d), DEVICE_OVERLIMIT);
    fixture_close(&f);
}

static void severe_slowdown_reason_sets_overlimit(void **state)
{
    static const uint64_t hard[] = {DEVICE_SLOWDOWN_HARDWARE, DEVICE_SLOWDOWN_SOFTWARE_THERMAL,
                                    DEVICE_SLOWDOWN_HARDWARE_THERMAL, DEVICE_SLOWDOWN_POWER_BRAKE};
    (void)state;
    for (size_t i = 0; i < sizeof hard / sizeof hard[0]; i++) {
        struct fixture f;
        fixture_open_healthy(&f);
        came(&f, 1, WORKLOAD_TASK, false);
        /* A power cap and idle: reasons that only lower the clocks. */
        f.sample.slowdown = 0x4 | 0x1;
        pass(&f, 1000);
        assert_int_equal(device_state(f.d), DEVICE_HEALTHY);
        f.sample.slowdown = hard[i];
        sample(&f);
        assert_int_equal(device_state(f.d), DEVICE_OVERLIMIT);
        fixture_close(&f);
    }
}

static void slowdown_persisting_without_tasks_is_ignored(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 1, WORKLOAD_TASK, false);
    f.sample.slowdown = DEVICE_SLOWDOWN_HARDWARE_THERMAL;
    sample(&f);
    left(&f, 1, false);
    pass(&f, 11000);
    assert_int_equal(device_state(f.d), DEVICE_HEALTHY);
    came(&f, 2, WORKLOAD_TASK, false);
    pass(&f, 5000);
    assert_int_equal(device_state(f.d), DEVICE_HEALTHY);
    fixture_close(&f);
}

/* ---- Unhealthy ---- */

static void become_unhealthy(struct fixture *f)
{
    fixture_open_healthy(f);
    came(f, 1, WORKLOAD_TASK, false);
    use_memory(f, 1, 9.5, 5);
    sample(f);
    assert_int_equal(device_state(f->d), DEVICE_UNHEALTHY);
}

static void unhealthy_halves_task_rate_each_second(void **state)
{
    static const int rates[] = {250, 125, 100};
    struct fixture f;
    (void)state;
    become_unhealthy(&f);
    for (size_t i = 0; i < 3; i++) {
        pass(&f, 800);
        assert_null(find_action(&f, DEVICE_ACT_THROTTLE, 0));
        sample(&f);
        assert_int_equal(find_action(&f, DEVICE_ACT_THROTTLE, 0)->rate_permille, rates[i]);
    }
    fixture_forget(&f);
    pass(&f, 3000);
    assert_int_equal(f.counts[DEVICE_ACT_THROTTLE], 0);
    fixture_close(&f);
}

static void unhealthy_within_limits_becomes_healthy(void **state)
{
    struct fixture f;
    (void)state;
    become_unhealthy(&f);
    pass(&f, 3000);
    use_memory(&f, 1, 5, 5);
    pass(&f, 4800);
    assert_int_equal(device_state(f.d), DEVICE_UNHEALTHY);
    sample(&f);
    assert_int_equal(device_state(f.d), DEVICE_HEALTHY);
    assert_non_null(find_action(&f, DEVICE_ACT_RELEASE, 0));
    assert_non_null(strstr(device_cause(f.d), "within limits"));
    fixture_close(&f);
}

static void unhealthy_ten_seconds_total_becomes_overlimit(void **state)
{
    struct fixture f;
    (void)state;
    become_unhealthy(&f);
    for (int i = 0; i < 4; i++) {
        use_memory(&f, 1, 9.5, 5);
        pass(&f, 2400);
        use_memory(&f, 1, 5, 5);
        pass(&f, 3000);
        assert_int_equal(device_state(f.d), DEVICE_UNHEALTHY);
    }
    use_memory(&f, 1, 9.5, 5);
    pass(&f, 400);
    assert_int_equal(device_state(f.d), DEVICE_OVERLIMIT);
    fixture_close(&f);
}

static void unhealthy_over_hard_limit_evicts_task(void **state)
{
    struct fixture f;
    (void)state;
    become_unhealthy(&f);
    use_memory(&f, 1, 9.8, 5);
    sample(&f);
    assert_int_equal(device_state(f.d), DEVICE_OVERLIMIT);
    assert_non_null(find_action(&f, DEVICE_ACT_END, 1));
    fixture_close(&f);
}

/* ---- Overlimit ---- */

static void cross(struct fixture *f, uint64_t task)
{
    came(f, task, WORKLOAD_TASK, false);
    use_memory(f, task, 9.8, 5);
    sample(f);
    assert_int_equal(device_state(f->d), DEVICE_OVERLIMIT);
    left(f, task, false);
    use_memory(f, task, 0, 0);
}

static void overlimit_hold_doubles_and_resets(void **state)
{
    static const int64_t holds_s[] = {10, 20, 40, 80, 160, 320, 600, 600};
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    for (size_t i = 0; i < sizeof holds_s / sizeof holds_s[0]; i++) {
        cross(&f, 1);
        pass(&f, holds_s[i] * 1000 - 200);
        assert_int_equal(device_state(f.d), DEVICE_OVERLIMIT);
        sample(&f);
        assert_int_equal(device_state(f.d), DEVICE_HEALTHY);
    }
    pass(&f, 600000);
    cross(&f, 1);
    pass(&f, 10000);
    assert_int_equal(device_state(f.d), DEVICE_HEALTHY);
    fixture_close(&f);
}

static void overlimit_hold_starts_within_limits(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 1, WORKLOAD_TASK, false);
    use_memory(&f, 1, 9.8, 5);
    sample(&f);
    pass(&f, 8000); /* the task does not leave at once */
    left(&f, 1, false);
    pass(&f, 9800);
    assert_int_equal(device_state(f.d), DEVICE_OVERLIMIT);
    pass(&f, 400);
    assert_int_equal(device_state(f.d), DEVICE_HEALTHY);
    fixture_close(&f);
}

static void overlimit_refuses_tasks_admits_services(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    cross(&f, 1);
    came(&f, 2, WORKLOAD_TASK, false);
    assert_non_null(find_action(&f, DEVICE_ACT_END, 2));
    came(&f, 3, WORKLOAD_SERVICE, false);
    assert_null(find_action(&f, DEVICE_ACT_END, 3));
    fixture_close(&f);
}

/* ---- ending ---- */

/* From then on the attempt's state machine ends the task (attempt/stop.c). */
static void evicted_task_staying_is_ended_once(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 1, WORKLOAD_TASK, false);
    use_memory(&f, 1, 9.8, 5);
    sample(&f);
    assert_non_null(find_action(&f, DEVICE_ACT_END, 1));
    fixture_forget(&f);
    pass(&f, 20000);
    assert_int_equal(f.counts[DEVICE_ACT_END], 0);
    fixture_close(&f);
}

/* ---- suspending instead of ending ---- */

static void suspendable_came(struct fixture *f, uint64_t workload)
{
    const struct device_tenant_info info = {.workload = workload,
                                            .attempt = 1,
                                            .kind = WORKLOAD_TASK,
                                            .grace_ms = 10000,
                                            .isolated = true,
                                            .suspendable = true};
    step(f, &(struct device_event){.kind = DEVICE_TENANT_CAME, .now_ms = f->now_ms, .came = &info});
    step(f, &(struct device_event){.kind = DEVICE_TENANT_RUNS,
                                   .now_ms = f->now_ms,
                                   .tenant = {.workload = workload, .attempt = 1}});
}

static void suspendable_task_is_suspended_not_ended(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    suspendable_came(&f, 1);
    f.sample.slowdown = DEVICE_SLOWDOWN_HARDWARE;
    sample(&f);
    assert_int_equal(device_state(f.d), DEVICE_OVERLIMIT);
    assert_non_null(find_action(&f, DEVICE_ACT_SUSPEND, 1));
    assert_int_equal(f.counts[DEVICE_ACT_END], 0);
    assert_int_equal(verdict(&f, 1, true), VERDICT_OWN); /* an end now would be the task's own */
    left(&f, 1, false);
    f.sample.slowdown = 0;
    pass(&f, 11000);
    assert_int_equal(device_state(f.d), DEVICE_HEALTHY);
    suspendable_came(&f, 1); /* the task resumes as a normal tenant */
    assert_int_equal(f.counts[DEVICE_ACT_END], 0);
    fixture_close(&f);
}

static void task_with_failed_suspension_is_ended(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    suspendable_came(&f, 1);
    suspendable_came(&f, 2);
    f.sample.slowdown = DEVICE_SLOWDOWN_HARDWARE;
    sample(&f);
    step(&f, &(struct device_event){.kind = DEVICE_TENANT_STAYS,
                                    .now_ms = f.now_ms,
                                    .tenant = {.workload = 1, .attempt = 1, .why = "no"}});
    const struct device_action *end = find_action(&f, DEVICE_ACT_END, 1);
    assert_non_null(end);
    assert_int_equal(end->grace_ms, 10000);
    assert_int_equal(verdict(&f, 1, true), VERDICT_MOVED);
    pass(&f, 900000); /* without an answer for the other task, it is ended as well */
    assert_int_equal(f.counts[DEVICE_ACT_END], 2);
    fixture_close(&f);
}

static void moved_task_is_ended_without_blame(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    suspendable_came(&f, 1);
    struct device_event moves = {.kind = DEVICE_TENANT_MOVES,
                                 .now_ms = f.now_ms,
                                 .tenant = {.workload = 1, .attempt = 1, .why = "its share"}};
    step(&f, &moves);
    const struct device_action *end = find_action(&f, DEVICE_ACT_END, 1);
    assert_non_null(end);
    assert_string_equal(end->text, "its share");
    assert_int_equal(verdict(&f, 1, true), VERDICT_MOVED);
    assert_int_equal(device_state(f.d), DEVICE_HEALTHY);
    step(&f, &moves); /* a repeated order has no effect */
    moves.tenant.workload = 7;
    step(&f, &moves); /* unknown workload */
    assert_int_equal(f.counts[DEVICE_ACT_END], 1);
    fixture_close(&f);
}

/* ---- Disabled ---- */

static void operator_disables_and_enables_device(void **state)
{
    struct fixture f;
    (void)state;
    fixture_open_healthy(&f);
    came(&f, 1, WORKLOAD_TASK, false);
    came(&f, 2, WORKLOAD_SERVICE, false);
    operator_says(&f, false);
    assert_int_equal(device_state(f.d), DEVICE_DISABLED);
    assert_int_equal(device_admission(f.d), ADMIT_NONE);
    assert_non_null(find_action(&f, DEVICE_ACT_END, 1));
    assert_non_null(find_action(&f, DEVICE_ACT_END, 2));
    assert_int_equal(verdict(&f, 2, true), VERDICT_MOVED);
    left(&f, 1, false);
    left(&f, 2, true);
    came(&f, 3, WORKLOAD_SERVICE, false);
    assert_non_null(find_action(&f, DEVICE_ACT_END, 3));
    left(&f, 3, false);
    pass(&f, 60000);
    assert_int_equal(device_state(f.d), DEVICE_DISABLED);
    operator_says(&f, true);
    assert_int_equal(device_state(f.d), DEVICE_INIT);
    pass(&f, 600);
    assert_int_equal(device_state(f.d), DEVICE_HEALTHY);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init_needs_three_valid_samples),
        cmocka_unit_test(init_refuses_only_new_tasks),
        cmocka_unit_test(init_beyond_hard_limit_becomes_overlimit),
        cmocka_unit_test(init_with_unsteady_samples_becomes_unhealthy),
        cmocka_unit_test(healthy_over_soft_memory_throttles_task),
        cmocka_unit_test(healthy_over_hard_memory_evicts_task),
        cmocka_unit_test(limit_unrelated_to_tasks_is_ignored),
        cmocka_unit_test(movable_memory_counts_as_free),
        cmocka_unit_test(sole_task_may_fill_device_memory),
        cmocka_unit_test(memory_limit_applies_beside_neighbour),
        cmocka_unit_test(same_workload_attempt_is_no_neighbour),
        cmocka_unit_test(latency_violation_escalates_to_overlimit),
        cmocka_unit_test(service_slow_alone_evicts_no_task),
        cmocka_unit_test(severe_slowdown_reason_sets_overlimit),
        cmocka_unit_test(slowdown_persisting_without_tasks_is_ignored),
        cmocka_unit_test(unhealthy_halves_task_rate_each_second),
        cmocka_unit_test(unhealthy_within_limits_becomes_healthy),
        cmocka_unit_test(unhealthy_ten_seconds_total_becomes_overlimit),
        cmocka_unit_test(unhealthy_over_hard_limit_evicts_task),
        cmocka_unit_test(overlimit_hold_doubles_and_resets),
        cmocka_unit_test(overlimit_hold_starts_within_limits),
        cmocka_unit_test(overlimit_refuses_tasks_admits_services),
        cmocka_unit_test(evicted_task_staying_is_ended_once),
        cmocka_unit_test(suspendable_task_is_suspended_not_ended),
        cmocka_unit_test(task_with_failed_suspension_is_ended),
        cmocka_unit_test(moved_task_is_ended_without_blame),
        cmocka_unit_test(operator_disables_and_enables_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
