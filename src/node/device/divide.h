/*
 * Divides the devices of this node between tasks and services: evaluates services whenever the
 * monitor has new readings, keeps the results (history.h), and gives the registrar the mode and the
 * share left for tasks. device/share.h makes the decisions. Runs on the loop's thread.
 */
#pragma once
#include "node/device/gpu.h"
#include "node/attempt/terms.h"
#include "wire/nodemsg.h"

struct agent;
struct divide;

int divide_open(struct error *e, struct agent *a);
void divide_close(struct agent *a);
/* Handles new readings of the devices, indexed like the devices. A change of mode becomes a note of
 * the device. */
void divide_look(struct agent *a, const struct gpu_reading *readings);
/* Sets the share with which this task starts, and the reason if the share is less than allowed. All
 * other terms must be final. */
void divide_share(const struct agent *a, uint64_t workload, struct terms *terms);
