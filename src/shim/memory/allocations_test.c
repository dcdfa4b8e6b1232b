#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>

#include "shim/memory/allocations.h"

enum { COUNT = 20000, THREADS = 4 };

static uint64_t address_of(unsigned thread, unsigned i)
{
    return ((uint64_t)(thread + 1) << 40) + (uint64_t)(i + 1) * 512;
}

static void allocation_table_grows_and_shrinks(void **state)
{
    struct allocations allocations = {0};
    struct allocation found;
    (void)state;
    assert_false(allocations_take(&allocations, 512, &found));
    for (unsigned i = 0; i < COUNT; i++) {
        struct allocation a = {.address = address_of(0, i), .bytes = i, .device = i % 16};
        assert_true(allocations_add(&allocations, &a));
    }
    assert_int_equal(allocations.count, COUNT);
    for (unsigned i = 0; i < COUNT; i += 3) {
        assert_true(allocations_take(&allocations, address_of(0, i), &found));
        assert_int_equal(found.bytes, i);
        assert_int_equal(found.device, i % 16);
        assert_false(allocations_take(&allocations, address_of(0, i), &found));
    }
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(allocations_take(&allocations, address_of(0, i), &found), i % 3 != 0);
    assert_int_equal(allocations.count, 0);
    assert_false(allocations_take(&allocations, 0, &found));
    allocations_reset(&allocations);
}

static void repeated_address_replaces_allocation(void **state)
{
    struct allocations allocations = {0};
    struct allocation found, a = {.address = 512, .bytes = 1}, b = {.address = 512, .bytes = 2};
    (void)state;
    assert_true(allocations_add(&allocations, &a));
    assert_true(allocations_add(&allocations, &b));
    assert_int_equal(allocations.count, 1);
    assert_true(allocations_take(&allocations, 512, &found));
    assert_int_equal(found.bytes, 2);
    allocations_reset(&allocations);
    assert_null(allocations.places);
}

static void allocation_is_found_by_inner_address(void **state)
{
    struct allocations allocations = {0};
    struct allocation found, a = {.address = 1024, .bytes = 512}, b = {.address = 1536, .bytes = 1};
    (void)state;
    assert_false(allocations_find_around(&allocations, 1024, &found));
    assert_true(allocations_add(&allocations, &a) && allocations_add(&allocations, &b));
    assert_true(allocations_find_around(&allocations, 1024, &found) && found.bytes == 512);
    assert_true(allocations_find_around(&allocations, 1535, &found) && found.bytes == 512);
    assert_true(allocations_find_around(&allocations, 1536, &found) && found.bytes == 1);
    assert_false(allocations_find_around(&allocations, 1023, &found));
    assert_false(allocations_find_around(&allocations, 1537, &found));
    assert_false(allocations_find_around(&allocations, 0, &found));
    allocations_reset(&allocations);
}

static void allocations_of_context_are_taken(void **state)
{
    struct allocations allocations = {0};
    struct allocation found;
    size_t cursor = 0;
    unsigned taken = 0;
    (void)state;
    assert_false(allocations_take_of(&allocations, 1, &cursor, &found));
    assert_false(allocations_find(&allocations, 512, &found));
    for (unsigned i = 0; i < COUNT; i++) {
        struct allocation a = {.address = address_of(0, i), .context = 1 + i % 3};
        assert_true(allocations_add(&allocations, &a));
    }
    assert_false(allocations_add(&allocations, &(struct allocation){.bytes = 1})); /* no address */
    for (cursor = 0; allocations_take_of(&allocations, 2, &cursor, &found); taken++)
        assert_int_equal(found.context, 2);
    assert_int_equal(taken, COUNT / 3 + (COUNT % 3 > 1));
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(allocations_find(&allocations, address_of(0, i), &found), i % 3 != 1);
        assert_true(i % 3 == 1 || found.context == 1 + i % 3);
    }
    allocations_reset(&allocations);
}

struct user {
    struct allocations *allocations;
    unsigned number;
    bool is_lost;
};

static void *use(void *argument)
{
    struct user *user = argument;
    struct allocation found;
    for (unsigned i = 0; i < COUNT; i++) {
        struct allocation a = {.address = address_of(user->number, i), .bytes = i};
        user->is_lost |= !allocations_add(user->allocations, &a);
        if (i >= 100)
            user->is_lost |=
                !allocations_take(user->allocations, address_of(user->number, i - 100), &found) ||
                found.bytes != i - 100;
    }
    return NULL;
}

static void concurrent_threads_lose_no_allocation(void **state)
{
    struct allocations allocations = {0};
    struct user users[THREADS];
    pthread_t threads[THREADS];
    (void)state;
    for (unsigned i = 0; i < THREADS; i++) {
        users[i] = (struct user){.allocations = &allocations, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, use, &users[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(users[i].is_lost);
    }
    assert_int_equal(allocations.count, THREADS * 100);
    allocations_reset(&allocations);
}

/* A signal interrupted the thread in one of the functions: its handler is refused, and other
 * threads wait. */
static void signal_handler_is_refused_without_deadlock(void **state)
{
    struct allocations allocations = {0};
    struct allocation found, a = {.address = address_of(1, 0), .bytes = 1};
    struct user user = {.allocations = &allocations};
    pthread_t thread;
    size_t cursor = 0;
    (void)state;
    assert_true(allocations_add(&allocations, &a));
    lock_take(&allocations.lock);
    assert_int_equal(pthread_create(&thread, NULL, use, &user), 0);
    assert_false(allocations_add(&allocations, &a));
    assert_false(allocations_find(&allocations, a.address, &found));
    assert_false(allocations_take(&allocations, a.address, &found));
    assert_false(allocations_take_of(&allocations, 0, &cursor, &found));
    lock_release(&allocations.lock);
    pthread_join(thread, NULL);
    assert_false(user.is_lost);
    assert_true(allocations_take(&allocations, a.address, &found));
    allocations_reset(&allocations);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocation_table_grows_and_shrinks),
        cmocka_unit_test(repeated_address_replaces_allocation),
        cmocka_unit_test(allocation_is_found_by_inner_address),
        cmocka_unit_test(allocations_of_context_are_taken),
        cmocka_unit_test(concurrent_threads_lose_no_allocation),
        cmocka_unit_test(signal_handler_is_refused_without_deadlock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
