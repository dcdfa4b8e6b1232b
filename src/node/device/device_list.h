/*
 * A list of devices in the agent's state directory: one a line, its UUID, a space, and the cause. A device that is
 * not there at the moment stays listed: it may come back as it was.
 */
#pragma once
#include <stddef.h>

#include "base/error.h"
#include "model/node.h"

enum { DEVICE_LIST_MAX = 2 * NODE_DEVICES_MAX };

struct device_listed {
    char uuid[DEVICE_UUID_MAX];
    char cause[WORKLOAD_TEXT_MAX]; /* "" if none stands there */
};

struct device_list {
    size_t count;
    struct device_listed items[DEVICE_LIST_MAX];
};

/* One that finds no room is left out. */
void device_list_add(struct device_list *list, const char *uuid, const char *cause);
/* No file is an empty list. */
int device_list_read(struct error *e, int directory_fd, const char *name, struct device_list *ret);
int device_list_write(struct error *e, int directory_fd, const char *name,
                      const struct device_list *list);
