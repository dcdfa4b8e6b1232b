#include "cli/load/load_report.h"

#include <math.h>
#include <stdio.h>

#include "base/version.h"
#include "cli/frame/output.h"
#include "wire/json_writer.h"

static const double percentiles[] = {50, 90, 95, 99, 99.9};
enum { PERCENTILES = sizeof percentiles / sizeof *percentiles };
/* A p99 of the generator's own lag above this makes its results doubtful. */
static const int64_t lag_doubtful_ns = 1000000;

char *load_time_text(int64_t ns, char text[LOAD_TIME_TEXT_MAX])
{
    double us = (double)ns / 1e3;
    if (us < 999.5)
        (void)snprintf(text, LOAD_TIME_TEXT_MAX, "%.0f us", us);
    else if (us < 999995)
        (void)snprintf(text, LOAD_TIME_TEXT_MAX, "%.2f ms", us / 1e3);
    else
        (void)snprintf(text, LOAD_TIME_TEXT_MAX, "%.2f s", us / 1e6);
    return text;
}

double load_measured_s(const struct load_plan *p)
{
    bool has_all = p->arrivals.requests > 0 && p->arrivals.count >= p->arrivals.requests;
    double end_s =
        has_all || p->cost.was_stopped ? (double)p->tally.last_due_ns / 1e9 : p->arrivals.end_s;
    return fmax(end_s - p->warmup_s, 1e-9);
}

double load_answered_per_s(const struct load_plan *p)
{
    const struct tally *t = &p->tally;
    double last_s = (double)t->last_answer_ns / 1e9 - p->warmup_s;
    return t->answered > 0 ? (double)t->answered / fmax(last_s, load_measured_s(p)) : 0;
}

/* ---- for people ---- */

static void print_counts(const struct load_plan *p)
{
    const struct tally *t = &p->tally;
    uint64_t failures = tally_failures(t);
    printf("requests  %llu due, %llu sent, %llu answered, %llu failed, %llu late\n",
           (unsigned long long)t->due, (unsigned long long)t->sent, (unsigned long long)t->answered,
           (unsigned long long)failures, (unsigned long long)t->late);
    if (t->warmup > 0)
        printf("warm-up   %llu requests before, not counted\n", (unsigned long long)t->warmup);
    const char *before = "failed    ";
    for (enum tally_cause cause = 0; cause < TALLY_CAUSE_END; cause++) {
        if (t->failed[cause] == 0)
            continue;
        printf("%s%llu %s", before, (unsigned long long)t->failed[cause], tally_cause_text(cause));
        before = ", ";
        if (cause == TALLY_STATUS)
            for (int status = 0; status < TALLY_STATUSES; status++)
                if (t->statuses[status] > 0 && status / 100 != 2)
                    printf(" [%d: %llu]", status, (unsigned long long)t->statuses[status]);
    }
    if (failures > 0)
        puts("");
    printf("rate      %.1f/s asked, %.1f/s answered\n", (double)t->due / load_measured_s(p),
           load_answered_per_s(p));
}

static void add_line(struct output_table *table, const char *name, const struct histogram *h)
{
    char text[LOAD_TIME_TEXT_MAX];
    output_cell(table, OUTPUT_PLAIN, "%s", name);
    for (size_t i = 0; i < PERCENTILES; i++) {
        int64_t ns = histogram_quantile(h, percentiles[i] / 100);
        output_cell(table, percentiles[i] == 99 ? OUTPUT_BOLD : OUTPUT_PLAIN, "%s",
                    h->count > 0 ? load_time_text(ns, text) : "-");
    }
    output_cell(table, OUTPUT_PLAIN, "%s", h->count > 0 ? load_time_text(h->most_ns, text) : "-");
    output_cell(table, OUTPUT_PLAIN, "%s",
                h->count > 0 ? load_time_text(llround(histogram_mean(h)), text) : "-");
}

static void print_times(const struct load_plan *p)
{
    static const char *const titles[] = {"",      "P50", "P90",  "P95", "P99",
                                         "P99.9", "MAX", "MEAN", NULL};
    const struct tally *t = &p->tally;
    struct output_table table;
    output_table_init(&table, titles);
    add_line(&table, "latency", &t->latency);
    if (p->config.is_stream) {
        add_line(&table, "first chunk", &t->first);
        add_line(&table, "gap", &t->gap);
    }
    add_line(&table, "wait", &t->wait);
    add_line(&table, "lag", &t->lag);
    (void)output_table_print(&table);
}

static void print_slos(const struct tally *t)
{
    char limit[LOAD_TIME_TEXT_MAX];
    for (size_t i = 0; i < t->slo_count; i++) {
        const struct tally_slo *slo = &t->slos[i];
        printf("slo       p%g within %s: %s, %.3f %% of all requests\n", slo->percentile,
               load_time_text(slo->limit_ns, limit), tally_slo_is_met(t, slo) ? "met" : "missed",
               100 * tally_attainment(t, slo));
    }
}

static void print_notes(const struct load_plan *p)
{
    const struct tally *t = &p->tally;
    char text[LOAD_TIME_TEXT_MAX];
    int64_t lag_ns = histogram_quantile(&t->lag, 0.99);
    if (lag_ns > lag_doubtful_ns)
        printf("note: the generator was the limit: it noticed 1 %% of the arrivals more than %s "
               "late. Give it a free core, or lower the rate.\n",
               load_time_text(lag_ns, text));
    if (t->late > t->due / 100 && p->cost.connections_most >= p->config.connections)
        printf("note: %llu requests were sent more than 1 ms late, because all %d connections were "
               "busy. Their wait counts as latency.\n",
               (unsigned long long)t->late, p->config.connections);
}

void load_print_results(const struct load_plan *p)
{
    print_counts(p);
    print_slos(&p->tally);
    printf("cost      %.0f %% of a core, %d connections\n\n",
           p->cost.wall_s > 0 ? 100 * p->cost.cpu_s / p->cost.wall_s : 0, p->cost.connections_most);
    print_times(p);
    print_notes(p);
}

/* ---- JSON ---- */

static void put_histogram(struct json_writer *w, const struct histogram *h)
{
    json_begin_object(w);
    json_put_uint(json_key(w, "count"), h->count);
    if (h->count > 0) {
        json_put_real(json_key(w, "mean_ms"), histogram_mean(h) / 1e6);
        json_put_real(json_key(w, "min_ms"), (double)h->least_ns / 1e6);
        for (size_t i = 0; i < PERCENTILES; i++) {
            char key[LOAD_TIME_TEXT_MAX];
            (void)snprintf(key, sizeof key, "p%g_ms", percentiles[i]);
            json_put_real(json_key(w, key),
                          (double)histogram_quantile(h, percentiles[i] / 100) / 1e6);
        }
        json_put_real(json_key(w, "max_ms"), (double)h->most_ns / 1e6);
    }
    json_begin_array(json_key(w, "buckets")); /* [from, below, count] */
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        if (h->buckets[i] == 0)
            continue;
        json_begin_array(w);
        json_put_real(w, (double)histogram_low(i) / 1e6);
        json_put_real(w, (double)histogram_high(i) / 1e6);
        json_put_uint(w, h->buckets[i]);
        json_end_array(w);
    }
    json_end_array(w);
    json_end_object(w);
}

static void put_counts(struct json_writer *w, const struct load_plan *p)
{
    const struct tally *t = &p->tally;
    json_put_uint(json_key(w, "due"), t->due);
    json_put_uint(json_key(w, "sent"), t->sent);
    json_put_uint(json_key(w, "answered"), t->answered);
    json_put_uint(json_key(w, "late"), t->late);
    json_put_uint(json_key(w, "warmup"), t->warmup);
    json_put_uint(json_key(w, "failed"), tally_failures(t));
    json_begin_object(json_key(w, "failed_by_cause"));
    for (enum tally_cause cause = 0; cause < TALLY_CAUSE_END; cause++)
        json_put_uint(json_key(w, tally_cause_name(cause)), t->failed[cause]);
    json_end_object(w);
    json_begin_object(json_key(w, "statuses"));
    for (int status = 0; status < TALLY_STATUSES; status++) {
        char key[LOAD_TIME_TEXT_MAX];
        (void)snprintf(key, sizeof key, "%d", status);
        if (t->statuses[status] > 0)
            json_put_uint(json_key(w, key), t->statuses[status]);
    }
    json_end_object(w);
    json_put_real(json_key(w, "rate_asked_per_s"), (double)t->due / load_measured_s(p));
    json_put_real(json_key(w, "rate_answered_per_s"), load_answered_per_s(p));
    json_put_uint(json_key(w, "bytes"), t->bytes);
}

static void put_slos(struct json_writer *w, const struct tally *t)
{
    json_begin_array(w);
    for (size_t i = 0; i < t->slo_count; i++) {
        const struct tally_slo *slo = &t->slos[i];
        json_begin_object(w);
        json_put_real(json_key(w, "percentile"), slo->percentile);
        json_put_real(json_key(w, "limit_ms"), (double)slo->limit_ns / 1e6);
        json_put_real(json_key(w, "attainment"), tally_attainment(t, slo));
        json_put_bool(json_key(w, "met"), tally_slo_is_met(t, slo));
        json_end_object(w);
    }
    json_end_array(w);
}

static void put_slices(struct json_writer *w, const struct tally *t)
{
    size_t count = tally_slice_count(t);
    json_begin_array(w);
    for (size_t i = 0; i < count; i++) {
        const struct tally_slice *s = &t->slices[i];
        json_begin_object(w);
        json_put_real(json_key(w, "at_s"), (double)(int64_t)i * (double)t->slice_ns / 1e9);
        json_put_uint(json_key(w, "due"), s->due);
        json_put_uint(json_key(w, "failed"), s->failed);
        json_put_uint(json_key(w, "answered"), s->answered_in);
        if (s->latency.count > 0) {
            json_put_real(json_key(w, "p50_ms"),
                          (double)histogram_quantile(&s->latency, 0.5) / 1e6);
            json_put_real(json_key(w, "p99_ms"),
                          (double)histogram_quantile(&s->latency, 0.99) / 1e6);
            json_put_real(json_key(w, "max_ms"), (double)s->latency.most_ns / 1e6);
        }
        json_end_object(w);
    }
    json_end_array(w);
}

void load_write_json(const struct load_plan *p, struct str *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_put_string(json_key(&w, "gpumux"), GPUMUX_VERSION);
    json_put_string(json_key(&w, "target"), p->url);
    json_put_string(json_key(&w, "arrivals"), p->arrivals_text);
    json_put_uint(json_key(&w, "seed"), p->seed);
    json_put_real(json_key(&w, "warmup_s"), p->warmup_s);
    json_put_real(json_key(&w, "measured_s"), load_measured_s(p));
    json_put_int(json_key(&w, "connections"), p->config.connections);
    put_counts(&w, p);
    put_slos(json_key(&w, "slo"), &p->tally);
    put_histogram(json_key(&w, "latency"), &p->tally.latency);
    put_histogram(json_key(&w, "wait"), &p->tally.wait);
    put_histogram(json_key(&w, "lag"), &p->tally.lag);
    if (p->config.is_stream) {
        json_put_uint(json_key(&w, "chunks"), p->tally.chunks);
        put_histogram(json_key(&w, "first_chunk"), &p->tally.first);
        put_histogram(json_key(&w, "gap"), &p->tally.gap);
    }
    json_begin_object(json_key(&w, "generator"));
    json_put_real(json_key(&w, "cpu_s"), p->cost.cpu_s);
    json_put_real(json_key(&w, "wall_s"), p->cost.wall_s);
    json_put_int(json_key(&w, "connections_most"), p->cost.connections_most);
    json_put_uint(json_key(&w, "connects"), p->cost.connects);
    json_end_object(&w);
    json_put_real(json_key(&w, "slice_s"), (double)p->tally.slice_ns / 1e9);
    put_slices(json_key(&w, "slices"), &p->tally);
    json_end_object(&w);
    str_append_char(out, '\n');
}
