/* The table of each message. Messages are written without a tree, because grants and beats are
 * frequent. */
#include "wire/nodemsg.h"

#include <limits.h>
#include <string.h>

#include "wire/base64.h"
#include "wire/json_reader.h"
#include "wire/objects.h"
#include "wire/spec_internal.h"

/* ---- values with an encoding of their own ---- */

static void put_data(struct json_writer *w, const void *member)
{
    const struct nodemsg *msg = member;
    json_put_base64(w, msg->data, msg->length);
}

static int take_data(const struct field_reader *r, json_t *value, void *member)
{
    struct nodemsg *msg = member;
    const char *text = json_string_value(value);
    void *bytes = NULL;
    int result = text ? base64_decode(r->arena, text, strlen(text), &bytes, &msg->length)
                      : field_fail(r, "must be a string");
    if (result == -ERR_NO_MEMORY)
        return error_set(r->e, ERR_NO_MEMORY, "out of memory");
    if (result < 0 || msg->length > NODEMSG_DATA_MAX)
        return field_fail(r, "must be base64 of at most %d bytes", NODEMSG_DATA_MAX);
    msg->data = bytes;
    return 0;
}

static void put_spec(struct json_writer *w, const void *member)
{
    json_put_raw(w, ((const struct grant *)member)->spec_json);
}

static int take_spec(const struct field_reader *r, json_t *value, void *member)
{
    struct workload_spec *spec = arena_alloc(r->arena, sizeof *spec);
    struct tree *tree = NULL;
    if (!spec)
        return error_set(r->e, ERR_NO_MEMORY, "out of memory");
    int result = tree_from_json(r->e, r->arena, value, SPEC_DEPTH_MAX, &tree);
    if (result == 0)
        result = spec_from_tree(r->e, r->arena, tree, spec);
    ((struct grant *)member)->spec = spec;
    return result;
}

static const struct field_custom data_custom = {put_data, take_data};
static const struct field_custom spec_custom = {put_spec, take_spec};

/* ---- the tables ---- */

#define OF                     struct nodemsg
#define TIME(key, member, ...) FIELD(key, member, .most = WORKLOAD_TIME_MS_MAX, __VA_ARGS__)
#define PROTOCOL               FIELD("protocol", protocol, .least = 1), FIELD("version", version)
#define SESSION                FIELD("session", session)
#define ATTEMPT                FIELD("workload", workload), FIELD("attempt", attempt, .least = 1)
#define ORDER                  SESSION, FIELD("sequence", sequence), ATTEMPT
#define REQUEST                FIELD("request", request)
#define OFFSET                 FIELD("offset", offset)
#define PEM(key)               FIELD(key, pem, .most = NODEMSG_PEM_MAX - 1)
#define DATA                   FIELD_AS("data", type, &data_custom), FIELD("end", end)

#define RESULT FIELD("result", result, .least = -ERR_END), FIELD("text", text, .flags = FIELD_NEWER)

#define HEALTH                                                                                     \
    FIELD_LIST("health", health, health_count, .most = NODE_DEVICES_MAX,                           \
               .fields = &device_health_fields, .flags = FIELD_NEWER)

_Static_assert(offsetof(struct nodemsg, type) == 0, "where DATA begins");

static const struct field hello[] = {
    PROTOCOL,
    FIELD_AT("node", node, &node_info_fields),
    FIELD_LIST("attempts", attempts, attempt_count, .most = NODEMSG_ATTEMPTS_MAX,
               .fields = &attempt_report_fields),
    HEALTH,
};
static const struct field report[] = {
    SESSION,
    FIELD_AT("report", attempts, &attempt_report_fields),
};
static const struct field beat[] = {
    SESSION,
    FIELD("number", beat),
    FIELD_LIST("devices", device_usage, device_usage_count, .most = NODE_DEVICES_MAX,
               .fields = &device_usage_fields, .flags = FIELD_NEWER),
    FIELD_LIST("attempts", attempt_usage, attempt_usage_count, .most = NODEMSG_ATTEMPTS_MAX,
               .fields = &attempt_usage_fields, .flags = FIELD_NEWER),
    HEALTH,
    FIELD_LIST("notes", notes, note_count, .most = NODEMSG_NOTES_MAX, .fields = &device_note_fields,
               .flags = FIELD_NEWER),
};
static const struct field answer_log[] = {REQUEST, RESULT, OFFSET, DATA};
static const struct field done[] = {REQUEST, RESULT};
static const struct field welcome[] = {
    PROTOCOL,
    SESSION,
    TIME("lease_ms", lease_ms),
    TIME("fence_ms", fence_ms),
    TIME("drain_ms", drain_ms),
    TIME("renew_ms", renew_ms, .flags = FIELD_NEWER),
};
static const struct field grant[] = {
    SESSION,
    FIELD("sequence", sequence),
    FIELD("workload", grant.workload),
    FIELD("attempt", grant.attempt, .least = 1),
    FIELD("group", grant.group),
    FIELD("array_index", grant.array_index, .least = -1, .most = WORKLOAD_ARRAY_MAX),
    FIELD("name", grant.name),
    FIELD("uid", grant.uid),
    FIELD("user", grant.user),
    FIELD_LIST("devices", grant.devices, grant.device_count, .flags = FIELD_FILLED),
    FIELD("suspect", grant.suspect, .flags = FIELD_NEWER),
    FIELD("ran_before", grant.ran_before, .flags = FIELD_OPTIONAL),
    FIELD_AS("spec", grant, &spec_custom),
};
static const struct field stop[] = {
    ORDER,
    FIELD("grace_ms", grace_ms, .least = -1, .most = WORKLOAD_TIME_MS_MAX),
};
static const struct field turn[] = {ORDER, FIELD("turn", turn, .least = 1)};
static const struct field advise[] = {
    ORDER,
    FIELD("advice", advice.sequence, .least = 1),
    FIELD("batch", advice.batch, .most = ADVICE_BATCH_MAX),
    FIELD("checkpoints", advice.checkpoints),
};
static const struct field settle[] = {ORDER};
static const struct field read_log[] = {
    REQUEST, ATTEMPT, OFFSET, TIME("wait_ms", wait_ms), FIELD("max", max, .most = NODEMSG_DATA_MAX),
};
static const struct field signal_to[] = {REQUEST, ATTEMPT,
                                         FIELD("signal", signal, .least = 1, .most = 64)};
static const struct field input[] = {REQUEST, ATTEMPT, OFFSET, DATA};
static const struct field device[] = {REQUEST, FIELD("uuid", uuid), FIELD("enable", enable)};
static const struct field renew[] = {PEM("csr")};
static const struct field certificate[] = {PEM("certificate"), TIME("renew_ms", renew_ms)};
static const struct field refuse[] = {FIELD("text", text)};

static const struct {
    const char *name;
    struct fields fields;
} types[NODEMSG_TYPE_END] = {
    [NODEMSG_HELLO] = {"hello", FIELDS(OF, hello)},
    [NODEMSG_REPORT] = {"report", FIELDS(OF, report)},
    [NODEMSG_BEAT] = {"beat", FIELDS(OF, beat)},
    [NODEMSG_LOG] = {"log", FIELDS(OF, answer_log)},
    [NODEMSG_DONE] = {"done", FIELDS(OF, done)},
    [NODEMSG_WELCOME] = {"welcome", FIELDS(OF, welcome)},
    [NODEMSG_GRANT] = {"grant", FIELDS(OF, grant)},
    [NODEMSG_STOP] = {"stop", FIELDS(OF, stop)},
    [NODEMSG_SUSPEND] = {"suspend", FIELDS(OF, turn)},
    [NODEMSG_RESUME] = {"resume", FIELDS(OF, turn)},
    [NODEMSG_ADVISE] = {"advise", FIELDS(OF, advise)},
    [NODEMSG_SETTLE] = {"settle", FIELDS(OF, settle)},
    [NODEMSG_READ] = {"read", FIELDS(OF, read_log)},
    [NODEMSG_SIGNAL] = {"signal", FIELDS(OF, signal_to)},
    [NODEMSG_INPUT] = {"input", FIELDS(OF, input)},
    [NODEMSG_DEVICE] = {"device", FIELDS(OF, device)},
    [NODEMSG_RENEW] = {"renew", FIELDS(OF, renew)},
    [NODEMSG_CERTIFICATE] = {"certificate", FIELDS(OF, certificate)},
    [NODEMSG_REFUSE] = {"refuse", FIELDS(OF, refuse)},
};

int nodemsg_write(const struct nodemsg *msg, struct str *out)
{
    size_t start = out->length;
    if (str_failed(out) || msg->type >= NODEMSG_TYPE_END || msg->length > NODEMSG_DATA_MAX ||
        msg->attempt_count > NODEMSG_ATTEMPTS_MAX)
        return -ERR_TOO_LARGE;
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_put_string(json_key(&w, "type"), types[msg->type].name);
    fields_put_members(&w, &types[msg->type].fields, FIELDS_MESSAGE, msg);
    json_end_object(&w);
    str_append_char(out, '\n');
    if (!str_failed(out) && out->length - start <= NODEMSG_LINE_MAX)
        return 0;
    str_truncate(out, start);
    return -ERR_TOO_LARGE;
}

static int take_message(const struct field_reader *r, json_t *json, struct nodemsg *msg)
{
    const char *name = json_string_value(json_object_get(json, "type"));
    if (!name)
        return error_set_field(r->e, ERR_PROTOCOL, "type", "must be a string");
    while (msg->type < NODEMSG_TYPE_END && !str_equal(name, types[msg->type].name))
        msg->type++;
    if (msg->type == NODEMSG_TYPE_END)
        return 0;
    int result = fields_take(r, &types[msg->type].fields, json, msg);
    if (msg->type == NODEMSG_REPORT)
        msg->attempt_count = 1;
    if (msg->type == NODEMSG_GRANT) {
        msg->workload = msg->grant.workload;
        msg->attempt = msg->grant.attempt;
        if (!json_object_get(json, "ran_before")) /* absent from an older control's grant */
            msg->grant.ran_before = msg->attempt > 1;
    }
    return result;
}

int nodemsg_parse(struct error *e, struct arena *arena, const char *line, size_t length,
                  struct nodemsg *ret)
{
    if (length > NODEMSG_LINE_MAX)
        return error_set(e, ERR_PROTOCOL, "the message is longer than %d bytes", NODEMSG_LINE_MAX);
    json_t *json;
    int result = json_parse_object(e, ERR_SYNTAX, line, length, &json);
    if (result < 0)
        return result;
    const struct field_reader r = {
        .e = e, .code = ERR_PROTOCOL, .arena = arena, .form = FIELDS_MESSAGE};
    struct nodemsg msg = {0};
    result = take_message(&r, json, &msg);
    json_decref(json);
    if (result == 0)
        *ret = msg;
    return result;
}
