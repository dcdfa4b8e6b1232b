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
 *                                 What was taken before is skipped, so repeating is harmless
 *   ready                         the service says that it is: abi/control.h
 *   progress SAMPLES              how many samples this attempt has done so far: see speed.h
 *   latency\nMICROSECONDS COUNT…  how long requests took: abi/control.h, latency.h
 *   watch                         "changed" follows whenever there is something new in the directory,
 *                                 "speed SAMPLES_PER_S" whenever that was measured, and
 *                                 "latency US_OF_5S US_OF_10S REQUESTS_OF_10S" after reports of it
 *   watch endings                 the same; and "ending GRACE_MS" when the task, or what it left behind, is to end at
 *                                 nobody's word: whoever asked has it ended by then
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

/* Takes what control_command_write writes, nothing looser. -ERR_PROTOCOL. */
int control_command_parse(const char *packet, size_t length, struct control_command *ret);
/* Returns the packet's length; packet holds CONTROL_PACKET_MAX. length of data ≤ CONTROL_DATA_MAX.
 */
size_t control_command_write(const struct control_command *command, char *packet);

/* "ok OFFSET": the reply to input. false: it is another reply. */
bool control_reply_parse_taken(const char *reply, uint64_t *ret_offset);
void control_reply_write_taken(uint64_t offset, char reply[CONTROL_REPLY_MAX]);

/* "speed SAMPLES_PER_S". false: it is something else, or no possible speed. */
bool control_notice_parse_speed(const char *notice, double *ret_samples_per_s);
void control_notice_write_speed(double samples_per_s, char notice[CONTROL_REPLY_MAX]);

/* "ending GRACE_MS". false: it is something else. */
bool control_notice_parse_ending(const char *notice, int64_t *ret_grace_ms);
void control_notice_write_ending(int64_t grace_ms, char notice[CONTROL_REPLY_MAX]);

/* What a service's requests took, at the percentile of its SLO. */
struct control_latency {
    uint64_t us_5s, us_10s; /* over the last 5 and 10 s; 0: there were none */
    uint64_t requests_10s;
};
/* "latency …". false: it is something else. */
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
/* One more peer; those past the limit are turned away. Whoever comes from outside, as the agent does, then takes the
 * place of the task's oldest. False: it waits, as there is no descriptor, or no memory, for it now. */
bool control_socket_accept(struct control_socket *c);
/* The next packet of a peer; 0: none now, -1: it is gone and its slot free. */
int control_socket_receive(struct control_socket *c, int peer, char packet[CONTROL_PACKET_MAX + 1]);
/* Never blocks; a peer that does not read loses its replies, which is false. */
bool control_socket_reply(struct control_socket *c, int peer, const char *text);
/* To all who watch. */
void control_socket_notify(struct control_socket *c, const char *text);
/* To those of them who watch for endings. False: nobody hears it. */
bool control_socket_notify_ending(struct control_socket *c, int64_t grace_ms);

/* The other side: a non-blocking connection, or -ERR_UNAVAILABLE when nobody listens. */
int control_socket_connect(struct error *e, int directory_fd, uint32_t owner, int *ret_fd);
