/* The attempts that need an MPS daemon. tests/system/mps_end.sh tests the guard's actions. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/durable.h"
#include "node/mps/mps.h"
#include "node/mps/mps_guard.h"

#define UUID "GPU-12345678-1234-1234-1234-123456789012"

struct fixture {
    char state[64], daemon[MPS_PATH_MAX];
    struct mps_guard guard;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    char path[96];
    snprintf(f->state, sizeof f->state, "/tmp/gpumux-guard-XXXXXX");
    assert_non_null(mkdtemp(f->state));
    f->guard.state = f->state;
    assert_int_equal(mps_guard_open(NULL, &f->guard), 0);
    snprintf(path, sizeof path, "%s/locks", f->state);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(mkdir(f->guard.directory, 0700), 0);
    assert_true(mps_directory(f->guard.directory, UUID, f->daemon, sizeof f->daemon));
    assert_int_equal(mkdir(f->daemon, 0700), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    mps_guard_close(&f->guard);
    assert_int_equal(durable_remove_tree(NULL, AT_FDCWD, f->state), 0);
    free(f);
    return 0;
}

/* Holds the lock of an attempt, as its supervisor does. */
static int hold_lock(const struct fixture *f, const char *attempt)
{
    char path[128];
    snprintf(path, sizeof path, "%s/locks/%s", f->state, attempt);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    return fd;
}

static bool is_noted(const struct fixture *f, const char *attempt)
{
    char path[MPS_PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", f->daemon, attempt);
    return access(path, F_OK) == 0;
}

static void living_attempt_needs_daemon(void **state)
{
    struct fixture *f = *state;
    assert_false(mps_guard_is_needed(&f->guard, f->daemon));
    int first = hold_lock(f, "1.1"), second = hold_lock(f, "2.1");
    assert_false(mps_guard_is_needed(&f->guard, f->daemon)); /* attempts without MPS */
    assert_int_equal(mps_guard_note(NULL, &f->guard, UUID, "1.1", true), 0);
    assert_int_equal(mps_guard_note(NULL, &f->guard, UUID, "1.1", true), 0);
    assert_int_equal(mps_guard_note(NULL, &f->guard, UUID, "2.1", true), 0);
    assert_true(mps_guard_is_needed(&f->guard, f->daemon));
    close(first);
    assert_true(mps_guard_is_needed(&f->guard, f->daemon));
    assert_true(!is_noted(f, "1.1") && is_noted(f, "2.1"));
    assert_int_equal(mps_guard_note(NULL, &f->guard, UUID, "2.1", false), 0);
    assert_int_equal(mps_guard_note(NULL, &f->guard, UUID, "2.1", false), 0);
    assert_false(mps_guard_is_needed(&f->guard, f->daemon));
    close(second);
}

static void ended_attempt_needs_no_daemon(void **state)
{
    struct fixture *f = *state;
    char lock[MPS_PATH_MAX + 64];
    assert_int_equal(mps_guard_note(NULL, &f->guard, UUID, "3.2", true), 0);
    assert_false(mps_guard_is_needed(&f->guard, f->daemon)); /* no lock */
    int fd = hold_lock(f, "3.2");
    assert_int_equal(mps_guard_note(NULL, &f->guard, UUID, "3.2", true), 0);
    assert_true(mps_guard_is_needed(&f->guard, f->daemon));
    close(fd);
    assert_false(mps_guard_is_needed(&f->guard, f->daemon));
    snprintf(lock, sizeof lock, "%s/nvidia-cuda-mps-control.pid", f->daemon);
    close(open(lock, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    assert_false(mps_guard_is_needed(&f->guard, f->daemon));
    assert_int_equal(access(lock, F_OK), 0); /* the daemon's own files stay */
}

static void second_guard_is_refused_with_path(void **state)
{
    struct fixture *f = *state;
    struct error e = {0};
    struct mps_guard other = {.state = f->state};
    assert_int_equal(mps_guard_open(&e, &other), -ERR_BUSY);
    assert_non_null(strstr(e.text, f->state));
    mps_guard_close(&other);
    mps_guard_close(&f->guard);
    f->guard.state = f->state;
    assert_int_equal(mps_guard_open(NULL, &f->guard), 0);
}

static void long_state_path_disables_guard(void **state)
{
    char path[MPS_PATH_MAX + 1];
    (void)state;
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    struct mps_guard guard = {.state = path};
    assert_int_equal(mps_guard_open(NULL, &guard), 0);
    assert_int_equal(mps_guard_start(NULL, &guard), 0);
    assert_false(mps_guard_sweep(&guard, NULL, MPS_GUARD_ALL));
    mps_guard_close(&guard);
    assert_false(mps_guard_sweep(&guard, NULL, MPS_GUARD_ALL)); /* also if not open */
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(living_attempt_needs_daemon),
        CASE(ended_attempt_needs_no_daemon),
        CASE(second_guard_is_refused_with_path),
        CASE(long_state_path_disables_guard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
