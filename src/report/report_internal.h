/* The parts of a page: who is compared, numbers over seeds, and one function for each section. */
#pragma once
#include "base/duration.h"
#include "report/report.h"

enum { PAGE_WIDTH_PX = 960, PAGE_TEXT_MAX = 256 };

/* What sections are written from and into. */
struct page {
    const struct report *report;
    struct str *out;
    size_t rates[CAMPAIGN_LOADS_MAX]; /* indices, the lowest first */
    size_t focus; /* index of the rate of which details are shown: the highest */
    /* Variants that are drawn as lines: those that are no ablation of another one. */
    size_t line_count, lines[REPORT_LINES_MAX];
    size_t lines_left_out;
    char names[CAMPAIGN_VARIANTS_MAX][CAMPAIGN_NAME_MAX];
    size_t figure_count;
};

/* ---- numbers ---- */

/* Over the seeds. */
struct spread {
    double mean, low, high;
};
/* As it may be printed: 0 for what is no number, and no more digits than fit. */
double page_sane(double value);
const struct result *page_result(const struct page *p, size_t rate, size_t seed, size_t variant);
struct spread page_spread(const struct page *p, size_t rate, size_t variant,
                          double (*value)(const struct result_summary *s));
double summary_completion(const struct result_summary *s);
double summary_waiting(const struct result_summary *s);
double summary_makespan(const struct result_summary *s);
double summary_late(const struct result_summary *s); /* part of the requests; 0 of none */
bool page_has_requests(const struct page *p);

/* ---- words ---- */

/* As --policy takes it: "gpumux", "gpumux-tuner". Valid until the page is done. */
const char *page_variant_name(const struct page *p, size_t variant);
/* What it is without: "without tuner, gate"; "whole". */
void page_without_text(const struct page *p, size_t variant, char text[PAGE_TEXT_MAX]);
/* Whether a policy that is there as a whole was also run without parts, and this is one of
 * those. */
bool page_is_ablation(const struct page *p, size_t variant);
/* "load 2.00", or the rate if a load has no meaning. */
void page_rate_text(const struct page *p, size_t rate, char text[PAGE_TEXT_MAX]);
/* "seed 1", or "seed 1, the first of 3". */
void page_seed_text(const struct page *p, char text[PAGE_TEXT_MAX]);

/* ---- page ---- */

void page_heading(struct page *p, const char *id, const char *title);
/* A picture and, below it, what it shows; numbered. The caption is markup of the program's own. */
void page_figure_begin(struct page *p);
void page_figure_caption(struct page *p);
void page_figure_end(struct page *p);
/* Instead of a figure. Markup of the program's own. */
void page_missing(struct page *p, const char *how);
/* What the figures with lines leave out, if anything. */
void page_lines_note(struct page *p);

/* ---- sections: -ERR_NO_MEMORY ---- */

int section_summary(struct page *p);
int section_distributions(struct page *p);
int section_utilisation(struct page *p);
int section_devices(struct page *p);
int section_slo(struct page *p);
int section_sensitivity(struct page *p);
int section_ablation(struct page *p);
