/*
 * The machines of a simulated cluster: "5x4xH200:24g" are five nodes of four H200, each cut to 24
 * GiB; several groups are separated by commas. A group without the first number is one node.
 * Models: hardware_gpu_at().
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "model/node.h"

enum { HARDWARE_GROUPS_MAX = 16, HARDWARE_DEVICES_MAX = 100000 };

/* What of a model of GPU counts for how fast it is. */
struct hardware_gpu {
    const char *name;  /* as written in a specification */
    const char *model; /* as the driver has it */
    int sm_count;
    double bandwidth_gb_s;
    double memory_gib;
    bool is_measured; /* its speeds come from measured tables; else they are extrapolated */
};
/* NULL past the last; the first is the one that was measured. */
const struct hardware_gpu *hardware_gpu_at(size_t index);

struct hardware_group {
    const struct hardware_gpu *gpu; /* static */
    uint64_t memory_bytes;          /* of a device; cut, or all it has */
    size_t node_count;
    int devices_per_node;
};

/* Plain data. */
struct hardware {
    size_t group_count;
    struct hardware_group groups[HARDWARE_GROUPS_MAX];
    size_t node_count, device_count; /* of all groups */
};

/* -ERR_INVALID, -ERR_TOO_LARGE. */
int hardware_parse(struct error *e, const char *text, struct hardware *ret_hardware);
