/* The queue under policies that judge: its order, its waits, and the tasks that are moved. */
#include "cluster/cluster_fixture.h"

enum { MINUTE_MS = 60 * 1000, TASK_KIND = 1 };

static const struct forecast_profile task_profile = {.name = "task", .sm_activity = 0.9};

static const struct forecast_profile *profile(void *context, const struct forecast_device *device,
                                              uint32_t kind)
{
    (void)context;
    (void)device;
    return kind == TASK_KIND ? &task_profile : NULL;
}

/* Two workloads run at 5/8 of their speed each, more run at a quarter. */
static void together(void *context, const struct forecast_set *set,
                     struct forecast_answer *ret_answer)
{
    (void)context;
    for (size_t i = 0; i < set->count; i++) {
        ret_answer->pd[i] = set->count == 1 ? 1 : set->count == 2 ? 1.6 : 4;
        ret_answer->p99_ms[i] = 0;
        ret_answer->is_p99_guess[i] = false;
    }
}

static const struct forecast forecast = {.profile = profile, .together = together};

static void open_believing(struct fixture *f, const char *policy, const struct forecast *believed)
{
    *f = (struct fixture){0};
    cluster_config_default(&f->config);
    f->config.policy = policy_find(policy);
    f->config.forecast = believed;
    f->config.lease_ms = 24 * 60 * MINUTE_MS; /* no node sends beats */
    f->now = (struct clock_now){.wall_ms = 1700000000000, .boot_ms = 5000};
    cluster_actions_init(&f->actions);
    assert_int_equal(cluster_new(&f->config, &f->cluster), 0);
    cluster_load_done(f->cluster, 0, f->now);
}

static void open_with(struct fixture *f, const char *policy)
{
    open_believing(f, policy, &forecast);
}

static uint64_t submit_known(struct fixture *f, int priority, double alone_ms, bool checkpoints)
{
    struct workload_needs needs = task_needs();
    struct cluster_submission item = {
        .name = "w",
        .needs = &needs,
        .known = {.kind = TASK_KIND, .alone_ms = alone_ms, .checkpoints = checkpoints}};
    item.known.program = TASK_KIND;
    needs.priority = priority;
    return submit_all(f, &item, 1, NULL)->first;
}

static void end(struct fixture *f, uint64_t session, uint64_t id, int attempt)
{
    struct attempt_report r = {.workload = id, .attempt = attempt, .phase = ATTEMPT_EXITED};
    report_full(f, "a", session, &r);
}

/* The second task would slow the first, which ends soon. The second task waits for that end, or
 * until the limit of its wait. */
static void task_waits_for_departing_neighbour(void **state)
{
    struct fixture f;
    (void)state;
    for (int departs = 0; departs < 2; departs++) {
        open_with(&f, "iadeep");
        uint64_t session = hello(&f, "a");
        uint64_t first = submit_known(&f, 0, 10000, false);
        uint64_t second = submit_known(&f, 0, 600000, false);
        assert_int_equal(state_of(&f, first), WORKLOAD_PLACED);
        assert_int_equal(state_of(&f, second), WORKLOAD_QUEUED);
        const struct workload_status *status = cluster_live_status(f.cluster, second);
        assert_non_null(strstr(status->text, "waiting for the next free device"));
        if (departs) {
            end(&f, session, first, 1);
        } else {
            int64_t due_ms = cluster_next_tick(f.cluster) - f.now.boot_ms;
            assert_true(due_ms > 0 && due_ms < 10 * MINUTE_MS);
            for (int i = 0; i < 100 && state_of(&f, second) == WORKLOAD_QUEUED; i++)
                tick_after(&f, 1000);
        }
        assert_int_equal(state_of(&f, second), WORKLOAD_PLACED);
        fixture_close(&f);
    }
}

/* The slowdown that is known at the time. */
static void together_as_known(void *context, const struct forecast_set *set,
                              struct forecast_answer *ret_answer)
{
    const double *pd = context;
    for (size_t i = 0; i < set->count; i++) {
        ret_answer->pd[i] = set->count == 1 ? 1 : *pd;
        ret_answer->p99_ms[i] = 0;
        ret_answer->is_p99_guess[i] = false;
    }
}

/* The old forecast kept a task waiting: the new one places the task, and explains the task once
 * it runs. */
static void new_forecast_reevaluates_live_tasks(void **state)
{
    struct fixture f;
    double pd = 2.5;
    const struct forecast known = {
        .context = &pd, .profile = profile, .together = together_as_known};
    struct cluster_explanation *x = malloc(sizeof *x);
    bool used[TASK_KIND + 2] = {false};
    (void)state;
    assert_non_null(x);
    open_believing(&f, "gpumux", &known);
    (void)hello(&f, "a");
    uint64_t first = submit_known(&f, 0, 0, false), second = submit_known(&f, 0, 0, false);
    assert_int_equal(state_of(&f, first), WORKLOAD_PLACED);
    assert_int_equal(state_of(&f, second), WORKLOAD_QUEUED);
    tick_after(&f, 1000);
    assert_int_equal(state_of(&f, second), WORKLOAD_QUEUED);
    pd = 1;
    struct cluster_event event = {.kind = CLUSTER_FORECAST};
    step(&f, &event);
    assert_int_equal(state_of(&f, second), WORKLOAD_PLACED);
    pd = 1.25;
    event = (struct cluster_event){.kind = CLUSTER_FORECAST};
    step(&f, &event);
    assert_int_equal(cluster_explain(f.cluster, second, x), 0);
    assert_true(x->count == 1 && x->candidates[0].judged && x->candidates[0].pd == 1.25);
    assert_int_equal(cluster_live_program(f.cluster, second), TASK_KIND);
    assert_int_equal(cluster_live_program(f.cluster, 99), 0);
    cluster_programs_in_use(f.cluster, used, TASK_KIND + 2);
    assert_true(!used[0] && used[TASK_KIND] && !used[TASK_KIND + 1]);
    free(x);
    fixture_close(&f);
}

/* A guess keeps no task waiting: the second task starts unless its program is known. */
static void only_known_program_is_kept_waiting(void **state)
{
    const bool known[] = {false, true};
    (void)state;
    for (int is_known = 0; is_known < 2; is_known++) {
        struct fixture f;
        struct workload_needs needs = task_needs();
        struct cluster_submission item = {
            .name = "w", .needs = &needs, .known = {.program = TASK_KIND, .alone_ms = 10000}};
        open_with(&f, "iadeep");
        uint64_t session = hello(&f, "a");
        uint64_t first = submit_all(&f, &item, 1, NULL)->first;
        gone(&f, "a", session);
        item.known.alone_ms = 600000;
        uint64_t second = submit_all(&f, &item, 1, NULL)->first;
        struct cluster_event event = {.kind = CLUSTER_FORECAST,
                                      .forecast = {.known = known, .count = is_known ? 2 : 1}};
        step(&f, &event);
        assert_int_equal(state_of(&f, second), WORKLOAD_QUEUED);
        const struct attempt_report runs = {
            .workload = first, .attempt = 1, .phase = ATTEMPT_RUNNING};
        (void)hello_as(&f, "a", "i", &runs, 1);
        assert_int_equal(state_of(&f, first), WORKLOAD_RUNNING);
        assert_int_equal(state_of(&f, second), is_known ? WORKLOAD_QUEUED : WORKLOAD_PLACED);
        fixture_close(&f);
    }
}

/* Under every policy, although tasks of a higher priority keep arriving. */
static void low_priority_task_never_starves(void **state)
{
    (void)state;
    for (size_t p = 0; policy_at(p); p++) {
        struct fixture f;
        struct workload_needs whole = task_needs();
        uint64_t running, old, next;
        int rounds = 0;
        open_with(&f, policy_at(p)->name);
        uint64_t session = hello(&f, "a");
        whole.quota_bytes = 0; /* one at a time under every policy */
        struct cluster_submission item = {
            .name = "w", .needs = &whole, .known = {.kind = TASK_KIND, .alone_ms = MINUTE_MS}};
        whole.priority = 5;
        running = submit_all(&f, &item, 1, NULL)->first;
        whole.priority = 0;
        item.known.alone_ms = 10 * MINUTE_MS;
        old = submit_all(&f, &item, 1, NULL)->first;
        whole.priority = 5;
        item.known.alone_ms = MINUTE_MS;
        while (state_of(&f, old) == WORKLOAD_QUEUED && rounds++ < 500) {
            next = submit_all(&f, &item, 1, NULL)->first;
            tick_after(&f, MINUTE_MS);
            assert_int_equal(state_of(&f, running), WORKLOAD_PLACED);
            end(&f, session, running, 1);
            running = next;
        }
        assert_in_range(rounds, 10, 499); /* the old one waits, but not for ever */
        fixture_close(&f);
    }
}

static void gpumux_policy_prefers_short_tasks(void **state)
{
    struct fixture f;
    (void)state;
    for (int shortest = 0; shortest < 2; shortest++) {
        struct workload_needs whole = task_needs();
        open_with(&f, shortest ? "gpumux" : "iadeep");
        uint64_t session = hello(&f, "a"), ids[3];
        whole.quota_bytes = 0;
        for (int i = 0; i < 3; i++) {
            struct cluster_submission item = {
                .name = "w",
                .needs = &whole,
                .known = {.kind = TASK_KIND, .alone_ms = (i == 1 ? 60 : 1) * MINUTE_MS}};
            ids[i] = submit_all(&f, &item, 1, NULL)->first;
        }
        end(&f, session, ids[0], 1);
        assert_int_equal(state_of(&f, ids[shortest ? 2 : 1]), WORKLOAD_PLACED);
        assert_int_equal(state_of(&f, ids[shortest ? 1 : 2]), WORKLOAD_QUEUED);
        fixture_close(&f);
    }
}

/* Two tasks share a device when another device joins: the round moves one task, if the tasks can
 * continue from a checkpoint. */
static void round_moves_only_checkpointing_tasks(void **state)
{
    (void)state;
    for (int checkpoints = 0; checkpoints < 2; checkpoints++) {
        struct fixture f;
        open_with(&f, "gpumux");
        f.config.forecast = &forecast;
        uint64_t session = hello(&f, "a"), ids[2];
        for (int i = 0; i < 2; i++)
            ids[i] = submit_known(&f, 0, 100.0 * MINUTE_MS, checkpoints);
        for (int i = 0; i < 30 && state_of(&f, ids[1]) == WORKLOAD_QUEUED; i++)
            tick_after(&f, 5 * MINUTE_MS);
        for (int i = 0; i < 2; i++)
            report(&f, "a", session, ids[i], 1, ATTEMPT_RUNNING);
        uint64_t other = hello(&f, "b");
        assert_true(other > 0);
        const struct cluster_action *stop = NULL;
        for (int i = 0; i < 5 && !stop; i++) {
            tick_after(&f, MINUTE_MS);
            stop = find(&f, CLUSTER_SEND_STOP);
        }
        assert_int_equal(stop != NULL, checkpoints);
        if (stop) {
            uint64_t moved = stop->workload;
            assert_int_equal(state_of(&f, moved), WORKLOAD_STOPPING);
            end(&f, session, moved, 1);
            assert_int_equal(state_of(&f, moved), WORKLOAD_PLACED);
            const struct workload_status *status = cluster_live_status(f.cluster, moved);
            assert_string_equal(workload_status_attempt(status)->node, "b");
        }
        fixture_close(&f);
    }
}

static void learnt_duration_changes_placement(void **state)
{
    struct fixture f;
    (void)state;
    open_with(&f, "iadeep");
    (void)hello(&f, "a");
    uint64_t first = submit_known(&f, 0, 10000, false);
    uint64_t second = submit_known(&f, 0, 600000, false);
    assert_int_equal(state_of(&f, second), WORKLOAD_QUEUED);
    struct cluster_event event = {.kind = CLUSTER_LEARN};
    event.learn.workload = first; /* it would run for ten days, so waiting is useless */
    event.learn.known = (struct policy_known){.kind = TASK_KIND, .alone_ms = 864e6};
    step(&f, &event);
    assert_int_equal(state_of(&f, second), WORKLOAD_PLACED);
    event.learn.workload = 12345;
    step(&f, &event);
    fixture_close(&f);
}

/* A task that was measured to be slow for a minute is queued again if it has checkpoints. The
 * slowdown is logged once, also of a task that stays. */
static void slowed_checkpointing_task_is_requeued(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct fixture f;
        bool checkpoints = kind > 0, recovers = kind > 1;
        open_with(&f, "gpumux");
        uint64_t session = hello(&f, "a");
        uint64_t id = submit_known(&f, 0, 6e6, checkpoints);
        report(&f, "a", session, id, 1, ATTEMPT_RUNNING);
        size_t stops = 0, told = 0;
        for (int second = 0; second < 70 && stops == 0; second += 10) {
            struct cluster_event event = {.kind = CLUSTER_MEASURED};
            event.measured.workload = id;
            event.measured.attempt = 1;
            event.measured.pd = recovers && second == 30 ? 1.1 : 1.7;
            event.measured.predicted_pd = 1.05;
            f.now.boot_ms += 10000;
            step(&f, &event);
            stops += count_of(&f, CLUSTER_SEND_STOP);
            told += logged(&f, "slowed");
        }
        assert_int_equal(stops, checkpoints && !recovers);
        assert_int_equal(told, 1);
        if (stops) {
            end(&f, session, id, 1);
            assert_true(logged(&f, "requeued"));
        }
        fixture_close(&f);
    }
}

/* The measured slowdown stands beside the predicted one, but only for the attempt measured. */
static void explanation_shows_measured_slowdown(void **state)
{
    struct fixture f;
    struct cluster_explanation *x = malloc(sizeof *x);
    (void)state;
    assert_non_null(x);
    open_with(&f, "gpumux");
    uint64_t session = hello(&f, "a");
    uint64_t id = submit_known(&f, 0, 0, false);
    report(&f, "a", session, id, 1, ATTEMPT_RUNNING);
    struct cluster_event event = {.kind = CLUSTER_MEASURED};
    event.measured.workload = id;
    event.measured.attempt = 2; /* of another attempt */
    event.measured.pd = 1.4;
    event.measured.predicted_pd = 1.1;
    step(&f, &event);
    assert_int_equal(cluster_explain(f.cluster, id, x), 0);
    assert_true(x->measured_pd == 0);
    event.measured.attempt = 1;
    step(&f, &event);
    assert_false(logged(&f, "slowed"));
    assert_int_equal(cluster_explain(f.cluster, id, x), 0);
    assert_true(x->measured_pd == 1.4 && x->predicted_pd == 1.1);
    assert_string_equal(x->text, "placed on a; if placed now: would go there again");
    struct workload_needs needs = task_needs();
    needs.devices = 0;
    assert_int_equal(cluster_explain(f.cluster, submit(&f, &needs), x), 0);
    assert_int_equal(x->count, 0);
    free(x);
    fixture_close(&f);
}

static bool is_on_node(struct fixture *f, uint64_t id, const char *node)
{
    const struct attempt *a = workload_status_attempt(cluster_live_status(f->cluster, id));
    return a && strcmp(a->node, node) == 0;
}

/* Also if the policy would now choose another device, of the same class. */
static void explanation_marks_current_device(void **state)
{
    struct fixture f;
    double pd = 1.25;
    const struct forecast known = {
        .context = &pd, .profile = profile, .together = together_as_known};
    struct cluster_explanation *x = malloc(sizeof *x);
    (void)state;
    assert_non_null(x);
    open_believing(&f, "gpumux", &known);
    (void)hello(&f, "a");
    (void)submit_known(&f, 0, 10 * MINUTE_MS, false);
    uint64_t id = submit_known(&f, 0, MINUTE_MS, false);
    assert_true(is_on_node(&f, id, "a"));
    (void)hello(&f, "b"); /* its workload ends sooner */
    assert_true(is_on_node(&f, submit_known(&f, 0, MINUTE_MS / 10, false), "b"));
    assert_int_equal(cluster_explain(f.cluster, id, x), 0);
    assert_int_equal(x->count, 2);
    assert_true(x->candidates[0].chosen && !x->candidates[0].here);
    assert_string_equal(x->candidates[1].node, "a");
    assert_true(x->candidates[1].here && !x->candidates[1].chosen);
    assert_true(x->candidates[0].devices == 1 && x->candidates[1].devices == 1);
    assert_string_equal(x->candidates[1].name, "a:0");
    assert_string_equal(x->candidates[1].reason, "as good as b:0, which was chosen");
    assert_string_equal(x->text, "placed on a; if placed now: would go to b:0");
    free(x);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(task_waits_for_departing_neighbour),
        cmocka_unit_test(new_forecast_reevaluates_live_tasks),
        cmocka_unit_test(only_known_program_is_kept_waiting),
        cmocka_unit_test(low_priority_task_never_starves),
        cmocka_unit_test(gpumux_policy_prefers_short_tasks),
        cmocka_unit_test(round_moves_only_checkpointing_tasks),
        cmocka_unit_test(learnt_duration_changes_placement),
        cmocka_unit_test(slowed_checkpointing_task_is_requeued),
        cmocka_unit_test(explanation_shows_measured_slowdown),
        cmocka_unit_test(explanation_marks_current_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
