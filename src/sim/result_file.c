#include "sim/result_file.h"

#include <stdlib.h>
#include <string.h>

#include "learn/stored.h"

enum { VERSION = 2, WORKLOADS_MAX = 1 << 24, SPANS_MAX = 1 << 26 };
static const char kind[] = "simr";

void result_write_workloads(const struct result *r, struct str *out)
{
    str_append(out, "id,kind,submit_s,duration_s,gpus,model,batch,state,start_s,end_s,wait_s,pd,"
                    "batch_last,attempts,evictions,split,requests,late_requests\n");
    for (size_t i = 0; i < r->workload_count; i++) {
        const struct result_workload *w = &r->workloads[i];
        str_printf(
            out, "%llu,%s,%.3f,%.3f,%d,%s,%.0f,%s,%.3f,%.3f,%.3f,%.4f,%.0f,%d,%d,%d,%.0f,%.0f\n",
            (unsigned long long)w->id, workload_kind_name(w->kind), w->submit_s, w->alone_s,
            w->devices, w->model < r->model_count ? r->models[w->model] : "-", w->batch_user,
            workload_state_name(w->state), w->start_s, w->end_s, w->wait_s, w->pd, w->batch_last,
            w->attempts, w->evictions, w->is_split, w->requests, w->late_requests);
    }
}

void result_write_course(const struct result *r, struct str *out)
{
    str_append(out, "from_s,sm,dram,memory,running,waiting,requests,late_requests\n");
    for (size_t i = 0; i < r->point_count; i++) {
        const struct result_point *p = &r->points[i];
        str_printf(out, "%.3f,%.4f,%.4f,%.4f,%.2f,%.2f,%.0f,%.1f\n", p->from_s, p->sm, p->dram,
                   p->memory, p->running, p->waiting, p->requests, p->late_requests);
    }
}

void result_write_spans(const struct result *r, struct str *out)
{
    str_append(out, "device,workload,from_s,to_s\n");
    for (size_t i = 0; i < r->span_count; i++) {
        const struct result_span *s = &r->spans[i];
        str_printf(out, "%u,%llu,%.3f,%.3f\n", s->device,
                   (unsigned long long)r->workloads[s->workload].id, s->from_s, s->to_s);
    }
}

void result_write_summary_head(struct str *out)
{
    str_append(
        out, "policy,seed,rate,load,devices,extrapolated,submitted,succeeded,failed,unfinished,"
             "completion_mean_s,completion_p50_s,completion_p95_s,completion_p99_s,"
             "completion_single_mean_s,waiting_mean_s,waiting_p95_s,makespan_s,pd_mean,speed_mean,"
             "sm_mean,memory_mean,multi,split,evictions,placements,requests,late_requests\n");
}

void result_write_summary(const struct result *r, struct str *out)
{
    const struct result_summary *s = &r->summary;
    str_printf(out, "%s,%llu,%.6g,%.6g,%zu,%d,%zu,%zu,%zu,%zu,", r->policy,
               (unsigned long long)r->seed, r->rate, r->load, r->device_count, r->is_extrapolated,
               s->submitted, s->succeeded, s->failed, s->unfinished);
    str_printf(out, "%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.4f,%.4f,%.4f,%.4f,",
               s->completion.mean_s, s->completion.p50_s, s->completion.p95_s, s->completion.p99_s,
               s->completion_single.mean_s, s->waiting.mean_s, s->waiting.p95_s, s->makespan_s,
               s->pd_mean, s->speed_mean, s->sm_mean, s->memory_mean);
    str_printf(out, "%zu,%zu,%zu,%zu,%.0f,%.1f\n", s->multi_count, s->split_count, s->evictions,
               s->placements, s->requests, s->late_requests);
}

/* ---- the saved form: one list of members, for writing and reading ---- */

struct pass {
    struct str *out; /* NULL: reading */
    struct stored_reader *in;
};

static void pass_double(struct pass *p, double *value)
{
    if (p->out)
        stored_put_double(p->out, *value);
    else
        *value = stored_get_double(p->in);
}

static void pass_size(struct pass *p, size_t *value, size_t max)
{
    if (p->out)
        stored_put_u64(p->out, *value);
    else
        *value = stored_get_size(p->in, max);
}

#define PASS_NUMBER(p, value, max)                                                                 \
    do {                                                                                           \
        size_t number = (size_t)(value);                                                           \
        pass_size((p), &number, (max));                                                            \
        (value) = (__typeof__(value))number;                                                       \
    } while (0)

static void pass_workload(struct pass *p, struct result_workload *w)
{
    double *const doubles[] = {&w->submit_s, &w->start_s,      &w->end_s,      &w->alone_s,
                               &w->wait_s,   &w->pd,           &w->batch_user, &w->batch_last,
                               &w->requests, &w->late_requests};
    PASS_NUMBER(p, w->id, SIZE_MAX);
    PASS_NUMBER(p, w->kind, WORKLOAD_KIND_END - 1);
    PASS_NUMBER(p, w->state, WORKLOAD_STATE_END - 1);
    PASS_NUMBER(p, w->model, UINT32_MAX);
    PASS_NUMBER(p, w->devices, 1 << 20);
    PASS_NUMBER(p, w->attempts, 1 << 30);
    PASS_NUMBER(p, w->evictions, 1 << 30);
    size_t is_split = w->is_split;
    pass_size(p, &is_split, 1);
    w->is_split = is_split == 1;
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++)
        pass_double(p, doubles[i]);
}

static void pass_span(struct pass *p, struct result_span *s, size_t workload_count)
{
    PASS_NUMBER(p, s->device, UINT32_MAX);
    PASS_NUMBER(p, s->workload, workload_count - 1);
    pass_double(p, &s->from_s);
    pass_double(p, &s->to_s);
}

static void pass_point(struct pass *p, struct result_point *x)
{
    double *const doubles[] = {&x->from_s,  &x->sm,      &x->dram,     &x->memory,
                               &x->running, &x->waiting, &x->requests, &x->late_requests};
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++)
        pass_double(p, doubles[i]);
}

static void pass_times(struct pass *p, struct result_times *t)
{
    pass_double(p, &t->mean_s);
    pass_double(p, &t->p50_s);
    pass_double(p, &t->p95_s);
    pass_double(p, &t->p99_s);
}

static void pass_summary(struct pass *p, struct result_summary *s)
{
    size_t *const sizes[] = {&s->submitted,   &s->succeeded,   &s->failed,    &s->unfinished,
                             &s->multi_count, &s->split_count, &s->evictions, &s->faults,
                             &s->outages,     &s->placements};
    double *const doubles[] = {&s->makespan_s,  &s->speed_mean, &s->pd_mean,      &s->sm_mean,
                               &s->memory_mean, &s->requests,   &s->late_requests};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        pass_size(p, sizes[i], SIZE_MAX);
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++)
        pass_double(p, doubles[i]);
    PASS_NUMBER(p, s->decisions, SIZE_MAX);
    pass_times(p, &s->completion);
    pass_times(p, &s->completion_single);
    pass_times(p, &s->waiting);
}

/* Writes or reads all members of fixed size. */
static void pass_head(struct pass *p, struct result *r)
{
    size_t is_extrapolated = r->is_extrapolated;
    for (size_t i = 0; i + 1 < sizeof r->policy; i++)
        PASS_NUMBER(p, r->policy[i], 127);
    PASS_NUMBER(p, r->seed, SIZE_MAX);
    pass_double(p, &r->rate);
    pass_double(p, &r->load);
    pass_size(p, &is_extrapolated, 1);
    r->is_extrapolated = is_extrapolated == 1;
    pass_size(p, &r->device_count, UINT32_MAX);
    pass_size(p, &r->node_count, UINT32_MAX);
    pass_size(p, &r->workload_count, WORKLOADS_MAX);
    pass_size(p, &r->span_count, SPANS_MAX);
    pass_size(p, &r->point_count, RESULT_SERIES_MAX);
    pass_summary(p, &r->summary);
}

static void pass_rows(struct pass *p, struct result *r)
{
    for (size_t i = 0; i < r->point_count; i++)
        pass_point(p, &r->points[i]);
    for (size_t i = 0; i < r->workload_count; i++)
        pass_workload(p, &r->workloads[i]);
    for (size_t i = 0; i < r->span_count; i++)
        pass_span(p, &r->spans[i], r->workload_count);
}

void result_save(const struct result *r, uint64_t fingerprint, struct str *out)
{
    struct result copy = *r; /* read only */
    struct pass p = {.out = out};
    size_t start = stored_begin(out, kind, VERSION);
    stored_put_u64(out, fingerprint);
    pass_head(&p, &copy);
    pass_rows(&p, &copy);
    stored_end(out, start);
}

int result_load(struct error *e, const void *bytes, size_t length, uint64_t fingerprint,
                struct result *ret_result)
{
    struct stored_reader reader;
    uint32_t version;
    struct result r = {0};
    int status = stored_open(e, bytes, length, kind, VERSION, &reader, &version);
    if (status < 0)
        return status;
    if (stored_get_u64(&reader) != fingerprint)
        return error_set(e, ERR_CONFLICT, "the file is the result of another run");
    struct pass p = {.in = &reader};
    pass_head(&p, &r);
    /* A row takes at least as many bytes as its numbers, so counts beyond the remaining bytes are
     * invalid. */
    if (r.workload_count > reader.left / 8 || r.span_count > reader.left / 8 ||
        (r.span_count > 0 && r.workload_count == 0))
        return error_set(e, ERR_CORRUPT, "the file has fewer rows than its header says");
    r.workloads = calloc(r.workload_count + 1, sizeof *r.workloads);
    r.spans = calloc(r.span_count + 1, sizeof *r.spans);
    r.span_capacity = r.span_count;
    if (!r.workloads || !r.spans) {
        status = error_set(e, ERR_NO_MEMORY, "no memory for a result");
    } else {
        pass_rows(&p, &r);
        status = stored_close(e, &reader);
    }
    if (status < 0) {
        result_done(&r);
        return status;
    }
    *ret_result = r;
    return 0;
}
