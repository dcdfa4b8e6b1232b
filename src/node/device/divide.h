/*
 * How tasks and services divide the devices of this node: looks at services whenever the monitor
 * has news, keeps what it learns (history.h), and tells the registrar which mode holds and what is
 * left for tasks. What is decided, device/share.h says. On the loop's thread.
 */
#pragma once
#include "node/device/gpu.h"
#include "node/attempt/terms.h"
#include "wire/nodemsg.h"

struct agent;
struct divide;

int divide_open(struct error *e, struct agent *a);
void divide_close(struct agent *a);
/* The devices were looked at; readings by their index. A mode that changes is a note of its device.
 * */
void divide_look(struct agent *a, const struct gpu_reading *readings);
/* This task is to start on these terms, of which all else is decided: sets the share that it starts
 * with, and why, if that is less than it may have. */
void divide_share(const struct agent *a, uint64_t workload, struct terms *terms);
