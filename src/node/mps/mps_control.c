#include "node/mps/mps_control.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "node/supervisor/process.h"

#define PID_FILE "nvidia-cuda-mps-control.pid"
/* Empty files of gpumux in the daemon's directory: */
#define ONE_USER_FILE "for_one_user" /* the daemon was started for one user at a time */
#define ENDED_FILE    "ended"        /* see mps_control_was_ended() */

enum {
    BLOCK = 4096,
    BLOCK_UNIT = 512, /* unit of st_blocks */
    PID_TEXT_MAX = 32,
    LOG_NAME_MAX = 32,
    VARIABLE_MAX = MPS_PATH_MAX + 64,
    ENVIRON_MAX = 64 << 10,
    NOTE_PATH_MAX = MPS_PATH_MAX + 64,
    QUIT_ANSWER_MS = 1000,
    QUIT_MS = 3000, /* wait after quitting; the daemon gives its clients 1 s */
    KILL_MS = 2000,
    KILL_ROUNDS = 3, /* a daemon may start a server while it is killed */
    FOUND_MAX = 128,
};

/* ---- running the program ---- */

struct environment {
    char text[MPS_ENVIRONMENT_MAX][VARIABLE_MAX];
    char *words[MPS_ENVIRONMENT_MAX + 1];
    size_t count;
};

static void put(struct environment *environment, const char *key, const char *value)
{
    if (!value || environment->count == MPS_ENVIRONMENT_MAX)
        return;
    char *text = environment->text[environment->count];
    if (snprintf(text, VARIABLE_MAX, "%s=%s", key, value) < VARIABLE_MAX)
        environment->words[environment->count++] = text;
}

/* Makes a fixed environment: a daemon outlives the agent and must not depend on the agent's
 * variables. */
static void make_environment(const struct mps_control *c, struct environment *ret)
{
    *ret = (struct environment){0};
    put(ret, "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    put(ret, "CUDA_MPS_PIPE_DIRECTORY", c->directory);
    put(ret, "CUDA_MPS_LOG_DIRECTORY", c->directory);
    put(ret, "CUDA_VISIBLE_DEVICES", c->uuid);
    put(ret, "GPUMUX_EMU", c->emulate);
    put(ret, "LD_LIBRARY_PATH", c->emulate ? c->libraries : NULL);
    put(ret, "ASAN_OPTIONS", getenv("ASAN_OPTIONS"));
    put(ret, "TSAN_OPTIONS", getenv("TSAN_OPTIONS"));
}

int mps_control_spawn(const char *program, char *const *arguments, char *const *environment,
                      int in_fd, int out_fd, pid_t *ret_pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in_fd, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, out_fd, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, out_fd, STDERR_FILENO);
    posix_spawn_file_actions_addchdir_np(&files, "/");
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    int failed = posix_spawn(ret_pid, program, &files, &attributes, arguments, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return failed;
}

static void take_output(int fd, struct str *out)
{
    char block[BLOCK];
    ssize_t n;
    while ((n = read(fd, block, sizeof block)) > 0)
        if (out)
            str_append_bytes(out, block, (size_t)n);
}

/* Waits for the process's end; its children may keep the pipe open. Otherwise kills the process.
 * Returns 0 or an errno; ETIMEDOUT after the limit or a stop. */
static int await_end(pid_t pid, int out_fd, int stop_fd, int64_t until_ms, struct str *out,
                     int *ret_status)
{
    int pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    int failed = pid_fd < 0 ? errno : ETIMEDOUT;
    struct pollfd polled[] = {{.fd = pid_fd, .events = POLLIN},
                              {.fd = stop_fd > 0 ? stop_fd : -1, .events = POLLIN},
                              {.fd = out_fd, .events = POLLIN}};
    bool ended = false;
    while (pid_fd >= 0 && !ended && !polled[1].revents && clock_boot_ms() < until_ms) {
        if (poll(polled, 3, (int)(until_ms - clock_boot_ms())) < 0 && errno != EINTR)
            break;
        take_output(out_fd, out);
        ended = polled[0].revents != 0;
        if (polled[2].revents & POLLHUP)
            polled[2].fd = -1;
    }
    if (pid_fd >= 0)
        close(pid_fd);
    if (!ended) {
        /* including a daemon that it is starting */
        (void)process_signal_descendants(pid, process_start(pid), SIGKILL, NULL);
        kill(pid, SIGKILL);
    }
    while (waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
        ;
    take_output(out_fd, out);
    return ended ? 0 : failed;
}

/* Runs the program. Returns 0, -ERR_IO if it did not run to its end, or -ERR_UNAVAILABLE if it
 * failed. */
static int run(struct error *e, const struct mps_control *c, char *const *arguments,
               const char *input, int limit_ms, struct str *out)
{
    struct environment environment;
    int64_t until_ms = clock_boot_ms() + limit_ms;
    int in[2] = {-1, -1}, from[2] = {-1, -1}, status = -1, failed = 0;
    pid_t pid;
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC | O_NONBLOCK) < 0)
        failed = errno;
    if (!failed && input && write(in[1], input, strlen(input)) < 0) /* far less than a pipe takes */
        failed = errno;
    make_environment(c, &environment);
    if (!failed)
        failed = mps_control_spawn(c->program, arguments, environment.words, in[0], from[1], &pid);
    for (int i = 0; i < 2; i++)
        if (in[i] >= 0)
            close(in[i]);
    if (from[1] >= 0)
        close(from[1]);
    if (!failed)
        failed = await_end(pid, from[0], c->stop_fd, until_ms, out, &status);
    if (from[0] >= 0)
        close(from[0]);
    if (failed == ETIMEDOUT)
        return error_set(e, ERR_TIMEOUT, "it does not answer");
    if (failed)
        return error_set_errno(e, ERR_IO, failed, "%s cannot be run", c->program);
    if (WIFSIGNALED(status))
        return error_set(e, ERR_IO, "%s was ended by signal %d", c->program, WTERMSIG(status));
    return WEXITSTATUS(status) == 0 ? 0 : error_set(e, ERR_UNAVAILABLE, "it has ended");
}

/* ---- logs ---- */

static void keep_end(int fd, off_t size, const char *path)
{
    char block[BLOCK];
    int kept_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    off_t at = size > MPS_LOG_KEPT ? size - MPS_LOG_KEPT : 0;
    ssize_t n = 0;
    for (; kept_fd >= 0 && at < size && (n = pread(fd, block, sizeof block, at)) > 0; at += n)
        if (write(kept_fd, block, (size_t)n) != n)
            break; /* a full disk: emptying the log matters even more */
    if (kept_fd >= 0)
        close(kept_fd);
}

/* Empties a large log. The size on disk counts, because a log that is written at an old offset has
 * a hole before it. */
static void trim_log(const char *directory, const char *name)
{
    char path[MPS_PATH_MAX + LOG_NAME_MAX], kept[MPS_PATH_MAX + LOG_NAME_MAX];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    snprintf(kept, sizeof kept, "%s/%s.old", directory, name);
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
        st.st_blocks * BLOCK_UNIT > (off_t)MPS_LOG_MAX) {
        keep_end(fd, st.st_size, kept);
        (void)!ftruncate(fd, 0);
    }
    close(fd);
}

void mps_control_trim_logs(const struct mps_control *c)
{
    trim_log(c->directory, "control.log");
    trim_log(c->directory, "server.log");
}

/* ---- requests ---- */

static bool note_path(const struct mps_control *c, const char *name, char path[NOTE_PATH_MAX])
{
    return snprintf(path, NOTE_PATH_MAX, "%s/%s", c->directory, name) < NOTE_PATH_MAX;
}

static bool has_note(const struct mps_control *c, const char *name)
{
    char path[NOTE_PATH_MAX];
    return note_path(c, name, path) && access(path, F_OK) == 0;
}

int mps_control_note(struct error *e, const struct mps_control *c, const char *name, bool is_there)
{
    char path[NOTE_PATH_MAX];
    if (!note_path(c, name, path))
        return error_set(e, ERR_TOO_LARGE, "%s is too long a name", name);
    if (!is_there)
        return unlink(path) == 0 || errno == ENOENT
                   ? 0
                   : error_set_errno(e, ERR_IO, errno, "%s cannot be removed", path);
    int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return error_set_errno(e, ERR_IO, errno, "%s cannot be made", path);
    close(fd);
    return 0;
}

/* Starts the daemon after writing the notes, which the next agent needs to take over the daemon. */
static int start(struct error *e, const struct mps_control *c, bool is_multiuser, int limit_ms,
                 struct str *said)
{
    static const char *const arguments[] = {"nvidia-cuda-mps-control", "-d", NULL};
    static const char *const for_all[] = {"nvidia-cuda-mps-control", "-d", "-multiuser-server",
                                          NULL};
    int r = mps_control_note(e, c, ENDED_FILE, false);
    if (r == 0)
        r = mps_control_note(e, c, ONE_USER_FILE, !is_multiuser);
    return r < 0 ? r
                 : run(e, c, (char *const *)(uintptr_t)(is_multiuser ? for_all : arguments), NULL,
                       limit_ms, said);
}

bool mps_control_is_for_one_user(const struct mps_control *c)
{
    return has_note(c, ONE_USER_FILE);
}

bool mps_control_was_ended(const struct mps_control *c)
{
    return has_note(c, ENDED_FILE);
}

uid_t mps_control_server_user(pid_t server)
{
    char path[PID_TEXT_MAX];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%d", server);
    return stat(path, &st) == 0 ? st.st_uid : (uid_t)-1;
}

int mps_control_start(struct error *e, const struct mps_control *c, int limit_ms)
{
    struct str said;
    str_init(&said, MPS_ANSWER_MAX);
    mps_control_trim_logs(c);
    int r = start(e, c, c->is_multiuser, limit_ms, &said);
    if (r == -ERR_UNAVAILABLE && c->is_multiuser) { /* a driver without such servers */
        str_clear(&said);
        r = start(e, c, false, limit_ms, &said);
    }
    if (r == 0)
        r = mps_control_ask(e, c, "get_server_list", limit_ms, NULL);
    if (r < 0)
        mps_control_kill(c);
    if (r < 0 && r != -ERR_IO) {
        char line[128];
        str_copy(line, sizeof line, str_text(&said));
        line[strcspn(line, "\n")] = '\0';
        r = error_set(e, ERR_UNAVAILABLE, "%s does not start: %s", c->program,
                      line[0] ? line : "it does not answer");
    }
    str_done(&said);
    return r;
}

int mps_control_ask(struct error *e, const struct mps_control *c, const char *line, int limit_ms,
                    struct str *out)
{
    static const char *const arguments[] = {"nvidia-cuda-mps-control", NULL};
    char input[128];
    if (snprintf(input, sizeof input, "%s\n", line) >= (int)sizeof input)
        return error_set(e, ERR_INVALID, "too long a line for MPS");
    return run(e, c, (char *const *)(uintptr_t)arguments, input, limit_ms, out);
}

int64_t mps_control_pace_ms(const struct mps_control *c, int limit_ms)
{
    static const char *const arguments[] = {"nvidia-cuda-mps-control", "-v", NULL};
    int64_t begun_ms = clock_boot_ms();
    (void)run(NULL, c, (char *const *)(uintptr_t)arguments, NULL, limit_ms, NULL);
    return clock_boot_ms() - begun_ms;
}

/* ---- processes ---- */

struct found {
    pid_t pid;
    int pid_fd;
    char directory[MPS_PATH_MAX]; /* directory for which the process was started */
};

static bool is_named_so(const char *name)
{
    return str_starts_with(name, "nvidia-cuda-mps");
}

/* Returns whether the process belongs to MPS, by its name, or by its file if started by another
 * name. */
static bool is_of_mps(pid_t pid)
{
    char path[PID_TEXT_MAX], name[PID_TEXT_MAX] = "", executable[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    (void)!fgets(name, sizeof name, file);
    fclose(file);
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    ssize_t length = readlink(path, executable, sizeof executable - 1);
    executable[length > 0 ? length : 0] = '\0';
    const char *slash = strrchr(executable, '/');
    return is_named_so(name) || (slash && is_named_so(slash + 1));
}

/* Reads the directory of an MPS process. Returns false also for an ended process. Clients have the
 * variable too, so that the name is checked as well. */
static bool read_directory(pid_t pid, char directory[MPS_PATH_MAX])
{
    static const char variable[] = "CUDA_MPS_PIPE_DIRECTORY=";
    char path[PID_TEXT_MAX], block[BLOCK];
    struct str environment;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    int fd = is_of_mps(pid) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return false;
    str_init(&environment, ENVIRON_MAX);
    for (ssize_t n; (n = read(fd, block, sizeof block)) > 0;)
        str_append_bytes(&environment, block, (size_t)n);
    close(fd);
    const char *at = str_text(&environment), *end = at + environment.length;
    for (; at < end && !found; at += strlen(at) + 1)
        found = str_starts_with(at, variable) &&
                str_copy(directory, MPS_PATH_MAX, at + strlen(variable));
    str_done(&environment);
    return found;
}

/* Returns whether path is in parent, also through a symbolic link. */
static bool is_in(const char *path, const char *parent)
{
    char above[MPS_PATH_MAX];
    struct stat a, b;
    const char *slash = strrchr(path, '/');
    snprintf(above, sizeof above, "%.*s", slash ? (int)(slash - path) : 0, path);
    return str_equal(above, parent) || (stat(above, &a) == 0 && stat(parent, &b) == 0 &&
                                        a.st_dev == b.st_dev && a.st_ino == b.st_ino);
}

/* Finds processes; part: last part of their directory, NULL: any. Each pid_fd was opened before its
 * process was identified. */
static size_t find(const char *parent, const char *part, struct found *ret)
{
    struct process_table table;
    size_t count = 0;
    if (process_table_read(&table) < 0)
        return 0;
    for (size_t i = 0; i < table.count && count < FOUND_MAX; i++) {
        struct found *f = &ret[count];
        f->pid = table.items[i].pid;
        if (table.items[i].zombie || !is_of_mps(f->pid) ||
            (f->pid_fd = (int)syscall(SYS_pidfd_open, f->pid, 0)) < 0)
            continue;
        if (read_directory(f->pid, f->directory) && is_in(f->directory, parent) &&
            (!part || str_equal(strrchr(f->directory, '/') + 1, part)))
            count++;
        else
            close(f->pid_fd);
    }
    process_table_done(&table);
    return count;
}

static size_t find_own(const struct mps_control *c, struct found *ret)
{
    char parent[MPS_PATH_MAX];
    const char *slash = strrchr(c->directory, '/');
    snprintf(parent, sizeof parent, "%.*s", (int)(slash - c->directory), c->directory);
    return find(parent, slash + 1, ret);
}

/* Waits until all have ended, or for limit_ms. */
static void await_found(const struct found *found, size_t count, int64_t limit_ms)
{
    int64_t until_ms = clock_boot_ms() + limit_ms, now_ms;
    for (size_t i = 0; i < count && (now_ms = clock_boot_ms()) < until_ms; i++) {
        struct pollfd end = {.fd = found[i].pid_fd, .events = POLLIN};
        (void)poll(&end, 1, (int)(until_ms - now_ms));
    }
}

static void close_found(const struct found *found, size_t count)
{
    for (size_t i = 0; i < count; i++)
        close(found[i].pid_fd);
}

pid_t mps_control_pid(const struct mps_control *c)
{
    char path[MPS_PATH_MAX + sizeof PID_FILE + 1], text[PID_TEXT_MAX] = "";
    snprintf(path, sizeof path, "%s/" PID_FILE, c->directory);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    (void)!fgets(text, sizeof text, file);
    fclose(file);
    long pid = strtol(text, NULL, 10);
    return pid > 1 && pid <= INT32_MAX && is_of_mps((pid_t)pid) ? (pid_t)pid : 0;
}

size_t mps_control_running(const char *parent, char (*ret)[MPS_PATH_MAX], size_t max)
{
    struct found found[FOUND_MAX];
    size_t found_count = find(parent, NULL, found), count = 0;
    for (size_t i = 0; i < found_count; i++) {
        bool is_new = count < max;
        for (size_t k = 0; k < count; k++)
            is_new = is_new && !str_equal(ret[k], found[i].directory);
        if (is_new)
            str_copy(ret[count++], MPS_PATH_MAX, found[i].directory);
    }
    close_found(found, found_count);
    return count;
}

void mps_control_kill(const struct mps_control *c)
{
    struct found found[FOUND_MAX];
    size_t count = 1;
    for (int round = 0; round < KILL_ROUNDS && count > 0; round++) {
        count = find_own(c, found);
        for (size_t i = 0; i < count; i++)
            (void)syscall(SYS_pidfd_send_signal, found[i].pid_fd, SIGKILL, NULL, 0);
        await_found(found, count, KILL_MS);
        close_found(found, count);
    }
}

void mps_control_end(const struct mps_control *c, int limit_ms)
{
    struct found found[FOUND_MAX];
    size_t count = find_own(c, found);
    if (count > 0 && c->program) {
        bool answers = mps_control_ask(NULL, c, "get_server_list", limit_ms, NULL) == 0;
        (void)mps_control_note(NULL, c, ENDED_FILE, answers);
        (void)mps_control_ask(NULL, c, "quit -t 1", QUIT_ANSWER_MS, NULL);
        await_found(found, count, QUIT_MS);
    }
    close_found(found, count);
    mps_control_kill(c);
}

size_t mps_control_parse_pids(const char *answer, pid_t *ret_pids, size_t max)
{
    size_t count = 0;
    char *end;
    for (const char *at = answer; *at && count < max; at = *end ? end + 1 : end) {
        long pid = strtol(at, &end, 10);
        if (end == at) {
            end = (char *)(uintptr_t)(at + strcspn(at, "\n"));
            continue;
        }
        if (pid > 0 && pid <= INT32_MAX)
            ret_pids[count++] = (pid_t)pid;
    }
    return count;
}
