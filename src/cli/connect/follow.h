/*
 * Following what goes on: events, and the output of an attempt. Both go on over any number of
 * interruptions from where they were, so that a restart of gpumux is not seen by who follows.
 */
#pragma once
#include "cli/connect/client.h"
#include "model/workload.h"
#include "wire/logline.h"
#include "wire/http/sse.h"

enum {
    FOLLOW_RETRY_MS = 200, /* between two tries to connect again */
    FOLLOW_AGAIN_MS = 20,  /* after a stream that gpumux ended */
};

/* A connection that is made again when it breaks. */
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
    const char *workload; /* reference, or NULL: of all */
    uint64_t since;       /* the last revision seen */
    sse_fn on_event;
    void *arg;
};

/* on_event: a negative answer ends the step with it. -ERR_NO_MEMORY. */
int follow_events_init(struct error *e, struct follow_events *f, struct client *client,
                       const char *workload, uint64_t since, sse_fn on_event, void *arg);
void follow_events_done(struct follow_events *f);
/*
 * Waits at most timeout_ms for events and hands them on. A broken connection is no error: the next
 * steps mend it. An answer of gpumux that is an error is returned as one.
 */
int follow_events_step(struct error *e, struct follow_events *f, int64_t timeout_ms);
/* Of a step's answer: the events after `since` are not to be had (-ERR_GONE, -ERR_FUTURE). Look at
 * the whole again, and go on from follow_revision. */
bool follow_lost_place(int r);

/* ---- output ---- */

typedef int (*follow_line_fn)(void *arg, const struct logline *line);

struct follow_output {
    struct follow follow;
    const char *workload;
    int attempt; /* 0: the last one */
    bool waits;  /* for output to come; false: what there is now */
    uint64_t offset;
    struct str line; /* the beginning of one whose end has not come */
    follow_line_fn on_line;
    void *arg;
};

int follow_output_init(struct error *e, struct follow_output *f, struct client *client,
                       const char *workload, int attempt, bool waits, follow_line_fn on_line,
                       void *arg);
void follow_output_done(struct follow_output *f);
/* The same. *ret_ended: gpumux has ended the stream: the attempt is over, or gpumux stops. */
int follow_output_step(struct error *e, struct follow_output *f, int64_t timeout_ms,
                       bool *ret_ended);

/* ---- waiting ---- */

enum { FOLLOW_QUIET_MS = 500 }; /* of one that waits no longer than this nothing is told */

/* Tells on standard error why a queued workload waits, unless that is what was said last. */
void follow_tell_waiting(const json_t *workload, char said[WORKLOAD_TEXT_MAX]);

/* For poll; -1: not connected. */
int follow_fd(const struct follow *f);
/* When the next step has to come at the latest, boot clock: while not connected, the next try. */
int64_t follow_next_try(const struct follow *f);
/* The newest revision: events after it are those that happen from now on. */
int follow_revision(struct error *e, struct client *client, uint64_t *ret);
