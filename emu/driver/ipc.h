/*
 * Events between processes. The processes share a page with the number of requested and of
 * completed records of the event. Streams write these numbers and wait for them as for any word of
 * memory (host_work.c). Internal to libcuda.so.1.
 */
#pragma once
#include "emu/graph/operation.h"

struct event_share;

int event_share_make(struct context *context, unsigned flags, struct event **ret_event);
void event_share_free(struct event_share *share);
bool event_share_is_reached(const struct event_share *share);
int event_share_record(struct event *event, struct stream *stream);
int event_share_wait_in(struct stream *stream, struct event *event);
/* Makes the calling thread wait for the event's last requested record. */
int event_share_wait(struct event *event);
