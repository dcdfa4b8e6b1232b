/*
 * For cmocka tests of the shim: an agent, the other side of abi/register.h, step by step, and
 * programs with the shim preloaded that follow commands. A failure here fails the test.
 */
#pragma once
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi/page.h"
#include "abi/register.h"
#include "tests/emu/driver_api.h"
#include "tests/shim/talker.h"

enum {
    MIB = 1 << 20,
    CONTEXT = 4096, /* assumed device memory of a context */
    PATIENCE_MS = 150000,
    SEALS = F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
};

struct agent {
    char dir[64], path[96];
    int listener;
    int limits_fd, ledger_fd;
    struct limits_page *limits;
    struct ledger_page *ledger;
};

/* A program to run with the shim. */
struct program {
    const char *path, *argument;
    char preload[PRELOAD_MAX];
    const char *fault_at; /* GPUMUX_FAULT_AT; NULL: not set */
};

/* The agent's state of a process. */
struct peer {
    int socket, status_fd;
    int ledger_fd; /* -1: none received */
    struct register_hello hello;
    pid_t pid;
    const struct status_page *status;
};

/* With the shim, by preload_shim(). */
void init_program(struct program *program, const char *path, const char *argument,
                  const char *shim);
/* Makes a page as an agent does, in a file that may be longer or shorter than the page. */
void *make_page(const char *name, uint32_t magic, size_t bytes, size_t file_bytes, int *ret_fd);
/* Starts an agent whose limits allow 64 MiB and two small contexts on device 0, which is index
 * 1. */
void start_agent(struct agent *agent, struct driver_api *api);
void stop_agent(struct agent *agent);
void start_host(const struct agent *agent, const struct program *program, struct talker *ret_host);
void end_host(const struct talker *host);
/* Waits for the next process and its HELLO. */
void accept_peer(const struct agent *agent, struct peer *ret_peer);
/* Returns false if the other side has gone. */
bool try_to_send(const struct peer *peer, const void *packet, size_t bytes, int fd_count,
                 const int *fds);
void send_packet(const struct peer *peer, const void *packet, size_t bytes, int fd_count,
                 const int *fds);
struct register_header header_of(int kind, size_t bytes);
void welcome(const struct agent *agent, const struct peer *peer, uint32_t slot);
void leave(struct peer *peer);
