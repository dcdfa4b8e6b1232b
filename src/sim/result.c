#include "sim/result.h"

#include <math.h>
#include <stdlib.h>

void result_done(struct result *r)
{
    free(r->workloads);
    free(r->spans);
    r->workloads = NULL;
    r->spans = NULL;
    r->workload_count = r->span_count = r->span_capacity = 0;
}

int result_add_span(struct result *r, const struct result_span *span)
{
    if (r->span_count > 0) {
        struct result_span *last = &r->spans[r->span_count - 1];
        if (last->device == span->device && last->workload == span->workload &&
            last->to_s == span->from_s) {
            last->to_s = span->to_s;
            return 0;
        }
    }
    if (r->span_count == r->span_capacity) {
        size_t capacity = r->span_capacity ? 2 * r->span_capacity : 256;
        struct result_span *spans = realloc(r->spans, capacity * sizeof *spans);
        if (!spans)
            return -ERR_NO_MEMORY;
        r->spans = spans;
        r->span_capacity = capacity;
    }
    r->spans[r->span_count++] = *span;
    return 0;
}

static int compare_spans(const void *a, const void *b)
{
    const struct result_span *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    if (x->from_s != y->from_s)
        return x->from_s < y->from_s ? -1 : 1;
    return x->workload < y->workload ? -1 : x->workload > y->workload;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Returns the smallest sorted value that at least the fraction `part` of the values does not
 * exceed. */
static double percentile(const double *sorted, size_t count, double part)
{
    size_t rank = (size_t)ceil(part * (double)count);
    return sorted[rank > 0 ? rank - 1 : 0];
}

static struct result_times times_of(double *values, size_t count)
{
    double sum = 0;
    if (count == 0)
        return (struct result_times){0};
    qsort(values, count, sizeof *values, compare_doubles);
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return (struct result_times){.mean_s = sum / (double)count,
                                 .p50_s = percentile(values, count, 0.50),
                                 .p95_s = percentile(values, count, 0.95),
                                 .p99_s = percentile(values, count, 0.99)};
}

static void count_workload(struct result_summary *s, const struct result_workload *w)
{
    s->evictions += (size_t)w->evictions;
    s->requests += w->requests;
    s->late_requests += w->late_requests;
    if (w->kind != WORKLOAD_TASK)
        return;
    s->submitted++;
    s->multi_count += w->devices > 1;
    s->split_count += w->is_split;
    if (w->state == WORKLOAD_SUCCEEDED)
        s->succeeded++;
    else if (w->state == WORKLOAD_FAILED)
        s->failed++;
    else
        s->unfinished++;
    if (w->state == WORKLOAD_SUCCEEDED) {
        s->makespan_s = fmax(s->makespan_s, w->end_s);
        s->pd_mean += w->pd;
        s->speed_mean += 1 / w->pd;
    }
}

int result_finish(struct result *r)
{
    struct result_summary *s = &r->summary;
    double *values = calloc(r->workload_count + 1, sizeof *values);
    size_t count = 0;
    if (!values)
        return -ERR_NO_MEMORY;
    if (r->span_count > 0)
        qsort(r->spans, r->span_count, sizeof *r->spans, compare_spans);
    for (size_t i = 0; i < r->workload_count; i++)
        count_workload(s, &r->workloads[i]);
    if (s->succeeded > 0) {
        s->pd_mean /= (double)s->succeeded;
        s->speed_mean /= (double)s->succeeded;
    }
    for (int pass = 0; pass < 3; pass++) {
        count = 0;
        for (size_t i = 0; i < r->workload_count; i++) {
            const struct result_workload *w = &r->workloads[i];
            if (w->kind == WORKLOAD_TASK && w->state == WORKLOAD_SUCCEEDED &&
                (pass != 1 || w->devices == 1))
                values[count++] = pass == 2 ? w->wait_s : w->end_s - w->submit_s;
        }
        struct result_times times = times_of(values, count);
        if (pass == 0)
            s->completion = times;
        else if (pass == 1)
            s->completion_single = times;
        else
            s->waiting = times;
    }
    free(values);
    return 0;
}
