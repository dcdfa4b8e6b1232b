/*
 * State machine of one attempt on its node: whether the attempt is on its devices, when it must
 * end, and the verdict on its end.
 *
 *     attempt_step(life, event) → actions
 *
 * Pure: no I/O, no clock, no randomness. The agent passes in control's orders, observations of the
 * supervisor, decisions of the devices, and time, and carries out the actions in order. A simulator
 * can do the same, and so can a driver for a program that starts the processes itself (Kubernetes).
 *
 * Stops. Control, a device, the supervisor (time limit, lease, leftover processes) and the node ask
 * for an end with ATTEMPT_STOP. stop.c alone decides the consequences. The earliest deadline
 * applies. The agent saves the gravest verdict before it sends the stop to the supervisor, ends the
 * GPU work of an MPS client before the kill, and signals an unresponsive supervisor. If the attempt
 * outlives its deadline, the agent itself kills the processes.
 *
 * Suspension (suspend.c). Control's newest order counts. A failed move of memory is undone. While
 * memory may be on the devices, the attempt counts as on its devices. Exception: if a return fails,
 * or a move to the host and its undoing both fail, the attempt counts as suspended, and the agent
 * repeats the move to the host until the move succeeds.
 *
 * Advice. Control's newest advice counts. A new agent passes the advice to the programs again,
 * which recognise the advice by its number.
 *
 * Crashes. `kept` contains all state that a later agent needs. ATTEMPT_ACT_SAVE precedes the
 * actions that depend on the saved state, and every report of a change. An agent that finds the
 * attempt restores `kept` and steps ATTEMPT_ADOPT.
 *
 * This folder contains the state machine of one attempt. Files of the folder attempt may include
 * base, model.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/node.h"

enum {
    ATTEMPT_ACTIONS_MAX = 16,  /* of one step */
    ATTEMPT_END_WORK_MS = 500, /* delay between the end of GPU work and the kill */
    /* Longest delay of ATTEMPT_ACT_END_WORK while neighbours connect to MPS. */
    ATTEMPT_JOIN_MS_MAX = 5000,
    ATTEMPT_JOIN_LOOK_MS = 20, /* interval between two checks for connecting neighbours */
    /* Time limit for the supervisor to acknowledge a stop; then the agent signals the
     * supervisor. */
    ATTEMPT_ANSWER_MS = 5000,
    ATTEMPT_KILL_AGAIN_MS = 5000, /* interval between two kills */
    /* Delay between the deadline and the kill without the supervisor; after half of this delay the
     * agent signals the supervisor, even if the stop was acknowledged. */
    ATTEMPT_FORCE_MS = 10000,
    /* Time limit for the driver's report of the fault behind a failure. */
    ATTEMPT_FAULT_MS = 500,
    ATTEMPT_MPS_MS_MAX = 10000, /* time limit for the answer of MPS after a failure */
    /* Time limit for control to order a suspension that a device asks for. */
    ATTEMPT_CONTROL_MS = 10000,
    /* Interval between two attempts to move leftover memory off a device. */
    ATTEMPT_SURE_MS = 5000,
    ATTEMPT_LEAST_GRACE_MS = 1000, /* least grace of a stop from an earlier agent */
    ATTEMPT_GRACE_MS = 10000,      /* grace of a stop that specifies none */
    /* Delay after the time limit and the grace period, after which the agent ends an attempt that
     * the supervisor should have ended. */
    ATTEMPT_LATE_MS = 10000,
};

/* Location of an attempt's device memory. */
enum attempt_place { PLACE_DEVICE, PLACE_HOST, PLACE_UNKNOWN };

/* Origin of a stop. */
enum attempt_stop_reason {
    STOP_REASON_NONE,
    STOP_REASON_CONTROL,    /* an order */
    STOP_REASON_SUPERVISOR, /* time limit, lease, leftover processes */
    STOP_REASON_DEVICE,     /* limit, fault, repair, or restart with another share */
    STOP_REASON_LOST,       /* a device of the attempt is gone */
    STOP_REASON_END
};
const char *attempt_stop_reason_name(enum attempt_stop_reason reason);

struct attempt_stop {
    enum attempt_stop_reason reason;
    enum attempt_verdict verdict; /* severity of the stop: the verdict on the end */
    int64_t grace_ms;             /* negative: ATTEMPT_GRACE_MS */
    char why[WORKLOAD_TEXT_MAX];
};

/* Properties that are fixed by the grant. */
struct attempt_traits {
    enum workload_kind kind;
    bool has_devices;
    bool uses_mps;  /* changed only by ATTEMPT_MPS */
    bool swappable; /* the shim moves its memory, so that the driver must not */
    int64_t grace_ms;
    int64_t time_limit_ms; /* 0: none */
};

/* State that a later agent needs. */
struct attempt_kept {
    struct attempt_report report; /* as last reported to control, or about to be */
    enum attempt_verdict verdict; /* gravest verdict so far */
    char why[WORKLOAD_TEXT_MAX];  /* reason of the verdict; "" for VERDICT_OWN */
    /* Boot clock; deadline of a stop with a verdict; INT64_MAX: none. */
    int64_t end_by_ms;
    int64_t limit_at_ms; /* boot clock; end of the time limit; 0: none */
    bool without_mps;    /* granted with MPS, runs without */
    bool wants_off;      /* control's newest order is to suspend */
    enum attempt_place place;
    struct advice advice; /* newest advice to the programs */
};

/* Evidence of an attempt's end. */
struct attempt_exit {
    bool told;                    /* a record of the supervisor exists: `report` */
    struct attempt_report report; /* without a record only the times are valid */
    bool recorded;                /* no record: the supervisor had started the command */
    bool other_boot;              /* no record: the machine was restarted since */
    bool granted_here;            /* no record: granted by this agent */
    bool unseen;                  /* ended while no agent ran, as a client of MPS */
    bool not_alone;               /* with unseen: other attempts on the device ended, too */
    char text[WORKLOAD_TEXT_MAX]; /* no record, never ran: the reason; "": unknown */
    char refused[96];             /* allocation that the quota refused, a likely cause; "": none */
    enum attempt_verdict verdict; /* verdict of the node on an end at this moment, with `why` */
    char why[WORKLOAD_TEXT_MAX];
};

enum attempt_moved {
    MOVED_DONE,
    MOVED_FAILED,  /* nothing was moved */
    MOVED_LOST,    /* the location of the memory is unknown */
    MOVED_REFUSED, /* the move could not start */
};

enum attempt_event_kind {
    ATTEMPT_START,   /* granted, and ready except for the supervisor */
    ATTEMPT_ADOPT,   /* found by a new agent: supervisor alive, or end saved */
    ATTEMPT_MPS,     /* MPS of the device is ready, or unavailable */
    ATTEMPT_SEEN,    /* the supervisor has started the command; `ready`: the workload is ready */
    ATTEMPT_HEARD,   /* the supervisor has acknowledged a stop */
    ATTEMPT_STOP,    /* the attempt must end */
    ATTEMPT_ACQUIT,  /* the device reduces the blame of a stop: `stop.verdict`, `why` */
    ATTEMPT_CLEARED, /* the probation is over */
    ATTEMPT_SUSPEND, /* control's order number `turn` to suspend */
    ATTEMPT_RESUME,  /* control's order number `turn` to resume */
    ATTEMPT_ADVISE,  /* control's `advice` to the programs */
    ATTEMPT_EVICT,   /* the device asks for a suspension: `text` */
    ATTEMPT_MOVED,   /* answer to MOVE_OFF or MOVE_ON */
    ATTEMPT_GONE,    /* no process of the attempt is alive */
    ATTEMPT_TICK,    /* time has passed; due at attempt_next_ms(), may come earlier */
    ATTEMPT_SETTLE,  /* control has stored the end */
    ATTEMPT_EVENT_END
};

/* Environment of the attempt at an event. */
struct attempt_view {
    int64_t now_ms; /* boot clock; never decreases */
    int64_t now_wall_ms;
    bool linked;                  /* connected to control */
    bool others_join;             /* a neighbour is connecting to the attempt's MPS server */
    bool device_asks;             /* a device is still determining the cause of a fault */
    bool mps_is_well;             /* MPS answered after `doubt_ms` */
    enum attempt_verdict verdict; /* verdict of the devices on an end at this moment */
    char verdict_why[WORKLOAD_TEXT_MAX];
    char refusal[WORKLOAD_TEXT_MAX]; /* why a return to the devices is refused; "": allowed */
};

struct attempt_event {
    enum attempt_event_kind kind;
    /* SEEN: the workload is ready; MPS: MPS is ready; START: no need to wait for MPS. */
    bool ready;
    int turn;                     /* SUSPEND, RESUME */
    struct advice advice;         /* ADVISE */
    int64_t started_wall_ms;      /* SEEN */
    enum attempt_moved moved;     /* MOVED */
    struct attempt_stop stop;     /* STOP, ACQUIT */
    struct attempt_exit exit;     /* GONE */
    char text[WORKLOAD_TEXT_MAX]; /* EVICT, MOVED: the reason, or a description of the move */
};

enum attempt_action_kind {
    ATTEMPT_ACT_SAVE,    /* make `kept` durable before the next action */
    ATTEMPT_ACT_REPORT,  /* send `kept.report` to control */
    ATTEMPT_ACT_SPAWN,   /* start the supervisor, as a client of MPS if uses_mps */
    ATTEMPT_ACT_GIVE_UP, /* cancel the start; ATTEMPT_GONE answers */
    /* Order the supervisor to end the attempt within grace_ms; ATTEMPT_HEARD answers. */
    ATTEMPT_ACT_ASK,
    ATTEMPT_ACT_END_WORK, /* end the GPU work of the processes */
    ATTEMPT_ACT_KILL,     /* order the supervisor to kill now; ATTEMPT_HEARD answers */
    ATTEMPT_ACT_SIGNAL,   /* supervisor unresponsive: send SIGTERM */
    ATTEMPT_ACT_FORCE,    /* kill the attempt's processes; `again`: its supervisor, too */
    ATTEMPT_ACT_COME,     /* report to the devices that the attempt arrives or returns */
    ATTEMPT_ACT_RUN,      /* report to the devices that the attempt runs */
    ATTEMPT_ACT_CHANGE,   /* report to the devices that the attempt does not use MPS */
    ATTEMPT_ACT_STAY,     /* report to the devices that the suspension failed: `text` */
    ATTEMPT_ACT_LEAVE,    /* report to the devices that the attempt has left; `failed` or not */
    ATTEMPT_ACT_ADVISE,   /* pass `kept.advice` to the programs, replacing earlier advice */
    ATTEMPT_ACT_MOVE_OFF, /* move device memory to the host; ATTEMPT_MOVED answers */
    ATTEMPT_ACT_MOVE_ON,  /* move device memory back; ATTEMPT_MOVED answers */
    ATTEMPT_ACT_BURY,     /* write `kept.report` as the exit record, unless one exists */
    ATTEMPT_ACT_END,      /* release the agent's resources for the attempt */
    ATTEMPT_ACT_PUT_AWAY, /* forget the attempt; its output stays until retention deletes it */
    ATTEMPT_ACTION_END
};

struct attempt_action {
    enum attempt_action_kind kind;
    int64_t grace_ms;
    bool failed;
    bool again; /* MOVE_*: the same processes as in the last move; FORCE: not the first */
    char text[WORKLOAD_TEXT_MAX];
};

/* Overwritten by every step. */
struct attempt_actions {
    size_t count;
    struct attempt_action items[ATTEMPT_ACTIONS_MAX];
};

enum attempt_stop_stage { STOP_NOT_ASKED, STOP_ASKED, STOP_WORK_ENDED, STOP_KILLED };

/* Plain data, owned by the caller of attempt_step(). Only attempt_step() changes the data.
 * Exception: the caller restores `kept` before ADOPT. */
struct attempt_life {
    struct attempt_traits traits;
    struct attempt_kept kept;
    struct attempt_report saved; /* kept.report as of the last SAVE */
    bool spawned;                /* a supervisor was started or found */
    bool is_there;               /* is a tenant of its devices */
    bool told_running;
    struct {
        enum attempt_stop_reason reason;
        enum attempt_stop_stage stage;
        int64_t end_by_ms;     /* INT64_MAX: no stop */
        int64_t next_ms;       /* start of the next stage */
        int64_t join_until_ms; /* 0: no delay for neighbours yet */
        int64_t unheard_ms;    /* time of the signal to an unresponsive supervisor */
        int64_t force_ms;      /* time of the kill without the supervisor */
        bool forced;           /* one such kill left processes alive */
        bool late;             /* the supervisor did not enforce the time limit */
    } stop;
    bool moves;                     /* a move of memory is in progress */
    char undone[WORKLOAD_TEXT_MAX]; /* failure of the move that is being undone; "": none */
    char evicted_why[WORKLOAD_TEXT_MAX];
    int64_t patience_ms; /* deadline for control's answer to an eviction */
    int64_t sure_ms;     /* time of the next move of leftover memory */
    bool gone;           /* all processes are gone; the end is being judged */
    struct attempt_exit exit;
    int64_t doubt_ms;                /* start of doubt about a failure; 0: none */
    int64_t doubt_look_ms;           /* time of the next check of the doubt */
    struct attempt_actions *actions; /* of the current step */
    const struct attempt_view *view;
};

void attempt_life_init(struct attempt_life *life, uint64_t workload, int attempt,
                       const struct attempt_traits *traits);
void attempt_step(struct attempt_life *life, const struct attempt_event *event,
                  const struct attempt_view *view, struct attempt_actions *actions);
/* Returns when ATTEMPT_TICK is due; INT64_MAX: never. */
int64_t attempt_next_ms(const struct attempt_life *life);

/* ---- queries ---- */

/* Returns whether the attempt has memory on its devices, or may have: its place there is
 * reserved. */
bool attempt_is_on_devices(const struct attempt_life *life);
/* Returns whether the attempt is suspended, or moving off or back: it makes no progress and reacts
 * only to a kill. */
bool attempt_stands_still(const struct attempt_life *life);
bool attempt_has_ended(const struct attempt_life *life);
/* Returns whether the end is a failure, with or without a record of the supervisor. */
bool attempt_exit_is_failure(const struct attempt_exit *exit);
bool attempt_is_stopping(const struct attempt_life *life);
/* Returns whether the supervisor is not started yet, because MPS is not ready. */
bool attempt_waits_for_mps(const struct attempt_life *life);
