/* A registrar, and clients that register with it. */
#pragma once
#include <event2/event.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "abi/register.h"
#include "node/protect/registrar.h"

#define UUID "GPU-00112233-4455-6677-8899-aabbccddeeff"

enum {
    MIB = 1 << 20,
    PATIENCE_MS = 150000,
    SEALS_OF_SIZE = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
    SEALS = SEALS_OF_SIZE | F_SEAL_FUTURE_WRITE,
    WINDOW_US = 250,
};

struct fixture {
    char directory[64];
    int directory_fd;
    struct event_base *base;
    struct registrar *registrar;
    int deaths;
    pid_t stranger; /* a process of no attempt */
};

/* The client's side of one registration. */
struct client {
    int fd;
    int status_fd;
    struct status_page *status;
    uint32_t slot;
    int limits_fd, ledger_fd;
    const struct limits_page *limits;
    struct ledger_page *ledger;
};

union packet {
    struct register_header header;
    struct register_welcome welcome;
    struct register_refused refused;
    struct register_neighbour neighbour;
    struct register_gone gone;
};

/* ---- the agent's side ---- */

void open_registrar(struct fixture *f);
int setup(void **state);
int teardown(void **state);
struct terms terms_of(enum workload_kind kind, uint64_t quota_bytes);
struct session *make_session(struct fixture *f, const char *name, const struct terms *terms,
                             int ledger_fd);
void turn(struct fixture *f);

/* ---- the process's side ---- */

int connect_to(const struct fixture *f, const char *name);
struct register_hello hello_of(bool again, uint32_t slot);
void send_with(int fd, const void *packet, size_t bytes, size_t count, const int *fds);
/* Runs the agent's loop until the agent's next packet arrives. Returns false if the agent closed
 * the connection. */
bool receive(struct fixture *f, int fd, union packet *ret, int fds[2]);
void make_status(struct client *c);
void map_welcome(struct client *c, uint32_t slot, const int fds[2]);
void join(struct fixture *f, const char *name, struct client *c);
void leave(struct client *c);
/* Starts a child that registers with the registrar of this test, claims this much memory, and waits
 * to be killed. */
pid_t start_holder(struct fixture *f, const char *name, uint64_t bytes, struct client *view);
void end_process(pid_t pid);
