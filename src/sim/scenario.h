/*
 * The input of a simulation, built from text arguments: measured tables (shipped or given), nodes
 * and trace. The scenario owns the tables, the nodes and the trace.
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

/* Arguments as text. NULL: argument not given. */
struct scenario_words {
    const char *nodes;
    /* Name of a generator or of a shipped trace, or the text of a trace. */
    const char *trace;
    const char *trace_text; /* replaces `trace` */
    size_t trace_length;
    const char *mix;
    size_t jobs; /* 0: all jobs of a trace, or 300 from a generator */
    double noise;
    uint64_t seed;
};

/* Returns whether the name is the name of a generator or a shipped trace, and not of a file. */
bool scenario_has_trace(const char *name);
/* Returns -ERR_INVALID, -ERR_SYNTAX, -ERR_TOO_LARGE or -ERR_NO_MEMORY. */
int scenario_open(struct error *e, const struct scenario_words *words,
                  struct scenario *ret_scenario);
void scenario_done(struct scenario *s);
/* Builds the truth from the shipped tables alone. All runs share the truth, because the seeds of
 * the noise are part of the residents' ids. */
int scenario_truth(struct error *e, double noise, struct truth **ret_truth);
