/* Cancelled self-tests leave nothing behind. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "node/reaper.h"
#include "node/device/self_test.h"

enum { DEADLINE_MS = 30000 };

/* Starts a test that hangs. */
static struct self_test begin(int64_t give_up_ms)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        for (;;)
            pause();
    return (struct self_test){.pid = pid, .give_up_ms = give_up_ms};
}

static void expect_reaped(struct reaper *r, pid_t pid)
{
    int64_t deadline_ms = clock_boot_ms() + DEADLINE_MS;
    while (r->count > 0) {
        assert_true(clock_boot_ms() < deadline_ms);
        reaper_look(r);
        usleep(1000);
    }
    assert_int_equal(waitpid(pid, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void self_test_past_limit_is_reaped(void **state)
{
    (void)state;
    struct reaper reaper = {0};
    struct self_test t = begin(INT64_MAX);
    pid_t pid = t.pid;
    assert_int_equal(self_test_look(&t, &reaper), SELF_TEST_RUNS);
    t.give_up_ms = clock_boot_ms();
    assert_int_equal(self_test_look(&t, &reaper), SELF_TEST_FAILED);
    assert_int_equal(t.pid, 0);
    expect_reaped(&reaper, pid);
}

static void cancelled_self_test_is_reaped(void **state)
{
    (void)state;
    struct reaper reaper = {0};
    struct self_test t = begin(INT64_MAX);
    pid_t pid = t.pid;
    self_test_cancel(&t, &reaper);
    assert_int_equal(t.pid, 0);
    self_test_cancel(&t, &reaper); /* no test runs */
    expect_reaped(&reaper, pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(self_test_past_limit_is_reaped),
        cmocka_unit_test(cancelled_self_test_is_reaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
