/*
 * The daemons that the kill test starts, kills and starts again: control and node as two processes,
 * or both as one `gpumux up`. They end with the process that started them.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { DAEMON_SETTINGS_MAX = 16, DAEMON_PARTS_MAX = 2, DAEMON_PATH_MAX = 256 };

struct daemons {
    const char *program;   /* gpumux */
    const char *directory; /* the state is in it, under "s"; their logs are daemon.log */
    const char *settings[DAEMON_SETTINGS_MAX]; /* "lease=60s"; NULL after the last */
    bool apart;                                /* two processes */
    pid_t pids[DAEMON_PARTS_MAX];              /* 0: not running */
};

/* How many processes there are: 2 apart, 1 together. Part 0 has the API. */
int daemons_parts(const struct daemons *d);
/* 0 or -1. */
int daemons_start(struct daemons *d, int part);
void daemons_kill(struct daemons *d, int part);
/* Asks them all to end, and waits; -1 if one did not end well. */
int daemons_stop(struct daemons *d);
/* The API's socket. */
void daemons_socket(const struct daemons *d, char path[DAEMON_PATH_MAX]);
/* Does somebody accept connections there? */
bool daemons_answer(const struct daemons *d);
