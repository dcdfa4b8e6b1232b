#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "policy/policy.h"

static const uint64_t GIB = UINT64_C(1) << 30;

static struct pair rack_a[] = {{"rack", "a"}};
static const struct pairs no_labels = {0};
static const struct pairs labels_rack_a = {.count = 1, .items = rack_a};

/* Two nodes: "a" (rack a) with two H200 of 20 GiB, "b" with a 3090 and an H200. */
struct world {
    struct policy_node nodes[2];
    struct policy_device devices[4], scratch[4];
    struct policy_snapshot snapshot;
    struct policy_waiting waiting[16];
    struct workload_needs needs[16];
    struct policy_decision out[16];
};

static void world_init(struct world *w)
{
    *w = (struct world){
        .nodes = {{.name = "a", .labels = &labels_rack_a, .usable = true, .device_count = 2},
                  {.name = "b",
                   .labels = &no_labels,
                   .usable = true,
                   .first_device = 2,
                   .device_count = 2}},
        .devices =
            {{.uuid = "0", .model = "NVIDIA H200", .memory_bytes = 20 * GIB},
             {.uuid = "1", .model = "NVIDIA H200", .memory_bytes = 20 * GIB},
             {.uuid = "2", .model = "NVIDIA GeForce RTX 3090", .node = 1, .memory_bytes = 24 * GIB},
             {.uuid = "3", .model = "NVIDIA H200", .node = 1, .memory_bytes = 40 * GIB}},
    };
    w->snapshot = (struct policy_snapshot){.nodes = w->nodes,
                                           .node_count = 2,
                                           .devices = w->devices,
                                           .device_count = 4,
                                           .waiting = w->waiting,
                                           .max_neighbours = 4,
                                           .seed = 1};
    for (size_t n = 0; n < 2; n++)
        w->nodes[n].attempts_max = w->nodes[n].cpu_tasks_max = 100;
}

static struct workload_needs *ask(struct world *w, int devices, uint64_t quota_bytes)
{
    size_t i = w->snapshot.waiting_count++;
    w->needs[i] = (struct workload_needs){.devices = devices, .quota_bytes = quota_bytes};
    w->waiting[i] = (struct policy_waiting){
        .workload = i + 1, .needs = &w->needs[i], .node_labels = &no_labels};
    return &w->needs[i];
}

static size_t decide(struct world *w, const char *policy)
{
    for (size_t i = 0; i < 4; i++)
        w->scratch[i] = w->devices[i];
    return policy_find(policy)->decide(&w->snapshot, w->scratch, w->out);
}

static const char *explain(struct world *w, const char *policy, char text[WORKLOAD_TEXT_MAX])
{
    (void)policy_explain_misfit(&w->snapshot, &w->waiting[0], policy_find(policy), text);
    return text;
}

static bool is_never(struct world *w)
{
    char text[WORKLOAD_TEXT_MAX];
    return policy_explain_misfit(&w->snapshot, &w->waiting[0], policy_find("firstfit"), text);
}

static void policies_are_found_by_name(void **state)
{
    (void)state;
    size_t count = 0;
    for (const struct policy *p; (p = policy_at(count)) != NULL; count++) {
        assert_ptr_equal(policy_find(p->name), p);
        assert_true(strlen(p->summary) > 0);
    }
    assert_int_equal(count, 12);
    assert_null(policy_find("nonsense"));
    assert_null(policy_find(""));
}

static void model_matching_ignores_case_and_punctuation(void **state)
{
    (void)state;
    assert_true(policy_model_matches("NVIDIA GeForce RTX 3090", "rtx3090"));
    assert_true(policy_model_matches("NVIDIA GeForce RTX 3090", "RTX-3090"));
    assert_true(policy_model_matches("NVIDIA GeForce RTX 3090", "geforce rtx"));
    assert_true(policy_model_matches("NVIDIA A100-SXM4-80GB", "A100 SXM4"));
    assert_true(policy_model_matches("NVIDIA H200", ""));
    assert_true(policy_model_matches("NVIDIA H200", "H200"));
    assert_false(policy_model_matches("NVIDIA H200", "H2000"));
    assert_false(policy_model_matches("NVIDIA H200", "H100"));
    assert_false(policy_model_matches("", "H100"));
}

static void firstfit_fills_devices_in_order(void **state)
{
    struct world w;
    (void)state;
    world_init(&w);
    for (int i = 0; i < 4; i++)
        ask(&w, 1, 8 * GIB);
    assert_int_equal(decide(&w, "firstfit"), 4);
    assert_int_equal(w.out[0].devices[0], 0);
    assert_int_equal(w.out[1].devices[0], 0);
    assert_int_equal(w.out[2].devices[0], 1);
    assert_int_equal(w.out[3].devices[0], 1);
    assert_int_equal(w.devices[0].neighbours, 0); /* the snapshot is unchanged */
}

static void device_fit_enforces_each_limit(void **state)
{
    struct world w;
    (void)state;
    world_init(&w);
    struct workload_needs *needs = ask(&w, 1, 1 * GIB);
    const struct policy_waiting *waiting = &w.waiting[0];
    struct policy_device *device = &w.devices[0];
    device->neighbours = 4;
    assert_int_equal(policy_device_fit(&w.snapshot, device, waiting, 4), POLICY_NEIGHBOURS);
    device->neighbours = 3;
    assert_int_equal(policy_device_fit(&w.snapshot, device, waiting, 4), POLICY_FITS);
    device->quota_bytes = 19 * GIB;
    assert_int_equal(policy_device_fit(&w.snapshot, device, waiting, 4), POLICY_FITS);
    device->quota_bytes = 19 * GIB + 1;
    assert_int_equal(policy_device_fit(&w.snapshot, device, waiting, 4), POLICY_NO_MEMORY);
    device->quota_bytes = 0;
    device->share_min_percent = 60;
    needs->share_min_percent = 40;
    assert_int_equal(policy_device_fit(&w.snapshot, device, waiting, 4), POLICY_FITS);
    needs->share_min_percent = 41;
    assert_int_equal(policy_device_fit(&w.snapshot, device, waiting, 4), POLICY_NO_SHARE);
    needs->share_min_percent = 0;
    needs->quota_bytes = 0; /* needs the whole device */
    assert_int_equal(policy_device_fit(&w.snapshot, device, waiting, 4), POLICY_NEIGHBOURS);
    device->neighbours = 0;
    assert_int_equal(policy_device_fit(&w.snapshot, device, waiting, 4), POLICY_FITS);
    w.nodes[0].usable = false;
    assert_int_equal(policy_device_fit(&w.snapshot, device, waiting, 4), POLICY_NODE_UNUSABLE);
    needs->quota_bytes = UINT64_MAX;
    assert_int_equal(policy_device_fit(&w.snapshot, &w.devices[3], waiting, 4), POLICY_NO_MEMORY);
}

static void swappable_quota_makes_room_for_services(void **state)
{
    struct world w;
    struct workload_needs task = {.devices = 1, .quota_bytes = 12 * GIB, .swappable = true};
    (void)state;
    world_init(&w);
    struct workload_needs *needs = ask(&w, 1, 20 * GIB);
    const struct policy_waiting *waiting = &w.waiting[0];
    struct policy_device *device = &w.devices[0];
    policy_device_take(device, &task);
    needs->kind = WORKLOAD_SERVICE;
    assert_int_equal(policy_device_fit(&w.snapshot, device, waiting, 4), POLICY_FITS);
    needs->kind = WORKLOAD_TASK;
    assert_int_equal(policy_device_fit(&w.snapshot, device, waiting, 4), POLICY_NO_MEMORY);
    /* Services beside it must fit together, and then no task fits. */
    const struct workload_needs service = {
        .kind = WORKLOAD_SERVICE, .devices = 1, .quota_bytes = 15 * GIB};
    policy_device_take(device, &service);
    needs->quota_bytes = GIB;
    needs->swappable = true;
    assert_int_equal(policy_device_fit(&w.snapshot, device, waiting, 4), POLICY_NO_MEMORY);
    needs->swappable = false;
    needs->kind = WORKLOAD_SERVICE;
    needs->quota_bytes = 5 * GIB;
    assert_int_equal(policy_device_fit(&w.snapshot, device, waiting, 4), POLICY_FITS);
    needs->quota_bytes = 5 * GIB + 1;
    assert_int_equal(policy_device_fit(&w.snapshot, device, waiting, 4), POLICY_NO_MEMORY);
    policy_device_release(device, &task);
    assert_int_equal(device->swappable_bytes, 0);
}

static void device_release_undoes_take(void **state)
{
    struct world w;
    (void)state;
    world_init(&w);
    struct policy_device before = w.devices[0];
    struct workload_needs whole = {.devices = 1, .share_min_percent = 10};
    struct workload_needs part = {.devices = 1, .quota_bytes = GIB, .share_min_percent = 20};
    policy_device_take(&w.devices[0], &whole);
    assert_true(w.devices[0].exclusive);
    assert_int_equal(w.devices[0].quota_bytes, 20 * GIB);
    policy_device_take(&w.devices[0], &part);
    policy_device_release(&w.devices[0], &whole);
    assert_false(w.devices[0].exclusive);
    assert_int_equal(w.devices[0].quota_bytes, GIB);
    policy_device_release(&w.devices[0], &part);
    assert_memory_equal(&w.devices[0], &before, sizeof before);
}

static void exclusive_policy_never_shares_device(void **state)
{
    struct world w;
    (void)state;
    world_init(&w);
    for (int i = 0; i < 5; i++)
        ask(&w, 1, GIB);
    assert_int_equal(decide(&w, "exclusive"), 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(w.out[i].devices[0], i);
}

static void workload_devices_come_from_one_node(void **state)
{
    struct world w;
    (void)state;
    world_init(&w);
    ask(&w, 2, 30 * GIB); /* only one device is that large */
    ask(&w, 2, 22 * GIB);
    ask(&w, 3, GIB);
    assert_int_equal(decide(&w, "firstfit"), 1);
    assert_int_equal(w.out[0].waiting, 1);
    assert_int_equal(w.out[0].node, 1);
    assert_int_equal(w.out[0].device_count, 2);
    assert_int_equal(w.out[0].devices[0], 2);
    assert_int_equal(w.out[0].devices[1], 3);
}

static void workload_without_devices_needs_usable_node(void **state)
{
    struct world w;
    (void)state;
    const char *const policies[] = {"firstfit", "random", "exclusive"};
    for (size_t p = 0; p < 3; p++) {
        world_init(&w);
        ask(&w, 0, 0);
        w.nodes[0].usable = false;
        assert_int_equal(decide(&w, policies[p]), 1);
        assert_int_equal(w.out[0].device_count, 0);
        assert_int_equal(w.out[0].node, 1);
        w.nodes[1].usable = false;
        assert_int_equal(decide(&w, policies[p]), 0);
    }
}

static void labels_and_model_restrict_placement(void **state)
{
    struct world w;
    (void)state;
    world_init(&w);
    struct workload_needs *needs = ask(&w, 1, GIB);
    ask(&w, 1, GIB);
    strncpy(needs->model, "3090", sizeof needs->model - 1);
    w.waiting[1].node_labels = &labels_rack_a;
    assert_int_equal(decide(&w, "firstfit"), 2);
    assert_int_equal(w.out[0].devices[0], 2);
    assert_int_equal(w.out[1].devices[0], 0);
}

/* Over many seeds all devices are drawn about equally often, and pairs stay on one node. */
static void random_policy_is_fair_and_repeatable(void **state)
{
    struct world w;
    size_t drawn[4] = {0}, pair_nodes[2] = {0};
    (void)state;
    world_init(&w);
    ask(&w, 1, GIB);
    ask(&w, 2, GIB);
    for (uint64_t seed = 0; seed < 4000; seed++) {
        w.snapshot.seed = seed;
        assert_int_equal(decide(&w, "random"), 2);
        struct policy_decision first = w.out[0], second = w.out[1];
        assert_int_equal(decide(&w, "random"), 2);
        assert_int_equal(first.devices[0], w.out[0].devices[0]);
        assert_int_equal(second.devices[0], w.out[1].devices[0]);
        assert_int_equal(w.devices[second.devices[0]].node, second.node);
        assert_int_equal(w.devices[second.devices[1]].node, second.node);
        assert_int_not_equal(second.devices[0], second.devices[1]);
        drawn[first.devices[0]]++;
        pair_nodes[second.node]++;
    }
    for (size_t d = 0; d < 4; d++)
        assert_in_range(drawn[d], 850, 1150);
    assert_in_range(pair_nodes[0], 1850, 2150);
}

static void explanation_names_unsatisfiable_need(void **state)
{
    struct world w;
    char text[WORKLOAD_TEXT_MAX];
    (void)state;
    world_init(&w);
    struct workload_needs *needs = ask(&w, 1, GIB);
    strncpy(needs->model, "H300", sizeof needs->model - 1);
    assert_string_equal(explain(&w, "firstfit", text),
                        "no such model in the cluster (requested 'H300', present: NVIDIA H200, "
                        "NVIDIA GeForce RTX 3090)");
    needs->model[0] = '\0';
    needs->quota_bytes = 100 * GIB;
    assert_string_equal(explain(&w, "firstfit", text),
                        "100.0 GiB requested, more than any device has (at most 40.0 GiB)");
    assert_true(is_never(&w));
    needs->quota_bytes = GIB;
    needs->devices = 3;
    assert_string_equal(explain(&w, "firstfit", text),
                        "3 devices on one node requested, no node has more than 2 that match");
    needs->devices = 1;
    w.nodes[0].labels = &no_labels;
    w.waiting[0].node_labels = &labels_rack_a;
    assert_string_equal(explain(&w, "firstfit", text), "no node has the requested labels");
    w.snapshot.node_count = w.snapshot.device_count = 0;
    assert_string_equal(explain(&w, "firstfit", text), "no node has joined yet");
    assert_false(is_never(&w)); /* a later node might fit */
}

static void explanation_names_device_health(void **state)
{
    const struct device_health hot = {.state = DEVICE_OVERLIMIT, .cause = "too hot"};
    struct device_health faulted = {
        .state = DEVICE_HEALTHY, .admits = ADMIT_NONE, .cause = "Xid 31"};
    struct world w;
    char text[WORKLOAD_TEXT_MAX];
    (void)state;
    world_init(&w);
    ask(&w, 1, GIB);
    for (size_t d = 0; d < 4; d++)
        w.devices[d].admits = ADMIT_SERVICES;
    assert_string_equal(explain(&w, "firstfit", text),
                        "0 of 4 devices fit: 4 take no new tasks now");
    w.devices[1].health = &hot;
    assert_string_equal(explain(&w, "firstfit", text),
                        "0 of 4 devices fit: 4 take no new tasks now (one is overlimit: too hot)");
    for (size_t d = 1; d < 4; d++) {
        w.devices[d].admits = ADMIT_ALL;
        w.devices[d].neighbours = 4;
    }
    w.devices[0].health = &faulted;
    assert_string_equal(explain(&w, "firstfit", text),
                        "0 of 4 devices fit: 1 takes no new tasks now (in repair: Xid 31), 3 in "
                        "use (at most 4 neighbours)");
    faulted.admits = ADMIT_SERVICES;
    assert_non_null(strstr(explain(&w, "firstfit", text),
                           "1 takes no new tasks now (repaired, and services come back first), "));
}

static void explanation_counts_devices_by_obstacle(void **state)
{
    struct world w;
    char text[WORKLOAD_TEXT_MAX];
    (void)state;
    world_init(&w);
    struct workload_needs *needs = ask(&w, 1, 20 * GIB);
    w.devices[0].quota_bytes = 12 * GIB;
    w.devices[1].quota_bytes = 16 * GIB;
    w.devices[2].neighbours = 4;
    w.devices[3].share_min_percent = 90;
    needs->share_min_percent = 20;
    assert_string_equal(
        explain(&w, "firstfit", text),
        "0 of 4 devices fit: 2 have too little memory (20.0 GiB requested, quotas leave at "
        "most 8.0), 1 has too little free share (20% requested, at most 10% "
        "free), 1 in use (at most 4 neighbours)");
    assert_false(is_never(&w));
    w.devices[1].neighbours = w.devices[3].neighbours = 1;
    assert_string_equal(explain(&w, "exclusive", text),
                        "0 of 4 devices fit: 1 has too little memory (20.0 GiB requested, quotas "
                        "leave at most 8.0), 3 in use");
    needs->quota_bytes = 0;
    needs->share_min_percent = 0;
    for (size_t i = 0; i < 4; i++)
        w.devices[i].neighbours = 1;
    assert_string_equal(explain(&w, "exclusive", text), "0 of 4 devices fit: 4 in use");
    assert_string_equal(
        explain(&w, "firstfit", text),
        "0 of 4 devices fit: 4 in use, and a workload without a quota needs a whole device");
    w.nodes[0].usable = w.nodes[1].usable = false;
    assert_string_equal(explain(&w, "firstfit", text),
                        "0 of 4 devices fit: 4 on nodes that are drained, held or not connected");
    needs->devices = 0;
    assert_string_equal(explain(&w, "firstfit", text),
                        "no node is usable: drained, held or not connected");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_are_found_by_name),
        cmocka_unit_test(model_matching_ignores_case_and_punctuation),
        cmocka_unit_test(firstfit_fills_devices_in_order),
        cmocka_unit_test(device_fit_enforces_each_limit),
        cmocka_unit_test(swappable_quota_makes_room_for_services),
        cmocka_unit_test(device_release_undoes_take),
        cmocka_unit_test(exclusive_policy_never_shares_device),
        cmocka_unit_test(workload_devices_come_from_one_node),
        cmocka_unit_test(workload_without_devices_needs_usable_node),
        cmocka_unit_test(labels_and_model_restrict_placement),
        cmocka_unit_test(random_policy_is_fair_and_repeatable),
        cmocka_unit_test(explanation_names_unsatisfiable_need),
        cmocka_unit_test(explanation_names_device_health),
        cmocka_unit_test(explanation_counts_devices_by_obstacle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
