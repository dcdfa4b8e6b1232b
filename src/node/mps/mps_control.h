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
#include "model/node.h"

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
};

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
/* Ends the daemon and its servers at once, whatever they do. */
void mps_control_kill(const struct mps_control *c);
/* Ends servers that a daemon left behind. */
void mps_control_kill_servers(const pid_t *pids, size_t count);
/* Ends daemons that were started for one of these devices in a directory that is no more: nobody
 * can reach them. */
void mps_control_kill_orphans(const struct device *devices, int count);
/* The daemon logs every question, for ever, on the file system that holds our state: a log that has
 * grown too large is emptied, its end is kept beside it as NAME.old. */
void mps_control_trim_logs(const struct mps_control *c);
/* Pids in an answer: those of get_server_list and get_client_list. Returns how many of `max`. */
size_t mps_control_parse_pids(const char *answer, pid_t *ret_pids, size_t max);
