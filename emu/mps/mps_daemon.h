/*
 * mps/ are the programs of MPS, and how a process that starts to use CUDA joins them. It uses base,
 * contention, abi/ and device/.
 *
 * The MPS control daemon of a pipe directory: who is its server, who waits for one, and what it was
 * told. One server at a time: with -multiuser-server for everybody, else for one user, and another
 * user's clients wait until the last of its clients has left. It asks its server and waits for the
 * answer: a server that hangs hangs its daemon.
 */
#pragma once
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/str.h"
#include "emu/mps/mps_protocol.h"

enum { MPS_CONNECTIONS_MAX = 256, MPS_LIMIT_TEXT_MAX = 16, MPS_REPLY_BYTES_MAX = 256 * 1024 };

struct mps_settings {
    uint32_t percentage; /* of MPS_PERCENTAGE_FULL */
    uint32_t priority;
    char limits[EMU_DEVICES_MAX][MPS_LIMIT_TEXT_MAX]; /* as they were given, such as 4G; or "" */
};

struct mps_server {
    pid_t pid; /* 0: there is none */
    uid_t uid;
    int fd;          /* to it */
    bool is_leaving; /* takes nobody new, ends with its last client */
    struct mps_settings settings;
    struct visible_among served;
};

enum mps_peer { MPS_PEER_NEW, MPS_PEER_CONTROL, MPS_PEER_CLIENT, MPS_PEER_WAITS_FOR_END };

struct mps_connection {
    int fd;
    enum mps_peer peer;
    pid_t pid;
    uid_t uid;
    uint64_t arrival;
    char line[MPS_LINE_BYTES_MAX];
    size_t line_length;
};

struct mps_daemon {
    FILE *log;
    int lock_fd, listen_fd;
    bool is_multiuser;
    struct mps_settings defaults;
    struct mps_server server;
    bool is_quitting;
    int64_t quit_at_ms;   /* CLOCK_MONOTONIC; -1: when the last client has left */
    int64_t accept_at_ms; /* connections are left waiting until then */
    uint64_t arrivals;
    unsigned connection_count;
    struct mps_connection connections[MPS_CONNECTIONS_MAX];
};

/* Locks the pipe directory and listens there. -ERR_BUSY: another daemon runs in it. */
int mps_daemon_open(struct error *e, struct mps_daemon *daemon, bool is_multiuser);
/* Serves until it is told to quit. */
void mps_daemon_run(struct mps_daemon *daemon);
void mps_daemon_close(struct mps_daemon *daemon);

/* For commands (mps_commands.c). */
bool mps_daemon_start_server(struct mps_daemon *daemon, uid_t uid);
/* Asks the server; false: it has ended, and is forgotten. */
bool mps_daemon_ask(struct mps_daemon *daemon, const char *request, struct str *reply);
/* Ends the server now, whoever its clients are. */
void mps_daemon_end_server(struct mps_daemon *daemon);

/* mps_commands.c: does one command and appends its answer. False: the answer is the daemon's end.
 */
bool mps_command(struct mps_daemon *daemon, const char *line, struct str *reply);
