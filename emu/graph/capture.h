/* Streams that capture: what is asked of them becomes a graph. Inside libcuda.so.1 only. */
#pragma once
#include "emu/graph/graph.h"

/* Adds the operation behind what the stream has captured so far. */
int capture_add(struct stream *stream, const struct operation *operation);
/* A call that makes no sense on a stream that captures: ends the capture's use, and says so. */
int capture_refuse(struct stream *stream);
/* Before work on the legacy stream: it would have to wait for blocking streams that capture. Ends
 * the use of their captures. */
int capture_check_legacy(const struct stream *stream);
/* Before a call that could disturb a capture: CUDA_SUCCESS, or by the modes of the captures and of
 * the thread it is refused and the captures are invalid. */
int capture_check_unsafe(struct process *process);
/* An event is recorded in a stream that captures, and a stream waits for an event of which either
 * captures. */
int capture_record_event(struct event *event, struct stream *stream);
int capture_wait_event(struct stream *stream, struct event *event);
/* Whether the event was last recorded in a capture, and that goes on. */
bool capture_has_event(const struct event *event);
/* A call that wants to know when a captured event happened: ends the capture's use. */
int capture_refuse_event(const struct event *event);
void capture_discard(struct stream *stream);   /* under process.lock */
void capture_leave_event(struct event *event); /* under process.lock */
