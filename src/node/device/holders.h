/* Who holds the memory of devices: the driver names processes, /proc says whose they are. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "node/device/gpu.h"
#include "node/supervisor/process.h"

struct agent;

enum { HOLDERS_EVERY_DEVICE = -1 };

/* That the members of the tree last asked for hold on a device, or on all of them. */
uint64_t holders_members_bytes(const struct process_table *table, const struct gpu_sample *sample,
                               int device);
/* A process uses the device that is neither an attempt's nor one that the agent needs there itself. */
bool holders_have_stranger(const struct agent *a, const struct process_table *table,
                           const struct gpu_sample *sample, int device);
