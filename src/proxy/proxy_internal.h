/* State and functions that the files of the proxy share. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "proxy/backends.h"
#include "proxy/h2.h"
#include "proxy/http1.h"
#include "proxy/measure.h"
#include "proxy/proxy.h"
#include "proxy/scrape.h"

enum {
    RELAY_BYTES = 64 << 10, /* bytes read at once, and waiting in one direction */
    RELAY_ROUNDS_MAX = 16,  /* reads from one peer before other connections take their turn */
    PIPELINE_MAX = 64,      /* open requests of a connection before the proxy stops reading */
    /* Requests that one more read may add: none is shorter than "A / HTTP/1.0\n\n". */
    REQUESTS_MAX = 8192,
    STREAMS_MAX = 256, /* measured streams of one HTTP/2 connection */
    /* A larger chunk or DATA frame is part of a bulk answer: the time to the next one is no time
     * between tokens. */
    BULK_BYTES = 16 << 10,
    LINGER_MS = 2000,    /* time for a client to read its last answer and to close */
    DELIVERY_MS = 60000, /* the same while the client has not taken all bytes */
    STATUS_FAILED = 400, /* answers from this status on are not measured */
    REPORT_MS = 100,     /* age of the oldest latency at a report */
};

enum side { CLIENT, BACKEND, SIDES };

enum watch_kind {
    WATCH_LISTEN,
    WATCH_CHANNEL,
    WATCH_SIGNAL,
    WATCH_SCRAPE,
    WATCH_CLIENT,
    WATCH_BACKEND,
};

/* The value that epoll returns for a descriptor. */
struct watch {
    enum watch_kind kind;
    struct connection *connection; /* of WATCH_CLIENT and WATCH_BACKEND */
};

/* Bytes that a peer did not take yet; allocated only while there are any. */
struct waiting {
    char *bytes;
    size_t start, length;
};

/* One peer of a connection. */
struct end {
    struct watch watch;
    int fd;          /* -1: none */
    bool readable;   /* epoll is edge-triggered: set until a read found nothing */
    bool hung_up;    /* the peer's end of stream or an error is among what is readable */
    bool finished;   /* the end of the peer's stream was read */
    bool shut;       /* our end of the stream was sent */
    bool connecting; /* the connection is not established yet */
    struct waiting waiting;
};

/* A request that was not answered completely. */
struct request {
    int64_t start_us;   /* arrival of its last byte; of its first bytes until then */
    int64_t stalled_us; /* connection's stall at that time */
    enum http1_method method;
    enum http1_upgrade upgrade;
};

/* An answer in progress. */
struct answer {
    bool begun; /* its head was read */
    bool has_body;
    bool is_bulk;    /* its last piece was large */
    int64_t last_us; /* arrival of its last piece; 0: none */
};

struct stream {
    uint32_t id;
    struct request request;
    struct answer answer;
};

enum mode { MODE_HTTP1, MODE_H2, MODE_TUNNEL };

struct connection {
    struct list link;  /* in proxy->connections or proxy->dead */
    struct list again; /* in proxy->again, or in no list */
    struct proxy *proxy;
    struct end ends[SIDES];
    enum mode mode;
    bool dead;
    bool lingers; /* no backend any more: delivers its bytes, then waits for the client's end */
    bool fresh;   /* nothing was received on this connection to the program */
    bool awaits_upgrade;      /* the answer decides how the client's next bytes are parsed */
    int port;                 /* of the program */
    uint32_t generation;      /* of the list of programs, when the port was chosen */
    int64_t give_up_ms;       /* end of the lingering */
    int64_t stalled_since_us; /* the client has not taken all bytes since then; 0: has */
    int64_t stalled_us;       /* sum of the earlier stalls */
    struct http1_parser http1[SIDES];
    struct h2_reader h2[SIDES];
    /* HTTP/1.x: requests, oldest first, in a ring */
    struct request *requests;
    uint32_t request_capacity;
    uint64_t requests_pushed, requests_popped;
    struct answer answer; /* to the oldest request */
    bool interim;         /* the current response is interim (1xx) */
    /* HTTP/2 */
    struct stream *streams;
    uint32_t stream_count, stream_capacity, stream_last;
};

struct proxy {
    int epoll_fd, listen_fd, channel_fd, signal_fd;
    struct watch listen_watch, channel_watch, signal_watch, scrape_watch;
    struct list connections, dead, again;
    size_t connection_count, connections_max;
    bool accepting;          /* the listening socket is watched */
    int64_t accept_again_ms; /* end of a pause in accepting; INT64_MAX: no pause */
    int64_t report_at_ms;    /* INT64_MAX: nothing to report */
    int64_t end_at_ms;       /* INT64_MAX: SIGTERM has not arrived */
    int64_t linger_at_ms;    /* next look at lingering connections; INT64_MAX: there are none */
    struct backends backends;
    struct measure measure;
    struct scrape scrape; /* next_ms INT64_MAX: of no server */
    char block[RELAY_BYTES];
};

/* ---- relay.c      ---- */

/* Makes a connection for an accepted client; owns the descriptor, also on failure. */
void relay_new(struct proxy *p, int fd);
/* Takes what epoll has found. */
void relay_event(struct connection *c, enum side side, uint32_t events, int64_t now_us);
/* Continues a connection of proxy->again. */
void relay_continue(struct connection *c, int64_t now_us);
/* Closes both ends, and moves the connection to proxy->dead. */
void relay_close(struct connection *c);
void relay_free(struct connection *c);
/* Leaves a program that is no longer in the list, now or with the end of the open requests. */
void relay_move(struct connection *c);
/* Ends as soon as the received bytes are delivered. */
void relay_end(struct connection *c);

/* ---- observe.c ---- */

/* Reads bytes of one side on their way. */
void observe(struct connection *c, enum side from, const char *bytes, size_t length,
             int64_t now_us);
/* The program has ended its stream, which completes some answers. */
void observe_end(struct connection *c, int64_t now_us);
/* Returns whether no request is open. */
bool observe_is_idle(const struct connection *c);
/* Prepares for a new connection to a program. */
void observe_reconnect(struct connection *c);
uint64_t observe_open_requests(const struct connection *c);

/* ---- proxy.c ---- */

/* Looks at lingering connections from time to time. */
void proxy_linger(struct proxy *p, int64_t now_ms);
void proxy_measured(struct proxy *p, enum control_time time, int64_t us);
