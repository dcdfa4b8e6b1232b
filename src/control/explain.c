/* GET /v1/workloads/{ref}/explain: the policy's judgement of every device for one workload, now. */
#include <stdlib.h>

#include "control/control_internal.h"
#include "wire/json_writer.h"

/* largest number of workloads on one device that are considered */
enum { CANDIDATE_WORKLOADS_MAX = FORECAST_MEMBERS_MAX };

static void put_known(struct json_writer *w, bool known, double number)
{
    if (known)
        json_put_real(w, number);
    else
        json_put_null(w);
}

/* Returns the p99 of the candidate's service on its device; -1: no such service, or not
 * reported. */
static double measured_p99_ms(struct control *c, const struct cluster_candidate *candidate)
{
    uint64_t ids[CANDIDATE_WORKLOADS_MAX];
    struct node_link *link = links_find(c, candidate->node);
    size_t count = cluster_device_workloads(c->cluster, candidate->node, candidate->device, ids,
                                            CANDIDATE_WORKLOADS_MAX);
    for (size_t i = 0; link && candidate->slo_ms > 0 && i < count; i++) {
        const struct workload_status *status = cluster_live_status(c->cluster, ids[i]);
        const struct attempt *a = status ? workload_status_attempt(status) : NULL;
        const struct attempt_usage *usage = a ? link_attempt_usage(link, ids[i], a->number) : NULL;
        if (usage && usage->latency_ms > 0 &&
            cluster_live_program(c->cluster, ids[i]) == candidate->service)
            return usage->latency_ms;
    }
    return -1;
}

static void put_candidate(struct json_writer *w, struct control *control,
                          const struct cluster_candidate *c)
{
    double measured_ms = measured_p99_ms(control, c);

    json_begin_object(w);
    json_put_string(json_key(w, "node"), c->node);
    json_put_string(json_key(w, "device"), c->device);
    json_put_string(json_key(w, "device_name"), c->name);
    json_put_string(json_key(w, "model"), c->model);
    json_put_uint(json_key(w, "alike"), c->devices);
    json_put_uint(json_key(w, "neighbours"), c->neighbours);
    json_put_bool(json_key(w, "chosen"), c->chosen);
    json_put_bool(json_key(w, "here"), c->here);
    put_known(json_key(w, "speed"), c->judged, c->speed);
    put_known(json_key(w, "pd"), c->judged, c->pd);
    put_known(json_key(w, "gain"), c->judged, c->gain);
    put_known(json_key(w, "p99_ms"), c->p99_ms > 0, c->p99_ms);
    json_put_bool(json_key(w, "p99_guess"), c->is_p99_guess);
    put_known(json_key(w, "p99_measured_ms"), measured_ms > 0, measured_ms);
    put_known(json_key(w, "slo_ms"), c->slo_ms > 0, c->slo_ms);
    json_put_string(json_key(w, "reason"), c->reason);
    json_end_object(w);
}

static int explain(struct error *e, struct control *c, uint64_t id, struct str *out)
{
    if (!c->cluster)
        return error_set(e, ERR_UNAVAILABLE, "the state is being read back; try again in a moment");
    struct cluster_explanation *x = malloc(sizeof *x);
    if (!x)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    struct located at;
    int r = cluster_explain(c->cluster, id, x);
    if (r == -ERR_NOT_FOUND) {
        r = control_locate(e, c, id, 0, &at);
        if (r == 0)
            r = error_set(e, ERR_CONFLICT,
                          "the workload has ended: there is no decision to explain");
    } else if (r < 0) {
        r = error_set(e, ERR_NO_MEMORY, "out of memory");
    } else {
        struct json_writer w;
        json_writer_init(&w, out);
        json_begin_object(&w);
        json_put_uint(json_key(&w, "id"), id);
        json_put_string(json_key(&w, "policy"), c->cluster_config.policy->name);
        json_put_string(json_key(&w, "text"), x->text);
        put_known(json_key(&w, "measured_pd"), x->measured_pd > 0, x->measured_pd);
        put_known(json_key(&w, "predicted_pd"), x->measured_pd > 0, x->predicted_pd);
        json_begin_array(json_key(&w, "candidates"));
        for (size_t i = 0; i < x->count; i++)
            put_candidate(&w, c, &x->candidates[i]);
        json_end_array(&w);
        json_end_object(&w);
    }
    free(x);
    return r;
}

void handle_explain(void *context, struct http_request *r)
{
    static const char *const queries[] = {NULL};
    struct control *c = context;
    struct error e = {0};
    struct str json;
    uint64_t id;
    str_init(&json, HTTP_BODY_MAX);
    int result = http_request_check_query(&e, r, queries);
    if (result == 0)
        result = control_resolve(&e, c, r, &id);
    if (result == 0)
        result = explain(&e, c, id, &json);
    answer_json(r, result, &e, 200, &json);
}
