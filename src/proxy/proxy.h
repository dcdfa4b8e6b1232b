/*
 * The companion of a service: one process beside it, `gpumux proxy W.A KEY=VALUE…`, which measures
 * the service's requests and reports the latencies to the supervisor. The supervisor starts the
 * companion, which depends neither on the agent nor on the shim.
 *
 *   proxy.c        the loop: new connections, orders, reports
 *   relay.c        one connection of a client and its connection to the program
 *   observe.c      finds requests and answers in the bytes, and measures them
 *   http1.c, h2.c  framing of HTTP/1.x and HTTP/2
 *   backends.c     the programs behind the proxy, and the choice among them
 *   measure.c      latencies that were not reported yet
 *   scrape.c       fetches the metrics page of a server that measures itself
 *   adapter.c      turns metrics pages into latencies; prometheus.c: their format
 *
 * The proxy forwards every byte unchanged. Each connection of a client has one connection to the
 * program, which no other client uses; therefore a message that the proxy cannot parse is still
 * forwarded, and only not measured. A connection without bytes to forward holds no buffer. A peer
 * that does not read stops its counterpart: at most RELAY_BYTES wait in each direction.
 *
 * Keys:
 *   backend=PORT   be a proxy: the program's port on 127.0.0.1; descriptor 3 is the proxy's socket
 *   scrape=PORT    read latencies from the metrics page of a server on this port of 127.0.0.1
 *   from=SERVER    which server: auto (default), vllm, sglang, triton or prometheus
 *   metric=NAME    with from=prometheus: name of the histogram
 *   path=PATH      path of the metrics page; default: /metrics
 *
 * Inherited descriptors:
 *   3  with backend: the listening socket
 *   4  a unix SOCK_SEQPACKET socket to the supervisor: reports (abi/control.h) and their replies;
 *      orders of the supervisor (backends.h)
 *
 * SIGTERM ends the companion, as soon as the answers that it has received are delivered, after
 * at most PROXY_END_MS.
 *
 * This folder contains the companion. Files of the folder proxy may include base, abi.
 */
#pragma once
#include <stddef.h>

enum {
    PROXY_LISTEN_FD = 3,
    PROXY_CHANNEL_FD = 4,
    PROXY_CONNECTIONS_MAX = 4096, /* of clients; further clients wait in the listening socket */
    PROXY_END_MS = 1000,
};

/* Runs the companion to its end. Returns the exit code of the process. */
int proxy_main(char *const *options, size_t count);
