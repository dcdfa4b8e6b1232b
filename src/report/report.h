/*
 * A campaign as one page of HTML: a table of its policies, and figures of their results as SVG. The
 * page is self-contained (no scripts, fonts or images from elsewhere), prints on paper, and can be
 * read without colours and by a screen reader.
 *
 * A report is pure: results in, text out; the same results give the same bytes. All sizes are
 * bounded, and a figure that omits something says so. A section without data explains how to obtain
 * the data.
 *
 * This folder contains the page of a campaign. Files of the folder report may include base, model,
 * policy, sim.
 */
#pragma once
#include "base/str.h"
#include "sim/campaign.h"

enum {
    REPORT_BYTES_MAX = 32 << 20,
    REPORT_LINES_MAX = 14, /* policies in one figure */
    /* Number of arrival rates in a distribution figure; the lowest rates are left out. */
    REPORT_RATES_MAX = 4,
    REPORT_GANTTS_MAX = 4,      /* policies with a chart of their devices */
    REPORT_DEVICES_MAX = 24,    /* devices in one chart; further devices are left out */
    REPORT_SPANS_MAX = 2000,    /* spans of workloads in one chart */
    REPORT_QUANTILES_MAX = 200, /* points of a distribution */
    REPORT_INTERVALS_MAX = 256, /* intervals of a course over time */
};

/* All pointers are borrowed for the call; texts may be untrusted. */
struct report {
    const char *command;       /* command line that reproduces the report */
    const char *trace, *nodes; /* as given on the command line */
    const char *version;       /* of the program */
    const struct campaign_config *config;
    const struct campaign_run *runs; /* from campaign_runs(), all done */
};

/* Appends the page. Returns -ERR_NO_MEMORY, also if the page exceeds the maximum of `out`. */
int report_write(struct error *e, const struct report *report, struct str *out);
