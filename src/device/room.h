/*
 * Room for services: which tasks of a device give memory to a service whose allocation does not
 * fit, how much, and when each task gets its memory back.
 *
 *     room_step(room, look) → actions
 *
 * Pure: no I/O, no clock, no randomness. The agent looks often while tasks and services share a
 * device, and carries out the actions in order.
 *
 * A swappable task moves device memory to host memory (shim/memory/swap.h). A task with memory
 * there stands still, so a task that already stands still gives first, and then the task that can
 * give most. If all swappable tasks together cannot give enough, tasks that lose no work are
 * evicted: tasks with a resume command, and tasks that the driver can suspend.
 *
 * A task gets its memory back when the device has had room for all of it for a while. The time
 * doubles for a task that had to give way again soon after a return, so that tasks and services do
 * not take turns. A task that waits for longer than `away_ms_max` is evicted.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROOM_TASKS_MAX = 64, /* tasks of one device that are considered */
    ROOM_ACTIONS_MAX = 2 * ROOM_TASKS_MAX + 4,
    ROOM_TEXT_MAX = 128,
    ROOM_MOVE_MS = 5000,   /* longest duration of a move; then the order counts as failed */
    ROOM_AGAIN_MS = 2000,  /* time for which a task that failed to give way is not asked again */
    ROOM_SETTLE_MS = 50,   /* time for a service to take the memory that was freed for it */
    ROOM_RETURN_MS = 1000, /* time for which the device must have had room for a return */
    ROOM_RETURN_MS_MAX = 60000, /* the same for a task that often gives way */
    ROOM_CALM_MS = 120000,      /* time after a return that resets the time before it */
};

struct room_task_look {
    uint64_t workload;
    int attempt;
    uint64_t held_bytes;    /* device memory that its end would free */
    uint64_t movable_bytes; /* part that can move, including away_bytes */
    uint64_t away_bytes;    /* part that is in host memory */
    uint32_t failures;      /* failed moves so far */
    bool can_move;          /* one process, which can move its memory */
    bool can_leave;         /* an eviction loses no work */
};

struct room_look {
    int64_t now_ms;         /* never decreases */
    uint64_t lacking_bytes; /* memory that allocations of services lack */
    int64_t free_at_ms;     /* time of the sample of free_bytes */
    uint64_t free_bytes;
    uint64_t host_bytes; /* host memory that may be taken; needed only while services lack memory */
    int64_t away_ms_max;
    size_t task_count;
    const struct room_task_look *tasks;
};

enum room_action_kind {
    ROOM_ORDER,  /* the task must have `bytes` in host memory */
    ROOM_ANSWER, /* tell the services: memory was freed, or none can be freed */
    ROOM_EVICT,  /* the task must leave the device: `text` */
    ROOM_NOTE,   /* an event for people: `text` */
};

struct room_action {
    enum room_action_kind kind;
    uint64_t workload;
    int attempt;
    uint64_t bytes;
    char text[ROOM_TEXT_MAX];
};

struct room_actions {
    /* Memory that tasks can still free, for the limits pages of services. */
    uint64_t room_bytes;
    size_t count;
    struct room_action items[ROOM_ACTIONS_MAX];
};

struct room_task {
    uint64_t workload;
    int attempt;
    bool is_present; /* in the present look */
    bool is_leaving; /* evicted */
    bool is_giving;  /* memory was on its way to host memory at the last step */
    uint64_t order_bytes;
    int64_t ordered_ms;
    int64_t blocked_ms;    /* not asked before this time */
    int64_t away_since_ms; /* 0: all memory is on the device */
    int64_t fits_since_ms; /* 0: the device has no room for a return */
    int64_t returned_ms;   /* time of the last return; 0: none */
    int64_t return_ms;     /* time for which the device must have room */
    uint32_t failures;
};

/* All zero: no tasks. */
struct room {
    size_t count;
    struct room_task tasks[ROOM_TASKS_MAX];
    int64_t settle_ms;  /* lacking memory is ignored before this time */
    int64_t changed_ms; /* samples of free memory before this time are ignored */
    bool has_noted;     /* the shortage of host memory was noted */
};

void room_step(struct room *room, const struct room_look *look, struct room_actions *ret);
