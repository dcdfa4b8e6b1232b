#include "node/supervisor/supervisor.h"

#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "node/supervisor/attempt_file.h"
#include "node/supervisor/companion.h"
#include "node/supervisor/control_socket.h"
#include "base/durable.h"
#include "node/supervisor/input.h"
#include "node/supervisor/output.h"
#include "node/supervisor/process.h"
#include "node/supervisor/readiness.h"
#include "node/supervisor/latency.h"
#include "node/supervisor/speed.h"
#include "node/supervisor/task.h"

enum {
    CLEAN_GRACE_MAX_MS = 2000, /* grace period of processes that the main process leaves behind */
    /* interval of SIGKILL, because a tree may fork while it is being killed */
    KILL_AGAIN_MS = 20,
    LISTEN_AGAIN_MS = 100,  /* pause after a peer could not be accepted */
    WATCHED_MORE_MS = 5000, /* extra time for a watcher of endings to end the task */
    UNKILLABLE_MS = 2000,   /* longest wait for processes that cannot be signalled */
    READ_BLOCK = 32 << 10,
    EXIT_TRIES = 60,
};

/* Reasons for ending the task; a stronger reason replaces a weaker one. */
enum ending { ENDING_NONE, ENDING_COMMAND, ENDING_TIME_LIMIT, ENDING_LEASE };

struct supervisor {
    int directory_fd, lease_fd, cgroup_fd, started_fd;
    int signal_fd, timer_fd;
    const _Atomic uint64_t *lease; /* mapped; NULL: not bound to a lease */
    struct arena arena;
    struct attempt_grant grant;
    struct task_options task_options;
    struct task task;
    struct attempt_record record;
    struct control_socket control;
    struct readiness readiness;
    struct speed speed;
    struct latency latency[CONTROL_TIMES];
    struct companion companion;
    bool executed;
    struct error start_error; /* code 0: exec succeeded */
    int64_t time_limit_at_ms; /* times on the boot clock; INT64_MAX: never */
    int64_t end_at_ms;        /* end of the grace period of an ending by the supervisor itself */
    int64_t kill_at_ms;
    int64_t unkillable_at_ms;
    struct control_advice advice;     /* newest */
    struct control_followed followed; /* newest */
    int64_t listen_at_ms;             /* end of a pause in accepting peers; INT64_MAX: no pause */
    enum ending ending;
    /* SIGTERM was sent, and is not repeated, because a second one could interrupt saving */
    bool asked;
    bool ended; /* the main process was reaped */
    int wait_status;
    bool childless; /* no process is left */
    struct output output;
    struct input input;
    char block[READ_BLOCK];
    char packet[CONTROL_PACKET_MAX + 1];
};

/* ---- setting up ---- */

static int inherited(int fd)
{
    if (fcntl(fd, F_GETFD) < 0)
        return -1;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

/* Reads up to the end of the line at the descriptor's position, which the agent has set. */
static int read_line(struct error *e, struct supervisor *s, int fd, struct str *text)
{
    const char *end = NULL;
    ssize_t n = 0;
    while (!end && (n = read(fd, s->block, sizeof s->block)) > 0) {
        end = memchr(s->block, '\n', (size_t)n);
        str_append_bytes(text, s->block, end ? (size_t)(end - s->block) : (size_t)n);
    }
    if (n < 0 || str_failed(text))
        return error_set(e, ERR_IO, "its grant cannot be read");
    return 0;
}

static int read_grant(struct error *e, struct supervisor *s, int fd)
{
    struct str text;
    str_init(&text, ATTEMPT_FILE_MAX);
    int r = read_line(e, s, fd, &text);
    close(fd);
    if (r == 0)
        r = attempt_grant_parse(e, &s->arena, str_text(&text), text.length, &s->grant);
    str_done(&text);
    /* releases the memory of parsing, because a supervisor lives as long as its task */
    malloc_trim(0);
    s->task_options = (struct task_options){.command = &s->grant.command,
                                            .environment = &s->grant.environment,
                                            .directory = s->grant.directory,
                                            .input = s->grant.wants_stdin,
                                            .cgroup_fd = s->cgroup_fd};
    return r;
}

static int open_clocks(struct error *e, struct supervisor *s)
{
    sigset_t taken;
    sigemptyset(&taken);
    sigaddset(&taken, SIGCHLD);
    sigaddset(&taken, SIGTERM);
    sigaddset(&taken, SIGINT);
    sigprocmask(SIG_SETMASK, &taken, NULL);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    s->signal_fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
    s->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (s->signal_fd < 0 || s->timer_fd < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return error_set_errno(e, ERR_IO, errno, "the supervisor cannot watch its task");
    return 0;
}

static int map_lease(struct error *e, struct supervisor *s)
{
    if (s->grant.service || s->lease_fd < 0)
        return 0;
    void *page = mmap(NULL, sizeof(uint64_t), PROT_READ, MAP_SHARED, s->lease_fd, 0);
    if (page == MAP_FAILED)
        return error_set_errno(e, ERR_IO, errno, "the lease cannot be mapped");
    s->lease = page;
    return 0;
}

static int write_record(struct error *e, struct supervisor *s)
{
    s->record = (struct attempt_record){.supervisor_pid = getpid(),
                                        .supervisor_start = process_start(getpid()),
                                        .task_pid = s->task.pid,
                                        .task_start = process_start(s->task.pid),
                                        .started_wall_ms = clock_wall_ms()};
    if (!process_boot_id(s->record.boot_id))
        return error_set(e, ERR_IO, "the boot id cannot be read: is /proc mounted?");
    struct str text;
    str_init(&text, ATTEMPT_EXIT_MAX);
    int r = attempt_record_write(&s->record, &text);
    if (r == 0)
        r = durable_write(e, s->directory_fd, "record.json", str_text(&text), text.length);
    str_done(&text);
    return r;
}

/* Prepares everything up to the forked, waiting task with a durable record. */
static int prepare(struct error *e, struct supervisor *s, const char *directory)
{
    s->directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->directory_fd < 0)
        return error_set_errno(e, ERR_IO, errno, "%s cannot be opened", directory);
    int r = read_grant(e, s, SUPERVISOR_GRANT_FD);
    if (r == 0)
        r = open_clocks(e, s);
    if (r == 0)
        r = map_lease(e, s);
    if (r == 0)
        r = durable_reserve(e, s->directory_fd, "exit.json", ATTEMPT_EXIT_MAX);
    if (r == 0)
        r = control_socket_listen(e, s->directory_fd, &s->control);
    if (r == 0)
        r = companion_open(e, &s->companion, &s->arena, &s->grant);
    if (r < 0)
        return r;
    output_init(&s->output, s->directory_fd, s->grant.log_file_bytes, s->grant.log_files);
    r = task_fork(e, &s->task_options, &s->task);
    if (r < 0)
        return r;
    input_init(&s->input, s->task.input_fd);
    s->task.input_fd = -1;
    return write_record(e, s);
}

/* ---- ending the task ---- */

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Kills by the cgroup. Without a writable cgroup only the walk over the process tree kills. */
static void kill_cgroup(const struct supervisor *s)
{
    int fd = s->cgroup_fd < 0 ? -1 : openat(s->cgroup_fd, "task/cgroup.kill", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)!write(fd, "1", 1);
    close(fd);
}

static void kill_everything(struct supervisor *s, int64_t now_ms)
{
    kill_cgroup(s);
    if (!s->ended)
        kill(s->task.pid, SIGKILL);
    size_t forbidden;
    size_t signalled =
        process_signal_descendants(getpid(), process_start(getpid()), SIGKILL, &forbidden);
    if (signalled || !forbidden)
        s->unkillable_at_ms = INT64_MAX;
    else if (s->unkillable_at_ms == INT64_MAX)
        s->unkillable_at_ms = now_ms + UNKILLABLE_MS;
    s->kill_at_ms = now_ms + KILL_AGAIN_MS;
}

static void end_task(struct supervisor *s, enum ending why, int64_t grace_ms, int64_t now_ms)
{
    if (why > s->ending)
        s->ending = why;
    if (grace_ms == 0) {
        kill_everything(s, now_ms);
        return;
    }
    s->kill_at_ms = earlier(s->kill_at_ms, now_ms + grace_ms);
    if (s->ended || s->asked)
        return;
    s->asked = true;
    if (kill(-s->task.pid, SIGTERM) < 0)
        kill(s->task.pid, SIGTERM); /* the child does not lead its session yet */
}

/* Announces the end to watchers, who can end outstanding work first; a kill would harm others on
 * the device. Returns the extra time for a watcher; none after the lease's end, when another node
 * may have the attempt. */
static int64_t tell_ending(struct supervisor *s, enum ending why, int64_t grace_ms)
{
    return control_socket_notify_ending(&s->control, grace_ms) && why != ENDING_LEASE
               ? WATCHED_MORE_MS
               : 0;
}

/* Ends the task without a command, by the supervisor's own decision. */
static void end_by_ourselves(struct supervisor *s, enum ending why, int64_t grace_ms,
                             int64_t now_ms)
{
    s->end_at_ms = earlier(s->end_at_ms, now_ms + grace_ms);
    end_task(s, why, grace_ms + tell_ending(s, why, grace_ms), now_ms);
}

/* Announces an ending in progress to a new watcher. */
static void tell_late(struct supervisor *s, int64_t now_ms)
{
    if (s->end_at_ms == INT64_MAX)
        return;
    int64_t more_ms = tell_ending(s, s->ending, s->end_at_ms > now_ms ? s->end_at_ms - now_ms : 0);
    if (s->kill_at_ms == s->end_at_ms) /* there was no watcher before */
        s->kill_at_ms += more_ms;
}

/* Ends the processes that the main process left behind, after a short grace period. */
static void begin_cleaning(struct supervisor *s, int64_t now_ms)
{
    s->readiness.next_ms = INT64_MAX;
    companion_end(&s->companion);
    process_signal_descendants(getpid(), process_start(getpid()), SIGTERM, NULL);
    end_by_ourselves(s, s->ending, earlier(s->grant.grace_ms, CLEAN_GRACE_MAX_MS), now_ms);
}

/* Returns the time at which the supervisor enforces the lease's end; INT64_MAX: never. */
static int64_t lease_at_ms(const struct supervisor *s)
{
    if (!s->lease || s->ending == ENDING_LEASE || s->ended)
        return INT64_MAX;
    uint64_t deadline_ms = atomic_load_explicit(s->lease, memory_order_relaxed);
    return deadline_ms > INT64_MAX / 2 ? INT64_MAX : (int64_t)deadline_ms + s->grant.fence_ms;
}

static void announce_ready(struct supervisor *s)
{
    durable_replace(NULL, s->directory_fd, "ready", "", 0);
    control_socket_notify(&s->control, CONTROL_CHANGED);
}

static void take_exec_result(struct supervisor *s, int64_t now_ms)
{
    if (task_exec_result(&s->start_error, &s->task, &s->task_options) < 0)
        return;
    s->executed = true;
    if (s->grant.time_limit_ms > 0)
        s->time_limit_at_ms = now_ms + s->grant.time_limit_ms;
    readiness_start(&s->readiness, &s->grant, now_ms);
    companion_step(&s->companion, &s->control, now_ms);
    if (s->readiness.ready)
        announce_ready(s);
}

static void reap(struct supervisor *s, int64_t now_ms)
{
    pid_t pid;
    int wait_status;
    bool was_ended = s->ended;
    while ((pid = waitpid(-1, &wait_status, WNOHANG)) > 0) {
        if (pid == s->task.pid) {
            s->ended = true;
            s->wait_status = wait_status;
        } else if (companion_reaped(&s->companion, pid, now_ms)) {
            continue;
        } else if (readiness_reaped(&s->readiness, pid, wait_status, now_ms) && !s->ended) {
            announce_ready(s);
        }
    }
    s->childless = pid < 0 && errno == ECHILD;
    if (s->ended && !was_ended && !s->childless)
        begin_cleaning(s, now_ms);
}

/* ---- the loop ---- */

static void read_output(struct supervisor *s, int stream)
{
    int *fd = &s->task.output_fds[stream];
    if (*fd < 0)
        return;
    ssize_t n = read(*fd, s->block, sizeof s->block);
    if (n > 0)
        output_append(&s->output, (enum output_stream)stream, s->block, (size_t)n);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        close(*fd);
        *fd = -1;
    }
}

static void take_input(struct supervisor *s, const struct control_command *command,
                       char reply[CONTROL_REPLY_MAX])
{
    if (!s->grant.wants_stdin)
        snprintf(reply, CONTROL_REPLY_MAX, "error it was submitted without standard input");
    else if (!input_take(&s->input, command->offset, command->data, command->length, command->end))
        snprintf(reply, CONTROL_REPLY_MAX, "error input is missing from byte %" PRIu64 " on",
                 s->input.taken);
    else
        control_reply_write_taken(s->input.taken, reply);
}

static void take_progress(struct supervisor *s, uint64_t samples, int64_t now_ms)
{
    double samples_per_s;
    char notice[CONTROL_REPLY_MAX];
    if (!speed_report(&s->speed, samples, now_ms, &samples_per_s))
        return;
    control_notice_write_speed(samples_per_s, notice);
    control_socket_notify(&s->control, notice);
}

static void take_latency(struct supervisor *s, const struct control_command *command,
                         int64_t now_ms, char reply[CONTROL_REPLY_MAX])
{
    struct control_latency measured;
    struct latency *latency = &s->latency[command->time];
    const double targets_ms[CONTROL_TIMES] = {[CONTROL_TIME_LATENCY] = s->grant.slo_latency_ms,
                                              [CONTROL_TIME_FIRST] = s->grant.slo_first_ms,
                                              [CONTROL_TIME_BETWEEN] = s->grant.slo_between_ms};
    latency->target_us = (uint64_t)(targets_ms[command->time] * 1000);
    char notice[CONTROL_REPLY_MAX];
    if (!latency_report(latency, command->data, command->length, now_ms))
        snprintf(reply, CONTROL_REPLY_MAX, "error these are no latencies");
    else if (latency_is_due(latency, now_ms)) {
        double percentile = s->grant.slo_percentile;
        latency_measure(latency, percentile > 0 ? percentile : LATENCY_PERCENTILE, now_ms,
                        &measured);
        control_notice_write_latency(command->time, &measured, notice);
        control_socket_notify(&s->control, notice);
    }
}

static void take_note(struct supervisor *s, const struct control_command *command,
                      char reply[CONTROL_REPLY_MAX])
{
    if (command->length == 0 || command->length > CONTROL_NOTE_MAX ||
        memchr(command->data, '\n', command->length)) {
        snprintf(reply, CONTROL_REPLY_MAX, "error this is no sentence");
        return;
    }
    output_append(&s->output, OUTPUT_STDERR, "gpumux: ", strlen("gpumux: "));
    output_append(&s->output, OUTPUT_STDERR, command->data, command->length);
    output_append(&s->output, OUTPUT_STDERR, "\n", 1);
}

/* Several programs may report: the newest advice that any of them has followed counts. */
static void take_followed(struct supervisor *s, const struct control_followed *followed)
{
    char notice[CONTROL_REPLY_MAX];
    if (followed->sequence < s->followed.sequence ||
        (followed->sequence == s->followed.sequence && followed->batch == s->followed.batch))
        return;
    s->followed = *followed;
    control_notice_write_followed(followed, notice);
    control_socket_notify(&s->control, notice);
}

static void tell_followed(struct supervisor *s)
{
    char notice[CONTROL_REPLY_MAX];
    if (s->followed.sequence == 0 && s->followed.batch == 0)
        return;
    control_notice_write_followed(&s->followed, notice);
    control_socket_notify(&s->control, notice);
}

static void obey(struct supervisor *s, int peer, const struct control_command *command,
                 int64_t now_ms)
{
    char reply[CONTROL_REPLY_MAX] = CONTROL_OK;
    switch (command->kind) {
    case CONTROL_STOP:
        end_task(s, ENDING_COMMAND, command->grace_ms, now_ms);
        break;
    case CONTROL_KILL:
        end_task(s, ENDING_COMMAND, 0, now_ms);
        break;
    case CONTROL_SIGNAL:
        if (s->ended || kill(-s->task.pid, command->signal) < 0)
            snprintf(reply, sizeof reply, "error signal %d: %s", command->signal,
                     s->ended ? "it has ended" : strerror(errno));
        break;
    case CONTROL_INPUT:
        take_input(s, command, reply);
        break;
    case CONTROL_READY:
        if (readiness_told(&s->readiness))
            announce_ready(s);
        break;
    case CONTROL_PROGRESS:
        take_progress(s, command->samples, now_ms);
        break;
    case CONTROL_LATENCY:
        take_latency(s, command, now_ms, reply);
        break;
    case CONTROL_NOTE:
        take_note(s, command, reply);
        break;
    case CONTROL_ADVICE:
        take_followed(s, &command->followed);
        control_reply_write_advice(&s->advice, reply);
        break;
    case CONTROL_ADVISE:
        if (command->advice.sequence >= s->advice.sequence)
            s->advice = command->advice;
        break;
    case CONTROL_WATCH:
        s->control.watches[peer] = true;
        s->control.watches_endings[peer] = command->endings;
        tell_late(s, now_ms);
        tell_followed(s);
        break;
    }
    control_socket_reply(&s->control, peer, reply);
}

static void serve_peer(struct supervisor *s, int peer, int64_t now_ms)
{
    int length = control_socket_receive(&s->control, peer, s->packet);
    if (length <= 0)
        return;
    struct control_command command;
    if (control_command_parse(s->packet, (size_t)length, &command) < 0)
        control_socket_reply(&s->control, peer, "error this is no command");
    else
        obey(s, peer, &command, now_ms);
}

static void take_signals(struct supervisor *s, int64_t now_ms)
{
    struct signalfd_siginfo info;
    while (read(s->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo != SIGCHLD)
            end_by_ourselves(s, ENDING_COMMAND, s->grant.grace_ms, now_ms);
    reap(s, now_ms);
}

static void do_what_is_due(struct supervisor *s, int64_t now_ms)
{
    output_flush(&s->output, false);
    if (now_ms >= s->time_limit_at_ms && !s->ended) {
        s->time_limit_at_ms = INT64_MAX;
        end_by_ourselves(s, ENDING_TIME_LIMIT, s->grant.grace_ms, now_ms);
    }
    if (now_ms >= lease_at_ms(s))
        end_by_ourselves(s, ENDING_LEASE, s->grant.drain_ms, now_ms);
    if (now_ms >= s->kill_at_ms)
        kill_everything(s, now_ms);
    if (now_ms >= s->listen_at_ms)
        s->listen_at_ms = INT64_MAX;
    if (s->executed && !s->ended)
        companion_step(&s->companion, &s->control, now_ms);
    if (s->executed && readiness_step(&s->readiness, now_ms))
        announce_ready(s);
}

static void arm_timer(struct supervisor *s)
{
    int64_t next_ms = earlier(output_next_flush(&s->output), s->kill_at_ms);
    next_ms = earlier(next_ms, lease_at_ms(s));
    next_ms = earlier(next_ms, s->listen_at_ms);
    if (!s->ended)
        next_ms = earlier(next_ms, s->time_limit_at_ms);
    if (s->executed)
        next_ms = earlier(next_ms, s->readiness.next_ms);
    if (s->executed && !s->ended)
        next_ms = earlier(next_ms, s->companion.start_ms);
    struct itimerspec when = {0};
    if (next_ms != INT64_MAX)
        when.it_value =
            (struct timespec){.tv_sec = next_ms / 1000, .tv_nsec = next_ms % 1000 * 1000000 + 1};
    timerfd_settime(s->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

enum { AT_SIGNAL, AT_TIMER, AT_LISTEN, AT_OUTPUT, AT_ERROR, AT_INPUT, AT_STATUS, AT_PEERS };

static void step(struct supervisor *s)
{
    struct pollfd at[AT_PEERS + CONTROL_PEERS_MAX] = {
        [AT_SIGNAL] = {.fd = s->signal_fd, .events = POLLIN},
        [AT_TIMER] = {.fd = s->timer_fd, .events = POLLIN},
        [AT_LISTEN] = {.fd = s->listen_at_ms == INT64_MAX ? s->control.listen_fd : -1,
                       .events = POLLIN},
        [AT_OUTPUT] = {.fd = s->task.output_fds[0], .events = POLLIN},
        [AT_ERROR] = {.fd = s->task.output_fds[1], .events = POLLIN},
        [AT_INPUT] = {.fd = s->input.length ? s->input.fd : -1, .events = POLLOUT},
        [AT_STATUS] = {.fd = s->task.status_fd, .events = POLLIN},
    };
    for (int i = 0; i < CONTROL_PEERS_MAX; i++)
        at[AT_PEERS + i] = (struct pollfd){.fd = s->control.peers[i], .events = POLLIN};
    arm_timer(s);
    if (poll(at, AT_PEERS + CONTROL_PEERS_MAX, -1) <= 0)
        return;
    int64_t now_ms = clock_boot_ms();
    if (at[AT_STATUS].revents)
        take_exec_result(s, now_ms);
    if (at[AT_OUTPUT].revents)
        read_output(s, OUTPUT_STDOUT);
    if (at[AT_ERROR].revents)
        read_output(s, OUTPUT_STDERR);
    if (at[AT_INPUT].revents)
        input_write(&s->input);
    for (int i = 0; i < CONTROL_PEERS_MAX; i++)
        if (at[AT_PEERS + i].revents && s->control.peers[i] >= 0)
            serve_peer(s, i, now_ms);
    if (at[AT_LISTEN].revents && !control_socket_accept(&s->control))
        s->listen_at_ms = now_ms + LISTEN_AGAIN_MS;
    if (at[AT_SIGNAL].revents)
        take_signals(s, now_ms);
    if (at[AT_TIMER].revents) {
        uint64_t times;
        (void)!read(s->timer_fd, &times, sizeof times);
        do_what_is_due(s, now_ms);
    }
}

static bool is_over(const struct supervisor *s)
{
    return s->ended && (s->childless || clock_boot_ms() >= s->unkillable_at_ms);
}

/* ---- the end ---- */

/* Reads the remaining output without waiting, because a foreign process may hold a pipe open. */
static void drain_output(struct supervisor *s)
{
    for (int stream = 0; stream < OUTPUT_STREAMS; stream++) {
        ssize_t n;
        int fd = s->task.output_fds[stream];
        while (fd >= 0 && (n = read(fd, s->block, sizeof s->block)) > 0)
            output_append(&s->output, (enum output_stream)stream, s->block, (size_t)n);
    }
    output_flush(&s->output, true);
    output_done(&s->output);
}

static void describe_end(const struct supervisor *s, struct attempt_report *exit)
{
    int code = WIFEXITED(s->wait_status) ? WEXITSTATUS(s->wait_status) : -1;
    int signal = WIFSIGNALED(s->wait_status) ? WTERMSIG(s->wait_status) : 0;
    *exit = (struct attempt_report){.workload = s->grant.workload,
                                    .attempt = s->grant.attempt,
                                    .phase = ATTEMPT_EXITED,
                                    .started_wall_ms = s->record.started_wall_ms,
                                    .ended_wall_ms = clock_wall_ms(),
                                    .exit_code = code,
                                    .signal = signal};
    size_t size = sizeof exit->text;
    if (s->start_error.code) {
        exit->failure = FAILURE_START;
        exit->never_ran = true;
        exit->exit_code = -1;
        exit->started_wall_ms = 0;
        str_copy(exit->text, size, s->start_error.text);
    } else if (s->ending == ENDING_LEASE) {
        /* Not the task's own failure: no reason, but a signal for the forced end. */
        exit->signal = signal ? signal : SIGTERM;
        snprintf(exit->text, size, "its lease ended: the node had lost control for too long");
    } else if (s->ending == ENDING_TIME_LIMIT) {
        exit->failure = FAILURE_TIMEOUT;
        snprintf(exit->text, size, "it ran longer than its time limit of %.3g s",
                 (double)s->grant.time_limit_ms / 1000);
    } else if (signal) {
        exit->failure = FAILURE_SIGNAL;
        snprintf(exit->text, size, "ended by signal %d (%s)", signal, strsignal(signal));
    } else if (code != 0) {
        exit->failure = FAILURE_EXIT;
        snprintf(exit->text, size, "ended with exit code %d", code);
    }
}

static int write_exit(struct supervisor *s)
{
    struct attempt_report exit;
    describe_end(s, &exit);
    struct str text;
    str_init(&text, ATTEMPT_EXIT_MAX);
    int r = attempt_exit_write(&exit, &text);
    for (int i = 0; r == 0 && i < EXIT_TRIES; i++) {
        r = durable_write(NULL, s->directory_fd, "exit.json", str_text(&text), text.length);
        struct stat st;
        if (r == 0 || fstatat(s->directory_fd, "record.json", &st, AT_SYMLINK_NOFOLLOW) < 0)
            break; /* written, or the directory was deleted */
        sleep(1);
        r = 0;
    }
    str_done(&text);
    return r;
}

/* Releases the task. A task of a stale grant may run on another node by now, even if the lease was
 * extended meanwhile. */
static void begin(struct supervisor *s, int64_t now_ms)
{
    if (!s->lease || now_ms < s->grant.begin_by_ms) {
        task_release(&s->task);
        return;
    }
    task_close(&s->task); /* the child never execs, so nobody waits for a result */
    end_task(s, ENDING_LEASE, 0, now_ms);
}

static int run(struct supervisor *s, const char *directory)
{
    struct error e = {0};
    if (prepare(&e, s, directory) < 0) {
        if (s->started_fd >= 0)
            (void)!write(s->started_fd, e.text, strlen(e.text));
        return 1;
    }
    if (s->started_fd >= 0)
        close(s->started_fd);
    s->started_fd = -1;
    begin(s, clock_boot_ms());
    while (!is_over(s))
        step(s);
    if (s->task.status_fd >= 0)
        take_exec_result(s, clock_boot_ms());
    drain_output(s);
    return write_exit(s) < 0 ? 1 : 0;
}

int supervisor_main(const char *directory)
{
    struct supervisor *s = calloc(1, sizeof *s);
    if (!s)
        return 1;
    inherited(SUPERVISOR_LOCK_FD); /* kept open, which holds the lock until this process ends */
    s->lease_fd = inherited(SUPERVISOR_LEASE_FD);
    s->cgroup_fd = inherited(SUPERVISOR_CGROUP_FD);
    s->started_fd = inherited(SUPERVISOR_STARTED_FD);
    inherited(SUPERVISOR_LEDGER_FD); /* kept open as long as the attempt */
    s->time_limit_at_ms = s->kill_at_ms = s->unkillable_at_ms = INT64_MAX;
    s->end_at_ms = s->listen_at_ms = INT64_MAX;
    s->readiness.next_ms = INT64_MAX;
    arena_init(&s->arena, ATTEMPT_FILE_MAX);
    umask(077);
    prctl(PR_SET_NAME, "gpumux-superv");
    int status = run(s, directory);
    arena_done(&s->arena);
    free(s);
    return status;
}
