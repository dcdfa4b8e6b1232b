/*
 * One word with an MPS daemon, through NVIDIA's own program: its protocol is not documented. Every
 * call here may take as long as it is allowed to, so none is made on the loop's thread.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/str.h"

enum {
    MPS_PATH_MAX = 256,
    MPS_ANSWER_MAX = 64 << 10,
    MPS_SERVERS_MAX = 16,
    MPS_ENVIRONMENT_MAX = 8,
    MPS_LOG_MAX = 1 << 20,   /* bytes of a log; see mps_control_trim_logs */
    MPS_LOG_KEPT = 64 << 10, /* of its end */
};

struct mps_control {
    const char *program;             /* nvidia-cuda-mps-control */
    char directory[MPS_PATH_MAX];    /* of its pipes and logs */
    char uuid[64];                   /* of the device that it is for */
    bool is_multiuser;               /* its server takes clients of all users */
    const char *emulate, *libraries; /* as in agent_options; or NULL */
    int stop_fd; /* readable: what is asked or started fails with -ERR_TIMEOUT; 0: none */
};

/* Starts a program in a session of its own, in /, with the default signals; an errno or 0. */
int mps_control_spawn(const char *program, char *const *arguments, char *const *environment,
                      int in_fd, int out_fd, pid_t *ret_pid);
/* Starts the daemon; it answers afterwards. Each failure has a sentence, and leaves no daemon
 * behind. -ERR_IO: as in mps_control_ask; -ERR_UNAVAILABLE: it does not start. */
int mps_control_start(struct error *e, const struct mps_control *c, int limit_ms);
/* Says a line and adds the answer to *out (may be NULL). -ERR_UNAVAILABLE: no daemon; -ERR_TIMEOUT:
 * no answer in time; -ERR_IO: the program could not be run, which says nothing of the daemon. */
int mps_control_ask(struct error *e, const struct mps_control *c, const char *line, int limit_ms,
                    struct str *out);
/* Whether the daemon, which mps_control_start once started, has one server for clients of one user
 * alone: also one that was to be for all, of a driver that has no such servers. Another user's
 * clients wait until the last of these has left, then that server ends. */
bool mps_control_is_for_one_user(const struct mps_control *c);
/* Whom such a server is for; (uid_t)-1: it has ended. */
uid_t mps_control_server_user(pid_t server);
/* How long the program takes to start and end here, daemon or not: what silence is measured
 * against. */
int64_t mps_control_pace_ms(const struct mps_control *c, int limit_ms);
/* The daemon's process, by its own file; 0: none that is alive. */
pid_t mps_control_pid(const struct mps_control *c);
/* The directories under `parent` that running daemons and servers were started for, whether or not
 * they are still there. Returns how many of `max`. */
size_t mps_control_running(const char *parent, char (*ret)[MPS_PATH_MAX], size_t max);
/* Ends the daemon and its servers with SIGKILL. A process is signalled only if it is named like MPS
 * and was started for this directory. */
void mps_control_kill(const struct mps_control *c);
/* Ends a daemon that nobody needs, and its servers: asks it for an answer, for limit_ms at most,
 * and to quit, waits, then mps_control_kill(); about 6 s more at most. */
void mps_control_end(const struct mps_control *c, int limit_ms);
/* Makes or removes an empty file in the daemon's directory. */
int mps_control_note(struct error *e, const struct mps_control *c, const char *name, bool is_there);
/* The daemon answered when mps_control_end() ended it, and none was started since. */
bool mps_control_was_ended(const struct mps_control *c);
/* The daemon logs every question, for ever, on the file system that holds our state: a log that has
 * grown too large is emptied, its end is kept beside it as NAME.old. */
void mps_control_trim_logs(const struct mps_control *c);
/* Pids in an answer: those of get_server_list and get_client_list. Returns how many of `max`. */
size_t mps_control_parse_pids(const char *answer, pid_t *ret_pids, size_t max);
