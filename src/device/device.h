/*
 * One GPU and what shares it: when it is well, whom it throttles, evicts and blames, and how it
 * gets well again.
 *
 *     device_step(monitor, event) → actions
 *
 * Pure: no I/O, no clock, no randomness. The agent feeds it samples of the device, the driver's
 * Xids, the words of MPS, and what comes and goes; it carries the actions out in their order. A
 * simulator does the same.
 *
 * Two machines in one, because each stops what the other would begin:
 *
 *   the state    Init, Healthy, Unhealthy, Overlimit, Disabled. A limit that is crossed throttles
 *                the tasks, then evicts them; it counts only if tasks are there and evicting them
 *                would cure it; one of memory only if somebody else is there who needs it. Services
 *                are never throttled nor evicted for a limit.
 *   the repair   after a fatal fault MPS ends every client and names none: all clients leave, the
 *                server must say that it is ready, services come back, then the tasks. A task that
 *                was there is a suspect: it is started again as no client of MPS, so that its
 *                faults are its own, and one at a time. Who faults alone is guilty; who runs long
 *                enough without is cleared.
 *
 * A task that is evicted for a limit loses its work, unless it can be suspended: then it leaves
 * alive, and comes again as a tenant of the same number when it resumes.
 *
 * A tenant is one attempt on this device. It is there from TENANT_CAME to TENANT_LEFT, and
 * device_verdict() says before TENANT_LEFT whose its end is.
 *
 * Files: step.c the entrance and the tenants; limits.c the state; repair.c faults and MPS; ending.c
 * how one is ended that must leave.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/node.h"

enum {
    DEVICE_TENANTS_MAX = 256,
    DEVICE_ACTIONS_MAX = 4 * DEVICE_TENANTS_MAX + 16, /* of one step */
    DEVICE_CAUSE_MAX = 128,
    DEVICE_RATE_ALL_PERMILLE = 1000,
    DEVICE_RATE_LEAST_PERMILLE = 100, /* a throttled task keeps that much */
};

struct device_config {
    int valid_samples;                              /* in Init, before it is anything else */
    int memory_soft_percent, memory_hard_percent;   /* of the device's memory, used */
    int latency_soft_percent, latency_hard_percent; /* of a service's SLO */
    int64_t latency_requests_least;                 /* fewer say nothing about a hard limit */
    int64_t calm_ms;                                /* within limits: from Unhealthy to Healthy */
    int64_t outside_ms; /* outside, in sum: from Unhealthy to Overlimit */
    int64_t hold_min_ms, hold_max_ms;
    int64_t hold_reset_ms; /* Healthy for that long: the hold starts from its least again */
    int64_t cure_ms; /* still outside that long after the last task left: not the tasks' doing */
    int64_t fault_grace_ms;    /* for clients to leave after a fault: their work is lost already */
    int64_t server_ms;         /* for an MPS server to be ready when its clients have left */
    int64_t services_first_ms; /* after a repair, before tasks are admitted */
    int64_t suspend_ms;        /* for one that is evicted to be suspended; then it is ended */
    int64_t probation_ms;      /* a suspect that ran that long alone is cleared */
    int64_t self_test_again_ms;
    int64_t silent_ms; /* a device that answered nothing for that long is taken for broken */
};
void device_config_default(struct device_config *config);

/* ---- events ---- */

/* Reasons for slow clocks that count as a hard limit: bits as NVML has them. */
enum device_slowdown {
    DEVICE_SLOWDOWN_HARDWARE = 0x08,
    DEVICE_SLOWDOWN_SOFTWARE_THERMAL = 0x20,
    DEVICE_SLOWDOWN_HARDWARE_THERMAL = 0x40,
    DEVICE_SLOWDOWN_POWER_BRAKE = 0x80,
};

/* What is known of one tenant at a sample. */
struct device_tenant_sample {
    uint64_t workload;
    bool has_memory;       /* the next is known */
    uint64_t memory_bytes; /* that it holds on this device */
    double slo_ms;         /* of a service; 0: it has none */
    double slo_percentile; /* that its latencies are of; 0: 99 */
    double latency_5s_ms, latency_10s_ms;
    int64_t requests_10s;
};

struct device_sample {
    bool valid; /* the device answered; else only time has passed */
    bool lost;  /* it did not, and the driver says that it has fallen off the bus */
    uint64_t memory_used_bytes, memory_bytes;
    bool has_strangers; /* processes that are no tenant's use it, as far as that is known */
    uint64_t slowdown;  /* bits of enum device_slowdown; others are ignored */
    size_t tenant_count;
    const struct device_tenant_sample *tenants; /* those of which something is known */
};

struct device_tenant_info {
    uint64_t workload;
    int attempt;
    enum workload_kind kind;
    int64_t grace_ms;
    bool isolated;    /* no client of MPS: its faults are its own */
    bool suspect;     /* on probation */
    bool suspendable; /* a task that is suspended when it is evicted, instead of being ended */
    bool adopted;     /* was there before us: no state but Disabled refuses it */
    /* Of an adopted one: what it was told to leave for before we were there. It goes on leaving,
     * and the device on being repaired. VERDICT_OWN: it was not told. */
    enum attempt_verdict verdict;
    char why[DEVICE_CAUSE_MAX];
};

enum device_mps {
    DEVICE_MPS_READY,   /* it takes clients */
    DEVICE_MPS_FAULTED, /* clients with a fault are still there */
    DEVICE_MPS_LOST,    /* hung or gone */
};

enum device_event_kind {
    DEVICE_SAMPLE,         /* every 200 ms: also how time passes */
    DEVICE_XID,            /* the driver's word */
    DEVICE_MPS,            /* the word of its watch, or the answer to MPS_CHECK and MPS_REPLACE */
    DEVICE_SELF_TESTED,    /* the answer to SELF_TEST */
    DEVICE_OPERATOR,       /* enables or disables it */
    DEVICE_TENANT_CAME,    /* before it is started */
    DEVICE_TENANT_CHANGED, /* it is no client of MPS after all: `came` says what it is now */
    DEVICE_TENANT_RUNS,    /* it has begun: it is not "starting" any more */
    DEVICE_TENANT_LEFT,  /* nothing of it is left; or it was suspended, and comes again to resume */
    DEVICE_TENANT_STAYS, /* it could not be suspended */
    DEVICE_TENANT_MOVES, /* a task has to start again, here or elsewhere, for no fault of its own */
    DEVICE_EVENT_END
};

struct device_event {
    enum device_event_kind kind;
    int64_t now_ms; /* never runs back */
    union {
        const struct device_sample *sample;
        int xid;
        struct {
            enum device_mps mps;
            const char *mps_why; /* of LOST, for people; NULL: not known */
        };
        bool passed; /* SELF_TESTED */
        struct {
            bool enable;
            const char *why; /* of a disable; NULL: "an operator's word" */
        } operator_says;
        const struct device_tenant_info *came;
        struct {
            uint64_t workload;
            int attempt;
            bool failed;     /* LEFT: by its own exit status */
            const char *why; /* STAYS, MOVES */
        } tenant;
    };
};

/* ---- actions ---- */

enum device_action_kind {
    DEVICE_ACT_STATE,    /* the state changed: `from`, `to`, `text` is the cause */
    DEVICE_ACT_NOTE,     /* an event for people, nothing else: `text` */
    DEVICE_ACT_ALARM,    /* the same, and an operator must look */
    DEVICE_ACT_THROTTLE, /* all tasks: smallest window, `rate_permille` */
    DEVICE_ACT_RELEASE,  /* all tasks: as granted */
    DEVICE_ACT_SUSPEND,  /* this task must leave, into the host's memory: LEFT or STAYS answers;
                           `text`: why */
    DEVICE_ACT_END, /* this tenant must leave within grace_ms, by force if need be; `text`: why */
    DEVICE_ACT_ACQUIT,    /* it leaves, and is blamed for it no longer: see device_verdict;
                          `text`: why */
    DEVICE_ACT_CLEAR,     /* its probation is over */
    DEVICE_ACT_MPS_CHECK, /* ask MPS how it is, answer with DEVICE_MPS */
    DEVICE_ACT_MPS_REPLACE,
    DEVICE_ACT_SELF_TEST, /* use the device in a process of our own, answer with SELF_TESTED */
    DEVICE_ACTION_END
};

struct device_action {
    enum device_action_kind kind;
    enum device_state from, to;
    uint64_t workload;
    int attempt;
    int64_t grace_ms;
    int rate_permille;
    char text[DEVICE_CAUSE_MAX];
};

/* Filled anew by every step. */
struct device_actions {
    size_t count;
    struct device_action items[DEVICE_ACTIONS_MAX];
};

/* ---- life ---- */

struct device_monitor;

/* config is copied. -ERR_NO_MEMORY. */
int device_monitor_new(const struct device_config *config, struct device_monitor **ret);
void device_monitor_free(struct device_monitor *d);

void device_step(struct device_monitor *d, const struct device_event *event,
                 struct device_actions *actions);

/* ---- questions; they change nothing ---- */

enum device_state device_state(const struct device_monitor *d);
/* Why it is in that state, or being repaired; "" at first. Valid until the next step. */
const char *device_cause(const struct device_monitor *d);
enum device_admission device_admission(const struct device_monitor *d);
/* Whose the end of this tenant is, if it has ended now, by its exit status in failure or not;
 * VERDICT_OWN for one that is not there. `ret_why` (may be NULL) is a sentence, valid until the
 * next step; "" for VERDICT_OWN. */
enum attempt_verdict device_verdict(const struct device_monitor *d, uint64_t workload, int attempt,
                                    bool failed, const char **ret_why);
/* Disabled by its own word or an operator's: only an operator enables it again. */
bool device_needs_operator(const struct device_monitor *d);
/* A fault has been seen, and MPS is being asked whose it was: nobody's end can be judged yet. */
bool device_is_asking(const struct device_monitor *d);
/* Its MPS was lost, and no self-test has passed since. */
bool device_needs_test(const struct device_monitor *d);
size_t device_tenant_count(const struct device_monitor *d);
/* What an Xid is: a workload's own fault, the end of a device, or only worth telling. */
enum device_xid_kind { XID_NOTE, XID_FAULT, XID_FATAL };
enum device_xid_kind device_xid_kind(int xid);
