/* Dropped rounds, commits in flight meanwhile, and failing commits. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/version.h"
#include "control/control_fixture.h"
#include "control/node_fixture.h"

#define SPEC(name)                                                                                 \
    "{\"name\":\"" name "\",\"directory\":\"/\",\"devices\":0,\"command\":[\"true\"]}"

/* ---- a store whose commits and batches the test controls ---- */

int __real_store_commit(struct error *e, struct store *s, const struct store_batch *b);
int __wrap_store_commit(struct error *e, struct store *s, const struct store_batch *b);
int __real_store_batch_event(struct store_batch *b, const struct store_event *event);
int __wrap_store_batch_event(struct store_batch *b, const struct store_event *event);

static pthread_mutex_t commits = PTHREAD_MUTEX_INITIALIZER; /* locked: no commit begins */
static bool commits_are_held, booking_fails;
static atomic_bool commits_fail;

static void hold_commits(bool hold)
{
    if (hold && !commits_are_held)
        pthread_mutex_lock(&commits);
    else if (!hold && commits_are_held)
        pthread_mutex_unlock(&commits);
    commits_are_held = hold;
}

int __wrap_store_commit(struct error *e, struct store *s, const struct store_batch *b)
{
    pthread_mutex_lock(&commits);
    int r =
        commits_fail ? error_set(e, ERR_STORE, "the disk is full") : __real_store_commit(e, s, b);
    pthread_mutex_unlock(&commits);
    return r;
}

int __wrap_store_batch_event(struct store_batch *b, const struct store_event *event)
{
    return booking_fails ? -ERR_NO_MEMORY : __real_store_batch_event(b, event);
}

static int close_rounds(void **state)
{
    hold_commits(false);
    booking_fails = false;
    commits_fail = false;
    return close_fixture(state);
}

/* ---- a node ---- */

static void step_control(void *base)
{
    event_base_loop(base, EVLOOP_ONCE);
}

static void node_joins(struct fixture *f, struct test_node *n, const char *name)
{
    assert_true(test_node_connect(n, f->node_socket, step_control, f->base));
    test_node_hello(n, name, GPUMUX_VERSION, NODEMSG_PROTOCOL);
}

static void node_beats(struct test_node *n, uint64_t session, uint64_t number)
{
    const struct nodemsg beat = {.type = NODEMSG_BEAT, .session = session, .beat = number};
    test_node_send(n, &beat);
    test_node_expect(n, NODEMSG_BEAT);
    assert_int_equal(n->msg.session, session);
    assert_int_equal(n->msg.beat, number);
}

/* ---- tests ---- */

static void commit_in_flight_outlives_dropped_round(void **state)
{
    struct fixture *f = *state;
    hold_commits(true);
    post(f->first, "/v1/workloads", SPEC("kept"));
    while (!committer_busy(f->control->committer))
        event_base_loop(f->base, EVLOOP_ONCE);

    post(f->second, "/v1/workloads", SPEC("dropped"));
    while (f->control->filling.requests == 0)
        event_base_loop(f->base, EVLOOP_ONCE);
    booking_fails = true;
    post(f->third, "/v1/workloads", SPEC("failing"));
    expect(f, f->third, 503, "");
    expect(f, f->second, 503, "out of memory");
    booking_fails = false;
    post(f->second, "/v1/workloads", SPEC("refused"));
    expect(f, f->second, 503, "");
    assert_true(committer_busy(f->control->committer));
    assert_true(log_says(f, "pending decisions discarded error=\"out of memory\" requests=1"));
    assert_false(log_says(f, "submitted workload=1")); /* the commit may still fail */
    hold_commits(false);

    expect(f, f->first, 201, "\"id\":1,\"name\":\"kept\"");
    assert_int_equal(f->control->rebuilds, 1);
    assert_true(log_says(f, "submitted workload=1 attempt=0 node= detail=\"kept\""));
    assert_false(log_says(f, "dropped"));
    post(f->second, "/v1/workloads", SPEC("next"));
    expect(f, f->second, 201, "\"id\":2,\"name\":\"next\"");
    /* The cluster knows the workload; otherwise nobody could start or end it. */
    post(f->first, "/v1/workloads/1/cancel", "");
    expect(f, f->first, 202, "\"state\":\"cancelled\"");
}

static void leases_hold_while_commits_fail(void **state)
{
    struct fixture *f = *state;
    struct test_node node, late;
    node_joins(f, &node, "n1");
    test_node_expect(&node, NODEMSG_WELCOME);
    uint64_t session = node.msg.session, beat = 0;

    commits_fail = true;
    post(f->first, "/v1/workloads", SPEC("refused"));
    expect(f, f->first, 503, "the disk is full");
    node_beats(&node, session, ++beat);
    const struct attempt_report ended = {.workload = 7, .attempt = 1, .phase = ATTEMPT_EXITED};
    const struct nodemsg report = {
        .type = NODEMSG_REPORT, .session = session, .attempt_count = 1, .attempts = &ended};
    test_node_send(&node, &report); /* ignored: its end cannot be stored */
    node_beats(&node, session, ++beat);
    node_joins(f, &late, "n2"); /* not welcomed, because its session cannot be stored */
    /* Storing is tried repeatedly, without reading the whole state each time. */
    while (f->control->commits_failed < 4)
        node_beats(&node, session, ++beat);
    assert_int_equal(f->control->rebuilds, 1);
    post(f->first, "/v1/workloads", SPEC("refused"));
    expect(f, f->first, 503, "problem:store");
    post(f->second, "/v1/nodes/n1/drain", "");
    expect(f, f->second, 503, "the disk is full");

    commits_fail = false;
    assert_false(test_node_hears(&node)); /* the node must say hello */
    assert_false(test_node_hears(&late));
    test_node_close(&node);
    test_node_close(&late);
    assert_int_equal(f->control->rebuilds, 2);
    assert_true(log_says(f, "stored_again detail=\"nothing could be stored for "));
    node_joins(f, &node, "n1");
    test_node_expect(&node, NODEMSG_WELCOME);
    assert_int_not_equal(node.msg.session, session);
    node_beats(&node, node.msg.session, 1);
    test_node_close(&node);
    post(f->first, "/v1/workloads", SPEC("kept"));
    expect(f, f->first, 201, "\"id\":1,\"name\":\"kept\"");
}

static void silent_node_gets_no_lease(void **state)
{
    struct fixture *f = *state;
    struct test_node node;
    f->config.lease_ms = 50; /* the connection may still be silent for a second */
    restart_control(f);
    node_joins(f, &node, "n1");
    test_node_expect(&node, NODEMSG_WELCOME);
    while (cluster_node_connected(f->control->cluster, "n1")) /* silence ends the link */
        event_base_loop(f->base, EVLOOP_ONCE);
    commits_fail = true;
    post(f->first, "/v1/workloads", SPEC("refused"));
    expect(f, f->first, 503, "the disk is full");
    assert_null(links_find(f->control, "n1"));
    test_node_close(&node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(commit_in_flight_outlives_dropped_round, open_fixture,
                                        close_rounds),
        cmocka_unit_test_setup_teardown(leases_hold_while_commits_fail, open_fixture, close_rounds),
        cmocka_unit_test_setup_teardown(silent_node_gets_no_lease, open_fixture, close_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
