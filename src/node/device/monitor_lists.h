/*
 * Two lists of devices for later agents (device_list.h): `disabled`, out of use until an operator
 * enables them, and `untested`, out of use until a self-test passes.
 */
#pragma once
#include "node/device/device_list.h"

struct agent;
struct device_monitor;

/* Writes both lists from the state of the agent's devices, in the order of the inventory. */
void monitor_lists_write(struct agent *a, struct device_monitor *const *devices, int count);
/* Reads both lists; an unreadable list counts as empty. */
void monitor_lists_read(struct agent *a, struct device_list *ret_untested,
                        struct device_list *ret_disabled);
