#include <limits.h>
#include <string.h>

#include "base/str.h"
#include "wire/base64.h"
#include "wire/counters.h"
#include "wire/json_reader.h"
#include "wire/nodemsg_internal.h"
#include "wire/record_internal.h"
#include "wire/spec_internal.h"

/* Its parts are copied: nothing of jansson's outlives the parse. */
static int take_report(struct error *e, struct arena *arena, json_t *json,
                       struct attempt_report *ret)
{
    struct json_reader r;
    json_reader_init(&r, e, ERR_PROTOCOL, arena, json);
    json_take_uint(&r, "workload", &ret->workload);
    json_take_int(&r, "attempt", 1, INT_MAX, &ret->attempt);
    json_take_name(&r, "phase", attempt_phase_parse, &ret->phase);
    json_take_int64(&r, "started_ms", 0, INT64_MAX, &ret->started_wall_ms);
    json_take_int64(&r, "ended_ms", 0, INT64_MAX, &ret->ended_wall_ms);
    json_take_name(&r, "failure", failure_reason_parse, &ret->failure);
    json_take_int(&r, "exit_code", INT_MIN, INT_MAX, &ret->exit_code);
    json_take_int(&r, "signal", 0, INT_MAX, &ret->signal);
    json_take_bool(&r, "never_ran", &ret->never_ran);
    if (json_has(&r, "cleared"))
        json_take_bool(&r, "cleared", &ret->cleared);
    if (json_has(&r, "verdict"))
        json_take_name(&r, "verdict", attempt_verdict_parse, &ret->verdict);
    if (json_has(&r, "turn"))
        json_take_int(&r, "turn", 1, INT_MAX, &ret->turn);
    if (json_has(&r, "suspension"))
        json_take_name(&r, "suspension", suspension_parse, &ret->suspension);
    if (json_has(&r, "evicted"))
        json_take_bool(&r, "evicted", &ret->evicted);
    json_take_buffer(&r, "text", ret->text, sizeof ret->text);
    return r.result;
}

static int take_device_health(struct json_reader *outer, json_t *json, struct device_health *ret)
{
    struct json_reader r;
    json_reader_init(&r, outer->e, ERR_PROTOCOL, outer->arena, json);
    json_take_buffer(&r, "uuid", ret->uuid, sizeof ret->uuid);
    json_take_name(&r, "state", device_state_parse, &ret->state);
    json_take_name(&r, "admits", device_admission_parse, &ret->admits);
    if (json_has(&r, "needs_operator"))
        json_take_bool(&r, "needs_operator", &ret->needs_operator);
    json_take_buffer(&r, "cause", ret->cause, sizeof ret->cause);
    if (json_has(&r, "mps"))
        json_take_buffer(&r, "mps", ret->mps, sizeof ret->mps);
    return r.result;
}

static int take_note(struct json_reader *outer, json_t *json, struct device_note *ret)
{
    struct json_reader r;
    json_reader_init(&r, outer->e, ERR_PROTOCOL, outer->arena, json);
    json_take_buffer(&r, "uuid", ret->uuid, sizeof ret->uuid);
    json_take_bool(&r, "alarm", &ret->alarm);
    json_take_buffer(&r, "text", ret->text, sizeof ret->text);
    return r.result;
}

static void take_health(struct json_reader *r, struct nodemsg *msg)
{
    if (json_has(r, "health")) {
        json_t *list = json_take_array(r, "health", NODE_DEVICES_MAX);
        size_t count = json_array_size(list);
        struct device_health *health = json_alloc(r, count, sizeof *health);
        for (size_t i = 0; i < count && r->result == 0; i++)
            json_fail_inner(r, "health", (int)i,
                            take_device_health(r, json_array_get(list, i), &health[i]));
        msg->health = health;
        msg->health_count = count;
    }
    if (json_has(r, "notes")) {
        json_t *list = json_take_array(r, "notes", NODEMSG_NOTES_MAX);
        size_t count = json_array_size(list);
        struct device_note *notes = json_alloc(r, count, sizeof *notes);
        for (size_t i = 0; i < count && r->result == 0; i++)
            json_fail_inner(r, "notes", (int)i, take_note(r, json_array_get(list, i), &notes[i]));
        msg->notes = notes;
        msg->note_count = count;
    }
}

static void take_protocol(struct json_reader *r, struct nodemsg *msg)
{
    json_take_int(r, "protocol", 1, INT_MAX, &msg->protocol);
    json_take_text(r, "version", &msg->version);
}

static void take_hello(struct json_reader *r, struct nodemsg *msg)
{
    take_protocol(r, msg);
    json_t *node = json_take_object(r, "node");
    struct node_info *info = json_alloc(r, 1, sizeof *info);
    if (info)
        json_fail_inner(r, "node", -1, record_take_node(r->e, ERR_PROTOCOL, r->arena, node, info));
    msg->node = info;
    json_t *list = json_take_array(r, "attempts", NODEMSG_ATTEMPTS_MAX);
    size_t count = json_array_size(list);
    struct attempt_report *reports = json_alloc(r, count, sizeof *reports);
    for (size_t i = 0; i < count && r->result == 0; i++)
        json_fail_inner(r, "attempts", (int)i,
                        take_report(r->e, r->arena, json_array_get(list, i), &reports[i]));
    msg->attempts = reports;
    msg->attempt_count = count;
    take_health(r, msg);
}

static void take_report_message(struct json_reader *r, struct nodemsg *msg)
{
    json_take_uint(r, "session", &msg->session);
    json_t *json = json_take_object(r, "report");
    struct attempt_report *report = json_alloc(r, 1, sizeof *report);
    if (report)
        json_fail_inner(r, "report", -1, take_report(r->e, r->arena, json, report));
    msg->attempts = report;
    msg->attempt_count = 1;
}

static int take_device_usage(struct json_reader *outer, json_t *json, struct device_usage *ret)
{
    struct json_reader r;
    json_reader_init(&r, outer->e, ERR_PROTOCOL, outer->arena, json);
    json_take_buffer(&r, "uuid", ret->uuid, sizeof ret->uuid);
    json_take_real(&r, "sm_percent", &ret->sm_percent);
    json_take_real(&r, "memory_percent", &ret->memory_percent);
    json_take_uint(&r, "memory_used_bytes", &ret->memory_used_bytes);
    json_take_real(&r, "power_watts", &ret->power_watts);
    json_take_real(&r, "power_limit_watts", &ret->power_limit_watts);
    json_take_real(&r, "temperature_celsius", &ret->temperature_celsius);
    return r.result;
}

/* What a newer node counts besides is passed over. */
static void take_counters(struct json_reader *outer, struct attempt_usage *usage)
{
    struct json_reader r;
    const char *name;
    json_t *value, *counters = json_take_object(outer, "counters");
    json_reader_init(&r, outer->e, ERR_PROTOCOL, outer->arena, counters);
    json_object_foreach(counters, name, value)
    {
        int index = counter_find(name);
        if (index >= 0)
            json_take_uint(&r, name, &usage->counters[index]);
    }
    json_fail_inner(outer, "counters", -1, r.result);
}

static int take_limit(struct json_reader *outer, json_t *json, struct attempt_limit *ret)
{
    struct json_reader r;
    json_reader_init(&r, outer->e, ERR_PROTOCOL, outer->arena, json);
    json_take_buffer(&r, "name", ret->name, sizeof ret->name);
    json_take_uint(&r, "value", &ret->value);
    json_take_buffer(&r, "reason", ret->reason, sizeof ret->reason);
    return r.result;
}

/* More than are known here are a newer node's. */
static void take_limits(struct json_reader *r, struct attempt_usage *usage)
{
    json_t *list = json_take_array(r, "limits", NODEMSG_LIMITS_MAX);
    size_t count = json_array_size(list);
    for (size_t i = 0; i < count && i < USAGE_LIMITS_MAX && r->result == 0; i++) {
        json_fail_inner(r, "limits", (int)i,
                        take_limit(r, json_array_get(list, i), &usage->limits[i]));
        usage->limit_count = (int)i + 1;
    }
}

static void take_protection(struct json_reader *r, struct attempt_usage *usage)
{
    json_take_buffer(r, "enforcement", usage->enforcement, sizeof usage->enforcement);
    usage->is_counted = json_has(r, "counters");
    if (!usage->is_counted)
        return;
    json_take_uint(r, "counted_bytes", &usage->counted_bytes);
    json_take_uint(r, "peak_bytes", &usage->peak_bytes);
    json_take_uint(r, "uncounted_bytes", &usage->uncounted_bytes);
    if (json_has(r, "overhead_bytes")) /* an older node does not say */
        json_take_uint(r, "overhead_bytes", &usage->overhead_bytes);
    if (json_has(r, "mode"))
        json_take_name(r, "mode", sharing_mode_parse, &usage->mode);
    if (json_has(r, "limits"))
        take_limits(r, usage);
    take_counters(r, usage);
}

static int take_attempt_usage(struct json_reader *outer, json_t *json, struct attempt_usage *ret)
{
    struct json_reader r;
    json_reader_init(&r, outer->e, ERR_PROTOCOL, outer->arena, json);
    json_take_uint(&r, "workload", &ret->workload);
    json_take_int(&r, "attempt", 1, INT_MAX, &ret->attempt);
    json_take_uint(&r, "memory_used_bytes", &ret->memory_used_bytes);
    if (json_has(&r, "suspended_bytes"))
        json_take_uint(&r, "suspended_bytes", &ret->suspended_bytes);
    json_take_real(&r, "cpu_percent", &ret->cpu_percent);
    json_take_uint(&r, "resident_bytes", &ret->resident_bytes);
    ret->samples_per_s = -1;
    if (json_has(&r, "samples_per_s"))
        json_take_real(&r, "samples_per_s", &ret->samples_per_s);
    ret->speed_since_ms = -1;
    if (json_has(&r, "speed_since_ms"))
        json_take_int64(&r, "speed_since_ms", 0, INT64_MAX, &ret->speed_since_ms);
    ret->latency_ms = -1;
    ret->latency_since_ms = -1;
    if (json_has(&r, "latency_ms")) {
        json_take_real(&r, "latency_ms", &ret->latency_ms);
        json_take_uint(&r, "requests_10s", &ret->requests_10s);
        if (json_has(&r, "latency_since_ms")) /* older nodes do not say */
            json_take_int64(&r, "latency_since_ms", 0, INT64_MAX, &ret->latency_since_ms);
    }
    if (json_has(&r, "enforcement")) /* a node of version 0.1 has none */
        take_protection(&r, ret);
    return r.result;
}

static void take_beat(struct json_reader *r, struct nodemsg *msg)
{
    json_take_uint(r, "session", &msg->session);
    json_take_uint(r, "number", &msg->beat);
    take_health(r, msg);
    if (json_has(r, "devices")) {
        json_t *list = json_take_array(r, "devices", NODE_DEVICES_MAX);
        size_t count = json_array_size(list);
        struct device_usage *usage = json_alloc(r, count, sizeof *usage);
        for (size_t i = 0; i < count && r->result == 0; i++)
            json_fail_inner(r, "devices", (int)i,
                            take_device_usage(r, json_array_get(list, i), &usage[i]));
        msg->device_usage = usage;
        msg->device_usage_count = count;
    }
    if (json_has(r, "attempts")) {
        json_t *list = json_take_array(r, "attempts", NODEMSG_ATTEMPTS_MAX);
        size_t count = json_array_size(list);
        struct attempt_usage *usage = json_alloc(r, count, sizeof *usage);
        for (size_t i = 0; i < count && r->result == 0; i++)
            json_fail_inner(r, "attempts", (int)i,
                            take_attempt_usage(r, json_array_get(list, i), &usage[i]));
        msg->attempt_usage = usage;
        msg->attempt_usage_count = count;
    }
}

static void take_welcome(struct json_reader *r, struct nodemsg *msg)
{
    take_protocol(r, msg);
    json_take_uint(r, "session", &msg->session);
    json_take_int64(r, "lease_ms", 0, WORKLOAD_TIME_MS_MAX, &msg->lease_ms);
    json_take_int64(r, "fence_ms", 0, WORKLOAD_TIME_MS_MAX, &msg->fence_ms);
    json_take_int64(r, "drain_ms", 0, WORKLOAD_TIME_MS_MAX, &msg->drain_ms);
    if (json_has(r, "renew_ms"))
        json_take_int64(r, "renew_ms", 0, WORKLOAD_TIME_MS_MAX, &msg->renew_ms);
}

static void take_pem(struct json_reader *r, const char *key, struct nodemsg *msg)
{
    json_take_text(r, key, &msg->pem);
    if (r->result == 0 && strlen(msg->pem) >= NODEMSG_PEM_MAX)
        json_fail(r, key, "longer than %d bytes", NODEMSG_PEM_MAX);
}

static void take_renew(struct json_reader *r, struct nodemsg *msg)
{
    take_pem(r, "csr", msg);
}

static void take_certificate(struct json_reader *r, struct nodemsg *msg)
{
    take_pem(r, "certificate", msg);
    json_take_int64(r, "renew_ms", 0, WORKLOAD_TIME_MS_MAX, &msg->renew_ms);
}

static void take_spec(struct json_reader *r, struct grant *grant)
{
    json_t *json = json_take_object(r, "spec");
    struct workload_spec *spec = json_alloc(r, 1, sizeof *spec);
    struct tree *tree = NULL;
    if (!spec)
        return;
    int result = tree_from_json(r->e, r->arena, json, SPEC_DEPTH_MAX, &tree);
    if (result == 0)
        result = spec_from_tree(r->e, r->arena, tree, spec);
    json_fail_inner(r, "spec", -1, result);
    grant->spec = spec;
}

static void take_grant(struct json_reader *r, struct nodemsg *msg)
{
    struct grant *grant = &msg->grant;
    json_take_uint(r, "session", &msg->session);
    json_take_uint(r, "sequence", &msg->sequence);
    json_take_uint(r, "workload", &grant->workload);
    json_take_int(r, "attempt", 1, INT_MAX, &grant->attempt);
    json_take_uint(r, "group", &grant->group);
    json_take_int(r, "array_index", -1, WORKLOAD_ARRAY_MAX, &grant->array_index);
    json_take_text(r, "name", &grant->name);
    int64_t uid = 0;
    json_take_int64(r, "uid", 0, UINT32_MAX, &uid);
    grant->uid = (uint32_t)uid;
    json_take_text(r, "user", &grant->user);
    json_t *devices = json_take_array(r, "devices", WORKLOAD_DEVICES_MAX);
    for (size_t i = 0; i < json_array_size(devices) && r->result == 0; i++) {
        const char *uuid = json_string_value(json_array_get(devices, i));
        if (!uuid || !uuid[0] || strlen(uuid) >= DEVICE_UUID_MAX) {
            json_fail(r, "devices", "a device's UUID is needed");
            return;
        }
        char *copy = json_alloc(r, 1, strlen(uuid) + 1);
        if (!copy)
            return;
        str_copy(copy, strlen(uuid) + 1, uuid);
        grant->devices[grant->device_count++] = copy;
    }
    if (json_has(r, "suspect"))
        json_take_bool(r, "suspect", &grant->suspect);
    grant->ran_before = grant->attempt > 1; /* an older control does not say */
    if (json_has(r, "ran_before"))
        json_take_bool(r, "ran_before", &grant->ran_before);
    take_spec(r, grant);
    msg->workload = grant->workload;
    msg->attempt = grant->attempt;
}

static void take_order(struct json_reader *r, struct nodemsg *msg)
{
    json_take_uint(r, "session", &msg->session);
    json_take_uint(r, "sequence", &msg->sequence);
    json_take_uint(r, "workload", &msg->workload);
    json_take_int(r, "attempt", 1, INT_MAX, &msg->attempt);
    if (msg->type == NODEMSG_STOP)
        json_take_int64(r, "grace_ms", -1, WORKLOAD_TIME_MS_MAX, &msg->grace_ms);
    if (msg->type == NODEMSG_SUSPEND || msg->type == NODEMSG_RESUME)
        json_take_int(r, "turn", 1, INT_MAX, &msg->turn);
}

static void take_data(struct json_reader *r, struct nodemsg *msg)
{
    const char *text = json_borrow_text(r, "data");
    if (!text)
        return;
    void *bytes = NULL;
    int result = base64_decode(r->arena, text, strlen(text), &bytes, &msg->length);
    if (result == -ERR_NO_MEMORY)
        r->result = error_set(r->e, ERR_NO_MEMORY, "out of memory");
    else if (result < 0 || msg->length > NODEMSG_DATA_MAX)
        json_fail(r, "data", "not base64 of at most %d bytes", NODEMSG_DATA_MAX);
    msg->data = bytes;
}

static void take_request(struct json_reader *r, struct nodemsg *msg)
{
    json_take_uint(r, "request", &msg->request);
    json_take_uint(r, "workload", &msg->workload);
    json_take_int(r, "attempt", 1, INT_MAX, &msg->attempt);
    if (msg->type == NODEMSG_SIGNAL) {
        json_take_int(r, "signal", 1, 64, &msg->signal);
        return;
    }
    json_take_uint(r, "offset", &msg->offset);
    if (msg->type == NODEMSG_READ) {
        int64_t max = 0;
        json_take_int64(r, "wait_ms", 0, WORKLOAD_TIME_MS_MAX, &msg->wait_ms);
        json_take_int64(r, "max", 0, NODEMSG_DATA_MAX, &max);
        msg->max = (size_t)max;
        return;
    }
    take_data(r, msg);
    json_take_bool(r, "end", &msg->end);
}

static void take_answer(struct json_reader *r, struct nodemsg *msg)
{
    json_take_uint(r, "request", &msg->request);
    json_take_int(r, "result", -ERR_END, 0, &msg->result);
    if (json_has(r, "text"))
        json_take_text(r, "text", &msg->text);
    if (msg->type != NODEMSG_LOG)
        return;
    json_take_uint(r, "offset", &msg->offset);
    take_data(r, msg);
    json_take_bool(r, "end", &msg->end);
}

static void take_device(struct json_reader *r, struct nodemsg *msg)
{
    json_take_uint(r, "request", &msg->request);
    json_take_text(r, "uuid", &msg->uuid);
    json_take_bool(r, "enable", &msg->enable);
}

static void take_refuse(struct json_reader *r, struct nodemsg *msg)
{
    json_take_text(r, "text", &msg->text);
}

static void take_message(struct json_reader *r, struct nodemsg *msg)
{
    static void (*const takers[NODEMSG_TYPE_END])(struct json_reader *, struct nodemsg *) = {
        [NODEMSG_HELLO] = take_hello,
        [NODEMSG_REPORT] = take_report_message,
        [NODEMSG_BEAT] = take_beat,
        [NODEMSG_LOG] = take_answer,
        [NODEMSG_DONE] = take_answer,
        [NODEMSG_WELCOME] = take_welcome,
        [NODEMSG_GRANT] = take_grant,
        [NODEMSG_STOP] = take_order,
        [NODEMSG_SUSPEND] = take_order,
        [NODEMSG_RESUME] = take_order,
        [NODEMSG_SETTLE] = take_order,
        [NODEMSG_READ] = take_request,
        [NODEMSG_SIGNAL] = take_request,
        [NODEMSG_INPUT] = take_request,
        [NODEMSG_DEVICE] = take_device,
        [NODEMSG_RENEW] = take_renew,
        [NODEMSG_CERTIFICATE] = take_certificate,
        [NODEMSG_REFUSE] = take_refuse,
    };
    const char *name = json_borrow_text(r, "type");
    if (!name)
        return;
    for (msg->type = 0; msg->type < NODEMSG_TYPE_END; msg->type++)
        if (str_equal(name, nodemsg_type_names[msg->type]))
            break;
    if (msg->type < NODEMSG_TYPE_END)
        takers[msg->type](r, msg);
}

int nodemsg_parse(struct error *e, struct arena *arena, const char *line, size_t length,
                  struct nodemsg *ret)
{
    if (length > NODEMSG_LINE_MAX)
        return error_set(e, ERR_PROTOCOL, "a message longer than %d bytes", NODEMSG_LINE_MAX);
    json_t *json;
    int result = json_parse_object(e, ERR_SYNTAX, line, length, &json);
    if (result < 0)
        return result;
    struct nodemsg msg = {0};
    struct json_reader r;
    json_reader_init(&r, e, ERR_PROTOCOL, arena, json);
    take_message(&r, &msg);
    json_decref(json);
    if (r.result == 0)
        *ret = msg;
    return r.result;
}
