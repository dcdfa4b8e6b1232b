#include "sim/hardware.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "wire/spec.h"

enum { GROUP_TEXT_MAX = 64 };

static const struct hardware_gpu gpus[] = {
    {"H200", "NVIDIA H200", 132, 4800, 141, true},
    {"H100", "NVIDIA H100", 132, 3350, 80, false},
    {"B200", "NVIDIA B200", 148, 8000, 180, false},
    {"A100", "NVIDIA A100", 108, 2039, 80, false},
    {"A10", "NVIDIA A10", 72, 600, 24, false},
    {"L4", "NVIDIA L4", 58, 300, 24, false},
    {"V100", "NVIDIA V100", 80, 900, 32, false},
    {"T4", "NVIDIA T4", 40, 320, 16, false},
    {"RTX4090", "NVIDIA GeForce RTX 4090", 128, 1008, 24, false},
    {"RTX3090", "NVIDIA GeForce RTX 3090", 82, 936, 24, false},
};

const struct hardware_gpu *hardware_gpu_at(size_t index)
{
    return index < sizeof gpus / sizeof *gpus ? &gpus[index] : NULL;
}

static const struct hardware_gpu *find_gpu(const char *name)
{
    const struct hardware_gpu *gpu = gpus;
    for (size_t i = 0; (gpu = hardware_gpu_at(i)) != NULL; i++)
        if (strcasecmp(gpu->name, name) == 0)
            return gpu;
    return NULL;
}

/* Reads a number followed by an x; returns 1 and reads nothing if there is none. */
static long take_count(const char **text)
{
    char *end;
    if (**text < '0' || **text > '9')
        return 1;
    long count = strtol(*text, &end, 10);
    if (*end != 'x')
        return 0;
    *text = end + 1;
    return count;
}

static int parse_group(struct error *e, char *text, struct hardware_group *ret)
{
    const char *at = text;
    char *colon = strchr(text, ':');
    if (colon)
        *colon = '\0';
    long first = take_count(&at);
    bool has_two = *at >= '0' && *at <= '9';
    long second = take_count(&at);
    struct hardware_group group = {.gpu = find_gpu(at),
                                   .node_count = has_two ? (size_t)first : 1,
                                   .devices_per_node = (int)(has_two ? second : first)};
    if (first < 1 || second < 1 || first > HARDWARE_DEVICES_MAX ||
        (has_two ? second : first) > NODE_DEVICES_MAX)
        return error_set(e, ERR_INVALID,
                         "nodes must be NODESxDEVICESxMODEL[:MEMORY], such as 5x4xH200:24g, with "
                         "at most %d devices a node",
                         NODE_DEVICES_MAX);
    if (!group.gpu)
        return error_set(e, ERR_INVALID,
                         "unknown GPU model '%s'; the models are H200, H100, B200, A100, A10, L4, "
                         "V100, T4, RTX4090, RTX3090",
                         at);
    group.memory_bytes = (uint64_t)(group.gpu->memory_gib * 0x1p30);
    if (colon) {
        uint64_t cut;
        if (spec_parse_bytes(NULL, colon + 1, &cut) < 0 || cut == 0 || cut > group.memory_bytes)
            return error_set(e, ERR_INVALID, "'%s' is not a part of the %g GiB of a %s", colon + 1,
                             group.gpu->memory_gib, group.gpu->name);
        group.memory_bytes = cut;
    }
    *ret = group;
    return 0;
}

int hardware_parse(struct error *e, const char *text, struct hardware *ret_hardware)
{
    struct hardware hardware = {0};
    for (const char *at = text;; at++) {
        char part[GROUP_TEXT_MAX];
        size_t length = strcspn(at, ",");
        if (length == 0 || length >= sizeof part)
            return error_set(e, ERR_INVALID, "'%s' is not a list of nodes", text);
        if (hardware.group_count == HARDWARE_GROUPS_MAX)
            return error_set(e, ERR_TOO_LARGE, "more than %d groups of nodes", HARDWARE_GROUPS_MAX);
        memcpy(part, at, length);
        part[length] = '\0';
        struct hardware_group *group = &hardware.groups[hardware.group_count++];
        int r = parse_group(e, part, group);
        if (r < 0)
            return r;
        hardware.node_count += group->node_count;
        hardware.device_count += group->node_count * (size_t)group->devices_per_node;
        if (hardware.device_count > HARDWARE_DEVICES_MAX)
            return error_set(e, ERR_TOO_LARGE, "more than %d devices", HARDWARE_DEVICES_MAX);
        at += length;
        if (!*at)
            break;
    }
    *ret_hardware = hardware;
    return 0;
}
