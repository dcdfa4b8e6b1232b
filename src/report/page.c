/* Shared by the sections: statistics over seeds, names, and the frame of a figure. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/markup.h"
#include "report/report_internal.h"

static const double value_max = 1e12;

const struct result *page_result(const struct page *p, size_t rate, size_t seed, size_t variant)
{
    const struct campaign_config *c = p->report->config;
    return &p->report->runs[(rate * c->seed_count + seed) * c->variant_count + variant].result;
}

double page_sane(double value)
{
    return isfinite(value) ? fmin(fmax(value, -value_max), value_max) : 0;
}

struct spread page_spread(const struct page *p, size_t rate, size_t variant,
                          double (*value)(const struct result_summary *s))
{
    size_t seeds = p->report->config->seed_count;
    struct spread x = {.low = INFINITY, .high = -INFINITY};
    for (size_t seed = 0; seed < seeds; seed++) {
        double v = page_sane(value(&page_result(p, rate, seed, variant)->summary));
        x.mean += v / (double)seeds;
        x.low = fmin(x.low, v);
        x.high = fmax(x.high, v);
    }
    return x;
}

double summary_completion(const struct result_summary *s)
{
    return s->completion.mean_s;
}

double summary_waiting(const struct result_summary *s)
{
    return s->waiting.mean_s;
}

double summary_makespan(const struct result_summary *s)
{
    return s->makespan_s;
}

double summary_late(const struct result_summary *s)
{
    return s->requests > 0 ? s->late_requests / s->requests : 0;
}

bool page_has_requests(const struct page *p)
{
    const struct campaign_config *c = p->report->config;
    for (size_t variant = 0; variant < c->variant_count; variant++)
        if (page_result(p, p->focus, 0, variant)->summary.requests > 0)
            return true;
    return false;
}

const char *page_variant_name(const struct page *p, size_t variant)
{
    return p->names[variant];
}

void page_without_text(const struct page *p, size_t variant, char text[PAGE_TEXT_MAX])
{
    const struct campaign_variant *v = &p->report->config->variants[variant];
    size_t length = 0;
    (void)snprintf(text, PAGE_TEXT_MAX, "whole");
    for (enum policy_part part = 0; part < POLICY_PART_END; part++)
        if (v->options.without[part])
            length += (size_t)snprintf(text + length, PAGE_TEXT_MAX - length, "%s%s",
                                       length > 0 ? ", " : "without ", policy_part_name(part));
}

static size_t parts_left_out(const struct campaign_variant *v)
{
    size_t count = 0;
    for (enum policy_part part = 0; part < POLICY_PART_END; part++)
        count += v->options.without[part];
    return count;
}

bool page_is_ablation(const struct page *p, size_t variant)
{
    const struct campaign_config *c = p->report->config;
    if (parts_left_out(&c->variants[variant]) == 0)
        return false;
    for (size_t i = 0; i < c->variant_count; i++)
        if (c->variants[i].policy == c->variants[variant].policy &&
            parts_left_out(&c->variants[i]) == 0)
            return true;
    return false;
}

void page_rate_text(const struct page *p, size_t rate, char text[PAGE_TEXT_MAX])
{
    const struct result *r = page_result(p, rate, 0, 0);
    if (isfinite(r->load) && r->load >= 0.1)
        (void)snprintf(text, PAGE_TEXT_MAX, "load %.2f", page_sane(r->load));
    else if (isfinite(r->load))
        (void)snprintf(text, PAGE_TEXT_MAX, "load %.2g", page_sane(r->load));
    else
        (void)snprintf(text, PAGE_TEXT_MAX, "rate %.3g", p->report->config->rates[rate]);
}

void page_seed_text(const struct page *p, char text[PAGE_TEXT_MAX])
{
    const struct campaign_config *c = p->report->config;
    unsigned long long seed = c->seed;
    if (c->seed_count > 1)
        (void)snprintf(text, PAGE_TEXT_MAX, "seed %llu, the first of %zu", seed, c->seed_count);
    else
        (void)snprintf(text, PAGE_TEXT_MAX, "seed %llu", seed);
}

void page_heading(struct page *p, const char *id, const char *title)
{
    str_printf(p->out, "<h2 id=\"%s\">%s</h2>\n", id, title);
}

void page_figure_begin(struct page *p)
{
    str_append(p->out, "<figure>\n");
}

void page_figure_caption(struct page *p)
{
    str_printf(p->out, "<figcaption><b>Figure %zu.</b> ", ++p->figure_count);
}

void page_figure_end(struct page *p)
{
    str_append(p->out, "</figcaption>\n</figure>\n");
}

void page_missing(struct page *p, const char *how)
{
    str_printf(p->out, "<p class=\"missing\">%s</p>\n", how);
}

void page_lines_note(struct page *p)
{
    if (p->lines_left_out > 0)
        str_printf(p->out, " Shown are the first %d policies; %zu more are in the table only.",
                   REPORT_LINES_MAX, p->lines_left_out);
}
