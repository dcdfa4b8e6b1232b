/* The agent against a simulated control. */
#include "node/agent_fixture.h"

#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/rng.h"
#include "node/agent_internal.h"
#include "node/supervisor/attempt_file.h"
#include "node/cgroup.h"
#include "base/durable.h"
#include "node/attempt/retention.h"

/* Makes $TOP/NAME, for which a task waits. */
static void make_file(const struct fixture *f, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", f->top, name);
    assert_int_equal(close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644)), 0);
}

/* ---- life of an attempt ---- */

static void attempt_runs_from_grant_to_settle(void **state)
{
    struct fixture *f = *state;
    start_agent(f);
    assert_int_equal(f->msg.attempt_count, 0);
    grant(f, 5,
          "echo hello; echo $GPUMUX_WORKLOAD_ID:$GPUMUX_WORKLOAD_NAME; "
          "until [ -e $TOP/end ]; do sleep 0.01; done; exit 3",
          "");
    assert_int_equal(wait_phase(f, 5, ATTEMPT_ACCEPTED)->phase, ATTEMPT_ACCEPTED);
    const struct attempt_report *report = wait_phase(f, 5, ATTEMPT_RUNNING);
    assert_int_equal(report->phase, ATTEMPT_RUNNING);
    assert_true(report->started_wall_ms > 0);
    make_file(f, "end");
    report = wait_phase(f, 5, ATTEMPT_EXITED);
    assert_int_equal(report->failure, FAILURE_EXIT);
    assert_int_equal(report->exit_code, 3);
    assert_true(has_path(f, "attempts/5.1/exit.json"));
    char text[1024];
    read_output(f, 5, text, sizeof text);
    assert_non_null(strstr(text, " stdout F hello\n"));
    assert_non_null(strstr(text, " stdout F 5:work\n"));
    /* A repeated grant is answered, but not obeyed. */
    grant(f, 5, "exit 0", "");
    assert_int_equal(wait_phase(f, 5, ATTEMPT_EXITED)->exit_code, 3);
    send_order(f, NODEMSG_SETTLE, 5, 0);
    /* The lock is removed last, so that the files exist as long as the lock. */
    wait_until(!has_path(f, "attempts/5.1") && has_path(f, "finished/5.1") &&
               !has_path(f, "locks/5.1"));
    char again[1024];
    read_output(f, 5, again, sizeof again);
    assert_string_equal(text, again);
    /* Likewise after settling. */
    grant(f, 5, "exit 0", "");
    assert_int_equal(wait_phase(f, 5, ATTEMPT_EXITED)->exit_code, 3);
}

static void orders_reach_running_task(void **state)
{
    struct fixture *f = *state;
    start_agent(f);
    grant(
        f, 1,
        "trap 'echo bye; exit 4' TERM; echo up; cat; echo > $TOP/all; while :; do sleep 0.01; done",
        ",\"stdin\":true");
    wait_phase(f, 1, ATTEMPT_RUNNING);
    /* More than the pipe and the supervisor buffer. */
    size_t length = NODEMSG_DATA_MAX;
    char *data = malloc(length);
    memset(data, 'x', length);
    for (size_t i = 63; i < length; i += 64)
        data[i] = '\n';
    struct nodemsg input = {.type = NODEMSG_INPUT,
                            .request = 8,
                            .workload = 1,
                            .attempt = 1,
                            .data = data,
                            .length = length,
                            .end = true};
    for (int i = 0; i < 2; i++) { /* the second time the input is known already */
        send_message(f, &input);
        receive_type(f, NODEMSG_DONE);
        assert_int_equal(f->msg.request, 8);
        assert_int_equal(f->msg.result, 0);
    }
    free(data);
    struct nodemsg signal = {
        .type = NODEMSG_SIGNAL, .request = 9, .workload = 1, .attempt = 1, .signal = SIGCONT};
    send_message(f, &signal);
    receive_type(f, NODEMSG_DONE);
    assert_int_equal(f->msg.result, 0);
    /* Taken input is not read yet: a stop now would end cat too early. */
    char *text = malloc(1 << 20);
    wait_until(read_file(f, "all", text));
    send_order(f, NODEMSG_STOP, 1, 30000);
    send_order(f, NODEMSG_STOP, 1, 30000);
    assert_int_equal(wait_phase(f, 1, ATTEMPT_EXITED)->exit_code, 4);
    read_output(f, 1, text, 1 << 20);
    size_t count = 0;
    for (const char *c = text; *c; c++)
        count += *c == 'x';
    assert_int_equal(count, length / 64 * 63);
    assert_non_null(strstr(text, "stdout F bye\n"));
    free(text);
    signal.request = 10;
    send_message(f, &signal);
    receive_type(f, NODEMSG_DONE);
    assert_int_equal(f->msg.result, -ERR_CONFLICT);
}

static void stop_before_grant_prevents_run(void **state)
{
    struct fixture *f = *state;
    start_agent(f);
    send_order(f, NODEMSG_STOP, 9, 0);
    const struct attempt_report *report = wait_phase(f, 9, ATTEMPT_EXITED);
    assert_true(report->never_ran);
    assert_int_equal(report->failure, FAILURE_NONE);
    kill_agent(f);
    start_agent(f);
    assert_int_equal(f->msg.attempt_count, 1);
    assert_true(f->msg.attempts[0].never_ran);
    grant(f, 9, "touch $TOP/ran", "");
    assert_true(wait_phase(f, 9, ATTEMPT_EXITED)->never_ran);
    send_order(f, NODEMSG_SETTLE, 9, 0);
    wait_until(!has_path(f, "attempts/9.1"));
    grant(f, 9, "touch $TOP/ran", "");
    assert_true(wait_phase(f, 9, ATTEMPT_EXITED)->never_ran);
    assert_false(has_path(f, "../ran"));
}

static void resume_command_needs_earlier_run(void **state)
{
    struct fixture *f = *state;
    start_agent(f);
    for (int ran_before = 0; ran_before <= 1; ran_before++) {
        struct nodemsg msg =
            make_grant(f, (uint64_t)ran_before + 1, geteuid(),
                       spec(f, "exit 3", ",\"resume\":[\"sh\",\"-c\",\"exit 4\"]"));
        msg.grant.attempt = 2;
        msg.grant.ran_before = ran_before;
        send_message(f, &msg);
        assert_int_equal(wait_phase(f, msg.grant.workload, ATTEMPT_EXITED)->exit_code,
                         3 + ran_before);
    }
}

static void stale_orders_are_dropped(void **state)
{
    struct fixture *f = *state;
    start_agent(f);
    f->sequence = 10;
    grant(f, 1, "exit 0", "");
    wait_phase(f, 1, ATTEMPT_EXITED);
    f->sequence = 5;
    send_order(f, NODEMSG_STOP, 2, 0); /* stale sequence */
    f->session--;
    f->sequence = 20;
    send_order(f, NODEMSG_STOP, 3, 0); /* stale session */
    f->session++;
    send_order(f, NODEMSG_STOP, 4, 0);
    /* The stream is ordered: once 4 is answered, 2 and 3 were dropped. */
    wait_phase(f, 4, ATTEMPT_EXITED);
    assert_false(has_path(f, "attempts/2.1"));
    assert_false(has_path(f, "attempts/3.1"));
}

static void refusals_state_their_reason(void **state)
{
    struct fixture *f = *state;
    f->settings[0] = "allow_root=false";
    start_agent(f);
    grant(f, 1, "exit 0", "");
    const struct attempt_report *report = wait_phase(f, 1, ATTEMPT_EXITED);
    if (geteuid() == 0) {
        assert_int_equal(report->failure, FAILURE_START);
        assert_true(report->never_ran);
        assert_non_null(strstr(report->text, "allow_root"));
    } else {
        assert_int_equal(report->failure, FAILURE_NONE);
    }
    send_grant_as(f, 2, geteuid(), spec(f, "exit 0", ",\"user\":\"no-such-user\""));
    report = wait_phase(f, 2, ATTEMPT_EXITED);
    assert_int_equal(report->failure, FAILURE_START);
    assert_non_null(strstr(report->text, "no-such-user"));
    /* A second agent cannot run in the same directory. */
    int errors[2];
    assert_int_equal(pipe2(errors, O_CLOEXEC), 0);
    pid_t pid = fork_agent(f, errors[1]);
    close(errors[1]);
    int status;
    wait_until(waitpid(pid, &status, WNOHANG) == pid);
    assert_int_equal(WEXITSTATUS(status), 3);
    char text[512];
    ssize_t n = read(errors[0], text, sizeof text - 1);
    close(errors[0]);
    assert_true(n > 0);
    text[n] = '\0';
    assert_non_null(strstr(text, "agent.lock"));
}

/* ---- deaths ---- */

static void restarted_agent_adopts_attempts(void **state)
{
    struct fixture *f = *state;
    start_agent(f);
    grant(f, 1, "echo up; while [ ! -e $TOP/go ]; do sleep 0.01; done; echo on; exit 6", "");
    wait_phase(f, 1, ATTEMPT_RUNNING);
    grant(f, 2, "while [ ! -e $TOP/gone ]; do sleep 0.01; done; exit 7", "");
    wait_phase(f, 2, ATTEMPT_RUNNING);
    kill_agent(f);
    char path[128], text[1024];
    snprintf(path, sizeof path, "%s/gone", f->top);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    wait_until(has_path(f, "attempts/2.1/exit.json"));
    start_agent(f);
    assert_int_equal(f->msg.attempt_count, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct attempt_report *report = &f->msg.attempts[i];
        if (report->workload == 1)
            assert_int_equal(report->phase, ATTEMPT_RUNNING);
        else
            assert_int_equal(report->phase == ATTEMPT_EXITED ? report->exit_code : 7, 7);
    }
    wait_phase(f, 2, ATTEMPT_EXITED);
    snprintf(path, sizeof path, "%s/go", f->top);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    assert_int_equal(wait_phase(f, 1, ATTEMPT_EXITED)->exit_code, 6);
    read_output(f, 1, text, sizeof text);
    assert_non_null(strstr(text, "stdout F up\n"));
    assert_non_null(strstr(text, "stdout F on\n"));
}

/* A task that replaces the socket of its supervisor, and closes every connection at once. Writes
 * the number of connections to the file. */
static int replace_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *control = getenv("GPUMUX_CONTROL");
    if (!control || !str_copy(address.sun_path, sizeof address.sun_path, control))
        return 1;
    int listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (unlink(control) < 0 || bind(listen_fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(listen_fd, 1) < 0)
        return 1;
    for (int taken = 0;; taken++) {
        char text[16];
        int length = snprintf(text, sizeof text, "%d\n", taken);
        if (pwrite(file, text, (size_t)length, 0) != length)
            return 1;
        close(accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC));
    }
}

static long taken_so_far(const struct fixture *f)
{
    char text[256];
    return read_file(f, "taken", text) ? strtol(text, NULL, 10) : -1;
}

static void task_behind_hijacked_socket_is_stopped(void **state)
{
    enum { SOME = MAILBOX_LETTERS_MAX + 1, MOST_A_SECOND = 20, MOST_AT_FIRST = 20 };
    struct fixture *f = *state;
    start_agent(f);
    grant(f, 1, "exec /proc/$PPID/exe replace $TOP/taken", "");
    wait_phase(f, 1, ATTEMPT_RUNNING);
    wait_until(taken_so_far(f) >= 0); /* the agent may have connected already */
    kill_agent(f);
    int64_t since_ms = clock_boot_ms();
    start_agent(f);
    wait_until(taken_so_far(f) >= SOME);
    send_order(f, NODEMSG_STOP, 1, 30000);
    assert_int_equal(wait_phase(f, 1, ATTEMPT_EXITED)->signal, SIGTERM);
    int64_t most = MOST_AT_FIRST + (clock_boot_ms() - since_ms) * MOST_A_SECOND / 1000;
    assert_true(taken_so_far(f) <= most);
}

/* Makes the test act as supervisor of attempt 1.1. */
static int stand_in(const struct fixture *f)
{
    const struct timeval limit = {.tv_sec = DEADLINE_MS / 1000};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path, sizeof address.sun_path, "%s/attempts/1.1/%s",
                          f->directory, CONTROL_SOCKET_NAME);
    assert_true(length < (int)sizeof address.sun_path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(unlink(address.sun_path), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    return fd;
}

/* Checks the agent's next command. */
static void hear(int fd, const char *word)
{
    char packet[256];
    ssize_t n = recv(fd, packet, sizeof packet - 1, 0);
    assert_true(n > 0);
    packet[n] = '\0';
    assert_string_equal(packet, word);
}

static void say(int fd, const char *word)
{
    assert_int_equal(send(fd, word, strlen(word), MSG_NOSIGNAL), strlen(word));
}

/* A supervisor that supports endings and reports one; then an older supervisor without endings. */
static void agent_supports_old_and_new_supervisors(void **state)
{
    struct fixture *f = *state;
    char text[256];
    start_agent(f);
    grant(f, 1, "echo $PPID > $TOP/super; exec sleep 1000", "");
    wait_phase(f, 1, ATTEMPT_RUNNING);
    wait_until(read_file(f, "super", text));
    kill_agent(f);
    int listen_fd = stand_in(f);
    start_agent(f);
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
    hear(fd, "watch endings");
    say(fd, "ok");
    say(fd, "ending 70000");
    hear(fd, "stop 70000");
    say(fd, "ending 60000"); /* the answer is still to come */
    say(fd, "ok");
    hear(fd, "stop 60000");
    say(fd, "ok");
    close(fd);
    fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
    hear(fd, "watch endings");
    say(fd, "error this is no command");
    hear(fd, "watch");
    say(fd, "ok");
    send_order(f, NODEMSG_STOP, 1, 50000);
    hear(fd, "stop 50000");
    say(fd, "ok");
    kill((pid_t)strtol(text, NULL, 10), SIGTERM);
    wait_phase(f, 1, ATTEMPT_EXITED);
    close(fd);
    close(listen_fd);
}

/* Kills the supervisor: its task dies, remaining processes are killed, and the attempt has
 * failed. */
static void kill_supervisor(struct fixture *f, bool agent_too)
{
    start_agent(f);
    grant(f, 1,
          "grep ^0:: /proc/self/cgroup > $TOP/group; "
          "setsid sleep 1000 & echo $! > $TOP/child; echo $PPID > $TOP/super; wait",
          "");
    char text[256];
    wait_until(read_file(f, "super", text));
    long supervisor = strtol(text, NULL, 10);
    wait_until(read_file(f, "child", text));
    long child = strtol(text, NULL, 10);
    if (agent_too)
        kill_agent(f);
    kill((pid_t)supervisor, SIGKILL);
    if (agent_too)
        start_agent(f);
    const struct attempt_report *report = wait_phase(f, 1, ATTEMPT_EXITED);
    assert_int_equal(report->failure, FAILURE_SIGNAL);
    assert_false(report->never_ran);
    assert_non_null(strstr(report->text, "supervisor"));
    wait_until(is_dead(child)); /* the kernel may still be ending it, for lack of memory */
    assert_true(has_path(f, "attempts/1.1/exit.json"));
}

static void killed_supervisor_fails_attempt(void **state)
{
    kill_supervisor(*state, false);
}

static void supervisor_killed_without_agent_fails_attempt(void **state)
{
    kill_supervisor(*state, true);
}

static bool have_cgroup(void)
{
    int fd = -1;
    if (cgroup_open(NULL, "auto", "probe", &fd) < 0 || fd < 0)
        return false;
    cgroup_close(fd, "probe");
    return true;
}

static void supervisor_killed_in_cgroup_fails_attempt(void **state)
{
    struct fixture *f = *state;
    char group[256];
    if (!have_cgroup()) {
        print_message("skipped: no cgroup v2 hierarchy is writable here\n");
        skip();
    }
    f->settings[1] = "cgroup=auto";
    kill_supervisor(f, false);
    assert_non_null(read_file(f, "group", group));
    assert_non_null(strstr(group, "/1.1/task"));
    stop_agent(f); /* removes the empty group */
}

/* The user can rewrite the exit record; the end that was reported to control stays. */
static void reported_end_outlives_exit_record(void **state)
{
    struct fixture *f = *state;
    char path[128];
    start_agent(f);
    grant(f, 1, "exit 7", "");
    assert_int_equal(wait_phase(f, 1, ATTEMPT_EXITED)->exit_code, 7);
    kill_agent(f);
    snprintf(path, sizeof path, "%s/attempts/1.1/exit.json", f->directory);
    assert_int_equal(unlink(path), 0);
    start_agent(f);
    const struct attempt_report *report = wait_phase(f, 1, ATTEMPT_EXITED);
    assert_int_equal(report->failure, FAILURE_EXIT);
    assert_int_equal(report->exit_code, 7);
    assert_true(has_path(f, "attempts/1.1/exit.json"));
}

/*
 * The agent is killed repeatedly, at any moment. Control repeats its grants; every task runs
 * exactly once, and its end is reported.
 */
static void killed_agent_runs_each_task_once(void **state)
{
    enum { TASKS = 24, KILLS = 24 };
    struct fixture *f = *state;
    struct rng rng;
    uint64_t seed = rng_os_seed();
    rng_seed(&rng, seed);
    print_message("seed %llu\n", (unsigned long long)seed);
    bool ended[TASKS] = {false};
    size_t open_count = TASKS;
    for (int kills = 0; open_count > 0;) {
        if (!f->pid)
            start_agent(f);
        for (uint64_t i = 0; i < TASKS; i++)
            if (!ended[i])
                grant(f, i + 1, "echo $GPUMUX_WORKLOAD_ID >> $TOP/runs; sleep 0.05", "");
        int64_t until_ms = clock_boot_ms() + (kills < KILLS ? (int64_t)rng_below(&rng, 150) : 2000);
        while (open_count > 0 && clock_boot_ms() < until_ms && receive(f, 5)) {
            const struct attempt_report *r = f->msg.attempts;
            if (f->msg.type != NODEMSG_REPORT || r->phase != ATTEMPT_EXITED)
                continue;
            uint64_t workload = r->workload;
            assert_int_equal(r->failure, FAILURE_NONE);
            assert_false(r->never_ran);
            open_count -= !ended[workload - 1];
            ended[workload - 1] = true;
            send_order(f, NODEMSG_SETTLE, workload, 0);
        }
        while (clock_boot_ms() < until_ms && open_count > 0)
            usleep(1000);
        if (kills < KILLS) {
            kill_agent(f);
            kills++;
        }
    }
    int runs[TASKS] = {0};
    char path[128], line[32];
    snprintf(path, sizeof path, "%s/runs", f->top);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        runs[strtol(line, NULL, 10) - 1]++;
    fclose(file);
    for (int i = 0; i < TASKS; i++)
        assert_int_equal(runs[i], 1);
}

static void task_ends_with_expired_lease(void **state)
{
    struct fixture *f = *state;
    f->lease_ms = 2000; /* a start takes less, also on a busy machine */
    f->fence_ms = 100;
    f->drain_ms = 100;
    start_agent(f);
    grant(f, 1, "sleep 1000", "");
    wait_phase(f, 1, ATTEMPT_RUNNING);
    /* Answered beats extend the lease well beyond its length. */
    int64_t until_ms = clock_boot_ms() + 3000;
    while (clock_boot_ms() < until_ms)
        if (receive(f, 50) && f->msg.type == NODEMSG_REPORT)
            assert_int_not_equal(f->msg.attempts[0].phase, ATTEMPT_EXITED);
    /* Silence on an open connection: the agent tries another connection, and its task ends in
     * time. */
    f->silent = true;
    receive_type(f, NODEMSG_HELLO);
    while (f->msg.attempt_count != 1 || f->msg.attempts[0].phase != ATTEMPT_EXITED) {
        hang_up(f);
        receive_type(f, NODEMSG_HELLO);
    }
    assert_int_equal(f->msg.attempts[0].failure, FAILURE_NONE);
    assert_true(f->msg.attempts[0].signal != 0);
    assert_non_null(strstr(f->msg.attempts[0].text, "lease"));
}

/* A hello without an answer is repeated on another connection; so is a hello after other unanswered
 * messages. */
static void unanswered_hello_is_repeated(void **state)
{
    struct fixture *f = *state;
    f->pid = fork_agent(f, -1);
    receive_type(f, NODEMSG_HELLO);
    receive_type(f, NODEMSG_HELLO);
    f->lease_ms = 6000; /* long enough to begin the task on a busy machine */
    f->fence_ms = f->drain_ms = 60000;
    hang_up(f);
    join(f);
    grant(f, 1, "exit 3", "");
    /* On a busy machine the agent may have left the connection with the welcome. */
    do {
        assert_true(receive(f, DEADLINE_MS));
        if (f->msg.type == NODEMSG_HELLO) {
            send_welcome(f);
            grant(f, 1, "exit 3", "");
        }
    } while (f->msg.type != NODEMSG_REPORT || f->msg.attempts[0].phase != ATTEMPT_EXITED);
    f->silent = true;
    receive_type(f, NODEMSG_HELLO);
    assert_int_equal(f->msg.attempt_count, 1);
    assert_int_equal(f->msg.attempts[0].exit_code, 3);
}

/* The connection ends within an order, which then has no effect and is repeated. */
static void truncated_order_has_no_effect(void **state)
{
    struct fixture *f = *state;
    const size_t cuts[] = {0, 1, 17, 60, 100, 200, SIZE_MAX};
    start_agent(f);
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        uint64_t workload = i + 1;
        const char *json = spec(f, "echo ran >> $TOP/ran; sleep 1000", "");
        struct nodemsg msg = make_grant(f, workload, geteuid(), json);
        send_part(f, &msg, cuts[i]);
        hang_up(f);
        join(f);
        assert_int_equal(f->msg.attempt_count, 0);
        grant(f, workload, "echo ran >> $TOP/ran; sleep 1000", "");
        assert_int_equal(wait_phase(f, workload, ATTEMPT_RUNNING)->phase, ATTEMPT_RUNNING);
        /* The attempt runs before its first command: a stop may come between. */
        char ran[256];
        wait_until(read_file(f, "ran", ran) && strlen(ran) >= strlen("ran\n") * workload);

        msg = make_order(f, NODEMSG_STOP, workload, 0);
        send_part(f, &msg, cuts[i]);
        hang_up(f);
        join(f);
        assert_int_equal(f->msg.attempt_count, 1);
        assert_int_equal(f->msg.attempts[0].phase, ATTEMPT_RUNNING);
        send_order(f, NODEMSG_STOP, workload, 0);
        wait_phase(f, workload, ATTEMPT_EXITED);

        msg = make_order(f, NODEMSG_SETTLE, workload, 0);
        send_part(f, &msg, cuts[i]);
        hang_up(f);
        join(f); /* reports of the old connection are repeated */
        assert_int_equal(f->msg.attempt_count, 1);
        assert_int_equal(f->msg.attempts[0].phase, ATTEMPT_EXITED);
        send_order(f, NODEMSG_SETTLE, workload, 0);
        char path[64];
        snprintf(path, sizeof path, "attempts/%llu.1", (unsigned long long)workload);
        wait_until(!has_path(f, path));
    }
    char text[256];
    assert_non_null(read_file(f, "ran", text));
    assert_int_equal(strlen(text), strlen("ran\n") * sizeof cuts / sizeof *cuts);
}

/* A grant after the lease's end may belong to another node by now; a grant repeated under a new
 * lease does not. */
static void grant_after_lease_end_is_dropped(void **state)
{
    struct fixture *f = *state;
    f->lease_ms = 300;
    f->silent = true;
    start_agent(f);
    int64_t over_ms = clock_boot_ms() + f->lease_ms;
    wait_until(clock_boot_ms() > over_ms);
    grant(f, 1, "echo x > $TOP/ran", "");
    receive_type(f, NODEMSG_HELLO); /* after silence */
    assert_int_equal(f->msg.attempt_count, 0);
    assert_false(has_path(f, "attempts/1.1"));
    f->lease_ms = LEASE_MS;
    f->silent = false;
    hang_up(f);
    join(f);
    grant(f, 1, "echo x > $TOP/ran", "");
    assert_int_equal(wait_phase(f, 1, ATTEMPT_EXITED)->exit_code, 0);
    assert_true(has_path(f, "../ran"));
}

/* ---- other users ---- */

static void workload_runs_as_granted_user(void **state)
{
    struct fixture *f = *state;
    const struct passwd *nobody = getpwnam("nobody");
    if (geteuid() != 0 || !nobody) {
        print_message("skipped: only root can run workloads of other users\n");
        skip();
    }
    start_agent(f);
    send_grant_as(f, 1, nobody->pw_uid,
                  spec(f,
                       "id -u; id -g; umask; ls /proc/self/fd | wc -l; "
                       "d=${GPUMUX_CONTROL%/*}; ls -ld $d | cut -c1-10; "
                       "until [ -e $TOP/read ]; do sleep 0.01; done; "
                       "rm $d/output.0.log; ln -s /etc/shadow $d/output.0.log",
                       ""));
    assert_int_equal(wait_phase(f, 1, ATTEMPT_RUNNING)->phase, ATTEMPT_RUNNING);
    const struct nodemsg read = {
        .type = NODEMSG_READ, .request = 1, .workload = 1, .attempt = 1, .wait_ms = 10000};
    send_message(f, &read);
    receive_type(f, NODEMSG_LOG);
    assert_int_equal(f->msg.result, 0);
    char text[1024], wanted[64];
    memcpy(text, f->msg.data, f->msg.length);
    text[f->msg.length] = '\0';
    snprintf(wanted, sizeof wanted, "stdout F %u\n", nobody->pw_uid);
    assert_non_null(strstr(text, wanted));
    make_file(f, "read");
    assert_int_equal(wait_phase(f, 1, ATTEMPT_EXITED)->exit_code, 0);
    send_message(f, &read);
    receive_type(f, NODEMSG_LOG);
    assert_int_equal(f->msg.result, -ERR_DENIED);
    assert_int_equal(f->msg.length, 0);
}

/* The task and its supervisor are in two parts of the cgroup, also for another user. */
static void each_attempt_has_own_cgroup(void **state)
{
    struct fixture *f = *state;
    const struct passwd *nobody = getpwnam("nobody");
    if (geteuid() != 0 || !nobody || !have_cgroup()) {
        print_message("skipped: needs root and a writable cgroup v2 hierarchy\n");
        skip();
    }
    f->settings[1] = "cgroup=auto";
    start_agent(f);
    const char *script = "grep ^0:: /proc/self/cgroup; grep ^0:: /proc/$PPID/cgroup; "
                         "setsid sleep 1000 & echo $! > $TOP/child$GPUMUX_WORKLOAD_ID";
    send_grant_as(f, 1, 0, spec(f, script, ",\"grace\":\"0s\""));
    wait_phase(f, 1, ATTEMPT_EXITED);
    send_grant_as(f, 2, nobody->pw_uid, spec(f, script, ",\"grace\":\"0s\""));
    wait_phase(f, 2, ATTEMPT_EXITED);
    for (uint64_t i = 1; i <= 2; i++) {
        char text[1024], wanted[32], child[256];
        read_output(f, i, text, sizeof text);
        snprintf(wanted, sizeof wanted, "/%d.1/task\n", (int)i);
        assert_non_null(strstr(text, wanted));
        snprintf(wanted, sizeof wanted, "/%d.1/supervisor\n", (int)i);
        assert_non_null(strstr(text, wanted));
        snprintf(wanted, sizeof wanted, "child%d", (int)i);
        assert_non_null(read_file(f, wanted, child));
        wait_until(is_dead(strtol(child, NULL, 10)));
    }
    stop_agent(f);
}

static void unprivileged_agent_runs_only_own_user(void **state)
{
    struct fixture *f = *state;
    const struct passwd *nobody = getpwnam("nobody");
    if (geteuid() != 0 || !nobody) {
        print_message("skipped: only root can become another user\n");
        skip();
    }
    uid_t uid = nobody->pw_uid;
    f->settings[0] = "allow_root=false";
    assert_int_equal(chmod(f->socket, 0777), 0);
    assert_int_equal(seteuid(uid), 0);
    f->pid = fork();
    if (f->pid == 0) {
        seteuid(0);
        if (setuid(uid) < 0)
            _exit(98);
        execl("/proc/self/exe", "agent_test", "agent", f->directory, f->socket, (char *)NULL);
        _exit(99);
    }
    assert_int_equal(seteuid(0), 0);
    join(f);
    send_grant_as(f, 1, uid, spec(f, "exit 0", ""));
    assert_int_equal(wait_phase(f, 1, ATTEMPT_EXITED)->failure, FAILURE_NONE);
    send_grant_as(f, 2, 0, spec(f, "exit 0", ""));
    const struct attempt_report *report = wait_phase(f, 2, ATTEMPT_EXITED);
    assert_int_equal(report->failure, FAILURE_START);
    assert_non_null(strstr(report->text, "cannot run workloads of uid 0"));
}

static void retention_sweep_deletes_oldest_attempts(void **state)
{
    struct fixture *f = *state;
    start_agent(f);
    for (uint64_t i = 1; i <= 4; i++) {
        grant(f, i, "head -c 1000 /dev/zero | tr '\\\\0' x; echo", "");
        wait_phase(f, i, ATTEMPT_EXITED);
        send_order(f, NODEMSG_SETTLE, i, 0);
        char path[32];
        snprintf(path, sizeof path, "finished/%d.1", (int)i);
        wait_until(has_path(f, path));
    }
    char path[128];
    snprintf(path, sizeof path, "%s/finished", f->directory);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct retention_limits limits = {.age_ms = 3600000, .count = 100, .bytes = 1 << 20};
    assert_int_equal(retention_sweep(fd, &limits, NULL), 0);
    limits.bytes = 3500; /* three of about 1050 bytes fit */
    assert_int_equal(retention_sweep(fd, &limits, NULL), 1);
    assert_false(has_path(f, "finished/1.1"));
    limits.count = 2;
    assert_int_equal(retention_sweep(fd, &limits, NULL), 1);
    assert_false(has_path(f, "finished/2.1"));
    assert_true(has_path(f, "finished/3.1") && has_path(f, "finished/4.1"));
    limits.age_ms = -1000;
    assert_int_equal(retention_sweep(fd, &limits, NULL), 2);
    close(fd);
}

int main(int argc, char **argv)
{
    int status;
    if (fixture_main(argc, argv, &status))
        return status;
    if (argc == 3 && strcmp(argv[1], "replace") == 0)
        return replace_socket(argv[2]);
#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        CASE(attempt_runs_from_grant_to_settle),
        CASE(orders_reach_running_task),
        CASE(stop_before_grant_prevents_run),
        CASE(resume_command_needs_earlier_run),
        CASE(stale_orders_are_dropped),
        CASE(refusals_state_their_reason),
        CASE(restarted_agent_adopts_attempts),
        CASE(task_behind_hijacked_socket_is_stopped),
        CASE(agent_supports_old_and_new_supervisors),
        CASE(killed_supervisor_fails_attempt),
        CASE(supervisor_killed_without_agent_fails_attempt),
        CASE(supervisor_killed_in_cgroup_fails_attempt),
        CASE(reported_end_outlives_exit_record),
        CASE(killed_agent_runs_each_task_once),
        CASE(task_ends_with_expired_lease),
        CASE(unanswered_hello_is_repeated),
        CASE(grant_after_lease_end_is_dropped),
        CASE(truncated_order_has_no_effect),
        CASE(workload_runs_as_granted_user),
        CASE(each_attempt_has_own_cgroup),
        CASE(unprivileged_agent_runs_only_own_user),
        CASE(retention_sweep_deletes_oldest_attempts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
