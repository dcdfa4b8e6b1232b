/*
 * Tests that sleepers survive the death of a process at the worst instant: after it released a lock
 * and before it woke the next owner, and after it counted an alarm and before it woke the sleepers.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "emu/device/device.h"

enum { WAIT_MS_MAX = 30000, INSTRUCTIONS_MAX = 200000, HOUR_S = 3600 };

/* Shared with the children. */
struct stage {
    _Atomic int is_held, may_give_back, waits;
};

struct fixture {
    char path[64];
    struct mapping mapping;
    struct device device;
    struct stage *stage;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    snprintf(fixture.path, sizeof(fixture.path), "/tmp/gpumux-emu-lock.XXXXXX");
    int fd = mkstemp(fixture.path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(emu_device_file_create(NULL, fixture.path, "T4", NULL), 0);
    assert_int_equal(mapping_open(NULL, fixture.path, &fixture.mapping), 0);
    device_init(&fixture.device, &fixture.mapping, 0);
    fixture.stage = mmap(NULL, sizeof(*fixture.stage), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(fixture.stage != MAP_FAILED);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    munmap(fixture->stage, sizeof(*fixture->stage));
    mapping_close(&fixture->mapping);
    unlink(fixture->path);
    return 0;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static pid_t start(void (*work)(struct fixture *), struct fixture *fixture)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        work(fixture);
        _exit(0);
    }
    return pid;
}

static void hold_and_release(struct fixture *fixture)
{
    device_lock(&fixture->device); /* once before, so that its functions are bound */
    device_unlock(&fixture->device);
    device_lock(&fixture->device);
    fixture->stage->is_held = 1;
    while (!fixture->stage->may_give_back)
        continue;
    device_unlock(&fixture->device);
    for (;;)
        pause();
}

static void wait_for_the_lock(struct fixture *fixture)
{
    fixture->stage->waits = 1;
    device_lock(&fixture->device);
    device_unlock(&fixture->device);
}

static bool is_asleep(pid_t pid)
{
    char path[64], state = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    int fields = fscanf(file, "%*d (%*[^)]) %c", &state);
    fclose(file);
    return fields == 1 && state == 'S';
}

static bool has_ended(pid_t pid)
{
    int status;
    if (waitpid(pid, &status, WNOHANG) != pid)
        return false;
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return true;
}

/* Single-steps the holder until the lock is free, takes the lock, and kills the holder before it
 * has woken a waiter. Returns false if tracing is not allowed. */
static bool take_from_dying_holder(struct fixture *fixture, pid_t holder)
{
    int status, taken = -1;
    bool is_traced = ptrace(PTRACE_SEIZE, holder, NULL, NULL) == 0 &&
                     ptrace(PTRACE_INTERRUPT, holder, NULL, NULL) == 0 &&
                     waitpid(holder, &status, 0) == holder;
    fixture->stage->may_give_back = 1;
    for (unsigned i = 0; is_traced && taken != 0 && i < INSTRUCTIONS_MAX; i++) {
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, holder, NULL, NULL), 0);
        assert_int_equal(waitpid(holder, &status, 0), holder);
        taken = pthread_mutex_trylock(&fixture->device.state->lock);
    }
    kill(holder, SIGKILL);
    do
        waitpid(holder, &status, 0);
    while (!WIFSIGNALED(status));
    if (is_traced)
        assert_int_equal(taken, 0);
    return is_traced;
}

static void lock_of_dying_process_is_freed(void **state)
{
    struct fixture *fixture = *state;
    struct stage *stage = fixture->stage;
    int64_t start_ms = now_ms();
    pid_t holder = start(hold_and_release, fixture);
    while (!stage->is_held)
        assert_true(now_ms() - start_ms < WAIT_MS_MAX);
    pid_t waiter = start(wait_for_the_lock, fixture);
    while (!stage->waits || !is_asleep(waiter))
        assert_true(now_ms() - start_ms < WAIT_MS_MAX);
    bool is_taken = take_from_dying_holder(fixture, holder);
    if (is_taken)
        device_unlock(&fixture->device);
    while (!has_ended(waiter)) {
        if (now_ms() - start_ms > WAIT_MS_MAX) {
            kill(waiter, SIGKILL);
            waitpid(waiter, NULL, 0);
            fail_msg("a process sleeps before a lock that nobody holds");
        }
        usleep(1000);
    }
    if (!is_taken) {
        print_message("skipped: no process may be traced here\n");
        skip();
    }
}

static void sleep_ends_without_alarm(void **state)
{
    struct fixture *fixture = *state;
    const struct mapping *mapping = &fixture->mapping;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    alarm(WAIT_MS_MAX / 1000); /* ends a sleeper that no process wakes */
    mapping_sleep(mapping, mapping_alarms(mapping), (uint64_t)(now.tv_sec + HOUR_S) * 1000000000u);
    alarm(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lock_of_dying_process_is_freed),
        cmocka_unit_test(sleep_ends_without_alarm),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
