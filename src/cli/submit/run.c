/*
 * gpumux run: submits one workload and stands in for it: forwards output, input and signals, and
 * returns the workload's exit code. The command is level-triggered: events only trigger a look at
 * the workload, and the response determines the action. So a restart of gpumux has no effect.
 */
#include "cli/submit/submit.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/connect/follow.h"
#include "model/workload.h"

enum {
    INPUT_PIECE_BYTES = 64 << 10,
    INPUT_RETRY_MS = 50,  /* while the workload takes no input */
    LOOK_AGAIN_MS = 2000, /* reasons for waiting may change without an event */
    SETTLE_MS = 20,       /* between the end of the output and that of the state */
    INTERRUPTS_MAX = 2,   /* cancel, kill; the next one only detaches */
    USER_RETRY_MS = 2000, /* for user actions while gpumux is away */
    EXIT_CANNOT_START = 127,
    EXIT_SIGNAL_BASE = 128,
};

struct run {
    struct client *client;
    char id[24], path[48];
    struct follow_events events;
    struct follow_output output;
    bool output_open;
    bool stale;           /* the workload may have changed */
    int64_t look_boot_ms; /* time of the next look */
    int64_t began_boot_ms;
    int attempt;                  /* whose output is shown; 0: none yet */
    bool attempt_over;            /* all its output has been shown */
    bool running, terminal;       /* at the last look */
    json_t *workload;             /* at the last look */
    char said[WORKLOAD_TEXT_MAX]; /* last reason for waiting shown */
    bool quiet;
    int interrupts;
    bool output_lost; /* standard output is closed */
    /* input */
    bool input_open, input_ended;
    int input_attempt;
    uint64_t input_offset;
    size_t input_length;
    int64_t input_boot_ms; /* time before which nothing is sent */
    char input[INPUT_PIECE_BYTES];
};

static int write_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t n = write(fd, bytes, length);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return -1;
        if (n < 0) {
            struct pollfd p = {.fd = fd, .events = POLLOUT};
            (void)poll(&p, 1, -1);
            continue;
        }
        bytes += n;
        length -= (size_t)n;
    }
    return 0;
}

static int show_line(void *arg, const struct logline *line)
{
    struct run *run = arg;
    int fd = line->is_stderr ? STDERR_FILENO : STDOUT_FILENO;
    if (run->output_lost && !line->is_stderr)
        return 0;
    if (write_all(fd, line->text, line->length) < 0 ||
        (line->is_full && write_all(fd, "\n", 1) < 0))
        run->output_lost = run->output_lost || !line->is_stderr;
    return 0;
}

static int note_event(void *arg, const struct sse_event *event)
{
    (void)event;
    ((struct run *)arg)->stale = true;
    return 0;
}

/* ---- user actions ---- */

static int post(struct error *e, struct run *run, const char *suffix, const char *body)
{
    return client_request(e, run->client, "POST",
                          client_path(run->client, "workloads", run->id, suffix), body,
                          USER_RETRY_MS, NULL);
}

static void cancel(struct run *run, bool at_once)
{
    struct error e = {0};
    int r = post(&e, run, "/cancel", at_once ? "{\"grace\": \"0s\"}" : NULL);
    if (r < 0 && r != -ERR_CONFLICT)
        client_fail(run->client, &e);
    run->stale = true;
}

static void interrupt(struct run *run)
{
    run->interrupts++;
    if (!run->quiet)
        fprintf(stderr, "\ngpumux: %s %s\n", run->id,
                run->interrupts == 1   ? "is being cancelled; Ctrl-C again kills the workload"
                : run->interrupts == 2 ? "is being killed; Ctrl-C again leaves the workload running"
                                       : "is left running; 'gpumux cancel' ends the workload");
    if (run->interrupts <= INTERRUPTS_MAX)
        cancel(run, run->interrupts > 1);
}

static void forward_signal(struct run *run, int number)
{
    struct error e = {0};
    char body[64];
    snprintf(body, sizeof body, "{\"signal\": %d}", number);
    int r = post(&e, run, "/signal", body);
    if (r == 0)
        return;
    /* The workload does not run: a signal that would end it cancels the wait. */
    if (number == SIGTERM || number == SIGHUP)
        cancel(run, false);
    else
        client_fail(run->client, &e);
}

static void take_signals(struct run *run, int fd)
{
    struct signalfd_siginfo info;
    while (read(fd, &info, sizeof info) == (ssize_t)sizeof info) {
        int number = (int)info.ssi_signo;
        if (number == SIGINT)
            interrupt(run);
        else
            forward_signal(run, number);
    }
}

/* ---- input ---- */

/* Returns whether to forward input: not from /dev/null, a closed file, or a terminal of another
 * process group. */
static bool has_input(void)
{
    struct stat st;
    if (fstat(STDIN_FILENO, &st) < 0)
        return false;
    if (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3))
        return false;
    return !isatty(STDIN_FILENO) || tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static void read_input(struct run *run)
{
    ssize_t n = read(STDIN_FILENO, run->input, sizeof run->input);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n > 0)
        run->input_length = (size_t)n;
    else
        run->input_ended = true;
}

/* Sends the piece that was read, or the end. Refused input is sent again later. */
static void send_input(struct run *run)
{
    struct str target;
    str_init(&target, 256);
    str_printf(&target, "/v1/workloads/%s/input?offset=%llu%s", run->id,
               (unsigned long long)run->input_offset, run->input_length ? "" : "&end=1");
    struct http_call call = {.method = "POST",
                             .target = str_text(&target),
                             .content_type = "application/octet-stream",
                             .body = run->input,
                             .body_length = run->input_length,
                             .timeout_ms = CLIENT_TIMEOUT_MS};
    struct error e = {0};
    int r = client_call(&e, run->client, &call, 0, NULL);
    str_done(&target);
    if (r < 0) {
        run->input_boot_ms = clock_boot_ms() + INPUT_RETRY_MS;
        return;
    }
    if (run->input_length == 0)
        run->input_open = false;
    run->input_offset += run->input_length;
    run->input_length = 0;
}

static bool may_send_input(const struct run *run)
{
    return run->input_open && run->running && !run->attempt_over &&
           (run->input_length > 0 || run->input_ended) && clock_boot_ms() >= run->input_boot_ms;
}

/* Input is not stored, so a later attempt gets only its end. */
static void begin_attempt_input(struct run *run)
{
    if (run->input_attempt != 0 && run->input_attempt != run->attempt) {
        run->input_offset = 0;
        run->input_length = 0;
        run->input_ended = run->input_open = true;
    }
    run->input_attempt = run->attempt;
}

/* ---- output and state ---- */

static const json_t *find_attempt(const json_t *workload, int number)
{
    const json_t *attempts = json_object_get(workload, "attempts");
    for (size_t i = 0; i < json_array_size(attempts); i++) {
        const json_t *a = json_array_get(attempts, i);
        if (json_number(a, "number", 0) == number)
            return a;
    }
    return NULL;
}

/* Returns whether the attempt has ended, or is so old that it is no longer kept. */
static bool attempt_has_ended(const json_t *workload, int number)
{
    const json_t *a = find_attempt(workload, number);
    return a ? json_is_string(json_object_get(a, "ended"))
             : number < json_number(workload, "attempt", 0);
}

static void tell_waiting(struct run *run)
{
    if (!run->quiet && clock_boot_ms() >= run->began_boot_ms + FOLLOW_QUIET_MS)
        follow_tell_waiting(run->workload, run->said);
}

static int open_output(struct error *e, struct run *run, int attempt)
{
    if (run->output_open)
        follow_output_done(&run->output);
    run->attempt = attempt;
    run->attempt_over = false;
    run->output_open = true;
    begin_attempt_input(run);
    return follow_output_init(e, &run->output, run->client, run->id, attempt, true, show_line, run);
}

static int look(struct error *e, struct run *run)
{
    json_t *workload = NULL;
    run->stale = false;
    /* Later looks do not wait for gpumux, because the user may act meanwhile. */
    int r = client_request(e, run->client, "GET", run->path, NULL,
                           run->workload ? 0 : CLIENT_RETRY_MS, &workload);
    bool away = (r == -ERR_UNAVAILABLE || r == -ERR_PROTOCOL) && !run->client->answered;
    if (away && run->workload) {
        run->look_boot_ms = clock_boot_ms() + FOLLOW_RETRY_MS;
        return 0;
    }
    if (r < 0)
        return r;
    json_decref(run->workload);
    run->workload = workload;
    const char *name = json_text(workload, "state", "");
    enum workload_state state;
    if (workload_state_parse(name, &state) < 0)
        return error_set(e, ERR_PROTOCOL, "unknown state '%s'", name);
    run->running = state == WORKLOAD_RUNNING || state == WORKLOAD_STARTING;
    run->terminal = workload_state_is_terminal(state);
    tell_waiting(run);
    int newest = (int)json_number(workload, "attempt", 0);
    if (run->attempt > 0 && !run->attempt_over)
        return 0;
    return newest > run->attempt ? open_output(e, run, run->attempt + 1) : 0;
}

/* Shows the available output of the attempt. */
static int step_output(struct error *e, struct run *run)
{
    bool ended = false;
    int r = follow_output_step(e, &run->output, 0, &ended);
    if (r == -ERR_NOT_FOUND) {
        ended = true; /* no longer kept: no output */
    } else if (r == -ERR_UNAVAILABLE && run->client->answered) {
        fprintf(stderr,
                "gpumux: the rest of the output is missing: %s\n"
                "  gpumux logs %s   shows the output when the node is back\n",
                e->text, run->id);
        ended = true;
    } else if (r < 0) {
        return r;
    }
    if (!ended)
        return 0;
    r = look(e, run);
    if (r < 0)
        return r;
    run->attempt_over = attempt_has_ended(run->workload, run->attempt) || run->terminal;
    run->look_boot_ms = clock_boot_ms() + (run->attempt_over ? 0 : SETTLE_MS);
    return 0;
}

static bool is_over(const struct run *run)
{
    int newest = (int)json_number(run->workload, "attempt", 0);
    return run->terminal && (newest == 0 || (run->attempt >= newest && run->attempt_over));
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int wait_ms(const struct run *run)
{
    int64_t now = clock_boot_ms();
    int64_t until = run->stale ? now : run->look_boot_ms;
    until = sooner(until, follow_next_try(&run->events.follow));
    if (run->output_open && !run->attempt_over)
        until = sooner(until, follow_next_try(&run->output.follow));
    if (run->input_open && run->running && (run->input_length || run->input_ended))
        until = sooner(until, run->input_boot_ms);
    return until > now ? (int)(until - now) : 0;
}

static int turn(struct error *e, struct run *run, int signals)
{
    bool reads = run->input_open && run->input_length == 0 && !run->input_ended && run->running;
    bool follows = run->output_open && !run->attempt_over;
    struct pollfd fds[] = {
        {.fd = signals, .events = POLLIN},
        {.fd = follow_fd(&run->events.follow), .events = POLLIN},
        {.fd = follows ? follow_fd(&run->output.follow) : -1, .events = POLLIN},
        {.fd = reads ? STDIN_FILENO : -1, .events = POLLIN},
    };
    if (poll(fds, sizeof fds / sizeof fds[0], wait_ms(run)) < 0 && errno != EINTR)
        return error_set_errno(e, ERR_IO, errno, "cannot wait for events");
    take_signals(run, signals);
    if (fds[3].revents)
        read_input(run);
    if (may_send_input(run))
        send_input(run);
    int r = follow_events_step(e, &run->events, 0);
    if (follow_lost_place(r))
        r = follow_revision(e, run->client, &run->events.since);
    if (r == 0 && follows)
        r = step_output(e, run);
    if (r == 0 && run->output_lost && run->interrupts == 0) {
        run->interrupts++;
        cancel(run, false);
    }
    if (r == 0 && (run->stale || clock_boot_ms() >= run->look_boot_ms)) {
        run->look_boot_ms = clock_boot_ms() + LOOK_AGAIN_MS;
        r = look(e, run);
    }
    return r;
}

/* ---- main loop ---- */

static int exit_status(const struct run *run)
{
    const json_t *w = run->workload;
    if (!run->terminal)
        return EXIT_SIGNAL_BASE + SIGINT;
    int64_t code = json_number(w, "exit_code", -1), signal_number = json_number(w, "signal", 0);
    const char *state = json_text(w, "state", ""), *text = json_text(w, "text", "");
    if (!run->quiet && strcmp(state, "succeeded") != 0)
        fprintf(stderr, "gpumux: %s %s%s%s\n", run->id, state, *text ? ": " : "", text);
    if (strcmp(state, "succeeded") == 0)
        return COMMAND_OK;
    if (signal_number > 0)
        return EXIT_SIGNAL_BASE + (int)signal_number;
    if (code > 0)
        return (int)code;
    if (strcmp(state, "cancelled") == 0)
        return EXIT_SIGNAL_BASE + SIGINT;
    return strcmp(json_text(w, "failure", ""), "start") == 0 ? EXIT_CANNOT_START : COMMAND_FAILED;
}

/* Signals arrive through a descriptor and interrupt nothing. */
static int open_signals(struct error *e)
{
    sigset_t set;
    sigemptyset(&set);
    const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sigaddset(&set, numbers[i]);
    signal(SIGPIPE, SIG_IGN);
    int fd = -1;
    if (sigprocmask(SIG_BLOCK, &set, NULL) == 0)
        fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? error_set_errno(e, ERR_IO, errno, "cannot catch signals") : fd;
}

static int follow_to_end(struct run *run, int signals)
{
    struct error e = {0};
    uint64_t revision = 0;
    int r = follow_revision(&e, run->client, &revision);
    if (r == 0)
        r = follow_events_init(&e, &run->events, run->client, run->id, revision, note_event, run);
    bool events_open = r == 0;
    if (r == 0)
        r = look(&e, run);
    run->look_boot_ms = run->began_boot_ms + FOLLOW_QUIET_MS;
    while (r == 0 && !is_over(run) && run->interrupts <= INTERRUPTS_MAX)
        r = turn(&e, run, signals);
    if (events_open)
        follow_events_done(&run->events);
    if (run->output_open)
        follow_output_done(&run->output);
    return r < 0 ? client_fail(run->client, &e) : exit_status(run);
}

static int run_client(struct client *c, int signals)
{
    const struct invocation *in = c->in;
    struct run run = {.client = c,
                      .quiet = option_given(in, "quiet"),
                      .began_boot_ms = clock_boot_ms(),
                      .input_open = !option_given(in, "no-stdin") && has_input()};
    json_t *answer = NULL;
    struct submit_request request = {.wants_stdin = run.input_open};
    int status = submit_send(c, &request, &answer);
    const json_t *workloads = json_object_get(answer, "workloads");
    if (status == COMMAND_OK) {
        snprintf(run.id, sizeof run.id, "%lld",
                 (long long)json_number(json_array_get(workloads, 0), "id", 0));
        snprintf(run.path, sizeof run.path, "/v1/workloads/%s", run.id);
        status = follow_to_end(&run, signals);
    }
    json_decref(answer);
    json_decref(run.workload);
    return status;
}

int run_command(const struct invocation *in)
{
    struct client c;
    int status = client_init(&c, in);
    if (status != COMMAND_OK)
        return status;
    struct error e = {0};
    int signals = open_signals(&e);
    status = signals < 0 ? command_fail(in, &e) : run_client(&c, signals);
    if (signals >= 0)
        close(signals);
    client_done(&c);
    return status;
}
