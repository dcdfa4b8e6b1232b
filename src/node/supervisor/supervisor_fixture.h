/*
 * A supervisor and its directory, for tests. A test program with this fixture takes the place of
 * `gpumux`: called as `PROGRAM supervise DIRECTORY`, the program must run supervisor_main().
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
    pid_t pid;     /* pid of the supervisor; 0: none */
    int lock_fd;   /* second open file of the attempt's lock */
    int lease_fd;  /* -1: none */
    int cgroup_fd; /* -1: none */
    int started_fd;
    struct attempt_grant grant;
    struct words command;
    const char *words[8];
    /* mark that only this test uses, so that concurrent tests do not find the processes of this
     * test */
    char mark[64];
    const char *environment[8];
    struct attempt_report exit;
    char *text; /* text of the last read */
};

int supervisor_setup(void **state);
int supervisor_teardown(void **state);

/* Set the task's command: a word alone, a word with an option and a text, or a shell script. */
void set_command(struct fixture *f, const char *word, const char *option, const char *text);
void set_shell(struct fixture *f, const char *script);
/* Writes the grant and starts the supervisor. */
void start(struct fixture *f);
/* Waits for the supervisor's end and reads exit.json. */
void finish(struct fixture *f);

bool has_file(const struct fixture *f, const char *name);
struct attempt_record wait_record(struct fixture *f);
/* Reads the output from byte `offset` on into f->text. Returns its length. */
size_t read_log(struct fixture *f, uint64_t offset);
/* Returns the log's lines without their times, such as "stdout F hello\n…", in f->text. */
const char *untimed_log(struct fixture *f);
/* Reads a pid that the script wrote to a file under the top directory. */
pid_t read_pid(struct fixture *f, const char *name);
bool is_dead(pid_t pid);

int open_control(struct fixture *f);
/* Sends one packet and reads the reply. */
const char *command(int fd, const char *packet, size_t length, char reply[256]);

/* Waits for a condition; the test fails if the condition stays false until the deadline. */
#define wait_until(condition)                                                                      \
    do {                                                                                           \
        int64_t deadline_ms = clock_boot_ms() + DEADLINE_MS;                                       \
        while (!(condition)) {                                                                     \
            assert_true(clock_boot_ms() < deadline_ms);                                            \
            usleep(2000);                                                                          \
        }                                                                                          \
    } while (0)
