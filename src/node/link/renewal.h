/*
 * Renews a node's certificate over the node's connection, before the certificate expires. Control
 * chooses the time, by its own clock, and issues the new certificate, which the next connection
 * uses.
 */
#pragma once
#include <stdint.h>

struct agent;
struct nodemsg;

/* Requests a certificate after renew_ms, and again until control answers; 0: nothing to renew. To
 * be called after a welcome. */
void renewal_start(struct agent *a, int64_t renew_ms);
/* Stops renewal after a lost connection; the next welcome restarts renewal. */
void renewal_stop(struct agent *a);
void renewal_done(struct agent *a);
/* Handles control's answer. */
void renewal_take(struct agent *a, const struct nodemsg *msg);
