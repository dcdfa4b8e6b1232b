/* The gate and the window without the rest of the shim: the test writes the pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/launch/gate.h"
#include "shim/launch/window.h"

enum { MS_NS = 1000000, US = 1000 };

static bool is_never_short(void *argument)
{
    (void)argument;
    return false;
}

static bool is_always_short(void *argument)
{
    (void)argument;
    return true;
}

static void listen_to_nobody(void *argument)
{
    (void)argument;
}

struct scene {
    struct gate gate;
    struct neighbours neighbours;
    struct status_page *service;
    struct gate_wait wait;
};

static void set_scene(struct scene *scene)
{
    memset(scene, 0, sizeof(*scene));
    scene->service = calloc(1, sizeof(*scene->service));
    assert_non_null(scene->service);
    scene->neighbours.pages[3] = scene->service;
    scene->neighbours.devices[3] = 1;
    scene->neighbours.present = 1 << 3;
    scene->wait = (struct gate_wait){
        .neighbours = &scene->neighbours,
        .device = 1,
        .most_ns = 20 * MS_NS,
        .short_ns = 2 * MS_NS,
        .is_short = is_never_short,
        .listen = listen_to_nobody,
    };
}

static uint64_t hold(struct scene *scene, bool *ret_passed)
{
    return gate_hold(&scene->gate, &scene->wait, ret_passed);
}

static void gate_sees_open_streams_of_device(void **state)
{
    struct scene scene;
    bool is_passed;
    (void)state;
    set_scene(&scene);
    scene.service->started[7] = 1;
    assert_int_equal(gate_look(&scene.gate, &scene.neighbours, 1, NULL).busy,
                     0); /* slot not open */
    scene.service->open_streams = 1 << 7;
    assert_int_equal(gate_look(&scene.gate, &scene.neighbours, 1, NULL).busy, 1 << 3);
    assert_int_equal(gate_look(&scene.gate, &scene.neighbours, 0, NULL).busy, 0);
    scene.service->completed[7] = 1;
    assert_int_equal(hold(&scene, &is_passed), 0);
    assert_false(is_passed);
    scene.neighbours.present = 0;
    scene.service->started[7] = 2;
    assert_int_equal(hold(&scene, &is_passed), 0);
    free(scene.service);
}

static void gate_passes_stuck_work_after_maximum(void **state)
{
    struct scene scene;
    bool is_passed;
    (void)state;
    set_scene(&scene);
    scene.service->open_streams = 1;
    scene.service->started[0] = 5;
    assert_true(hold(&scene, &is_passed) >= 20 * MS_NS);
    assert_true(is_passed);
    assert_int_equal(hold(&scene, &is_passed), 0);
    assert_false(is_passed);
    /* New work in the slot cannot overtake the stuck work. */
    scene.service->started[0] = 6;
    assert_int_equal(hold(&scene, &is_passed), 0);
    scene.service->completed[0] = 5;
    assert_true(hold(&scene, &is_passed) >= 20 * MS_NS);
    assert_true(is_passed);
    /* A short wait is not long enough to find a slot stuck. */
    scene.service->completed[0] = 6;
    scene.service->started[0] = 7;
    scene.wait.is_short = is_always_short;
    scene.wait.most_ns = UINT64_C(600000) * MS_NS;
    for (int i = 0; i < 2; i++) {
        uint64_t held_ns = hold(&scene, &is_passed);
        assert_true(is_passed && held_ns >= 2 * MS_NS);
    }
    free(scene.service);
}

struct answers {
    struct status_page *service;
    _Atomic bool is_over;
};

/* Answers requests in slot 1, one after the other. */
static void *answer_requests(void *argument)
{
    struct answers *answers = argument;
    struct status_page *service = answers->service;
    while (!answers->is_over) {
        atomic_fetch_add(&service->started[1], 1);
        usleep(1 * US);
        atomic_fetch_add(&service->completed[1], 1);
        usleep(1 * US);
    }
    return NULL;
}

/* The stuck slots never complete, while the service continues to answer requests. */
static void gate_ignores_stuck_slot_of_service(void **state)
{
    struct scene scene;
    pthread_t thread;
    bool is_passed;
    (void)state;
    set_scene(&scene);
    struct answers answers = {.service = scene.service};
    scene.service->open_streams = 1 | 1 << 1 | UINT64_C(1) << (PAGE_STREAMS_MAX - 1);
    scene.service->started[0] = 5;
    scene.service->completed[0] = 3;
    scene.service->started[PAGE_STREAMS_MAX - 1] = 1;
    assert_int_equal(pthread_create(&thread, NULL, answer_requests, &answers), 0);
    assert_true(hold(&scene, &is_passed) >= 20 * MS_NS);
    assert_true(is_passed);
    /* From now on a wait ends with the request. */
    scene.wait.most_ns = UINT64_C(600000) * MS_NS;
    for (int i = 0; i < 20; i++) {
        scene.service->started[PAGE_STREAMS_MAX - 1]++;
        (void)hold(&scene, &is_passed);
        assert_false(is_passed);
    }
    answers.is_over = true;
    pthread_join(thread, NULL);
    assert_int_equal(gate_look(&scene.gate, &scene.neighbours, 1, NULL).busy, 0);
    scene.service->started[1]++;
    assert_int_equal(gate_look(&scene.gate, &scene.neighbours, 1, NULL).busy, 1 << 3);
    scene.service->completed[1]++;
    /* The stuck slot advances after all: its remaining work counts. */
    scene.service->completed[0] = 4;
    assert_int_equal(gate_look(&scene.gate, &scene.neighbours, 1, NULL).busy, 1 << 3);
    free(scene.service);
}

static void many_stuck_slots_need_several_holds(void **state)
{
    struct scene scene;
    bool is_passed;
    (void)state;
    set_scene(&scene);
    struct status_page *other = calloc(1, sizeof(*other));
    assert_non_null(other);
    scene.neighbours.pages[9] = other;
    scene.neighbours.devices[9] = 1;
    scene.neighbours.present |= 1 << 9;
    scene.service->open_streams = other->open_streams = UINT64_MAX;
    for (int i = 0; i < PAGE_STREAMS_MAX; i++)
        scene.service->started[i] = other->started[i] = 1;
    scene.wait.most_ns = 1 * MS_NS;
    for (int i = 0; i < 2 * PAGE_STREAMS_MAX / GATE_WATCHED_MAX; i++) {
        (void)hold(&scene, &is_passed);
        assert_true(is_passed);
    }
    assert_int_equal(hold(&scene, &is_passed), 0);
    free(other);
    free(scene.service);
}

static void *complete_soon(void *argument)
{
    struct status_page *service = argument;
    usleep(30 * US);
    service->completed[0] = 1;
    usleep(5 * US);
    service->started[0] = 2; /* next request: starts within the linger, and lasts longer */
    usleep(2500 * US);
    service->completed[0] = 2;
    return NULL;
}

static void gate_lingers_for_next_request(void **state)
{
    struct scene scene;
    pthread_t thread;
    bool is_passed;
    (void)state;
    set_scene(&scene);
    scene.wait.most_ns = UINT64_C(60000) * MS_NS;
    scene.wait.linger_ns = UINT64_C(1500) * MS_NS;
    scene.service->open_streams = 1;
    scene.service->started[0] = 1;
    assert_int_equal(pthread_create(&thread, NULL, complete_soon, scene.service), 0);
    /* About 2500 + 1500; without the next request, about 30 + 1500. */
    assert_true(hold(&scene, &is_passed) >= (uint64_t)2500 * MS_NS);
    assert_false(is_passed);
    pthread_join(thread, NULL);
    /* The service has been idle since. */
    assert_int_equal(hold(&scene, &is_passed), 0);
    /* A request came and ended between two polls: the next may follow. */
    scene.wait.linger_ns = 10 * MS_NS;
    scene.service->started[0] = scene.service->completed[0] = 3;
    assert_true(hold(&scene, &is_passed) >= 10 * MS_NS);
    free(scene.service);
}

static void window_admits_launches_that_fit(void **state)
{
    const uint64_t window = 250 * US;
    (void)state;
    assert_true(window_fits(window, 0, 0, 250 * US));
    assert_true(window_fits(window, 200 * US, 200 * US, 50 * US));
    assert_false(window_fits(window, 200 * US, 200 * US, 51 * US));
    /* An empty window admits one launch, however long. */
    assert_true(window_fits(window, 0, 0, UINT32_MAX));
    assert_false(window_fits(window, 100 * US, 100 * US, UINT32_MAX));
    /* The work is about to run out; an estimate admits only one launch. */
    assert_true(window_fits(window, 100 * US, 10 * US, UINT32_MAX));
    assert_false(window_fits(window, 251 * US, 0, 50 * US));
    assert_false(window_fits(40 * US, 30 * US, 11 * US, 20 * US));
}

static void window_counts_outstanding_work(void **state)
{
    struct status_page *status = calloc(1, sizeof(*status));
    struct streams streams = {0};
    struct window window = {0};
    (void)state;
    assert_non_null(status);
    status->started[2] = 500;
    status->completed[2] = 100;
    status->started[40] = 1000;
    status->completed[40] = 1000;
    status->started[5] = 77; /* slot of another device */
    const uint64_t slots = UINT64_C(1) << 2 | UINT64_C(1) << 40;
    assert_int_equal(window_outstanding(status, &streams, slots), 400);
    window_charge(&window, 1500);
    window_note_begun(&window, 1500);
    assert_false(window_take(&window, 1000, 1));
    struct window_view view = window_look(&window, status, &streams, slots);
    assert_int_equal(view.outstanding_ns, 400);
    assert_true(window_take(&window, 1000, 500));
    assert_false(window_take_seen(&window, view, 100)); /* fits only by the old view */
    view = window_look(&window, status, &streams, slots);
    assert_int_equal(view.outstanding_ns, 900); /* charged, but not begun */
    assert_true(window_take_seen(&window, view, 100));
    assert_false(window_take(&window, 1000, 1));
    window_put_back(&window, 100);
    assert_true(window_take(&window, 1000, 100));
    /* Given-up work counts again when a mark arrives after all. */
    window_give_up(&window, status, &streams, slots);
    assert_int_equal(window_look(&window, status, &streams, slots).outstanding_ns, 0);
    assert_int_equal(window_outstanding(status, &streams, slots), 0);
    status->started[2] = 600;
    assert_int_equal(window_outstanding(status, &streams, slots), 100);
    status->completed[2] = 400;
    assert_int_equal(window_outstanding(status, &streams, slots), 200);
    free(status);
}

/* The window has room for one of these launches at a time. */
enum { RACERS = 8, RACES = 500, RACE_WINDOW_NS = 20, RACE_COST_NS = 15 };

struct race {
    struct status_page *status;
    struct streams streams;
    struct window window;
    _Atomic int inside, most;
};

static void *race_for_room(void *argument)
{
    struct race *race = argument;
    for (int i = 0; i < RACES; i++) {
        while (!window_take(&race->window, RACE_WINDOW_NS, RACE_COST_NS)) {
            struct window_view view = window_look(&race->window, race->status, &race->streams, 1);
            if (view.outstanding_ns + RACE_COST_NS <= RACE_WINDOW_NS &&
                window_take_seen(&race->window, view, RACE_COST_NS))
                break;
            sched_yield();
        }
        int inside = atomic_fetch_add(&race->inside, 1) + 1;
        if (inside > race->most)
            race->most = inside;
        sched_yield();
        atomic_fetch_add(&race->status->started[0], RACE_COST_NS);
        window_note_begun(&race->window, RACE_COST_NS);
        sched_yield();
        atomic_fetch_sub(&race->inside, 1);
        atomic_fetch_add(&race->status->completed[0], RACE_COST_NS);
    }
    return NULL;
}

static void racing_threads_never_overfill_window(void **state)
{
    struct race *race = calloc(1, sizeof(*race));
    pthread_t threads[RACERS];
    (void)state;
    assert_non_null(race);
    race->status = calloc(1, sizeof(*race->status));
    assert_non_null(race->status);
    for (int i = 0; i < RACERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, race_for_room, race), 0);
    for (int i = 0; i < RACERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(race->most, 1);
    assert_int_equal(race->status->started[0], (uint64_t)RACERS * RACES * RACE_COST_NS);
    free(race->status);
    free(race);
}

static void awaited_work_is_not_outstanding(void **state)
{
    struct status_page *status = calloc(1, sizeof(*status));
    struct streams streams = {0};
    (void)state;
    assert_non_null(status);
    struct stream *stream = &streams.slots[2];
    const uint64_t slots = UINT64_C(1) << 2;
    stream->slot = 2;
    status->started[2] = 500;
    status->completed[2] = 100;
    window_note_done(status, stream, 400);
    assert_int_equal(window_outstanding(status, &streams, slots), 100);
    window_note_done(status, stream, 300); /* an earlier wait, noted later */
    assert_int_equal(window_outstanding(status, &streams, slots), 100);
    status->started[2] = 600;
    assert_int_equal(window_outstanding(status, &streams, slots), 200);
    window_note_done(status, stream, 600);
    assert_int_equal(window_outstanding(status, &streams, slots), 0);
    /* A mark of later work. */
    status->started[2] = 900;
    status->completed[2] = 800;
    assert_int_equal(window_outstanding(status, &streams, slots), 100);
    window_note_done(status, stream, 700);
    assert_int_equal(window_outstanding(status, &streams, slots), 100);
    free(status);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gate_sees_open_streams_of_device),
        cmocka_unit_test(gate_passes_stuck_work_after_maximum),
        cmocka_unit_test(gate_ignores_stuck_slot_of_service),
        cmocka_unit_test(many_stuck_slots_need_several_holds),
        cmocka_unit_test(gate_lingers_for_next_request),
        cmocka_unit_test(window_admits_launches_that_fit),
        cmocka_unit_test(window_counts_outstanding_work),
        cmocka_unit_test(racing_threads_never_overfill_window),
        cmocka_unit_test(awaited_work_is_not_outstanding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
