/*
 * Processes that race for device memory under one quota, and die at any point of the accounting.
 * The test is their agent, and reads the device's memory all the time. GPUMUX_SEED, which is
 * printed, determines the moments.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/shim/test_agent.h"

enum {
    RACERS = 8,
#ifdef __SANITIZE_THREAD__
    ROUNDS = 1000, /* the emulated driver is instrumented too, and slow */
#else
    ROUNDS = 10000,
#endif
    QUOTA = 256 * MIB,
    DEVICE = 1, /* index in the limits */
    DEATHS = 48,
    DYING = 3, /* at a time, beside one that lives */
    FAULT_POINTS = 600,
    REPAIR_MS = 200,
};

static struct driver_api api;
static void *device;
static unsigned seed;
static const char *racer_path, *shim_path, *faults_path;

static uint64_t device_used(void)
{
    nvmlMemory_t memory = {0};
    assert_int_equal(api.nvmlDeviceGetMemoryInfo(device, &memory), 0);
    return memory.used;
}

static uint64_t device_used_by(pid_t pid)
{
    nvmlProcessInfo_v2_t processes[64];
    unsigned count = 64;
    uint64_t used = 0;
    assert_int_equal(api.nvmlDeviceGetComputeRunningProcesses_v3(device, &count, processes), 0);
    for (unsigned i = 0; i < count; i++)
        used += processes[i].pid == (unsigned)pid ? processes[i].usedGpuMemory : 0;
    return used;
}

static uint64_t ledger_held(const struct agent *agent)
{
    uint64_t sum = 0;
    for (int i = 0; i < PAGE_PROCESSES_MAX; i++)
        sum += atomic_load(&agent->ledger->held_bytes[DEVICE][i]);
    return sum;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void start_race_agent(struct agent *agent)
{
    start_agent(agent, &api);
    agent->limits->slot_count = RACERS;
    agent->limits->devices[DEVICE].quota_bytes = QUOTA + RACERS * CONTEXT;
}

/* Runs a racer until it has registered; the racer then makes its context. */
static void start_racer(const struct agent *agent, const struct program *program, uint32_t slot,
                        struct talker *ret_host, struct peer *ret_peer)
{
    start_host(agent, program, ret_host);
    accept_peer(agent, ret_peer);
    welcome(agent, ret_peer, slot);
}

/* Waits for an answer, and checks that the device never shows more used memory than the quota.
 * Returns the largest number seen. */
static uint64_t watch(const struct talker *host)
{
    struct pollfd answer = {.fd = fileno(host->from), .events = POLLIN};
    uint64_t most = 0;
    while (poll(&answer, 1, 0) == 0) {
        uint64_t used = device_used();
        most = used > most ? used : most;
        assert_true(used <= QUOTA);
    }
    return most;
}

static void races_never_exceed_quota(void **state)
{
    struct agent agent;
    struct talker hosts[RACERS];
    struct peer peers[RACERS];
    char argument[64];
    uint64_t most = 0, refused = 0;
    (void)state;
    start_race_agent(&agent);
    for (uint32_t i = 0; i < RACERS; i++) {
        struct program racer;
        snprintf(argument, sizeof(argument), "%d:%u:%u", ROUNDS, seed + i, 1 + i % 3);
        init_program(&racer, racer_path, argument, shim_path);
        start_racer(&agent, &racer, i, &hosts[i], &peers[i]);
        assert_int_equal(hear(&hosts[i]), 0);
    }
    for (int i = 0; i < RACERS; i++)
        tell(&hosts[i], "race");
    for (int i = 0; i < RACERS; i++) {
        uint64_t seen = watch(&hosts[i]);
        most = seen > most ? seen : most;
        assert_int_equal(hear(&hosts[i]), 0);
        assert_int_equal(ask(&hosts[i], "free"), 0);
        /* The racer has freed every byte itself, before it ends. */
        assert_int_equal(agent.ledger->held_bytes[DEVICE][i], 0);
        assert_int_equal(peers[i].status->held_bytes[DEVICE], 0);
        assert_true(peers[i].status->counters[STATUS_held_peak] <= QUOTA);
        assert_int_equal(peers[i].status->counters[STATUS_uncounted_bytes], 0);
        assert_int_equal(peers[i].status->counters[STATUS_frees_unknown], 0);
        refused += peers[i].status->counters[STATUS_out_of_memory];
    }
    assert_true(most > QUOTA / 2 && refused > 0); /* the racers did compete */
    assert_int_equal(device_used(), 0);
    for (int i = 0; i < RACERS; i++) {
        end_host(&hosts[i]);
        leave(&peers[i]);
    }
    stop_agent(&agent);
}

/* A process without a context leaves the memory of one to the others. */
static void await_end(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd end = {.fd = fd, .events = POLLIN};
    assert_true(fd >= 0);
    while (poll(&end, 1, 1) == 0)
        assert_true(device_used() <= QUOTA + RACERS * CONTEXT);
    close(fd);
}

/* Clears a dead process's slots once the device has freed its memory, as an agent does. */
static void clear_slot(const struct agent *agent, const struct talker *host, uint32_t slot)
{
    int64_t deadline_ms = now_ms() + PATIENCE_MS;
    while (device_used_by(host->pid) != 0)
        assert_true(now_ms() < deadline_ms);
    atomic_store(&agent->ledger->held_bytes[DEVICE][slot], 0);
    atomic_store(&agent->ledger->context_bytes[DEVICE][slot], 0);
    atomic_store(&agent->ledger->context_ms[DEVICE][slot], 0);
}

/* Waits until the racer ends by itself or at its fault point. Returns whether it was killed. */
static bool await_racer(const struct agent *agent, struct talker *host, struct peer *peer,
                        uint32_t slot, int *late)
{
    int status = -1;
    fclose(host->to); /* ends any wait of the racer, which then runs to its end */
    await_end(host->pid);
    int64_t died_ms = now_ms();
    leave(peer); /* also its files: the device stays in use while any process has the files open */
    clear_slot(agent, host, slot);
    *late += now_ms() - died_ms > REPAIR_MS;
    assert_int_equal(waitpid(host->pid, &status, 0), host->pid);
    bool is_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    assert_true(is_killed || status == 0);
    fclose(host->from);
    return is_killed;
}

/* Some racers die, one lives, and the ledger counts exactly the memory that it holds. */
static void let_some_die(const struct agent *agent, int round, int *deaths, int *late)
{
    struct program program;
    struct talker hosts[DYING + 1];
    struct peer peers[DYING + 1];
    char argument[64], fault_at[32];
    snprintf(argument, sizeof(argument), "50:%u:1", seed + (unsigned)round);
    init_program(&program, racer_path, argument, faults_path);
    start_racer(agent, &program, DYING, &hosts[DYING], &peers[DYING]);
    assert_int_equal(hear(&hosts[DYING]), 0);
    for (uint32_t i = 0; i < DYING; i++) {
        snprintf(argument, sizeof(argument), "200:%u:%u", seed + 1000 * i + (unsigned)round, 1 + i);
        /* The first points in turn, and others at random. */
        int point = i == 0 ? round + 1 : 1 + rand_r(&seed) % FAULT_POINTS;
        snprintf(fault_at, sizeof(fault_at), "%d", point);
        program.fault_at = fault_at;
        start_racer(agent, &program, i, &hosts[i], &peers[i]);
    }
    tell(&hosts[DYING], "race");
    for (uint32_t i = 0; i < DYING; i++)
        *deaths += await_racer(agent, &hosts[i], &peers[i], i, late);
    assert_int_equal(hear(&hosts[DYING]), 0);
    assert_int_equal(agent->ledger->held_bytes[DEVICE][DYING], ledger_held(agent));
    assert_int_equal(ledger_held(agent), device_used());
    assert_int_equal(ask(&hosts[DYING], "free"), 0);
    assert_int_equal(ledger_held(agent), 0);
    assert_int_equal(device_used(), 0);
    (void)await_racer(agent, &hosts[DYING], &peers[DYING], DYING, late);
}

static void deaths_leave_exact_ledger(void **state)
{
    struct agent agent;
    int deaths = 0, late = 0, rounds = 0;
    (void)state;
    start_race_agent(&agent);
    for (; deaths < DEATHS; rounds++) {
        assert_true(rounds < DEATHS); /* most are killed before they end */
        let_some_die(&agent, rounds, &deaths, &late);
    }
    printf("%d killed in %d rounds, %d of them repaired later than after %d ms\n", deaths, rounds,
           late, REPAIR_MS);
    assert_true(late * 10 <= deaths); /* on a machine with other work */
    stop_agent(&agent);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(races_never_exceed_quota),
        cmocka_unit_test(deaths_leave_exact_ledger),
    };
    if (argc != 4)
        return 2;
    racer_path = argv[1];
    shim_path = argv[2];
    faults_path = argv[3];
    const char *text = getenv("GPUMUX_SEED");
    seed = text ? (unsigned)strtoul(text, NULL, 10) : (unsigned)time(NULL);
    printf("GPUMUX_SEED=%u\n", seed);
    signal(SIGPIPE, SIG_IGN);
    driver_api_load(&api);
    driver_api_make_devices("H200:24g", 1, 0);
    if (api.nvmlInit_v2() != 0 || api.nvmlDeviceGetHandleByIndex_v2(0, &device) != 0)
        return 2;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)api.nvmlShutdown();
    driver_api_remove_devices();
    return failed;
}
