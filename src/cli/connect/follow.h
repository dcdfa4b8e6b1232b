/*
 * Following events, and the output of an attempt. After each interruption a stream resumes at its
 * last position, so that a restart of gpumux loses and repeats nothing.
 */
#pragma once
#include "cli/connect/client.h"
#include "model/workload.h"
#include "wire/logline.h"
#include "wire/http/sse.h"

enum {
    FOLLOW_RETRY_MS = 200, /* pause between two attempts to connect */
    FOLLOW_AGAIN_MS = 20,  /* pause after a stream that gpumux ended */
};

/* A connection that is reopened when it breaks. */
struct follow {
    struct client *client;
    struct http_client *http;
    const char *accept;
    bool open;
    int64_t next_try_boot_ms;
    http_body_fn on_body;
    void *arg;
};

/* ---- events ---- */

struct follow_events {
    struct follow follow;
    struct sse_parser sse;
    const char *workload; /* reference of a workload; NULL: all workloads */
    uint64_t since;       /* last revision received */
    sse_fn on_event;
    void *arg;
};

/* Prepares to follow; a negative result of on_event ends the step with that result. Returns 0 or
 * -ERR_NO_MEMORY. */
int follow_events_init(struct error *e, struct follow_events *f, struct client *client,
                       const char *workload, uint64_t since, sse_fn on_event, void *arg);
void follow_events_done(struct follow_events *f);
/*
 * Waits at most timeout_ms for events and passes them to on_event. A broken connection is no error:
 * later steps reconnect. An error response of gpumux is returned as an error.
 */
int follow_events_step(struct error *e, struct follow_events *f, int64_t timeout_ms);
/* Returns whether a step's result means that the events after `since` are not available (-ERR_GONE,
 * -ERR_FUTURE). The caller then reads the whole state and continues from follow_revision(). */
bool follow_lost_place(int r);

/* ---- output ---- */

typedef int (*follow_line_fn)(void *arg, const struct logline *line);

struct follow_output {
    struct follow follow;
    const char *workload;
    int attempt; /* 0: the last attempt */
    bool waits;  /* wait for further output; false: end after the present output */
    uint64_t offset;
    struct str line; /* beginning of a line whose end has not arrived */
    follow_line_fn on_line;
    void *arg;
};

int follow_output_init(struct error *e, struct follow_output *f, struct client *client,
                       const char *workload, int attempt, bool waits, follow_line_fn on_line,
                       void *arg);
void follow_output_done(struct follow_output *f);
/* Waits like follow_events_step(). *ret_ended: gpumux ended the stream, because the attempt is over
 * or gpumux stops. */
int follow_output_step(struct error *e, struct follow_output *f, int64_t timeout_ms,
                       bool *ret_ended);

/* ---- waiting ---- */

enum { FOLLOW_QUIET_MS = 500 }; /* longest wait that is not reported */

/* Prints on standard error the reason why a queued workload waits, unless `said` contains the same
 * reason. */
void follow_tell_waiting(const json_t *workload, char said[WORKLOAD_TEXT_MAX]);

/* Returns the descriptor for poll(); -1: not connected. */
int follow_fd(const struct follow *f);
/* Returns the boot-clock time of the next attempt to connect; INT64_MAX while connected. */
int64_t follow_next_try(const struct follow *f);
/* Reads the newest revision, so that the caller can follow the events after it. */
int follow_revision(struct error *e, struct client *client, uint64_t *ret);
