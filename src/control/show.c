/* Workloads, events and nodes as objects of the API. */
#include <stdio.h>
#include <string.h>

#include "control/control_internal.h"
#include "wire/json_writer.h"
#include "wire/objects.h"
#include "wire/record.h"
#include "wire/spec.h"

/* workloads shown for one device; max_neighbours is at most 64 */
enum { DEVICE_WORKLOADS_MAX = 256 };

/* Writes the member `device_names`. */
static void put_names(struct json_writer *w, const struct control *c, const char *node,
                      const char (*devices)[DEVICE_UUID_MAX], int count)
{
    char name[DEVICE_NAME_MAX];
    json_begin_array(json_key(w, "device_names"));
    for (int i = 0; i < count; i++) {
        if (c->cluster)
            cluster_device_name(c->cluster, node, devices[i], name);
        json_put_string(w, c->cluster ? name : devices[i]);
    }
    json_end_array(w);
}

void show_device_list(struct json_writer *w, const struct control *c, const char *node,
                      const char (*devices)[DEVICE_UUID_MAX], int count)
{
    json_begin_array(json_key(w, "devices"));
    for (int i = 0; i < count; i++)
        json_put_string(w, devices[i]);
    json_end_array(w);
    put_names(w, c, node, devices, count);
}

#define OF struct store_workload
static const struct field row_members[] = {
    FIELD("id", id),
    FIELD("name", name),
    FIELD("kind", kind, .names = &workload_kind_names),
    FIELD("state", state, .names = &workload_state_names),
    FIELD("user", user),
    FIELD("uid", uid),
    FIELD("priority", priority),
    FIELD("array_index", array_index, .flags = FIELD_NULL, .unset = -1),
    FIELD("group", group),
};
static const struct fields row_fields = FIELDS(OF, row_members);
#undef OF

static const struct attempt_usage *find_usage(struct control *c, const struct store_workload *row,
                                              const struct attempt *a)
{
    struct node_link *link = a && !a->ended_wall_ms ? links_find(c, a->node) : NULL;
    return link ? link_attempt_usage(link, row->id, a->number) : NULL;
}

/* Returns the end of the last started attempt; 0: not ended, or no attempt started. */
static int64_t stopped_wall_ms(const struct workload_status *status)
{
    for (int i = status->attempts_kept - 1; i >= 0; i--)
        if (status->attempts[i].started_wall_ms)
            return status->attempts[i].ended_wall_ms;
    return 0;
}

/* Writes the spec as submitted; omits values of its environment unless `secrets`. */
static int put_spec(struct error *e, struct json_writer *w, const struct store_workload *row,
                    struct shown_spec *shown, bool secrets)
{
    struct str text;
    struct workload_spec spec = shown->spec;
    const struct pairs *environment = &shown->spec.environment;
    if (secrets) {
        json_put_raw(w, row->spec);
        return 0;
    }
    spec.environment.items = arena_array(&shown->arena, environment->count, sizeof(struct pair));
    for (size_t i = 0; spec.environment.items && i < environment->count; i++)
        spec.environment.items[i].key = environment->items[i].key;
    str_init(&text, SPEC_TEXT_MAX);
    int r = spec.environment.items ? spec_write(&spec, &text) : -ERR_NO_MEMORY;
    if (r == 0)
        json_put_raw(w, str_text(&text));
    else
        (void)error_set(e, ERR_NO_MEMORY, "out of memory");
    str_done(&text);
    return r;
}

/* Returns how the limits are enforced. Only the node of a running attempt reports this, because
 * control does not store the report. */
static const char *enforcement_of(struct control *c, const struct store_workload *row,
                                  const struct workload_spec *spec, const struct attempt *a)
{
    const struct attempt_usage *usage = find_usage(c, row, a);
    if (usage && usage->enforcement[0])
        return usage->enforcement;
    if (spec->needs.devices == 0)
        return "the workload has no device";
    if (spec->protection == PROTECTION_OFF)
        return "quota and share are not enforced: protection was turned off for the workload";
    if (workload_state_is_terminal(row->state))
        return "";
    return "the node reports how quota and share are enforced once the workload runs";
}

/* Writes the details, without a text that is not JSON or that gpumux did not write. */
static int put_detail(struct error *e, struct json_writer *w, const struct control *c,
                      const struct store_workload *row, const struct workload_status *status,
                      struct shown_spec *shown, bool secrets)
{
    int r = 0;
    struct after_id *after;
    size_t count;
    json_key(w, "spec");
    if (shown->id)
        r = put_spec(e, w, row, shown, secrets);
    else
        json_put_raw(w, "{}");
    json_begin_array(json_key(w, "attempts"));
    for (int i = 0; i < status->attempts_kept; i++) {
        json_begin_object(w);
        fields_put_members(w, &attempt_fields, FIELDS_API, &status->attempts[i]);
        put_names(w, c, status->attempts[i].node, status->attempts[i].devices,
                  status->attempts[i].device_count);
        json_end_object(w);
    }
    json_end_array(w);
    bool good = record_parse_after(NULL, &shown->arena, row->after, &after, &count) == 0;
    json_put_raw(json_key(w, "after"), good ? row->after : "[]");
    return r;
}

void shown_spec_done(struct shown_spec *shown)
{
    arena_done(&shown->arena);
    str_done(&shown->summary);
    shown->id = 0;
}

static int read_spec(const struct store_workload *row, struct shown_spec *shown)
{
    if (shown->id == row->spec_id)
        return 0;
    shown_spec_done(shown);
    arena_init(&shown->arena, HTTP_REQUEST_ARENA_MAX);
    str_init(&shown->summary, SPEC_TEXT_MAX);
    size_t length = strlen(row->spec);
    struct spec_list list;
    shown->bytes += length;
    int r = spec_parse(NULL, &shown->arena, row->spec, length, &list);
    bool good = r == 0 && list.count == 1;
    shown->spec = good ? list.items[0] : (struct workload_spec){0};
    shown->id = good ? row->spec_id : 0;
    if (r != -ERR_NO_MEMORY)
        r = spec_write_summary(&shown->spec, &shown->summary);
    return r;
}

/* Reads the status. For an unreadable record, fills in what else the store contains. Returns 0 or
 * -ERR_NO_MEMORY. */
static int read_status(struct arena *arena, const struct store_workload *row,
                       struct workload_status *ret)
{
    struct error why = {0};
    int r = record_parse_status(&why, arena, row->status, ret);
    if (r == 0 || r == -ERR_NO_MEMORY)
        return r;
    *ret = (struct workload_status){.exit_code = -1,
                                    .submitted_wall_ms = row->submitted_wall_ms,
                                    .ended_wall_ms = row->ended_wall_ms};
    control_say_unreadable(&why, ret->text);
    return 0;
}

/* Writes the condition that a starting service waits for, if no other text is known. */
static void say_readiness(const struct workload_spec *spec, char text[WORKLOAD_TEXT_MAX])
{
    if (spec->ready == READY_PORT)
        (void)snprintf(text, WORKLOAD_TEXT_MAX,
                       "waits until port %d on the node accepts connections", spec->ready_port);
    else if (spec->ready == READY_COMMAND)
        (void)str_copy(text, WORKLOAD_TEXT_MAX, "waits until ready.command succeeds");
    else if (spec->ready == READY_CLIENT)
        (void)str_copy(text, WORKLOAD_TEXT_MAX, "waits until the service reports that it is ready");
}

void control_refresh_note(struct control *c, uint64_t id, char text[WORKLOAD_TEXT_MAX])
{
    bool never;
    const char *note = c->cluster ? cluster_note(c->cluster, id, &never) : NULL;
    if (note)
        (void)str_copy(text, WORKLOAD_TEXT_MAX, note);
}

static void put_workload(struct json_writer *w, struct control *c, const struct store_workload *row,
                         struct workload_status *status, const char *summary)
{
    const struct attempt *a = workload_status_attempt(status);
    if (!status->ended_wall_ms)
        status->exit_code = -1; /* the code belongs to an earlier attempt */
    fields_put_members(w, &row_fields, FIELDS_API, row);
    fields_put_members(w, &workload_status_fields, FIELDS_API, status);
    json_put_time(json_key(w, "stopped"), stopped_wall_ms(status));
    json_put_string(json_key(w, "node"), a ? a->node : NULL);
    show_device_list(w, c, a ? a->node : "", a ? a->devices : NULL, a ? a->device_count : 0);
    json_put_members(w, summary);
    fields_put(json_key(w, "usage"), &attempt_usage_fields, FIELDS_API, find_usage(c, row, a));
}

int show_workload(struct error *e, struct control *c, struct str *out,
                  const struct store_workload *row, const struct show_options *options,
                  struct shown_spec *shown)
{
    struct arena arena;
    arena_init(&arena, SPEC_TEXT_MAX);
    struct workload_status status;
    int r = row->spec ? read_spec(row, shown) : 0;
    if (r == 0)
        r = read_status(&arena, row, &status);
    if (r < 0)
        (void)error_set(e, ERR_NO_MEMORY, "no memory to show workload %llu",
                        (unsigned long long)row->id);
    if (r == 0) {
        const struct attempt *a = workload_status_attempt(&status);
        struct json_writer w;
        if (row->state == WORKLOAD_QUEUED)
            control_refresh_note(c, row->id, status.text);
        if (row->spec && row->state == WORKLOAD_STARTING && !status.text[0])
            say_readiness(&shown->spec, status.text);
        json_writer_init(&w, out);
        json_begin_object(&w);
        put_workload(&w, c, row, &status, row->summary ? row->summary : str_text(&shown->summary));
        if (options->detail)
            json_put_string(json_key(&w, "enforcement"),
                            shown->id ? enforcement_of(c, row, &shown->spec, a) : "");
        if (options->detail)
            r = put_detail(e, &w, c, row, &status, shown, options->secrets);
        json_end_object(&w);
    }
    arena_done(&arena);
    return r;
}

#define OF struct store_event
static const struct field event_members[] = {
    FIELD("revision", revision),
    FIELD("time", wall_ms, .flags = FIELD_WALL),
    FIELD("what", what),
    FIELD("workload", workload, .flags = FIELD_NULL),
    FIELD("attempt", attempt, .flags = FIELD_NULL),
    FIELD("node", node, .flags = FIELD_NULL),
    FIELD("text", text),
};
static const struct fields event_fields = FIELDS(OF, event_members);
#undef OF

void show_event(struct str *out, const struct store_event *event)
{
    (void)fields_write(&event_fields, FIELDS_API, event, out);
}

static void put_booked(struct json_writer *w, const struct policy_device *booked)
{
    json_begin_object(w);
    json_put_uint(json_key(w, "quota_bytes"), booked ? booked->quota_bytes : 0);
    json_put_int(json_key(w, "share_min"), booked ? booked->share_min_percent : 0);
    json_put_int(json_key(w, "workloads"), booked ? booked->neighbours : 0);
    json_end_object(w);
}

static void put_device_workloads(struct json_writer *w, const struct control *c, const char *node,
                                 const char *uuid)
{
    uint64_t ids[DEVICE_WORKLOADS_MAX];
    size_t count = c->cluster
                       ? cluster_device_workloads(c->cluster, node, uuid, ids, DEVICE_WORKLOADS_MAX)
                       : 0;
    json_begin_array(w);
    for (size_t i = 0; i < count; i++)
        json_put_uint(w, ids[i]);
    json_end_array(w);
}

static const struct policy_device *find_booked(const struct policy_snapshot *inventory,
                                               const char *uuid)
{
    for (size_t i = 0; i < inventory->device_count; i++)
        if (strcmp(inventory->devices[i].uuid, uuid) == 0)
            return &inventory->devices[i];
    return NULL;
}

void show_node(struct control *c, struct str *out, const char *name, bool drained,
               const struct node_info *info)
{
    struct json_writer w;
    struct policy_snapshot inventory = {0};
    struct node_link *link = links_find(c, name);
    if (c->cluster)
        cluster_inventory(c->cluster, &inventory);
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_put_string(json_key(&w, "name"), name);
    json_put_bool(json_key(&w, "connected"),
                  c->cluster && cluster_node_connected(c->cluster, name));
    json_put_bool(json_key(&w, "drained"), drained);
    json_put_bool(json_key(&w, "held"), c->cluster && cluster_node_held(c->cluster, name));
    fields_put_members(&w, &node_info_fields, FIELDS_API, info);
    json_begin_array(json_key(&w, "devices"));
    for (int i = 0; i < info->device_count; i++) {
        const struct device *d = &info->devices[i];
        json_begin_object(&w);
        fields_put_members(&w, &device_fields, FIELDS_API, d);
        fields_put_members(&w, &device_health_fields, FIELDS_API,
                           c->cluster ? cluster_device_health(c->cluster, name, d->uuid) : NULL);
        put_booked(json_key(&w, "booked"), find_booked(&inventory, d->uuid));
        fields_put(json_key(&w, "usage"), &device_usage_fields, FIELDS_API,
                   link_device_usage(link, d->uuid));
        put_device_workloads(json_key(&w, "workloads"), c, name, d->uuid);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
}
