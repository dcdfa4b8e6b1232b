/*
 * A node's certificate is renewed over its own connection, before it expires: control says when, by
 * its own clock, and issues it. The connection goes on; the next one shows the new certificate.
 */
#pragma once
#include <stdint.h>

struct agent;
struct nodemsg;

/* After a welcome: asks in renew_ms, and again until there is an answer. 0: there is nothing to
 * renew. */
void renewal_start(struct agent *a, int64_t renew_ms);
/* The connection is gone: the next welcome starts it again. */
void renewal_stop(struct agent *a);
void renewal_done(struct agent *a);
/* Control's answer. */
void renewal_take(struct agent *a, const struct nodemsg *msg);
