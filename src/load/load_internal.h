/* Connections of the load generator. */
#pragma once
#include <sys/socket.h>

#include "load/load.h"
#include "wire/http/http_parse.h"
#include "wire/http/sse.h"

/* The address of the server, resolved once. */
struct peer {
    struct sockaddr_storage address;
    socklen_t length;
};

/* Resolves the target and connects within timeout_ms. Returns 0, -ERR_UNAVAILABLE, -ERR_DENIED or
 * -ERR_INVALID. */
int peer_connect(struct error *e, const struct request_target *target, int timeout_ms,
                 struct peer *ret_peer, int *ret_fd);
/* Begins to connect. Returns the socket, or -1 with errno; EAGAIN: try again later. */
int peer_open(const struct peer *peer);

enum connection_state { CONNECTION_CLOSED, CONNECTION_OPENING, CONNECTION_IDLE, CONNECTION_BUSY };

struct connection {
    enum connection_state state;
    int fd;
    int64_t since_ns; /* begin of the opening */
    bool was_used;    /* an answer has arrived on this connection */

    /* The request in flight. */
    int64_t due_ns;
    size_t written;
    bool has_answer; /* a byte of the answer has arrived */
    struct http_parser parser;
    uint64_t body_bytes;
    /* Streams: the chunk before, -1 for none. */
    int64_t chunk_ns;
    bool chunk_in_read; /* the bytes of this read have been counted as a chunk */
    bool has_events;    /* `events` is in use */
    struct sse_parser events;
    struct run *run;
};

/* Results of connection_write and connection_read. */
enum progress {
    PROGRESS_WAIT,     /* nothing more can be done now */
    PROGRESS_ANSWERED, /* the answer is complete, and the connection can be used again */
    PROGRESS_LAST,     /* the answer is complete, and the connection is of no more use */
    PROGRESS_UNSENT,   /* the server had closed the idle connection; no byte was sent */
    PROGRESS_BROKEN,
    PROGRESS_PROTOCOL,
};

struct run {
    const struct load_config *config;
    struct tally *tally;
    int64_t begin_ns;  /* of the clock */
    int64_t now_ns;    /* since the begin, read before each batch of work */
    char *read_buffer; /* CONNECTION_READ_BYTES */
};
enum { CONNECTION_READ_BYTES = 64 << 10 };

void connection_begin(struct connection *c, int64_t due_ns);
enum progress connection_write(struct connection *c);
enum progress connection_read(struct connection *c);
/* Frees what belongs to the request in flight. */
void connection_finish(struct connection *c);
int64_t run_now_ns(struct run *run);
