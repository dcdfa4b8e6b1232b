/*
 * Control, as the tests of the agent play it, over a unix socket. A test program that includes this
 * is its own `gpumux`: `PROGRAM supervise W.A` is a supervisor, `PROGRAM agent DIRECTORY
 * SOCKET KEY=VALUE…` an agent, so that agents can be killed; see fixture_main.
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

/* Every call fails the test when it cannot do what it says. */
struct fixture {
    char top[64], directory[96], socket[96];
    const char *settings[SETTINGS_MAX]; /* allow_root, cgroup, beat, then the test's own */
    size_t setting_count;
    int listen_fd;
    int fd;    /* to the agent; -1: not connected */
    pid_t pid; /* the agent's; 0: none */
    char *line;
    size_t length;      /* bytes in `line`, perhaps with more than one line */
    struct arena arena; /* of the last message */
    struct nodemsg msg; /* the last message */
    uint64_t session, sequence;
    int64_t lease_ms, fence_ms, drain_ms;
    bool silent; /* answers no beat */
};

int fixture_setup(void **state);
int fixture_teardown(void **state);
/* True: argv asked for one of the other programs, which has ended with *ret_status. */
bool fixture_main(int argc, char **argv, int *ret_status);

/* Starts an agent, waits for its hello (then f->msg) and welcomes it. */
void start_agent(struct fixture *f);
void kill_agent(struct fixture *f);
/* As a daemon is told to stop; it must end well. */
void stop_agent(struct fixture *f);
pid_t fork_agent(struct fixture *f, int error_fd);
/* Answers a hello. */
void send_welcome(struct fixture *f);
void join(struct fixture *f);
/* Ends the connection; the agent will make another. */
void hang_up(struct fixture *f);

void send_message(struct fixture *f, const struct nodemsg *msg);
/* The first `bytes` of its line, at most all but the newline. */
void send_part(struct fixture *f, const struct nodemsg *msg, size_t bytes);
/* The next message that is not a beat, connecting if need be; false after `wait_ms`. */
bool receive(struct fixture *f, int64_t wait_ms);
void receive_type(struct fixture *f, enum nodemsg_type type);
/* Waits for a report of this phase or a later one; valid until the next message. */
const struct attempt_report *wait_phase(struct fixture *f, uint64_t workload,
                                        enum attempt_phase phase);
/* A shell task's description; `more` is further JSON, such as ",\"grace\":\"1s\"". */
const char *spec(struct fixture *f, const char *script, const char *more);
void grant(struct fixture *f, uint64_t workload, const char *script, const char *more);
/* A grant of attempt 1, and a later order about it. */
struct nodemsg make_grant(struct fixture *f, uint64_t workload, uint32_t uid, const char *json);
struct nodemsg make_order(struct fixture *f, enum nodemsg_type type, uint64_t workload,
                          int64_t grace_ms);
void send_grant_as(struct fixture *f, uint64_t workload, uint32_t uid, const char *json);
void send_order(struct fixture *f, enum nodemsg_type type, uint64_t workload, int64_t grace_ms);
/* Reads all output into text, in many small steps; its length. */
size_t read_output(struct fixture *f, uint64_t workload, char *text, size_t size);

/* Is this path there, under the agent's directory? */
bool has_path(const struct fixture *f, const char *path);
/* What a task wrote into a file of the top directory; NULL: no whole line yet. */
const char *read_file(const struct fixture *f, const char *name, char text[256]);
/* Gone, or a corpse that whoever inherited it has not buried yet. */
bool is_dead(long pid);

#define wait_until(condition)                                                                      \
    do {                                                                                           \
        int64_t until_ms = clock_boot_ms() + DEADLINE_MS;                                          \
        while (!(condition)) {                                                                     \
            assert_true(clock_boot_ms() < until_ms);                                               \
            usleep(2000);                                                                          \
        }                                                                                          \
    } while (0)
