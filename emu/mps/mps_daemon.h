/*
 * mps/ contains the programs of MPS, and the code by which a process that starts to use CUDA joins
 * a server. mps/ uses base, contention, abi/ and device/.
 *
 * This header declares the MPS control daemon of a pipe directory: its server, the clients that
 * wait for a server, and its settings. A daemon has one server at a time. With -multiuser-server
 * the server accepts all users, otherwise one user: clients of another user wait until the server's
 * last client has left. The daemon sends requests to its server and waits for the reply, so a hung
 * server also hangs its daemon.
 *
 * This folder contains the programs of MPS. Files of the folder emu/mps may include base, emu/abi,
 * emu/device.
 */
#pragma once
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/str.h"
#include "emu/mps/mps_protocol.h"

enum { MPS_CONNECTIONS_MAX = 256, MPS_LIMIT_TEXT_MAX = 16, MPS_REPLY_BYTES_MAX = 256 * 1024 };

struct mps_settings {
    uint32_t percentage; /* active threads, in parts of MPS_PERCENTAGE_FULL */
    uint32_t priority;
    char limits[EMU_DEVICES_MAX][MPS_LIMIT_TEXT_MAX]; /* limits as given, such as 4G, or "" */
};

struct mps_server {
    pid_t pid; /* 0: no server */
    uid_t uid;
    int fd;          /* connection to the server */
    bool is_leaving; /* accepts no new clients, and ends with its last client */
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
    int64_t accept_at_ms; /* new connections stay queued until this time */
    uint64_t arrivals;
    unsigned connection_count;
    struct mps_connection connections[MPS_CONNECTIONS_MAX];
};

/* Locks the pipe directory and listens there. Returns -ERR_BUSY if the directory has another
 * daemon. */
int mps_daemon_open(struct error *e, struct mps_daemon *daemon, bool is_multiuser);
/* Serves until the daemon receives `quit`. */
void mps_daemon_run(struct mps_daemon *daemon);
void mps_daemon_close(struct mps_daemon *daemon);

/* For mps_commands.c: starts a server for the user. Returns false on failure. */
bool mps_daemon_start_server(struct mps_daemon *daemon, uid_t uid);
/* Sends the server a request and waits for the reply. Returns false if the server has ended; the
 * daemon then has no server. */
bool mps_daemon_ask(struct mps_daemon *daemon, const char *request, struct str *reply);
/* Ends the server at once, with all its clients. */
void mps_daemon_end_server(struct mps_daemon *daemon);

/* mps_commands.c: runs one command and appends its output to *reply. Returns false if the daemon
 * must end. */
bool mps_command(struct mps_daemon *daemon, const char *line, struct str *reply);
