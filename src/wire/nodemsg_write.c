/* Messages to JSON: written straight, without a tree, since grants and beats are frequent. */
#include "base/str.h"
#include "wire/counters.h"
#include "wire/json_writer.h"
#include "wire/nodemsg_internal.h"
#include "wire/record_internal.h"

const char *const nodemsg_type_names[NODEMSG_TYPE_END] = {
    [NODEMSG_HELLO] = "hello",
    [NODEMSG_REPORT] = "report",
    [NODEMSG_BEAT] = "beat",
    [NODEMSG_LOG] = "log",
    [NODEMSG_DONE] = "done",
    [NODEMSG_WELCOME] = "welcome",
    [NODEMSG_GRANT] = "grant",
    [NODEMSG_STOP] = "stop",
    [NODEMSG_SETTLE] = "settle",
    [NODEMSG_SUSPEND] = "suspend",
    [NODEMSG_RESUME] = "resume",
    [NODEMSG_READ] = "read",
    [NODEMSG_SIGNAL] = "signal",
    [NODEMSG_INPUT] = "input",
    [NODEMSG_DEVICE] = "device",
    [NODEMSG_RENEW] = "renew",
    [NODEMSG_CERTIFICATE] = "certificate",
    [NODEMSG_REFUSE] = "refuse",
};

static void put_report(struct json_writer *w, const struct attempt_report *report)
{
    json_begin_object(w);
    json_put_uint(json_key(w, "workload"), report->workload);
    json_put_int(json_key(w, "attempt"), report->attempt);
    json_put_string(json_key(w, "phase"), attempt_phase_name(report->phase));
    json_put_int(json_key(w, "started_ms"), report->started_wall_ms);
    json_put_int(json_key(w, "ended_ms"), report->ended_wall_ms);
    json_put_string(json_key(w, "failure"), failure_reason_name(report->failure));
    json_put_int(json_key(w, "exit_code"), report->exit_code);
    json_put_int(json_key(w, "signal"), report->signal);
    json_put_bool(json_key(w, "never_ran"), report->never_ran);
    if (report->cleared)
        json_put_bool(json_key(w, "cleared"), true);
    if (report->verdict != VERDICT_OWN)
        json_put_string(json_key(w, "verdict"), attempt_verdict_name(report->verdict));
    if (report->turn)
        json_put_int(json_key(w, "turn"), report->turn);
    if (report->suspension != SUSPENSION_NONE)
        json_put_string(json_key(w, "suspension"), suspension_name(report->suspension));
    if (report->evicted)
        json_put_bool(json_key(w, "evicted"), true);
    json_put_string(json_key(w, "text"), report->text);
    json_end_object(w);
}

static void put_protocol(struct json_writer *w, const struct nodemsg *msg)
{
    json_put_int(json_key(w, "protocol"), msg->protocol);
    json_put_string(json_key(w, "version"), msg->version ? msg->version : "");
}

static void put_health(struct json_writer *w, const struct nodemsg *msg)
{
    if (!msg->health_count)
        return;
    json_key(w, "health");
    json_begin_array(w);
    for (size_t i = 0; i < msg->health_count; i++) {
        const struct device_health *health = &msg->health[i];
        json_begin_object(w);
        json_put_string(json_key(w, "uuid"), health->uuid);
        json_put_string(json_key(w, "state"), device_state_name(health->state));
        json_put_string(json_key(w, "admits"), device_admission_name(health->admits));
        if (health->needs_operator)
            json_put_bool(json_key(w, "needs_operator"), true);
        json_put_string(json_key(w, "cause"), health->cause);
        json_put_string(json_key(w, "mps"), health->mps);
        json_end_object(w);
    }
    json_end_array(w);
}

static void put_notes(struct json_writer *w, const struct nodemsg *msg)
{
    if (!msg->note_count)
        return;
    json_key(w, "notes");
    json_begin_array(w);
    for (size_t i = 0; i < msg->note_count; i++) {
        json_begin_object(w);
        json_put_string(json_key(w, "uuid"), msg->notes[i].uuid);
        json_put_bool(json_key(w, "alarm"), msg->notes[i].alarm);
        json_put_string(json_key(w, "text"), msg->notes[i].text);
        json_end_object(w);
    }
    json_end_array(w);
}

static void put_hello(struct json_writer *w, const struct nodemsg *msg)
{
    put_protocol(w, msg);
    record_put_node(json_key(w, "node"), msg->node);
    json_key(w, "attempts");
    json_begin_array(w);
    for (size_t i = 0; i < msg->attempt_count; i++)
        put_report(w, &msg->attempts[i]);
    json_end_array(w);
    put_health(w, msg);
}

static void put_device_usage(struct json_writer *w, const struct device_usage *usage)
{
    json_begin_object(w);
    json_put_string(json_key(w, "uuid"), usage->uuid);
    json_put_real(json_key(w, "sm_percent"), usage->sm_percent);
    json_put_real(json_key(w, "memory_percent"), usage->memory_percent);
    json_put_uint(json_key(w, "memory_used_bytes"), usage->memory_used_bytes);
    json_put_real(json_key(w, "power_watts"), usage->power_watts);
    json_put_real(json_key(w, "power_limit_watts"), usage->power_limit_watts);
    json_put_real(json_key(w, "temperature_celsius"), usage->temperature_celsius);
    json_end_object(w);
}

static void put_limit(struct json_writer *w, const struct attempt_limit *limit)
{
    json_begin_object(w);
    json_put_string(json_key(w, "name"), limit->name);
    json_put_uint(json_key(w, "value"), limit->value);
    json_put_string(json_key(w, "reason"), limit->reason);
    json_end_object(w);
}

/* Counters that are 0 are left out: most are, most of the time. */
static void put_protection(struct json_writer *w, const struct attempt_usage *usage)
{
    json_put_string(json_key(w, "enforcement"), usage->enforcement);
    if (!usage->is_counted)
        return;
    json_put_uint(json_key(w, "counted_bytes"), usage->counted_bytes);
    json_put_uint(json_key(w, "peak_bytes"), usage->peak_bytes);
    json_put_uint(json_key(w, "uncounted_bytes"), usage->uncounted_bytes);
    json_put_uint(json_key(w, "overhead_bytes"), usage->overhead_bytes);
    json_put_string(json_key(w, "mode"), sharing_mode_name(usage->mode));
    json_begin_array(json_key(w, "limits"));
    for (int i = 0; i < usage->limit_count; i++)
        put_limit(w, &usage->limits[i]);
    json_end_array(w);
    json_begin_object(json_key(w, "counters"));
    for (size_t i = 0; counter_name(i); i++)
        if (usage->counters[i])
            json_put_uint(json_key(w, counter_name(i)), usage->counters[i]);
    json_end_object(w);
}

static void put_attempt_usage(struct json_writer *w, const struct attempt_usage *usage)
{
    json_begin_object(w);
    json_put_uint(json_key(w, "workload"), usage->workload);
    json_put_int(json_key(w, "attempt"), usage->attempt);
    json_put_uint(json_key(w, "memory_used_bytes"), usage->memory_used_bytes);
    if (usage->suspended_bytes)
        json_put_uint(json_key(w, "suspended_bytes"), usage->suspended_bytes);
    json_put_real(json_key(w, "cpu_percent"), usage->cpu_percent);
    json_put_uint(json_key(w, "resident_bytes"), usage->resident_bytes);
    if (usage->samples_per_s >= 0)
        json_put_real(json_key(w, "samples_per_s"), usage->samples_per_s);
    if (usage->speed_since_ms >= 0)
        json_put_int(json_key(w, "speed_since_ms"), usage->speed_since_ms);
    if (usage->latency_ms >= 0) {
        json_put_real(json_key(w, "latency_ms"), usage->latency_ms);
        json_put_uint(json_key(w, "requests_10s"), usage->requests_10s);
        if (usage->latency_since_ms >= 0)
            json_put_int(json_key(w, "latency_since_ms"), usage->latency_since_ms);
    }
    if (usage->enforcement[0])
        put_protection(w, usage);
    json_end_object(w);
}

static void put_beat(struct json_writer *w, const struct nodemsg *msg)
{
    json_put_uint(json_key(w, "session"), msg->session);
    json_put_uint(json_key(w, "number"), msg->beat);
    if (msg->device_usage_count) {
        json_key(w, "devices");
        json_begin_array(w);
        for (size_t i = 0; i < msg->device_usage_count; i++)
            put_device_usage(w, &msg->device_usage[i]);
        json_end_array(w);
    }
    if (msg->attempt_usage_count) {
        json_key(w, "attempts");
        json_begin_array(w);
        for (size_t i = 0; i < msg->attempt_usage_count; i++)
            put_attempt_usage(w, &msg->attempt_usage[i]);
        json_end_array(w);
    }
    put_health(w, msg);
    put_notes(w, msg);
}

static void put_welcome(struct json_writer *w, const struct nodemsg *msg)
{
    put_protocol(w, msg);
    json_put_uint(json_key(w, "session"), msg->session);
    json_put_int(json_key(w, "lease_ms"), msg->lease_ms);
    json_put_int(json_key(w, "fence_ms"), msg->fence_ms);
    json_put_int(json_key(w, "drain_ms"), msg->drain_ms);
    if (msg->renew_ms > 0)
        json_put_int(json_key(w, "renew_ms"), msg->renew_ms);
}

static void put_grant(struct json_writer *w, const struct nodemsg *msg)
{
    const struct grant *grant = &msg->grant;
    json_put_uint(json_key(w, "session"), msg->session);
    json_put_uint(json_key(w, "sequence"), msg->sequence);
    json_put_uint(json_key(w, "workload"), grant->workload);
    json_put_int(json_key(w, "attempt"), grant->attempt);
    json_put_uint(json_key(w, "group"), grant->group);
    json_put_int(json_key(w, "array_index"), grant->array_index);
    json_put_string(json_key(w, "name"), grant->name);
    json_put_uint(json_key(w, "uid"), grant->uid);
    json_put_string(json_key(w, "user"), grant->user);
    json_key(w, "devices");
    json_begin_array(w);
    for (int i = 0; i < grant->device_count; i++)
        json_put_string(w, grant->devices[i]);
    json_end_array(w);
    if (grant->suspect)
        json_put_bool(json_key(w, "suspect"), true);
    json_put_bool(json_key(w, "ran_before"), grant->ran_before);
    json_put_raw(json_key(w, "spec"), grant->spec_json);
}

/* Of stop, suspend, resume and settle; of read, signal and input. */
static void put_attempt(struct json_writer *w, const struct nodemsg *msg)
{
    json_put_uint(json_key(w, "workload"), msg->workload);
    json_put_int(json_key(w, "attempt"), msg->attempt);
}

static void put_order(struct json_writer *w, const struct nodemsg *msg)
{
    json_put_uint(json_key(w, "session"), msg->session);
    json_put_uint(json_key(w, "sequence"), msg->sequence);
    put_attempt(w, msg);
    if (msg->type == NODEMSG_STOP)
        json_put_int(json_key(w, "grace_ms"), msg->grace_ms);
    if (msg->type == NODEMSG_SUSPEND || msg->type == NODEMSG_RESUME)
        json_put_int(json_key(w, "turn"), msg->turn);
}

static void put_request(struct json_writer *w, const struct nodemsg *msg)
{
    json_put_uint(json_key(w, "request"), msg->request);
    put_attempt(w, msg);
    if (msg->type == NODEMSG_SIGNAL) {
        json_put_int(json_key(w, "signal"), msg->signal);
        return;
    }
    json_put_uint(json_key(w, "offset"), msg->offset);
    if (msg->type == NODEMSG_READ) {
        json_put_int(json_key(w, "wait_ms"), msg->wait_ms);
        json_put_uint(json_key(w, "max"), msg->max);
        return;
    }
    json_put_base64(json_key(w, "data"), msg->data, msg->length);
    json_put_bool(json_key(w, "end"), msg->end);
}

static void put_answer(struct json_writer *w, const struct nodemsg *msg)
{
    json_put_uint(json_key(w, "request"), msg->request);
    json_put_int(json_key(w, "result"), msg->result);
    if (msg->text)
        json_put_string(json_key(w, "text"), msg->text);
    if (msg->type != NODEMSG_LOG)
        return;
    json_put_uint(json_key(w, "offset"), msg->offset);
    json_put_base64(json_key(w, "data"), msg->data, msg->length);
    json_put_bool(json_key(w, "end"), msg->end);
}

static void put_members(struct json_writer *w, const struct nodemsg *msg)
{
    switch (msg->type) {
    case NODEMSG_HELLO:
        put_hello(w, msg);
        break;
    case NODEMSG_REPORT:
        json_put_uint(json_key(w, "session"), msg->session);
        put_report(json_key(w, "report"), msg->attempts);
        break;
    case NODEMSG_BEAT:
        put_beat(w, msg);
        break;
    case NODEMSG_LOG:
    case NODEMSG_DONE:
        put_answer(w, msg);
        break;
    case NODEMSG_WELCOME:
        put_welcome(w, msg);
        break;
    case NODEMSG_GRANT:
        put_grant(w, msg);
        break;
    case NODEMSG_STOP:
    case NODEMSG_SUSPEND:
    case NODEMSG_RESUME:
    case NODEMSG_SETTLE:
        put_order(w, msg);
        break;
    case NODEMSG_READ:
    case NODEMSG_SIGNAL:
    case NODEMSG_INPUT:
        put_request(w, msg);
        break;
    case NODEMSG_DEVICE:
        json_put_uint(json_key(w, "request"), msg->request);
        json_put_string(json_key(w, "uuid"), msg->uuid);
        json_put_bool(json_key(w, "enable"), msg->enable);
        break;
    case NODEMSG_RENEW:
        json_put_string(json_key(w, "csr"), msg->pem);
        break;
    case NODEMSG_CERTIFICATE:
        json_put_string(json_key(w, "certificate"), msg->pem);
        json_put_int(json_key(w, "renew_ms"), msg->renew_ms);
        break;
    case NODEMSG_REFUSE:
        json_put_string(json_key(w, "text"), msg->text ? msg->text : "");
        break;
    case NODEMSG_TYPE_END:
        break;
    }
}

int nodemsg_write(const struct nodemsg *msg, struct str *out)
{
    size_t start = out->length;
    if (str_failed(out) || msg->type >= NODEMSG_TYPE_END || msg->length > NODEMSG_DATA_MAX ||
        msg->attempt_count > NODEMSG_ATTEMPTS_MAX)
        return -ERR_TOO_LARGE;
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_put_string(json_key(&w, "type"), nodemsg_type_names[msg->type]);
    put_members(&w, msg);
    json_end_object(&w);
    str_append_char(out, '\n');
    if (!str_failed(out) && out->length - start <= NODEMSG_LINE_MAX)
        return 0;
    str_truncate(out, start);
    return -ERR_TOO_LARGE;
}
