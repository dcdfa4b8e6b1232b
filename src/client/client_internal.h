/*
 * The handle, and the parts of the library:
 *
 *   client.c     the handle, and facts from the environment, read once
 *   reports.c    progress, latencies, readiness, and the rate of their reports
 *   requests.c   open requests, and their deadlines in the status page
 *   advice.c     the batch size and checkpoints that gpumux asks for
 *   connection.c the connection over which a process reports
 *   send.c       single commands to the supervisor, each over a connection of its own
 *
 * No call waits for a lock: the facts do not change, the counts are atomics, and of several threads
 * that report at the same time only one uses the connection. All names begin with gpumux_, because
 * programs that link libgpumux.a get all these names.
 *
 * This folder contains libgpumux. Files of the folder client may include abi.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi/control.h"
#include "abi/pages.h"

enum {
    GPUMUX_CLIENT_US_NS = 1000,
    GPUMUX_CLIENT_MS_NS = 1000000,
    GPUMUX_CLIENT_REPLIES_MAX = 32, /* commands without a reply, on one connection */
};

struct gpumux_connection {
    _Atomic int32_t holder; /* process whose thread uses the fields below; 0: none */
    bool is_open;
    int fd;
    pid_t owner;
    uint64_t cookie; /* of the socket, from the kernel */
    int64_t since_ms, without_until_ms;
    unsigned replies_due;
    uint64_t advice_due; /* bit i: the reply after the next i replies answers "advice" */
};

/* An open request of this handle that has a place in the status page. */
struct gpumux_request {
    _Atomic uint64_t token;
    _Atomic uint64_t due_ns; /* value of the place; written before the token */
};

struct gpumux {
    uint64_t workload_id, quota_bytes;
    uint64_t batch_size, batch_min, batch_max, batch_step;
    int attempt, array_index, share_min_percent, share_max_percent;
    pid_t opened_by;
    const char *control_path, *workload_name, *node_name; /* in texts */
    _Atomic int64_t next_report_ms;                       /* sooner counts are not sent */
    _Atomic uint64_t done, sent;
    _Atomic int64_t next_latency_ms;
    _Atomic uint32_t latencies[CONTROL_LATENCY_PLACES]; /* not sent yet */
    struct gpumux_connection connection;
    /* Advice from the supervisor. */
    _Atomic uint64_t told_sequence, told_batch, told_checkpoints;
    _Atomic bool has_no_advice; /* the supervisor is older than advice */
    /* Advice that the program has read and followed. */
    _Atomic uint64_t batch_read, batch_followed, checkpoints_followed, sequence_followed;
    _Atomic uint64_t batch_used;
    struct gpumux_request requests[PAGE_REQUESTS_MAX]; /* by place in the status page */
    char texts[];
};

/* Connects to the socket at `path`, which may be longer than a socket's address. Returns 0 or a
 * negative errno, such as -EAGAIN if the supervisor hangs. */
int gpumux_client_connect(const char *path, int *ret_fd);
/* Sends one command over a connection of its own. With a wait_ms of 0 the reply is not read.
 * Returns 0, -ETIMEDOUT, -EPROTO (a reply other than "ok"), or another negative errno. */
int gpumux_client_send(const char *path, const char *command, int wait_ms);
/* Sends one command over the connection of the process, without a wait for the reply. Returns 0 or
 * a negative errno. `is_advice`: the reply contains advice; the command is dropped while the
 * process has no connection. */
int gpumux_client_report(struct gpumux *g, const char *command, bool is_advice);
void gpumux_client_disconnect(struct gpumux *g);

/* Tells the supervisor which advice was followed, and asks for the newest advice. */
void gpumux_client_ask_advice(struct gpumux *g);

/* Counts one latency, and sends the counts if the last report was long enough ago. Returns 0, or
 * the negative errno of a failed report. May change errno. */
int gpumux_client_count_latency(struct gpumux *g, uint64_t latency_us, uint64_t now_ns);
/* Send counts that have not been sent; called when the handle is closed. */
int gpumux_client_send_progress(struct gpumux *g, uint64_t done);
int gpumux_client_send_latencies(struct gpumux *g);

/* Returns the pages of the process; NULL: none. */
const struct gpumux_pages *gpumux_client_pages(void);

/* The monotonic clock. */
uint64_t gpumux_client_clock_ns(void);
int64_t gpumux_client_clock_ms(void);
