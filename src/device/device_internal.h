/* Inside a device's monitor; device.h says which file does what. */
#pragma once
#include "device/device.h"

enum ending { ENDING_NO, ENDING_SUSPENDS, ENDING_ASKED };

struct tenant {
    struct device_tenant_info info;
    bool runs;
    int64_t runs_since_ms;
    uint64_t memory_bytes;
    bool slow_alone; /* a service that misses its SLO without any task there */
    enum ending ending;
    int64_t suspends_until_ms; /* then it is ended */
    enum attempt_verdict verdict;
    char why[DEVICE_CAUSE_MAX];
};

/* What the device is being repaired of. */
enum repair {
    REPAIR_NONE,
    REPAIR_ASKING,    /* was it MPS's clients, or one that is none? MPS knows */
    REPAIR_LEAVING,   /* every client of MPS leaves */
    REPAIR_SERVER,    /* they have: the server must say that it is ready */
    REPAIR_REPLACING, /* MPS was lost: another is started */
    REPAIR_TESTING,   /* and must be of use */
};

enum level { WITHIN, SOFT, HARD };

struct device_monitor {
    struct device_config config;
    int64_t now_ms;
    struct device_actions *actions; /* of the step under way */

    /* limits.c */
    enum device_state state;
    char cause[DEVICE_CAUSE_MAX];
    int64_t state_since_ms;
    int64_t sampled_ms;  /* the last valid sample; 0: none yet */
    int64_t looked_ms;   /* the last sample, valid or not; 0: none yet */
    int64_t silent_ms;   /* without a valid one, in a row */
    int valid_samples;   /* in Init, one after the other, within limits */
    int outside_samples; /* in Init, in sum */
    int64_t outside_ms;  /* in sum, in Unhealthy */
    int64_t calm_since_ms;
    int64_t hold_ms; /* of the last Overlimit; 0: none lately */
    int rate_permille;
    int64_t throttled_ms;
    int64_t task_there_ms; /* when a task was last there; -1: never */
    bool slow_clocks_alone;

    /* repair.c */
    enum repair repair;
    char repair_cause[DEVICE_CAUSE_MAX];
    int64_t repair_until_ms; /* what this phase waits for is given up then */
    int64_t repair_asked_ms; /* when MPS was last asked; -1: not in this phase */
    bool mps_lost, replaced_in_vain;
    bool by_operator;            /* Disabled by an operator: nothing else enables it */
    bool broken;                 /* Disabled by the device itself, likewise */
    int64_t fault_open_until_ms; /* a fault of one that is no client: who fails by then did it */
    int64_t services_first_ms;   /* until then no task is admitted */
    int64_t left_ms;             /* when a tenant last left */

    size_t tenant_count;
    struct tenant tenants[DEVICE_TENANTS_MAX];
};

/* step.c */
struct tenant *tenant_find(struct device_monitor *d, uint64_t workload, int attempt);
bool tenant_is_task(const struct tenant *t);
size_t tenants_tasks(const struct device_monitor *d);
/* Those that are clients of MPS, or (isolated) are not, and that no fault has been put
 * down to yet. */
size_t tenants_unblamed(const struct device_monitor *d, bool isolated);
struct device_action *device_act(struct device_monitor *d, enum device_action_kind kind);
void device_say(struct device_monitor *d, enum device_action_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* limits.c */
void limits_sample(struct device_monitor *d, const struct device_sample *sample);
void device_change(struct device_monitor *d, enum device_state to, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* repair.c */
void repair_xid(struct device_monitor *d, int xid);
/* It answers nothing any more: as if the driver had told of an Xid 79. */
void repair_lost(struct device_monitor *d, const char *cause);
void repair_mps(struct device_monitor *d, enum device_mps mps, const char *why);
/* A tenant that was told to leave before we were there. */
void repair_resume(struct device_monitor *d, struct tenant *t);
void repair_self_tested(struct device_monitor *d, bool passed);
void repair_operator(struct device_monitor *d, bool enable, const char *why);
/* Before it is forgotten: an unexplained fault may be its. */
void repair_left(struct device_monitor *d, struct tenant *t, bool failed);
void repair_tick(struct device_monitor *d);
/* It is no client, it failed, and a fault of one like it is not explained yet. */
bool repair_explains(const struct device_monitor *d, const struct tenant *t, bool failed);

/* ending.c */
/* It must leave; a second word changes only a verdict that says more. */
void ending_begin(struct device_monitor *d, struct tenant *t, int64_t grace_ms,
                  enum attempt_verdict verdict, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* A task must leave because of a limit: suspended if it can be, else ended. */
void ending_evict(struct device_monitor *d, struct tenant *t);
/* It could not be suspended. */
void ending_stays(struct device_monitor *d, struct tenant *t, const char *why);
void ending_tick(struct device_monitor *d);
