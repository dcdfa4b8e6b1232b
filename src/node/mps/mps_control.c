#include "node/mps/mps_control.h"

#include <dirent.h>
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

#define PID_FILE      "nvidia-cuda-mps-control.pid"
#define ONE_USER_FILE "for_one_user" /* ours; is there if it was started so */

enum {
    BLOCK = 4096,
    BLOCK_UNIT = 512, /* of st_blocks */
    PID_TEXT_MAX = 32,
    LOG_NAME_MAX = 32,
    VARIABLE_MAX = MPS_PATH_MAX + 64,
    KILL_MS = 2000,
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

/* Nothing of ours: a daemon that outlives us must not have what we happened to have. */
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

static int spawn(const struct mps_control *c, char *const *arguments, int in_fd, int out_fd,
                 pid_t *ret_pid)
{
    struct environment environment;
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    make_environment(c, &environment);
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in_fd, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, out_fd, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, out_fd, STDERR_FILENO);
    posix_spawn_file_actions_addchdir_np(&files, "/");
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    int failed =
        posix_spawn(ret_pid, c->program, &files, &attributes, arguments, environment.words);
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

/* Until the process has ended; what it started may keep the pipe open. Else it is killed: an errno, ETIMEDOUT if it took
 * too long. */
static int await_end(pid_t pid, int out_fd, int64_t until_ms, struct str *out, int *ret_status)
{
    int pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    int failed = pid_fd < 0 ? errno : ETIMEDOUT;
    bool ended = false;
    while (pid_fd >= 0 && !ended && clock_boot_ms() < until_ms) {
        struct pollfd polled[] = {{.fd = pid_fd, .events = POLLIN},
                                  {.fd = out_fd, .events = POLLIN}};
        if (poll(polled, 2, (int)(until_ms - clock_boot_ms())) < 0 && errno != EINTR)
            break;
        take_output(out_fd, out);
        ended = polled[0].revents != 0;
        if (polled[1].revents & POLLHUP)
            poll(polled, 1, (int)(until_ms - clock_boot_ms() > 0 ? until_ms - clock_boot_ms() : 0));
        ended = ended || polled[0].revents != 0;
    }
    if (pid_fd >= 0)
        close(pid_fd);
    if (!ended) {
        (void)process_signal_descendants(pid, SIGKILL, NULL); /* a daemon that it just starts */
        kill(pid, SIGKILL);
    }
    while (waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
        ;
    take_output(out_fd, out);
    return ended ? 0 : failed;
}

/* -ERR_IO: it did not run to its end. -ERR_UNAVAILABLE: it did, and says no. */
static int run(struct error *e, const struct mps_control *c, char *const *arguments,
               const char *input, int limit_ms, struct str *out)
{
    int64_t until_ms = clock_boot_ms() + limit_ms;
    int in[2] = {-1, -1}, from[2] = {-1, -1}, status = -1, failed = 0;
    pid_t pid;
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC | O_NONBLOCK) < 0)
        failed = errno;
    if (!failed && input && write(in[1], input, strlen(input)) < 0) /* far less than a pipe takes */
        failed = errno;
    if (!failed)
        failed = spawn(c, arguments, in[0], from[1], &pid);
    for (int i = 0; i < 2; i++)
        if (in[i] >= 0)
            close(in[i]);
    if (from[1] >= 0)
        close(from[1]);
    if (!failed)
        failed = await_end(pid, from[0], until_ms, out, &status);
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

/* ---- its logs ---- */

static void keep_end(int fd, off_t size, const char *path)
{
    char block[BLOCK];
    int kept_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    off_t at = size > MPS_LOG_KEPT ? size - MPS_LOG_KEPT : 0;
    ssize_t n = 0;
    for (; kept_fd >= 0 && at < size && (n = pread(fd, block, sizeof block, at)) > 0; at += n)
        if (write(kept_fd, block, (size_t)n) != n)
            break; /* a full disk: all the more reason to go on */
    if (kept_fd >= 0)
        close(kept_fd);
}

/* By what it takes on the disk: one that is written on where it was, not at its end, has a hole before that. */
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

/* ---- what it is asked ---- */

/* For whoever takes it over; before it is started. */
static int note_users(struct error *e, const struct mps_control *c, bool is_for_one)
{
    char path[MPS_PATH_MAX + sizeof ONE_USER_FILE + 1];
    snprintf(path, sizeof path, "%s/" ONE_USER_FILE, c->directory);
    if (!is_for_one)
        return unlink(path) == 0 || errno == ENOENT
                   ? 0
                   : error_set_errno(e, ERR_IO, errno, "%s cannot be removed", path);
    int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return error_set_errno(e, ERR_IO, errno, "%s cannot be made", path);
    close(fd);
    return 0;
}

static int start(struct error *e, const struct mps_control *c, bool is_multiuser, int limit_ms,
                 struct str *said)
{
    static const char *const arguments[] = {"nvidia-cuda-mps-control", "-d", NULL};
    static const char *const for_all[] = {"nvidia-cuda-mps-control", "-d", "-multiuser-server",
                                          NULL};
    int r = note_users(e, c, !is_multiuser);
    return r < 0 ? r
                 : run(e, c, (char *const *)(uintptr_t)(is_multiuser ? for_all : arguments), NULL,
                       limit_ms, said);
}

bool mps_control_is_for_one_user(const struct mps_control *c)
{
    char path[MPS_PATH_MAX + sizeof ONE_USER_FILE + 1];
    snprintf(path, sizeof path, "%s/" ONE_USER_FILE, c->directory);
    return access(path, F_OK) == 0;
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
    if (r == -ERR_UNAVAILABLE && c->is_multiuser) { /* a driver that has no such server */
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

static bool is_named_so(const char *name)
{
    return str_starts_with(name, "nvidia-cuda-mps");
}

/* The number may be another process's by now. One that was started by another name is known by its file. */
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

void mps_control_kill_servers(const pid_t *pids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_of_mps(pids[i]))
            (void)kill(pids[i], SIGKILL);
}

/* Its servers are its children; a daemon that hangs cannot be asked for them. */
void mps_control_kill(const struct mps_control *c)
{
    pid_t pid = mps_control_pid(c);
    if (pid == 0)
        return;
    int pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    (void)process_signal_descendants(pid, SIGKILL, NULL);
    (void)kill(pid, SIGKILL);
    struct pollfd end = {.fd = pid_fd, .events = POLLIN};
    if (pid_fd >= 0) {
        (void)poll(&end, 1, KILL_MS);
        close(pid_fd);
    }
}

/* The variable's value in a text of them, each with its end; NULL: none. */
static const char *value_in(const struct str *environment, const char *name)
{
    size_t length = strlen(name);
    const char *text = environment->data, *end = text + environment->length;
    for (const char *at = text; text && at < end; at += strlen(at) + 1)
        if (strncmp(at, name, length) == 0 && at[length] == '=')
            return at + length + 1;
    return NULL;
}

static bool is_orphan(pid_t pid, const struct device *devices, int count)
{
    char path[PID_TEXT_MAX], block[BLOCK];
    struct str environment;
    bool known = false;
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    str_init(&environment, MPS_ENVIRONMENT_MAX * VARIABLE_MAX);
    for (ssize_t n; (n = read(fd, block, sizeof block)) > 0;)
        str_append_bytes(&environment, block, (size_t)n);
    close(fd);
    const char *directory = value_in(&environment, "CUDA_MPS_PIPE_DIRECTORY");
    const char *device = value_in(&environment, "CUDA_VISIBLE_DEVICES");
    for (int i = 0; device && i < count; i++)
        known = known || str_equal(devices[i].uuid, device);
    bool orphan = known && directory && strstr(directory, "/mps/") && access(directory, F_OK) < 0 &&
                  errno == ENOENT;
    str_done(&environment);
    return orphan;
}

void mps_control_kill_orphans(const struct device *devices, int count)
{
    DIR *directory = opendir("/proc");
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        if (*end == '\0' && pid > 1 && pid <= INT32_MAX && is_of_mps((pid_t)pid) &&
            is_orphan((pid_t)pid, devices, count))
            (void)kill((pid_t)pid, SIGKILL);
    }
    if (directory)
        closedir(directory);
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
