/* A thread that samples the devices once per second and keeps the newest sample. After
 * sampler_hurry() the thread lists the processes at once. */
#pragma once
#include "node/device/gpu.h"

struct sampler;

/* Starts the thread. Until sampler_free() only the thread uses gpu, which the caller then closes.
 * With gpu NULL samples stay empty. */
int sampler_new(struct error *e, struct gpu *gpu, struct sampler **ret);
/* Waits for the thread, which may be in a call of the driver. */
void sampler_free(struct sampler *s);
/* Makes the thread list the processes once more, at a time after this call. */
void sampler_hurry(struct sampler *s);
void sampler_read(struct sampler *s, struct gpu_sample *ret);
