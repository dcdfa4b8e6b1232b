/* The page: header, sections in order, and the parameters of the simulation. */
#include "report/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/markup.h"
#include "report/report_internal.h"

/* Always light, because the figures are drawn for white paper. */
static const char stylesheet[] =
    ":root { color-scheme: light }\n"
    "html { background: #fff; color: #1a1a1a }\n"
    "body { max-width: 960px; margin: 3rem auto 5rem; padding: 0 1.25rem; font: 17px/1.55 Charter, "
    "'Bitstream Charter', 'Iowan Old Style', 'Palatino Linotype', Palatino, Georgia, 'DejaVu "
    "Serif', serif }\n"
    "h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.01em }\n"
    "h2 { font-size: 1.3rem; margin: 3rem 0 .8rem; padding-top: .9rem; border-top: 1px solid "
    "#c8c8c8 }\n"
    "p { margin: .6rem 0; max-width: 44rem }\n"
    ".lead { font-size: 1.08rem; color: #333 }\n"
    ".note, figcaption, .missing { font-size: .88rem; line-height: 1.45; color: #444 }\n"
    ".missing { border-left: 3px solid #c8c8c8; padding-left: .8rem }\n"
    "nav { font-size: .92rem; margin: 1.2rem 0 0 }\n"
    "nav a { margin-right: 1.1em; white-space: nowrap }\n"
    "a { color: #00568a; text-decoration: none; border-bottom: 1px solid #b7cfe0 }\n"
    "pre, code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', "
    "'DejaVu Sans Mono', "
    "monospace; font-size: .82em }\n"
    "pre { background: #f6f6f4; border: 1px solid #e2e2de; border-radius: 4px; padding: .7rem "
    ".9rem; "
    "white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.5 }\n"
    "pre span { display: inline-block; max-width: 100% }\n"
    "figure { margin: 1.4rem 0 2.2rem; break-inside: avoid }\n"
    "figure svg { display: block; width: 100%; height: auto }\n"
    "figcaption { margin-top: .5rem; max-width: 50rem }\n"
    ".wide { overflow-x: auto }\n"
    "table { border-collapse: collapse; width: 100%; font: 13px/1.35 'Helvetica Neue', Helvetica, "
    "Arial, "
    "'Liberation Sans', 'DejaVu Sans', sans-serif; font-variant-numeric: tabular-nums; border-top: "
    "1.6px solid #1a1a1a; "
    "border-bottom: 1.6px solid #1a1a1a }\n"
    "th, td { text-align: right; padding: .42rem .5rem; vertical-align: top; white-space: nowrap "
    "}\n"
    "thead th { vertical-align: bottom; font-weight: 600; padding-bottom: .3rem }\n"
    "thead th.group { text-align: center; border-bottom: 1px solid #8a8a8a }\n"
    "thead tr:last-child th { padding-top: .2rem }\n"
    "tbody { border-top: 1px solid #8a8a8a }\n"
    "tbody tr + tr > * { border-top: 1px solid #ececec }\n"
    "th.name, th.rate { text-align: left }\n"
    "tbody th.name { font-weight: 600; white-space: normal; max-width: 10.5rem }\n"
    "tbody tr.part > * { color: #5c5c5c; border-top-style: dotted; padding-top: .2rem; "
    "padding-bottom: .25rem }\n"
    "tbody tr.part th.name { padding-left: 1.6rem; font-weight: 400 }\n"
    "tbody th.rate { font-weight: 600; background: #f6f6f4 }\n"
    "td small { color: #5c5c5c }\n"
    "td:has(.bar) { min-width: 6.5rem }\n"
    ".track, .bar { display: block; height: 4px; -webkit-print-color-adjust: exact; "
    "print-color-adjust: exact }\n"
    ".track { margin-top: 3px; background: #e8e8e8 }\n"
    ".bar { background: #0072b2 }\n"
    "dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.4rem; font-size: "
    ".92rem }\n"
    "dt { color: #5c5c5c }\n"
    "dd { margin: 0; overflow-wrap: anywhere }\n"
    "@page { size: A4; margin: 16mm 14mm }\n"
    "@media print {\n"
    "body { font-size: 10.5pt; margin: 0; padding: 0; max-width: none }\n"
    "nav { display: none }\n"
    "h2 { margin-top: 1.6rem; break-after: avoid }\n"
    ".wide { overflow: visible }\n"
    "table { font-size: 7pt }\n"
    "th, td { padding: .25rem .25rem }\n"
    "tbody tr.part th.name { padding-left: .8rem }\n"
    "td:has(.bar) { min-width: 4.5rem }\n"
    "tr { break-inside: avoid }\n"
    "a { color: inherit; border: 0 }\n"
    "}\n";

static const struct section {
    const char *id, *name;
    int (*write)(struct page *p);
} sections[] = {
    {"summary", "Summary", section_summary},
    {"distributions", "Completion and waiting", section_distributions},
    {"utilisation", "Utilisation", section_utilisation},
    {"devices", "Devices", section_devices},
    {"slo", "SLO", section_slo},
    {"sensitivity", "Sensitivity", section_sensitivity},
    {"ablation", "Ablation", section_ablation},
};
enum { SECTIONS = sizeof sections / sizeof *sections };

/* ---- the compared policies ---- */

static void order_rates(struct page *p)
{
    const struct campaign_config *c = p->report->config;
    for (size_t i = 0; i < c->rate_count; i++) {
        size_t at = i;
        for (; at > 0 && c->rates[p->rates[at - 1]] > c->rates[i]; at--)
            p->rates[at] = p->rates[at - 1];
        p->rates[at] = i;
    }
    p->focus = p->rates[c->rate_count - 1];
}

static void name_variant(const struct campaign_variant *v, char name[CAMPAIGN_NAME_MAX])
{
    struct str text;
    str_init(&text, CAMPAIGN_NAME_MAX - 1);
    str_append(&text, v->policy->name);
    for (enum policy_part part = 0; part < POLICY_PART_END; part++)
        if (v->options.without[part])
            str_printf(&text, "-%s", policy_part_name(part));
    (void)str_copy(name, CAMPAIGN_NAME_MAX, str_text(&text));
    str_done(&text);
}

static void choose_lines(struct page *p)
{
    const struct campaign_config *c = p->report->config;
    for (size_t i = 0; i < c->variant_count; i++) {
        name_variant(&c->variants[i], p->names[i]);
        if (page_is_ablation(p, i))
            continue;
        if (p->line_count < REPORT_LINES_MAX)
            p->lines[p->line_count++] = i;
        else
            p->lines_left_out++;
    }
}

/* ---- the header ---- */

static size_t count_tasks(const struct page *p)
{
    const struct result *r = page_result(p, p->focus, 0, 0);
    size_t tasks = 0;
    for (size_t i = 0; i < r->workload_count; i++)
        tasks += r->workloads[i].kind == WORKLOAD_TASK;
    return tasks;
}

static void write_title(struct page *p)
{
    size_t policies = p->line_count + p->lines_left_out;
    if (policies > 1)
        str_printf(p->out, "%zu policies", policies);
    else
        markup_text(p->out, page_variant_name(p, 0));
    str_printf(p->out, ", %zu tasks, %zu devices", count_tasks(p),
               p->report->config->engine.hardware->device_count);
}

static void write_time(struct page *p, size_t variant)
{
    char time[DURATION_TEXT_MAX];
    duration_text(page_spread(p, p->focus, variant, summary_completion).mean, time);
    str_append(p->out, "<b>");
    markup_text(p->out, page_variant_name(p, variant));
    str_printf(p->out, "</b> (%s)", time);
}

/* Writes a sentence with the shortest and the longest mean completion time. */
static void write_finding(struct page *p)
{
    size_t best = p->lines[0], worst = p->lines[0];
    char rate[PAGE_TEXT_MAX];
    page_rate_text(p, p->focus, rate);
    for (size_t i = 1; i < p->line_count; i++) {
        double mean = page_spread(p, p->focus, p->lines[i], summary_completion).mean;
        if (mean < page_spread(p, p->focus, best, summary_completion).mean)
            best = p->lines[i];
        if (mean > page_spread(p, p->focus, worst, summary_completion).mean)
            worst = p->lines[i];
    }
    str_printf(p->out, "<p class=\"lead\">At %s, tasks were complete ", rate);
    if (best == worst) {
        char time[DURATION_TEXT_MAX];
        duration_text(page_spread(p, p->focus, best, summary_completion).mean, time);
        str_printf(p->out, "%s after their submission, on average.", time);
    } else {
        str_append(p->out, "soonest under ");
        write_time(p, best);
        str_append(p->out, " and latest under ");
        write_time(p, worst);
        str_append(p->out, ", on average.");
    }
    str_append(p->out, "</p>\n");
}

/* Allows line breaks between options, but not at their dashes. */
static void write_command(struct page *p)
{
    const char *at = p->report->command;
    struct str part;
    str_init(&part, REPORT_BYTES_MAX);
    while (*at) {
        const char *next = strstr(at, " --");
        size_t length = next ? (size_t)(next - at) : strlen(at);
        str_clear(&part);
        str_append_bytes(&part, at, length);
        str_append(p->out, "<span>");
        markup_text(p->out, str_text(&part));
        str_append(p->out, next ? "</span> " : "</span>");
        at += length + (next ? 1 : 0);
    }
    str_done(&part);
}

static void write_head(struct page *p)
{
    str_append(p->out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
                       "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
                       "<title>gpumux sim: ");
    write_title(p);
    str_printf(p->out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n<h1>", stylesheet);
    write_title(p);
    str_append(p->out, "</h1>\n");
    write_finding(p);
    str_append(p->out, "<pre>");
    write_command(p);
    str_append(p->out, "</pre>\n<nav aria-label=\"Sections\">");
    for (size_t i = 0; i < SECTIONS; i++)
        str_printf(p->out, "<a href=\"#%s\">%s</a> ", sections[i].id, sections[i].name);
    str_append(p->out, "<a href=\"#simulated\">Simulation</a></nav>\n");
}

/* ---- the simulation ---- */

static void write_term(struct page *p, const char *term)
{
    str_printf(p->out, "</dd>\n<dt>%s</dt><dd>", term);
}

static void write_rates(struct page *p)
{
    const struct campaign_config *c = p->report->config;
    write_term(p, "Rates");
    for (size_t i = 0; i < c->rate_count; i++) {
        char text[PAGE_TEXT_MAX];
        page_rate_text(p, p->rates[i], text);
        str_printf(p->out, "%s%s (arrivals %.3g times as fast as in the trace)", i > 0 ? "; " : "",
                   text, c->rates[p->rates[i]]);
    }
}

static void write_simulated(struct page *p)
{
    const struct campaign_config *c = p->report->config;
    const struct engine_config *e = &c->engine;
    page_heading(p, "simulated", "Simulation");
    str_append(p->out, "<dl>\n<dt>Policies</dt><dd>");
    for (size_t i = 0; i < c->variant_count; i++) {
        str_append(p->out, i > 0 ? ", " : "");
        markup_text(p->out, page_variant_name(p, i));
    }
    write_term(p, "Trace");
    markup_text(p->out, p->report->trace);
    str_printf(p->out, ", %zu tasks", count_tasks(p));
    const struct result_summary *s = &page_result(p, p->focus, 0, 0)->summary;
    if (s->multi_count > 0)
        str_printf(p->out, "; %zu of several devices, %zu of them larger than a node",
                   s->multi_count, s->split_count);
    write_term(p, "Nodes");
    markup_text(p->out, p->report->nodes);
    str_printf(p->out, ": %zu devices on %zu nodes, up to %d workloads on a device",
               e->hardware->device_count, e->hardware->node_count, e->max_neighbours);
    write_rates(p);
    write_term(p, "Seeds");
    str_printf(p->out, "%llu", (unsigned long long)c->seed);
    if (c->seed_count > 1)
        str_printf(p->out, " to %llu", (unsigned long long)(c->seed + c->seed_count - 1));
    write_term(p, "Services");
    str_printf(p->out, "%zu", e->service_count);
    write_term(p, "Faults");
    str_printf(p->out, "%.3g a device and day", e->faults_per_device_day);
    if (e->outages_per_node_day > 0)
        str_printf(p->out, ", nodes silent %.3g times per day for %.3g minutes each",
                   e->outages_per_node_day, e->outage_mean_s / 60);
    write_term(p, "Durations");
    str_printf(p->out,
               "as tasks say them, off by a factor of e<sup>%.2g</sup> (one standard deviation)",
               e->estimate_error);
    write_term(p, "Program");
    str_append(p->out, "gpumux ");
    markup_text(p->out, p->report->version);
    str_append(
        p->out,
        "</dd>\n</dl>\n<p class=\"note\">The same command gives the same bytes, whatever the "
        "number of "
        "threads. The queue, the placing and the policies are the code that runs a real cluster; "
        "the "
        "machines and the time are played. Numbers of all figures are in the CSV files beside this "
        "page.</p>\n");
}

int report_write(struct error *e, const struct report *report, struct str *out)
{
    struct page page = {.report = report, .out = out};
    int r = 0;
    order_rates(&page);
    choose_lines(&page);
    write_head(&page);
    for (size_t i = 0; r == 0 && i < SECTIONS; i++)
        r = sections[i].write(&page);
    write_simulated(&page);
    str_append(out, "</main>\n</body>\n</html>\n");
    if (r < 0 || str_failed(out))
        return error_set(e, ERR_NO_MEMORY, "no memory for the report");
    return 0;
}
