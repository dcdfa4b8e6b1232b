/* Xids that arrive faster than the monitor reads them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/device/watch.h"

enum { NOTE = 1000, FAULT = 31, FATAL = 48 }; /* Xids; those from NOTE on are unknown */

static bool has(const struct watch_news *news, int device, int xid)
{
    for (size_t i = 0; i < news->xid_count; i++)
        if (news->xids[i].device == device && news->xids[i].xid == xid)
            return true;
    return false;
}

static void repeated_xid_is_reported_once(void **state)
{
    (void)state;
    static struct watch_news news;
    for (int i = 0; i < 2 * WATCH_XIDS_MAX; i++)
        watch_news_add_xid(&news, i % 2, FAULT);
    watch_news_add_xid(&news, 0, FATAL);
    assert_int_equal(news.xid_count, 3);
    assert_true(has(&news, 0, FAULT) && has(&news, 1, FAULT) && has(&news, 0, FATAL));
}

static void xid_overflow_keeps_gravest_xids(void **state)
{
    (void)state;
    static struct watch_news news;
    for (int i = 0; i < 2 * WATCH_XIDS_MAX; i++)
        watch_news_add_xid(&news, 0, NOTE + i);
    watch_news_add_xid(&news, 0, FAULT);
    watch_news_add_xid(&news, 1, FATAL);
    watch_news_add_xid(&news, 0, NOTE - 1);
    assert_int_equal(news.xid_count, WATCH_XIDS_MAX);
    assert_true(has(&news, 0, FAULT) && has(&news, 1, FATAL));
    assert_true(has(&news, 0, NOTE) && !has(&news, 0, NOTE - 1)); /* the first Xids stay */
    for (int i = 0; i < 2 * WATCH_XIDS_MAX; i++)
        watch_news_add_xid(&news, 2 + i, FATAL);
    assert_int_equal(news.xid_count, WATCH_XIDS_MAX);
    assert_true(has(&news, 1, FATAL) && has(&news, 2, FATAL) && !has(&news, 0, FAULT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeated_xid_is_reported_once),
        cmocka_unit_test(xid_overflow_keeps_gravest_xids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
