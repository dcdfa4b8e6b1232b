/*
 * Renews a node's certificate over its connection before it expires. Control says when, by its own
 * clock, and issues the new certificate, which the next connection uses.
 */
#pragma once
#include <stdint.h>

struct agent;
struct nodemsg;

/* After a welcome: asks in renew_ms, and repeats until control answers. 0: nothing to renew. */
void renewal_start(struct agent *a, int64_t renew_ms);
/* After a lost connection; the next welcome starts renewal again. */
void renewal_stop(struct agent *a);
void renewal_done(struct agent *a);
/* Control's answer. */
void renewal_take(struct agent *a, const struct nodemsg *msg);
