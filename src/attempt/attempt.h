/*
 * One attempt on its node: whether it is on its devices, when it must end, and whose its end is.
 *
 *     attempt_step(life, event) → actions
 *
 * Pure: no I/O, no clock, no randomness. The agent feeds it control's orders, what it sees of the
 * supervisor, what the devices decide, and time, and carries out the actions in their order. A
 * driver whose processes somebody else starts (Kubernetes) and the simulator do the same.
 *
 * Stops. Control, a device, the supervisor (time limit, lease, leftover processes) and the node ask
 * for an end with ATTEMPT_STOP. stop.c alone decides what follows: the earliest deadline holds, the
 * gravest verdict is remembered before the supervisor hears of it, a client of MPS has its GPU work
 * ended before it is killed, and a supervisor that does not answer is signalled.
 *
 * Suspension (suspend.c). Control's newest order counts. A move of memory that fails is undone;
 * while the place of the memory is not certain, the attempt counts as off its devices.
 *
 * Crashes. Everything that a later agent must know is in `kept`. ATTEMPT_ACT_SAVE comes before the
 * actions that rely on it. The agent that finds the attempt restores `kept` and steps
 * ATTEMPT_ADOPT.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/node.h"

enum {
    ATTEMPT_ACTIONS_MAX = 16,      /* of one step */
    ATTEMPT_END_WORK_MS = 500,     /* from the end of GPU work to the kill */
    ATTEMPT_JOIN_MS_MAX = 5000,    /* that the end of GPU work waits for processes that join MPS */
    ATTEMPT_JOIN_LOOK_MS = 20,     /* between two looks at them */
    ATTEMPT_ANSWER_MS = 5000,      /* for the supervisor to acknowledge; then it is signalled */
    ATTEMPT_KILL_AGAIN_MS = 5000,  /* between two kills */
    ATTEMPT_FAULT_MS = 500,        /* for the driver to tell of the fault behind a failure */
    ATTEMPT_MPS_MS_MAX = 10000,    /* for MPS to say how it is after a failure */
    ATTEMPT_CONTROL_MS = 10000,    /* for control to order the suspension that a device asks for */
    ATTEMPT_SURE_MS = 5000,        /* between two tries to make sure that memory is off a device */
    ATTEMPT_LEAST_GRACE_MS = 1000, /* of a stop that outlived its agent */
};

/* Where the device memory of an attempt is. */
enum attempt_place { PLACE_DEVICE, PLACE_HOST, PLACE_UNKNOWN };

/* Who asks for an end. */
enum attempt_stop_reason {
    STOP_REASON_NONE,
    STOP_REASON_CONTROL,    /* an order */
    STOP_REASON_SUPERVISOR, /* time limit, lease, leftover processes */
    STOP_REASON_DEVICE,     /* a limit, a fault, a repair, a restart with another share */
    STOP_REASON_LOST,       /* its device is not there any more */
    STOP_REASON_END
};
const char *attempt_stop_reason_name(enum attempt_stop_reason reason);

struct attempt_stop {
    enum attempt_stop_reason reason;
    enum attempt_verdict verdict; /* the severity: whose its end is then */
    int64_t grace_ms;
    char why[WORKLOAD_TEXT_MAX];
};

/* What is fixed when it is granted. */
struct attempt_traits {
    enum workload_kind kind;
    bool has_devices;
    bool uses_mps; /* until ATTEMPT_MPS says otherwise */
};

/* What a later agent must know. */
struct attempt_kept {
    struct attempt_report report; /* as control was told, or is about to be */
    enum attempt_verdict verdict; /* gravest so far */
    char why[WORKLOAD_TEXT_MAX];  /* of it; "" for VERDICT_OWN */
    int64_t end_by_ms;            /* boot clock; of a stop with a verdict; INT64_MAX: none */
    bool without_mps;             /* it was granted MPS, and runs without */
    bool wants_off;               /* by control's newest order */
    enum attempt_place place;
};

/* How it ended, as found. */
struct attempt_exit {
    bool told;                    /* by a record of its supervisor: `report` */
    struct attempt_report report; /* else only its times are valid */
    bool recorded;                /* not told: the supervisor had started it */
    bool other_boot;              /* not told: the machine was restarted since */
    bool granted_here;            /* not told: by this agent */
    bool unseen;                  /* it ended while no agent ran, as a client of MPS */
    bool not_alone;               /* and so did others of its device */
    char text[WORKLOAD_TEXT_MAX]; /* not told, and never ran: why; "": not known */
    char refused[96];             /* what its quota refused: often why it failed; "": nothing */
};

enum attempt_moved {
    MOVED_DONE,
    MOVED_FAILED,  /* nothing was moved */
    MOVED_LOST,    /* nobody knows where the memory is */
    MOVED_REFUSED, /* the move could not begin */
};

enum attempt_event_kind {
    ATTEMPT_START,   /* it was granted, and everything but its supervisor is ready */
    ATTEMPT_ADOPT,   /* it was found by another agent: its supervisor alive, or its end saved */
    ATTEMPT_MPS,     /* MPS of its device is ready, or cannot be had */
    ATTEMPT_SEEN,    /* its supervisor has started it; `ready`: it is ready, too */
    ATTEMPT_HEARD,   /* its supervisor has acknowledged a stop */
    ATTEMPT_STOP,    /* it is to end */
    ATTEMPT_ACQUIT,  /* it is still to end, but its device blames it less: `stop.verdict`, `why` */
    ATTEMPT_CLEARED, /* its probation is over */
    ATTEMPT_SUSPEND, /* control's order number `turn` */
    ATTEMPT_RESUME,  /* the same */
    ATTEMPT_EVICT,   /* its device wants it off, by suspension: `text` */
    ATTEMPT_MOVED,   /* the answer to MOVE_OFF and MOVE_ON */
    ATTEMPT_GONE,    /* nothing of it is alive */
    ATTEMPT_TICK,    /* time: at attempt_next_ms(), or earlier */
    ATTEMPT_SETTLE,  /* control has stored its end */
    ATTEMPT_EVENT_END
};

/* What is true around it at an event. */
struct attempt_view {
    int64_t now_ms; /* boot clock; never runs back */
    int64_t now_wall_ms;
    bool linked;                  /* control is heard */
    bool others_join;             /* a neighbour is just joining its MPS server */
    bool device_asks;             /* one of its devices still asks whose a fault was */
    bool mps_is_well;             /* MPS answered since `doubt_ms` */
    enum attempt_verdict verdict; /* of its devices, if it has ended now */
    char verdict_why[WORKLOAD_TEXT_MAX];
    char refusal[WORKLOAD_TEXT_MAX]; /* why it may not return to its devices; "": it may */
};

struct attempt_event {
    enum attempt_event_kind kind;
    bool ready;               /* SEEN; MPS: it is; START: its supervisor need not wait for MPS */
    int turn;                 /* SUSPEND, RESUME */
    int64_t started_wall_ms;  /* SEEN */
    enum attempt_moved moved; /* MOVED */
    struct attempt_stop stop; /* STOP, ACQUIT */
    struct attempt_exit exit; /* GONE */
    char text[WORKLOAD_TEXT_MAX]; /* EVICT, MOVED: why, or what was moved */
};

enum attempt_action_kind {
    ATTEMPT_ACT_SAVE,     /* make `kept` durable before the next action */
    ATTEMPT_ACT_REPORT,   /* tell control `kept.report` */
    ATTEMPT_ACT_SPAWN,    /* start its supervisor, as a client of MPS if uses_mps */
    ATTEMPT_ACT_GIVE_UP,  /* it is not started after all; ATTEMPT_GONE answers */
    ATTEMPT_ACT_ASK,      /* its supervisor ends it within grace_ms; ATTEMPT_HEARD answers */
    ATTEMPT_ACT_END_WORK, /* end the GPU work of its processes */
    ATTEMPT_ACT_KILL,     /* its supervisor kills it now; ATTEMPT_HEARD answers */
    ATTEMPT_ACT_SIGNAL,   /* its supervisor does not answer: SIGTERM */
    ATTEMPT_ACT_COME,     /* its devices: it comes, or returns */
    ATTEMPT_ACT_RUN,      /* it runs */
    ATTEMPT_ACT_CHANGE,   /* it is no client of MPS after all */
    ATTEMPT_ACT_STAY,     /* it could not be suspended: `text` */
    ATTEMPT_ACT_LEAVE,    /* it has left, `failed` or not */
    ATTEMPT_ACT_MOVE_OFF, /* move its memory to the host; ATTEMPT_MOVED answers */
    ATTEMPT_ACT_MOVE_ON,  /* and back */
    ATTEMPT_ACT_BURY,     /* write `kept.report` as its exit record, if it has none */
    ATTEMPT_ACT_END,      /* let go of all that the agent holds for it */
    ATTEMPT_ACT_PUT_AWAY, /* forget it; its output stays until retention deletes it */
    ATTEMPT_ACTION_END
};

struct attempt_action {
    enum attempt_action_kind kind;
    int64_t grace_ms;
    bool failed;
    bool again; /* MOVE_*: of the processes of the last move */
    char text[WORKLOAD_TEXT_MAX];
};

/* Filled anew by every step. */
struct attempt_actions {
    size_t count;
    struct attempt_action items[ATTEMPT_ACTIONS_MAX];
};

enum attempt_stop_stage { STOP_NOT_ASKED, STOP_ASKED, STOP_WORK_ENDED, STOP_KILLED };

/* Plain data, owned by whoever steps it; changed by attempt_step alone, but for `kept`
 * before ADOPT. */
struct attempt_life {
    struct attempt_traits traits;
    struct attempt_kept kept;
    bool spawned;  /* a supervisor was started, or found */
    bool is_there; /* a tenant of its devices */
    bool told_running;
    struct {
        enum attempt_stop_reason reason;
        enum attempt_stop_stage stage;
        int64_t end_by_ms;     /* INT64_MAX: nobody wants it to end */
        int64_t next_ms;       /* of the next stage */
        int64_t join_until_ms; /* 0: it did not wait for others yet */
        int64_t unheard_ms;    /* then the supervisor is signalled */
    } stop;
    bool moves;                     /* a move of memory is under way */
    char undone[WORKLOAD_TEXT_MAX]; /* why the move that is being undone failed; "": none is */
    char evicted_why[WORKLOAD_TEXT_MAX];
    int64_t patience_ms; /* with control, which was asked to suspend it */
    int64_t sure_ms;     /* when the next try to make sure is due */
    bool gone;           /* nothing of it is alive; its end is judged */
    struct attempt_exit exit;
    int64_t doubt_ms;                /* since when its failure is in doubt; 0: it is not */
    int64_t doubt_look_ms;           /* when that is judged again */
    struct attempt_actions *actions; /* of the step under way */
    const struct attempt_view *view;
};

void attempt_life_init(struct attempt_life *life, uint64_t workload, int attempt,
                       const struct attempt_traits *traits);
void attempt_step(struct attempt_life *life, const struct attempt_event *event,
                  const struct attempt_view *view, struct attempt_actions *actions);
/* When it wants ATTEMPT_TICK; INT64_MAX: never. */
int64_t attempt_next_ms(const struct attempt_life *life);

/* ---- questions ---- */

/* It holds its devices, or may: they count it as theirs, and nobody else has its place. */
bool attempt_is_on_devices(const struct attempt_life *life);
/* Its memory is off its devices, or on its way: it stands still, and answers to nothing
 * but a kill. */
bool attempt_stands_still(const struct attempt_life *life);
bool attempt_has_ended(const struct attempt_life *life);
bool attempt_is_stopping(const struct attempt_life *life);
/* Its supervisor is not started yet, and will be when MPS is ready. */
bool attempt_waits_for_mps(const struct attempt_life *life);
