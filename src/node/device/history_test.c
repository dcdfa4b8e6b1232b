/* A later agent knows what an earlier agent has learnt. */
#include "node/device/history.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    char directory[32];
    int directory_fd;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    (void)snprintf(f->directory, sizeof f->directory, "/tmp/gmh.XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    f->directory_fd = open(f->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(f->directory_fd >= 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    unlinkat(f->directory_fd, "activity", 0);
    close(f->directory_fd);
    rmdir(f->directory);
    free(f);
    return 0;
}

static struct history *open_history(const struct fixture *f)
{
    struct history *h = NULL;
    assert_int_equal(history_open(NULL, f->directory_fd, &h), 0);
    return h;
}

static void history_survives_reopening(void **state)
{
    struct fixture *f = *state;
    struct history *h = open_history(f);
    assert_null(history_find(h, 7));
    struct share_service *s = history_get(h, 7);
    assert_int_equal(s->workload, 7);
    assert_true(s->activity.solo_percent < 0);
    s->activity.solo_percent = 42;
    s->choice.mode = SHARE_SPACE;
    assert_ptr_equal(history_get(h, 7), s);
    history_close(h);
    h = open_history(f);
    const struct share_service *kept = history_find(h, 7);
    assert_non_null(kept);
    assert_true(kept->activity.solo_percent == 42);
    assert_int_equal(kept->choice.mode, SHARE_SPACE);
    history_close(h);
}

static void full_history_drops_least_recent_service(void **state)
{
    struct history *h = open_history(*state);
    for (uint64_t id = 1; id <= HISTORY_SERVICES_MAX; id++)
        history_get(h, id)->seen_ms = (int64_t)(id == 5 ? 10 : 1000 + id);
    struct share_service *s = history_get(h, 1000);
    s->seen_ms = 5000;
    assert_null(history_find(h, 5));
    assert_non_null(history_find(h, 4));
    assert_non_null(history_find(h, 1000));
    history_close(h);
}

static void corrupt_history_entries_are_dropped(void **state)
{
    struct fixture *f = *state;
    struct history *h = open_history(f);
    history_get(h, 7)->choice.mode = 99;
    history_get(h, 8)->seen_ms = 1;
    history_close(h);
    h = open_history(f);
    assert_null(history_find(h, 7));
    assert_non_null(history_find(h, 8));
    history_close(h);
    int fd = openat(f->directory_fd, "activity", O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "another ", 8, 0), 8);
    close(fd);
    h = open_history(f);
    assert_null(history_find(h, 8));
    history_close(h);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(history_survives_reopening),
        CASE(full_history_drops_least_recent_service),
        CASE(corrupt_history_entries_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
