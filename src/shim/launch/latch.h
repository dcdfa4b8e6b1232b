/*
 * The latch of a device: whether a task's streams, which wait for it there, may go on beside services (keeper.h). This
 * only decides; who looks at the services, and tells the device, is another matter.
 *
 *   open ── a service is busy ──────────────────────────────▶ shut
 *   shut ── all have been idle for `linger` ────────────────▶ open
 *   shut ── so for `most`, and still one is busy ── a pass ─▶ open, for `pass` at least
 *
 * A service that came and went between two looks counts as busy where a linger is asked for.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "shim/launch/gate.h"

struct latch {
    bool is_shut;
    bool is_passing;  /* open beside a busy service */
    uint64_t turn_ns; /* when it was shut, or began to pass */
    uint64_t busy_ns; /* when a service was last seen busy, while shut */
    uint64_t sum;     /* of the services' marks: last seen while open; 0: never looked */
};

struct latch_terms {
    uint64_t most_ns;
    uint64_t short_ns; /* instead of most_ns for a look that says so */
    uint64_t linger_ns;
    uint64_t pass_ns;
};

struct latch_look {
    uint64_t now_ns;
    struct gate_view view;
    bool is_short;
};

enum latch_turn {
    LATCH_STAYS,
    LATCH_SHUTS,
    LATCH_OPENS,
    LATCH_PASSES,
};

/* Takes a look, and says what changes by it. */
enum latch_turn latch_take(struct latch *latch, const struct latch_terms *terms,
                           const struct latch_look *look);
