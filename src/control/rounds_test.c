/* Dropped rounds, commits in flight meanwhile, and failing commits. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/version.h"
#include "control/control_fixture.h"

enum { WAIT_MS = 60000, NODE_BYTES_MAX = 64 << 10 };

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

struct test_node {
    int fd;
    char bytes[NODE_BYTES_MAX];
    size_t length;
    struct arena arena;
    struct nodemsg msg;
};

static void node_send(struct test_node *n, const struct nodemsg *msg)
{
    struct str line;
    str_init(&line, NODE_BYTES_MAX);
    assert_int_equal(nodemsg_write(msg, &line), 0);
    assert_int_equal(send(n->fd, str_text(&line), line.length, MSG_NOSIGNAL), line.length);
    str_done(&line);
}

static void node_close(struct test_node *n)
{
    if (n->fd >= 0)
        close(n->fd);
    n->fd = -1;
    arena_done(&n->arena);
}

static void node_hello(struct fixture *f, struct test_node *n, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct node_info info = {.instance = "instance", .version = GPUMUX_VERSION};
    *n = (struct test_node){.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    arena_init(&n->arena, 1 << 20);
    assert_true(str_copy(address.sun_path, sizeof address.sun_path, f->node_socket));
    assert_int_equal(connect(n->fd, (struct sockaddr *)&address, sizeof address), 0);
    str_copy(info.name, sizeof info.name, name);
    const struct nodemsg hello = {.type = NODEMSG_HELLO,
                                  .protocol = NODEMSG_PROTOCOL,
                                  .version = GPUMUX_VERSION,
                                  .node = &info};
    node_send(n, &hello);
}

static bool node_take_line(struct test_node *n)
{
    char *end = memchr(n->bytes, '\n', n->length);
    if (!end)
        return false;
    size_t length = (size_t)(end - n->bytes);
    arena_done(&n->arena);
    arena_init(&n->arena, 1 << 20);
    assert_int_equal(nodemsg_parse(NULL, &n->arena, n->bytes, length, &n->msg), 0);
    n->length -= length + 1;
    memmove(n->bytes, end + 1, n->length);
    return true;
}

/* Receives the next message from control in n->msg. Returns false if control closed the
 * connection. */
static bool node_hears(struct fixture *f, struct test_node *n)
{
    int64_t end_ms = clock_boot_ms() + WAIT_MS;
    while (!node_take_line(n)) {
        ssize_t got = recv(n->fd, n->bytes + n->length, sizeof n->bytes - n->length, MSG_DONTWAIT);
        if (got == 0)
            return false;
        if (got > 0) {
            n->length += (size_t)got;
            continue;
        }
        assert_true(clock_boot_ms() < end_ms);
        event_base_loop(f->base, EVLOOP_ONCE);
    }
    return true;
}

static void node_expect(struct fixture *f, struct test_node *n, enum nodemsg_type type)
{
    assert_true(node_hears(f, n));
    assert_int_equal(n->msg.type, type);
}

static void node_beats(struct fixture *f, struct test_node *n, uint64_t session, uint64_t number)
{
    const struct nodemsg beat = {.type = NODEMSG_BEAT, .session = session, .beat = number};
    node_send(n, &beat);
    node_expect(f, n, NODEMSG_BEAT);
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
    node_hello(f, &node, "n1");
    node_expect(f, &node, NODEMSG_WELCOME);
    uint64_t session = node.msg.session, beat = 0;

    commits_fail = true;
    post(f->first, "/v1/workloads", SPEC("refused"));
    expect(f, f->first, 503, "the disk is full");
    node_beats(f, &node, session, ++beat);
    const struct attempt_report ended = {.workload = 7, .attempt = 1, .phase = ATTEMPT_EXITED};
    const struct nodemsg report = {
        .type = NODEMSG_REPORT, .session = session, .attempt_count = 1, .attempts = &ended};
    node_send(&node, &report); /* ignored: its end cannot be stored */
    node_beats(f, &node, session, ++beat);
    node_hello(f, &late, "n2"); /* not welcomed, because its session cannot be stored */
    /* Storing is tried repeatedly, without reading the whole state each time. */
    while (f->control->commits_failed < 4)
        node_beats(f, &node, session, ++beat);
    assert_int_equal(f->control->rebuilds, 1);
    post(f->first, "/v1/workloads", SPEC("refused"));
    expect(f, f->first, 503, "problem:store");
    post(f->second, "/v1/nodes/n1/drain", "");
    expect(f, f->second, 503, "the disk is full");

    commits_fail = false;
    assert_false(node_hears(f, &node)); /* the node must say hello */
    assert_false(node_hears(f, &late));
    node_close(&node);
    node_close(&late);
    assert_int_equal(f->control->rebuilds, 2);
    assert_true(log_says(f, "stored_again detail=\"nothing could be stored for "));
    node_hello(f, &node, "n1");
    node_expect(f, &node, NODEMSG_WELCOME);
    assert_int_not_equal(node.msg.session, session);
    node_beats(f, &node, node.msg.session, 1);
    node_close(&node);
    post(f->first, "/v1/workloads", SPEC("kept"));
    expect(f, f->first, 201, "\"id\":1,\"name\":\"kept\"");
}

static void silent_node_gets_no_lease(void **state)
{
    struct fixture *f = *state;
    struct test_node node;
    f->config.lease_ms = 50; /* the connection may still be silent for a second */
    restart_control(f);
    node_hello(f, &node, "n1");
    node_expect(f, &node, NODEMSG_WELCOME);
    while (cluster_node_connected(f->control->cluster, "n1")) /* silence ends the link */
        event_base_loop(f->base, EVLOOP_ONCE);
    commits_fail = true;
    post(f->first, "/v1/workloads", SPEC("refused"));
    expect(f, f->first, 503, "the disk is full");
    assert_null(links_find(f->control, "n1"));
    node_close(&node);
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
