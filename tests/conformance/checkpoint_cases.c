/* A process is stopped, moved off its device and back, and continues. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "conformance.h"

enum { MIB = 1 << 20, HELD_BYTES = 128 * MIB, STEP_NS = 1000 * 1000 };

/* Reports of the other process, in shared memory. */
struct progress {
    /* 1: it holds its memory; 2: the test asked for a check; 3: the check succeeded. */
    _Atomic int phase;
    _Atomic int steps; /* calls made */
};

enum { HOLDS = 1, CHECKED = 3, ASKED = 2 };

/* Holds memory and makes one call after another, until the test asks for a check of that memory. */
static void work(struct conformance *t, struct progress *progress)
{
    uint64_t address = 0;
    unsigned char byte = 0;
    conformance_open_device(t);
    EXPECT(t, cuMemAlloc_v2, CUDA_SUCCESS, (&address, HELD_BYTES));
    EXPECT(t, cuMemsetD8_v2, CUDA_SUCCESS, (address, 0x3c, HELD_BYTES));
    EXPECT(t, cuCtxSynchronize, CUDA_SUCCESS, ());
    progress->phase = HOLDS;
    while (progress->phase != ASKED) {
        if (conformance_burn(t, NULL, 1000) != CUDA_SUCCESS ||
            t->cuStreamSynchronize(NULL) != CUDA_SUCCESS)
            return;
        progress->steps++;
        nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
    }
    EXPECT(t, cuMemcpyDtoH_v2, CUDA_SUCCESS, (&byte, address + HELD_BYTES - 1, 1));
    CHECK(t, cuCheckpointProcessRestore, byte == 0x3c);
    progress->phase = CHECKED;
}

static int state_of(struct conformance *t, int pid)
{
    int state = -1;
    EXPECT(t, cuCheckpointProcessGetState, CUDA_SUCCESS, (pid, &state));
    return state;
}

/* A locked process finishes at most the call that was under way. */
static bool stands_still(struct progress *progress)
{
    enum { SETTLE_NS = 50 * 1000 * 1000 };
    nanosleep(&(struct timespec){.tv_nsec = SETTLE_NS}, NULL);
    int before = progress->steps;
    nanosleep(&(struct timespec){.tv_nsec = SETTLE_NS}, NULL);
    return progress->steps == before;
}

static void check_states(struct conformance *t, int pid, struct progress *progress)
{
    CUcheckpointLockArgs lock = {.timeoutMs = 10000};
    size_t held = 0, moved = 0, total = 0;
    int thread = 0;
    CHECK(t, cuCheckpointProcessGetState, state_of(t, pid) == CU_PROCESS_STATE_RUNNING);
    EXPECT(t, cuCheckpointProcessGetState, CUDA_ERROR_INVALID_VALUE, (pid, NULL));
    EXPECT(t, cuCheckpointProcessGetRestoreThreadId, CUDA_SUCCESS, (pid, &thread));
    CHECK(t, cuCheckpointProcessGetRestoreThreadId, thread > 0);
    EXPECT(t, cuCheckpointProcessGetRestoreThreadId, CUDA_ERROR_INVALID_VALUE, (pid, NULL));
    EXPECT(t, cuCheckpointProcessCheckpoint, CUDA_ERROR_ILLEGAL_STATE, (pid, NULL));
    EXPECT(t, cuCheckpointProcessRestore, CUDA_ERROR_ILLEGAL_STATE, (pid, NULL));
    EXPECT(t, cuCheckpointProcessUnlock, CUDA_ERROR_ILLEGAL_STATE, (pid, NULL));
    EXPECT(t, cuCheckpointProcessLock, CUDA_SUCCESS, (pid, &lock));
    EXPECT(t, cuCheckpointProcessLock, CUDA_ERROR_ILLEGAL_STATE, (pid, &lock));
    CHECK(t, cuCheckpointProcessLock, state_of(t, pid) == CU_PROCESS_STATE_LOCKED);
    CHECK(t, cuCheckpointProcessLock, stands_still(progress));
    EXPECT(t, cuMemGetInfo_v2, CUDA_SUCCESS, (&held, &total));
    EXPECT(t, cuCheckpointProcessCheckpoint, CUDA_SUCCESS, (pid, NULL));
    CHECK(t, cuCheckpointProcessCheckpoint, state_of(t, pid) == CU_PROCESS_STATE_CHECKPOINTED);
    EXPECT(t, cuMemGetInfo_v2, CUDA_SUCCESS, (&moved, &total));
    CHECK(t, cuCheckpointProcessCheckpoint, moved >= held + HELD_BYTES);
    EXPECT(t, cuCheckpointProcessUnlock, CUDA_ERROR_ILLEGAL_STATE, (pid, NULL));
    EXPECT(t, cuCheckpointProcessRestore, CUDA_SUCCESS, (pid, NULL));
    CHECK(t, cuCheckpointProcessRestore, state_of(t, pid) == CU_PROCESS_STATE_LOCKED);
    EXPECT(t, cuCheckpointProcessUnlock, CUDA_SUCCESS, (pid, NULL));
    CHECK(t, cuCheckpointProcessUnlock, state_of(t, pid) == CU_PROCESS_STATE_RUNNING);
}

void case_checkpointed_process_frees_device_memory(struct conformance *t)
{
    struct progress *progress =
        mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (progress == MAP_FAILED)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(CONFORMANCE_CASE_SECONDS_MAX);
        work(t, progress);
        _exit(0);
    }
    bool holds = conformance_becomes(&progress->phase, HOLDS);
    conformance_open_device(t);
    if (CHECK(t, cuCheckpointProcessGetState, holds)) {
        check_states(t, pid, progress);
        int steps = progress->steps;
        progress->phase = ASKED;
        CHECK(t, cuCheckpointProcessUnlock, conformance_becomes(&progress->phase, CHECKED));
        CHECK(t, cuCheckpointProcessUnlock, progress->steps >= steps);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}
