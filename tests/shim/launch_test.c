/*
 * Launches of real processes on an emulated device, with a registrar for an agent: held for a busy service, within the
 * window, at a rate, by a lease; and what must never be held or touched. Times are compared with each other or with
 * what a hold makes certain; nothing is asserted to be fast but against waits of minutes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/page.h"
#include "tests/emu/emu_party.h"

enum {
    KERNEL_US = 10000,
    WINDOW_US = 40000,
    MS_US = 1000,
    FOREVER_US = 600 * 1000 * 1000,    /* of a gate that nobody waits for */
    COLLECTIVE_GRID = 132 * 8 * 30000, /* blocks of a kernel that takes 300 ms */
};

static const char *registrar_path, *launcher_path, *ptx_path;
static char preload[8192], directory[64], socket_path[96], own_ptx[96];
static struct driver_api api;

/* A program, and both ends of its pipes. */
struct program {
    pid_t pid;
    FILE *to, *from;
};

static void start(struct program *ret_program, const char *const *arguments, const char *mark)
{
    int to[2], from[2];
    assert_int_equal(pipe2(to, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody behind */
        dup2(to[0], 0);
        dup2(from[1], 1);
        if (mark) {
            setenv("LD_PRELOAD", preload, 1);
            setenv("GPUMUX_REGISTER", socket_path, 1);
            setenv("GPUMUX_MARK", mark, 1);
        }
        execv(arguments[0], (char *const *)(uintptr_t)arguments);
        _exit(127);
    }
    assert_true(pid > 0);
    close(to[0]);
    close(from[1]);
    *ret_program = (struct program){pid, fdopen(to[1], "w"), fdopen(from[0], "r")};
}

static void tell(const struct program *program, const char *line)
{
    fprintf(program->to, "%s\n", line);
    fflush(program->to);
}

static int hear(const struct program *program)
{
    char line[64] = "";
    assert_non_null(fgets(line, sizeof(line), program->from));
    return (int)strtol(line, NULL, 10);
}

static int ask(const struct program *program, const char *line)
{
    tell(program, line);
    return hear(program);
}

/* Returns how it ended. */
static int finish(const struct program *program, const char *last_line)
{
    int status = -1;
    tell(program, last_line);
    fclose(program->to);
    fclose(program->from);
    assert_int_equal(waitpid(program->pid, &status, 0), program->pid);
    return status;
}

static void start_registrar(struct program *ret_registrar, const char *name, const char *value,
                            const char *name2, const char *value2)
{
    const char *const arguments[] = {registrar_path, "--socket", socket_path, name,
                                     value,          name2,      value2,      NULL};
    char line[16] = "";
    start(ret_registrar, arguments, NULL);
    assert_non_null(fgets(line, sizeof(line), ret_registrar->from));
    assert_string_equal(line, "ready\n");
}

static void start_launcher(struct program *ret_launcher, const char *mark)
{
    const char *const arguments[] = {launcher_path, own_ptx, NULL};
    start(ret_launcher, arguments, mark);
    assert_int_equal(ask(ret_launcher, "open"), 0);
}

/* The number that the registrar shows of the process, or of the last that carried its mark. */
static uint64_t number_of(const struct program *registrar, const char *mark, const char *name)
{
    char line[8192], wanted[64];
    uint64_t number = UINT64_MAX;
    tell(registrar, "show");
    for (;;) {
        assert_non_null(fgets(line, sizeof(line), registrar->from));
        if (strcmp(line, "end\n") == 0)
            return number;
        snprintf(wanted, sizeof(wanted), " mark=%s ", mark);
        if (!strstr(line, wanted))
            continue;
        snprintf(wanted, sizeof(wanted), " %s=", name);
        const char *found = strstr(line, wanted);
        assert_non_null(found);
        number = strtoull(found + strlen(wanted), NULL, 10);
    }
}

/* Until what kernels of KERNEL_US cost is known. */
static void learn_cost(const struct program *registrar, const struct program *task)
{
    while (number_of(registrar, "task", "launches_timed") < 6) {
        assert_true(ask(task, "kernels 10000 2") >= 0);
        assert_int_equal(ask(task, "synchronize"), 0);
    }
}

/* ---- the window ---- */

static void end_by_kill(struct program *program)
{
    kill(program->pid, SIGKILL);
    finish(program, "");
}

static void test_a_window_bounds_what_is_outstanding(void **state)
{
    struct program registrar, task;
    (void)state;
    start_registrar(&registrar, "--window-us", "40000", "--gate-us", "20000");
    start_launcher(&task, "task");
    learn_cost(&registrar, &task);
    int host_us = ask(&task, "kernels 10000 20");
    assert_true(host_us >= 20 * KERNEL_US - 2 * WINDOW_US);
    assert_true(number_of(&registrar, "task", "outstanding_ns") <=
                (uint64_t)(WINDOW_US + KERNEL_US) * 1000);
    assert_int_equal(ask(&task, "synchronize"), 0);
    assert_true(number_of(&registrar, "task", "holds_window") > 0);
    assert_true(number_of(&registrar, "task", "held_window_ns") >= 1000);
    assert_true(number_of(&registrar, "task", "gpu_time_kernel_ns") >= 10000000 * UINT64_C(10));
    /* Without one nothing waits. */
    uint64_t holds = number_of(&registrar, "task", "holds_window");
    tell(&registrar, "window-us 0");
    assert_true(number_of(&registrar, "task", "ended") == 0);
    assert_true(ask(&task, "kernels 10000 20") >= 0);
    assert_int_equal(number_of(&registrar, "task", "holds_window"), holds);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

static void test_graphs_are_charged_what_they_cost(void **state)
{
    struct program registrar, task;
    (void)state;
    start_registrar(&registrar, "--window-us", "40000", "--gate-us", "20000");
    start_launcher(&task, "task");
    assert_int_equal(ask(&task, "stream 1"), 0);
    assert_int_equal(ask(&task, "capture 5000 4"), 4);
    for (int i = 0; i < 8; i++) {
        assert_true(ask(&task, "graphs 1") >= 0);
        assert_int_equal(ask(&task, "synchronize"), 0);
    }
    int host_us = ask(&task, "graphs 10");
    assert_true(host_us >= 10 * 20 * MS_US - 2 * WINDOW_US - 20 * MS_US);
    assert_int_equal(ask(&task, "synchronize"), 0);
    assert_int_equal(number_of(&registrar, "task", "launches_graph"), 18);
    assert_true(number_of(&registrar, "task", "gpu_time_graph_ns") >= UINT64_C(150000000));
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

/* Nothing of the shim's is in a graph, a service's as a task's, while both are at work. */
static void test_captures_are_untouched(void **state)
{
    struct program registrar, task, service;
    (void)state;
    start_registrar(&registrar, "--window-us", "1000", "--gate-us", "1000");
    start_launcher(&service, "service");
    start_launcher(&task, "task");
    for (int i = 0; i < 10; i++) {
        assert_int_equal(ask(&task, "stream 1"), 0);
        assert_int_equal(ask(&task, "capture 100 17"), 17);
        assert_int_equal(ask(&service, "stream 1"), 0);
        assert_int_equal(ask(&service, "capture 100 17"), 17);
        assert_true(ask(&service, "graphs 3") >= 0);
        assert_true(ask(&task, "graphs 3") >= 0);
        assert_true(ask(&task, "kernels 100 20") >= 0);
        assert_int_equal(ask(&task, "synchronize"), 0);
    }
    assert_int_equal(number_of(&registrar, "task", "marks_failed"), 0);
    assert_int_equal(number_of(&registrar, "service", "marks_failed"), 0);
    assert_true(number_of(&registrar, "task", "waits_gate") > 0);
    assert_int_equal(finish(&task, "end"), 0);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

/* All threads launch into one stream: the service's marks come out even. */
static void test_threads(void **state)
{
    struct program registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--window-us", "20000", "--gate-us", "1000");
    start_launcher(&service, "service");
    start_launcher(&task, "task");
    for (int i = 0; i < 3; i++) {
        assert_true(ask(&service, "threads 100 50") >= 0);
        assert_int_equal(ask(&service, "synchronize"), 0);
        assert_true(ask(&task, "threads 100 50") >= 0);
        assert_int_equal(ask(&task, "synchronize"), 0);
    }
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 0);
    assert_int_equal(number_of(&registrar, "service", "launches_kernel"), 600);
    assert_int_equal(number_of(&registrar, "task", "launches_kernel"), 600);
    /* A stream that is destroyed frees its slot: more come than there are. */
    for (int i = 0; i < 2 * PAGE_STREAMS_MAX; i++) {
        assert_int_equal(ask(&service, "stream 3"), 0);
        assert_true(ask(&service, "kernels 10 1") >= 0);
        assert_int_equal(ask(&service, "destroy 3"), 0);
        assert_int_equal(ask(&service, "synchronize"), 0); /* emulated streams are few */
    }
    assert_int_equal(ask(&service, "stream 0"), 0);
    assert_int_equal(ask(&service, "synchronize"), 0);
    PARTY_WAIT(number_of(&registrar, "service", "busy_streams") == 0);
    assert_int_equal(number_of(&registrar, "service", "streams_unmarked"), 0);
    assert_int_equal(finish(&task, "end"), 0);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

/* ---- the gate ---- */

static void test_a_busy_service_holds_a_task(void **state)
{
    struct program registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--gate-us", "600000000", "--linger-us", "100");
    start_launcher(&service, "service");
    start_launcher(&task, "task");
    assert_true(ask(&task, "kernels 1000 1") >= 0);
    assert_int_equal(number_of(&registrar, "task", "held_gate_ns"), 0);
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 0);

    assert_true(ask(&service, "kernels 100000 8") >= 0); /* the eighth is followed by a mark */
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 1);
    assert_true(ask(&task, "kernels 1000 1") >= 100 * MS_US);
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 0);
    assert_int_equal(number_of(&registrar, "task", "holds_gate"), 1);
    assert_int_equal(number_of(&registrar, "task", "passes_gate"), 0);

    /* A graph is marked at once; a single kernel when the program waits. */
    assert_int_equal(ask(&service, "stream 1"), 0);
    assert_int_equal(ask(&service, "capture 100000 2"), 2);
    assert_true(ask(&service, "graphs 1") >= 0);
    assert_true(ask(&task, "kernels 1000 1") >= 50 * MS_US);
    assert_true(ask(&service, "kernels 1000 1") >= 0);
    assert_int_equal(ask(&service, "synchronize"), 0);
    PARTY_WAIT(number_of(&registrar, "service", "busy_streams") == 0);
    /* What comes before the launch counts too: input goes to the device. */
    assert_int_equal(ask(&service, "upload 1000"), 0);
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 1);
    assert_int_equal(ask(&service, "download 1000"), 0);
    PARTY_WAIT(number_of(&registrar, "service", "busy_streams") == 0);
    assert_int_equal(number_of(&registrar, "service", "copied_to_device_bytes"), 1000);
    assert_int_equal(number_of(&registrar, "service", "copied_to_host_bytes"), 1000);
    assert_int_equal(finish(&task, "end"), 0);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

static void test_a_gate_opens_after_its_maximum(void **state)
{
    struct program registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--gate-us", "20000", "--linger-us", "0");
    start_launcher(&service, "service");
    start_launcher(&task, "task");
    assert_true(ask(&service, "kernels 1000000 8") >= 0);
    assert_true(ask(&task, "kernels 1000 1") >= 20 * MS_US);
    assert_int_equal(number_of(&registrar, "task", "passes_gate"), 1);
    /* Nothing has moved there since: it is not waited for again. */
    assert_true(ask(&task, "kernels 1000 50") >= 0);
    assert_int_equal(number_of(&registrar, "task", "passes_gate"), 1);
    assert_int_equal(number_of(&registrar, "task", "holds_gate"), 1);
    /* More of the same service is. */
    assert_true(ask(&service, "kernels 1000 1") >= 0);
    assert_true(ask(&task, "kernels 1000 1") >= 20 * MS_US);
    assert_int_equal(number_of(&registrar, "task", "passes_gate"), 2);
    end_by_kill(&service);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

/* A service that dies busy holds nobody: neither who waits nor who comes. */
static void test_a_dead_service_is_forgotten(void **state)
{
    struct program registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--gate-us", "600000000", "--linger-us", "0");
    start_launcher(&service, "service");
    start_launcher(&task, "task");
    for (int i = 0; i < 2; i++) {
        assert_true(ask(&service, "kernels 100000000 8") >= 0);
        tell(&task, "kernels 1000 1");
        PARTY_WAIT(number_of(&registrar, "service", "busy_streams") == 1);
        end_by_kill(&service);
        assert_true(hear(&task) < FOREVER_US);
        assert_true(ask(&task, "kernels 1000 5") < FOREVER_US);
        start_launcher(&service, "service");
    }
    assert_int_equal(finish(&service, "end"), 0);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

/* Two ranks of a task would wait for each other if what one holds were what the other waits for. */
static void test_collectives_are_never_held(void **state)
{
    struct program registrar, service, task;
    char grid[32];
    (void)state;
    start_registrar(&registrar, "--gate-us", "600000000", "--window-us", "50000");
    start_launcher(&service, "service");
    start_launcher(&task, "task");
    assert_true(ask(&task, "kernels 1000 1") >= 0);
    assert_true(ask(&service, "kernels 10000000 8") >= 0);
    assert_int_equal(ask(&task, "kernel ncclDevKernel_AllReduce"), 0);
    snprintf(grid, sizeof(grid), "grid %d", 40 * COLLECTIVE_GRID); /* still there at the end */
    assert_int_equal(ask(&task, grid), 0);
    assert_true(ask(&task, "kernels 0 3") < FOREVER_US);
    assert_int_equal(number_of(&registrar, "task", "holds_gate"), 0);
    assert_int_equal(number_of(&registrar, "task", "launches_collective"), 3);
    /* While it is outstanding, others pass after 2 ms. */
    assert_int_equal(ask(&task, "kernel gpumux_burn"), 0);
    assert_int_equal(ask(&task, "grid 1"), 0);
    int host_us = ask(&task, "kernels 1000 1");
    assert_true(host_us >= 2 * MS_US && host_us < FOREVER_US);
    assert_int_equal(number_of(&registrar, "task", "passes_gate"), 1);
    end_by_kill(&service);
    end_by_kill(&task);
    finish(&registrar, "quit");
}

/* ---- the gate on the device ---- */

/* A service, and a task whose kernels of 1 ms are known and whose streams wait for the service's. */
static void start_pair(struct program *ret_service, struct program *ret_task,
                       const struct program *registrar)
{
    start_launcher(ret_service, "service");
    assert_true(ask(ret_service, "kernels 10 8") >= 0);
    assert_int_equal(ask(ret_service, "synchronize"), 0);
    start_launcher(ret_task, "task");
    while (number_of(registrar, "task", "launches_timed") < 6 ||
           number_of(registrar, "task", "waits_gate") == 0) {
        assert_true(ask(ret_task, "kernels 1000 2") >= 0);
        assert_int_equal(ask(ret_task, "synchronize"), 0);
    }
}

/* Makes the service busy for a second or more, and shuts the task's streams. */
static void shut(const struct program *registrar, const struct program *service,
                 const struct program *task)
{
    assert_true(ask(service, "kernels 200000 8") >= 0);
    assert_int_equal(number_of(registrar, "service", "busy_streams"), 1);
    assert_true(ask(task, "kernels 1000 2") >= 0);
    PARTY_WAIT(number_of(registrar, "task", "shut") == 1);
}

static void test_the_device_waits_and_not_the_host(void **state)
{
    struct program registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--gate-us", "600000000", "--window-us", "1000");
    start_pair(&service, &task, &registrar);
    uint64_t held_ns = number_of(&registrar, "task", "held_gate_ns");
    shut(&registrar, &service, &task);
    assert_true(ask(&task, "kernels 1000 12") >= 0);
    /* The host was here first: what it launched is still to be done, beside a service that is busy. */
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 1);
    assert_true(number_of(&registrar, "task", "outstanding_ns") >= 5 * MS_US * 1000);
    assert_int_equal(number_of(&registrar, "task", "shut"), 1);
    /* It is done only when the service is idle. */
    assert_int_equal(ask(&task, "synchronize"), 0);
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 0);
    assert_int_equal(number_of(&registrar, "task", "shut"), 0);
    assert_true(number_of(&registrar, "task", "shuts_gate") >= 1);
    assert_true(number_of(&registrar, "task", "held_gate_ns") - held_ns >= UINT64_C(200000000));
    assert_int_equal(number_of(&registrar, "task", "holds_gate"), 0);
    assert_int_equal(number_of(&registrar, "task", "passes_gate"), 0);
    /* A large copy waits there too, and the host for it, for that copy is no other's. */
    shut(&registrar, &service, &task);
    assert_int_equal(ask(&task, "upload 2000000"), 0);
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 0);
    /* With the agent's word it is the host that waits. */
    tell(&registrar, "gate-place 1");
    assert_int_equal(number_of(&registrar, "task", "ended"), 0);
    assert_true(ask(&service, "kernels 100000 8") >= 0);
    assert_true(ask(&task, "kernels 1000 1") >= 100 * MS_US);
    assert_int_equal(number_of(&registrar, "task", "holds_gate"), 1);
    assert_int_equal(finish(&task, "end"), 0);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

/* Where a device's streams cannot wait, threads do; and marks are written by host functions. */
static void test_a_device_that_cannot_wait(void **state)
{
    struct program registrar, service, task;
    (void)state;
    setenv("GPUMUX_EMU_STREAM_WORDS", "0", 1);
    start_registrar(&registrar, "--gate-us", "600000000", "--window-us", "1000");
    start_launcher(&service, "service");
    start_launcher(&task, "task");
    unsetenv("GPUMUX_EMU_STREAM_WORDS");
    assert_true(ask(&task, "kernels 1000 4") >= 0);
    assert_true(ask(&service, "kernels 100000 8") >= 0);
    assert_true(ask(&task, "kernels 1000 1") >= 100 * MS_US);
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 0);
    assert_int_equal(number_of(&registrar, "task", "holds_gate"), 1);
    assert_int_equal(number_of(&registrar, "task", "waits_gate"), 0);
    assert_int_equal(finish(&task, "end"), 0);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

/* As far ahead as a kill is harmless, and not further. */
static void test_a_host_is_not_ahead_without_bound(void **state)
{
    struct program registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--gate-us", "600000000", "--window-us", "1000");
    start_pair(&service, &task, &registrar);
    shut(&registrar, &service, &task);
    tell(&task, "kernels 1000 60");
    PARTY_WAIT(number_of(&registrar, "task", "outstanding_ns") >= 15 * MS_US * 1000);
    while (number_of(&registrar, "service", "busy_streams") == 1)
        assert_true(number_of(&registrar, "task", "outstanding_ns") <= 30 * MS_US * 1000);
    assert_true(hear(&task) >= 0);
    assert_true(number_of(&registrar, "task", "holds_window") > 0);
    assert_int_equal(ask(&task, "synchronize"), 0);
    assert_int_equal(finish(&task, "end"), 0);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

static void test_a_device_is_not_shut_for_long(void **state)
{
    struct program registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--gate-us", "20000", "--window-us", "1000");
    start_pair(&service, &task, &registrar);
    uint64_t held_ns = number_of(&registrar, "task", "held_gate_ns");
    assert_true(ask(&service, "kernels 100000000 8") >= 0);
    assert_true(ask(&task, "kernels 1000 5") >= 0);
    PARTY_WAIT(number_of(&registrar, "task", "passes_gate") == 1);
    PARTY_WAIT(number_of(&registrar, "task", "shut") == 0); /* counted first */
    assert_true(number_of(&registrar, "task", "held_gate_ns") - held_ns >= 20 * MS_US * 1000);
    /* Nothing has moved there since: it is not waited for again. */
    assert_true(ask(&task, "kernels 1000 5") >= 0);
    assert_int_equal(number_of(&registrar, "task", "shut"), 0);
    assert_int_equal(number_of(&registrar, "task", "passes_gate"), 1);
    /* More of the same service is. */
    assert_true(ask(&service, "kernels 1000 1") >= 0);
    assert_true(ask(&task, "kernels 1000 5") >= 0);
    PARTY_WAIT(number_of(&registrar, "task", "passes_gate") == 2);
    end_by_kill(&service);
    assert_int_equal(ask(&task, "synchronize"), 0);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

/* Streams that wait for a service go on when it dies, and when it has gone nothing waits any more. */
static void test_a_dead_service_shuts_nobody(void **state)
{
    struct program registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--gate-us", "600000000", "--window-us", "1000");
    start_pair(&service, &task, &registrar);
    shut(&registrar, &service, &task);
    tell(&task, "synchronize");
    end_by_kill(&service);
    assert_int_equal(hear(&task), 0);
    assert_int_equal(number_of(&registrar, "task", "shut"), 0);
    uint64_t waits = number_of(&registrar, "task", "waits_gate");
    assert_true(ask(&task, "kernels 1000 20") >= 0);
    assert_int_equal(number_of(&registrar, "task", "waits_gate"), waits);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

static void test_collectives_are_not_shut_in(void **state)
{
    struct program registrar, service, task;
    char grid[32];
    (void)state;
    start_registrar(&registrar, "--gate-us", "600000000", "--window-us", "1000");
    start_pair(&service, &task, &registrar);
    assert_true(ask(&service, "kernels 100000000 8") >= 0);
    assert_true(ask(&task, "kernels 1000 2") >= 0);
    PARTY_WAIT(number_of(&registrar, "task", "shut") == 1);
    assert_int_equal(ask(&task, "kernel ncclDevKernel_AllReduce"), 0);
    snprintf(grid, sizeof(grid), "grid %d", COLLECTIVE_GRID);
    assert_int_equal(ask(&task, grid), 0);
    assert_true(ask(&task, "kernels 0 1") >= 0);
    /* Behind kernels that wait: they go on, and the collective with them. */
    PARTY_WAIT(number_of(&registrar, "task", "passes_gate") >= 1);
    end_by_kill(&service);
    assert_int_equal(ask(&task, "synchronize"), 0);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

/* A child has a page and a keeper of its own. The driver is its parent's alone if that has used it; it then
 * leaves what its parent waits for as it is. */
static void test_a_child_waits_by_itself(void **state)
{
    struct program registrar, service, task, other;
    const char *const arguments[] = {launcher_path, own_ptx, NULL};
    (void)state;
    start_registrar(&registrar, "--gate-us", "600000000", "--window-us", "1000");
    start_pair(&service, &task, &registrar);
    start(&other, arguments, "task-other");
    shut(&registrar, &service, &task);
    int status = ask(&task, "fork-through 1000");
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == CUDA_ERROR_NOT_INITIALIZED);
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 1);
    assert_int_equal(ask(&other, "fork-through 1000"), 0);
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 0);
    assert_true(number_of(&registrar, "task-other", "waits_gate") >= 1);
    assert_true(number_of(&registrar, "task-other", "shuts_gate") >= 1);
    assert_int_equal(ask(&task, "synchronize"), 0);
    assert_int_equal(finish(&other, "end"), 0);
    assert_int_equal(finish(&task, "end"), 0);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

/* However a task ends whose streams are shut, under MPS: its neighbours live on. */
static void end_while_shut(int number)
{
    struct program registrar, service, task;
    char output[256];
    const char *const background[] = {"-d", NULL};
    party_make_directories();
    assert_int_equal(party_program("nvidia-cuda-mps-control", background, NULL, output, 256), 0);
    start_registrar(&registrar, "--gate-us", "600000000", "--window-us", "1000");
    start_pair(&service, &task, &registrar);
    struct party_client neighbour = party_start(&api, 1000, 0);
    assert_int_equal(party_opened(&neighbour), 0);
    shut(&registrar, &service, &task);
    assert_true(ask(&task, "kernels 1000 12") >= 0);
    kill(task.pid, number); /* 0: none */
    int status = finish(&task, "end");
    assert_int_equal(WIFSIGNALED(status) ? WTERMSIG(status) : status, number);
    assert_true(party_makes_progress(&neighbour));
    assert_int_equal(ask(&service, "synchronize"), 0);
    assert_true(ask(&service, "kernels 10 8") >= 0);
    assert_int_equal(finish(&service, "end"), 0);
    party_end(&neighbour, SIGKILL);
    finish(&registrar, "quit");
    party_control("quit -t 0", output, sizeof(output));
    party_remove_directories();
}

static void test_ends_while_shut(void **state)
{
    (void)state;
    end_while_shut(SIGTERM);
    end_while_shut(SIGKILL);
    end_while_shut(0);
}

/* ---- rate and lease ---- */

static void test_a_rate_is_not_exceeded(void **state)
{
    struct program registrar, task;
    (void)state;
    start_registrar(&registrar, "--window-us", "40000", "--rate-permille", "0");
    start_launcher(&task, "task");
    learn_cost(&registrar, &task);
    tell(&registrar, "rate-permille 250");
    assert_true(number_of(&registrar, "task", "held_rate_ns") == 0);
    /* 400 ms of the device's time, a burst of 20 ms apart, and one launch ahead. */
    assert_true(ask(&task, "kernels 10000 40") >= 4 * (400 - 20 - 10) * MS_US * 8 / 10);
    assert_true(number_of(&registrar, "task", "held_rate_ns") >= UINT64_C(500000000));
    assert_true(number_of(&registrar, "task", "rate_periods") >= 3);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

static void test_a_lease_fences_tasks_alone(void **state)
{
    struct program registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--lease-ms", "600000", "--window-us", "40000");
    start_launcher(&service, "service");
    start_launcher(&task, "task");
    assert_true(ask(&task, "kernels 1000 2") >= 0);
    tell(&registrar, "lease-ms -1000");
    assert_int_equal(number_of(&registrar, "task", "state"), STATUS_RUNNING);
    tell(&task, "kernels 1000 1");
    PARTY_WAIT(number_of(&registrar, "task", "state") == STATUS_FENCED);
    assert_true(ask(&service, "kernels 1000 2") >= 0);
    assert_int_equal(number_of(&registrar, "service", "state"), STATUS_RUNNING);
    tell(&registrar, "lease-ms 600000");
    assert_true(hear(&task) >= 0);
    assert_int_equal(number_of(&registrar, "task", "state"), STATUS_RUNNING);
    assert_true(number_of(&registrar, "task", "held_lease_ns") > 0);
    /* Half a minute past its end the task is told to go. */
    tell(&registrar, "lease-ms -31000");
    assert_int_equal(number_of(&registrar, "task", "state"), STATUS_RUNNING);
    int status = finish(&task, "kernels 1000 1");
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

/* ---- processes ---- */

static void test_a_child_is_held_too(void **state)
{
    struct program registrar, service, task;
    const char *const arguments[] = {launcher_path, own_ptx, NULL};
    (void)state;
    start_registrar(&registrar, "--gate-us", "50000", "--window-us", "40000");
    start_launcher(&service, "service");
    assert_true(ask(&service, "kernels 100000000 8") >= 0);
    start(&task, arguments, "task");
    /* The first launches may come before a process has heard of the service. */
    assert_int_equal(ask(&task, "fork 50000"), 0);
    assert_int_equal(number_of(&registrar, "task", "passes_gate"), 1);
    assert_int_equal(ask(&task, "open"), 0);
    PARTY_WAIT(ask(&task, "kernels 1000 1") >= 50 * MS_US);
    assert_int_equal(number_of(&registrar, "task", "passes_gate"), 1);
    end_by_kill(&service);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

/* Under MPS a client that is killed with a deep queue takes its neighbours along. One within its window does not. */
static void kill_a_client(const char *window_us, const char *first, uint64_t launches,
                          bool is_harmless)
{
    struct program registrar, task;
    const char *const background[] = {"-d", NULL};
    char output[256];
    party_make_directories();
    assert_int_equal(
        party_program("nvidia-cuda-mps-control", background, NULL, output, sizeof(output)), 0);
    start_registrar(&registrar, "--window-us", window_us, "--gate-us", "0");
    struct party_client neighbour = party_start(&api, 1000, 0);
    assert_int_equal(party_opened(&neighbour), 0);
    start_launcher(&task, "task");
    assert_true(ask(&task, first) >= 0 && ask(&task, "synchronize") == 0);
    tell(&task, "kernels 10000 300");
    PARTY_WAIT(number_of(&registrar, "task", "launches_kernel") >= launches);
    end_by_kill(&task);
    if (is_harmless)
        assert_true(party_makes_progress(&neighbour));
    else
        assert_int_equal(party_error(&neighbour), CUDA_ERROR_ILLEGAL_ADDRESS);
    party_end(&neighbour, SIGKILL);
    finish(&registrar, "quit");
    party_control("quit -t 0", output, sizeof(output));
    party_remove_directories();
}

static void test_a_window_makes_kills_harmless(void **state)
{
    (void)state;
    /* As agents set it, while nobody knows what they cost, and if the same kernel took no time before. */
    kill_a_client("20000", "kernels 1 0", 2, true);
    kill_a_client("20000", "kernels 1 0", 20, true);
    kill_a_client("20000", "kernels 1 3", 23, true);
    kill_a_client("0", "kernels 1 0", 20, false);
}

/* ---- */

static int set_up(void **state)
{
    (void)state;
    driver_api_make_devices("H200:24g", 1, 1);
    return 0;
}

/* For MPS: without it clients take turns. */
static int set_up_sliced(void **state)
{
    (void)state;
    driver_api_make_devices("H200:24g", 1, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    driver_api_remove_devices();
    return 0;
}

/* A sanitizer's runtime that this program is linked with must be the first library of the launcher too. */
static int add_runtime(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size;
    (void)argument;
    if (strstr(info->dlpi_name, "/libasan.so") || strstr(info->dlpi_name, "/libtsan.so"))
        snprintf(preload, sizeof(preload), "%s:", info->dlpi_name);
    return 0;
}

/* burn.ptx, and a collective. */
static void make_ptx(void)
{
    char text[1 << 16];
    FILE *from = fopen(ptx_path, "r"), *to;
    snprintf(directory, sizeof(directory), "/tmp/gpumux-launch-XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(socket_path, sizeof(socket_path), "%s/register", directory);
    snprintf(own_ptx, sizeof(own_ptx), "%s/own.ptx", directory);
    assert_non_null(from);
    size_t size = fread(text, 1, sizeof(text), from);
    fclose(from);
    to = fopen(own_ptx, "w");
    assert_non_null(to);
    fwrite(text, 1, size, to);
    fprintf(to, "\n.visible .entry ncclDevKernel_AllReduce()\n{\n    ret;\n}\n");
    fclose(to);
}

int main(int argc, char **argv)
{
#define TEST(function)   cmocka_unit_test_setup_teardown(function, set_up, tear_down)
#define SLICED(function) cmocka_unit_test_setup_teardown(function, set_up_sliced, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_window_bounds_what_is_outstanding),
        TEST(test_graphs_are_charged_what_they_cost),
        TEST(test_captures_are_untouched),
        TEST(test_threads),
        TEST(test_a_busy_service_holds_a_task),
        TEST(test_a_gate_opens_after_its_maximum),
        TEST(test_a_dead_service_is_forgotten),
        TEST(test_collectives_are_never_held),
        TEST(test_the_device_waits_and_not_the_host),
        TEST(test_a_device_that_cannot_wait),
        TEST(test_a_host_is_not_ahead_without_bound),
        TEST(test_a_device_is_not_shut_for_long),
        TEST(test_a_dead_service_shuts_nobody),
        TEST(test_collectives_are_not_shut_in),
        TEST(test_a_child_waits_by_itself),
        SLICED(test_ends_while_shut),
        TEST(test_a_rate_is_not_exceeded),
        TEST(test_a_lease_fences_tasks_alone),
        TEST(test_a_child_is_held_too),
        SLICED(test_a_window_makes_kills_harmless),
    };
    if (argc != 5)
        return 2;
    registrar_path = argv[1];
    launcher_path = argv[2];
    ptx_path = argv[4];
    dl_iterate_phdr(add_runtime, NULL);
    size_t length = strlen(preload);
    snprintf(preload + length, sizeof(preload) - length, "%s", argv[3]);
    signal(SIGPIPE, SIG_IGN);
    driver_api_load(&api);
    make_ptx();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(own_ptx);
    rmdir(directory);
    return failed;
}
