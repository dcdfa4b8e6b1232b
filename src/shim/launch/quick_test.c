/* Which launches are quick, what they are counted as, and who may pay for them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shim/life/process.h"

enum { COST_NS = 5000, LAUNCHES = 100, THREADS = 4, THREAD_LAUNCHES = 5000 };
#define HANDLE ((CUstream)0x1000)
#define OTHER  ((CUstream)0x2000)

static const struct cost_launch kernel = {
    .function = "kernel", .grid = {8, 1, 1}, .block = {256, 1, 1}};

struct bench {
    struct process *p;
    struct launch *launch;
    struct limits_page *limits;
    struct stream *stream, *other;
};

static _Atomic unsigned checks; /* of several threads */

bool client_check(struct client *client)
{
    (void)client;
    checks++;
    return false;
}

static struct stream *add_stream(struct launch *launch, uint8_t slot, CUstream handle)
{
    uint64_t key = (uint64_t)(uintptr_t)handle;
    struct stream *stream = &launch->streams.slots[slot];
    stream->slot = slot;
    atomic_store(&stream->key, key);
    atomic_store(&launch->streams.cache[streams_place(key)], slot);
    return stream;
}

/* Zeroed, at a page. */
static void *make(size_t bytes)
{
    void *made = aligned_alloc(QUICK_PAGE_BYTES, (bytes | (QUICK_PAGE_BYTES - 1)) + 1);
    assert_non_null(made);
    return memset(made, 0, bytes);
}

static int set_up(void **state)
{
    struct bench *b = calloc(1, sizeof(*b));
    b->p = make(sizeof(*b->p));
    b->launch = b->p->launch = make(sizeof(*b->launch));
    b->limits = calloc(1, sizeof(*b->limits));
    b->p->client.limits = b->limits;
    b->p->client.status = calloc(1, sizeof(*b->p->client.status));
    b->stream = add_stream(b->launch, 1, HANDLE);
    b->other = add_stream(b->launch, 2, OTHER);
    atomic_store(&b->p->exit.state, EXIT_OPEN);
    atomic_store(&b->launch->sequence, 1);
    atomic_store(&b->launch->devices[0].is_prepaid, 1);
    atomic_store(&b->launch->pace.launches_left, LAUNCHES);
    atomic_store(&b->launch->looked_ticks, clock_ticks());
    checks = 0;
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    free(b->p->client.status);
    free(b->limits);
    free(b->launch);
    free(b->p);
    free(b);
    return 0;
}

static void learn(struct bench *b)
{
    quick_learn(&b->p->quick, cost_key(&kernel), COST_NS);
}

static void open_for(struct bench *b, struct stream *stream, CUstream handle)
{
    atomic_store(&b->launch->looked_ticks, clock_ticks());
    quick_open(b->p, stream, handle, QUICK_PAID_NS - quick_left_ns(&b->p->quick, stream));
}

/* As if the clock had just been looked at, however long this thread had to wait for a processor. */
static bool pay_for(struct bench *b, const struct cost_launch *launch, CUstream handle)
{
    atomic_store(&b->p->quick.looked_ticks, clock_ticks());
    return quick_pay(&b->p->quick, launch, handle);
}

static bool pay(struct bench *b)
{
    return pay_for(b, &kernel, HANDLE);
}

static uint64_t counted(const struct bench *b, enum status_counter counter)
{
    return atomic_load(&b->p->client.status->counters[counter]);
}

static void test_what_was_paid_is_spent_and_counted(void **state)
{
    struct bench *b = *state;
    assert_false(pay(b));
    open_for(b, b->stream, HANDLE);
    assert_false(pay(b)); /* what it costs is not known */
    learn(b);
    for (int i = 0; i < 10; i++)
        assert_true(pay(b));
    assert_int_equal(counted(b, STATUS_launches_kernel), 0);
    quick_count(b->p, &b->p->quick);
    assert_int_equal(counted(b, STATUS_launches_kernel), 10);
    assert_int_equal(counted(b, STATUS_gpu_time_kernel_ns), 10 * COST_NS);
    assert_int_equal(quick_left_ns(&b->p->quick, b->stream), QUICK_PAID_NS - 10 * COST_NS);
    /* A launch that is measured comes when it is due. */
    int launches = 10;
    while (pay(b))
        launches++;
    assert_int_equal(launches, LAUNCHES);
    quick_count(b->p, &b->p->quick);
    assert_int_equal(counted(b, STATUS_launches_kernel), LAUNCHES);
    assert_int_equal(atomic_load(&b->launch->pace.launches_left), 0);
}

static void test_no_more_is_spent_than_was_paid(void **state)
{
    struct bench *b = *state;
    atomic_store(&b->launch->pace.launches_left, 1000000);
    quick_learn(&b->p->quick, cost_key(&kernel), QUICK_COST_NS_MAX);
    open_for(b, b->stream, HANDLE);
    for (int i = 0; i < QUICK_PAID_NS / QUICK_COST_NS_MAX; i++)
        assert_true(pay(b));
    assert_false(pay(b));
    /* What costs more is none. */
    quick_forget(&b->p->quick, cost_key(&kernel));
    quick_learn(&b->p->quick, cost_key(&kernel), QUICK_COST_NS_MAX + 1);
    open_for(b, b->stream, HANDLE);
    assert_false(pay(b));
}

/* Each: a reason that comes after it was opened, or was there before. */
static void begin_capture(struct bench *b)
{
    atomic_fetch_add(&b->launch->captures, 1);
    quick_close(&b->p->quick);
}

static void begin_exit(struct bench *b)
{
    atomic_store(&b->p->exit.state, EXIT_DRAINING);
    quick_close(&b->p->quick);
}

static void end_stream(struct bench *b)
{
    atomic_store(&b->stream->key, 0);
    quick_close(&b->p->quick);
}

/* Its context is about to end. */
static void begin_end_of_stream(struct bench *b)
{
    atomic_store(&b->stream->key, STREAMS_ENDING);
    quick_close(&b->p->quick);
}

/* By limits that were read: that they have changed is no reason any more. */
static void forbid(struct bench *b)
{
    atomic_store(&b->launch->devices[0].is_prepaid, 0);
    atomic_store(&b->launch->sequence, atomic_fetch_add(&b->limits->sequence, 1) + 2);
}

static void test_reasons_to_close(void **state)
{
    static void (*const reasons[])(struct bench *) = {begin_capture, begin_exit, end_stream,
                                                      begin_end_of_stream, forbid};
    for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++) {
        for (int is_before = 0; is_before <= 1; is_before++) {
            assert_int_equal(tear_down(state) + set_up(state), 0);
            struct bench *b = *state;
            learn(b);
            if (is_before)
                reasons[i](b);
            open_for(b, b->stream, HANDLE);
            if (!is_before) {
                assert_true(pay(b));
                reasons[i](b);
            }
            assert_false(pay(b));
        }
    }
}

static void test_it_opens_where_a_launch_is_not_held_for_the_end(void **state)
{
    static const bool is_open[] = {
        [EXIT_NEW] = false, [EXIT_STARTING] = false, [EXIT_OFF] = true,
        [EXIT_OPEN] = true, [EXIT_DRAINING] = false, [EXIT_CLOSING] = false,
    };
    struct bench *b = *state;
    learn(b);
    for (uint32_t i = 0; i < sizeof(is_open) / sizeof(*is_open); i++) {
        atomic_store(&b->p->exit.state, i);
        open_for(b, b->stream, HANDLE);
        assert_int_equal(pay(b), is_open[i]);
    }
}

static void test_stream_0_is_that_of_the_only_context(void **state)
{
    struct bench *b = *state;
    struct stream *zero = add_stream(b->launch, 3, (CUstream)0x3001); /* a context's, and 1 */
    learn(b);
    open_for(b, zero, NULL);
    assert_false(pay_for(b, &kernel, NULL)); /* whose it is takes the driver */
    atomic_store(&b->launch->sole, zero->slot + 1);
    open_for(b, zero, NULL);
    assert_true(pay_for(b, &kernel, NULL));
    assert_false(pay(b));
    /* A thread's own is another's in another thread. */
    open_for(b, zero, STREAM_PER_THREAD);
    assert_false(pay_for(b, &kernel, STREAM_PER_THREAD));
    open_for(b, zero, NULL);
    assert_true(pay_for(b, &kernel, NULL));
    /* A second context is made, or the only one ends. */
    atomic_store(&b->launch->sole, 0);
    open_for(b, zero, NULL);
    assert_false(pay_for(b, &kernel, NULL));
    atomic_store(&b->launch->sole, zero->slot + 1);
    atomic_store(&zero->key, STREAMS_ENDING);
    open_for(b, zero, NULL);
    assert_false(pay_for(b, &kernel, NULL));
}

static void test_limits_neighbours_and_time_are_looked_for(void **state)
{
    struct bench *b = *state;
    learn(b);
    open_for(b, b->stream, HANDLE);
    assert_true(pay(b));
    atomic_fetch_add(&b->limits->messages, 1);
    assert_false(pay(b));
    atomic_store(&b->p->client.messages_seen, 1);
    open_for(b, b->stream, HANDLE);
    assert_true(pay(b));
    atomic_fetch_add(&b->limits->sequence, 1);
    assert_false(pay(b));
    /* What was paid before is void: two launches that do not fit into what is paid now. */
    quick_learn(&b->p->quick, cost_key(&kernel), COST_NS);
    atomic_store(&b->launch->sequence, 2);
    quick_open(b->p, b->stream, HANDLE, COST_NS);
    assert_true(pay(b));
    assert_false(pay(b));
    open_for(b, b->stream, HANDLE);
    assert_true(pay(b));
    atomic_store(&b->p->quick.looked_ticks, clock_ticks() - QUICK_CLOCK_TICKS);
    assert_false(quick_pay(&b->p->quick, &kernel, HANDLE));
}

static void test_another_stream_pays_when_the_first_is_idle(void **state)
{
    struct bench *b = *state;
    struct quick *quick = &b->p->quick;
    learn(b);
    assert_true(quick_is_for(quick, b->other));
    open_for(b, b->stream, HANDLE);
    assert_false(pay_for(b, &kernel, OTHER));
    assert_true(quick_is_for(quick, b->stream));
    for (int i = 0; i < 3; i++) {
        assert_true(pay(b));
        assert_false(quick_is_for(quick, b->other));
    }
    assert_true(quick_is_for(quick, b->other));
    assert_int_equal(quick_left_ns(quick, b->other), 0);
    open_for(b, b->other, OTHER);
    assert_true(pay_for(b, &kernel, OTHER));
    assert_false(pay(b));
    quick_count(b->p, quick);
    assert_int_equal(counted(b, STATUS_launches_kernel), 4);
}

static uint64_t started(const struct bench *b, const struct stream *stream)
{
    uint64_t ns = atomic_load(&b->p->client.status->started[stream->slot]);
    assert_int_equal(ns, atomic_load(&stream->launched));
    return ns;
}

static void test_who_loses_the_page_is_charged_for_what_no_mark_tells_of(void **state)
{
    struct bench *b = *state;
    struct window *window = &b->launch->devices[0].window;
    learn(b);
    open_for(b, b->stream, HANDLE);
    assert_true(pay(b) && pay(b));
    quick_count(b->p, &b->p->quick);
    assert_true(pay(b));
    /* It launches without paying for more: what it spent before is as untold as it was. */
    quick_open(b->p, b->stream, HANDLE, 0);
    assert_true(pay(b));
    assert_int_equal(started(b, b->stream), 0);
    open_for(b, b->other, OTHER);
    assert_int_equal(started(b, b->stream), 4 * COST_NS);
    assert_int_equal(atomic_load(&window->charged_ns), 4 * COST_NS);
    assert_int_equal(atomic_load(&window->begun_ns), 4 * COST_NS);
    /* With what it paid a mark can come behind the launches before. */
    assert_true(pay_for(b, &kernel, OTHER));
    quick_open(b->p, b->other, OTHER, COST_NS);
    quick_settle(b->p, b->other);
    assert_int_equal(started(b, b->other), 0);
    assert_false(pay_for(b, &kernel, OTHER));
    /* Who is not there any more has no marks. */
    open_for(b, b->stream, HANDLE);
    assert_true(pay(b));
    atomic_store(&b->stream->key, 0);
    quick_settle(b->p, b->stream);
    assert_int_equal(started(b, b->stream), 4 * COST_NS);
    assert_int_equal(counted(b, STATUS_launches_kernel), 6);
    /* Nor has one whose context ends. */
    open_for(b, b->other, OTHER);
    assert_true(pay_for(b, &kernel, OTHER));
    atomic_store(&b->other->key, STREAMS_ENDING);
    quick_settle(b->p, b->other);
    assert_int_equal(started(b, b->other), 0);
    assert_int_equal(counted(b, STATUS_launches_kernel), 7);
}

static void test_nobody_waits_for_who_was_interrupted(void **state)
{
    struct bench *b = *state;
    struct quick *quick = &b->p->quick;
    learn(b);
    open_for(b, b->stream, HANDLE);
    assert_true(pay(b));
    atomic_store(&quick->lock.state,
                 ~lock_self() & ~(uint32_t)LOCK_WAITED_FOR); /* another thread */
    quick_count(b->p, quick);
    quick_open(b->p, b->stream, HANDLE, COST_NS);
    quick_settle(b->p, b->stream);
    assert_int_equal(counted(b, STATUS_launches_kernel), 0);
    lock_init(&quick->lock);
    quick_count(b->p, quick);
    assert_int_equal(counted(b, STATUS_launches_kernel), 1);
}

static void *pay_if_possible(void *argument)
{
    struct bench *b = argument;
    uintptr_t paid = 0;
    while (counted(b, STATUS_out_of_memory) == 0)
        paid += pay(b);
    return (void *)paid;
}

static void test_nothing_passes_while_it_is_found_out_that_nothing_may(void **state)
{
    struct bench *b = *state;
    pthread_t thread;
    void *paid;
    learn(b);
    begin_capture(b);
    assert_int_equal(pthread_create(&thread, NULL, pay_if_possible, b), 0);
    for (int i = 0; i < 20000; i++)
        open_for(b, b->stream, HANDLE);
    process_count(b->p, STATUS_out_of_memory, 1); /* enough */
    assert_int_equal(pthread_join(thread, &paid), 0);
    assert_int_equal((uintptr_t)paid, 0);
}

static void test_the_agent_is_looked_for_now_and_then(void **state)
{
    struct bench *b = *state;
    learn(b);
    for (int i = 0; i < 3 * CLIENT_CHECK_EVERY; i++) {
        if (!pay(b)) {
            quick_count(b->p, &b->p->quick);
            atomic_store(&b->launch->pace.launches_left, LAUNCHES);
            open_for(b, b->stream, HANDLE);
            assert_true(pay(b));
        }
    }
    quick_count(b->p, &b->p->quick);
    assert_int_equal(counted(b, STATUS_launches_kernel), 3 * CLIENT_CHECK_EVERY);
    assert_int_equal(checks, 3);
}

static void *pay_often(void *argument)
{
    struct bench *b = argument;
    for (int i = 0; i < THREAD_LAUNCHES; i++) {
        while (!pay(b)) {
            atomic_store(&b->launch->pace.launches_left, LAUNCHES);
            open_for(b, b->stream, HANDLE);
        }
        if (i % 7 == 0)
            quick_count(b->p, &b->p->quick);
    }
    return NULL;
}

static void test_threads_lose_no_count(void **state)
{
    struct bench *b = *state;
    pthread_t threads[THREADS];
    quick_reset(&b->p->quick); /* as after a fork: there are no limits before somebody pays */
    learn(b);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, pay_often, b), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    quick_count(b->p, &b->p->quick);
    assert_int_equal(counted(b, STATUS_launches_kernel), THREADS * THREAD_LAUNCHES);
    assert_int_equal(counted(b, STATUS_gpu_time_kernel_ns),
                     (uint64_t)THREADS * THREAD_LAUNCHES * COST_NS);
}

static void test_costs_are_those_of_the_launch(void **state)
{
    struct bench *b = *state;
    struct quick *quick = &b->p->quick;
    unsigned known = 0;
    for (uint32_t i = 1; i <= 150; i++) {
        const struct cost_launch launch = {.function = "kernel", .grid = {i, 1, 1}};
        quick_learn(quick, cost_key(&launch), i);
    }
    atomic_store(&b->launch->pace.launches_left, 1000);
    open_for(b, b->stream, HANDLE);
    for (uint32_t i = 1; i <= 150; i++) {
        const struct cost_launch launch = {.function = "kernel", .grid = {i, 1, 1}};
        uint64_t before = atomic_load(&quick->paid) >> QUICK_NS_SHIFT;
        if (!pay_for(b, &launch, HANDLE))
            continue;
        known++;
        assert_int_equal(before - (atomic_load(&quick->paid) >> QUICK_NS_SHIFT), i);
        quick_forget(quick, cost_key(&launch));
        assert_false(pay_for(b, &launch, HANDLE));
    }
    assert_true(known >= 140);
    learn(b);
    assert_true(pay(b));
    quick_forget_all(quick);
    assert_false(pay(b));
}

static void test_a_child_begins_anew(void **state)
{
    struct bench *b = *state;
    learn(b);
    open_for(b, b->stream, HANDLE);
    assert_true(pay(b));
    quick_reset(&b->p->quick);
    assert_false(pay(b));
    quick_count(b->p, &b->p->quick);
    assert_int_equal(counted(b, STATUS_launches_kernel), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_what_was_paid_is_spent_and_counted),
        TEST(test_no_more_is_spent_than_was_paid),
        TEST(test_reasons_to_close),
        TEST(test_it_opens_where_a_launch_is_not_held_for_the_end),
        TEST(test_stream_0_is_that_of_the_only_context),
        TEST(test_limits_neighbours_and_time_are_looked_for),
        TEST(test_another_stream_pays_when_the_first_is_idle),
        TEST(test_who_loses_the_page_is_charged_for_what_no_mark_tells_of),
        TEST(test_nobody_waits_for_who_was_interrupted),
        TEST(test_nothing_passes_while_it_is_found_out_that_nothing_may),
        TEST(test_the_agent_is_looked_for_now_and_then),
        TEST(test_threads_lose_no_count),
        TEST(test_costs_are_those_of_the_launch),
        TEST(test_a_child_begins_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
