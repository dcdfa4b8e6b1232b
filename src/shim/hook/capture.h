/* Streams that are captured: what is called there happens later, or is forbidden. */
#pragma once
#include <stdbool.h>

#include "shim/life/process.h"

enum { CAPTURE_RELAXED = 2 };

/* The stream captures, or must not be used because another does. */
static inline bool capture_is_open(struct process *p, CUstream stream)
{
    CUstreamCaptureStatus status = 0;
    return p->calls.real.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS || status != 0;
}

/* Around calls of the shim's own that a capture elsewhere would forbid, and be spoilt by. */
static inline CUstreamCaptureMode capture_relax(struct process *p)
{
    CUstreamCaptureMode mode = CAPTURE_RELAXED;
    (void)p->calls.real.cuThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

static inline void capture_restore(struct process *p, CUstreamCaptureMode mode)
{
    (void)p->calls.real.cuThreadExchangeStreamCaptureMode(&mode);
}
