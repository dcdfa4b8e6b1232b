/*
 * What is simulated, from words: the measured tables that are shipped (or others), the nodes, the
 * trace. Owns all of it.
 */
#pragma once
#include "sim/hardware.h"
#include "sim/serving.h"
#include "sim/trace.h"
#include "sim/truth.h"

enum { SCENARIO_TEXT_MAX = 64 << 20 }; /* bytes of a trace */

struct scenario {
    struct truth *truth;
    struct hardware hardware;
    struct trace trace;      /* at rate 1 */
    struct serving *serving; /* the shipped services */
};

/* All text; NULL what is not said. */
struct scenario_words {
    const char *nodes;
    /* A generator, the name of a shipped trace, or the text of one. */
    const char *trace;
    const char *trace_text; /* instead of `trace` */
    size_t trace_length;
    const char *mix;
    size_t jobs; /* 0: as many as the trace has; of a generator 300 */
    double noise;
    uint64_t seed;
};

/* Is this the name of a trace, so that no file of that name is looked for? */
bool scenario_has_trace(const char *name);
/* -ERR_INVALID, -ERR_SYNTAX, -ERR_TOO_LARGE, -ERR_NO_MEMORY. */
int scenario_open(struct error *e, const struct scenario_words *words,
                  struct scenario *ret_scenario);
void scenario_done(struct scenario *s);
/* The truth of the shipped tables alone. All runs share it: their seeds are in the ids of
 * residents. */
int scenario_truth(struct error *e, double noise, struct truth **ret_truth);
