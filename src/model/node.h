/* A node and its devices, as the node's hello describes them. Plain data. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "model/workload.h"

enum {
    NODE_DEVICES_MAX = 64,
    NODE_INSTANCE_MAX = 40,
    NODE_VERSION_MAX = 32,
    DEVICE_MPS_MAX = 16,
    DEVICE_NAME_MAX = NODE_NAME_MAX + 12, /* NODE:INDEX; a UUID fits too */
    USAGE_COUNTERS_MAX = 128
};

struct device {
    char uuid[DEVICE_UUID_MAX];
    char model[DEVICE_MODEL_MAX]; /* "NVIDIA H200" */
    int index;                    /* the driver's index on this node; for display */
    uint64_t memory_bytes;
    int sm_count;
    bool emulated;
};

struct node_info {
    char name[NODE_NAME_MAX];
    /* Random id of the node's state directory; distinguishes nodes of the same name. */
    char instance[NODE_INSTANCE_MAX];
    char version[NODE_VERSION_MAX]; /* gpumux version of the node */
    struct pairs labels;            /* owned by the arena of the message or of the cluster */
    int cores;                      /* CPUs that the node may use; 0: unknown */
    int device_count;
    struct device devices[NODE_DEVICES_MAX];
};

/* Returns whether the name is non-empty and consists of letters, digits, '.', '_' and '-'. */
bool node_name_is_valid(const char *name);
/* Writes NODE:INDEX, the name of a device for people. */
void device_write_name(const char *node, int index, char ret[DEVICE_NAME_MAX]);

/* State of a device, as its monitor reports it (device/device.h). */
enum device_state {
    DEVICE_INIT,      /* just started; no task is admitted yet */
    DEVICE_HEALTHY,   /* tasks may start and run */
    DEVICE_UNHEALTHY, /* running tasks are throttled and stay; no task starts */
    DEVICE_OVERLIMIT, /* tasks are evicted */
    DEVICE_DISABLED,  /* nothing runs until a repair succeeds or an operator enables the device */
    DEVICE_STATE_END
};
DECLARE_NAMES(enum device_state, device_state);

/* Workloads that may start on a device, from all to none. */
enum device_admission { ADMIT_ALL, ADMIT_SERVICES, ADMIT_NONE, ADMISSION_END };
DECLARE_NAMES(enum device_admission, device_admission);

/* A node's report on the health of one device. */
struct device_health {
    char uuid[DEVICE_UUID_MAX];
    enum device_state state;
    enum device_admission admits;
    bool needs_operator;           /* device stays disabled until an operator enables it */
    char cause[WORKLOAD_TEXT_MAX]; /* reason of the state; "" at first */
    char mps[DEVICE_MPS_MAX];      /* state of the MPS daemon, in one word; "": no daemon */
};

/* An event on a device, as text for people. */
struct device_note {
    char uuid[DEVICE_UUID_MAX];
    bool alarm; /* needs an operator's attention */
    char text[WORKLOAD_TEXT_MAX];
};

/* Activity of a device over the last second. Percentages are 0…100; -1: not reported. */
struct device_usage {
    char uuid[DEVICE_UUID_MAX];
    double sm_percent;     /* SM activity if the device reports SM activity, else utilisation */
    double memory_percent; /* DRAM bandwidth */
    uint64_t memory_used_bytes;
    double power_watts, power_limit_watts;
    double temperature_celsius;
};

/* How a task shares its device with services: not at all, by time or by SMs. */
enum sharing_mode { SHARING_ALONE, SHARING_TIME, SHARING_SPACE, SHARING_END };
DECLARE_NAMES(enum sharing_mode, sharing_mode);

enum { USAGE_LIMITS_MAX = 8, LIMIT_NAME_MAX = 32, LIMIT_REASON_MAX = 128 };

/* A limit in force on an attempt; for an attempt on several devices, the strictest of the devices'
 * limits. */
struct attempt_limit {
    char name[LIMIT_NAME_MAX]; /* metric label, with the unit: "window_us" */
    uint64_t value;            /* 0: no limit */
    char reason[LIMIT_REASON_MAX];
};

enum { ATTAINMENT_MINUTES = 60, CONTROL_WHY_MAX = 256 };

/* Number of requests that a service answered in a period, and of those past their deadline. */
struct attainment_count {
    uint64_t answered, late;
};

/* The controller of a service on its first device (device/controller.h), and the attainment of the
 * SLO. A negative number is unknown. */
struct attempt_control {
    char setting[LIMIT_NAME_MAX]; /* in force for the tasks beside the service */
    char why[CONTROL_WHY_MAX];
    bool is_trial;
    bool is_unreachable; /* the target is missed while tasks are held */
    double target_us;
    double allowed_fraction, late_fraction; /* of the recent requests */
    double stretch, allowed_stretch;        /* duration of bursts beside tasks ÷ alone */
    double held_latency_us;                 /* with tasks held */
    double task_speed;                      /* ÷ the highest speed measured for these tasks */
    struct attainment_count minute, ten_minutes, hour, all;
    /* The last minutes, the present minute last; shorter for a younger attempt. */
    int minute_count;
    int minute_late_count; /* equals minute_count */
    unsigned minutes_answered[ATTAINMENT_MINUTES], minutes_late[ATTAINMENT_MINUTES];
};

/* Resource usage of one attempt. */
struct attempt_usage {
    uint64_t workload;
    int attempt;
    uint64_t memory_used_bytes; /* device memory of all processes of the attempt */
    uint64_t suspended_bytes;   /* part of memory_used_bytes that is suspended to host memory */
    double cpu_percent;
    uint64_t resident_bytes;
    double samples_per_s;   /* progress that the workload reports; -1: not reported */
    int64_t speed_since_ms; /* age of the start of the period behind samples_per_s; -1: unknown */
    /* Latency of a service over 10 s, at the percentile of its SLO; -1: not reported. */
    double latency_ms;
    uint64_t requests_10s;    /* number of requests behind latency_ms */
    int64_t latency_since_ms; /* age of the start of the period behind latency_ms; -1: unknown */
    /* Newest advice that the programs have followed, and the batch size that they used last; 0:
     * none. */
    uint64_t advice_used, batch_used;
    /* Text for people: what enforces the quota and the share of this attempt; "": not reported. */
    char enforcement[WORKLOAD_TEXT_MAX];
    bool is_counted;          /* the shim reports the fields below */
    uint64_t counted_bytes;   /* device memory that the shim has counted */
    uint64_t peak_bytes;      /* maximum of counted_bytes so far */
    uint64_t uncounted_bytes; /* device memory in use beyond counted_bytes */
    uint64_t overhead_bytes;  /* measured part of uncounted_bytes that is charged to the quota */
    enum sharing_mode mode;   /* on the attempt's first device */
    int limit_count;
    struct attempt_limit limits[USAGE_LIMITS_MAX];
    uint64_t counters[USAGE_COUNTERS_MAX]; /* since the attempt started; names in wire/counters.h */
    bool has_control;                      /* `control` is known: the service has a controller */
    struct attempt_control control;
};

/* Progress of an attempt on its node. The phase never goes back. */
enum attempt_phase {
    ATTEMPT_ACCEPTED, /* the node has received the grant */
    ATTEMPT_STARTING, /* the supervisor is running */
    ATTEMPT_RUNNING,  /* the command has started; for a service: the service is ready */
    ATTEMPT_EXITED,   /* ended; final */
    ATTEMPT_PHASE_END
};
DECLARE_NAMES(enum attempt_phase, attempt_phase);

/* Location of the device memory of a suspended or resuming attempt. */
enum suspension {
    SUSPENSION_NONE, /* on the devices */
    SUSPENSION_LEAVING,
    SUSPENSION_DONE, /* in host memory */
    SUSPENSION_RETURNING,
    SUSPENSION_END
};
DECLARE_NAMES(enum suspension, suspension);

/* A node's report on one attempt: always the complete state, never a difference. */
struct attempt_report {
    uint64_t workload;
    int attempt;
    enum attempt_phase phase;
    union {
        struct attempt_outcome outcome; /* valid in ATTEMPT_EXITED; `started` and `text` always */
        struct {
#define OUTCOME(type, member, array, ...) type member array;
#include "model/outcome.def"
        };
    };
    bool cleared; /* the attempt was a suspect and ended its probation without a fault */
    /* Number of the newest order to suspend or resume; 0: none received. An order that is neither
     * in progress nor reflected in `suspension` has failed, and `text` gives the reason. */
    int turn;
    int advice; /* number of the newest advice that the node has received; 0: none */
    enum suspension suspension;
    /* The attempt must leave its device, and a suspension suffices; `text` gives the reason. */
    bool evicted;
};
