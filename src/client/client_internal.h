/*
 * The handle, and the parts of the library:
 *
 *   client.c     the handle, and facts from the environment, read once
 *   reports.c    progress, latencies, readiness, and the rate of their reports
 *   requests.c   open requests, and their deadlines in the status page
 *   send.c       commands to the supervisor: one connection for each command
 *
 * No lock is needed: the facts do not change, the counts are atomics, and of several threads that
 * report at the same time only one sends. All names begin with gpumux_, because programs that link
 * libgpumux.a get all these names.
 *
 * This folder contains libgpumux. Files of the folder client may include abi.
 */
#pragma once
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi/control.h"
#include "abi/pages.h"

enum { GPUMUX_CLIENT_US_NS = 1000, GPUMUX_CLIENT_MS_NS = 1000000 };

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
    struct gpumux_request requests[PAGE_REQUESTS_MAX];  /* by place in the status page */
    char texts[];
};

/* Sends one command to the socket at `path`, which may be longer than a socket's address. With a
 * wait_ms of 0 the reply is not read. Returns 0, -ETIMEDOUT, -EPROTO (a reply other than "ok"), or
 * another negative errno. */
int gpumux_client_send(const char *path, const char *command, int wait_ms);

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
