/* Parts of a page: the compared policies, statistics over seeds, and one function per section. */
#pragma once
#include "base/duration.h"
#include "report/report.h"

enum { PAGE_WIDTH_PX = 960, PAGE_TEXT_MAX = 256 };

/* Input and output of the sections. */
struct page {
    const struct report *report;
    struct str *out;
    size_t rates[CAMPAIGN_LOADS_MAX]; /* indices, in ascending order of rate */
    size_t focus;                     /* index of the rate shown in detail, the highest */
    /* Variants drawn as lines: all except ablations of other variants. */
    size_t line_count, lines[REPORT_LINES_MAX];
    size_t lines_left_out;
    char names[CAMPAIGN_VARIANTS_MAX][CAMPAIGN_NAME_MAX];
    size_t figure_count;
};

/* ---- numbers ---- */

/* Statistics over the seeds. */
struct spread {
    double mean, low, high;
};
/* Returns a printable value: 0 for NaN, and limited in magnitude. */
double page_sane(double value);
const struct result *page_result(const struct page *p, size_t rate, size_t seed, size_t variant);
struct spread page_spread(const struct page *p, size_t rate, size_t variant,
                          double (*value)(const struct result_summary *s));
double summary_completion(const struct result_summary *s);
double summary_waiting(const struct result_summary *s);
double summary_makespan(const struct result_summary *s);
/* Returns the late fraction of the requests; 0 without requests. */
double summary_late(const struct result_summary *s);
bool page_has_requests(const struct page *p);

/* ---- words ---- */

/* Returns the name as in --policy: "gpumux", "gpumux-tuner". Valid as long as the page. */
const char *page_variant_name(const struct page *p, size_t variant);
/* Writes the disabled parts: "without tuner, gate", or "whole". */
void page_without_text(const struct page *p, size_t variant, char text[PAGE_TEXT_MAX]);
/* Returns whether the variant lacks parts and the whole policy is also in the campaign. */
bool page_is_ablation(const struct page *p, size_t variant);
/* Writes "load 2.00", or the rate if no load is defined. */
void page_rate_text(const struct page *p, size_t rate, char text[PAGE_TEXT_MAX]);
/* Writes "seed 1", or "seed 1, the first of 3". */
void page_seed_text(const struct page *p, char text[PAGE_TEXT_MAX]);

/* ---- page ---- */

void page_heading(struct page *p, const char *id, const char *title);
/* A numbered figure with a caption below it. The caption is trusted markup. */
void page_figure_begin(struct page *p);
void page_figure_caption(struct page *p);
void page_figure_end(struct page *p);
/* Writes a note instead of a figure. The note is trusted markup. */
void page_missing(struct page *p, const char *how);
/* Writes a note on the lines that figures omit, if any. */
void page_lines_note(struct page *p);

/* ---- sections: -ERR_NO_MEMORY ---- */

int section_summary(struct page *p);
int section_distributions(struct page *p);
int section_utilisation(struct page *p);
int section_devices(struct page *p);
int section_slo(struct page *p);
int section_sensitivity(struct page *p);
int section_ablation(struct page *p);
