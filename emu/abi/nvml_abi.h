/*
 * The part of NVML's binary interface that is emulated: numbers and layouts, declared here so that
 * its header is not needed.
 */
#pragma once
#include <stdint.h>

#include "abi/results.h"

#define NVML_API __attribute__((visibility("default")))

/* Why clocks are lower than they could be: bits. */
enum {
    NVML_REASON_GPU_IDLE = 0x1,
    NVML_REASON_SW_POWER_CAP = 0x4,
    NVML_REASON_HW_SLOWDOWN = 0x8,
    NVML_REASON_SW_THERMAL = 0x20,
    NVML_REASON_HW_THERMAL = 0x40,
    NVML_REASON_HW_POWER_BRAKE = 0x80,
    NVML_REASONS_ALL = 0x1ff,
};

enum { NVML_CLOCK_GRAPHICS = 0, NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2, NVML_CLOCK_VIDEO = 3 };

/* A structure's version is its size and a number. */
#define NVML_VERSION_OF(type, number) ((unsigned)(sizeof(type) | (unsigned)(number) << 24))

struct nvml_memory {
    uint64_t total, free, used;
};

struct nvml_memory_v2 {
    unsigned version;
    uint64_t total, reserved, free, used;
};

struct nvml_utilization {
    unsigned gpu, memory; /* percent */
};

struct nvml_process_v1 {
    unsigned pid;
    uint64_t used_bytes;
};

struct nvml_process_v2 {
    unsigned pid;
    uint64_t used_bytes;
    unsigned gpu_instance, compute_instance;
};

#define NVML_NO_INSTANCE 0xffffffffu

struct nvml_pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
};

struct nvml_rows {
    unsigned max, high, partial, low, none; /* banks by how many spare rows they have */
};

/* Types of events: bits. */
enum {
    NVML_EVENT_SINGLE_BIT_ECC = 0x1,
    NVML_EVENT_DOUBLE_BIT_ECC = 0x2,
    NVML_EVENT_XID = 0x8,
    NVML_EVENTS_ALL = NVML_EVENT_SINGLE_BIT_ECC | NVML_EVENT_DOUBLE_BIT_ECC | NVML_EVENT_XID,
};

struct nvml_event_v1 {
    void *device;
    uint64_t type, data; /* data: the number of an Xid */
};

struct nvml_event {
    void *device;
    uint64_t type, data;
    unsigned gpu_instance, compute_instance;
};

enum nvml_gpm_metric_id {
    NVML_GPM_GRAPHICS_UTIL = 1,
    NVML_GPM_SM_UTIL = 2,
    NVML_GPM_SM_OCCUPANCY = 3,
    NVML_GPM_ANY_TENSOR_UTIL = 5,
    NVML_GPM_DRAM_BW_UTIL = 10,
    NVML_GPM_PCIE_TX_PER_SEC = 20, /* from the device, MiB/s */
    NVML_GPM_PCIE_RX_PER_SEC = 21, /* to it */
};

enum { NVML_GPM_VERSION = 1, NVML_GPM_METRICS_MAX = 333 };

struct nvml_gpm_metric {
    unsigned id;
    int result;
    double value;
    struct {
        char *short_name, *long_name, *unit;
    } info;
};

struct nvml_gpm_sample;

struct nvml_gpm_metrics {
    unsigned version;
    unsigned count;
    struct nvml_gpm_sample *first, *second;
    struct nvml_gpm_metric metrics[]; /* `count` of them; the caller's array is longer */
};

struct nvml_gpm_support {
    unsigned version;
    unsigned is_supported;
};
