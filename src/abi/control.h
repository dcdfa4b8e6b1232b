/*
 * What a workload's own programs may say to the supervisor of their attempt: the client library writes
 * these words, node/control_socket.h reads them among its other commands.
 *
 * GPUMUX_CONTROL names a unix SOCK_SEQPACKET socket. One packet is one command and has one reply, in
 * order: CONTROL_OK, or "error" and a sentence.
 *
 *   ready              the service says that it is
 *   progress SAMPLES   how many samples this attempt has done so far, decimal
 */
#pragma once
#include <stdint.h>

#define CONTROL_WORD_READY    "ready"
#define CONTROL_WORD_PROGRESS "progress"
#define CONTROL_OK            "ok"
#define CONTROL_SAMPLES_MAX   UINT64_C(1000000000000000) /* a double counts up to there exactly */

enum { CONTROL_REPLY_MAX = 256 };
