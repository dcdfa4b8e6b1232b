#include "node/agent_fixture.h"

#include <event2/event.h>
#include <poll.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/version.h"
#include "node/agent.h"
#include "base/durable.h"
#include "node/supervisor/supervisor.h"

/* ---- the agent's process ---- */

static void on_stop(evutil_socket_t fd, short what, void *base)
{
    (void)fd;
    (void)what;
    event_base_loopbreak(base);
}

static int run_agent(int argc, char **argv)
{
    struct arena arena;
    struct config config;
    struct error e = {0};
    struct log log;
    arena_init(&arena, 1 << 20);
    log_init(&log, 2, LOG_ERROR, false);
    config_default(&arena, &config);
    for (int i = 4; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        *equals = '\0';
        if (config_set(&e, &arena, &config, argv[i], equals + 1) < 0)
            return 2;
    }
    struct event_base *base = event_base_new();
    struct agent_options options = {
        .directory = argv[2], .control_socket = argv[3], .config = &config, .log = &log};
    struct agent *agent = NULL;
    signal(SIGPIPE, SIG_IGN);
    if (agent_new(&e, base, &options, &agent) < 0) {
        fprintf(stderr, "%s\n", e.text);
        event_base_free(base);
        arena_done(&arena);
        return e.code == ERR_BUSY ? 3 : 1;
    }
    struct event *stop = evsignal_new(base, SIGTERM, on_stop, base);
    event_add(stop, NULL);
    event_base_dispatch(base);
    agent_free(agent);
    event_free(stop);
    (void)event_base_loop(base, EVLOOP_NONBLOCK); /* frees streams that wait for the next turn */
    event_base_free(base);
    arena_done(&arena);
    return 0;
}

pid_t fork_agent(struct fixture *f, int error_fd)
{
    const char *arguments[SETTINGS_MAX + 5] = {"agent_test", "agent", f->directory, f->socket};
    memcpy(&arguments[4], f->settings, f->setting_count * sizeof *arguments);
    pid_t pid = fork();
    if (pid == 0) {
        if (error_fd >= 0)
            dup2(error_fd, 2);
        execv("/proc/self/exe", (char *const *)(uintptr_t)arguments);
        _exit(99);
    }
    return pid;
}

/* ---- messages ---- */

void hang_up(struct fixture *f)
{
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
    f->length = 0;
}

static void send_bytes(struct fixture *f, const char *bytes, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t n = send(f->fd, bytes + done, length - done, MSG_NOSIGNAL);
        if (n < 0)
            break; /* the agent was killed; the test notices by the missing answer */
        done += (size_t)n;
    }
}

void send_message(struct fixture *f, const struct nodemsg *msg)
{
    struct str line;
    str_init(&line, LINE_BYTES);
    assert_int_equal(nodemsg_write(msg, &line), 0);
    send_bytes(f, str_text(&line), line.length);
    str_done(&line);
}

void send_part(struct fixture *f, const struct nodemsg *msg, size_t bytes)
{
    struct str line;
    str_init(&line, LINE_BYTES);
    assert_int_equal(nodemsg_write(msg, &line), 0);
    size_t length = line.length - 1 < bytes ? line.length - 1 : bytes;
    send_bytes(f, str_text(&line), length);
    str_done(&line);
}

void send_welcome(struct fixture *f)
{
    f->session++;
    f->sequence = 0;
    const struct nodemsg welcome = {.type = NODEMSG_WELCOME,
                                    .protocol = NODEMSG_PROTOCOL,
                                    .version = GPUMUX_VERSION,
                                    .session = f->session,
                                    .lease_ms = f->lease_ms,
                                    .fence_ms = f->fence_ms,
                                    .drain_ms = f->drain_ms};
    send_message(f, &welcome);
}

/* Moves the first complete line of the buffer into f->msg. */
static bool parse_line(struct fixture *f)
{
    char *newline = memchr(f->line, '\n', f->length);
    if (!newline)
        return false;
    size_t length = (size_t)(newline - f->line);
    struct error e;
    arena_done(&f->arena);
    arena_init(&f->arena, 64 << 20);
    assert_int_equal(nodemsg_parse(&e, &f->arena, f->line, length, &f->msg), 0);
    f->length -= length + 1;
    memmove(f->line, newline + 1, f->length);
    return true;
}

bool receive(struct fixture *f, int64_t wait_ms)
{
    int64_t deadline_ms = clock_boot_ms() + wait_ms;
    for (;;) {
        if (parse_line(f)) {
            if (f->msg.type != NODEMSG_BEAT)
                return true;
            const struct nodemsg beat = {
                .type = NODEMSG_BEAT, .session = f->session, .beat = f->msg.beat};
            if (!f->silent)
                send_message(f, &beat);
            continue;
        }
        int64_t left_ms = deadline_ms - clock_boot_ms();
        struct pollfd at = {.fd = f->fd >= 0 ? f->fd : f->listen_fd, .events = POLLIN};
        if (left_ms <= 0 || poll(&at, 1, (int)left_ms) <= 0)
            return false;
        if (f->fd < 0) {
            f->fd = accept4(f->listen_fd, NULL, NULL, SOCK_CLOEXEC);
            continue;
        }
        ssize_t n = recv(f->fd, f->line + f->length, LINE_BYTES - f->length, 0);
        if (n <= 0)
            hang_up(f);
        else
            f->length += (size_t)n;
    }
}

void receive_type(struct fixture *f, enum nodemsg_type type)
{
    do
        assert_true(receive(f, DEADLINE_MS));
    while (f->msg.type != type);
}

void join(struct fixture *f)
{
    receive_type(f, NODEMSG_HELLO);
    send_welcome(f);
}

void start_agent(struct fixture *f)
{
    f->pid = fork_agent(f, -1);
    join(f);
}

void kill_agent(struct fixture *f)
{
    kill(f->pid, SIGKILL);
    waitpid(f->pid, NULL, 0);
    f->pid = 0;
    hang_up(f);
}

void stop_agent(struct fixture *f)
{
    int status;
    kill(f->pid, SIGTERM);
    wait_until(waitpid(f->pid, &status, WNOHANG) == f->pid);
    f->pid = 0;
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    hang_up(f);
}

const struct attempt_report *wait_phase(struct fixture *f, uint64_t workload,
                                        enum attempt_phase phase)
{
    for (;;) {
        assert_true(receive(f, DEADLINE_MS));
        if (f->msg.type == NODEMSG_REPORT && f->msg.attempts[0].workload == workload &&
            f->msg.attempts[0].phase >= phase)
            return &f->msg.attempts[0];
    }
}

struct nodemsg make_grant(struct fixture *f, uint64_t workload, uint32_t uid, const char *json)
{
    return (struct nodemsg){.type = NODEMSG_GRANT,
                            .session = f->session,
                            .sequence = ++f->sequence,
                            .grant = {.workload = workload,
                                      .attempt = 1,
                                      .array_index = -1,
                                      .name = "work",
                                      .uid = uid,
                                      .user = "somebody",
                                      .spec_json = json}};
}

void send_grant_as(struct fixture *f, uint64_t workload, uint32_t uid, const char *json)
{
    const struct nodemsg msg = make_grant(f, workload, uid, json);
    send_message(f, &msg);
}

struct nodemsg make_order(struct fixture *f, enum nodemsg_type type, uint64_t workload,
                          int64_t grace_ms)
{
    return (struct nodemsg){.type = type,
                            .session = f->session,
                            .sequence = ++f->sequence,
                            .workload = workload,
                            .attempt = 1,
                            .grace_ms = grace_ms};
}

void send_order(struct fixture *f, enum nodemsg_type type, uint64_t workload, int64_t grace_ms)
{
    const struct nodemsg msg = make_order(f, type, workload, grace_ms);
    send_message(f, &msg);
}

const char *spec(struct fixture *f, const char *script, const char *more)
{
    char *text = arena_printf(&f->arena,
                              "{\"version\":1,\"kind\":\"task\",\"name\":\"work\",\"devices\":0,"
                              "\"directory\":\"/\",\"environment\":{\"PATH\":\"/usr/bin:/bin\","
                              "\"TOP\":\"%s\"},\"command\":[\"sh\",\"-c\",\"%s\"]%s}",
                              f->top, script, more);
    assert_non_null(text);
    return text;
}

void grant(struct fixture *f, uint64_t workload, const char *script, const char *more)
{
    send_grant_as(f, workload, geteuid(), spec(f, script, more));
}

size_t read_output(struct fixture *f, uint64_t workload, char *text, size_t size)
{
    uint64_t offset = 0;
    for (;;) {
        const struct nodemsg read = {.type = NODEMSG_READ,
                                     .request = 77,
                                     .workload = workload,
                                     .attempt = 1,
                                     .offset = offset,
                                     .wait_ms = 1000,
                                     .max = 100};
        send_message(f, &read);
        receive_type(f, NODEMSG_LOG);
        assert_int_equal(f->msg.request, 77);
        assert_int_equal(f->msg.result, 0);
        assert_true(f->msg.offset >= offset && f->msg.length <= 100);
        assert_true(offset + f->msg.length < size);
        if (f->msg.length)
            memcpy(text + offset, f->msg.data, f->msg.length);
        offset += f->msg.length;
        text[offset] = '\0';
        if (f->msg.end)
            return offset;
    }
}

bool has_path(const struct fixture *f, const char *path)
{
    char whole[256];
    struct stat st;
    snprintf(whole, sizeof whole, "%s/%s", f->directory, path);
    return lstat(whole, &st) == 0;
}

const char *read_file(const struct fixture *f, const char *name, char text[256])
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", f->top, name);
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(text, 1, 255, file) : 0;
    if (file)
        fclose(file);
    text[n] = '\0';
    return n && text[n - 1] == '\n' ? text : NULL;
}

bool is_dead(long pid)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "re");
    if (file && !fgets(text, sizeof text, file))
        text[0] = '\0';
    if (file)
        fclose(file);
    const char *after = strrchr(text, ')');
    return !after || after[2] == 'Z' || after[2] == 'X';
}

/* ---- set up ---- */

int fixture_setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    snprintf(f->top, sizeof f->top, "/tmp/gpumux-agent-XXXXXX");
    assert_non_null(mkdtemp(f->top));
    assert_int_equal(chmod(f->top, 0777), 0);
    snprintf(f->directory, sizeof f->directory, "%s/node", f->top);
    snprintf(f->socket, sizeof f->socket, "%s/s", f->top);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    str_copy(address.sun_path, sizeof address.sun_path, f->socket);
    f->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(f->listen_fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(f->listen_fd, 8), 0);
    f->fd = -1;
    f->line = malloc(LINE_BYTES);
    arena_init(&f->arena, 64 << 20);
    f->lease_ms = LEASE_MS;
    f->settings[f->setting_count++] = "allow_root=true";
    f->settings[f->setting_count++] = "cgroup=off";
    f->settings[f->setting_count++] = "beat=50ms";
    *state = f;
    return 0;
}

int fixture_teardown(void **state)
{
    struct fixture *f = *state;
    if (f->pid)
        kill_agent(f);
    hang_up(f);
    close(f->listen_fd);
    assert_int_equal(durable_remove_tree(NULL, AT_FDCWD, f->top), 0);
    arena_done(&f->arena);
    free(f->line);
    free(f);
    return 0;
}

bool fixture_main(int argc, char **argv, int *ret_status)
{
    if (argc == 3 && strcmp(argv[1], "supervise") == 0)
        *ret_status = supervisor_main(".");
    else if (argc >= 4 && strcmp(argv[1], "agent") == 0)
        *ret_status = run_agent(argc, argv);
    else
        return false;
    return true;
}
