/* Internals of a device's monitor. device.h describes the files. */
#pragma once
#include "device/device.h"

enum ending { ENDING_NO, ENDING_SUSPENDS, ENDING_ASKED };

struct tenant {
    struct device_tenant_info info;
    bool runs;
    int64_t runs_since_ms;
    uint64_t memory_bytes;
    bool slow_alone; /* a service that misses its SLO even without tasks */
    enum ending ending;
    int64_t suspends_until_ms; /* deadline of the suspension, then the tenant is ended */
    int64_t end_by_ms;         /* earliest deadline of an order to leave */
    enum attempt_verdict verdict;
    char why[DEVICE_CAUSE_MAX];
};

/* Stages of a repair. */
enum repair {
    REPAIR_NONE,
    REPAIR_ASKING,    /* asking MPS whether one of its clients faulted */
    REPAIR_LEAVING,   /* waiting for all clients of MPS to leave */
    REPAIR_SERVER,    /* waiting for the server to report ready */
    REPAIR_REPLACING, /* starting a new MPS, because MPS was lost */
    REPAIR_TESTING,   /* testing the new MPS */
};

enum level { WITHIN, SOFT, HARD };

/* A service with a controller. */
struct guide {
    uint64_t workload;
    int attempt;
    int64_t looked_ms;
    struct controller controller;
    struct controller_answer answer;
};

struct device_monitor {
    struct device_config config;
    int64_t now_ms;
    struct device_actions *actions; /* of the current step */

    /* limits.c */
    enum device_state state;
    char cause[DEVICE_CAUSE_MAX];
    int64_t state_since_ms;
    int64_t sampled_ms;  /* last valid sample; 0: none */
    int64_t looked_ms;   /* last sample, valid or invalid; 0: none */
    int64_t silent_ms;   /* time without a valid sample, consecutive */
    int valid_samples;   /* in Init, consecutive within limits */
    int outside_samples; /* in Init, total */
    int64_t outside_ms;  /* in Unhealthy, total */
    int64_t calm_since_ms;
    int64_t hold_ms; /* pause after the last Overlimit, without tasks; 0: none recently */
    int rate_permille;
    int64_t throttled_ms;
    int64_t task_there_ms; /* time when a task was last present; -1: never */
    bool slow_clocks_alone;

    /* repair.c */
    enum repair repair;
    char repair_cause[DEVICE_CAUSE_MAX];
    int64_t repair_until_ms; /* deadline of the current stage */
    int64_t repair_asked_ms; /* last query to MPS; -1: none in this stage */
    bool mps_lost, replaced_in_vain;
    bool by_operator; /* disabled by an operator; only an operator enables the device */
    bool broken;      /* disabled by a breakdown; only an operator enables the device */
    /* Deadline for the explanation of a fault outside of MPS: a tenant that fails before this time
     * caused the fault. */
    int64_t fault_open_until_ms;
    int64_t services_first_ms; /* time from which tasks are admitted */
    int64_t left_ms;           /* last departure of a tenant */

    /* guide.c */
    size_t guide_count;
    struct guide guides[DEVICE_GUIDES_MAX];
    bool is_guided; /* `guided` is in force, not the fixed gate */
    struct controller_limits guided;

    size_t tenant_count;
    struct tenant tenants[DEVICE_TENANTS_MAX];
};

/* step.c */
struct tenant *tenant_find(struct device_monitor *d, uint64_t workload, int attempt);
bool tenant_is_task(const struct tenant *t);
size_t tenants_tasks(const struct device_monitor *d);
/* Counts the tenants inside of MPS, or (isolated) outside, to which no fault has been
 * attributed. */
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
/* Handles a device that no longer answers, like an Xid 79. */
void repair_lost(struct device_monitor *d, const char *cause);
void repair_mps(struct device_monitor *d, enum device_mps mps, const char *why);
/* Continues an order to leave that an earlier agent gave. */
void repair_resume(struct device_monitor *d, struct tenant *t);
void repair_self_tested(struct device_monitor *d, bool passed);
void repair_operator(struct device_monitor *d, bool enable, const char *why);
/* Checks a leaving tenant, which may explain an open fault. */
void repair_left(struct device_monitor *d, struct tenant *t, bool failed);
void repair_tick(struct device_monitor *d);
/* Returns whether the tenant explains an open fault: the tenant ran outside of MPS and failed. */
bool repair_explains(const struct device_monitor *d, const struct tenant *t, bool failed);

/* guide.c */
/* Looks at a service; the action GUIDE follows if the limits of the tasks change. */
void guide_look(struct device_monitor *d, uint64_t workload, int attempt,
                const struct controller_look *look);
/* Forgets a tenant that left. */
void guide_left(struct device_monitor *d, uint64_t workload, int attempt);

/* ending.c */
/* Orders a tenant to leave. A repeated order changes the verdict if the new verdict is graver, and
 * the deadline if the new deadline is earlier. */
void ending_begin(struct device_monitor *d, struct tenant *t, int64_t grace_ms,
                  enum attempt_verdict verdict, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Orders a task to leave because of a limit, by suspension if possible. */
void ending_evict(struct device_monitor *d, struct tenant *t);
/* Ends a task whose suspension failed. */
void ending_stays(struct device_monitor *d, struct tenant *t, const char *why);
void ending_tick(struct device_monitor *d);
