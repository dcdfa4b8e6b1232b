/*
 * The machines of a simulated cluster. "5x4xH200:24g" means five nodes with four H200 each, every
 * device limited to 24 GiB of memory. Commas separate groups; a group without the first number is
 * one node. hardware_gpu_at() lists the models.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "model/node.h"

enum { HARDWARE_GROUPS_MAX = 16, HARDWARE_DEVICES_MAX = 100000 };

/* The properties of a GPU model that determine its speed. */
struct hardware_gpu {
    const char *name;  /* name in a specification */
    const char *model; /* the driver's name */
    int sm_count;
    double bandwidth_gb_s;
    double memory_gib;
    bool is_measured; /* speeds come from measured tables; false: extrapolated */
};
/* Returns the GPU model at an index; NULL past the last index. Index 0 is the measured model. */
const struct hardware_gpu *hardware_gpu_at(size_t index);

struct hardware_group {
    const struct hardware_gpu *gpu; /* static storage */
    uint64_t memory_bytes;          /* per device, after the limit */
    size_t node_count;
    int devices_per_node;
};

/* Plain data. */
struct hardware {
    size_t group_count;
    struct hardware_group groups[HARDWARE_GROUPS_MAX];
    size_t node_count, device_count; /* over all groups */
};

/* Returns -ERR_INVALID or -ERR_TOO_LARGE. */
int hardware_parse(struct error *e, const char *text, struct hardware *ret_hardware);
