/*
 * Events between processes. Such an event is a page that the processes share, with the number of
 * records asked for and of those that have happened; streams write and wait for it like for any
 * word of memory (host_work.c). Inside libcuda.so.1 only.
 */
#pragma once
#include "emu/graph/operation.h"

struct event_share;

int event_share_make(struct context *context, unsigned flags, struct event **ret_event);
void event_share_free(struct event_share *share);
bool event_share_is_reached(const struct event_share *share);
int event_share_record(struct event *event, struct stream *stream);
int event_share_wait_in(struct stream *stream, struct event *event);
/* The calling thread waits. */
int event_share_wait(struct event *event);
