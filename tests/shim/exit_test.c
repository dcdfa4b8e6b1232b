/*
 * Ends of programs with a deep queue, beside a neighbour on the same MPS server: with the shim the
 * neighbour lives on, and a waiting parent sees the program end as without the shim.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/emu/emu_party.h"
#include "tests/shim/talker.h"

enum {
    STEP_US = 2000,
    PATIENCE_MS = 150000,
    STATUS = 7,         /* of programs that end by themselves */
    GRACEFUL_MS = 2000, /* an end with more outstanding work than the drain waits for */
};
#define DEEP     "16", "20000"   /* 0.3 s: drained in time, and deadly to the neighbour if not */
#define ENDLESS  "40", "5000000" /* three minutes: never drained */
#define HARMLESS "4", "20000"

static const char *program_path, *python_path;
static char preload[PRELOAD_MAX];
static struct driver_api api;
static struct party_client neighbour;

struct task {
    const char *name;
    pid_t pid;
    FILE *output;
};

static int set_up(void **state)
{
    static const char *const background[] = {"-d", NULL};
    char output[256];
    (void)state;
    driver_api_make_devices("H200:24g", 1, 0);
    party_make_directories();
    assert_int_equal(
        party_program("nvidia-cuda-mps-control", background, NULL, output, sizeof(output)), 0);
    neighbour = party_start(&api, STEP_US, 64 << 20);
    assert_int_equal(party_opened(&neighbour), CUDA_SUCCESS);
    return 0;
}

static int tear_down(void **state)
{
    char output[256];
    (void)state;
    party_end(&neighbour, SIGKILL);
    party_control("quit -t 0", output, sizeof(output));
    party_remove_directories();
    driver_api_remove_devices();
    return 0;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct task start(bool has_shim, const char *const *command)
{
    int output[2];
    assert_int_equal(pipe2(output, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves no process behind */
        signal(SIGINT, SIG_DFL);          /* a shell ignores it for background programs */
        dup2(output[1], 1);
        if (has_shim)
            setenv("LD_PRELOAD", preload, 1);
        execv(command[0], (char *const *)(uintptr_t)command);
        _exit(127);
    }
    assert_true(pid > 0);
    close(output[1]);
    return (struct task){command[1], pid, fdopen(output[0], "r")};
}

static void expect_line(const struct task *task, const char *wanted)
{
    char line[64] = "";
    struct pollfd ready = {.fd = fileno(task->output), .events = POLLIN};
    if (poll(&ready, 1, PATIENCE_MS) != 1)
        fail_msg("%s does not say %s", task->name, wanted);
    assert_non_null(fgets(line, sizeof(line), task->output));
    assert_string_equal(line, wanted);
}

/* Starts the program and waits until its queue is full. */
static struct task start_ready(bool has_shim, const char *how, const char *kernels,
                               const char *kernel_us)
{
    const char *const command[] = {program_path, how, kernels, kernel_us, NULL};
    struct task task = start(has_shim, command);
    expect_line(&task, "ready\n");
    return task;
}

/* Returns the wait status. */
static int await_end(struct task *task)
{
    int status = -1;
    for (int64_t until = now_ms() + PATIENCE_MS; waitpid(task->pid, &status, WNOHANG) == 0;) {
        if (now_ms() >= until)
            fail_msg("%s does not end", task->name);
        usleep(1000);
    }
    fclose(task->output);
    return status;
}

static void expect_end_by(struct task *task, int number)
{
    int status = await_end(task);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), number);
}

static void expect_exit(struct task *task)
{
    int status = await_end(task);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), STATUS);
}

static void expect_neighbour(void)
{
    assert_true(party_makes_progress(&neighbour));
    assert_int_equal(neighbour.report->error, 0);
}

static const int graceful[] = {SIGTERM, SIGINT, SIGHUP};

static void test_default_actions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(graceful) / sizeof(*graceful); i++) {
        struct task task = start_ready(true, i == 0 ? "wait-once" : "wait", DEEP);
        kill(task.pid, graceful[i]);
        expect_end_by(&task, graceful[i]);
        expect_neighbour();
    }
}

/* Two signals at once, for instance to a process and its group. A machine that stalls in between
 * may separate them: once. */
static void test_two_signals_at_once(void **state)
{
    bool is_alive = false;
    for (int i = 0; i < 3 && !is_alive; i++) {
        if (i > 0) {
            tear_down(state);
            set_up(state);
        }
        struct task task = start_ready(true, "wait", DEEP);
        kill(task.pid, SIGTERM);
        kill(task.pid, SIGHUP);
        kill(task.pid, SIGTERM);
        int status = await_end(&task);
        assert_true(WIFSIGNALED(status));
        assert_true(WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGHUP);
        is_alive = party_makes_progress(&neighbour);
    }
    assert_true(is_alive);
}

static void test_own_ends(void **state)
{
    static const char *const ways[] = {"exit", "return", "quick_exit", "_exit", "joining"};
    (void)state;
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        struct task task = start_ready(true, ways[i], DEEP);
        expect_exit(&task);
        expect_neighbour();
    }
}

/* Releasing a context that others hold does not end its work; and a context may be made where
 * another has ended. */
static void test_contexts_that_are_let_go(void **state)
{
    (void)state;
    struct task task = start_ready(true, "release-wait", DEEP);
    kill(task.pid, SIGTERM);
    expect_end_by(&task, SIGTERM);
    expect_neighbour();
    task = start_ready(true, "release-exit", DEEP);
    expect_exit(&task);
    expect_neighbour();
    task = start_ready(true, "reopen-exit", DEEP);
    expect_exit(&task);
    expect_neighbour();
}

static void test_captures_that_are_open(void **state)
{
    (void)state;
    struct task task = start_ready(true, "capture-wait", DEEP);
    kill(task.pid, SIGTERM);
    expect_end_by(&task, SIGTERM);
    expect_neighbour();
    task = start_ready(true, "capture-exit", DEEP);
    expect_exit(&task);
    expect_neighbour();
}

/* Launches that are charged, without a delay: the contexts to wait for come from their streams. */
static void test_ends_of_launches_that_are_charged(void **state)
{
    setenv("GPUMUX_GATE_US", "1000", 1);
    test_default_actions(state);
    test_own_ends(state);
    test_contexts_that_are_let_go(state);
    test_captures_that_are_open(state);
    unsetenv("GPUMUX_GATE_US");
}

/* The counterpart of the other tests, however late the signal is. */
static void test_without_the_shim_a_neighbour_is_lost(void **state)
{
    (void)state;
    struct task task = start_ready(false, "wait", ENDLESS);
    kill(task.pid, SIGTERM);
    expect_end_by(&task, SIGTERM);
    assert_int_equal(party_error(&neighbour), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void test_a_crash_stays_one(void **state)
{
    (void)state;
    struct task task = start_ready(true, "abort", HARMLESS);
    expect_end_by(&task, SIGABRT);
    expect_neighbour();
}

static void test_a_short_queue_may_be_killed(void **state)
{
    (void)state;
    struct task task = start_ready(true, "wait", HARMLESS);
    kill(task.pid, SIGKILL);
    expect_end_by(&task, SIGKILL);
    expect_neighbour();
}

/* The kill would be deadly without the window: the program launches as fast as it can, and its
 * kernels are known to be long. */
static void test_a_kill_beneath_the_window(void **state)
{
    (void)state;
    setenv("GPUMUX_WINDOW_US", "20000", 1);
    struct task task = start_ready(true, "known", "40", "5000");
    unsetenv("GPUMUX_WINDOW_US");
    kill(task.pid, SIGKILL);
    expect_end_by(&task, SIGKILL);
    expect_neighbour();
}

/* Returns the time of the fastest of several runs, since the machine may be slow once. */
static int64_t fastest_ms(void **state, int64_t (*end)(void), int64_t enough_ms)
{
    int64_t fastest = PATIENCE_MS;
    for (int i = 0; i < 5 && fastest > enough_ms; i++) {
        if (i > 0) {
            tear_down(state);
            set_up(state);
        }
        int64_t took = end();
        fastest = took < fastest ? took : fastest;
    }
    return fastest;
}

/* Deep enough to be deadly without the window. */
static int64_t end_known(const char *how)
{
    setenv("GPUMUX_WINDOW_US", "20000", 1);
    struct task task = start_ready(true, how, "40", "1000");
    unsetenv("GPUMUX_WINDOW_US");
    int64_t begin = now_ms();
    if (strcmp(how, "known-exit") == 0) {
        expect_exit(&task);
    } else {
        kill(task.pid, SIGTERM);
        expect_end_by(&task, SIGTERM);
    }
    int64_t took = now_ms() - begin;
    expect_neighbour();
    return took;
}

static int64_t end_known_by_signal(void)
{
    return end_known("known");
}

static int64_t end_known_by_exit(void)
{
    return end_known("known-exit");
}

static void known_launches_in_flight_end_gracefully(void **state)
{
    assert_in_range(fastest_ms(state, end_known_by_signal, GRACEFUL_MS), 0, GRACEFUL_MS);
    assert_in_range(fastest_ms(state, end_known_by_exit, GRACEFUL_MS), 0, GRACEFUL_MS);
}

static void test_handlers_that_save(void **state)
{
    (void)state;
    struct task task = start_ready(true, "save-exit", DEEP);
    kill(task.pid, SIGTERM);
    expect_line(&task, "saved\n");
    expect_exit(&task);
    expect_neighbour();
    task = start_ready(true, "save-raise", DEEP);
    kill(task.pid, SIGTERM);
    expect_line(&task, "saved\n");
    expect_end_by(&task, SIGTERM);
    expect_neighbour();
}

/* A full queue of 0.5 s, and a thread in the driver that wants to add to it. */
static void test_threads_inside_the_driver(void **state)
{
    (void)state;
    struct task task = start_ready(true, "launching", "500", "1000");
    kill(task.pid, SIGTERM);
    expect_end_by(&task, SIGTERM);
    expect_neighbour();
    task = start_ready(true, "synchronising", DEEP);
    kill(task.pid, SIGTERM);
    expect_end_by(&task, SIGTERM);
    expect_neighbour();
}

static void test_signals_that_are_waited_for(void **state)
{
    static const char *const ways[] = {"signalfd", "sigwait"};
    (void)state;
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        struct task task = start_ready(true, ways[i], DEEP);
        kill(task.pid, SIGTERM);
        expect_exit(&task);
        expect_neighbour();
    }
}

static void test_ignored_signals(void **state)
{
    (void)state;
    struct task task = start_ready(true, "ignore", DEEP);
    kill(task.pid, SIGTERM);
    kill(task.pid, SIGUSR1);
    expect_exit(&task);
    expect_neighbour();
}

static void test_what_a_program_sees(void **state)
{
    static const char *const ways[] = {"view", "threads", "handlers"};
    (void)state;
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        const char *const command[] = {program_path, ways[i], NULL};
        struct task task = start(true, command);
        expect_exit(&task);
        task = start(false, command); /* the program expects the right results */
        expect_exit(&task);
    }
}

static void test_python(void **state)
{
    const char *const command[] = {"/usr/bin/python3", python_path, DEEP, NULL};
    (void)state;
    struct task task = start(true, command);
    expect_line(&task, "ready\n");
    kill(task.pid, SIGINT);
    expect_line(&task, "interrupted\n");
    expect_exit(&task);
    expect_neighbour();
    task = start(true, command);
    expect_line(&task, "ready\n");
    kill(task.pid, SIGTERM);
    expect_end_by(&task, SIGTERM);
    expect_neighbour();
}

/* The neighbour does not matter if more work is queued than the drain waits for. */
static int64_t end_by_signal(void)
{
    struct task task = start_ready(true, "wait", ENDLESS);
    int64_t begin = now_ms();
    kill(task.pid, SIGTERM);
    expect_end_by(&task, SIGTERM);
    return now_ms() - begin;
}

static int64_t end_by_exit(void)
{
    struct task task = start_ready(true, "exit", ENDLESS);
    int64_t begin = now_ms();
    expect_exit(&task);
    return now_ms() - begin;
}

static int64_t end_by_two_signals(void)
{
    struct task task = start_ready(true, "wait", ENDLESS);
    int64_t begin = now_ms();
    kill(task.pid, SIGTERM);
    usleep(500000);
    kill(task.pid, SIGTERM);
    expect_end_by(&task, SIGTERM);
    return now_ms() - begin;
}

static void test_a_signal_does_not_wait_for_long(void **state)
{
    assert_in_range(fastest_ms(state, end_by_signal, GRACEFUL_MS), 1400, GRACEFUL_MS);
}

static void test_an_exit_does_not_wait_for_long(void **state)
{
    assert_in_range(fastest_ms(state, end_by_exit, GRACEFUL_MS), 1000, GRACEFUL_MS);
}

static void test_a_second_signal_ends_at_once(void **state)
{
    assert_in_range(fastest_ms(state, end_by_two_signals, 1200), 500, 1200);
}

int main(int argc, char **argv)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_default_actions),
        TEST(test_two_signals_at_once),
        TEST(test_own_ends),
        TEST(test_contexts_that_are_let_go),
        TEST(test_captures_that_are_open),
        TEST(test_ends_of_launches_that_are_charged),
        TEST(test_without_the_shim_a_neighbour_is_lost),
        TEST(test_a_crash_stays_one),
        TEST(test_a_short_queue_may_be_killed),
        TEST(test_a_kill_beneath_the_window),
        TEST(known_launches_in_flight_end_gracefully),
        TEST(test_handlers_that_save),
        TEST(test_threads_inside_the_driver),
        TEST(test_signals_that_are_waited_for),
        TEST(test_ignored_signals),
        TEST(test_what_a_program_sees),
        TEST(test_python),
        TEST(test_a_signal_does_not_wait_for_long),
        TEST(test_an_exit_does_not_wait_for_long),
        TEST(test_a_second_signal_ends_at_once),
    };
    if (argc != 4)
        return 2;
    program_path = argv[1];
    python_path = argv[3];
    preload_shim(argv[2], preload);
    driver_api_load(&api);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
