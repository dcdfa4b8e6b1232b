/*
 * Tests out-of-memory handling: the life of a cluster is repeated, and each time another allocation
 * fails. The cluster reports the failure and can be freed; the sanitizers check for leaks and
 * errors.
 */
#include "cluster/cluster_fixture.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);

/* Number of allocations until one fails; negative: none fails. */
static long allocations_left = -1;

static bool is_spent(void)
{
    return allocations_left >= 0 && allocations_left-- == 0;
}

void *__wrap_malloc(size_t bytes)
{
    return is_spent() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return is_spent() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return is_spent() ? NULL : __real_realloc(old, bytes);
}

static int step_event(struct fixture *f, struct cluster_event *event)
{
    event->now = f->now;
    event->request = ++f->requests;
    f->actions.count = 0;
    return cluster_step(f->cluster, event, &f->actions);
}

static int load(struct fixture *f)
{
    static struct pair rack[] = {{"rack", "a"}};
    struct node_info info = node_info("old", "i", 2);
    struct workload_needs needs = task_needs();
    struct attempt attempt = {.number = 1, .node = "old", .device_count = 1, .devices = {"old-0"}};
    struct workload_status running = {.state = WORKLOAD_RUNNING,
                                      .attempts_total = 1,
                                      .attempts_kept = 1,
                                      .attempts = &attempt},
                           ended = {.state = WORKLOAD_SUCCEEDED},
                           waiting = {.state = WORKLOAD_QUEUED};
    struct cluster_after on_running = {.workload = 2};
    struct cluster_stored stored[] = {
        {.id = 1, .key = "k", .key_first = 1, .key_count = 2, .status = &ended},
        {.id = 2, .key = "k", .key_first = 1, .key_count = 2, .needs = &needs, .status = &running},
        {.id = 3, .needs = &needs, .after_count = 1, .after = &on_running, .status = &waiting},
    };
    info.labels = (struct pairs){.count = 1, .items = rack};
    int r = cluster_load_node(f->cluster, &info, false);
    for (size_t i = 0; i < 3 && r == 0; i++)
        r = cluster_load_workload(f->cluster, &stored[i]);
    if (r == 0)
        cluster_load_done(f->cluster, 3, f->now);
    return r;
}

static int live(struct fixture *f)
{
    struct node_info info = node_info("new", "i", 1);
    struct workload_needs needs = task_needs(), service = task_needs();
    struct cluster_after after[] = {{.workload = 0, .within = true}, {.workload = 3}};
    struct cluster_submission items[] = {
        {.name = "w", .needs = &needs},
        {.name = "w", .needs = &service, .after_count = 2, .after = after}};
    struct cluster_event hello_new = {.kind = CLUSTER_NODE_HELLO};
    struct cluster_event submission = {.kind = CLUSTER_SUBMIT};
    struct cluster_event word = {.kind = CLUSTER_NODE_REPORT};
    struct cluster_event cancel = {.kind = CLUSTER_CANCEL}, tick = {.kind = CLUSTER_TICK};
    struct attempt_report exited = {.workload = 4, .attempt = 1, .phase = ATTEMPT_EXITED};
    service.kind = WORKLOAD_SERVICE;
    hello_new.hello.info = &info;
    submission.submit.key = "l";
    submission.submit.count = 2;
    submission.submit.items = items;
    cancel.stop.workload = 5;
    int r = step_event(f, &hello_new);
    const struct cluster_action *welcome = r == 0 ? find(f, CLUSTER_SEND_WELCOME) : NULL;
    word.node.node = "new";
    word.node.session = welcome ? welcome->session : 0;
    word.node.report = &exited;
    if (r == 0)
        r = step_event(f, &submission);
    if (r == 0)
        r = step_event(f, &word);
    if (r == 0)
        r = step_event(f, &cancel);
    f->now.boot_ms += LOST_MS;
    if (r == 0)
        r = step_event(f, &tick);
    return r;
}

static int whole_life(struct fixture *f)
{
    cluster_config_default(&f->config);
    f->now = (struct clock_now){.wall_ms = 1700000000000, .boot_ms = 5000};
    cluster_actions_init(&f->actions);
    int r = cluster_new(&f->config, &f->cluster);
    if (r < 0)
        return r;
    r = load(f);
    if (r == 0)
        r = live(f);
    fixture_close(f);
    return r;
}

static void failed_allocation_returns_no_memory(void **state)
{
    struct fixture f = {0};
    int r = -ERR_NO_MEMORY;
    long n = 0;
    (void)state;
    for (; n < 10000; n++) {
        allocations_left = n;
        r = whole_life(&f);
        bool reached = allocations_left < 0;
        allocations_left = -1;
        if (!reached)
            break;
        assert_int_equal(r, -ERR_NO_MEMORY);
    }
    assert_int_equal(r, 0);
    assert_in_range(n, 30, 9999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(failed_allocation_returns_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
