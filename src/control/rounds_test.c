/* Rounds that are given up, and commits that are under way meanwhile. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "control/control_fixture.h"

#define SPEC(name)                                                                                 \
    "{\"name\":\"" name "\",\"directory\":\"/\",\"devices\":0,\"command\":[\"true\"]}"

/* ---- a store whose commits take as long as the test likes, and whose batches fail ---- */

int __real_store_commit(struct error *e, struct store *s, const struct store_batch *b);
int __wrap_store_commit(struct error *e, struct store *s, const struct store_batch *b);
int __real_store_batch_event(struct store_batch *b, const struct store_event *event);
int __wrap_store_batch_event(struct store_batch *b, const struct store_event *event);

static pthread_mutex_t commits = PTHREAD_MUTEX_INITIALIZER; /* locked: none begins */
static bool commits_are_held, booking_fails;

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
    int r = __real_store_commit(e, s, b);
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
    return close_fixture(state);
}

/* ---- tests ---- */

static void a_commit_under_way_outlives_a_round_that_is_given_up(void **state)
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
    assert_true(log_says(f, "given up why=\"out of memory\" requests=1"));
    assert_false(log_says(f, "submitted workload=1")); /* it may fail still */
    hold_commits(false);

    expect(f, f->first, 201, "\"id\":1,\"name\":\"kept\"");
    assert_int_equal(f->control->rebuilds, 1);
    assert_true(log_says(f, "submitted workload=1 attempt=0 node= text=\"kept\""));
    assert_false(log_says(f, "dropped"));
    post(f->second, "/v1/workloads", SPEC("next"));
    expect(f, f->second, 201, "\"id\":2,\"name\":\"next\"");
    /* The cluster knows it: else this were a workload that nobody can start or end. */
    post(f->first, "/v1/workloads/1/cancel", "");
    expect(f, f->first, 202, "\"state\":\"cancelled\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_commit_under_way_outlives_a_round_that_is_given_up,
                                        open_fixture, close_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
