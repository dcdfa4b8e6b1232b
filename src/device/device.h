/*
 * One GPU and the attempts that share the GPU: the health of the device, throttling and eviction of
 * tasks, the blame for faults, and the repair of the device.
 *
 *     device_step(monitor, event) → actions
 *
 * Pure: no I/O, no clock, no randomness. The agent passes in samples of the device, the driver's
 * Xids, reports of MPS, and arrivals and departures, and carries out the actions in order. A
 * simulator does the same.
 *
 * The monitor combines two state machines, because each stops actions that the other would start:
 *
 *   the state    Init, Healthy, Unhealthy, Overlimit, Disabled. If a limit is violated, the monitor
 *                throttles the tasks, and then evicts them. The monitor ignores a violation unless
 *                tasks are present and their eviction would cure the violation. The memory limit
 *                also requires that another user of the device exists. Services are never
 *                throttled or evicted for a limit.
 *   the repair   After a fatal fault MPS ends every client and names no culprit. All clients leave.
 *                When the server reports ready, services return, and then tasks. Every task that
 *                was present is a suspect. Suspects restart one at a time and outside of MPS, so
 *                that any further fault is their own. A suspect that faults alone is guilty; a
 *                suspect that runs long enough without a fault is cleared.
 *
 * A task evicted for a limit loses its work, unless the task can be suspended. A suspended task
 * leaves the device without ending, and returns under the same attempt number when the task
 * resumes.
 *
 * A tenant is one attempt on this device, present from TENANT_CAME to TENANT_LEFT. The agent asks
 * device_verdict() for the cause of an attempt's end before TENANT_LEFT.
 *
 * Files: step.c is the entry point and lists the tenants; limits.c implements the states; repair.c
 * handles faults and MPS; ending.c ends a tenant that must leave.
 *
 * This folder contains the state machine of one GPU. Files of the folder device may include base,
 * model, learn.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/controller.h"
#include "model/node.h"

enum {
    DEVICE_TENANTS_MAX = 256,
    DEVICE_GUIDES_MAX = 16, /* services with a controller; further services get the fixed gate */
    DEVICE_ACTIONS_MAX = 4 * DEVICE_TENANTS_MAX + 16, /* of one step */
    DEVICE_CAUSE_MAX = 128,
    DEVICE_RATE_ALL_PERMILLE = 1000,
    /* Smallest fraction of the device's time for a throttled task. */
    DEVICE_RATE_LEAST_PERMILLE = 100,
};

struct device_config {
    /* Valid samples in Init before the first change of state. */
    int valid_samples;
    /* Limits on the used part of the device's memory. */
    int memory_soft_percent, memory_hard_percent;
    /* Limits on a service's latency, in percent of its SLO. */
    int latency_soft_percent, latency_hard_percent;
    int64_t latency_requests_least; /* requests needed to judge a hard limit */
    /* Time within limits before Unhealthy becomes Healthy. */
    int64_t calm_ms;
    int64_t outside_ms; /* total time outside limits before Unhealthy becomes Overlimit */
    int64_t hold_min_ms, hold_max_ms;
    int64_t hold_reset_ms; /* time in Healthy after which the hold is hold_min_ms again */
    /* Time for which a violation that persists after the last task left counts as caused by
     * tasks. */
    int64_t cure_ms;
    /* Time limit for clients to leave after a fault. The fault has destroyed their work. */
    int64_t fault_grace_ms;
    int64_t server_ms;         /* time limit for an MPS server to be ready after its clients left */
    int64_t services_first_ms; /* delay of tasks after a repair */
    int64_t suspend_ms;        /* time limit for a suspension; then the evicted task is ended */
    int64_t probation_ms;      /* run time alone that clears a suspect */
    int64_t self_test_again_ms;
    int64_t silent_ms; /* silence after which a device is considered broken */
    /* Memory of the services' controllers, which must outlive the monitor; NULL: no controllers,
     * and every service gets the fixed gate. */
    struct controller_memory *memory;
};
void device_config_default(struct device_config *config);

/* ---- events ---- */

/* Reasons for slow clocks that count as violations of a hard limit, with NVML's bits. */
enum device_slowdown {
    DEVICE_SLOWDOWN_HARDWARE = 0x08,
    DEVICE_SLOWDOWN_SOFTWARE_THERMAL = 0x20,
    DEVICE_SLOWDOWN_HARDWARE_THERMAL = 0x40,
    DEVICE_SLOWDOWN_POWER_BRAKE = 0x80,
};

/* Figures of one tenant in a sample. */
struct device_tenant_sample {
    uint64_t workload;
    bool has_memory;       /* memory_bytes is known */
    uint64_t memory_bytes; /* of the tenant on this device */
    /* Part of memory_bytes that the tenant gives to a service that needs it (room.h). */
    uint64_t movable_bytes;
    double slo_ms;         /* of a service; 0: no SLO */
    double slo_percentile; /* of the latencies; 0: 99 */
    double latency_5s_ms, latency_10s_ms;
    int64_t requests_10s;
};

struct device_sample {
    bool valid; /* the device answered; false: only time has passed */
    bool lost;  /* no answer, and the driver reports the device off the bus */
    uint64_t memory_used_bytes, memory_bytes;
    bool has_strangers; /* processes other than the tenants' are known to use the device */
    uint64_t slowdown;  /* bits of enum device_slowdown; others are ignored */
    size_t tenant_count;
    const struct device_tenant_sample *tenants; /* tenants with known figures */
};

struct device_tenant_info {
    uint64_t workload;
    int attempt;
    enum workload_kind kind;
    int64_t grace_ms;
    bool isolated;    /* not a client of MPS, so each of its faults is its own */
    bool suspect;     /* on probation */
    bool suspendable; /* a task that is suspended on eviction, not ended */
    bool adopted;     /* started by an earlier agent; only state Disabled refuses the tenant */
    /* If an earlier agent ordered an adopted tenant to leave: verdict and reason of that order;
     * VERDICT_OWN: no order. The tenant continues to leave, and the device continues its repair. */
    enum attempt_verdict verdict;
    char why[DEVICE_CAUSE_MAX];
};

enum device_mps {
    DEVICE_MPS_READY,   /* accepts clients */
    DEVICE_MPS_FAULTED, /* clients with a fault are still present */
    DEVICE_MPS_LOST,    /* hung or gone */
};

enum device_event_kind {
    DEVICE_SAMPLE, /* every 200 ms; also advances the time */
    DEVICE_XID,    /* reported by the driver */
    /* State of MPS: from the watchdog of MPS, or the answer to MPS_CHECK and MPS_REPLACE. */
    DEVICE_MPS,
    DEVICE_SELF_TESTED,    /* answer to SELF_TEST */
    DEVICE_OPERATOR,       /* an operator enables or disables the device */
    DEVICE_TENANT_CAME,    /* sent before the tenant is started */
    DEVICE_TENANT_CHANGED, /* the tenant no longer uses MPS; `came` gives its new properties */
    DEVICE_TENANT_RUNS,    /* the tenant has started */
    /* The tenant has ended completely, or was suspended and returns when it resumes. */
    DEVICE_TENANT_LEFT,
    DEVICE_TENANT_STAYS, /* the tenant could not be suspended */
    /* A task must restart, on this device or another, through no fault of its own. */
    DEVICE_TENANT_MOVES,
    DEVICE_SERVICE_LOOK, /* measurements of a service and of the tasks beside it */
    DEVICE_EVENT_END
};

struct device_event {
    enum device_event_kind kind;
    int64_t now_ms; /* never decreases */
    union {
        const struct device_sample *sample;
        int xid;
        struct {
            enum device_mps mps;
            const char *mps_why; /* reason why MPS is LOST, for people; NULL: unknown */
        };
        bool passed; /* for SELF_TESTED */
        struct {
            bool enable;
            const char *why; /* reason to disable the device; NULL: "an operator's word" */
        } operator_says;
        const struct device_tenant_info *came;
        struct {
            uint64_t workload;
            int attempt;
            bool failed;     /* LEFT: the exit status of the tenant was a failure */
            const char *why; /* reason for STAYS and MOVES */
        } tenant;
        struct {
            uint64_t workload;
            int attempt;
            const struct controller_look *look; /* its now_ms is ignored */
        } service;
    };
};

/* ---- actions ---- */

enum device_action_kind {
    DEVICE_ACT_STATE,    /* the state changed: `from`, `to`; `text` is the cause */
    DEVICE_ACT_NOTE,     /* log an event for people: `text` */
    DEVICE_ACT_ALARM,    /* like NOTE, but an operator must act */
    DEVICE_ACT_THROTTLE, /* limit all tasks to the smallest window and to `rate_permille` */
    DEVICE_ACT_RELEASE,  /* end the throttling of all tasks */
    /* Suspend this task to host memory; the answer is LEFT or STAYS. `text` is the reason. */
    DEVICE_ACT_SUSPEND,
    /* End this tenant within grace_ms, by force if necessary. `text` is the reason. */
    DEVICE_ACT_END,
    /* Withdraw the verdict on a leaving tenant: see device_verdict(). `text` is the reason. */
    DEVICE_ACT_ACQUIT,
    DEVICE_ACT_CLEAR,     /* the tenant's probation is over */
    DEVICE_ACT_MPS_CHECK, /* query the state of MPS; the answer is DEVICE_MPS */
    DEVICE_ACT_MPS_REPLACE,
    /* Apply `limits` to all tasks of the device from now on; is_guided false: the fixed gate. */
    DEVICE_ACT_GUIDE,
    DEVICE_ACT_SELF_TEST, /* use the device in a process of the agent; the answer is SELF_TESTED */
    DEVICE_ACTION_END
};

struct device_action {
    enum device_action_kind kind;
    enum device_state from, to;
    uint64_t workload;
    int attempt;
    int64_t grace_ms;
    int rate_permille;
    bool is_guided;
    struct controller_limits limits;
    char text[DEVICE_CAUSE_MAX];
};

/* Overwritten by every step. */
struct device_actions {
    size_t count;
    struct device_action items[DEVICE_ACTIONS_MAX];
};

/* ---- life ---- */

struct device_monitor;

/* Copies the config. Returns -ERR_NO_MEMORY. */
int device_monitor_new(const struct device_config *config, struct device_monitor **ret);
void device_monitor_free(struct device_monitor *d);

void device_step(struct device_monitor *d, const struct device_event *event,
                 struct device_actions *actions);

/* ---- queries, without side effects ---- */

enum device_state device_state(const struct device_monitor *d);
/* Returns the cause of the state or of the repair; "" at first. Valid until the next step. */
const char *device_cause(const struct device_monitor *d);
enum device_admission device_admission(const struct device_monitor *d);
/* Returns the verdict on a tenant that has just ended; `failed`: the exit status was a failure.
 * Returns VERDICT_OWN if the tenant is absent. `ret_why` (may be NULL) receives a sentence, valid
 * until the next step; "" for VERDICT_OWN. */
enum attempt_verdict device_verdict(const struct device_monitor *d, uint64_t workload, int attempt,
                                    bool failed, const char **ret_why);
/* Returns the last answer of the service's controller, valid until the next step; NULL: the service
 * has none, or no look arrived lately. */
const struct controller_answer *device_guidance(const struct device_monitor *d, uint64_t workload,
                                                int attempt);
/* Returns whether only an operator can enable the device, after a breakdown or an operator's
 * order. */
bool device_needs_operator(const struct device_monitor *d);
/* Returns whether the monitor waits for MPS to name the cause of a fault; until MPS answers, the
 * monitor cannot judge any end. */
bool device_is_asking(const struct device_monitor *d);
/* Returns whether MPS was lost and no self-test has passed since. */
bool device_needs_test(const struct device_monitor *d);
/* Class of an Xid: a mere note, a workload's fault, or a broken device. */
enum device_xid_kind { XID_NOTE, XID_FAULT, XID_FATAL };
enum device_xid_kind device_xid_kind(int xid);
