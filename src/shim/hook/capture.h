/* Streams in capture: the driver records calls for a later launch, or forbids them. */
#pragma once
#include <stdbool.h>

#include "shim/life/process.h"

enum { CAPTURE_RELAXED = 2 };

/* Returns whether the stream captures, or must not be used because another stream captures. */
static inline bool capture_is_open(struct process *p, CUstream stream)
{
    CUstreamCaptureStatus status = 0;
    return p->calls.real.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS || status != 0;
}

/* Starts relaxed mode. In any other mode a capture elsewhere would forbid the shim's own calls, and
 * these calls would invalidate that capture. Returns the mode to pass to capture_restore(). */
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
