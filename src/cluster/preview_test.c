/* Previews of submissions: the answer is what then happens, and a preview changes nothing. */
#include "cluster/cluster_fixture.h"

enum { ITEMS = 4 };

static const struct forecast_profile task_profile = {.name = "task", .sm_activity = 0.9};

static const struct forecast_profile *profile(void *context, const struct forecast_device *device,
                                              uint32_t kind)
{
    (void)context;
    (void)device;
    (void)kind;
    return &task_profile;
}

/* Every further neighbour slows all, so policies that judge do not fill one device. */
static void together(void *context, const struct forecast_set *set,
                     struct forecast_answer *ret_answer)
{
    (void)context;
    for (size_t i = 0; i < set->count; i++) {
        ret_answer->pd[i] = 1 + 0.2 * (double)(set->count - 1);
        ret_answer->p99_ms[i] = 0;
        ret_answer->is_p99_guess[i] = false;
    }
}

/* Opens a cluster of two nodes with one device each. */
static void open_with(struct fixture *f, const struct policy *policy)
{
    static const struct forecast forecast = {.profile = profile, .together = together};
    *f = (struct fixture){0};
    cluster_config_default(&f->config);
    f->config.policy = policy;
    f->config.forecast = &forecast;
    f->now = (struct clock_now){.wall_ms = 1700000000000, .boot_ms = 5000};
    cluster_actions_init(&f->actions);
    assert_int_equal(cluster_new(&f->config, &f->cluster), 0);
    cluster_load_done(f->cluster, 0, f->now);
    (void)hello(f, "a");
    (void)hello(f, "b");
}

/* The preview, the note of the queue and the explanation agree. */
static void assert_same_reason(struct fixture *f, uint64_t id,
                               const struct cluster_preview *preview)
{
    static struct cluster_explanation explanation;
    bool never;
    assert_int_equal(cluster_explain(f->cluster, id, &explanation), 0);
    assert_string_equal(preview->text, cluster_note(f->cluster, id, &never));
    assert_string_equal(explanation.text, preview->text);
    assert_int_equal(preview->never, never);
}

/* Compares two previews with the submission; returns the number of placed workloads. */
static size_t submit_as_previewed(struct fixture *f, const struct cluster_submission *items)
{
    static struct cluster_preview first[ITEMS], again[ITEMS];
    size_t placed = 0;
    assert_int_equal(cluster_preview(NULL, f->cluster, items, ITEMS, first), 0);
    assert_int_equal(cluster_preview(NULL, f->cluster, items, ITEMS, again), 0);
    assert_memory_equal(first, again, sizeof first);
    uint64_t id = submit_all(f, items, ITEMS, NULL)->first;
    for (size_t i = 0; i < ITEMS; i++) {
        const struct workload_status *status = cluster_live_status(f->cluster, id + i);
        const struct attempt *a = workload_status_attempt(status);
        assert_string_equal(first[i].node, a ? a->node : "");
        assert_int_equal(first[i].device_count, a ? a->device_count : 0);
        if (a && a->device_count)
            assert_string_equal(first[i].devices[0], a->devices[0]);
        placed += a != NULL;
        if (!a)
            assert_same_reason(f, id + i, &first[i]);
    }
    return placed;
}

static void preview_matches_placement_under_all_policies(void **state)
{
    (void)state;
    for (size_t i = 0; policy_at(i); i++) {
        struct fixture f;
        struct workload_needs whole = task_needs(), tenth = task_needs();
        struct cluster_submission items[ITEMS];
        whole.quota_bytes = 0;
        for (int k = 0; k < ITEMS; k++)
            items[k] = (struct cluster_submission){
                .name = "w", .needs = &whole, .known = {.kind = 1, .alone_ms = 60000}};
        open_with(&f, policy_at(i));
        assert_int_equal(submit_as_previewed(&f, items), 2);
        fixture_close(&f);
        for (int k = 0; k < ITEMS; k++)
            items[k].needs = &tenth;
        open_with(&f, policy_at(i));
        assert_true(submit_as_previewed(&f, items) >= 2);
        fixture_close(&f);
    }
}

static void preview_follows_queue_order(void **state)
{
    struct fixture f;
    struct workload_needs low = task_needs(), high = task_needs();
    const struct cluster_submission items[ITEMS] = {{.name = "w", .needs = &low},
                                                    {.name = "w", .needs = &low},
                                                    {.name = "w", .needs = &high},
                                                    {.name = "w", .needs = &high}};
    struct cluster_preview previews[ITEMS];
    (void)state;
    low.quota_bytes = high.quota_bytes = 0;
    high.priority = 1;
    open_with(&f, policy_find("firstfit"));
    assert_int_equal(cluster_preview(NULL, f.cluster, items, ITEMS, previews), 0);
    assert_string_equal(previews[2].node, "a");
    assert_string_equal(previews[3].node, "b");
    assert_string_equal(
        previews[0].text,
        "0 of 2 devices fit: 2 in use, and a workload without a quota needs a whole device");
    assert_string_equal(previews[1].text, previews[0].text);
    assert_int_equal(submit_as_previewed(&f, items), 2);
    fixture_close(&f);
}

static void preview_resolves_dependencies(void **state)
{
    struct fixture f;
    struct error e;
    struct workload_needs needs = task_needs();
    (void)state;
    open_with(&f, policy_find("firstfit"));
    drain(&f, "a", true);
    drain(&f, "b", true);
    uint64_t ended = submit_task(&f);
    stop(&f, CLUSTER_CANCEL, ended, 0); /* not placed yet, so it ends at once */
    drain(&f, "a", false);
    uint64_t running = submit_task(&f);
    const struct cluster_after unknown = {.workload = 99},
                               well = {.workload = ended, .succeeded = true},
                               anyhow = {.workload = ended},
                               both[] = {{.workload = running}, {.workload = 0, .within = true}};
    const struct cluster_submission items[ITEMS] = {
        {.name = "first", .needs = &needs, .after_count = 1, .after = &anyhow},
        {.name = "second", .needs = &needs, .after_count = 2, .after = both},
        {.name = "third", .needs = &needs, .after_count = 1, .after = &well},
        {.name = "fourth", .needs = &needs, .after_count = 1, .after = &unknown}};
    struct cluster_preview previews[ITEMS];
    assert_int_equal(cluster_preview(&e, f.cluster, items, ITEMS, previews), -ERR_INVALID);
    assert_string_equal(e.field, "after");
    assert_int_equal(cluster_preview(&e, f.cluster, items, ITEMS - 1, previews), 0);
    assert_string_equal(previews[0].node, "a");
    assert_string_equal(previews[1].node, "");
    assert_string_equal(previews[1].text, "waits for 2, first");
    assert_string_equal(previews[2].node, "");
    assert_string_equal(previews[2].text, "would fail: workload 1 did not succeed");
    fixture_close(&f);
}

static void preview_beyond_queue_limit_is_refused(void **state)
{
    struct fixture f;
    struct workload_needs needs = task_needs();
    const struct cluster_submission items[ITEMS] = {{.name = "w", .needs = &needs},
                                                    {.name = "w", .needs = &needs},
                                                    {.name = "w", .needs = &needs},
                                                    {.name = "w", .needs = &needs}};
    struct cluster_preview previews[ITEMS];
    (void)state;
    open_with(&f, policy_find("firstfit"));
    cluster_free(f.cluster);
    f.config.queue_max = ITEMS - 1;
    assert_int_equal(cluster_new(&f.config, &f.cluster), 0);
    assert_int_equal(cluster_preview(NULL, f.cluster, items, ITEMS - 1, previews), 0);
    assert_int_equal(cluster_preview(NULL, f.cluster, items, ITEMS, previews), -ERR_QUEUE_FULL);
    fixture_close(&f);
}

/* Opens with an allowance of one device. Devices have 100 bytes. */
static void open_with_allowance(struct fixture *f, const struct policy *policy, bool has_nodes)
{
    static const struct cluster_allowance allowance = {
        .name = "team", .guaranteed_ppm = 1000000, .most_ppm = 1000000};
    open_with(f, policy);
    cluster_free(f->cluster);
    f->config.allowances = &allowance;
    f->config.allowance_count = 1;
    assert_int_equal(cluster_new(&f->config, &f->cluster), 0);
    cluster_load_done(f->cluster, 0, f->now);
    if (has_nodes) {
        (void)hello(f, "a");
        (void)hello(f, "b");
    }
}

static void preview_accounts_for_spent_allowance(void **state)
{
    struct fixture f;
    struct workload_needs whole = task_needs();
    struct cluster_submission items[ITEMS];
    struct cluster_preview previews[ITEMS];
    (void)state;
    whole.quota_bytes = 0;
    for (int k = 0; k < ITEMS; k++)
        items[k] = (struct cluster_submission){.name = "w", .needs = &whole, .allowance = 1};
    open_with_allowance(&f, policy_find("firstfit"), true);
    assert_int_equal(cluster_preview(NULL, f.cluster, items, ITEMS, previews), 0);
    assert_string_equal(previews[0].node, "a");
    assert_non_null(
        strstr(previews[1].text,
               "the allowance of team is used up (devices requested: 1, in use: 1 of 1)"));
    assert_int_equal(submit_as_previewed(&f, items), 1);
    fixture_close(&f);
}

static void request_beyond_allowance_never_starts(void **state)
{
    (void)state;
    for (size_t i = 0; policy_at(i); i++) {
        struct fixture f;
        struct workload_needs both = task_needs(), larger = task_needs();
        struct cluster_preview preview;
        both.devices = 2;
        both.quota_bytes = 60;
        larger.quota_bytes = 0;
        open_with_allowance(&f, policy_at(i), true);
        const struct cluster_submission items[] = {
            {.name = "both", .needs = &both, .allowance = 1},
            {.name = "larger", .needs = &larger, .allowance = 1}};
        for (int k = 0; k < 2; k++) {
            assert_int_equal(cluster_preview(NULL, f.cluster, &items[k], 1, &preview), 0);
            assert_int_equal(preview.never, k == 0);
            uint64_t id = submit_all(&f, &items[k], 1, NULL)->first;
            if (k == 0)
                assert_same_reason(&f, id, &preview);
        }
        assert_int_equal(cluster_preview(NULL, f.cluster, items, 1, &preview), 0);
        assert_string_equal(
            preview.text,
            "the workload exceeds the allowance of team (devices requested: 1.2, allowed: 1)");
        fixture_close(&f);
    }
}

/* A quota's part of a device is unknown before the first device joins. */
static void allowance_without_devices_may_suffice(void **state)
{
    struct fixture f;
    struct workload_needs both = task_needs();
    struct cluster_preview preview;
    (void)state;
    both.devices = 2;
    both.quota_bytes = 10;
    const struct cluster_submission item = {.name = "both", .needs = &both, .allowance = 1};
    open_with_allowance(&f, policy_find("firstfit"), false);
    assert_int_equal(cluster_preview(NULL, f.cluster, &item, 1, &preview), 0);
    assert_string_equal(preview.node, "");
    assert_false(preview.never);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(preview_matches_placement_under_all_policies),
        cmocka_unit_test(preview_follows_queue_order),
        cmocka_unit_test(preview_resolves_dependencies),
        cmocka_unit_test(preview_beyond_queue_limit_is_refused),
        cmocka_unit_test(preview_accounts_for_spent_allowance),
        cmocka_unit_test(request_beyond_allowance_never_starts),
        cmocka_unit_test(allowance_without_devices_may_suffice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
