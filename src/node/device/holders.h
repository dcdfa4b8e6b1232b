/* Attributes device memory to attempts: the driver lists the processes, and /proc shows the parents
 * of each process. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "node/device/gpu.h"
#include "node/supervisor/process.h"

struct agent;

enum { HOLDERS_EVERY_DEVICE = -1 };

/* Returns the device memory of the members of the marked tree, on one device or on all. */
uint64_t holders_members_bytes(const struct process_table *table, const struct gpu_sample *sample,
                               int device);
/* Returns whether a process on the device belongs neither to an attempt nor to gpumux itself. */
bool holders_have_stranger(const struct agent *a, const struct process_table *table,
                           const struct gpu_sample *sample, int device);
