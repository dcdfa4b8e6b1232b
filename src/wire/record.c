#include "wire/record.h"

#include <limits.h>
#include <string.h>

#include "wire/record_internal.h"

/* ---- writing ---- */

static void put_attempt(struct json_writer *w, const struct attempt *attempt)
{
    json_begin_object(w);
    json_put_int(json_key(w, "number"), attempt->number);
    json_put_string(json_key(w, "node"), attempt->node);
    json_key(w, "devices");
    json_begin_array(w);
    for (int i = 0; i < attempt->device_count; i++)
        json_put_string(w, attempt->devices[i]);
    json_end_array(w);
    json_put_int(json_key(w, "placed_ms"), attempt->placed_wall_ms);
    json_put_int(json_key(w, "started_ms"), attempt->started_wall_ms);
    json_put_int(json_key(w, "ended_ms"), attempt->ended_wall_ms);
    json_put_string(json_key(w, "failure"), failure_reason_name(attempt->failure));
    json_put_int(json_key(w, "exit_code"), attempt->exit_code);
    json_put_int(json_key(w, "signal"), attempt->signal);
    json_put_bool(json_key(w, "lost"), attempt->lost);
    json_put_string(json_key(w, "text"), attempt->text);
    json_end_object(w);
}

int record_write_status(const struct workload_status *status, struct str *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_put_string(json_key(&w, "state"), workload_state_name(status->state));
    json_put_string(json_key(&w, "failure"), failure_reason_name(status->failure));
    json_put_string(json_key(&w, "stop"), stop_cause_name(status->stop));
    json_put_string(json_key(&w, "text"), status->text);
    json_put_int(json_key(&w, "exit_code"), status->exit_code);
    json_put_int(json_key(&w, "signal"), status->signal);
    json_put_int(json_key(&w, "attempts_total"), status->attempts_total);
    json_put_int(json_key(&w, "failures"), status->failures);
    json_put_int(json_key(&w, "faults"), status->faults);
    json_put_bool(json_key(&w, "suspect"), status->suspect);
    if (status->hold != HOLD_NONE)
        json_put_string(json_key(&w, "hold"), hold_name(status->hold));
    if (status->off_device)
        json_put_bool(json_key(&w, "off_device"), true);
    if (status->turn)
        json_put_int(json_key(&w, "turn"), status->turn);
    json_put_int(json_key(&w, "backoff_ms"), status->backoff_ms);
    json_put_int(json_key(&w, "submitted_ms"), status->submitted_wall_ms);
    json_put_int(json_key(&w, "started_ms"), status->started_wall_ms);
    json_put_int(json_key(&w, "ended_ms"), status->ended_wall_ms);
    json_key(&w, "attempts");
    json_begin_array(&w);
    for (int i = 0; i < status->attempts_kept; i++)
        put_attempt(&w, &status->attempts[i]);
    json_end_array(&w);
    json_end_object(&w);
    return str_failed(out) ? -ERR_NO_MEMORY : 0;
}

static void put_device(struct json_writer *w, const struct device *device)
{
    json_begin_object(w);
    json_put_string(json_key(w, "uuid"), device->uuid);
    json_put_string(json_key(w, "model"), device->model);
    json_put_int(json_key(w, "index"), device->index);
    json_put_uint(json_key(w, "memory_bytes"), device->memory_bytes);
    json_put_int(json_key(w, "sm_count"), device->sm_count);
    json_put_bool(json_key(w, "emulated"), device->emulated);
    json_end_object(w);
}

void record_put_node(struct json_writer *w, const struct node_info *info)
{
    json_begin_object(w);
    json_put_string(json_key(w, "name"), info->name);
    json_put_string(json_key(w, "instance"), info->instance);
    json_put_string(json_key(w, "version"), info->version);
    json_key(w, "labels");
    json_begin_object(w);
    for (size_t i = 0; i < info->labels.count; i++)
        json_put_string(json_key(w, info->labels.items[i].key), info->labels.items[i].value);
    json_end_object(w);
    json_key(w, "devices");
    json_begin_array(w);
    for (int i = 0; i < info->device_count; i++)
        put_device(w, &info->devices[i]);
    json_end_array(w);
    json_end_object(w);
}

int record_write_node(const struct node_info *info, struct str *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    record_put_node(&w, info);
    return str_failed(out) ? -ERR_NO_MEMORY : 0;
}

/* ---- reading ---- */

static int take_attempt(struct error *e, struct arena *arena, json_t *json, struct attempt *ret)
{
    struct json_reader r;
    json_reader_init(&r, e, ERR_CORRUPT, arena, json);
    json_take_int(&r, "number", 1, INT_MAX, &ret->number);
    json_take_buffer(&r, "node", ret->node, sizeof ret->node);
    json_take_int64(&r, "placed_ms", 0, INT64_MAX, &ret->placed_wall_ms);
    json_take_int64(&r, "started_ms", 0, INT64_MAX, &ret->started_wall_ms);
    json_take_int64(&r, "ended_ms", 0, INT64_MAX, &ret->ended_wall_ms);
    json_take_name(&r, "failure", failure_reason_parse, &ret->failure);
    json_take_int(&r, "exit_code", INT_MIN, INT_MAX, &ret->exit_code);
    json_take_int(&r, "signal", 0, INT_MAX, &ret->signal);
    json_take_bool(&r, "lost", &ret->lost);
    json_take_buffer(&r, "text", ret->text, sizeof ret->text);
    json_t *devices = json_take_array(&r, "devices", WORKLOAD_DEVICES_MAX);
    for (size_t i = 0; devices && i < json_array_size(devices) && r.result == 0; i++) {
        const char *uuid = json_string_value(json_array_get(devices, i));
        if (!uuid || !str_copy(ret->devices[i], sizeof ret->devices[i], uuid))
            json_fail(&r, "devices", "a device's UUID is needed");
        ret->device_count++;
    }
    return r.result;
}

static void take_attempts(struct json_reader *r, struct workload_status *status)
{
    json_t *list = json_take_array(r, "attempts", WORKLOAD_ATTEMPTS_KEPT);
    size_t count = list ? json_array_size(list) : 0;
    if (count == 0)
        return;
    status->attempts = json_alloc(r, count, sizeof status->attempts[0]);
    for (size_t i = 0; i < count && r->result == 0; i++) {
        int result = take_attempt(r->e, r->arena, json_array_get(list, i), &status->attempts[i]);
        json_fail_inner(r, "attempts", (int)i, result);
        status->attempts_kept++;
    }
}

static void take_hold(struct json_reader *r, struct workload_status *status)
{
    if (json_has(r, "hold"))
        json_take_name(r, "hold", hold_parse, &status->hold);
    if (json_has(r, "off_device"))
        json_take_bool(r, "off_device", &status->off_device);
    if (json_has(r, "turn"))
        json_take_int(r, "turn", 0, INT_MAX, &status->turn);
}

int record_parse_status(struct error *e, struct arena *arena, const char *text,
                        struct workload_status *ret)
{
    json_t *json;
    int result = json_parse_object(e, ERR_CORRUPT, text, strlen(text), &json);
    if (result < 0)
        return result;
    struct workload_status status = {0};
    struct json_reader r;
    json_reader_init(&r, e, ERR_CORRUPT, arena, json);
    json_take_name(&r, "state", workload_state_parse, &status.state);
    json_take_name(&r, "failure", failure_reason_parse, &status.failure);
    json_take_name(&r, "stop", stop_cause_parse, &status.stop);
    json_take_buffer(&r, "text", status.text, sizeof status.text);
    json_take_int(&r, "exit_code", INT_MIN, INT_MAX, &status.exit_code);
    json_take_int(&r, "signal", 0, INT_MAX, &status.signal);
    json_take_int(&r, "attempts_total", 0, INT_MAX, &status.attempts_total);
    json_take_int(&r, "failures", 0, INT_MAX, &status.failures);
    if (json_has(&r, "faults"))
        json_take_int(&r, "faults", 0, INT_MAX, &status.faults);
    if (json_has(&r, "suspect"))
        json_take_bool(&r, "suspect", &status.suspect);
    take_hold(&r, &status);
    json_take_int64(&r, "backoff_ms", 0, INT64_MAX, &status.backoff_ms);
    json_take_int64(&r, "submitted_ms", 0, INT64_MAX, &status.submitted_wall_ms);
    json_take_int64(&r, "started_ms", 0, INT64_MAX, &status.started_wall_ms);
    json_take_int64(&r, "ended_ms", 0, INT64_MAX, &status.ended_wall_ms);
    take_attempts(&r, &status);
    json_decref(json);
    if (r.result == 0)
        *ret = status;
    return r.result;
}

static void take_labels(struct json_reader *r, struct pairs *ret)
{
    json_t *object = json_take_object(r, "labels");
    size_t count = json_object_size(object);
    if (count == 0)
        return;
    if (count > WORKLOAD_LABELS_MAX)
        json_fail(r, "labels", "more than %d labels", WORKLOAD_LABELS_MAX);
    struct pairs labels = {.items = json_alloc(r, count, sizeof(struct pair))};
    struct json_reader inner;
    json_reader_init(&inner, r->e, r->code, r->arena, object);
    const char *key;
    json_t *value;
    if (r->result < 0)
        return;
    json_object_foreach(object, key, value)
    {
        struct pair *pair = &labels.items[labels.count++];
        json_take_text(&inner, key, &pair->value);
        pair->key = arena_strdup(r->arena, key);
        if (!pair->key && inner.result == 0)
            inner.result = error_set(r->e, ERR_NO_MEMORY, "out of memory");
    }
    json_fail_inner(r, "labels", -1, inner.result);
    if (r->result == 0)
        json_fail_inner(r, "labels", -1, pairs_sort(r->e, &labels));
    if (r->result == 0)
        *ret = labels;
}

static int take_device(struct error *e, enum error_code code, json_t *json, struct device *ret)
{
    struct json_reader r;
    json_reader_init(&r, e, code, NULL, json);
    json_take_buffer(&r, "uuid", ret->uuid, sizeof ret->uuid);
    json_take_buffer(&r, "model", ret->model, sizeof ret->model);
    json_take_int(&r, "index", 0, INT_MAX, &ret->index);
    json_take_uint(&r, "memory_bytes", &ret->memory_bytes);
    json_take_int(&r, "sm_count", 0, INT_MAX, &ret->sm_count);
    json_take_bool(&r, "emulated", &ret->emulated);
    if (r.result == 0 && ret->uuid[0] == '\0')
        json_fail(&r, "uuid", "a device has a UUID");
    return r.result;
}

int record_take_node(struct error *e, enum error_code code, struct arena *arena, json_t *json,
                     struct node_info *ret)
{
    struct json_reader r;
    json_reader_init(&r, e, code, arena, json);
    struct node_info *info = json_alloc(&r, 1, sizeof *info);
    if (!info)
        return r.result;
    json_take_buffer(&r, "name", info->name, sizeof info->name);
    json_take_buffer(&r, "instance", info->instance, sizeof info->instance);
    json_take_buffer(&r, "version", info->version, sizeof info->version);
    if (r.result == 0 && info->name[0] == '\0')
        json_fail(&r, "name", "a node has a name");
    take_labels(&r, &info->labels);
    json_t *devices = json_take_array(&r, "devices", NODE_DEVICES_MAX);
    for (size_t i = 0; devices && i < json_array_size(devices) && r.result == 0; i++) {
        int result = take_device(e, code, json_array_get(devices, i), &info->devices[i]);
        json_fail_inner(&r, "devices", (int)i, result);
        info->device_count++;
    }
    if (r.result == 0)
        *ret = *info;
    return r.result;
}

int record_parse_node(struct error *e, struct arena *arena, const char *text, struct node_info *ret)
{
    json_t *json;
    int r = json_parse_object(e, ERR_CORRUPT, text, strlen(text), &json);
    if (r < 0)
        return r;
    r = record_take_node(e, ERR_CORRUPT, arena, json, ret);
    json_decref(json);
    return r;
}

/* ---- dependencies ---- */

int record_write_after(const struct after_id *after, size_t count, struct str *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_array(&w);
    for (size_t i = 0; i < count; i++) {
        json_begin_array(&w);
        json_put_uint(&w, after[i].workload);
        json_put_bool(&w, after[i].succeeded);
        json_end_array(&w);
    }
    json_end_array(&w);
    return str_failed(out) ? -ERR_NO_MEMORY : 0;
}

static bool take_after(json_t *pair, struct after_id *ret)
{
    json_t *id = json_array_get(pair, 0), *succeeded = json_array_get(pair, 1);
    if (json_array_size(pair) != 2 || json_integer_value(id) <= 0 || !json_is_boolean(succeeded))
        return false;
    ret->workload = (uint64_t)json_integer_value(id);
    ret->succeeded = json_is_true(succeeded);
    return true;
}

int record_parse_after(struct error *e, struct arena *arena, const char *text,
                       struct after_id **ret, size_t *ret_count)
{
    json_t *list = json_loads(text, 0, NULL);
    size_t count = json_array_size(list);
    bool good = json_is_array(list) && count <= WORKLOAD_ARRAY_MAX;
    struct after_id *after = good ? arena_array(arena, count, sizeof *after) : NULL;
    for (size_t i = 0; after && good && i < count; i++)
        good = take_after(json_array_get(list, i), &after[i]);
    json_decref(list);
    if (!good)
        return error_set_field(e, ERR_CORRUPT, "after", "not a list of dependencies");
    if (!after)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    *ret = after;
    *ret_count = count;
    return 0;
}
