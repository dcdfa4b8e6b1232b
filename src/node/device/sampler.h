/* A thread that samples the devices once a second and keeps the newest sample. sampler_hurry makes
 * it read the processes at once. */
#pragma once
#include "node/device/gpu.h"

struct sampler;

/* gpu (NULL: answers stay empty) is used by its thread alone until sampler_free; the caller closes
 * it afterwards. */
int sampler_new(struct error *e, struct gpu *gpu, struct sampler **ret);
/* Waits for the thread; a call into the driver may be under way. */
void sampler_free(struct sampler *s);
/* The next sample has the processes as of now, or later. */
void sampler_hurry(struct sampler *s);
void sampler_read(struct sampler *s, struct gpu_sample *ret);
