/*
 * A campaign as one page of HTML: a table of its policies, and figures of what came of them, drawn
 * as SVG. It needs nothing but itself (no script, no font, no picture from elsewhere), prints on
 * paper, and can be read without colours and by a screen reader.
 *
 * Pure: results in, text out; the same results give the same bytes. Everything has a bound,
 * and a figure that leaves something out says so. A section for which there is no data says
 * how to get some.
 */
#pragma once
#include "base/str.h"
#include "sim/campaign.h"

enum {
    REPORT_BYTES_MAX = 32 << 20,
    REPORT_LINES_MAX = 14,      /* policies in one figure */
    REPORT_RATES_MAX = 4,       /* distributions: of the highest rates */
    REPORT_GANTTS_MAX = 4,      /* policies */
    REPORT_DEVICES_MAX = 24,    /* of one of them: the first */
    REPORT_SPANS_MAX = 2000,    /* of one of them */
    REPORT_QUANTILES_MAX = 200, /* points of a distribution */
    REPORT_INTERVALS_MAX = 256, /* of a course */
};

/* All borrowed for the call; texts may be anybody's. */
struct report {
    const char *command;       /* that makes the same again */
    const char *trace, *nodes; /* as they were asked for */
    const char *version;       /* of the program */
    const struct campaign_config *config;
    const struct campaign_run *runs; /* of campaign_runs(), all done */
};

/* Appends the page. -ERR_NO_MEMORY, also when it would be larger than `out` may be. */
int report_write(struct error *e, const struct report *report, struct str *out);
