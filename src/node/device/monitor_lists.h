/*
 * What agents to come must know of the devices: those that are out of use until an operator enables them, in the file
 * `disabled` of the agent's directory, and those that must pass a self-test first, in `untested`. See device_list.h.
 */
#pragma once
#include "node/device/device_list.h"

struct agent;
struct device_monitor;

/* Of the agent's devices, in their order. */
void monitor_lists_write(struct agent *a, struct device_monitor *const *devices, int count);
/* One that cannot be read is empty. */
void monitor_lists_read(struct agent *a, struct device_list *ret_untested,
                        struct device_list *ret_disabled);
