/*
 * The latch of a device decides whether a task's streams may continue beside services (keeper.h).
 * The keeper polls the services, and writes the state of the latch to the status page, where the
 * streams wait.
 *
 *   open ── a service is busy ─────────────────────────────────▶ shut
 *   shut ── all services have been idle for `linger_ns` ───────▶ open
 *   shut ── shut for `most_ns`, and a service is busy: a pass ─▶ open, for at least `pass_ns`
 *
 * While the agent holds the task (latch_look.is_held), the latch is shut and does not pass.
 *
 * If linger_ns is above 0, a service that worked between two polls counts as busy.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "shim/launch/gate.h"

struct latch {
    bool is_shut;
    bool is_passing;  /* open beside a busy service */
    uint64_t turn_ns; /* time at which the latch was shut, or began to pass */
    uint64_t busy_ns; /* while shut: time of the last poll that found a busy service */
    uint64_t sum;     /* sum of the services' marks at the last poll while open; 0: never polled */
};

struct latch_terms {
    uint64_t most_ns;
    uint64_t short_ns; /* limit instead of most_ns if latch_look.is_short is true */
    uint64_t linger_ns;
    uint64_t pass_ns;
};

/* The result of one poll. */
struct latch_look {
    uint64_t now_ns;
    struct gate_view view;
    bool is_short;
    bool is_held;
};

enum latch_turn {
    LATCH_STAYS,
    LATCH_SHUTS,
    LATCH_OPENS,
    LATCH_PASSES,
};

/* Updates the latch by the result of a poll. Returns the change of the latch. */
enum latch_turn latch_take(struct latch *latch, const struct latch_terms *terms,
                           const struct latch_look *look);
