/*
 * Memory of a swappable task moves to the host and back, in real processes on an emulated device.
 * The test is the agent: it writes the orders into the limits page, and reads the status pages.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/futex.h>

#include "tests/shim/test_agent.h"

enum {
    DEVICE = 1, /* index in the limits page: start_agent() */
    SLOT = 2,
    LOOK_NS = 1000 * 1000,
    LARGE = 64,
    ORDINAL = 9, /* attributes of a pointer */
    CAN_SHARE = 10,
    OUT_OF_MEMORY = 2,
    NOT_SUPPORTED = 801,
};

static struct driver_api api;
static struct program swapper;

/* A task or service with the shim, and its agent. */
struct side {
    struct agent agent;
    struct talker program;
    struct peer peer;
};

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

#define WAIT_FOR(condition)                                                                        \
    do {                                                                                           \
        for (int64_t begun = now_ms(); !(condition);) {                                            \
            assert_true(now_ms() - begun < PATIENCE_MS);                                           \
            nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);                               \
        }                                                                                          \
    } while (0)

static void start(struct side *s, bool is_service)
{
    start_agent(&s->agent, &api);
    s->agent.limits->header.features |= LIMITS_HAS_SWAP;
    s->agent.limits->kind = is_service ? LIMITS_SERVICE : LIMITS_TASK;
    s->agent.limits->is_swappable = !is_service;
    s->agent.limits->devices[DEVICE].quota_bytes = UINT64_C(24) << 30;
    start_host(&s->agent, &swapper, &s->program);
    tell(&s->program, "open");
    accept_peer(&s->agent, &s->peer);
    welcome(&s->agent, &s->peer, SLOT);
    assert_int_equal(hear(&s->program), 0);
    assert_true(s->peer.status->header.features & STATUS_HAS_SWAP);
}

static void stop(struct side *s)
{
    leave(&s->peer);
    stop_agent(&s->agent);
}

static void order(struct side *s, uint64_t bytes)
{
    struct limits_device *device = &s->agent.limits->devices[DEVICE];
    device->away_bytes = bytes;
    device->away_orders++;
    syscall(SYS_futex, &device->away_orders, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static uint64_t away(const struct side *s)
{
    return s->peer.status->away_bytes[DEVICE];
}

static uint64_t count(const struct side *s, enum status_counter counter)
{
    return s->peer.status->counters[counter];
}

static uint64_t held(const struct side *s)
{
    return s->agent.ledger->held_bytes[DEVICE][SLOT];
}

/* Memory that is used on the device, by all processes. */
static uint64_t used(void)
{
    size_t left = 0, total = 0;
    assert_int_equal(api.cuMemGetInfo_v2(&left, &total), 0);
    return total - left;
}

static long say(const struct side *s, const char *word, unsigned long a, unsigned long b)
{
    char line[96];
    snprintf(line, sizeof(line), "%s %lu %lu", word, a, b);
    return ask(&s->program, line);
}

/* Allocates 64 MiB, 3 MiB, and a few bytes, and fills all three. */
static void fill_three(const struct side *s)
{
    assert_int_equal(say(s, "alloc", LARGE * MIB, 0), 0);
    assert_int_equal(say(s, "alloc", 3 * MIB, 0), 1);
    assert_int_equal(say(s, "alloc", 100, 0), 2);
    for (unsigned long i = 0; i < 3; i++)
        assert_int_equal(say(s, "fill", i, i + 40), 0);
}

static void check_three(const struct side *s)
{
    for (unsigned long i = 0; i < 3; i++)
        assert_int_equal(say(s, "check", i, i + 40), 0);
}

/* Programs see addresses as if the driver had made the allocations. */
static void movable_memory_looks_plain(void **state)
{
    struct side s;
    (void)state;
    uint64_t before = used();
    start(&s, false);
    fill_three(&s);
    assert_int_equal(held(&s), (LARGE + 4 + 2) * MIB);
    assert_int_equal(used() - before, (LARGE + 4 + 2) * MIB);
    assert_int_equal(s.peer.status->movable_bytes[DEVICE], (LARGE + 4 + 2) * MIB);
    assert_int_equal(say(&s, "range", 1, MIB), 3 * MIB);
    assert_int_equal(say(&s, "range", 2, 99), 100);
    assert_int_equal(say(&s, "attribute", 0, ORDINAL), 0);
    assert_int_equal(say(&s, "attribute", 0, CAN_SHARE), 0);
    assert_int_equal(say(&s, "ipc", 0, 0), NOT_SUPPORTED);
    assert_int_equal(count(&s, STATUS_ipc_refused), 1);
    /* Small allocations share one granule. */
    for (long i = 3; i < 20; i++)
        assert_int_equal(say(&s, "alloc", 60000, 0), i);
    assert_int_equal(held(&s), (LARGE + 4 + 2) * MIB);
    check_three(&s);
    for (unsigned long i = 1; i < 20; i++)
        assert_int_equal(say(&s, "free", i, 0), 0);
    assert_int_equal(held(&s), LARGE * MIB);
    assert_int_equal(used() - before, LARGE * MIB);
    end_host(&s.program);
    stop(&s);
}

static void memory_moves_and_returns_unchanged(void **state)
{
    struct side s;
    (void)state;
    uint64_t before = used();
    start(&s, false);
    fill_three(&s);
    assert_int_equal(say(&s, "burn", 50000, 0), 0);
    order(&s, 3 * MIB);
    WAIT_FOR(away(&s) > 0);
    assert_int_equal(away(&s), 4 * MIB); /* the smallest chunk that suffices */
    assert_int_equal(used() - before, (LARGE + 2) * MIB);
    assert_int_equal(held(&s), (LARGE + 4 + 2) * MIB); /* the quota keeps the place */
    order(&s, 65 * MIB);
    WAIT_FOR(away(&s) > 4 * MIB);
    assert_int_equal(away(&s), (LARGE + 4) * MIB);
    assert_int_equal(used() - before, 2 * MIB);
    /* Queries about addresses are answered, and work waits. */
    assert_int_equal(say(&s, "range", 0, MIB), LARGE * MIB);
    tell(&s.program, "check 0 40");
    order(&s, 0);
    assert_int_equal(hear(&s.program), 0);
    WAIT_FOR(away(&s) == 0);
    check_three(&s);
    assert_int_equal(used() - before, (LARGE + 4 + 2) * MIB);
    assert_int_equal(count(&s, STATUS_swap_moves_out), 2);
    assert_int_equal(count(&s, STATUS_swap_moves_back), 1);
    assert_int_equal(count(&s, STATUS_swap_moved_out_bytes), (LARGE + 4) * MIB);
    assert_int_equal(count(&s, STATUS_swap_moved_back_bytes), (LARGE + 4) * MIB);
    assert_int_equal(say(&s, "burn", 10, 0), 0);
    end_host(&s.program);
    stop(&s);
    assert_int_equal(used(), before);
}

static bool is_silent(const struct talker *program)
{
    struct pollfd answer = {.fd = fileno(program->from), .events = POLLIN};
    return poll(&answer, 1, 0) == 0;
}

/* Work that starts while memory is away waits, and a return without room on the device fails until
 * there is room. */
static void return_waits_for_room(void **state)
{
    struct side s;
    size_t left = 0, total = 0;
    CUdeviceptr filler = 0;
    (void)state;
    start(&s, false);
    fill_three(&s);
    order(&s, LARGE * MIB);
    WAIT_FOR(away(&s) > 0);
    assert_int_equal(api.cuMemGetInfo_v2(&left, &total), 0);
    assert_int_equal(api.cuMemAlloc_v2(&filler, left), 0);
    tell(&s.program, "burn 10");
    order(&s, 0);
    WAIT_FOR(s.peer.status->swap_failures >= 2);
    assert_true(is_silent(&s.program));
    assert_int_equal(away(&s), LARGE * MIB);
    assert_int_equal(api.cuMemFree_v2(filler), 0);
    assert_int_equal(hear(&s.program), 0);
    check_three(&s);
    assert_true(count(&s, STATUS_held_swap_ns) > 0);
    end_host(&s.program);
    stop(&s);
}

static void away_process_forks_and_ends(void **state)
{
    struct side s;
    (void)state;
    uint64_t before = used();
    start(&s, false);
    fill_three(&s);
    order(&s, LARGE * MIB);
    WAIT_FOR(away(&s) > 0);
    assert_int_equal(ask(&s.program, "fork"), 7);
    order(&s, 0);
    WAIT_FOR(away(&s) == 0);
    check_three(&s);
    order(&s, LARGE * MIB);
    WAIT_FOR(away(&s) > 0);
    end_host(&s.program); /* the end does not wait for the return */
    stop(&s);
    assert_int_equal(used(), before);
}

/* Killed at any moment of the moves, the process leaves no memory on the device. */
static void killed_mover_leaves_no_memory(void **state)
{
    (void)state;
    uint64_t before = used();
    for (int i = 0; i < 8; i++) {
        struct side s;
        start(&s, false);
        fill_three(&s);
        order(&s, LARGE * MIB);
        nanosleep(&(struct timespec){.tv_nsec = i * 7 * LOOK_NS}, NULL);
        order(&s, i % 2 ? 0 : LARGE * MIB);
        kill(s.program.pid, SIGKILL);
        assert_int_equal(waitpid(s.program.pid, NULL, 0), s.program.pid);
        fclose(s.program.to);
        fclose(s.program.from);
        stop(&s);
        CUdeviceptr address = 0;
        assert_int_equal(api.cuMemAlloc_v2(&address, MIB), 0); /* the device notices the death */
        assert_int_equal(api.cuMemFree_v2(address), 0);
    }
    WAIT_FOR(used() == before);
}

/* ---- services ---- */

static void fill_device(CUdeviceptr *ret_filler)
{
    size_t left = 0, total = 0;
    assert_int_equal(api.cuMemGetInfo_v2(&left, &total), 0);
    assert_int_equal(api.cuMemAlloc_v2(ret_filler, left), 0);
}

static void service_allocation_waits_for_room(void **state)
{
    struct side s;
    CUdeviceptr filler = 0;
    (void)state;
    start(&s, true);
    struct limits_device *limits = &s.agent.limits->devices[DEVICE];
    fill_device(&filler);
    /* No task can free memory. */
    s.agent.limits->room_wait_ms = PATIENCE_MS;
    assert_int_equal(say(&s, "alloc", LARGE * MIB, 0), -OUT_OF_MEMORY);
    assert_int_equal(count(&s, STATUS_room_waits), 0);
    limits->room_bytes = UINT64_C(1) << 30;
    tell(&s.program, "alloc 67108864");
    WAIT_FOR(s.peer.status->lacking_bytes[DEVICE] > 0);
    assert_in_range(s.peer.status->lacking_bytes[DEVICE], LARGE * MIB, 2 * LARGE * MIB);
    assert_int_equal(api.cuMemFree_v2(filler), 0);
    limits->room_answers++;
    assert_int_equal(hear(&s.program), 0);
    assert_int_equal(s.peer.status->lacking_bytes[DEVICE], 0);
    assert_int_equal(count(&s, STATUS_room_waits), 1);
    assert_int_equal(held(&s), LARGE * MIB);
    end_host(&s.program);
    stop(&s);
}

static void service_allocation_fails_in_time(void **state)
{
    struct side s;
    CUdeviceptr filler = 0;
    (void)state;
    start(&s, true);
    struct limits_device *limits = &s.agent.limits->devices[DEVICE];
    fill_device(&filler);
    limits->room_bytes = UINT64_C(1) << 30;
    s.agent.limits->room_wait_ms = 20;
    assert_int_equal(say(&s, "alloc", LARGE * MIB, 0), -OUT_OF_MEMORY);
    assert_int_equal(count(&s, STATUS_room_failed), 1);
    /* The agent answers that no task is left that could free memory. */
    s.agent.limits->room_wait_ms = PATIENCE_MS;
    tell(&s.program, "alloc 67108864");
    WAIT_FOR(s.peer.status->lacking_bytes[DEVICE] > 0);
    limits->room_bytes = 0;
    limits->room_answers++;
    assert_int_equal(hear(&s.program), -OUT_OF_MEMORY);
    assert_int_equal(count(&s, STATUS_room_failed), 2);
    assert_int_equal(held(&s), 0);
    assert_int_equal(api.cuMemFree_v2(filler), 0);
    end_host(&s.program);
    stop(&s);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(movable_memory_looks_plain),
        cmocka_unit_test(memory_moves_and_returns_unchanged),
        cmocka_unit_test(return_waits_for_room),
        cmocka_unit_test(away_process_forks_and_ends),
        cmocka_unit_test(killed_mover_leaves_no_memory),
        cmocka_unit_test(service_allocation_waits_for_room),
        cmocka_unit_test(service_allocation_fails_in_time),
    };
    if (argc != 3)
        return 2;
    init_program(&swapper, argv[1], NULL, argv[2]);
    signal(SIGPIPE, SIG_IGN);
    driver_api_load(&api);
    driver_api_make_devices("H200:24g", 1, 0);
    driver_api_open_device(&api);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    driver_api_remove_devices();
    return failed;
}
