/* Stream capture: operations of a capturing stream become nodes of a graph. Internal to
 * libcuda.so.1. */
#pragma once
#include "emu/graph/graph.h"

/* Adds the operation after the operations that the stream has captured so far. */
int capture_add(struct stream *stream, const struct operation *operation);
/* Returns the error of a call that a capturing stream forbids, and invalidates the capture. */
int capture_refuse(struct stream *stream);
/* Checks work on the legacy stream, which waits for blocking streams: captures of these streams
 * become invalid. */
int capture_check_legacy(const struct stream *stream);
/* Checks a call that could disturb a capture. Returns CUDA_SUCCESS. If the modes of the captures
 * and of the thread forbid the call, invalidates the captures and returns an error. */
int capture_check_unsafe(struct process *process);
/* Records an event in a capturing stream. */
int capture_record_event(struct event *event, struct stream *stream);
/* Makes a stream wait for an event. Call if the stream captures, or if the event was recorded in a
 * capture. */
int capture_wait_event(struct stream *stream, struct event *event);
/* Returns whether the event was last recorded in a capture that is still open. */
bool capture_has_event(const struct event *event);
/* Returns the error of a call that queries a captured event, and invalidates the capture. */
int capture_refuse_event(const struct event *event);
void capture_discard(struct stream *stream);   /* call under process.lock */
void capture_leave_event(struct event *event); /* call under process.lock */
