/*
 * Requests to an MPS daemon, through NVIDIA's own program, because the daemon's protocol is not
 * documented. A call may take as long as its limit allows, so no call is made on the loop's thread.
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
    MPS_LOG_MAX = 1 << 20,   /* bytes of a log; see mps_control_trim_logs() */
    MPS_LOG_KEPT = 64 << 10, /* bytes kept of a log's end */
};

struct mps_control {
    const char *program;             /* path of nvidia-cuda-mps-control */
    char directory[MPS_PATH_MAX];    /* directory of the daemon's pipes and logs */
    char uuid[64];                   /* UUID of the device */
    bool is_multiuser;               /* the server accepts clients of all users */
    const char *emulate, *libraries; /* as in agent_options; NULL: real devices */
    int stop_fd;                     /* if readable, requests fail with -ERR_TIMEOUT; 0: none */
};

/* Starts a program in a session of its own, in /, with default signals. Returns 0 or an errno. */
int mps_control_spawn(const char *program, char *const *arguments, char *const *environment,
                      int in_fd, int out_fd, pid_t *ret_pid);
/* Starts the daemon and waits for its first answer. A failure leaves no daemon behind. Returns 0,
 * -ERR_IO as mps_control_ask(), or -ERR_UNAVAILABLE with the reason. */
int mps_control_start(struct error *e, const struct mps_control *c, int limit_ms);
/* Sends a line and appends the answer to *out (may be NULL). Returns 0, -ERR_UNAVAILABLE (no
 * daemon), -ERR_TIMEOUT (no answer in time), or -ERR_IO (the program could not run; the state of
 * the daemon is unknown). */
int mps_control_ask(struct error *e, const struct mps_control *c, const char *line, int limit_ms,
                    struct str *out);
/* Returns whether the daemon, started by mps_control_start(), serves clients of one user at a time,
 * either because is_multiuser is false or because the driver lacks servers for all users. Clients
 * of another user wait until the last client has left and the server has ended. */
bool mps_control_is_for_one_user(const struct mps_control *c);
/* Returns the user of a server that serves one user; (uid_t)-1: the server has ended. */
uid_t mps_control_server_user(pid_t server);
/* Measures the time that the program takes to start and exit, with or without a daemon. The caller
 * compares a daemon's silence with this time. */
int64_t mps_control_pace_ms(const struct mps_control *c, int limit_ms);
/* Returns the daemon's pid from its own file; 0: no live daemon. */
pid_t mps_control_pid(const struct mps_control *c);
/* Lists the directories under `parent` for which running daemons and servers were started, even if
 * the directories are gone. Returns their number, at most `max`. */
size_t mps_control_running(const char *parent, char (*ret)[MPS_PATH_MAX], size_t max);
/* Ends the daemon and its servers with SIGKILL. Signals only processes that have the name of MPS
 * and were started for this directory. */
void mps_control_kill(const struct mps_control *c);
/* Ends an unneeded daemon and its servers: waits for an answer (at most limit_ms), asks the daemon
 * to quit, waits, and calls mps_control_kill(). Takes at most about 6 s more than limit_ms. */
void mps_control_end(const struct mps_control *c, int limit_ms);
/* Makes or removes an empty file in the daemon's directory. */
int mps_control_note(struct error *e, const struct mps_control *c, const char *name, bool is_there);
/* Returns whether the daemon answered when mps_control_end() ended it, and no daemon was started
 * since. */
bool mps_control_was_ended(const struct mps_control *c);
/* Empties a log that has grown too large, and keeps its end as NAME.old. The daemon logs every
 * request without limit, on the file system of the agent's state. */
void mps_control_trim_logs(const struct mps_control *c);
/* Parses the pids in an answer to get_server_list or get_client_list. Returns their number, at most
 * `max`. */
size_t mps_control_parse_pids(const char *answer, pid_t *ret_pids, size_t max);
