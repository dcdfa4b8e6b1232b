/* Devices that are kept for a large workload, which smaller ones would overtake for ever. */
#include "cluster/cluster_fixture.h"

enum { SMALL = 40, STEP_MS = 30 * 1000, STEPS_MAX = 100, SMALL_QUOTA = 60 };

/* A crowd of small workloads that end one after another and never leave a device empty. */
struct crowd {
    struct fixture f;
    uint64_t session;
    uint64_t small[SMALL];
};

static uint64_t submit_with(struct fixture *f, int devices, uint64_t quota_bytes, int priority,
                            enum workload_kind kind)
{
    struct workload_needs needs = task_needs();
    needs.devices = devices;
    needs.quota_bytes = quota_bytes;
    needs.priority = priority;
    needs.kind = kind;
    return submit(f, &needs);
}

static uint64_t join(struct fixture *f, int devices, const char *version)
{
    struct node_info info = node_info("a", "i", devices);
    struct cluster_event event = {.kind = CLUSTER_NODE_HELLO};
    (void)snprintf(info.version, sizeof info.version, "%s", version);
    event.hello.info = &info;
    step(f, &event);
    return find(f, CLUSTER_SEND_WELCOME)->session;
}

static void open_crowd(struct crowd *c, const char *policy, int devices)
{
    *c = (struct crowd){0};
    cluster_config_default(&c->f.config);
    c->f.config.policy = policy_find(policy);
    c->f.now = (struct clock_now){.wall_ms = 1700000000000, .boot_ms = 5000};
    cluster_actions_init(&c->f.actions);
    assert_int_equal(cluster_new(&c->f.config, &c->f.cluster), 0);
    cluster_load_done(c->f.cluster, 0, c->f.now);
    c->session = join(&c->f, devices, "1");
    for (size_t i = 0; i < SMALL; i++)
        c->small[i] = submit_with(&c->f, 1, SMALL_QUOTA, -1000, WORKLOAD_TASK);
}

static bool is_queued(const struct crowd *c, uint64_t id)
{
    return state_of(&c->f, id) == WORKLOAD_QUEUED;
}

static void end(struct crowd *c, uint64_t id)
{
    report(&c->f, "a", c->session, id, 1, ATTEMPT_EXITED);
}

/* Advances the clock by half a minute and ends the first placed workload; returns false without
 * one. */
static bool one_ends(struct crowd *c)
{
    c->f.now.boot_ms += STEP_MS;
    c->f.now.wall_ms += STEP_MS;
    beat(&c->f, "a", c->session);
    for (size_t i = 0; i < SMALL; i++)
        if (cluster_live_status(c->f.cluster, c->small[i]) && !is_queued(c, c->small[i])) {
            end(c, c->small[i]);
            return true;
        }
    return false;
}

/* Waits until devices are kept for the workload. */
static void wait_for_keeping(struct crowd *c, uint64_t id)
{
    size_t steps = 0;
    while (!strstr(note_of(&c->f, id), "kept for this workload")) {
        assert_true(steps++ < STEPS_MAX);
        assert_true(is_queued(c, id));
        assert_true(one_ends(c));
    }
}

static void check_large_is_placed(const char *policy, int devices, int wanted, uint64_t quota_bytes)
{
    struct crowd c;
    open_crowd(&c, policy, devices);
    uint64_t large = submit_with(&c.f, wanted, quota_bytes, 1000, WORKLOAD_TASK);
    size_t left = 0;
    while (is_queued(&c, large))
        assert_true(one_ends(&c));
    for (size_t i = 0; i < SMALL; i++)
        left += cluster_live_status(c.f.cluster, c.small[i]) != NULL;
    assert_true(left > 0); /* small workloads were still waiting */
    fixture_close(&c.f);
}

static void large_workload_among_small_is_placed(void **state)
{
    (void)state;
    for (size_t p = 0; policy_at(p); p++) {
        check_large_is_placed(policy_at(p)->name, 2, 2, SMALL_QUOTA);
        check_large_is_placed(policy_at(p)->name, 2, 2, 0);
        check_large_is_placed(policy_at(p)->name, 3, 2, 0);
    }
    /* Two small workloads share the device. */
    struct crowd c;
    open_crowd(&c, "firstfit", 1);
    uint64_t beside[SMALL], large = submit_with(&c.f, 1, 0, 1000, WORKLOAD_TASK);
    for (size_t i = 0; i < SMALL; i++)
        beside[i] = submit_with(&c.f, 1, 20, -1000, WORKLOAD_TASK);
    bool is_kept = false;
    for (size_t i = 0; is_queued(&c, large); i++) {
        is_kept = is_kept || strstr(note_of(&c.f, large), "; a:0 is kept for this workload");
        assert_true(i < SMALL && !is_queued(&c, beside[i]));
        (void)one_ends(&c);
        end(&c, beside[i]);
    }
    assert_true(is_kept);
    fixture_close(&c.f);
}

static void kept_devices_refuse_lower_priority(void **state)
{
    struct crowd c;
    (void)state;
    open_crowd(&c, "firstfit", 2);
    uint64_t large = submit_with(&c.f, 2, 0, 900, WORKLOAD_TASK);
    wait_for_keeping(&c, large);
    assert_non_null(strstr(note_of(&c.f, large), "; 2 devices of a are kept for this workload"));
    struct cluster_explanation explanation;
    assert_int_equal(cluster_explain(c.f.cluster, c.small[SMALL - 1], &explanation), 0);
    assert_string_equal(explanation.text, "0 of 2 devices fit: 1 has too little memory (0.0 GiB "
                                          "requested, quotas leave at most 0.0), 1 kept for "
                                          "workload 41, which waits for room");
    uint64_t behind = submit_with(&c.f, 1, 10, 899, WORKLOAD_TASK);
    assert_true(is_queued(&c, behind));
    uint64_t before = submit_with(&c.f, 1, 10, 1000, WORKLOAD_TASK);
    assert_false(is_queued(&c, before));
    /* The node's devices are rebuilt. */
    gone(&c.f, "a", c.session);
    c.session = join(&c.f, 2, "2");
    assert_true(is_queued(&c, behind));
    assert_true(is_queued(&c, large));
    end(&c, before);
    while (is_queued(&c, large))
        assert_true(one_ends(&c));
    fixture_close(&c.f);
}

static void kept_devices_are_released_after_cancel(void **state)
{
    struct crowd c;
    (void)state;
    open_crowd(&c, "firstfit", 2);
    uint64_t large = submit_with(&c.f, 2, 0, 1000, WORKLOAD_TASK);
    wait_for_keeping(&c, large);
    uint64_t behind = submit_with(&c.f, 1, SMALL_QUOTA, 0, WORKLOAD_TASK);
    assert_true(is_queued(&c, behind));
    assert_int_equal(stop(&c.f, CLUSTER_CANCEL, large, -1)->result, 0);
    assert_false(is_queued(&c, behind));
    fixture_close(&c.f);
}

/* A service does not end: to wait for it is to wait for ever. */
static void device_with_service_is_never_kept(void **state)
{
    struct crowd c;
    (void)state;
    open_crowd(&c, "firstfit", 1);
    uint64_t service = submit_with(&c.f, 1, 10, 1000, WORKLOAD_SERVICE);
    uint64_t large = submit_with(&c.f, 1, 0, 1000, WORKLOAD_TASK);
    for (size_t i = 0; i < SMALL; i++)
        assert_true(one_ends(&c)); /* no device is kept */
    assert_false(is_queued(&c, service));
    assert_true(is_queued(&c, large));
    fixture_close(&c.f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_workload_among_small_is_placed),
        cmocka_unit_test(kept_devices_refuse_lower_priority),
        cmocka_unit_test(kept_devices_are_released_after_cancel),
        cmocka_unit_test(device_with_service_is_never_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
