/*
 * A list of devices in a file of the agent's state directory. Each line is a UUID, a space, and the
 * cause. A device that is absent at the moment stays listed.
 */
#pragma once
#include <stddef.h>

#include "base/error.h"
#include "model/node.h"

enum { DEVICE_LIST_MAX = 2 * NODE_DEVICES_MAX };

struct device_listed {
    char uuid[DEVICE_UUID_MAX];
    char cause[WORKLOAD_TEXT_MAX]; /* "": none */
};

struct device_list {
    size_t count;
    struct device_listed items[DEVICE_LIST_MAX];
};

/* Adds a device. A full list ignores the device. */
void device_list_add(struct device_list *list, const char *uuid, const char *cause);
/* Reads the list; a missing file counts as an empty list. */
int device_list_read(struct error *e, int directory_fd, const char *name, struct device_list *ret);
int device_list_write(struct error *e, int directory_fd, const char *name,
                      const struct device_list *list);
