/*
 * Outcomes of the process that moves memory. This program is its own `gpumux`: called as
 * `checkpoint_test checkpoint off LOCK`, it behaves as LOCK says.
 */
#include <event2/event.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/str.h"
#include "node/checkpoint/checkpoint.h"

enum { PATIENCE_MS = 60000 };

struct ending {
    struct event_base *base;
    bool has_come;
    enum checkpoint_result result;
    char text[WORKLOAD_TEXT_MAX];
};

static void on_end(void *arg, enum checkpoint_result result, const char *text)
{
    struct ending *end = arg;
    end->has_come = true;
    end->result = result;
    str_copy(end->text, sizeof end->text, text);
    event_base_loopbreak(end->base);
}

/* Runs a child with this behaviour, and checks that nothing of it is left. */
static struct ending run(const char *does, int64_t limit_ms)
{
    struct ending end = {.base = event_base_new()};
    struct checkpoint c;
    const struct checkpoint_order order = {.base = end.base,
                                           .off = true,
                                           .lock_path = does,
                                           .limit_ms = limit_ms,
                                           .on_end = on_end,
                                           .arg = &end};
    checkpoint_init(&c);
    assert_int_equal(checkpoint_start(&c, &order), 0);
    assert_true(checkpoint_runs(&c));
    event_base_dispatch(end.base);
    assert_true(end.has_come);
    assert_false(checkpoint_runs(&c));
    pid_t left = checkpoint_abandon(&c, false);
    if (left != 0)
        assert_int_equal(waitpid(left, NULL, 0), left); /* ends by itself, or was killed */
    event_base_free(end.base);
    return end;
}

static void checkpoint_reports_result_and_reason(void **state)
{
    (void)state;
    assert_int_equal(run("do", PATIENCE_MS).result, CHECKPOINT_DONE);
    struct ending end = run("fail", PATIENCE_MS);
    assert_int_equal(end.result, CHECKPOINT_FAILED);
    assert_string_equal(end.text, "there is a reason");
}

static void killed_checkpoint_process_counts_as_lost(void **state)
{
    (void)state;
    struct ending end = run("be-killed", PATIENCE_MS);
    assert_int_equal(end.result, CHECKPOINT_LOST);
    assert_non_null(strstr(end.text, "killed"));
}

static void hanging_checkpoint_times_out_as_lost(void **state)
{
    enum { LIMIT_MS = 200 };
    (void)state;
    int64_t begun_ms = clock_boot_ms();
    struct ending end = run("hang", LIMIT_MS);
    assert_true(clock_boot_ms() - begun_ms >= LIMIT_MS);
    assert_int_equal(end.result, CHECKPOINT_LOST);
    assert_non_null(strstr(end.text, "in time"));
}

static void abandoned_checkpoint_ends_without_report(void **state)
{
    (void)state;
    struct ending end = {.base = event_base_new()};
    struct checkpoint c;
    const struct checkpoint_order order = {.base = end.base,
                                           .lock_path = "hang",
                                           .limit_ms = PATIENCE_MS,
                                           .on_end = on_end,
                                           .arg = &end};
    checkpoint_init(&c);
    assert_int_equal(checkpoint_start(&c, &order), 0);
    pid_t left = checkpoint_abandon(&c, true);
    if (left != 0)
        assert_int_equal(waitpid(left, NULL, 0), left);
    assert_false(checkpoint_runs(&c));
    event_base_loop(end.base, EVLOOP_NONBLOCK);
    assert_false(end.has_come);
    event_base_free(end.base);
}

static int move(const char *does)
{
    if (str_equal(does, "be-killed"))
        raise(SIGKILL);
    while (str_equal(does, "hang"))
        pause();
    puts(str_equal(does, "do") ? CHECKPOINT_SAYS_DONE : "there is a reason");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc >= 4 && strcmp(argv[1], "checkpoint") == 0)
        return move(argv[3]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checkpoint_reports_result_and_reason),
        cmocka_unit_test(killed_checkpoint_process_counts_as_lost),
        cmocka_unit_test(hanging_checkpoint_times_out_as_lost),
        cmocka_unit_test(abandoned_checkpoint_ends_without_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
