/* What is kept of an MPS daemon's logs, however the daemon writes them. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/durable.h"
#include "node/mps_control.h"

enum { LINE = 64, LINES = MPS_LOG_MAX / LINE, FEW = 10 };

struct fixture {
    struct mps_control control;
    char log[MPS_PATH_MAX + 32], kept[MPS_PATH_MAX + 32];
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    snprintf(f->control.directory, sizeof f->control.directory, "/tmp/gpumux-logs-XXXXXX");
    assert_non_null(mkdtemp(f->control.directory));
    snprintf(f->log, sizeof f->log, "%s/control.log", f->control.directory);
    snprintf(f->kept, sizeof f->kept, "%s/control.log.old", f->control.directory);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    durable_remove_tree(NULL, AT_FDCWD, f->control.directory);
    free(f);
    return 0;
}

/* As a daemon: numbered lines, one after the other. */
static void say(int fd, int first, int count)
{
    for (int i = first; i < first + count; i++) {
        char line[LINE + 1];
        snprintf(line, sizeof line, "%0*d\n", LINE - 1, i);
        assert_int_equal(write(fd, line, LINE), LINE);
    }
}

static off_t held_by(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_blocks * 512;
}

static void expect_end(const char *path, int line)
{
    struct stat st;
    char text[LINE + 1] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(pread(fd, text, LINE, st.st_size - LINE), LINE);
    assert_int_equal(strtol(text, NULL, 10), line);
    close(fd);
}

static void trim_as_written(struct fixture *f, int flags)
{
    int fd = open(f->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | flags, 0644);
    assert_true(fd >= 0);
    say(fd, 0, LINES / 2);
    mps_control_trim_logs(&f->control);
    assert_true(held_by(f->log) >= MPS_LOG_MAX / 2);
    assert_int_equal(access(f->kept, F_OK), -1);
    for (int round = 1; round <= 3; round++) { /* also when it has a hole by then */
        say(fd, round * LINES, LINES + FEW);
        mps_control_trim_logs(&f->control);
        assert_int_equal(held_by(f->log), 0);
        expect_end(f->kept, round * LINES + LINES + FEW - 1);
        assert_true(held_by(f->kept) <= MPS_LOG_MAX / 2);
        say(fd, 0, FEW);
        mps_control_trim_logs(&f->control);
        expect_end(f->log, FEW - 1); /* there is little in it, wherever that is */
        expect_end(f->kept, round * LINES + LINES + FEW - 1);
    }
    close(fd);
}

static void test_a_log_that_is_appended_to(void **state)
{
    trim_as_written(*state, O_APPEND);
}

static void test_a_log_that_is_written_on(void **state)
{
    trim_as_written(*state, 0);
}

static void test_links_are_not_followed(void **state)
{
    struct fixture *f = *state;
    char other[MPS_PATH_MAX + 32];
    snprintf(other, sizeof other, "%s/other", f->control.directory);
    int fd = open(other, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    say(fd, 0, LINES + FEW);
    close(fd);
    assert_int_equal(symlink("other", f->log), 0);
    mps_control_trim_logs(&f->control);
    expect_end(other, LINES + FEW - 1);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_a_log_that_is_appended_to),
        CASE(test_a_log_that_is_written_on),
        CASE(test_links_are_not_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
