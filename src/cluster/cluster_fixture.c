#include "cluster/cluster_fixture.h"

void fixture_open(struct fixture *f)
{
    cluster_config_default(&f->config);
    f->config.policy = policy_find("firstfit");
    f->now = (struct clock_now){.wall_ms = 1700000000000, .boot_ms = 5000};
    f->requests = 0;
    cluster_actions_init(&f->actions);
    assert_int_equal(cluster_new(&f->config, &f->cluster), 0);
    cluster_load_done(f->cluster, 0, f->now);
}

void fixture_close(struct fixture *f)
{
    cluster_free(f->cluster);
    cluster_actions_done(&f->actions);
}

void step(struct fixture *f, struct cluster_event *event)
{
    event->now = f->now;
    event->request = ++f->requests;
    f->actions.count = 0;
    assert_int_equal(cluster_step(f->cluster, event, &f->actions), 0);
}

const struct cluster_action *find_nth(const struct fixture *f, enum cluster_action_kind kind,
                                      size_t n)
{
    for (size_t i = 0; i < f->actions.count; i++)
        if (f->actions.items[i].kind == kind && n-- == 0)
            return &f->actions.items[i];
    return NULL;
}

const struct cluster_action *find(const struct fixture *f, enum cluster_action_kind kind)
{
    return find_nth(f, kind, 0);
}

size_t count_of(const struct fixture *f, enum cluster_action_kind kind)
{
    size_t count = 0;
    while (find_nth(f, kind, count))
        count++;
    return count;
}

bool logged(const struct fixture *f, const char *word)
{
    for (size_t i = 0; i < f->actions.count; i++)
        if (f->actions.items[i].kind == CLUSTER_EVENT_LOG &&
            strcmp(f->actions.items[i].what, word) == 0)
            return true;
    return false;
}

enum workload_state state_of(const struct fixture *f, uint64_t id)
{
    const struct workload_status *status = cluster_live_status(f->cluster, id);
    assert_non_null(status);
    return status->state;
}

const char *note_of(const struct fixture *f, uint64_t id)
{
    bool never;
    const char *note = cluster_note(f->cluster, id, &never);
    assert_non_null(note);
    return note;
}

void tick_after(struct fixture *f, int64_t ms)
{
    struct cluster_event event = {.kind = CLUSTER_TICK};
    f->now.boot_ms += ms;
    f->now.wall_ms += ms;
    step(f, &event);
}

struct workload_needs task_needs(void)
{
    return (struct workload_needs){
        .devices = 1, .quota_bytes = 10, .share_max_percent = 100, .grace_ms = 10000};
}

const struct cluster_action *submit_all(struct fixture *f, const struct cluster_submission *items,
                                        size_t count, const char *key)
{
    struct cluster_event event = {.kind = CLUSTER_SUBMIT};
    event.submit.uid = 1000;
    event.submit.key = key;
    event.submit.count = count;
    event.submit.items = items;
    step(f, &event);
    return find(f, CLUSTER_REPLY);
}

const struct cluster_action *submit_after(struct fixture *f, const struct workload_needs *needs,
                                          const struct cluster_after *after, size_t count)
{
    struct cluster_submission item = {
        .name = "w", .needs = needs, .after = after, .after_count = count};
    return submit_all(f, &item, 1, NULL);
}

uint64_t submit(struct fixture *f, const struct workload_needs *needs)
{
    const struct cluster_action *reply = submit_after(f, needs, NULL, 0);
    assert_int_equal(reply->result, 0);
    return reply->first;
}

uint64_t submit_task(struct fixture *f)
{
    struct workload_needs needs = task_needs();
    return submit(f, &needs);
}

struct node_info node_info(const char *name, const char *instance, int devices)
{
    struct node_info info = {.device_count = devices};
    (void)snprintf(info.name, sizeof info.name, "%s", name);
    (void)snprintf(info.instance, sizeof info.instance, "%s", instance);
    for (int d = 0; d < devices; d++) {
        (void)snprintf(info.devices[d].uuid, DEVICE_UUID_MAX, "%s-%d", name, d);
        (void)snprintf(info.devices[d].model, DEVICE_MODEL_MAX, "NVIDIA H200");
        info.devices[d].index = d;
        info.devices[d].memory_bytes = 100;
    }
    return info;
}

uint64_t hello_as(struct fixture *f, const char *name, const char *instance,
                  const struct attempt_report *attempts, size_t count)
{
    struct node_info info = node_info(name, instance, 1);
    struct cluster_event event = {.kind = CLUSTER_NODE_HELLO};
    event.hello.info = &info;
    event.hello.attempts = attempts;
    event.hello.count = count;
    step(f, &event);
    const struct cluster_action *welcome = find(f, CLUSTER_SEND_WELCOME);
    return welcome ? welcome->session : 0;
}

uint64_t hello(struct fixture *f, const char *name)
{
    return hello_as(f, name, "i", NULL, 0);
}

void report_full(struct fixture *f, const char *node, uint64_t session,
                 const struct attempt_report *report)
{
    struct cluster_event event = {.kind = CLUSTER_NODE_REPORT};
    event.node.node = node;
    event.node.session = session;
    event.node.report = report;
    step(f, &event);
}

void report(struct fixture *f, const char *node, uint64_t session, uint64_t id, int attempt,
            enum attempt_phase phase)
{
    struct attempt_report r = {.workload = id, .attempt = attempt, .phase = phase};
    report_full(f, node, session, &r);
}

void report_failure(struct fixture *f, const char *node, uint64_t session, uint64_t id, int attempt)
{
    struct attempt_report r = {.workload = id,
                               .attempt = attempt,
                               .phase = ATTEMPT_EXITED,
                               .failure = FAILURE_EXIT,
                               .exit_code = 3};
    report_full(f, node, session, &r);
}

void beat(struct fixture *f, const char *node, uint64_t session)
{
    struct cluster_event event = {.kind = CLUSTER_NODE_BEAT};
    event.node.node = node;
    event.node.session = session;
    event.node.beat = 7;
    step(f, &event);
}

void gone(struct fixture *f, const char *node, uint64_t session)
{
    struct cluster_event event = {.kind = CLUSTER_NODE_GONE};
    event.node.node = node;
    event.node.session = session;
    step(f, &event);
}

const struct cluster_action *stop(struct fixture *f, enum cluster_event_kind kind, uint64_t id,
                                  int64_t grace_ms)
{
    struct cluster_event event = {.kind = kind};
    event.stop.workload = id;
    event.stop.grace_ms = grace_ms;
    step(f, &event);
    return find(f, CLUSTER_REPLY);
}

const struct cluster_action *drain(struct fixture *f, const char *node, bool on)
{
    struct cluster_event event = {.kind = CLUSTER_DRAIN};
    event.drain.node = node;
    event.drain.on = on;
    step(f, &event);
    return find(f, CLUSTER_REPLY);
}
