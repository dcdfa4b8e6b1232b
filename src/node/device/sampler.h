/* A thread that asks the devices what they do, once a second, and keeps the newest answer. It can be asked to look
 * after their processes at once. */
#pragma once
#include "node/device/gpu.h"

struct sampler;

/* gpu (NULL: answers stay empty) is used by its thread alone until sampler_free; the caller closes it
 * afterwards. */
int sampler_new(struct error *e, struct gpu *gpu, struct sampler **ret);
/* Waits for the thread; a call into the driver may be under way. */
void sampler_free(struct sampler *s);
/* The next answer will be one of processes as they are now, or later. */
void sampler_hurry(struct sampler *s);
void sampler_read(struct sampler *s, struct gpu_sample *ret);
