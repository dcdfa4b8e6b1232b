/*
 * emu_kill_test KILLS: kills clients of an emulated device at random times and after random numbers
 * of instructions, first without and then with MPS, while neighbours run. After each kill the
 * device must go on, and NVML must report exactly the memory of the living clients. Under MPS every
 * tenth victim has a deep queue: its neighbours then get their error and leave, and new clients are
 * served.
 *
 * The last line is a result in JSON. GPUMUX_SEED repeats the random choices of a run.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "tests/emu/emu_party.h"

enum {
    WORKERS = 4,
    NEIGHBOURS = 2,
    PIECES = 8,
    PIECE_BYTES = 2 << 20, /* whole pages of the device, so that charges equal requests */
    NEIGHBOUR_BYTES = 64 << 20,
    STEP_US = 500,
    SPEED = 20,
    DEEP_EVERY = 10,
    DEEP_KERNELS = 500,
    DEEP_KERNEL_US = 50000,
    INSTRUCTIONS_EVERY = 4,
    INSTRUCTIONS_MAX = 2000,
    RUN_US_MAX = 4000,
    WAIT_MS_MAX = 30000,
};

/* Shared with the workers. */
struct board {
    _Atomic int paused; /* a counter; odd: workers rest and report the memory that they hold */
    struct {
        _Atomic int rests_at; /* value of `paused` at the latest rest */
        _Atomic uint64_t held_bytes;
        _Atomic int failed;
    } workers[WORKERS];
};

struct contest {
    struct driver_api api;
    struct rng rng;
    struct board *board;
    bool is_mps, can_step;
    void *device; /* handle of NVML */
    pid_t workers[WORKERS];
    struct party_client neighbours[NEIGHBOURS];
    unsigned kills, at_instructions, deep, checks;
};

static void fail(const struct contest *contest, const char *what)
{
    printf("%s MPS, after %u kills: %s\n", contest->is_mps ? "with" : "without", contest->kills,
           what);
    exit(1);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void rest(const struct driver_api *api, struct board *board, unsigned number, uint64_t held)
{
    int paused = board->paused;
    if (paused % 2 == 0)
        return;
    if (api->cuCtxSynchronize() != CUDA_SUCCESS)
        board->workers[number].failed = 1;
    board->workers[number].held_bytes = held;
    board->workers[number].rests_at = paused;
    while (board->paused == paused)
        usleep(200);
}

/* Makes all calls that change the shared state, until it is killed. */
static void work(struct driver_api *api, struct board *board, unsigned number, uint64_t seed)
{
    uint64_t pieces[PIECES] = {0}, held = 0;
    void *streams[2], *event;
    struct rng rng;
    rng_seed(&rng, seed);
    if (driver_api_try_open(api) != CUDA_SUCCESS || api->cuStreamCreate(&streams[0], 0) != 0 ||
        api->cuEventCreate(&event, 0) != 0) {
        board->workers[number].failed = 1;
        _exit(1);
    }
    for (;;) {
        rest(api, board, number, held);
        uint64_t *piece = &pieces[rng_below(&rng, PIECES)];
        void *stream = rng_below(&rng, 2) ? streams[0] : NULL;
        driver_api_burn(api, stream, 300, 100, rng_below(&rng, 50000));
        if (*piece != 0) {
            int r = rng_below(&rng, 2) ? api->cuMemFreeAsync(*piece, stream)
                                       : api->cuMemFree_v2(*piece);
            held -= r == CUDA_SUCCESS ? PIECE_BYTES : 0;
            *piece = 0;
        } else if (api->cuMemAlloc_v2(piece, PIECE_BYTES) == CUDA_SUCCESS) {
            held += PIECE_BYTES;
        } else {
            *piece = 0;
        }
        api->cuEventRecord(event, stream);
        if (rng_below(&rng, 4) == 0)
            api->cuStreamWaitEvent(streams[0], event, 0);
        if (rng_below(&rng, 8) == 0 && api->cuStreamCreate(&streams[1], 0) == 0)
            api->cuStreamDestroy_v2(streams[1]);
        if (rng_below(&rng, 8) == 0)
            api->cuCtxSynchronize();
    }
}

static void start_worker(struct contest *contest, unsigned number)
{
    uint64_t seed = rng_u64(&contest->rng);
    contest->board->workers[number].rests_at = 0;
    contest->workers[number] = fork();
    if (contest->workers[number] < 0)
        fail(contest, "no process");
    if (contest->workers[number] == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        work(&contest->api, contest->board, number, seed);
    }
}

static void start_neighbours(struct contest *contest)
{
    for (unsigned i = 0; i < NEIGHBOURS; i++)
        contest->neighbours[i] = party_start(&contest->api, STEP_US, NEIGHBOUR_BYTES);
    for (unsigned i = 0; i < NEIGHBOURS; i++) {
        if (party_opened(&contest->neighbours[i]) != CUDA_SUCCESS)
            fail(contest, "a neighbour cannot start");
    }
}

static void kill_worker(struct contest *contest, unsigned number)
{
    pid_t pid = contest->workers[number];
    int status = 0;
    kill(pid, SIGKILL);
    do
        waitpid(pid, &status, 0);
    while (!WIFEXITED(status) && !WIFSIGNALED(status));
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        fail(contest, "a worker ended by itself");
}

/* Stops the worker at a random point and single-steps it before the kill. */
static void kill_worker_at_an_instruction(struct contest *contest, unsigned number)
{
    pid_t pid = contest->workers[number];
    int status;
    uint64_t left = rng_below(&contest->rng, INSTRUCTIONS_MAX);
    contest->can_step = ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0 &&
                        ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) == 0;
    if (contest->can_step) {
        waitpid(pid, &status, 0);
        for (; left > 0 && ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) == 0; left--)
            waitpid(pid, &status, 0);
        contest->at_instructions++;
    }
    kill_worker(contest, number);
}

/* Waits until every worker but the dead one rests. */
static void wait_for_rest(struct contest *contest, unsigned dead)
{
    int64_t start_ms = now_ms();
    for (unsigned i = 0; i < WORKERS; i++) {
        while (i != dead && contest->board->workers[i].rests_at != contest->board->paused) {
            int status;
            if (waitpid(contest->workers[i], &status, WNOHANG) == contest->workers[i]) {
                printf("status 0x%x\n", (unsigned)status);
                fail(contest, "a worker ended by itself");
            }
            if (contest->board->workers[i].failed)
                fail(contest, "a worker had an error");
            if (now_ms() - start_ms > WAIT_MS_MAX)
                fail(contest, "a worker does not come to rest: the device is wedged");
            usleep(200);
        }
        if (contest->board->workers[i].failed)
            fail(contest, "a worker had an error");
    }
}

/* Compares NVML's numbers, for the device and for each process, with the memory of the living. */
static void check_memory(struct contest *contest, unsigned dead)
{
    nvmlProcessInfo_v2_t processes[64];
    nvmlMemory_t memory;
    unsigned count = 64;
    uint64_t held = NEIGHBOURS * (uint64_t)NEIGHBOUR_BYTES, listed = 0;
    for (unsigned i = 0; i < WORKERS; i++)
        held += i == dead ? 0 : contest->board->workers[i].held_bytes;
    if (contest->api.nvmlDeviceGetMemoryInfo(contest->device, &memory) != NVML_SUCCESS ||
        contest->api.nvmlDeviceGetComputeRunningProcesses_v3(contest->device, &count, processes) !=
            NVML_SUCCESS)
        fail(contest, "NVML fails");
    for (unsigned i = 0; i < count; i++)
        listed += processes[i].usedGpuMemory;
    if (memory.used != held || listed != held) {
        printf("%llu bytes are held, NVML shows %llu, its processes %llu\n",
               (unsigned long long)held, (unsigned long long)memory.used,
               (unsigned long long)listed);
        fail(contest, "memory is not exact");
    }
    unsigned expected = NEIGHBOURS + WORKERS - 1 + (contest->is_mps ? 1u : 0u);
    if (count != expected)
        fail(contest, "not the processes that live");
    contest->checks++;
}

static void check_progress(struct contest *contest)
{
    for (unsigned i = 0; i < NEIGHBOURS; i++) {
        if (!party_makes_progress(&contest->neighbours[i]))
            fail(contest, "a neighbour has an error");
    }
}

static void kill_one(struct contest *contest)
{
    unsigned victim = (unsigned)rng_below(&contest->rng, WORKERS);
    usleep((useconds_t)rng_below(&contest->rng, RUN_US_MAX));
    if (contest->can_step && contest->kills % INSTRUCTIONS_EVERY == 0)
        kill_worker_at_an_instruction(contest, victim);
    else
        kill_worker(contest, victim);
    contest->kills++;
    contest->board->paused++;
    wait_for_rest(contest, victim);
    check_progress(contest);
    check_memory(contest, victim);
    contest->board->paused++;
    start_worker(contest, victim);
}

/* Kills a victim with more outstanding work than its neighbours survive. */
static void kill_deep(struct contest *contest)
{
    struct party_client deep = party_start(&contest->api, STEP_US, NEIGHBOUR_BYTES);
    if (party_opened(&deep) != CUDA_SUCCESS)
        fail(contest, "a client cannot start");
    for (unsigned i = 0; i < WORKERS; i++)
        kill_worker(contest, i);
    party_order(&deep, PARTY_QUEUE, DEEP_KERNELS, DEEP_KERNEL_US);
    party_end(&deep, SIGKILL);
    contest->kills++;
    contest->deep++;
    for (unsigned i = 0; i < NEIGHBOURS; i++) {
        if (party_error(&contest->neighbours[i]) != CUDA_ERROR_ILLEGAL_ADDRESS)
            fail(contest, "a neighbour has another error");
        party_end(&contest->neighbours[i], SIGKILL);
    }
    nvmlMemory_t memory;
    if (contest->api.nvmlDeviceGetMemoryInfo(contest->device, &memory) != NVML_SUCCESS ||
        memory.used != 0)
        fail(contest, "memory is left behind");
    contest->checks++;
    start_neighbours(contest);
    for (unsigned i = 0; i < WORKERS; i++)
        start_worker(contest, i);
}

static void begin(struct contest *contest)
{
    static const char *const background[] = {"-d", NULL};
    char output[256];
    driver_api_make_devices("H200:24g", SPEED, 0);
    party_make_directories();
    if (contest->is_mps &&
        party_program("nvidia-cuda-mps-control", background, NULL, output, sizeof(output)) != 0)
        fail(contest, output);
    contest->board = mmap(NULL, sizeof(*contest->board), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (contest->board == MAP_FAILED || contest->api.nvmlInit_v2() != NVML_SUCCESS ||
        contest->api.nvmlDeviceGetHandleByIndex_v2(0, &contest->device) != NVML_SUCCESS)
        fail(contest, "no NVML");
    start_neighbours(contest);
    for (unsigned i = 0; i < WORKERS; i++)
        start_worker(contest, i);
}

static void end(struct contest *contest)
{
    char output[256];
    nvmlMemory_t memory;
    for (unsigned i = 0; i < WORKERS; i++)
        kill_worker(contest, i);
    for (unsigned i = 0; i < NEIGHBOURS; i++)
        party_end(&contest->neighbours[i], SIGKILL);
    if (contest->api.nvmlDeviceGetMemoryInfo(contest->device, &memory) != NVML_SUCCESS ||
        memory.used != 0)
        fail(contest, "memory is left behind at the end");
    contest->api.nvmlShutdown();
    if (contest->is_mps)
        party_control("quit -t 5", output, sizeof(output));
    munmap(contest->board, sizeof(*contest->board));
    party_remove_directories();
    driver_api_remove_devices();
}

static void run(unsigned kills, bool is_mps, uint64_t seed)
{
    struct contest contest = {.is_mps = is_mps, .can_step = true};
    int64_t start_ms = now_ms();
    rng_seed(&contest.rng, seed);
    driver_api_load(&contest.api);
    begin(&contest);
    while (contest.kills < kills) {
        if (is_mps && contest.kills % DEEP_EVERY == DEEP_EVERY - 1)
            kill_deep(&contest);
        else
            kill_one(&contest);
    }
    end(&contest);
    printf(
        "{\"mps\": %s, \"kills\": %u, \"at_a_random_instruction\": %u, \"with_a_deep_queue\": %u, "
        "\"memory_checks\": %u, \"memory_differences\": 0, \"wedged\": 0, \"seconds\": %.1f}\n",
        is_mps ? "true" : "false", contest.kills, contest.at_instructions, contest.deep,
        contest.checks, (double)(now_ms() - start_ms) / 1000);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *text = getenv("GPUMUX_SEED");
    unsigned kills = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 20;
    uint64_t seed = text ? strtoull(text, NULL, 10) : rng_os_seed();
    setvbuf(stdout, NULL, _IOLBF, 0);
    fprintf(stderr, "GPUMUX_SEED=%llu\n", (unsigned long long)seed);
    run(kills, false, seed);
    run(kills, true, seed);
    return 0;
}
