/*
 * The surroundings of an attempt under random events (attempt_torture.c): a supervisor that may be
 * deaf, lie or stand still; a mover and the true location of the memory; a device; control. The
 * world carries out the actions of the attempt's state machine and checks the invariants. A broken
 * invariant ends the program with the seed.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attempt/attempt.h"
#include "base/rng.h"

enum { WORLD_QUEUE_MAX = 64 /* events that actions cause */ };

enum character {
    HONEST,
    DEAF,   /* acknowledges nothing, but obeys a signal */
    LIAR,   /* acknowledges everything, and does nothing */
    FROZEN, /* stopped: reacts to nothing but SIGKILL */
    CHARACTER_END
};

enum memory { MEMORY_ON, MEMORY_OFF, MEMORY_MIXED };

struct supervisor {
    bool was_started, alive, tasks_alive;
    bool recorded, ready;
    enum character character;
    int64_t heard_ms; /* time of its acknowledgement; INT64_MAX: none due */
    int64_t end_ms;   /* time at which it ends the task */
    bool has_exit;
    struct attempt_report exit;
};

struct control {
    bool granted, stops, settled;
    int turn, advice;
    bool wants_off;
    struct attempt_report told; /* newest report */
    bool was_told;
};

struct world {
    uint64_t seed, events, digest;
    int advice_passed_on; /* newest advice that the present agent has passed on */
    struct rng rng;
    int64_t now_ms;
    bool calm;

    /* the agent */
    bool up;
    struct attempt_traits traits;
    struct attempt_life life;
    struct attempt_actions actions;
    struct attempt_event queue[WORLD_QUEUE_MAX];
    size_t queued;
    bool is_granted_here;
    int64_t dead_by_ms;    /* INT64_MAX: no stop */
    int64_t work_ended_ms; /* 0: never */

    /* state on disk, which outlives the agent */
    bool has_grant, has_state;
    struct attempt_kept saved;
    bool ended_late; /* the end was saved near or past the time limit */

    /* the world outside of the agent */
    struct supervisor supervisor;
    struct control control;
    enum memory memory;
    bool moves, moves_off;
    int64_t move_end_ms;
    int failed_moves; /* since the last complete move */
    bool there, runs; /* on the device */
    enum attempt_verdict device_verdict;
    bool device_asks, others_join, mps_is_well, linked, refuses;
    int64_t asks_until_ms;
    bool done;

    size_t *event_counts, *action_counts;
};

/* Ends the program with the seed and `what`, unless `holds`. */
void world_check(const struct world *w, bool holds, const char *what);
/* Returns true once in `in` calls. */
bool world_chance(struct world *w, uint64_t in);
/* Returns a number from 0 to `most`. */
int64_t world_up_to(struct world *w, int64_t most);
/* Leaves the memory of an unfinished move anywhere. */
void world_interrupt_move(struct world *w);
/* Notes the deadline by the time limit, if it counts. */
void world_limit(struct world *w);
/* The agent crashes: it forgets everything but the saved state. */
void world_crash(struct world *w);
/* Carries out an action as the agent would. */
void world_carry_out(struct world *w, const struct attempt_action *action);
