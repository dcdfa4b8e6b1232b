/* The rule DUE and the kinds of bursts, by themselves: the test writes the page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>

#include "shim/launch/bursts.h"
#include "shim/launch/due.h"

#define MS UINT64_C(1000000)

static const struct due_rule rule = {.need_ns = 2 * MS, .each_ns = 1 * MS, .burst_ns = 5 * MS};

static struct status_page *make_page(bool reports_requests)
{
    struct status_page *page = calloc(1, sizeof *page);
    assert_non_null(page);
    page->reports_requests = reports_requests;
    return page;
}

static void deadline_is_near_by_rank(void **state)
{
    struct status_page *page = make_page(true);
    (void)state;
    assert_false(due_is_near(page, &rule, 100 * MS, true)); /* no request is open */
    page->due_ns[7] = 110 * MS;
    assert_false(due_is_near(page, &rule, 108 * MS - 1, false));
    assert_true(due_is_near(page, &rule, 108 * MS, false));
    /* A second request with the same deadline is served after the first. */
    page->due_ns[3] = 110 * MS;
    assert_false(due_is_near(page, &rule, 107 * MS - 1, false));
    assert_true(due_is_near(page, &rule, 107 * MS, false));
    /* A request that is due later does not matter to the earlier ones. */
    page->due_ns[3] = 150 * MS;
    assert_false(due_is_near(page, &rule, 108 * MS - 1, false));
    page->due_ns[7] = 0;
    assert_true(due_is_near(page, &rule, 148 * MS, false));
    free(page);
}

static void stale_deadline_counts_as_none(void **state)
{
    struct status_page *page = make_page(true);
    (void)state;
    page->due_ns[0] = 10 * MS;
    assert_true(due_is_near(page, &rule, 9 * MS + DUE_STALE_NS, true));
    assert_false(due_is_near(page, &rule, 10 * MS + DUE_STALE_NS, true));
    free(page);
}

static void burst_is_near_after_its_time(void **state)
{
    struct status_page *page = make_page(false);
    (void)state;
    assert_false(due_is_near(page, &rule, 100 * MS, true)); /* no burst is open */
    page->burst_begin_ns = 100 * MS;
    assert_false(due_is_near(page, &rule, 99 * MS, true)); /* began after the clock was read */
    assert_false(due_is_near(page, &rule, 105 * MS - 1, true));
    assert_true(due_is_near(page, &rule, 105 * MS, true));
    assert_true(due_is_near(page, &rule, 105 * MS, false));
    /* A burst that nobody ended, without work. */
    assert_false(due_is_near(page, &rule, 100 * MS + DUE_STALE_NS, false));
    page->reports_requests = 1;
    assert_false(due_is_near(page, &rule, 105 * MS, true));
    free(page);
}

static void bursts_have_kinds_and_places(void **state)
{
    (void)state;
    assert_int_equal(bursts_kind(0, 1), 0);
    assert_int_equal(bursts_kind(500, 2), 0);
    assert_int_equal(bursts_kind(1, 0), 1);
    assert_int_equal(bursts_kind(2, 0), 2);
    assert_int_equal(bursts_kind(3, 0), 2);
    assert_int_equal(bursts_kind(4, 0), 3);
    assert_int_equal(bursts_kind(UINT64_MAX, 0), PAGE_BURST_KINDS - 1);
    assert_int_equal(bursts_place(0), 0);
    assert_int_equal(bursts_place(16000), 0);
    assert_int_equal(bursts_place(20000), 1);
    assert_int_equal(bursts_place(32000), 4);
    assert_int_equal(bursts_place(56000), 7);
    assert_int_equal(bursts_place(UINT64_MAX), PAGE_BURST_PLACES - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deadline_is_near_by_rank),
        cmocka_unit_test(stale_deadline_counts_as_none),
        cmocka_unit_test(burst_is_near_after_its_time),
        cmocka_unit_test(bursts_have_kinds_and_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
