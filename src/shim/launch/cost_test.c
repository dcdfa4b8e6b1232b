/* Tests of the effect of measurements on a kernel's cost, of the choice of launches to measure, and
 * of the contexts in which they are measured. The driver is a fake of this test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shim/hook/capture.h"

enum { US_NS = 1000, MS_NS = 1000000, EVENTS_MAX = 4096 };

/* A fake driver of events, whose kernels take a millisecond once the device runs. */
struct fake_event {
    CUcontext context; /* NULL: destroyed */
};

static struct fake_driver {
    struct fake_event events[EVENTS_MAX];
    _Atomic unsigned event_count, misuses;
    bool is_running;
} driver;

static _Thread_local CUcontext current, pushed_over;
static _Thread_local CUstreamCaptureMode capture_mode;

static CUcontext context_of(unsigned number)
{
    return (CUcontext)(uintptr_t)(0x1000 * (number + 1));
}

static bool is_alive(CUevent event)
{
    const struct fake_event *fake = (const struct fake_event *)event;
    driver.misuses += !fake->context;
    return fake->context != NULL;
}

static CUresult get_current(CUcontext *ret_context)
{
    *ret_context = current;
    return CUDA_SUCCESS;
}

static CUresult push_current(CUcontext context)
{
    pushed_over = current;
    current = context;
    return CUDA_SUCCESS;
}

static CUresult pop_current(CUcontext *ret_context)
{
    *ret_context = current;
    current = pushed_over;
    return CUDA_SUCCESS;
}

static CUresult create_event(CUevent *ret_event, unsigned flags)
{
    unsigned place = atomic_fetch_add(&driver.event_count, 1);
    assert_true(place < EVENTS_MAX && flags == 0);
    struct fake_event *event = &driver.events[place];
    event->context = current;
    *ret_event = (CUevent)event;
    return CUDA_SUCCESS;
}

static CUresult destroy_event(CUevent event)
{
    if (is_alive(event))
        ((struct fake_event *)event)->context = NULL;
    return CUDA_SUCCESS;
}

/* A stream's handle is its context here. */
static CUresult record_event(CUevent event, CUstream stream)
{
    if (is_alive(event))
        driver.misuses += ((struct fake_event *)event)->context != (CUcontext)stream;
    return CUDA_SUCCESS;
}

static CUresult exchange_capture_mode(CUstreamCaptureMode *mode)
{
    CUstreamCaptureMode before = capture_mode;
    capture_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

/* Another thread may always have a capture open that the query would invalidate. */
static CUresult query_event(CUevent event)
{
    driver.misuses += capture_mode != CAPTURE_RELAXED;
    return is_alive(event) && driver.is_running ? CUDA_ERROR_STUB_LIBRARY : CUDA_SUCCESS;
}

static CUresult measure_events(float *ret_ms, CUevent before, CUevent after)
{
    (void)(is_alive(before) && is_alive(after));
    *ret_ms = 1;
    return CUDA_SUCCESS;
}

static void set_driver(struct real_calls *real)
{
    memset(&driver, 0, sizeof(driver));
    current = NULL;
    real->cuCtxGetCurrent = get_current;
    real->cuCtxPushCurrent_v2 = push_current;
    real->cuCtxPopCurrent_v2 = pop_current;
    real->cuEventCreate = create_event;
    real->cuEventDestroy_v2 = destroy_event;
    real->cuEventRecord = record_event;
    real->cuEventQuery = query_event;
    real->cuEventElapsedTime = measure_events;
    real->cuThreadExchangeStreamCaptureMode = exchange_capture_mode;
}

struct bench {
    struct process *p;
    struct cost_entry *entry; /* entry of one kernel */
};

static const struct cost_launch kernel = {
    .function = "kernel", .grid = {8, 1, 1}, .block = {256, 1, 1}};

static struct cost_entry *find(struct bench *b, const struct cost_launch *launch)
{
    return cost_find(b->p, &b->p->launch->costs, cost_key(launch), launch);
}

/* Returns zeroed memory for a struct that is aligned to a cache line. */
static void *make(size_t bytes)
{
    enum { LINE_BYTES = 64 };
    void *made = aligned_alloc(LINE_BYTES, (bytes | (LINE_BYTES - 1)) + 1);
    assert_non_null(made);
    return memset(made, 0, bytes);
}

static int set_up(void **state)
{
    struct bench *b = calloc(1, sizeof(*b));
    b->p = make(sizeof(*b->p));
    b->p->launch = make(sizeof(*b->p->launch));
    b->p->client.status = calloc(1, sizeof(*b->p->client.status));
    set_driver(&b->p->calls.real);
    b->entry = find(b, &kernel);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    free(b->p->client.status);
    free(b->p->launch);
    free(b->p);
    free(b);
    return 0;
}

static uint64_t counted(const struct bench *b, enum status_counter counter)
{
    return atomic_load(&b->p->client.status->counters[counter]);
}

/* Takes a measurement whose stream had work until the launch reached it. */
static void take(struct bench *b, uint64_t ns)
{
    cost_take(b->p, b->entry, ns, 0, false);
}

static void take_dry(struct bench *b, uint64_t ns, uint64_t host_ns)
{
    cost_take(b->p, b->entry, ns, host_ns, true);
}

static uint32_t cost(const struct bench *b)
{
    return atomic_load(&b->entry->cost_ns);
}

static int count_due_if(struct bench *b, int launches, bool is_exact)
{
    int due = 0;
    for (int i = 0; i < launches; i++)
        due += cost_is_due(&b->p->launch->pace, b->entry, is_exact);
    return due;
}

static int count_due(struct bench *b, int launches)
{
    return count_due_if(b, launches, true);
}

static void test_the_first_measurement_is_the_cost(void **state)
{
    struct bench *b = *state;
    take(b, 7 * US_NS);
    assert_int_equal(cost(b), 7 * US_NS);
    assert_int_equal(counted(b, STATUS_launches_timed), 1);
    assert_int_equal(counted(b, STATUS_timings_discarded), 0);
}

static void test_later_ones_move_it_by_a_quarter(void **state)
{
    struct bench *b = *state;
    take(b, 1000);
    take(b, 2000);
    assert_int_equal(cost(b), 1250);
    take(b, 250);
    assert_int_equal(cost(b), 1000);
    for (int i = 0; i < 60; i++)
        take(b, 400);
    assert_in_range(cost(b), 400, 404); /* the cost follows the change for good */
}

static void test_an_outlier_counts_for_four_times_the_cost(void **state)
{
    struct bench *b = *state;
    for (int i = 0; i < COST_SAMPLES_NEW; i++)
        take(b, 1000);
    take(b, 50 * MS_NS);
    assert_int_equal(cost(b), (3 * 1000 + 4000) / 4);
}

static void test_while_it_is_new_nothing_is_an_outlier(void **state)
{
    struct bench *b = *state;
    take(b, 1000); /* the first launch of a kernel may have an empty grid */
    take(b, MS_NS);
    assert_int_equal(cost(b), (3 * 1000 + MS_NS) / 4);
}

static void test_an_interval_with_the_hosts_time_only_lowers_the_cost(void **state)
{
    struct bench *b = *state;
    take(b, 20 * US_NS);
    take_dry(b, 50 * US_NS, 45 * US_NS);
    assert_int_equal(cost(b), 20 * US_NS);
    take_dry(b, 8 * US_NS, 7 * US_NS); /* an upper bound of the cost */
    assert_int_equal(cost(b), 8 * US_NS);
    assert_int_equal(counted(b, STATUS_timings_discarded), 2);
    assert_int_equal(counted(b, STATUS_launches_timed), 3);
}

static void test_a_dry_interval_counts_where_the_host_was_quick(void **state)
{
    struct bench *b = *state;
    take(b, MS_NS);
    take_dry(b, 2 * MS_NS, 2 * MS_NS / 8); /* the host's part is an eighth */
    assert_int_equal(cost(b), MS_NS + MS_NS / 4);
    assert_int_equal(counted(b, STATUS_timings_discarded), 0);
    take_dry(b, 3 * MS_NS, 3 * MS_NS / 8 + 1);
    assert_int_equal(cost(b), MS_NS + MS_NS / 4);
    assert_int_equal(counted(b, STATUS_timings_discarded), 1);
}

static void test_a_coarse_kernel_is_counted_once(void **state)
{
    struct bench *b = *state;
    take(b, 2 * (uint64_t)COST_COARSE_NS); /* the first launch may have loaded the kernel */
    take(b, COST_COARSE_NS);
    assert_int_equal(counted(b, STATUS_launches_coarse), 0);
    take(b, 3 * (uint64_t)COST_COARSE_NS); /* a launch is late once in a while */
    take(b, MS_NS);
    assert_int_equal(counted(b, STATUS_launches_coarse), 0);
    take(b, 2 * (uint64_t)COST_COARSE_NS);
    take(b, 2 * (uint64_t)COST_COARSE_NS);
    take(b, 2 * (uint64_t)COST_COARSE_NS);
    assert_int_equal(counted(b, STATUS_launches_coarse), 1);
    assert_int_equal(atomic_load(&b->entry->is_coarse), 1);
}

static void test_costs_have_bounds(void **state)
{
    struct bench *b = *state;
    take(b, UINT64_C(1) << 40);
    assert_int_equal(cost(b), UINT32_MAX);
    take(b, UINT64_MAX);
    assert_int_equal(cost(b), UINT32_MAX);
    cost_forget(&b->p->launch->costs, cost_key(&kernel));
    b->entry = find(b, &kernel);
    take(b, 0);
    assert_int_equal(cost(b), 1); /* a cost of 0 would never fill a window */
}

static void test_a_forgotten_kernel_is_measured_anew(void **state)
{
    struct bench *b = *state;
    struct costs *costs = &b->p->launch->costs;
    struct cost_launch other = kernel;
    other.grid[0] = 9;
    struct cost_entry *kept = find(b, &other);
    take(b, 1000);
    cost_take(b->p, kept, 3000, 0, false);
    assert_ptr_equal(find(b, &kernel), b->entry);
    cost_forget(costs, cost_key(&kernel));
    b->entry = find(b, &kernel);
    assert_int_equal(atomic_load(&b->entry->samples), 0);
    assert_ptr_equal(find(b, &other), kept);
    assert_int_equal(atomic_load(&kept->cost_ns), 3000);
}

static void test_what_is_doubted_is_measured_once_more(void **state)
{
    struct bench *b = *state;
    struct cost_launch unseen = kernel;
    unseen.grid[0] = 9;
    struct cost_entry *entry = find(b, &unseen);
    for (int i = 0; i < 2 * COST_SAMPLES_SETTLED; i++)
        take(b, 1000);
    cost_doubt_all(b->p);
    assert_ptr_equal(find(b, &kernel), b->entry);
    assert_int_equal(cost(b), 1000);
    assert_true(cost_is_new(b->entry));
    assert_int_equal(count_due(b, 1), 1);
    take(b, 1000);
    assert_false(cost_is_new(b->entry));
    /* An unknown kernel stays unknown. */
    assert_false(cost_is_known(entry));
    /* A kernel that could not be measured is tried again. */
    for (int i = 0; i < COST_TRIES; i++)
        (void)cost_is_due(&b->p->launch->pace, entry, true);
    assert_true(cost_is_known(entry));
    cost_doubt_all(b->p);
    assert_false(cost_is_known(entry));
}

/* Handles that become collectives, and handles that stop being collectives. */
static void test_doubt_and_collectives(void **state)
{
    struct bench *b = *state;
    struct collectives *collectives = &b->p->launch->collectives;
    const struct cost_launch other = {.function = "other", .grid = {1, 1, 1}};
    const struct cost_launch third = {.function = "third", .grid = {1, 1, 1}};
    take(b, 1000);
    /* Nothing was unloaded, so known costs hold. */
    assert_true(collective_note(collectives, other.function, "ncclA"));
    cost_forget_doubted(b->p);
    assert_true(atomic_load(&find(b, &other)->is_collective));
    assert_int_equal(cost(b), 1000);
    assert_int_equal(atomic_load(&b->entry->samples), 1);
    assert_ptr_equal(find(b, &kernel), b->entry);
    (void)find(b, &third);
    cost_doubt_all(b->p);
    assert_false(collective_note(collectives, other.function, "gemm"));
    assert_false(atomic_load(&find(b, &other)->is_collective));
    assert_true(collective_note(collectives, third.function, "ncclA"));
    cost_forget_doubted(b->p);
    assert_true(atomic_load(&find(b, &third)->is_collective));
}

static void test_each_launch_of_a_new_kernel_is_measured_and_then_one_in_64(void **state)
{
    enum { LAUNCHES = 64000 };
    struct bench *b = *state;
    for (int i = 0; i < COST_SAMPLES_NEW; i++) {
        assert_true(cost_is_new(b->entry));
        assert_int_equal(count_due(b, 1), 1);
        take(b, 1000);
    }
    assert_false(cost_is_new(b->entry));
    assert_in_range(count_due(b, LAUNCHES), LAUNCHES / 80, LAUNCHES / 50);
}

static void test_a_settled_kernel_is_measured_once_in_256_until_it_changes(void **state)
{
    enum { LAUNCHES = 256000 };
    struct bench *b = *state;
    for (int i = 0; i < COST_SAMPLES_SETTLED - 1; i++)
        take(b, 1000);
    assert_in_range(count_due(b, LAUNCHES), LAUNCHES / 80, LAUNCHES / 50);
    take(b, 1000);
    assert_in_range(count_due(b, LAUNCHES), LAUNCHES / 320, LAUNCHES / 210);
    take(b, 10 * US_NS); /* longer */
    assert_in_range(count_due(b, LAUNCHES), LAUNCHES / 80, LAUNCHES / 50);
    for (int i = 0; i < 2 * COST_SAMPLES_SETTLED; i++)
        take(b, 10 * US_NS);
    assert_in_range(count_due(b, LAUNCHES), LAUNCHES / 320, LAUNCHES / 210);
    take(b, 1000); /* shorter */
    assert_in_range(count_due(b, LAUNCHES), LAUNCHES / 80, LAUNCHES / 50);
    assert_false(cost_is_new(b->entry));
}

/* Launches between two measurements that agree, give or take a quarter. */
enum { RARELY_LEAST = COST_PERIOD_MAX * 3 / 4, RARELY_MOST = COST_PERIOD_MAX * 5 / 4 };

/* Launches without a need for exact costs; each due measurement gives `ns`. Returns the number of
 * due measurements. */
static int launch_inexactly(struct bench *b, int launches, uint64_t ns)
{
    int due = 0;
    for (int i = 0; i < launches; i++) {
        if (!cost_is_due(&b->p->launch->pace, b->entry, false))
            continue;
        take(b, ns);
        due++;
    }
    return due;
}

static void test_where_little_depends_on_it_measurements_that_agree_become_rare(void **state)
{
    enum { LAUNCHES = 256000 };
    struct bench *b = *state;
    assert_int_equal(launch_inexactly(b, COST_SAMPLES_NEW, 1000), COST_SAMPLES_NEW);
    assert_in_range(launch_inexactly(b, 4096, 1000), 4096 / 400, 4096 / 80);
    assert_in_range(launch_inexactly(b, LAUNCHES, 1000), LAUNCHES / RARELY_MOST,
                    LAUNCHES / RARELY_LEAST);
}

static void test_where_little_depends_on_it_one_that_does_not_agree_brings_others(void **state)
{
    enum { LAUNCHES = 65536, FEW_LAUNCHES = 4096 };
    struct bench *b = *state;
    (void)launch_inexactly(b, LAUNCHES, 1000);
    assert_int_equal(cost(b), 1000);
    (void)launch_inexactly(b, FEW_LAUNCHES, 300);
    assert_in_range(cost(b), 300, 450);
    (void)launch_inexactly(b, LAUNCHES, 300);
    (void)launch_inexactly(b, FEW_LAUNCHES, 1000);
    assert_in_range(cost(b), 500, 1000);
    /* A measurement that includes host time does not contradict the known cost. */
    (void)launch_inexactly(b, LAUNCHES, 1000);
    for (int i = 0; i < COST_SAMPLES_SETTLED; i++)
        take_dry(b, 10 * US_NS, 9 * US_NS);
    assert_in_range(launch_inexactly(b, LAUNCHES, 1000), LAUNCHES / RARELY_MOST,
                    LAUNCHES / RARELY_LEAST);
}

static void test_a_first_launch_that_took_longer_does_not_count(void **state)
{
    struct bench *b = *state;
    take(b, 8 * MS_NS);
    take(b, 10 * US_NS);
    assert_int_equal(cost(b), 10 * US_NS);
}

static void test_what_cannot_be_measured_is_not_tried_for_ever(void **state)
{
    struct bench *b = *state;
    for (int i = 0; i < COST_TRIES; i++) {
        assert_false(cost_is_known(b->entry));
        assert_true(cost_is_due(&b->p->launch->pace, b->entry, true));
    }
    assert_true(cost_is_known(b->entry));
    assert_false(cost_is_new(b->entry));
    assert_false(cost_is_due(&b->p->launch->pace, b->entry, true));
}

static void test_a_kernel_that_surprises_is_new_again(void **state)
{
    struct bench *b = *state;
    for (int i = 0; i < COST_SAMPLES_NEW; i++)
        take(b, 5 * US_NS);
    take(b, 19 * US_NS); /* too short for a surprise */
    take(b, 900 * US_NS);
    assert_false(cost_is_new(b->entry));
    take(b, 20 * MS_NS);
    assert_true(cost_is_new(b->entry));
    for (int i = 0; i < COST_SAMPLES_NEW - 1; i++)
        take(b, 20 * MS_NS);
    assert_false(cost_is_new(b->entry));
    assert_in_range(cost(b), 10 * MS_NS, 20 * MS_NS);
}

/* ---- contexts ---- */

/* Launches once in the context. Returns whether the launch is measured. */
static bool launch_in(struct bench *b, CUcontext context)
{
    const struct stream stream = {.handle = (CUstream)context, .context = context};
    struct cost_timing *timing = cost_begin(b->p, &stream, cost_key(&kernel));
    driver.misuses += capture_mode != 0;
    if (timing)
        cost_end(b->p, &stream, timing);
    driver.misuses += capture_mode != 0;
    return timing != NULL;
}

static void end_context(struct bench *b, CUcontext context, bool has_ended)
{
    struct cost_timings *timings = cost_begin_end(b->p, context);
    assert_false(timings && launch_in(b, context));
    for (unsigned i = 0; has_ended && i < driver.event_count; i++) {
        if (driver.events[i].context == context)
            driver.events[i].context = NULL;
    }
    cost_finish_end(timings, has_ended);
}

static void test_every_context_is_measured(void **state)
{
    struct bench *b = *state;
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < COST_CONTEXTS; i++) {
            current = context_of(i);
            assert_true(launch_in(b, context_of(i)));
        }
    }
    /* Each context has left its last measurement, which the next launch collects. */
    assert_int_equal(counted(b, STATUS_launches_timed), 2 * COST_CONTEXTS);
    assert_int_equal(driver.misuses, 0);
}

static void test_a_context_need_not_be_current(void **state)
{
    struct bench *b = *state;
    current = context_of(1);
    for (int i = 0; i < 2 * COST_TIMINGS; i++)
        assert_true(launch_in(b, context_of(0)));
    assert_ptr_equal(current, context_of(1));
    assert_int_equal(driver.misuses, 0);
}

static void test_contexts_share_the_places(void **state)
{
    struct bench *b = *state;
    for (unsigned i = 0; i < 2 * COST_CONTEXTS; i++)
        assert_true(launch_in(b, context_of(i)));
    assert_int_equal(counted(b, STATUS_launches_timed), COST_CONTEXTS);
    /* While all contexts have measurements in flight, another context is not measured. */
    driver.is_running = true;
    for (unsigned i = 0; i < COST_CONTEXTS; i++)
        assert_true(launch_in(b, context_of(COST_CONTEXTS + i)));
    assert_false(launch_in(b, context_of(0)));
    driver.is_running = false;
    assert_true(launch_in(b, context_of(0)));
    assert_true(launch_in(b, context_of(2 * COST_CONTEXTS - 1)));
    assert_int_equal(driver.misuses, 0);
}

/* A context's events are not used after its end, even if another context gets its handle, and its
 * place is free. */
static void test_events_end_with_their_context(void **state)
{
    struct bench *b = *state;
    driver.is_running = true;
    for (unsigned i = 0; i < 3 * COST_CONTEXTS; i++) {
        assert_true(launch_in(b, context_of(0)));
        assert_true(launch_in(b, context_of(i + 1)));
        end_context(b, context_of(i + 1), true);
        end_context(b, context_of(0), true);
    }
    assert_true(launch_in(b, context_of(0)));
    unsigned events = driver.event_count;
    end_context(b, context_of(0), false);
    driver.is_running = false;
    assert_true(launch_in(b, context_of(0)));
    assert_int_equal(counted(b, STATUS_launches_timed), 1);
    assert_int_equal(driver.event_count, events);
    assert_int_equal(driver.misuses, 0);
}

enum { THREADS = 4, LAUNCHES = 400 };

static void *launch_in_all(void *argument)
{
    for (unsigned i = 0; i < LAUNCHES; i++)
        (void)launch_in(argument, context_of(i % (COST_CONTEXTS + THREADS)));
    return NULL;
}

/* Places go to other contexts while other threads measure. */
static void test_threads_measure_in_contexts(void **state)
{
    pthread_t threads[THREADS];
    struct bench *b = *state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, launch_in_all, b), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_true(counted(b, STATUS_launches_timed) > 0);
    assert_int_equal(driver.misuses, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_first_measurement_is_the_cost),
        TEST(test_later_ones_move_it_by_a_quarter),
        TEST(test_an_outlier_counts_for_four_times_the_cost),
        TEST(test_while_it_is_new_nothing_is_an_outlier),
        TEST(test_an_interval_with_the_hosts_time_only_lowers_the_cost),
        TEST(test_a_dry_interval_counts_where_the_host_was_quick),
        TEST(test_a_coarse_kernel_is_counted_once),
        TEST(test_costs_have_bounds),
        TEST(test_a_forgotten_kernel_is_measured_anew),
        TEST(test_what_is_doubted_is_measured_once_more),
        TEST(test_doubt_and_collectives),
        TEST(test_each_launch_of_a_new_kernel_is_measured_and_then_one_in_64),
        TEST(test_a_settled_kernel_is_measured_once_in_256_until_it_changes),
        TEST(test_where_little_depends_on_it_measurements_that_agree_become_rare),
        TEST(test_where_little_depends_on_it_one_that_does_not_agree_brings_others),
        TEST(test_a_first_launch_that_took_longer_does_not_count),
        TEST(test_what_cannot_be_measured_is_not_tried_for_ever),
        TEST(test_a_kernel_that_surprises_is_new_again),
        TEST(test_every_context_is_measured),
        TEST(test_a_context_need_not_be_current),
        TEST(test_contexts_share_the_places),
        TEST(test_events_end_with_their_context),
        TEST(test_threads_measure_in_contexts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
