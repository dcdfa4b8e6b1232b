#include "policy/place_fixture.h"

static struct policy_waiting ask_anything(struct world *w, struct rng *rng)
{
    uint32_t kind = (uint32_t)rng_below(rng, WORLD_KINDS);
    struct policy_waiting waiting =
        world_ask(w, kind, 1 + rng_below(rng, 60), rng_below(rng, 3) ? 1e6 * rng_double(rng) : 0);
    struct workload_needs *needs = &w->workloads[waiting.workload].needs;
    needs->share_min_percent = rng_below(rng, 3) ? 0 : (int)rng_below(rng, 60);
    if (needs->kind == WORKLOAD_TASK && rng_below(rng, 6) == 0)
        needs->devices = 1 + (int)rng_below(rng, WORLD_NODE_DEVICES);
    waiting.waited_ms = (int64_t)rng_below(rng, 100000);
    waiting.ahead = rng_below(rng, 4);
    return waiting;
}

static void check_decision(const struct world *w, const struct policy_waiting *waiting,
                           const struct policy_decision *decision)
{
    assert_int_equal(decision->device_count, (size_t)waiting->needs->devices);
    for (size_t i = 0; i < decision->device_count; i++) {
        assert_int_equal(w->devices[decision->devices[i]].node, decision->node);
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(decision->devices[i], decision->devices[j]);
    }
}

/* Random arrivals and departures under every policy: no device is over-committed, and the same
 * question gets the same answer. */
static void policies_never_overcommit_devices(void **state)
{
    (void)state;
    for (size_t p = 0; policy_at(p); p++) {
        const struct policy *policy = policy_at(p);
        struct rng rng;
        struct world w;
        size_t placed = 0;
        if (!policy->judge)
            continue;
        rng_seed(&rng, p);
        for (int life = 0; life < 6; life++) {
            world_open(&w);
            while (w.workload_count < WORLD_WORKLOADS) {
                struct policy_waiting waiting = ask_anything(&w, &rng);
                struct place_outcome outcome, again;
                policy_place(policy, &w.snapshot, &waiting, &outcome);
                policy_place(policy, &w.snapshot, &waiting, &again);
                assert_int_equal(outcome.verdict, again.verdict);
                assert_int_equal(outcome.retry_ms, again.retry_ms);
                assert_memory_equal(outcome.decision.devices, again.decision.devices,
                                    sizeof outcome.decision.devices);
                w.snapshot.now_ms += (int64_t)rng_below(&rng, 20000);
                if (outcome.verdict == POLICY_PLACES) {
                    check_decision(&w, &waiting, &outcome.decision);
                    world_place(&w, &waiting, &outcome.decision);
                    placed++;
                }
                size_t leaver = rng_below(&rng, w.workload_count);
                if (w.workloads[leaver].placed && rng_below(&rng, 2))
                    world_remove(&w, leaver);
                world_check(&w);
            }
            world_close(&w);
        }
        assert_true(placed > 30);
    }
}

static void fill_at_random(struct world *w, struct rng *rng, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct policy_waiting x = world_ask(w, (uint32_t)(1 + rng_below(rng, WORLD_TASK_KINDS)),
                                            1 + rng_below(rng, 30), 1000 + 1e6 * rng_double(rng));
        size_t device = rng_below(rng, WORLD_DEVICES);
        if (policy_device_fit(&w->snapshot, &w->devices[device], &x, 4) == POLICY_FITS)
            world_place_on(w, &x, device);
    }
}

/* Returns the growth of a device's PD sum, from the forecast alone. */
static double pd_growth(const struct world *w, size_t device, uint32_t kind, double *ret_speed)
{
    struct forecast_set set = {.device = w->fleet.devices[device].type};
    struct forecast_answer answer;
    double before = 0, after = 0;
    for (size_t i = 0; i < w->fleet.devices[device].member_count; i++)
        (void)forecast_set_add(&set, w->fleet.devices[device].members[i].kind);
    w->forecast.together(w->forecast.context, &set, &answer);
    for (size_t i = 0; i < set.count; i++)
        before += answer.pd[i];
    (void)forecast_set_add(&set, kind);
    w->forecast.together(w->forecast.context, &set, &answer);
    *ret_speed = 0;
    for (size_t i = 0; i < set.count; i++) {
        after += answer.pd[i];
        *ret_speed += 1 / answer.pd[i];
    }
    return after - before;
}

static void iadeep_matches_exhaustive_search(void **state)
{
    const struct policy *iadeep = policy_find("iadeep");
    struct rng rng;
    (void)state;
    rng_seed(&rng, 11);
    for (int round = 0; round < 200; round++) {
        struct world w;
        double least = INFINITY, speed;
        world_open(&w);
        fill_at_random(&w, &rng, 40);
        struct policy_waiting x =
            world_ask(&w, (uint32_t)(1 + rng_below(&rng, WORLD_TASK_KINDS)), 20, 5e5);
        x.waited_ms = INT32_MAX; /* has waited long enough to be placed */
        for (size_t d = 0; d < WORLD_DEVICES; d++) {
            double growth = pd_growth(&w, d, x.known.kind, &speed);
            bool skipped = w.devices[d].neighbours > 0 && speed < 1.1;
            if (!skipped && policy_device_fit(&w.snapshot, &w.devices[d], &x, 4) == POLICY_FITS)
                least = fmin(least, growth);
        }
        struct place_outcome outcome;
        policy_place(iadeep, &w.snapshot, &x, &outcome);
        assert_int_equal(outcome.verdict, isfinite(least) ? POLICY_PLACES : POLICY_REFUSES);
        if (isfinite(least))
            assert_true(fabs(pd_growth(&w, outcome.decision.devices[0], x.known.kind, &speed) -
                             least) < 1e-9);
        world_close(&w);
    }
}

/* Returns ΔCT of waiting, over every device, with no workload ahead. */
static double least_wait(const struct world *w, const struct policy_waiting *x)
{
    double least = INFINITY;
    for (size_t d = 0; d < WORLD_DEVICES; d++) {
        struct forecast_set set = {.device = w->fleet.devices[d].type}, with;
        struct forecast_answer answer;
        double left[FORECAST_MEMBERS_MAX], joined[FORECAST_MEMBERS_MAX], first = INFINITY;
        size_t at = 0, leaver = 0, count = w->fleet.devices[d].member_count;
        for (size_t i = 0; i < count; i++) {
            (void)forecast_set_add(&set, w->fleet.devices[d].members[i].kind);
            left[i] = fleet_remaining_ms(&w->fleet, d, i, w->snapshot.now_ms);
        }
        w->forecast.together(w->forecast.context, &set, &answer);
        for (size_t i = 0; i < count; i++)
            if (left[i] * answer.pd[i] < first) {
                first = left[i] * answer.pd[i];
                leaver = i;
            }
        if (count == 0)
            continue;
        struct policy_device then = w->devices[d];
        policy_device_release(&then, w->fleet.devices[d].members[leaver].needs);
        if (policy_device_fit(&w->snapshot, &then, x, 4) != POLICY_FITS)
            continue;
        with = (struct forecast_set){.device = set.device};
        struct forecast_set rest = with;
        for (size_t i = 0; i < count; i++)
            if (i != leaver) {
                left[at++] = left[i] - first / answer.pd[i];
                (void)forecast_set_add(&rest, set.kinds[i]);
            }
        with = rest;
        size_t own = forecast_set_add(&with, x->known.kind);
        for (size_t i = 0; i < with.count; i++)
            joined[i] = i == own ? x->known.alone_ms : left[i < own ? i : i - 1];
        least = fmin(least, first + forecast_finish_sum(&w->forecast, &with, joined, NULL) -
                                forecast_finish_sum(&w->forecast, &rest, left, NULL) -
                                x->known.alone_ms);
    }
    return least;
}

/* Checks that the placement delays others no more than any device of the best classes would. */
static void check_delays_least(const struct world *w, const struct policy_waiting *x,
                               double added_ms)
{
    struct policy_candidate best[PLACE_CLASSES_MAX];
    size_t count =
        policy_candidates(policy_find("gpumux"), &w->snapshot, x, best, PLACE_CLASSES_MAX);
    for (size_t i = 0; i < count; i++) {
        size_t first = w->fleet.classes[best[i].class_index].first;
        if (best[i].misfit == POLICY_FITS && best[i].objection == POLICY_OBJECTS_NONE)
            assert_true(added_ms <= policy_added_ms(&w->snapshot, x, first) + 1);
    }
}

/* gpumux places iff ΔCT(now) ≤ ΔCT(wait) + age, and places a waiting workload after retry_ms. */
static void gpumux_waits_when_completion_is_sooner(void **state)
{
    const struct policy *gpumux = policy_find("gpumux");
    struct rng rng;
    size_t waited = 0, placed = 0;
    (void)state;
    rng_seed(&rng, 3);
    for (int round = 0; round < 300; round++) {
        struct world w;
        struct place_outcome outcome, later;
        world_open(&w);
        fill_at_random(&w, &rng, 60);
        struct policy_waiting x = world_ask(&w, (uint32_t)(1 + rng_below(&rng, WORLD_TASK_KINDS)),
                                            10, 1e6 * rng_double(&rng) + 1000);
        x.waited_ms = (int64_t)rng_below(&rng, 1000);
        policy_place(gpumux, &w.snapshot, &x, &outcome);
        if (outcome.verdict == POLICY_WAITS) {
            assert_true(fabs(outcome.wait_ms - least_wait(&w, &x)) < 1);
            assert_true(outcome.now_ms > outcome.wait_ms + (double)x.waited_ms);
            assert_true(outcome.retry_ms > 0);
            x.waited_ms += outcome.retry_ms;
            policy_place(gpumux, &w.snapshot, &x, &later);
            assert_int_equal(later.verdict, POLICY_PLACES);
            waited++;
        } else if (outcome.verdict == POLICY_PLACES &&
                   w.devices[outcome.decision.devices[0]].neighbours > 0) {
            double added_ms = policy_added_ms(&w.snapshot, &x, outcome.decision.devices[0]);
            assert_true(added_ms <= least_wait(&w, &x) + (double)x.waited_ms + 1);
            check_delays_least(&w, &x, added_ms);
            placed++;
        }
        w.snapshot.options.without[POLICY_PART_OPTIMIZER] = true;
        policy_place(gpumux, &w.snapshot, &x, &outcome);
        assert_int_not_equal(outcome.verdict, POLICY_WAITS);
        world_close(&w);
    }
    assert_true(waited > 20 && placed > 20);
}

static void gpumux_placement_respects_slo(void **state)
{
    struct world w;
    struct place_outcome outcome;
    struct policy_candidate all[WORLD_DEVICES];
    (void)state;
    world_open(&w);
    for (size_t d = 0; d < WORLD_DEVICES; d++) { /* a service that uses 0.3 on every device */
        struct policy_waiting service = world_ask(&w, WORLD_SERVICE, 10, 0);
        world_place_on(&w, &service, d);
    }
    struct policy_waiting large = world_ask(&w, 8, 10, 1e6), small = world_ask(&w, 5, 10, 1e6);
    w.workloads[large.workload].needs.share_min_percent = 0;
    policy_place(policy_find("gpumux"), &w.snapshot, &small, &outcome);
    assert_int_equal(outcome.verdict, POLICY_PLACES);
    world_place(&w, &small, &outcome.decision);
    w.profiles[WORLD_SERVICE].slo_ms = 85; /* below 80 · (0.3 + 0.8) */
    policy_place(policy_find("gpumux"), &w.snapshot, &large, &outcome);
    assert_int_equal(outcome.verdict, POLICY_REFUSES);
    size_t count =
        policy_candidates(policy_find("gpumux"), &w.snapshot, &large, all, WORLD_DEVICES);
    assert_int_equal(count, 3); /* two models, and one device with a task */
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(all[i].objection, POLICY_OBJECTS_SLO);
        assert_true(all[i].p99_ms > 85 && all[i].slo_ms == 85);
        assert_true(strlen(policy_objection_text(all[i].objection)) > 0);
        assert_int_equal(all[i].service, WORLD_SERVICE);
    }
    w.is_p99_guess = true; /* a guess refuses nothing */
    policy_place(policy_find("gpumux"), &w.snapshot, &large, &outcome);
    assert_int_equal(outcome.verdict, POLICY_PLACES);
    (void)policy_candidates(policy_find("muxflow"), &w.snapshot, &large, all, WORLD_DEVICES);
    assert_int_equal(all[0].objection, POLICY_OBJECTS_ROUND); /* not because of the SLO */
    (void)policy_candidates(policy_find("gpumux"), &w.snapshot, &large, all, WORLD_DEVICES);
    assert_true(all[0].p99_ms > 85 && all[0].slo_ms == 85 && all[0].is_p99_guess);
    w.is_p99_guess = false;
    /* kernelest considers SMs, not latency; mudi allows one service per device. */
    policy_place(policy_find("kernelest"), &w.snapshot, &large, &outcome);
    assert_int_equal(outcome.verdict, POLICY_REFUSES);
    struct policy_waiting service = world_ask(&w, WORLD_SERVICE, 10, 0);
    policy_place(policy_find("mudi"), &w.snapshot, &service, &outcome);
    assert_int_equal(outcome.verdict, POLICY_REFUSES);
    world_close(&w);
}

static void candidates_are_ordered_by_score(void **state)
{
    struct rng rng;
    struct world w;
    struct policy_candidate all[WORLD_DEVICES], best;
    (void)state;
    rng_seed(&rng, 8);
    for (size_t p = 0; policy_at(p); p++) {
        if (!policy_at(p)->judge)
            continue;
        world_open(&w);
        fill_at_random(&w, &rng, 30);
        struct policy_waiting x = world_ask(&w, 4, 60, 1000);
        size_t count = policy_candidates(policy_at(p), &w.snapshot, &x, all, WORLD_DEVICES);
        assert_true(count > 1);
        for (size_t i = 1; i < count; i++)
            if (all[i].misfit == POLICY_FITS && all[i].objection == POLICY_OBJECTS_NONE)
                assert_true(all[i - 1].misfit == POLICY_FITS && all[i - 1].score >= all[i].score);
        assert_int_equal(policy_candidates(policy_at(p), &w.snapshot, &x, &best, 1), 1);
        assert_int_equal(best.class_index, all[0].class_index);
        world_close(&w);
    }
}

static void remaining_time_follows_forecast(void **state)
{
    struct world w;
    double left_ms = -1;
    (void)state;
    world_open(&w);
    struct policy_waiting a = world_ask(&w, 8, 10, 100000), b = world_ask(&w, 8, 10, 0);
    world_place_on(&w, &a, 3);
    w.snapshot.now_ms += 20000; /* alone, at full speed */
    assert_true(fabs(fleet_remaining_ms(&w.fleet, 3, 0, w.snapshot.now_ms) - 80000) < 1e-6);
    world_place_on(&w, &b, 3);
    w.snapshot.now_ms += 33600; /* together: PD 1.6 + 0.08 */
    for (size_t i = 0; i < 2; i++)
        if (w.fleet.devices[3].members[i].workload == b.workload)
            assert_true(fleet_remaining_ms(&w.fleet, 3, i, w.snapshot.now_ms) == FLEET_UNKNOWN_MS);
    policy_device_release(&w.devices[3], a.needs);
    assert_int_equal(
        fleet_release(&w.fleet, &w.snapshot, 3, a.workload, w.snapshot.now_ms, &left_ms), 0);
    assert_true(fabs(left_ms - 60000) < 1e-6);
    w.snapshot.now_ms += 1000000; /* unknown: assumed to run as long again */
    assert_true(fleet_remaining_ms(&w.fleet, 3, 0, w.snapshot.now_ms) == 1033600);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_never_overcommit_devices),
        cmocka_unit_test(iadeep_matches_exhaustive_search),
        cmocka_unit_test(gpumux_waits_when_completion_is_sooner),
        cmocka_unit_test(gpumux_placement_respects_slo),
        cmocka_unit_test(candidates_are_ordered_by_score),
        cmocka_unit_test(remaining_time_follows_forecast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
