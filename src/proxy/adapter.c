#include "proxy/adapter.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define US_OF_S  1e6
#define US_OF_MS 1e3
/* Largest number of requests between two pages; a larger one is damage. */
#define REQUESTS_MAX 1e9

/* The metrics, best first: of several that tell the same time, the first on the page counts. */
static const struct source {
    enum adapter_kind kind;
    const char *name;
    enum control_time time;
    double us; /* microseconds of its unit */
    bool is_summary;
} sources[] = {
    {ADAPTER_VLLM, "vllm:e2e_request_latency_seconds", CONTROL_TIME_LATENCY, US_OF_S, false},
    {ADAPTER_VLLM, "vllm:time_to_first_token_seconds", CONTROL_TIME_FIRST, US_OF_S, false},
    {ADAPTER_VLLM, "vllm:inter_token_latency_seconds", CONTROL_TIME_BETWEEN, US_OF_S, false},
    {ADAPTER_VLLM, "vllm:time_per_output_token_seconds", CONTROL_TIME_BETWEEN, US_OF_S, false},
    {ADAPTER_SGLANG, "sglang:e2e_request_latency_seconds", CONTROL_TIME_LATENCY, US_OF_S, false},
    {ADAPTER_SGLANG, "sglang:time_to_first_token_seconds", CONTROL_TIME_FIRST, US_OF_S, false},
    {ADAPTER_SGLANG, "sglang:inter_token_latency_seconds", CONTROL_TIME_BETWEEN, US_OF_S, false},
    {ADAPTER_SGLANG, "sglang:time_per_output_token_seconds", CONTROL_TIME_BETWEEN, US_OF_S, false},
    {ADAPTER_TRITON, "nv_inference_request_summary_us", CONTROL_TIME_LATENCY, 1, true},
    {ADAPTER_TRITON, "nv_inference_first_response_histogram_ms", CONTROL_TIME_FIRST, US_OF_MS,
     false},
    {ADAPTER_PROMETHEUS, NULL, CONTROL_TIME_LATENCY, 0, false},
};
enum { SOURCES = sizeof sources / sizeof *sources };
_Static_assert((int)SOURCES <= (int)ADAPTER_SOURCES_MAX, "each source has a histogram");

int adapter_kind_parse(const char *name)
{
    static const char *const names[ADAPTER_KINDS] = {"auto", "vllm", "sglang", "triton",
                                                     "prometheus"};
    for (int i = 0; i < ADAPTER_KINDS; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

static double unit_of(const char *metric)
{
    static const struct {
        const char *end;
        double us;
    } units[] = {{"_milliseconds", US_OF_MS}, {"_ms", US_OF_MS}, {"_microseconds", 1}, {"_us", 1}};
    size_t length = strlen(metric);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t end = strlen(units[i].end);
        if (length > end && strcmp(metric + length - end, units[i].end) == 0)
            return units[i].us;
    }
    return US_OF_S;
}

void adapter_init(struct adapter *a, enum adapter_kind kind, const char *metric)
{
    *a = (struct adapter){.kind = kind};
    snprintf(a->metric, sizeof a->metric, "%s", metric);
    a->metric_us = unit_of(metric);
}

static bool is_wanted(const struct adapter *a, const struct source *s)
{
    return s->kind == a->kind || (a->kind == ADAPTER_AUTO && s->name != NULL);
}

void adapter_begin(struct adapter *a)
{
    for (int i = 0; i < SOURCES; i++) {
        struct histogram *h = &a->histograms[i];
        h->present = false;
        memset(h->now, 0, sizeof h->now);
    }
    for (size_t i = 0; i < a->summary.count; i++) {
        a->summary.series[i].present = false;
        a->summary.series[i].count = 0;
    }
    a->page_has_triton = false;
    a->line_length = 0;
}

/* ---- samples ---- */

/* Adds to the bucket with this bound, which is made where it belongs. A page later in the server's
 * life may have a bound that earlier pages had not; its count before was then that of the bucket
 * below. */
static void add_to_bucket(struct histogram *h, double bound, double value)
{
    size_t at = 0;
    while (at < h->count && h->bounds[at] < bound)
        at++;
    if (at == h->count || h->bounds[at] != bound) {
        if (h->count == ADAPTER_BUCKETS_MAX)
            return;
        size_t after = (h->count - at) * sizeof(double);
        memmove(h->bounds + at + 1, h->bounds + at, after);
        memmove(h->now + at + 1, h->now + at, after);
        memmove(h->before + at + 1, h->before + at, after);
        h->bounds[at] = bound;
        h->now[at] = 0;
        h->before[at] = at > 0 ? h->before[at - 1] : 0;
        h->count++;
    }
    h->now[at] += value;
    h->present = true;
}

static struct summary_series *series_of(struct summary *s, uint64_t id)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->series[i].series == id)
            return &s->series[i];
    if (s->count == ADAPTER_SERIES_MAX)
        return NULL;
    s->series[s->count] = (struct summary_series){.series = id};
    return &s->series[s->count++];
}

static void add_to_summary(struct summary *s, const struct prometheus_sample *sample, bool is_count)
{
    struct summary_series *series = series_of(s, sample->series);
    if (!series)
        return;
    if (is_count) {
        series->present = true;
        series->now = sample->value;
    } else if (series->count < ADAPTER_QUANTILES_MAX && sample->quantile > 0 &&
               sample->quantile <= 1 && sample->value >= 0 &&
               (series->count == 0 || sample->quantile > series->quantiles[series->count - 1])) {
        series->quantiles[series->count] = sample->quantile;
        series->values[series->count++] = sample->value;
    }
}

/* Returns what follows the metric's name, such as "_bucket"; NULL: another metric. */
static const char *suffix_of(const struct prometheus_sample *s, const char *metric,
                             size_t *ret_length)
{
    size_t length = strlen(metric);
    if (s->name_length < length || memcmp(s->name, metric, length) != 0)
        return NULL;
    *ret_length = s->name_length - length;
    return s->name + length;
}

static bool is_suffix(const char *suffix, size_t length, const char *wanted)
{
    return length == strlen(wanted) && memcmp(suffix, wanted, length) == 0;
}

static void take_sample(struct adapter *a, const struct prometheus_sample *s)
{
    static const char triton[] = "nv_inference_";
    size_t length;
    if (s->name_length > strlen(triton) && memcmp(s->name, triton, strlen(triton)) == 0)
        a->page_has_triton = true;
    for (int i = 0; i < SOURCES; i++) {
        const char *metric = sources[i].name ? sources[i].name : a->metric;
        const char *suffix = is_wanted(a, &sources[i]) ? suffix_of(s, metric, &length) : NULL;
        if (!suffix)
            continue;
        if (sources[i].is_summary && is_suffix(suffix, length, "_count"))
            add_to_summary(&a->summary, s, true);
        else if (sources[i].is_summary && length == 0 && !isnan(s->quantile))
            add_to_summary(&a->summary, s, false);
        else if (!sources[i].is_summary && is_suffix(suffix, length, "_bucket") &&
                 !isnan(s->bound) && s->value >= 0)
            add_to_bucket(&a->histograms[i], s->bound, s->value);
    }
}

static void take_line(struct adapter *a, const char *line, size_t length)
{
    struct prometheus_sample sample;
    if (length <= PROMETHEUS_LINE_MAX && prometheus_parse(line, length, &sample))
        take_sample(a, &sample);
}

void adapter_feed(struct adapter *a, const char *bytes, size_t length)
{
    while (length > 0) {
        const char *end = memchr(bytes, '\n', length);
        size_t text = end ? (size_t)(end - bytes) : length;
        size_t used = end ? text + 1 : text;
        if (end && a->line_length == 0) {
            take_line(a, bytes, text);
        } else {
            if (a->line_length + text <= sizeof a->line)
                memcpy(a->line + a->line_length, bytes, text);
            a->line_length = a->line_length + text <= sizeof a->line ? a->line_length + text
                                                                     : sizeof a->line + 1;
            if (end) {
                take_line(a, a->line, a->line_length);
                a->line_length = 0;
            }
        }
        bytes += used;
        length -= used;
    }
}

/* ---- differences ---- */

static uint32_t whole(double requests)
{
    if (!(requests > 0))
        return 0;
    return requests < REQUESTS_MAX ? (uint32_t)(requests + 0.5) : (uint32_t)REQUESTS_MAX;
}

static uint64_t to_us(double value, double us)
{
    double product = value * us;
    return product > 0 ? product < 1e15 ? (uint64_t)product : UINT64_C(1000000000000000) : 0;
}

/* Returns whether requests lie above the last finite bound. */
static bool count_histogram(struct histogram *h, const struct source *s, double us,
                            struct measure *m)
{
    bool is_new = !h->has_before, restarted = false, beyond = false;
    for (size_t i = 0; i < h->count; i++)
        restarted = restarted || h->now[i] < h->before[i];
    double below = 0, low = 0;
    for (size_t i = 0; i < h->count && !is_new; i++) {
        double until = h->now[i] - (restarted ? 0 : h->before[i]);
        bool is_last = isinf(h->bounds[i]);
        uint32_t count = whole(until - below);
        if (count > 0)
            measure_spread(m, s->time, to_us(low, us), to_us(is_last ? low : h->bounds[i], us),
                           count);
        beyond = beyond || (is_last && count > 0);
        below = until > below ? until : below;
        low = is_last || h->bounds[i] < 0 ? low : h->bounds[i];
    }
    memcpy(h->before, h->now, sizeof h->before);
    h->has_before = true;
    return beyond;
}

static void count_series(struct summary_series *s, const struct source *source, struct measure *m)
{
    double requests = s->now - (s->now < s->before ? 0 : s->before);
    double below = 0, low = 0;
    for (size_t i = 0; i < s->count && s->has_before; i++) {
        double until = s->quantiles[i];
        bool is_last = i + 1 == s->count;
        uint32_t count = whole(requests * until) - whole(requests * below);
        measure_spread(m, source->time, to_us(low, source->us), to_us(s->values[i], source->us),
                       count);
        below = until;
        low = s->values[i];
        if (is_last) /* nothing is known of the slowest requests, but that they are not faster */
            measure_spread(m, source->time, to_us(low, source->us), to_us(low, source->us),
                           whole(requests) - whole(requests * below));
    }
    s->before = s->now;
    s->has_before = true;
}

static bool is_summary_present(const struct adapter *a)
{
    for (size_t i = 0; i < a->summary.count; i++)
        if (a->summary.series[i].present)
            return true;
    return false;
}

static const char *note_absent(struct adapter *a)
{
    if (a->noted_absent || a->empty_pages < ADAPTER_EMPTY_PAGES)
        return NULL;
    a->noted_absent = true;
    if (a->page_has_triton)
        return "latency unknown: Triton reports only sums of durations; start tritonserver with "
               "--metrics-config summary_latencies=true";
    if (a->kind == ADAPTER_AUTO)
        return NULL; /* a guess that was wrong is no news */
    snprintf(a->note, sizeof a->note, "latency unknown: the metrics page has no histogram %s",
             a->kind == ADAPTER_PROMETHEUS ? a->metric
             : a->kind == ADAPTER_VLLM     ? "vllm:e2e_request_latency_seconds"
             : a->kind == ADAPTER_SGLANG
                 ? "sglang:e2e_request_latency_seconds: start SGLang with --enable-metrics"
                 : "of Triton");
    return a->note;
}

static const char *note_beyond(struct adapter *a, const struct source *s, const struct histogram *h,
                               double us)
{
    if (a->noted_beyond)
        return NULL;
    a->noted_beyond = true;
    double last = h->count > 1 ? h->bounds[h->count - 2] : 0;
    snprintf(a->note, sizeof a->note,
             "latencies above %.6g ms count as %.6g ms, because the histogram %.100s ends there",
             last * us / US_OF_MS, last * us / US_OF_MS, s->name ? s->name : a->metric);
    return a->note;
}

const char *adapter_end(struct adapter *a, struct measure *m)
{
    bool taken[CONTROL_TIMES] = {false}, found = false;
    const char *note = NULL;
    if (a->line_length > 0) /* the last line may have no end */
        take_line(a, a->line, a->line_length);
    a->line_length = 0;
    for (int i = 0; i < SOURCES; i++) {
        const struct source *s = &sources[i];
        struct histogram *h = &a->histograms[i];
        double us = s->name ? s->us : a->metric_us;
        bool is_present = s->is_summary ? is_summary_present(a) && is_wanted(a, s) : h->present;
        if (!is_present)
            h->has_before = true; /* requests that appear later are new */
        if (!is_present || taken[s->time])
            continue;
        taken[s->time] = found = true;
        if (!s->is_summary && count_histogram(h, s, us, m) && !note)
            note = note_beyond(a, s, h, us);
        for (size_t k = 0; s->is_summary && k < a->summary.count; k++)
            if (a->summary.series[k].present)
                count_series(&a->summary.series[k], s, m);
    }
    a->has_found = a->has_found || found;
    a->empty_pages = found ? 0 : a->empty_pages + 1;
    return note ? note : note_absent(a);
}
