/*
 * The daemons that the kill test starts, kills and restarts: control and node as two processes, or
 * both as one `gpumux up`. The daemons end with the process that started them.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { DAEMON_SETTINGS_MAX = 16, DAEMON_PARTS_MAX = 2, DAEMON_PATH_MAX = 256 };

struct daemons {
    const char *program;                       /* path of gpumux */
    const char *directory;                     /* has the state in "s" and the logs in daemon.log */
    const char *settings[DAEMON_SETTINGS_MAX]; /* "lease=60s"; NULL after the last */
    bool apart;                                /* two processes */
    pid_t pids[DAEMON_PARTS_MAX];              /* 0: not running */
};

/* Returns the number of processes: 2 apart, 1 together. Part 0 has the API. */
int daemons_parts(const struct daemons *d);
/* Returns 0 or -1. */
int daemons_start(struct daemons *d, int part);
void daemons_kill(struct daemons *d, int part);
/* Asks all daemons to end, and waits; returns -1 if one did not end successfully. */
int daemons_stop(struct daemons *d);
/* Writes the path of the API's socket. */
void daemons_socket(const struct daemons *d, char path[DAEMON_PATH_MAX]);
/* Returns whether the socket accepts connections. */
bool daemons_answer(const struct daemons *d);
