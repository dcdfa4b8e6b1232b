/*
 * control.sock: the socket by which the agent and the task's own programs command a supervisor.
 *
 * A unix SOCK_SEQPACKET socket in the attempt's directory (mode 0700: its user and root). Each
 * packet is one command and gets one reply, in order:
 *
 *   stop GRACE_MS                 SIGTERM to the task's process group, SIGKILL to all processes
 *                                 after the grace period
 *   kill                          SIGKILL to all processes now
 *   signal NUMBER                 signal to the task's process group
 *   input OFFSET END\nBYTES       standard input from byte OFFSET on; END 1: nothing follows.
 *                                 Bytes taken before are skipped, so a repeat is harmless
 *   ready                         the service is ready: abi/control.h
 *   progress SAMPLES              number of samples that this attempt has processed: speed.h
 *   latency\nMICROSECONDS COUNT…  durations of requests: abi/control.h, latency.h
 *   first\n…, between\n…          times within the answers to requests, like latency
 *   note\nSENTENCE                a line for the workload's standard error
 *   advice USED BATCH             advice that the program has followed: abi/control.h
 *   advise SEQUENCE BATCH CHECKPOINTS
 *                                 the newest advice for the programs of the attempt
 *   watch                         notices follow: "changed" after each change in the directory,
 *                                 "speed SAMPLES_PER_S" after each measurement, and
 *                                 "latency US_OF_5S US_OF_10S REQUESTS_OF_10S ANSWERED LATE"
 *                                 after reports;
 *                                 "first …" and "between …" likewise; "advice USED BATCH" when it
 *                                 changes
 *   watch endings                 notices as for watch, and "ending GRACE_MS" before the supervisor
 *                                 itself ends the task; the watcher must end the task within
 *                                 GRACE_MS
 *
 * Replies: "ok", "ok OFFSET" (input up to OFFSET was taken, perhaps not all), "ok SEQUENCE BATCH
 * CHECKPOINTS" to advice, "error SENTENCE".
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
    CONTROL_LATENCY, /* latency, first or between */
    CONTROL_NOTE,
    CONTROL_ADVICE,
    CONTROL_ADVISE,
    CONTROL_WATCH,
};

/* Advice to the programs of an attempt; numbers of at most CONTROL_SAMPLES_MAX. */
struct control_advice {
    uint64_t sequence, batch, checkpoints;
};

/* The newest advice that a program has followed, and the batch size that it used last. */
struct control_followed {
    uint64_t sequence, batch;
};

struct control_command {
    enum control_kind kind;
    int64_t grace_ms;
    int signal;
    uint64_t samples;
    enum control_time time;           /* of CONTROL_LATENCY */
    struct control_advice advice;     /* ADVISE */
    struct control_followed followed; /* ADVICE */
    uint64_t offset;
    bool end;
    bool endings;     /* "watch endings" */
    const char *data; /* points into the packet */
    size_t length;
};

/* Parses a packet of control_command_write(). Returns 0 or -ERR_PROTOCOL. */
int control_command_parse(const char *packet, size_t length, struct control_command *ret);
/* Writes a packet of at most CONTROL_PACKET_MAX bytes; command->length must be ≤ CONTROL_DATA_MAX.
 * Returns the packet's length. */
size_t control_command_write(const struct control_command *command, char *packet);

/* Parses "ok OFFSET", the reply to input. Returns false for another reply. */
bool control_reply_parse_taken(const char *reply, uint64_t *ret_offset);
void control_reply_write_taken(uint64_t offset, char reply[CONTROL_REPLY_MAX]);

/* Parses "speed SAMPLES_PER_S". Returns false for another notice or an impossible speed. */
bool control_notice_parse_speed(const char *notice, double *ret_samples_per_s);
void control_notice_write_speed(double samples_per_s, char notice[CONTROL_REPLY_MAX]);

/* Parses "advice USED BATCH". Returns false for another notice. */
bool control_notice_parse_followed(const char *notice, struct control_followed *ret);
void control_notice_write_followed(const struct control_followed *followed,
                                   char notice[CONTROL_REPLY_MAX]);
void control_reply_write_advice(const struct control_advice *advice, char reply[CONTROL_REPLY_MAX]);

/* Parses "ending GRACE_MS". Returns false for another notice. */
bool control_notice_parse_ending(const char *notice, int64_t *ret_grace_ms);
void control_notice_write_ending(int64_t grace_ms, char notice[CONTROL_REPLY_MAX]);

/* One kind of time of a service's requests, at the percentile of its SLO. */
struct control_latency {
    uint64_t us_5s, us_10s; /* latency over the last 5 and 10 s; 0: no request */
    uint64_t requests_10s;
    uint64_t answered, late; /* since the supervisor began; `late` counts times above the target */
};
/* Parses "latency …", "first …" or "between …". Returns false for another notice. */
bool control_notice_parse_latency(const char *notice, enum control_time *ret_time,
                                  struct control_latency *ret);
void control_notice_write_latency(enum control_time time, const struct control_latency *latency,
                                  char notice[CONTROL_REPLY_MAX]);

struct control_socket {
    int listen_fd;
    int peers[CONTROL_PEERS_MAX];
    bool watches[CONTROL_PEERS_MAX], watches_endings[CONTROL_PEERS_MAX];
    bool is_outsider[CONTROL_PEERS_MAX];                /* a peer from outside the task */
    uint64_t arrivals[CONTROL_PEERS_MAX], arrival_last; /* order of the last packets */
};

int control_socket_listen(struct error *e, int directory_fd, struct control_socket *ret);
/* Accepts a peer. At the limit, a new peer replaces the peer of the task that has been silent for
 * the longest time, and is refused if all peers are from outside the task (the agent). Returns
 * false if descriptors or memory are exhausted; the caller then retries. */
bool control_socket_accept(struct control_socket *c);
/* Adds a connection that is already established, as a peer that nobody replaces. Owns the
 * descriptor, also on failure. Returns false if there is no room. */
bool control_socket_adopt(struct control_socket *c, int fd);
/* Receives the next packet of a peer. Returns the packet's length, 0 if no packet has arrived, or
 * -1 if the peer closed the connection; the peer's slot is then free. */
int control_socket_receive(struct control_socket *c, int peer, char packet[CONTROL_PACKET_MAX + 1]);
/* Sends a reply without blocking. Returns false if the peer does not read; the reply is lost. */
bool control_socket_reply(struct control_socket *c, int peer, const char *text);
/* Sends a notice to all peers that sent `watch`. */
void control_socket_notify(struct control_socket *c, const char *text);
/* Sends "ending" to the peers that watch for endings. Returns false if no peer watches for
 * endings. */
bool control_socket_notify_ending(struct control_socket *c, int64_t grace_ms);

/* Connects a client without blocking. Returns 0, or -ERR_UNAVAILABLE if no supervisor listens. */
int control_socket_connect(struct error *e, int directory_fd, uint32_t owner, int *ret_fd);
