/* Streams in capture: their operations become nodes of a graph. Internal to libcuda.so.1. */
#pragma once
#include "emu/graph/graph.h"

/* Adds the operation after the operations that the stream has captured so far. */
int capture_add(struct stream *stream, const struct operation *operation);
/* Fails a call that is not allowed on a capturing stream, and invalidates the capture. */
int capture_refuse(struct stream *stream);
/* Checks work on the legacy stream, which would wait for blocking streams that capture: such
 * captures become invalid. */
int capture_check_legacy(const struct stream *stream);
/* Checks a call that could disturb a capture. Returns CUDA_SUCCESS, or an error if the modes of the
 * captures and of the thread forbid the call; the captures then become invalid. */
int capture_check_unsafe(struct process *process);
/* Record an event in a capturing stream, and make a stream wait for an event when either
 * captures. */
int capture_record_event(struct event *event, struct stream *stream);
int capture_wait_event(struct stream *stream, struct event *event);
/* Returns whether the event was last recorded in a capture that is still open. */
bool capture_has_event(const struct event *event);
/* Fails a call that asks for the time of a captured event, and invalidates the capture. */
int capture_refuse_event(const struct event *event);
void capture_discard(struct stream *stream);   /* call under process.lock */
void capture_leave_event(struct event *event); /* call under process.lock */
