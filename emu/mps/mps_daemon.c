#include "emu/mps/mps_daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "emu/abi/cuda_abi.h"
#include "emu/device/client.h"
#include "emu/mps/mps_log.h"

enum {
    TICK_MS = 20,          /* between two checks whether a leaving server has clients */
    SEND_TIMEOUT_S = 1,    /* for a peer that sends requests and does not read */
    LAST_ANSWER_MS = 500,  /* after this time, a server that was told to end is killed */
    ALONE_MS = 1000,       /* between two checks whether a client can still reach the daemon */
    ACCEPT_AGAIN_MS = 100, /* after accept failed for want of a descriptor or memory */
};
#define LOCK_NAME   "control_lock"
#define PID_NAME    "nvidia-cuda-mps-control.pid"
#define SERVER_NAME "nvidia-cuda-mps-server"

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Writes a file in the pipe directory. */
static bool write_file(const char *name, const char *text)
{
    char path[PATH_MAX];
    if (!mps_pipe_path(name, path, sizeof(path)))
        return false;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return false;
    bool written = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return written;
}

static void remove_file(const char *name)
{
    char path[PATH_MAX];
    if (mps_pipe_path(name, path, sizeof(path)))
        unlink(path);
}

static int listen_there(struct error *e, int *ret_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!mps_pipe_path(MPS_SOCKET_NAME, address.sun_path, sizeof(address.sun_path)))
        return error_set(e, ERR_INVALID, "the pipe directory's path is too long for a socket: %s",
                         mps_pipe_directory());
    unlink(address.sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot make a socket");
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        chmod(address.sun_path, 0666) < 0 || listen(fd, MPS_CONNECTIONS_MAX) < 0) {
        int r = error_set_errno(e, ERR_IO, errno, "cannot listen at %s", address.sun_path);
        close(fd);
        return r;
    }
    *ret_fd = fd;
    return 0;
}

static int lock_directory(struct error *e, int *ret_fd)
{
    char path[PATH_MAX];
    (void)mkdir(mps_pipe_directory(), 0755);
    if (!mps_pipe_path(LOCK_NAME, path, sizeof(path)))
        return error_set(e, ERR_INVALID, "the pipe directory's path is too long");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot open %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        close(fd);
        return error_set(e, ERR_BUSY, "An instance of this daemon is already running");
    }
    *ret_fd = fd;
    return 0;
}

static struct mps_settings settings_of_environment(void)
{
    struct mps_settings settings = {.percentage = MPS_PERCENTAGE_FULL};
    const char *percentage = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    if (percentage)
        (void)mps_parse_percentage(percentage, &settings.percentage);
    return settings;
}

int mps_daemon_open(struct error *e, struct mps_daemon *daemon, bool is_multiuser)
{
    char pid[32];
    *daemon = (struct mps_daemon){
        .is_multiuser = is_multiuser,
        .defaults = settings_of_environment(),
        .server = {.fd = -1},
        .quit_at_ms = -1,
    };
    int r = lock_directory(e, &daemon->lock_fd);
    if (r < 0)
        return r;
    r = listen_there(e, &daemon->listen_fd);
    if (r < 0) {
        close(daemon->lock_fd);
        return r;
    }
    snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
    write_file(PID_NAME, pid);
    write_file(MPS_MARKER_NAME, "");
    daemon->log = mps_log_open("control.log");
    mps_log(daemon->log, "Control", "Starting control daemon in %s", mps_pipe_directory());
    return 0;
}

void mps_daemon_close(struct mps_daemon *daemon)
{
    mps_log(daemon->log, "Control", "Exit with status 0");
    remove_file(MPS_SOCKET_NAME);
    remove_file(MPS_MARKER_NAME);
    remove_file(PID_NAME);
    close(daemon->listen_fd);
    close(daemon->lock_fd);
    /* Closed last: a peer that waits for the end may start the next daemon at once. */
    for (unsigned i = 0; i < daemon->connection_count; i++)
        close(daemon->connections[i].fd);
    if (daemon->log)
        fclose(daemon->log);
}

/* Makes the forked child the server. */
static void become_server(const struct mps_daemon *daemon, int fd, uid_t uid)
{
    char path[PATH_MAX], number[16];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - sizeof(SERVER_NAME));
    if (length <= 0)
        return;
    path[length] = '\0';
    char *name = strrchr(path, '/') + 1;
    str_copy(name, sizeof(path) - (size_t)(name - path), SERVER_NAME);
    if (!daemon->is_multiuser && uid != getuid() && setuid(uid) < 0)
        return;
    if (fcntl(fd, F_SETFD, 0) < 0)
        return;
    snprintf(number, sizeof(number), "%d", fd);
    execl(path, SERVER_NAME, number, (char *)NULL);
}

/* Notices that the server has ended, and notifies its clients. */
static void forget_server(struct mps_daemon *daemon)
{
    struct mapping mapping;
    int status = 0;
    close(daemon->server.fd);
    waitpid(daemon->server.pid, &status, 0);
    mps_log(daemon->log, "Control", "Server %d exited with status %d", (int)daemon->server.pid,
            WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    daemon->server = (struct mps_server){.fd = -1};
    if (mapping_open_from_environment(NULL, &mapping) < 0)
        return;
    for (unsigned i = 0; i < mapping.file->device_count; i++) {
        struct device device;
        device_init(&device, &mapping, i);
        device_lock_now(&device);
        client_reap(&device);
        device_unlock(&device);
    }
    mapping_close(&mapping);
}

/* Reads up to a NUL, without a time limit or until until_ms. */
static bool read_reply(int fd, int64_t until_ms, struct str *reply)
{
    for (;;) {
        char c;
        struct pollfd polled = {.fd = fd, .events = POLLIN};
        int64_t left_ms = until_ms - now_ms();
        if (until_ms >= 0 && poll(&polled, 1, left_ms > 0 ? (int)left_ms : 0) == 0)
            return false;
        ssize_t n = read(fd, &c, 1);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        if (n == 1 && c == '\0')
            return true;
        if (n == 1)
            str_append_char(reply, c);
    }
}

/* Asks the server, and kills it if it does not answer in time. */
static bool ask_until(struct mps_daemon *daemon, const char *request, int64_t until_ms,
                      struct str *reply)
{
    char line[MPS_LINE_BYTES_MAX];
    int length = snprintf(line, sizeof(line), "%s\n", request);
    if (send(daemon->server.fd, line, (size_t)length, MSG_NOSIGNAL) == length &&
        read_reply(daemon->server.fd, until_ms, reply))
        return true;
    if (until_ms >= 0)
        kill(daemon->server.pid, SIGKILL);
    forget_server(daemon);
    return false;
}

bool mps_daemon_ask(struct mps_daemon *daemon, const char *request, struct str *reply)
{
    return ask_until(daemon, request, -1, reply);
}

static void read_served(const char *text, struct visible_among *served)
{
    const char *at = text + strcspn(text, " ");
    char *end;
    for (;;) {
        unsigned long index = strtoul(at, &end, 10);
        if (end == at || served->count == EMU_DEVICES_MAX)
            return;
        served->devices[served->count++] = (uint8_t)index;
        at = end;
    }
}

bool mps_daemon_start_server(struct mps_daemon *daemon, uid_t uid)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        become_server(daemon, ends[1], uid);
        _exit(1);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return false;
    }
    mps_log(daemon->log, "Control", "Starting new server %d for user %u", (int)pid, (unsigned)uid);
    daemon->server = (struct mps_server){
        .pid = pid,
        .uid = uid,
        .fd = ends[0],
        .settings = daemon->defaults,
    };
    struct str reply;
    str_init(&reply, MPS_REPLY_BYTES_MAX);
    bool ready = read_reply(ends[0], -1, &reply);
    if (ready)
        read_served(str_text(&reply), &daemon->server.served);
    else
        forget_server(daemon);
    str_done(&reply);
    return ready;
}

void mps_daemon_end_server(struct mps_daemon *daemon)
{
    struct pollfd end = {.fd = daemon->server.fd, .events = POLLIN};
    shutdown(daemon->server.fd, SHUT_WR);
    if (poll(&end, 1, LAST_ANSWER_MS) <= 0)
        kill(daemon->server.pid, SIGKILL);
    forget_server(daemon);
}

static void close_connection(struct mps_daemon *daemon, unsigned index)
{
    close(daemon->connections[index].fd);
    daemon->connections[index] = daemon->connections[--daemon->connection_count];
}

static void welcome(struct mps_daemon *daemon, unsigned index, int result)
{
    struct mps_connection *connection = &daemon->connections[index];
    const struct mps_server *server = &daemon->server;
    struct mps_welcome answer = {
        .version = MPS_WELCOME_VERSION,
        .result = result,
        .server_pid = server->pid,
        .percentage = server->settings.percentage,
        .priority = server->settings.priority,
        .served = server->served,
    };
    for (unsigned i = 0; i < EMU_DEVICES_MAX; i++) {
        if (!mps_parse_bytes(server->settings.limits[i], &answer.limits_bytes[i]))
            answer.limits_bytes[i] = 0;
    }
    mps_log(daemon->log, "Control", "NEW CLIENT %d from user %u: result %d", (int)connection->pid,
            (unsigned)connection->uid, result);
    (void)send(connection->fd, &answer, sizeof(answer), MSG_NOSIGNAL);
    close_connection(daemon, index);
}

/* Returns the client that has waited longest, or -1. */
static int next_client(const struct mps_daemon *daemon)
{
    int found = -1;
    for (unsigned i = 0; i < daemon->connection_count; i++) {
        const struct mps_connection *connection = &daemon->connections[i];
        if (connection->peer == MPS_PEER_CLIENT &&
            (found < 0 || connection->arrival < daemon->connections[found].arrival))
            found = (int)i;
    }
    return found;
}

static int admit(struct mps_daemon *daemon, pid_t pid)
{
    char request[MPS_LINE_BYTES_MAX];
    struct str reply;
    str_init(&reply, MPS_REPLY_BYTES_MAX);
    snprintf(request, sizeof(request), "admit %d", (int)pid);
    int result = mps_daemon_ask(daemon, request, &reply) ? (int)strtol(str_text(&reply), NULL, 10)
                                                         : CUDA_ERROR_MPS_CONNECTION_FAILED;
    str_done(&reply);
    return result;
}

static void serve_clients(struct mps_daemon *daemon)
{
    int index;
    while ((index = next_client(daemon)) >= 0) {
        const struct mps_connection *client = &daemon->connections[index];
        struct mps_server *server = &daemon->server;
        uid_t uid = daemon->is_multiuser ? getuid() : client->uid;
        if (server->pid != 0 && server->uid != uid)
            server->is_leaving = true;
        if (server->pid != 0 && server->is_leaving && !daemon->is_quitting)
            return;
        if (daemon->is_quitting || (server->pid == 0 && !mps_daemon_start_server(daemon, uid)))
            welcome(daemon, (unsigned)index, CUDA_ERROR_MPS_CONNECTION_FAILED);
        else
            welcome(daemon, (unsigned)index, admit(daemon, client->pid));
    }
}

static void end_if_left(struct mps_daemon *daemon)
{
    struct str reply;
    if (daemon->server.pid == 0 || !daemon->server.is_leaving)
        return;
    bool is_due = daemon->quit_at_ms >= 0 && now_ms() >= daemon->quit_at_ms;
    str_init(&reply, MPS_REPLY_BYTES_MAX);
    if (is_due || (ask_until(daemon, "count", daemon->quit_at_ms, &reply) &&
                   str_equal(str_text(&reply), "0")))
        mps_daemon_end_server(daemon);
    str_done(&reply);
}

/* A failed accept pauses new connections: the waiting connection would wake the daemon again and
 * again. */
static void take_connection(struct mps_daemon *daemon)
{
    int fd = accept4(daemon->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) {
        if (errno != EAGAIN)
            daemon->accept_at_ms = now_ms() + ACCEPT_AGAIN_MS;
        return;
    }
    struct ucred credentials;
    socklen_t length = sizeof(credentials);
    struct timeval timeout = {.tv_sec = SEND_TIMEOUT_S};
    if (daemon->connection_count == MPS_CONNECTIONS_MAX ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) < 0) {
        close(fd);
        return;
    }
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    daemon->connections[daemon->connection_count++] = (struct mps_connection){
        .fd = fd,
        .pid = credentials.pid,
        .uid = credentials.uid,
        .arrival = daemon->arrivals++,
    };
}

/* Returns false if the connection must be closed. */
static bool handle_line(struct mps_daemon *daemon, struct mps_connection *connection,
                        const char *line)
{
    if (connection->peer == MPS_PEER_NEW) {
        bool is_client = strncmp(line, MPS_HELLO_CLIENT, strlen(line)) == 0;
        bool is_allowed = is_client || connection->uid == 0 || connection->uid == getuid();
        connection->peer = is_client ? MPS_PEER_CLIENT : MPS_PEER_CONTROL;
        return is_allowed;
    }
    if (connection->peer != MPS_PEER_CONTROL)
        return false;
    struct str reply;
    str_init(&reply, MPS_REPLY_BYTES_MAX);
    mps_log(daemon->log, "Control", "Cmd:%s", line);
    if (!mps_command(daemon, line, &reply))
        connection->peer = MPS_PEER_WAITS_FOR_END;
    const char *text = str_text(&reply);
    size_t bytes = strlen(text) + 1;
    bool kept = connection->peer == MPS_PEER_WAITS_FOR_END ||
                send(connection->fd, text, bytes, MSG_NOSIGNAL) == (ssize_t)bytes;
    str_done(&reply);
    return kept;
}

/* Returns false if the connection must be closed. */
static bool read_lines(struct mps_daemon *daemon, struct mps_connection *connection)
{
    char *line = connection->line, *end;
    ssize_t n = recv(connection->fd, line + connection->line_length,
                     sizeof(connection->line) - 1 - connection->line_length, MSG_DONTWAIT);
    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    connection->line_length += (size_t)n;
    line[connection->line_length] = '\0';
    while ((end = strchr(line, '\n')) != NULL) {
        *end = '\0';
        if (!handle_line(daemon, connection, line))
            return false;
        connection->line_length -= (size_t)(end + 1 - line);
        memmove(line, end + 1, connection->line_length + 1);
    }
    return connection->line_length < sizeof(connection->line) - 1;
}

static void wait_for_work(struct mps_daemon *daemon)
{
    enum { OTHERS = 2 };
    struct pollfd polled[OTHERS + MPS_CONNECTIONS_MAX];
    unsigned count = daemon->connection_count;
    pid_t server_pid = daemon->server.pid;
    bool is_accepting = now_ms() >= daemon->accept_at_ms;
    polled[0] = (struct pollfd){.fd = is_accepting ? daemon->listen_fd : -1, .events = POLLIN};
    polled[1] = (struct pollfd){.fd = daemon->server.fd, .events = POLLIN};
    for (unsigned i = 0; i < count; i++)
        polled[OTHERS + i] = (struct pollfd){.fd = daemon->connections[i].fd, .events = POLLIN};
    bool is_leaving = server_pid != 0 && daemon->server.is_leaving;
    int wait_ms = is_leaving ? TICK_MS : is_accepting ? ALONE_MS : ACCEPT_AGAIN_MS;
    if (poll(polled, OTHERS + count, wait_ms) <= 0)
        return;
    if (server_pid != 0 && polled[1].revents != 0)
        forget_server(daemon); /* the server never sends without a request */
    for (unsigned i = count; i > 0; i--) {
        if (polled[OTHERS + i - 1].revents != 0 && !read_lines(daemon, &daemon->connections[i - 1]))
            close_connection(daemon, i - 1);
    }
    if (polled[0].revents != 0)
        take_connection(daemon);
}

/* The real daemon would run for ever. This one is made for tests, and ends when its directory is
 * removed. */
static void quit_if_unreachable(struct mps_daemon *daemon)
{
    char path[PATH_MAX];
    if (!mps_pipe_path(MPS_SOCKET_NAME, path, sizeof(path)) || access(path, F_OK) == 0 ||
        errno != ENOENT)
        return;
    daemon->is_quitting = daemon->server.is_leaving = true;
    daemon->quit_at_ms = now_ms();
}

void mps_daemon_run(struct mps_daemon *daemon)
{
    while (!daemon->is_quitting || daemon->server.pid != 0) {
        wait_for_work(daemon);
        quit_if_unreachable(daemon);
        end_if_left(daemon);
        serve_clients(daemon);
    }
}
