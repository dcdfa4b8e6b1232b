/*
 * Live control of the tasks beside one service on one device: the choice of the gentlest setting of
 * gate, window, rate and pause with which the service keeps its target.
 *
 *     controller_look(controller, look, ret_answer)
 *
 * Pure: no I/O, no clock, no randomness. The agent calls controller_look() every 100–200 ms, and
 * applies the answer to the limits pages of all tasks on the device.
 *
 * Target. The SLO of the service; without an SLO 1.10 × the service's own durations with tasks
 * held. A target that the service misses while tasks are held is unreachable: the controller says
 * so, aims at 1.10 × the durations with tasks held, and does not pause tasks.
 *
 * Rule. The controller runs the setting with the highest measured task speed that keeps the target.
 *   danger  Late requests reject the setting in a sequential test, or bursts last clearly longer
 *           than the target allows: the fastest safer setting believed safe follows at once.
 *   calm    The next faster setting is tried after a time that doubles with each failed trial. The
 *           late requests of trials are at most a tenth of those that the target allows.
 * Load is divided into octaves of the request rate. The memory contains the evidence about each
 * setting for (service program, neighbour programs, octave), and is used at once.
 *
 * Files: controller.c makes the decisions; controller_evidence.c judges a setting;
 * controller_memory.c keeps the evidence; controller_settings.c computes the limits;
 * controller_target.c knows the target.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CONTROLLER_KINDS = 16,    /* kinds of bursts, as in status_page.bursts */
    CONTROLLER_WHY_MAX = 256, /* bytes of a sentence */
    CONTROLLER_PAIRS_MAX = 128,
    CONTROLLER_GIVE_UP_MS = 10000,
};

/* From the fastest for tasks to the safest for the service, as assumed before measurements. */
enum controller_setting {
    CONTROLLER_FREE,        /* no gate */
    CONTROLLER_DUE_RELAXED, /* the gate shuts when a request could miss its deadline */
    CONTROLLER_DUE,
    CONTROLLER_DUE_CAREFUL,
    CONTROLLER_STRICT_1000, /* the gate shuts while the service has work; the number: window, us */
    CONTROLLER_STRICT_250,
    CONTROLLER_STRICT_100,
    CONTROLLER_RATE_500, /* as STRICT_250, and a limit of the tasks' rate, in permille */
    CONTROLLER_RATE_250,
    CONTROLLER_RATE_100,
    CONTROLLER_PAUSE, /* tasks are held */
    CONTROLLER_SETTINGS
};

/* With the values of limits_device.gate_rule in abi/page.h. */
enum controller_rule { CONTROLLER_RULE_BUSY = 0, CONTROLLER_RULE_DUE = 1 };

/* Numbers for the limits pages of the tasks. */
struct controller_limits {
    bool has_gate;
    bool is_paused;            /* extend hold_deadline_ms */
    enum controller_rule rule; /* of the gate */
    uint32_t window_us;        /* above 0 */
    uint32_t rate_permille;    /* 0: no limit */
    uint32_t need_us, each_us; /* for CONTROLLER_RULE_DUE */
    uint32_t burst_us;         /* for CONTROLLER_RULE_DUE; 0: shut at the begin of a burst */
};

/* ---- memory, shared by the controllers of an agent ---- */

enum controller_trust { CONTROLLER_UNTRIED, CONTROLLER_SAFE, CONTROLLER_UNSAFE };

/* Evidence about one setting; weights decay. */
struct controller_record {
    double answered, late; /* requests */
    double work, work_ms;  /* of the tasks, and its time */
    int32_t trust;         /* enum controller_trust */
    int32_t wait_ms;       /* until the next trial; doubles with each failed trial */
};

struct controller_pair {
    uint64_t service, neighbours; /* programs; service 0: the place is empty */
    int32_t octave;               /* of the load */
    int32_t setting;              /* that was in force last */
    uint64_t used;                /* for the replacement of the least recently used pair */
    struct controller_record records[CONTROLLER_SETTINGS];
};

/* Figures of a service with tasks held or absent. */
struct controller_solo {
    uint64_t service; /* 0: the place is empty */
    uint64_t used;
    double latency_us;    /* high percentile of the latency; 0: unknown */
    double request_us;    /* GPU time of a request; 0: unknown */
    double busy_fraction; /* part of the time in bursts or busy; 0: unknown */
    double bursts[CONTROLLER_KINDS], bursts_us[CONTROLLER_KINDS]; /* weight, mean duration */
    double requests;                                              /* weight, as `bursts` */
};

/* Plain data, which the agent may save and restore. */
struct controller_memory {
    uint64_t used; /* number of looks that used a pair or a service */
    struct controller_pair pairs[CONTROLLER_PAIRS_MAX];
    struct controller_solo solos[CONTROLLER_PAIRS_MAX];
};
void controller_memory_init(struct controller_memory *m);
/* Returns whether restored bytes are a possible memory. */
bool controller_memory_is_sane(const struct controller_memory *m);

/* ---- looks ---- */

struct controller_bursts {
    uint64_t count, total_us;
};

/* The time since the last look. The numbers are bounded by the controller, and may be claims of
 * the service. */
struct controller_look {
    int64_t now_ms;        /* never decreases */
    uint64_t service;      /* program; not 0 */
    uint64_t neighbours;   /* set of the tasks' programs; 0: no tasks */
    double slo_us;         /* latency that the SLO allows; 0: no SLO */
    double percentile;     /* of the SLO; 0: 99 */
    bool has_mps;          /* evidence with and without MPS is kept apart */
    bool reports_requests; /* tasks see the deadlines of open requests */
    bool has_requests;     /* `answered` and `late` are known */
    uint64_t answered, late;
    double latency_us;         /* percentile of the recent latencies; 0: unknown */
    int64_t latency_window_ms; /* age of the oldest latency in latency_us */
    struct controller_bursts alone[CONTROLLER_KINDS], beside[CONTROLLER_KINDS];
    double busy_fraction; /* of the service; < 0: unknown */
    double work;          /* progress of the tasks in any unit; < 0: unknown */
    double kernel_us;     /* longest kernel of the tasks; 0: unknown */
};

struct controller_answer {
    int setting; /* enum controller_setting */
    struct controller_limits limits;
    bool is_changed;  /* `setting` changed: an event, explained by `why` */
    bool is_learning; /* tasks are held for at most CONTROLLER_PROBE_MS to measure the service */
    bool is_trial;
    bool is_unreachable; /* the target is missed while tasks are held */
    bool gives_up;       /* the pause has failed: evict the tasks */
    /* Attainment. The stretch is the duration of bursts beside tasks ÷ the duration alone. */
    double target_us;                /* 0: the target is a stretch */
    double allowed_fraction;         /* of late requests; 0: unknown */
    double late_fraction;            /* of the recent requests; < 0: unknown */
    double stretch, allowed_stretch; /* 0: unknown */
    double solo_latency_us;          /* with tasks held; 0: unknown */
    double task_speed;               /* work per second under this setting; < 0: unknown */
    /* task_speed ÷ the highest speed measured for this pair, 0 to 1; < 0: unknown */
    double task_fraction;
    char why[CONTROLLER_WHY_MAX];
};

enum { CONTROLLER_PROBE_MS = 3000 };

/* Sums of the requests and bursts under the setting in force; weights decay. */
struct controller_evidence {
    double answered, late;      /* since the setting came into force */
    double recent, recent_late; /* the last second, and at least 200 requests */
    double alarm;               /* of the sequential test */
    /* Sums over looks of the ratios of durations, weighted by bursts. */
    double looks, bursts, ratio, square;
    double latency_ratio; /* the same for recent latencies; 0: unknown */
};

/* Plain data, zero after controller_init(). The fields are private to the controller. */
struct controller {
    struct controller_memory *memory;
    int64_t now_ms, since_ms;               /* of the setting */
    int64_t pair_ms;                        /* begin of the pair, at any load */
    int64_t paused_ms;                      /* begin of the pause; 0: none */
    int64_t alone_ms;                       /* time since which no task works */
    int64_t backlog_ms;                     /* for which requests suffer from the last setting */
    int64_t calm_ms;                        /* time of the last danger or change */
    double silent_ms;                       /* without a request or burst */
    double resting_ms;                      /* without work of the tasks */
    double lower_ms;                        /* for which the load was lower than `octave` */
    int64_t failed_ms[CONTROLLER_SETTINGS]; /* last danger under each setting */
    uint64_t service, neighbours;
    int32_t octave, setting, back; /* back: setting before the trial */
    bool has_looked, is_learning, is_trial, is_unreachable;
    int32_t fell_from; /* the setting before the last fall; -1: none, or forgiven */
    int64_t fell_ms;
    double fell_late;                /* fraction of late requests that caused the fall */
    int32_t probes;                  /* number of measurements with tasks held */
    int32_t pair, solo;              /* places in the memory */
    int64_t probed_ms;               /* end of the last measurement with tasks held */
    double occupied;                 /* part of the time in bursts, smoothed */
    double rate;                     /* requests or bursts per second, smoothed; 0: unknown */
    double busy_fraction, kernel_us; /* smoothed; largest recent */
    double credit;                   /* late requests that trials may still cost */
    double budget;                   /* allowed late requests that were not needed */
    double changes;                  /* upward changes that are left */
    struct controller_evidence evidence;
    char cause[CONTROLLER_WHY_MAX];
};

/* The memory must outlive the controller. */
void controller_init(struct controller *c, struct controller_memory *memory);
void controller_look(struct controller *c, const struct controller_look *look,
                     struct controller_answer *ret);

/* Returns the limits for two services on a device: the stricter number of each. */
struct controller_limits controller_stricter(const struct controller_limits *a,
                                             const struct controller_limits *b);
/* Returns the name of a setting, for people; "?" for no setting. */
const char *controller_setting_name(int setting);
