/*
 * One supervisor and the directory it works in, as tests of it see them. A test program that
 * includes this is its own `gpumux`: called as `PROGRAM supervise DIRECTORY` it must be
 * supervisor_main.
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

#include "base/clock.h"
#include "node/supervisor/attempt_file.h"

enum { DEADLINE_MS = 30000, TEXT_MAX = 1 << 20 };

struct fixture {
    char top[64], directory[96];
    int directory_fd;
    pid_t pid;     /* the supervisor's; 0: none */
    int lock_fd;   /* another open file of its lock */
    int lease_fd;  /* -1: none */
    int cgroup_fd; /* -1: none */
    int started_fd;
    struct attempt_grant grant;
    struct words command;
    const char *words[8];
    char mark[64]; /* of this test alone: another run beside it must not find our processes */
    const char *environment[8];
    struct attempt_report exit;
    char *text; /* of the last read */
};

int supervisor_setup(void **state);
int supervisor_teardown(void **state);

/* What it will run: a word, with an option and a text or neither; or a shell's script. */
void set_command(struct fixture *f, const char *word, const char *option, const char *text);
void set_shell(struct fixture *f, const char *script);
/* Writes the grant and starts the supervisor. */
void start(struct fixture *f);
/* Waits for the supervisor's end and reads what it left. */
void finish(struct fixture *f);

bool has_file(const struct fixture *f, const char *name);
struct attempt_record wait_record(struct fixture *f);
/* Its output from that byte on, into f->text; its length. */
size_t read_log(struct fixture *f, uint64_t offset);
/* The log's lines without their times: "stdout F hello\n…"; f->text. */
const char *untimed_log(struct fixture *f);
/* A pid that the script wrote to a file under the top directory. */
pid_t read_pid(struct fixture *f, const char *name);
bool is_dead(pid_t pid);

int open_control(struct fixture *f);
/* Sends one packet and reads the reply. */
const char *command(int fd, const char *packet, size_t length, char reply[256]);

/* Waits for a condition; the test fails if it does not come. */
#define wait_until(condition)                                                                      \
    do {                                                                                           \
        int64_t deadline_ms = clock_boot_ms() + DEADLINE_MS;                                       \
        while (!(condition)) {                                                                     \
            assert_true(clock_boot_ms() < deadline_ms);                                            \
            usleep(2000);                                                                          \
        }                                                                                          \
    } while (0)
