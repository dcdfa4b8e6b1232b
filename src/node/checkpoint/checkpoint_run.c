/* The process that moves the memory of others; see checkpoint.h. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "abi/cuda.h"
#include "base/library.h"
#include "node/checkpoint/checkpoint.h"

enum { LOCK_MS = 10000 }; /* longest wait for outstanding work */

#define DRIVER_CALLS(CALL)                                                                         \
    CALL(cuInit)                                                                                   \
    CALL(cuCheckpointProcessGetState)                                                              \
    CALL(cuCheckpointProcessLock)                                                                  \
    CALL(cuCheckpointProcessCheckpoint)                                                            \
    CALL(cuCheckpointProcessRestore)                                                               \
    CALL(cuCheckpointProcessUnlock)

struct driver {
    DRIVER_CALLS(CALL_MEMBER)
};

/* A process with device memory. */
struct target {
    pid_t pid;
    CUprocessState state;
};

struct work {
    struct driver driver;
    size_t count;
    struct target targets[CHECKPOINT_PROCESSES_MAX];
};

/* Prints the error line, the only output of a failure. */
static int __attribute__((format(printf, 1, 2))) fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vprintf(format, args);
    va_end(args);
    return -1;
}

static int fail_at(const struct target *t, const char *step, int error)
{
    switch (error) {
    case CUDA_ERROR_NOT_SUPPORTED:
        return fail("the driver cannot do it for process %d, which may be a client of MPS or have "
                    "managed or shared (IPC) memory",
                    (int)t->pid);
    case CUDA_ERROR_NOT_READY:
        return fail("the GPU work of process %d did not end within %d s", (int)t->pid,
                    LOCK_MS / 1000);
    case CUDA_ERROR_OUT_OF_MEMORY:
        return fail("there is too little memory for process %d", (int)t->pid);
    case CUDA_ERROR_NOT_PERMITTED:
        return fail("gpumux may not do it to process %d", (int)t->pid);
    default:
        return fail("the driver's %s of process %d failed with error %d", step, (int)t->pid, error);
    }
}

static int load(struct driver *d)
{
    struct library library = library_load(CUDA_SONAME, CALL_NAMES(DRIVER_CALLS), d);
    if (!library.handle)
        return fail("there is no CUDA driver");
    if (library.missing)
        return fail("this CUDA driver cannot do it: it needs 570 or newer");
    int error = d->cuInit(0);
    return error == 0 ? 0 : fail("the CUDA driver failed with error %d", error);
}

static int find_targets(struct work *w, char *const *pids, size_t count)
{
    for (size_t i = 0; i < count && w->count < CHECKPOINT_PROCESSES_MAX; i++) {
        struct target t = {.pid = (pid_t)strtol(pids[i], NULL, 10)};
        int error = w->driver.cuCheckpointProcessGetState(t.pid, &t.state);
        if (error == CUDA_ERROR_INVALID_VALUE)
            continue; /* ended, or without a GPU */
        if (error != 0)
            return fail_at(&t, "look at the state", error);
        if (t.state == CU_PROCESS_STATE_FAILED)
            return fail("the driver has given up process %d", (int)t.pid);
        w->targets[w->count++] = t;
    }
    return 0;
}

/* ---- steps; each leaves a process alone that is beyond it ---- */

static int lock_one(struct work *w, struct target *t)
{
    CUcheckpointLockArgs options = {.timeoutMs = LOCK_MS};
    int error = t->state == CU_PROCESS_STATE_RUNNING
                    ? w->driver.cuCheckpointProcessLock(t->pid, &options)
                    : 0;
    if (error == 0 && t->state == CU_PROCESS_STATE_RUNNING)
        t->state = CU_PROCESS_STATE_LOCKED;
    return error;
}

static int checkpoint_one(struct work *w, struct target *t)
{
    int error = t->state == CU_PROCESS_STATE_LOCKED
                    ? w->driver.cuCheckpointProcessCheckpoint(t->pid, NULL)
                    : 0;
    if (error == 0 && t->state == CU_PROCESS_STATE_LOCKED)
        t->state = CU_PROCESS_STATE_CHECKPOINTED;
    return error;
}

static int restore_one(struct work *w, struct target *t)
{
    int error = t->state == CU_PROCESS_STATE_CHECKPOINTED
                    ? w->driver.cuCheckpointProcessRestore(t->pid, NULL)
                    : 0;
    if (error == 0 && t->state == CU_PROCESS_STATE_CHECKPOINTED)
        t->state = CU_PROCESS_STATE_LOCKED;
    return error;
}

static int unlock_one(struct work *w, struct target *t)
{
    int error =
        t->state == CU_PROCESS_STATE_LOCKED ? w->driver.cuCheckpointProcessUnlock(t->pid, NULL) : 0;
    if (error == 0 && t->state == CU_PROCESS_STATE_LOCKED)
        t->state = CU_PROCESS_STATE_RUNNING;
    return error;
}

/* Applies a step to all processes; prints the error of the first failure. */
static int for_all(struct work *w, int (*step)(struct work *, struct target *), const char *name)
{
    for (size_t i = 0; i < w->count; i++) {
        int error = step(w, &w->targets[i]);
        if (error != 0)
            return fail_at(&w->targets[i], name, error);
    }
    return 0;
}

/* Undoes steps after an error was printed; a process whose undo fails stays as it is. */
static void undo_all(struct work *w, int (*first)(struct work *, struct target *),
                     int (*second)(struct work *, struct target *))
{
    for (size_t i = 0; i < w->count; i++)
        (void)first(w, &w->targets[i]);
    for (size_t i = 0; i < w->count; i++)
        (void)second(w, &w->targets[i]);
}

static int move_off(struct work *w)
{
    if (w->count == 0)
        return fail("none of its processes uses a device");
    /* All processes are locked before the first is moved, because they may wait for each other. */
    int r = for_all(w, lock_one, "lock");
    if (r == 0)
        r = for_all(w, checkpoint_one, "checkpoint");
    if (r < 0)
        undo_all(w, restore_one, unlock_one);
    return r;
}

static int move_back(struct work *w)
{
    int r = for_all(w, restore_one, "restore");
    if (r < 0) {
        undo_all(w, lock_one, checkpoint_one);
        return r;
    }
    return for_all(w, unlock_one, "unlock");
}

/* Takes the lock, which the process holds until its end. */
static int take_lock(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    while (fd >= 0 && flock(fd, LOCK_EX) < 0)
        if (errno != EINTR)
            return fail("%s cannot be locked: %s", path, strerror(errno));
    return fd >= 0 ? 0 : fail("%s cannot be opened: %s", path, strerror(errno));
}

int checkpoint_run(bool off, const char *lock_path, char *const *pids, size_t count)
{
    struct work w = {.count = 0};
    signal(SIGPIPE, SIG_IGN); /* the agent may be gone; the move is completed all the same */
    int r = take_lock(lock_path);
    if (r == 0)
        r = load(&w.driver);
    if (r == 0)
        r = find_targets(&w, pids, count);
    if (r == 0)
        r = off ? move_off(&w) : move_back(&w);
    puts(r == 0 ? CHECKPOINT_SAYS_DONE : "");
    fflush(stdout);
    return r == 0 ? 0 : 1;
}
