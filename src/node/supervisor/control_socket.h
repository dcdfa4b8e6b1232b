/*
 * control.sock: how the agent and the task's own programs talk to a supervisor.
 *
 * A unix SOCK_SEQPACKET socket in the attempt's directory (mode 0700: its user and root). One
 * packet, one command, one reply, in order:
 *
 *   stop GRACE_MS                 SIGTERM to the task's process group, SIGKILL to all after that
 *   kill                          SIGKILL to all now
 *   signal NUMBER                 to the task's process group
 *   input OFFSET END\nBYTES       standard input from byte OFFSET on; END 1: nothing follows.
 *                                 Bytes that were taken before are skipped: idempotent
 *   ready                         the service is ready: abi/control.h
 *   progress SAMPLES              number of samples that this attempt has processed: speed.h
 *   latency\nMICROSECONDS COUNT…  durations of requests: abi/control.h, latency.h
 *   watch                         notices follow: "changed" after each change in the directory,
 *                                 "speed SAMPLES_PER_S" after each measurement, and
 *                                 "latency US_OF_5S US_OF_10S REQUESTS_OF_10S" after reports
 *   watch endings                 the same, and "ending GRACE_MS" when the supervisor is about to
 *                                 end the task by itself; the watcher ends the task by then
 *
 * Replies: "ok", "ok OFFSET" (input: taken up to there, perhaps not all), "error SENTENCE".
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/control.h"
#include "base/error.h"

#define CONTROL_SOCKET_NAME "control.sock"
#define CONTROL_CHANGED     "changed"

enum {
    CONTROL_PEERS_MAX = 16,
    CONTROL_DATA_MAX = 64 << 10, /* bytes of input in one packet */
    CONTROL_PACKET_MAX = CONTROL_DATA_MAX + 64,
};

enum control_kind {
    CONTROL_STOP,
    CONTROL_KILL,
    CONTROL_SIGNAL,
    CONTROL_INPUT,
    CONTROL_READY,
    CONTROL_PROGRESS,
    CONTROL_LATENCY,
    CONTROL_WATCH,
};

struct control_command {
    enum control_kind kind;
    int64_t grace_ms;
    int signal;
    uint64_t samples;
    uint64_t offset;
    bool end;
    bool endings;     /* of a watch */
    const char *data; /* inside the packet */
    size_t length;
};

/* Accepts exactly the packets of control_command_write. -ERR_PROTOCOL. */
int control_command_parse(const char *packet, size_t length, struct control_command *ret);
/* Returns the packet's length; packet holds CONTROL_PACKET_MAX. length of data ≤ CONTROL_DATA_MAX.
 */
size_t control_command_write(const struct control_command *command, char *packet);

/* "ok OFFSET", the reply to input. false: another reply. */
bool control_reply_parse_taken(const char *reply, uint64_t *ret_offset);
void control_reply_write_taken(uint64_t offset, char reply[CONTROL_REPLY_MAX]);

/* "speed SAMPLES_PER_S". false: another notice, or an impossible speed. */
bool control_notice_parse_speed(const char *notice, double *ret_samples_per_s);
void control_notice_write_speed(double samples_per_s, char notice[CONTROL_REPLY_MAX]);

/* "ending GRACE_MS". false: another notice. */
bool control_notice_parse_ending(const char *notice, int64_t *ret_grace_ms);
void control_notice_write_ending(int64_t grace_ms, char notice[CONTROL_REPLY_MAX]);

/* Latency of a service's requests, at the percentile of its SLO. */
struct control_latency {
    uint64_t us_5s, us_10s; /* over the last 5 and 10 s; 0: no request */
    uint64_t requests_10s;
};
/* "latency …". false: another notice. */
bool control_notice_parse_latency(const char *notice, struct control_latency *ret);
void control_notice_write_latency(const struct control_latency *latency,
                                  char notice[CONTROL_REPLY_MAX]);

struct control_socket {
    int listen_fd;
    int peers[CONTROL_PEERS_MAX];
    bool watches[CONTROL_PEERS_MAX], watches_endings[CONTROL_PEERS_MAX];
    bool is_outsider[CONTROL_PEERS_MAX]; /* no process of the task */
    uint64_t arrivals[CONTROL_PEERS_MAX], arrival_last;
};

int control_socket_listen(struct error *e, int directory_fd, struct control_socket *ret);
void control_socket_done(struct control_socket *c);
/* Accepts a peer; one beyond the limit is refused, but a peer from outside the task (the agent)
 * replaces the task's oldest peer. false: no descriptor or memory is available now, try again. */
bool control_socket_accept(struct control_socket *c);
/* The next packet of a peer. 0: none yet; -1: the peer has hung up, and its slot is free. */
int control_socket_receive(struct control_socket *c, int peer, char packet[CONTROL_PACKET_MAX + 1]);
/* Never blocks. false: the peer does not read, and the reply is lost. */
bool control_socket_reply(struct control_socket *c, int peer, const char *text);
/* To all peers that watch. */
void control_socket_notify(struct control_socket *c, const char *text);
/* To the peers that watch for endings. false: there is none. */
bool control_socket_notify_ending(struct control_socket *c, int64_t grace_ms);

/* The client's side: a non-blocking connection. -ERR_UNAVAILABLE: nobody listens. */
int control_socket_connect(struct error *e, int directory_fd, uint32_t owner, int *ret_fd);
