/* A node and its devices, as a node describes itself when it joins. Plain data. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "model/workload.h"

enum {
    NODE_DEVICES_MAX = 64,
    NODE_INSTANCE_MAX = 40,
    NODE_VERSION_MAX = 32,
    DEVICE_MPS_MAX = 16,
    USAGE_COUNTERS_MAX = 128
};

struct device {
    char uuid[DEVICE_UUID_MAX];
    char model[DEVICE_MODEL_MAX]; /* "NVIDIA H200" */
    int index;                    /* on its node, as the driver counts; for display */
    uint64_t memory_bytes;
    int sm_count;
    bool emulated;
};

struct node_info {
    char name[NODE_NAME_MAX];
    char instance[NODE_INSTANCE_MAX]; /* made once in the node's state directory: tells namesakes
                                         apart */
    char version[NODE_VERSION_MAX];   /* of its gpumux */
    struct pairs labels;              /* owned by the arena of the message or the cluster */
    int device_count;
    struct device devices[NODE_DEVICES_MAX];
};

/* Letters, digits, '.', '_', '-'; not empty. */
bool node_name_is_valid(const char *name);

/* How a device is: what its monitor says (device/device.h). */
enum device_state {
    DEVICE_INIT,      /* just started: no task is admitted yet */
    DEVICE_HEALTHY,   /* tasks may come and run */
    DEVICE_UNHEALTHY, /* tasks that run stay, throttled; none comes */
    DEVICE_OVERLIMIT, /* its tasks are evicted */
    DEVICE_DISABLED,  /* nothing runs there until it was repaired, or an operator says so */
    DEVICE_STATE_END
};
DECLARE_NAMES(enum device_state, device_state);

/* What may be started on a device now: less and less. */
enum device_admission { ADMIT_ALL, ADMIT_SERVICES, ADMIT_NONE, ADMISSION_END };
DECLARE_NAMES(enum device_admission, device_admission);

/* A node's word on one device. */
struct device_health {
    char uuid[DEVICE_UUID_MAX];
    enum device_state state;
    enum device_admission admits;
    bool needs_operator;           /* it is out of use until one enables it */
    char cause[WORKLOAD_TEXT_MAX]; /* why it is so; "" at first */
    char mps[DEVICE_MPS_MAX];      /* how its MPS daemon is, in a word; "": it has none */
};

/* Something that happened on a device, for people. */
struct device_note {
    char uuid[DEVICE_UUID_MAX];
    bool alarm; /* somebody must look */
    char text[WORKLOAD_TEXT_MAX];
};

/* What a device was doing over the last second. Percentages 0…100, -1: the device does not say. */
struct device_usage {
    char uuid[DEVICE_UUID_MAX];
    double sm_percent;     /* SM activity where the device has it, else utilisation */
    double memory_percent; /* DRAM bandwidth */
    uint64_t memory_used_bytes;
    double power_watts, power_limit_watts;
    double temperature_celsius;
};

/* How a task shares its device with services. */
enum sharing_mode { SHARING_ALONE, SHARING_TIME, SHARING_SPACE, SHARING_END };
DECLARE_NAMES(enum sharing_mode, sharing_mode);

enum { USAGE_LIMITS_MAX = 8, LIMIT_NAME_MAX = 32, LIMIT_REASON_MAX = 128 };

/* A limit that an attempt is held to at the moment, where it has several devices the strictest. */
struct attempt_limit {
    char name[LIMIT_NAME_MAX]; /* with its unit, as a metric's label: "window_us" */
    uint64_t value;            /* 0: none */
    char reason[LIMIT_REASON_MAX];
};

/* What an attempt was doing. */
struct attempt_usage {
    uint64_t workload;
    int attempt;
    uint64_t memory_used_bytes; /* device memory over all its processes */
    uint64_t suspended_bytes;   /* of it that lies in the host's memory, while it is suspended */
    double cpu_percent;
    uint64_t resident_bytes;
    double samples_per_s;   /* by its own word; -1: it does not say */
    int64_t speed_since_ms; /* how long ago began what this was measured over; -1: not known */
    double latency_ms; /* of a service over 10 s, at its SLO's percentile; -1: it does not say */
    uint64_t requests_10s;    /* that this is of */
    int64_t latency_since_ms; /* how long ago began what this was measured over; -1: not known */
    /* What holds it to its quota and share, for people; "": its node does not say. */
    char enforcement[WORKLOAD_TEXT_MAX];
    bool is_counted;          /* its processes count for themselves, and what follows is known */
    uint64_t counted_bytes;   /* device memory by their account */
    uint64_t peak_bytes;      /* the most of it so far */
    uint64_t uncounted_bytes; /* device memory that they hold beyond their account */
    uint64_t overhead_bytes;  /* of that, what is measured and counts against the quota */
    enum sharing_mode mode;   /* on its first device */
    int limit_count;
    struct attempt_limit limits[USAGE_LIMITS_MAX];
    uint64_t counters[USAGE_COUNTERS_MAX]; /* since the attempt began; wire/counters.h names them */
};

/* How far an attempt has come on its node. Only ever grows. */
enum attempt_phase {
    ATTEMPT_ACCEPTED, /* the node has the grant */
    ATTEMPT_STARTING, /* its supervisor lives */
    ATTEMPT_RUNNING,  /* the process was exec'ed (a service: is ready) */
    ATTEMPT_EXITED,   /* over; final */
    ATTEMPT_PHASE_END
};
DECLARE_NAMES(enum attempt_phase, attempt_phase);

/* Where the memory of an attempt is that is told to leave its devices, and to come back. */
enum suspension {
    SUSPENSION_NONE, /* on its devices */
    SUSPENSION_LEAVING,
    SUSPENSION_DONE, /* in the host's memory */
    SUSPENSION_RETURNING,
    SUSPENSION_END
};
DECLARE_NAMES(enum suspension, suspension);

/* A node's word on one attempt: the whole truth every time, never a difference. */
struct attempt_report {
    uint64_t workload;
    int attempt;
    enum attempt_phase phase;
    union {
        struct attempt_outcome outcome; /* but for `started` and `text`, of ATTEMPT_EXITED */
        struct {
#define OUTCOME(type, member, array, ...) type member array;
#include "model/outcome.def"
        };
    };
    bool cleared; /* it was a suspect, and ran long enough without a fault */
    /* Of the newest order to suspend or to resume it, 0: none came. One that is neither under way
     * nor shows in `suspension` could not be carried out; `text` says why. */
    int turn;
    enum suspension suspension;
    bool
        evicted; /* its device wants it off, and that could be done by suspending it; `text`: why */
};
