#include "policy/place_fixture.h"

/* Returns the best total over all assignments of rows to devices. */
static double best_sum(const struct world *w, size_t row, unsigned taken)
{
    const struct policy *policy = policy_find("gpumux");
    if (row == w->snapshot.waiting_count)
        return 0;
    double best = best_sum(w, row + 1, taken);
    for (size_t d = 0; d < WORLD_DEVICES; d++) {
        struct policy_candidate c;
        if (taken & 1u << d)
            continue;
        policy_consider(policy, &w->snapshot, &w->waiting[row], w->fleet.devices[d].class_index,
                        &c);
        if (c.misfit == POLICY_FITS && c.objection == POLICY_OBJECTS_NONE &&
            c.speed_after > c.speed_before)
            best =
                fmax(best, c.speed_after - c.speed_before + best_sum(w, row + 1, taken | 1u << d));
    }
    return best;
}

static void fill(struct world *w, struct rng *rng, size_t count, bool checkpoints)
{
    for (size_t i = 0; i < count; i++) {
        struct policy_waiting x = world_ask(w, (uint32_t)(1 + rng_below(rng, WORLD_TASK_KINDS)),
                                            1 + rng_below(rng, 50), 1000 + 1e7 * rng_double(rng));
        size_t device = rng_below(rng, WORLD_DEVICES);
        w->workloads[x.workload].known.checkpoints = checkpoints;
        if (policy_device_fit(&w->snapshot, &w->devices[device], &x, 4) == POLICY_FITS)
            world_place_on(w, &x, device);
    }
}

static void round_finds_best_assignment(void **state)
{
    struct rng rng;
    (void)state;
    rng_seed(&rng, 21);
    for (int round = 0; round < 12; round++) {
        struct world w;
        struct policy_decision decisions[WORLD_WORKLOADS];
        struct policy_move moves[POLICY_MOVES_MAX];
        struct policy_round result = {.decisions = decisions, .moves = moves};
        double sum = 0;
        unsigned taken = 0;
        world_open(&w);
        fill(&w, &rng, 30, false);
        for (size_t i = 0; i < 4; i++)
            w.waiting[w.snapshot.waiting_count++] =
                world_ask(&w, (uint32_t)(1 + rng_below(&rng, WORLD_TASK_KINDS)), 30, 1e6);
        assert_int_equal(policy_match_round(policy_find("gpumux"), &w.snapshot, true, &result), 0);
        assert_int_equal(result.move_count, 0);
        for (size_t i = 0; i < result.decision_count; i++) {
            struct policy_candidate c;
            size_t device = decisions[i].devices[0];
            assert_false(taken & 1u << device);
            taken |= 1u << device;
            policy_consider(policy_find("gpumux"), &w.snapshot, &w.waiting[decisions[i].waiting],
                            w.fleet.devices[device].class_index, &c);
            sum += c.speed_after - c.speed_before;
        }
        assert_true(fabs(sum - best_sum(&w, 0, 0)) < 1e-6);
        for (size_t i = 0; i < result.decision_count; i++)
            world_place(&w, &w.waiting[decisions[i].waiting], &decisions[i]);
        world_check(&w);
        world_close(&w);
    }
}

/* Two tasks that slow each other, and an empty device: one of them moves if it has a checkpoint. */
static void task_with_checkpoint_moves_in_round(void **state)
{
    (void)state;
    for (int checkpoints = 0; checkpoints < 2; checkpoints++) {
        struct world w;
        struct policy_move moves[POLICY_MOVES_MAX];
        struct policy_round result = {.moves = moves};
        world_open(&w);
        for (size_t i = 0; i < 2; i++) {
            struct policy_waiting x = world_ask(&w, 8, 10, 1e7);
            w.workloads[x.workload].known.checkpoints = checkpoints;
            world_place_on(&w, &x, 5);
        }
        assert_int_equal(policy_find("muxflow")->round(&w.snapshot, &result), 0);
        assert_int_equal(result.decision_count, 0);
        assert_int_equal(result.move_count > 0, checkpoints);
        for (size_t i = 0; i < result.move_count; i++) {
            assert_int_equal(moves[i].from, 5);
            assert_int_not_equal(moves[i].to, 5);
        }
        world_close(&w);
    }
}

/* A large round uses only a part of the edges; its result is checked as far as possible. */
static void large_round_places_nearly_all(void **state)
{
    enum { DEVICES = 3000, NODE = 8 };
    struct world w;
    struct rng rng;
    struct policy_device *devices = calloc(DEVICES, sizeof *devices);
    struct policy_node *nodes = calloc(DEVICES / NODE, sizeof *nodes);
    const struct device **specs = calloc(DEVICES, sizeof *specs);
    struct policy_waiting *waiting = calloc(DEVICES, sizeof *waiting);
    struct policy_decision *decisions = calloc(DEVICES, sizeof *decisions);
    struct policy_move moves[POLICY_MOVES_MAX];
    bool *taken = calloc(DEVICES, sizeof *taken);
    struct workload_needs needs = {.devices = 1, .quota_bytes = 10};
    (void)state;
    world_open(&w);
    rng_seed(&rng, 4);
    for (size_t d = 0; d < DEVICES; d++) {
        devices[d] = w.devices[0];
        devices[d].node = d / NODE;
        specs[d] = &w.specs[0];
        waiting[d] = (struct policy_waiting){
            .workload = d,
            .needs = &needs,
            .known = {.kind = (uint32_t)(1 + rng_below(&rng, WORLD_TASK_KINDS)), .alone_ms = 1e6}};
    }
    for (size_t n = 0; n < DEVICES / NODE; n++) {
        nodes[n] = w.nodes[0];
        nodes[n].first_device = n * NODE;
        nodes[n].device_count = NODE;
    }
    struct policy_snapshot snapshot = w.snapshot;
    snapshot.nodes = nodes;
    snapshot.node_count = DEVICES / NODE;
    snapshot.devices = devices;
    snapshot.device_count = DEVICES;
    snapshot.waiting = waiting;
    snapshot.waiting_count = DEVICES;
    assert_int_equal(fleet_reset(&w.fleet, &snapshot, specs), 0);
    struct policy_round result = {.decisions = decisions, .moves = moves};
    assert_int_equal(policy_match_round(policy_find("gpumux"), &snapshot, true, &result), 0);
    assert_true(result.decision_count >= DEVICES * 98 / 100);
    for (size_t i = 0; i < result.decision_count; i++) {
        assert_false(taken[decisions[i].devices[0]]);
        taken[decisions[i].devices[0]] = true;
    }
    world_close(&w);
    free(devices);
    free(nodes);
    free(specs);
    free(waiting);
    free(decisions);
    free(taken);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_finds_best_assignment),
        cmocka_unit_test(task_with_checkpoint_moves_in_round),
        cmocka_unit_test(large_round_places_nearly_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
