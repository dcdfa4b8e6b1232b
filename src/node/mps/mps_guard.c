#include "node/mps/mps_guard.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fence.h"
#include "node/mps/mps.h"
#include "node/supervisor/attempt_file.h"

enum {
    LOOK_MS = 1000,
    ANSWER_MS = 5000,      /* limit for an answer of a slow daemon */
    LATE_START_MS = 20000, /* longest delay of a daemon that a killed agent was starting */
    LOCK_TRIES = 15,       /* of FENCE_PATIENCE_MS each: a guard ends a daemon faster */
    DIRECTORIES_MAX = 64,
};

/* ---- needs of attempts ---- */

int mps_guard_note(struct error *e, const struct mps_guard *g, const char *uuid,
                   const char *attempt, bool needs)
{
    struct mps_control control = {0};
    if (!mps_directory(g->directory, uuid, control.directory, sizeof control.directory))
        return error_set(e, ERR_TOO_LARGE, "the path of the node's state is too long for MPS");
    return mps_control_note(e, &control, attempt, needs);
}

bool mps_guard_is_needed(const struct mps_guard *g, const char *directory)
{
    char lock[PATH_MAX];
    uint64_t workload;
    int attempt;
    bool is_needed = false;
    DIR *notes = opendir(directory);
    for (struct dirent *entry; notes && (entry = readdir(notes));) {
        if (!attempt_name_parse(entry->d_name, &workload, &attempt) ||
            snprintf(lock, sizeof lock, "%s/locks/%s", g->state, entry->d_name) >= (int)sizeof lock)
            continue;
        if (fence_is_taken(lock))
            is_needed = true;
        else
            unlinkat(dirfd(notes), entry->d_name, 0);
    }
    if (notes)
        closedir(notes);
    return is_needed;
}

bool mps_guard_sweep(const struct mps_guard *g, const struct mps *m, size_t max)
{
    char directories[DIRECTORIES_MAX][MPS_PATH_MAX];
    bool any = false;
    size_t count = !g->state || g->lock_fd < 0
                       ? 0
                       : mps_control_running(g->directory, directories, DIRECTORIES_MAX);
    for (size_t i = 0; i < count; i++) {
        struct mps_control control = {
            .program = g->program, .emulate = g->emulate, .libraries = g->libraries};
        str_copy(control.directory, sizeof control.directory, directories[i]);
        if (max == 0 || mps_has(m, directories[i]) || mps_guard_is_needed(g, directories[i])) {
            any = true;
        } else {
            mps_control_end(&control, ANSWER_MS);
            max--;
        }
    }
    return any;
}

/* ---- the agent's side ---- */

static int open_lock(struct mps_guard *g)
{
    char path[PATH_MAX];
    g->lock_fd = g->alive_fd = -1;
    if (snprintf(g->directory, sizeof g->directory, "%s/mps", g->state) <
            (int)sizeof g->directory &&
        snprintf(path, sizeof path, "%s/mps.lock", g->state) < (int)sizeof path)
        g->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    else
        errno = ENAMETOOLONG;
    return g->lock_fd;
}

int mps_guard_open(struct error *e, struct mps_guard *g)
{
    char running[MPS_PATH_MAX];
    if (open_lock(g) < 0 && errno == ENAMETOOLONG)
        return 0; /* sockets do not fit either: no daemon was ever started */
    if (g->lock_fd < 0)
        return error_set_errno(e, ERR_IO, errno, "%s/mps.lock cannot be opened", g->state);
    /* A present guard ends when the lock is taken, so that the next guard must start before. */
    bool is_taken = false, is_running = mps_control_running(g->directory, &running, 1) > 0;
    int r = is_running ? mps_guard_start(e, g) : 0;
    if (r < 0)
        return r;
    for (int i = 0; i < LOCK_TRIES && !is_taken; i++)
        is_taken = fence_take(g->lock_fd);
    if (is_taken)
        return 0;
    close(g->lock_fd);
    g->lock_fd = -1;
    return error_set(e, ERR_BUSY,
                     "the process gpumux mps-guard keeps %s/mps.lock locked: kill that process",
                     g->state);
}

void mps_guard_close(struct mps_guard *g)
{
    if (!g->state)
        return;
    (void)mps_guard_sweep(g, NULL, MPS_GUARD_ALL);
    if (g->alive_fd >= 0) {
        (void)!write(g->alive_fd, "", 1);
        close(g->alive_fd);
    }
    if (g->lock_fd >= 0)
        close(g->lock_fd);
    *g = (struct mps_guard){0};
}

int mps_guard_start(struct error *e, struct mps_guard *g)
{
    const char *const arguments[] = {"gpumux",
                                     "mps-guard",
                                     g->state,
                                     g->program ? g->program : "",
                                     g->emulate ? g->emulate : "",
                                     g->libraries ? g->libraries : "",
                                     NULL};
    int ends[2];
    pid_t pid;
    if (g->alive_fd >= 0 || g->lock_fd < 0)
        return 0;
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null_fd < 0 || pipe2(ends, O_CLOEXEC) < 0) {
        int failed = errno;
        if (null_fd >= 0)
            close(null_fd);
        return error_set_errno(e, ERR_IO, failed, "no pipe for the guard of MPS");
    }
    int failed = mps_control_spawn("/proc/self/exe", (char *const *)(uintptr_t)arguments, environ,
                                   ends[0], null_fd, &pid);
    close(ends[0]);
    close(null_fd);
    if (failed) {
        close(ends[1]);
        return error_set_errno(e, ERR_IO, failed, "the guard of MPS cannot be started");
    }
    g->alive_fd = ends[1];
    return 0;
}

/* ---- the process ---- */

/* Waits for the agent's end. Returns whether the end was orderly. */
static bool await_agent(void)
{
    char byte;
    ssize_t n;
    bool is_orderly = false;
    while ((n = read(STDIN_FILENO, &byte, 1)) > 0 || (n < 0 && errno == EINTR))
        is_orderly = is_orderly || n > 0;
    return is_orderly;
}

int mps_guard_run(char *const operands[MPS_GUARD_OPERANDS])
{
    struct mps_guard g = {.state = operands[0],
                          .program = operands[1][0] ? operands[1] : NULL,
                          .emulate = operands[2][0] ? operands[2] : NULL,
                          .libraries = operands[3][0] ? operands[3] : NULL};
    if (open_lock(&g) < 0)
        return 1;
    int64_t until_ms = await_agent() ? 0 : clock_boot_ms() + LATE_START_MS;
    bool any = true;
    while (any || clock_boot_ms() < until_ms) {
        if (!fence_take(g.lock_fd))
            return 0;                       /* another agent runs */
        any = mps_guard_sweep(&g, NULL, 1); /* one daemon, because an agent may wait for the lock */
        (void)flock(g.lock_fd, LOCK_UN);
        if (any || until_ms > 0)
            poll(NULL, 0, LOOK_MS);
    }
    return 0;
}
