/* Limits of a node's attempts: attempts_max of all, cpu_tasks_max of those without devices. The
 * queue, previews and explanations name the limit, and work with devices keeps its part. */
#include "cluster/cluster_fixture.h"

static const char *const policies[] = {"firstfit", "random", "gpumux"};
enum { POLICIES = 3, CORES = 2 };

static void open_with(struct fixture *f, const char *policy, int attempts_max, int cpu_tasks_max)
{
    *f = (struct fixture){0};
    cluster_config_default(&f->config);
    f->config.policy = policy_find(policy);
    f->config.attempts_max = attempts_max;
    f->config.cpu_tasks_max = cpu_tasks_max;
    f->now = (struct clock_now){.wall_ms = 1700000000000, .boot_ms = 5000};
    cluster_actions_init(&f->actions);
    assert_int_equal(cluster_new(&f->config, &f->cluster), 0);
    cluster_load_done(f->cluster, 0, f->now);
}

static uint64_t join(struct fixture *f, const char *name, int cores, int devices)
{
    struct node_info info = node_info(name, "i", devices);
    struct cluster_event event = {.kind = CLUSTER_NODE_HELLO};
    info.cores = cores;
    event.hello.info = &info;
    step(f, &event);
    return find(f, CLUSTER_SEND_WELCOME)->session;
}

static struct workload_needs cpu_needs(enum workload_kind kind)
{
    return (struct workload_needs){.kind = kind, .share_max_percent = 100, .grace_ms = 10000};
}

static uint64_t submit_cpu(struct fixture *f)
{
    const struct workload_needs needs = cpu_needs(WORKLOAD_TASK);
    return submit(f, &needs);
}

static struct cluster_preview preview_of(struct fixture *f, const struct workload_needs *needs)
{
    const struct cluster_submission item = {.name = "w", .needs = needs};
    struct cluster_preview preview;
    assert_int_equal(cluster_preview(NULL, f->cluster, &item, 1, &preview), 0);
    return preview;
}

/* The note of the queue, the explanation and a preview of the same needs are this text. */
static void assert_waits(struct fixture *f, uint64_t id, const struct workload_needs *needs,
                         const char *text)
{
    static struct cluster_explanation explanation;
    assert_int_equal(state_of(f, id), WORKLOAD_QUEUED);
    assert_int_equal(cluster_explain(f->cluster, id, &explanation), 0);
    assert_string_equal(note_of(f, id), text);
    assert_string_equal(explanation.text, text);
    const struct cluster_preview preview = preview_of(f, needs);
    assert_string_equal(preview.node, "");
    assert_string_equal(preview.text, text);
    assert_false(preview.never);
}

static void cpu_only_work_leaves_room_for_gpus(void **state)
{
    static struct cluster_explanation explanation;
    const struct workload_needs task = cpu_needs(WORKLOAD_TASK);
    const struct workload_needs service = cpu_needs(WORKLOAD_SERVICE);
    (void)state;
    for (int p = 0; p < POLICIES; p++) {
        struct fixture f;
        open_with(&f, policies[p], 1024, 0);
        uint64_t session = join(&f, "a", CORES, 1), first = submit_cpu(&f);
        (void)submit(&f, &service);
        (void)submit_cpu(&f);
        assert_string_equal(preview_of(&f, &task).node, "a");
        uint64_t fourth = submit_cpu(&f), fifth = submit_cpu(&f);
        assert_int_equal(state_of(&f, fourth), WORKLOAD_PLACED);
        assert_waits(&f, fifth, &task, "a runs 4 CPU-only workloads, the limit (cpu_tasks_max: 4)");
        assert_waits(&f, submit(&f, &service), &service,
                     "a runs 4 CPU-only workloads, the limit (cpu_tasks_max: 4)");
        assert_int_equal(state_of(&f, submit_task(&f)), WORKLOAD_PLACED);
        assert_int_equal(cluster_explain(f.cluster, first, &explanation), 0);
        assert_string_equal(explanation.text, "placed on a; if placed now: would go there again");
        assert_int_equal(state_of(&f, fifth), WORKLOAD_QUEUED);
        report(&f, "a", session, first, 1, ATTEMPT_EXITED);
        assert_int_equal(state_of(&f, fifth), WORKLOAD_PLACED);
        fixture_close(&f);
    }
}

/* Of 8 attempts, 6 without devices: the node does not state its cores, as an older one. */
static void attempts_max_reserves_quarter_for_gpus(void **state)
{
    const struct workload_needs cpu = cpu_needs(WORKLOAD_TASK), gpu = task_needs();
    (void)state;
    for (int p = 0; p < POLICIES; p++) {
        struct fixture f;
        open_with(&f, policies[p], 8, p == 0 ? 100 : 0);
        uint64_t session = join(&f, "a", 0, 2), first = submit_cpu(&f);
        for (int i = 1; i < 6; i++)
            assert_int_equal(state_of(&f, submit_cpu(&f)), WORKLOAD_PLACED);
        uint64_t waits = submit_cpu(&f);
        assert_waits(&f, waits, &cpu,
                     "a runs 6 CPU-only workloads, the limit (three quarters of attempts_max: 8)");
        for (int i = 0; i < 2; i++)
            assert_int_equal(state_of(&f, submit_task(&f)), WORKLOAD_PLACED);
        uint64_t last = submit_task(&f);
        assert_waits(&f, last, &gpu, "0 of 2 devices fit: 2 on full nodes (attempts_max: 8)");
        report(&f, "a", session, first, 1, ATTEMPT_EXITED);
        assert_int_equal(state_of(&f, waits), WORKLOAD_PLACED);
        assert_int_equal(state_of(&f, last), WORKLOAD_QUEUED);
        fixture_close(&f);
    }
}

static void preview_of_array_stops_at_limit(void **state)
{
    enum { ITEMS = 7 };
    const struct workload_needs cpu = cpu_needs(WORKLOAD_TASK);
    struct cluster_submission items[ITEMS];
    struct cluster_preview previews[ITEMS];
    (void)state;
    for (size_t i = 0; i < ITEMS; i++)
        items[i] = (struct cluster_submission){.name = "w", .needs = &cpu};
    for (int p = 0; p < POLICIES; p++) {
        struct fixture f;
        size_t on_node[2] = {0};
        open_with(&f, policies[p], 1024, 3);
        (void)join(&f, "a", CORES, 1);
        (void)join(&f, "b", CORES, 1);
        assert_int_equal(cluster_preview(NULL, f.cluster, items, ITEMS, previews), 0);
        uint64_t id = submit_all(&f, items, ITEMS, NULL)->first;
        for (size_t i = 0; i + 1 < ITEMS; i++) {
            assert_int_equal(state_of(&f, id + i), WORKLOAD_PLACED);
            on_node[previews[i].node[0] - 'a']++;
        }
        assert_true(on_node[0] == 3 && on_node[1] == 3);
        assert_string_equal(previews[ITEMS - 1].node, "");
        assert_waits(&f, id + ITEMS - 1, &cpu,
                     "a runs 3 CPU-only workloads, the limit (cpu_tasks_max: 3); 2 nodes are full");
        fixture_close(&f);
    }
}

/* Devices of a full node are like those of the other node in all else. */
static void full_node_hides_no_other_node(void **state)
{
    struct workload_needs whole = task_needs();
    whole.quota_bytes = 0;
    (void)state;
    for (int p = 0; p < POLICIES; p++) {
        struct fixture f;
        open_with(&f, policies[p], 4, 100);
        (void)join(&f, "a", CORES, 2);
        (void)join(&f, "b", CORES, 2);
        for (int i = 0; i < 6; i++)
            assert_int_equal(state_of(&f, submit_cpu(&f)), WORKLOAD_PLACED);
        for (int i = 0; i < 2; i++)
            assert_int_equal(state_of(&f, submit(&f, &whole)), WORKLOAD_PLACED);
        assert_waits(&f, submit(&f, &whole), &whole,
                     "0 of 4 devices fit: 4 on full nodes (attempts_max: 4)");
        fixture_close(&f);
    }
}

static void limit_follows_cores_of_returning_node(void **state)
{
    struct fixture f;
    (void)state;
    open_with(&f, "firstfit", 1024, 0);
    uint64_t session = join(&f, "a", 1, 0), ids[3];
    for (size_t i = 0; i < 3; i++)
        ids[i] = submit_cpu(&f);
    assert_int_equal(state_of(&f, ids[2]), WORKLOAD_QUEUED);
    gone(&f, "a", session);
    (void)join(&f, "a", CORES, 0);
    assert_int_equal(state_of(&f, ids[2]), WORKLOAD_PLACED);
    fixture_close(&f);
}

/* A failed start is not counted, because the other node can take the workload once it has room. */
static void failed_start_waits_for_full_node(void **state)
{
    struct fixture f;
    struct attempt_report failed = {.attempt = 1,
                                    .phase = ATTEMPT_EXITED,
                                    .failure = FAILURE_START,
                                    .never_ran = true,
                                    .exit_code = -1};
    (void)state;
    open_with(&f, "firstfit", 1024, 1);
    uint64_t session = join(&f, "a", CORES, 0);
    failed.workload = submit_cpu(&f);
    (void)join(&f, "b", CORES, 0);
    assert_int_equal(state_of(&f, submit_cpu(&f)), WORKLOAD_PLACED);
    report_full(&f, "a", session, &failed);
    assert_int_equal(state_of(&f, failed.workload), WORKLOAD_QUEUED);
    assert_int_equal(cluster_live_status(f.cluster, failed.workload)->failures, 0);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpu_only_work_leaves_room_for_gpus),
        cmocka_unit_test(attempts_max_reserves_quarter_for_gpus),
        cmocka_unit_test(preview_of_array_stops_at_limit),
        cmocka_unit_test(full_node_hides_no_other_node),
        cmocka_unit_test(limit_follows_cores_of_returning_node),
        cmocka_unit_test(failed_start_waits_for_full_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
