/*
 * A simulated control for the agent's tests, on a unix socket. A test program with this fixture
 * takes the place of `gpumux`: `PROGRAM supervise W.A` runs a supervisor, and `PROGRAM agent
 * DIRECTORY SOCKET KEY=VALUE…` runs an agent, so that a test can kill agents; see fixture_main().
 */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/clock.h"
#include "wire/nodemsg.h"

enum {
    DEADLINE_MS = 150000,
    LINE_BYTES = NODEMSG_LINE_MAX,
    SETTINGS_MAX = 8,
    LEASE_MS = 600000,
};

/* Control's side of one test. Every function fails the test on an error. */
struct fixture {
    char top[64], directory[96], socket[96];
    const char *settings[SETTINGS_MAX]; /* allow_root, cgroup, beat, then the test's own settings */
    size_t setting_count;
    int listen_fd;
    int fd;    /* connection to the agent; -1: none */
    pid_t pid; /* pid of the agent; 0: none */
    char *line;
    size_t length;      /* bytes in `line`, possibly more than one line */
    struct arena arena; /* owner of the last message's data */
    struct nodemsg msg; /* the last message */
    uint64_t session, sequence;
    int64_t lease_ms, fence_ms, drain_ms;
    bool silent; /* the fixture does not answer beats */
};

int fixture_setup(void **state);
int fixture_teardown(void **state);
/* Runs another program of the fixture if argv names that program. Returns true and sets *ret_status
 * if a program ran. */
bool fixture_main(int argc, char **argv, int *ret_status);

/* Starts an agent, waits for its hello (afterwards in f->msg) and welcomes the agent. */
void start_agent(struct fixture *f);
void kill_agent(struct fixture *f);
/* Stops the agent as an init system does; the agent must exit with status 0. */
void stop_agent(struct fixture *f);
pid_t fork_agent(struct fixture *f, int error_fd);
/* Answers a hello. */
void send_welcome(struct fixture *f);
void join(struct fixture *f);
/* Closes the connection; the agent will reconnect. */
void hang_up(struct fixture *f);

void send_message(struct fixture *f, const struct nodemsg *msg);
/* Sends the first `bytes` of a message's line, but never its newline. */
void send_part(struct fixture *f, const struct nodemsg *msg, size_t bytes);
/* Receives the next message other than a beat, and accepts a connection if needed. Returns false if
 * no message arrives within `wait_ms`. */
bool receive(struct fixture *f, int64_t wait_ms);
void receive_type(struct fixture *f, enum nodemsg_type type);
/* Waits for a report of this phase or a later one. The report is valid until the next message. */
const struct attempt_report *wait_phase(struct fixture *f, uint64_t workload,
                                        enum attempt_phase phase);
/* Returns the description of a shell task; `more` is further JSON, such as ",\"grace\":\"1s\"". */
const char *spec(struct fixture *f, const char *script, const char *more);
void grant(struct fixture *f, uint64_t workload, const char *script, const char *more);
/* Make a grant of attempt 1, and a later order about that attempt. */
struct nodemsg make_grant(struct fixture *f, uint64_t workload, uint32_t uid, const char *json);
struct nodemsg make_order(struct fixture *f, enum nodemsg_type type, uint64_t workload,
                          int64_t grace_ms);
void send_grant_as(struct fixture *f, uint64_t workload, uint32_t uid, const char *json);
void send_order(struct fixture *f, enum nodemsg_type type, uint64_t workload, int64_t grace_ms);
/* Reads all output into `text` in many small steps. Returns its length. */
size_t read_output(struct fixture *f, uint64_t workload, char *text, size_t size);

/* Returns whether the path exists under the agent's directory. */
bool has_path(const struct fixture *f, const char *path);
/* Reads the first line that a task wrote into a file of the top directory; NULL: no complete
 * line. */
const char *read_file(const struct fixture *f, const char *name, char text[256]);
/* Returns whether the process is gone, or a zombie that its parent has not reaped yet. */
bool is_dead(long pid);

#define wait_until(condition)                                                                      \
    do {                                                                                           \
        int64_t until_ms = clock_boot_ms() + DEADLINE_MS;                                          \
        while (!(condition)) {                                                                     \
            assert_true(clock_boot_ms() < until_ms);                                               \
            usleep(2000);                                                                          \
        }                                                                                          \
    } while (0)
