/* The routes of workloads, except submitting and output. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/control_internal.h"
#include "wire/json_reader.h"
#include "wire/record.h"
#include "wire/spec.h"

enum {
    LIST_DEFAULT = 100,
    /* Bytes of specs read and response written after which a page ends: the limit of one loop
     * turn. */
    LIST_BYTES_MAX = 8 << 20,
    LIST_IS_LONG = 1, /* result of a row's callback at the limit */
};

/* ---- shared by all routes ---- */

int control_number(struct error *e, const char *field, const char *text, uint64_t least,
                   uint64_t most, uint64_t *ret)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || value < least || value > most)
        return error_set_field(e, ERR_INVALID, field, "must be a number from %llu to %llu",
                               (unsigned long long)least, (unsigned long long)most);
    *ret = value;
    return 0;
}

int control_query_number(struct error *e, const struct http_request *r, const char *name,
                         uint64_t least, uint64_t most, uint64_t *ret)
{
    const char *text = http_request_query(r, name);
    return text ? control_number(e, name, text, least, most, ret) : 0;
}

int control_resolve_ref(struct error *e, struct control *c, const struct http_request *r,
                        const char *ref, uint64_t *ret_id)
{
    if (ref[0] && strspn(ref, "0123456789") == strlen(ref)) {
        char *end;
        errno = 0;
        *ret_id = strtoull(ref, &end, 10);
        return errno ? error_set(e, ERR_NOT_FOUND, "there is no workload %s", ref) : 0;
    }
    uint64_t ids[2];
    struct store_owner caller = control_caller(c, r);
    int found = store_resolve(e, c->store, &caller, ref, ids, 2);
    if (found == 0)
        found = store_resolve(e, c->store, NULL, ref, ids, 2);
    if (found < 0)
        return found;
    if (found == 0)
        return error_set(e, ERR_NOT_FOUND, "there is no workload named '%s'", ref);
    if (found > 1)
        return error_set(e, ERR_CONFLICT, "'%s' is an array: name one of it, such as '%s[0]'", ref,
                         ref);
    *ret_id = ids[0];
    return 0;
}

int control_resolve(struct error *e, struct control *c, const struct http_request *r,
                    uint64_t *ret_id)
{
    return control_resolve_ref(e, c, r, http_request_part(r, "ref"), ret_id);
}

struct locating {
    struct located *at;
    int wanted;
    struct error *error;
};

static int locate_row(void *arg, const struct store_workload *row)
{
    struct locating *l = arg;
    struct arena arena;
    arena_init(&arena, SPEC_TEXT_MAX);
    struct workload_status status;
    int r = record_parse_status(l->error, &arena, row->status, &status);
    for (int i = 0; r == 0 && i < status.attempts_kept; i++) {
        const struct attempt *a = &status.attempts[i];
        if (l->wanted && a->number != l->wanted)
            continue;
        l->at->attempt = a->number;
        l->at->open = a->ended_wall_ms == 0;
        l->at->lost = a->lost;
        str_copy(l->at->node, sizeof l->at->node, a->node);
    }
    l->at->uid = row->uid;
    str_copy(l->at->user, sizeof l->at->user, row->user);
    l->at->terminal = workload_state_is_terminal(row->state);
    if (r == 0)
        str_copy(l->at->text, sizeof l->at->text, status.text);
    arena_done(&arena);
    return r;
}

int control_locate(struct error *e, struct control *c, uint64_t workload, int wanted,
                   struct located *ret)
{
    *ret = (struct located){0};
    struct locating l = {.at = ret, .wanted = wanted, .error = e};
    int r = store_get(e, c->store, workload, locate_row, &l);
    if (r == 0)
        control_refresh_note(c, workload, ret->text);
    return r;
}

/* ---- list and get ---- */

struct listing {
    struct control *control;
    struct http_request *http;
    struct error *error;
    struct str json;
    size_t count;
    uint64_t last;
    struct show_options options;
    struct shown_spec shown;
};

static int list_row(void *arg, const struct store_workload *row)
{
    struct listing *l = arg;
    if (l->count++)
        str_append(&l->json, ", ");
    l->last = row->id;
    int r = show_workload(l->error, l->control, &l->json, row, &l->options, &l->shown);
    if (r == 0 && l->shown.bytes + l->json.length >= LIST_BYTES_MAX)
        r = LIST_IS_LONG;
    return r;
}

static int parse_states(struct error *e, struct http_request *r, uint32_t *ret)
{
    const char *text = http_request_query(r, "state");
    char *copy = text ? arena_strdup(http_request_arena(r), text) : NULL;
    char *rest;
    for (char *word = copy ? strtok_r(copy, ",", &rest) : NULL; word;
         word = strtok_r(NULL, ",", &rest)) {
        enum workload_state state;
        if (workload_state_parse(word, &state) < 0)
            return error_set_field(e, ERR_INVALID, "state", "there is no state '%s'", word);
        *ret |= 1u << state;
    }
    return 0;
}

/* Finds an owner; an account that this machine lacks may have workloads on others. */
static int parse_owner(struct error *e, struct http_request *r, const char *user,
                       const struct store_owner **ret)
{
    struct store_owner *owner = arena_alloc(http_request_arena(r), sizeof *owner);
    if (!owner)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    uid_t uid;
    int found = auth_find_user(e, user, &uid);
    if (found < 0 && found != -ERR_NOT_FOUND)
        return found;
    *owner = (struct store_owner){.uid = found < 0 ? UID_BY_NAME : uid, .user = user};
    *ret = owner;
    return 0;
}

static int parse_filter(struct error *e, struct http_request *r, struct store_filter *f)
{
    static const char *const queries[] = {"state", "kind", "user", "name", "limit", "cursor", NULL};
    uint64_t limit = LIST_DEFAULT;
    const char *kind = http_request_query(r, "kind"), *user = http_request_query(r, "user");
    enum workload_kind k;
    *f = (struct store_filter){.kind = -1, .name = http_request_query(r, "name")};
    int result = http_request_check_query(e, r, queries);
    if (result == 0)
        result = control_query_number(e, r, "limit", 1, STORE_PAGE_MAX, &limit);
    if (result == 0)
        result = control_query_number(e, r, "cursor", 1, INT64_MAX, &f->before);
    if (result == 0)
        result = parse_states(e, r, &f->states);
    if (result == 0 && kind && workload_kind_parse(kind, &k) < 0)
        result = error_set_field(e, ERR_INVALID, "kind", "task or service, not '%s'", kind);
    else if (result == 0 && kind)
        f->kind = (int)k;
    if (result == 0 && user)
        result = parse_owner(e, r, user, &f->owner);
    f->limit = (size_t)limit;
    return result;
}

void handle_list(void *context, struct http_request *r)
{
    struct control *c = context;
    struct error e = {0};
    struct store_filter filter;
    struct listing l = {.control = c, .http = r, .error = &e};
    str_init(&l.json, 8 * HTTP_BODY_MAX);
    str_append(&l.json, "{\"workloads\": [");
    int result = parse_filter(&e, r, &filter);
    filter.summaries = true;
    if (result == 0)
        result = store_list(&e, c->store, &filter, list_row, &l);
    shown_spec_done(&l.shown);
    if (l.count == filter.limit || result == LIST_IS_LONG)
        str_printf(&l.json, "], \"next\": \"%llu\"", (unsigned long long)l.last);
    else
        str_append(&l.json, "], \"next\": null");
    str_printf(&l.json, ", \"revision\": %llu}", (unsigned long long)store_revision(c->store));
    if (result >= 0 && str_failed(&l.json))
        result = error_set(&e, ERR_TOO_LARGE, "the page is too large: ask with a smaller limit");
    answer_json(r, result, &e, 200, &l.json);
}

static int get_row(void *arg, const struct store_workload *row)
{
    struct listing *l = arg;
    const struct store_owner owner = {.uid = row->uid, .user = row->user};
    l->options.secrets =
        http_request_peer(l->http)->role >= HTTP_USER && control_may(l->control, l->http, &owner);
    return show_workload(l->error, l->control, &l->json, row, &l->options, &l->shown);
}

static void answer_workload(struct control *c, struct http_request *r, uint64_t id, int status,
                            bool detail)
{
    struct error e = {0};
    struct listing l = {.control = c, .http = r, .error = &e, .options.detail = detail};
    str_init(&l.json, HTTP_BODY_MAX);
    int result = store_get(&e, c->store, id, get_row, &l);
    shown_spec_done(&l.shown);
    answer_json(r, result, &e, status, &l.json);
}

void handle_get(void *context, struct http_request *r)
{
    static const char *const queries[] = {NULL};
    struct control *c = context;
    struct error e = {0};
    uint64_t id;
    int result = http_request_check_query(&e, r, queries);
    if (result == 0)
        result = control_resolve(&e, c, r, &id);
    if (result < 0)
        http_answer_error(r, &e);
    else
        answer_workload(c, r, id, 200, true);
}

/* ---- cancel, requeue, suspend, resume and advise ---- */

static void on_stopped(struct waiter *w, const struct cluster_action *a)
{
    struct control *c = w->control;
    struct http_request *r = w->http;
    uint64_t id = w->workload;
    waiter_free(w);
    if (a->result == 0) {
        answer_workload(c, r, id, 202, false);
        return;
    }
    answer_refused(r, a);
}

/* Finds the workload of the route, and checks that it exists and that the caller may change it. */
static int resolve_own(struct error *e, struct control *c, struct http_request *r, uint64_t *ret_id,
                       struct located *ret_at)
{
    int result = control_resolve(e, c, r, ret_id);
    if (result == 0)
        result = control_locate(e, c, *ret_id, 0, ret_at);
    const struct store_owner owner = {.uid = ret_at->uid, .user = ret_at->user};
    if (result == 0 && !control_may(c, r, &owner))
        result = error_set(e, ERR_DENIED, "workload %llu belongs to somebody else",
                           (unsigned long long)*ret_id);
    return result;
}

/* Reads a JSON object from the body; without a body *ret is NULL. Only the keys `known`, and
 * `also_known` if it is not NULL, are allowed. */
static int read_body(struct error *e, struct http_request *r, const char *known,
                     const char *also_known, json_t **ret)
{
    size_t length;
    const char *body = http_request_body(r, &length);
    *ret = NULL;
    if (length == 0)
        return 0;
    json_t *object;
    int parsed = json_parse_object(e, ERR_SYNTAX, body, length, &object);
    if (parsed < 0)
        return parsed;
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (strcmp(key, known) == 0 || (also_known && strcmp(key, also_known) == 0))
            continue;
        int result = also_known ? error_set_field(e, ERR_INVALID, "body",
                                                  "unknown key '%s', there are '%s' and '%s'", key,
                                                  known, also_known)
                                : error_set_field(e, ERR_INVALID, "body",
                                                  "unknown key '%s', there is '%s'", key, known);
        json_decref(object);
        return result;
    }
    *ret = object;
    return 0;
}

static int read_grace(struct error *e, struct http_request *r, int64_t *ret_ms)
{
    json_t *body;
    int result = read_body(e, r, "grace", NULL, &body);
    json_t *grace = json_object_get(body, "grace");
    if (result == 0 && grace && !json_is_string(grace))
        result = error_set_field(e, ERR_INVALID, "grace", "must be text such as \"5s\"");
    else if (result == 0 && grace) {
        result = spec_parse_duration(e, json_string_value(grace), ret_ms);
        if (result < 0)
            error_prefix_field(e, "grace");
    }
    json_decref(body);
    return result;
}

/* Steps an event about one workload, whose state after the step is the answer. */
static void step_about(struct control *c, struct http_request *r, struct cluster_event *event,
                       uint64_t workload)
{
    struct error e = {0};
    struct waiter *w = waiter_new(c, r);
    if (!w) {
        error_set(&e, ERR_NO_MEMORY, "out of memory");
        http_answer_error(r, &e);
        return;
    }
    w->on_reply = on_stopped;
    w->workload = workload;
    event->request = w->request;
    if (control_step(c, event) < 0 && hash_map_get(&c->requests, event->request)) {
        waiter_free(w);
        error_set(&e, ERR_UNAVAILABLE, "the state is being read back; try again in a moment");
        http_answer_error(r, &e);
    }
}

static void stop(struct control *c, struct http_request *r, enum cluster_event_kind kind)
{
    static const char *const queries[] = {NULL};
    struct error e = {0};
    struct located at;
    struct cluster_event event = {.kind = kind, .stop = {.grace_ms = -1}};
    int result = http_request_check_query(&e, r, queries);
    if (result == 0)
        result = resolve_own(&e, c, r, &event.stop.workload, &at);
    if (result == 0)
        result = read_grace(&e, r, &event.stop.grace_ms);
    if (result < 0) {
        http_answer_error(r, &e);
        return;
    }
    step_about(c, r, &event, event.stop.workload);
}

static int read_advice(struct error *e, struct http_request *r, struct cluster_event *event)
{
    json_t *body;
    int result = read_body(e, r, "batch", "checkpoint", &body);
    const json_t *batch = json_object_get(body, "batch");
    const json_t *checkpoint = json_object_get(body, "checkpoint");
    json_int_t size = json_integer_value(batch);
    if (result == 0 && batch && (!json_is_integer(batch) || size < 0 || size > ADVICE_BATCH_MAX))
        result = error_set_field(e, ERR_INVALID, "batch", "must be from 0 to %lld",
                                 (long long)ADVICE_BATCH_MAX);
    else if (result == 0 && checkpoint && !json_is_boolean(checkpoint))
        result = error_set_field(e, ERR_INVALID, "checkpoint", "must be true or false");
    else if (result == 0 && !batch && !json_is_true(checkpoint))
        result = error_set_field(e, ERR_INVALID, "body", "must have a 'batch' or a 'checkpoint'");
    event->advise.batch = batch ? size : -1;
    event->advise.checkpoint = json_is_true(checkpoint);
    json_decref(body);
    return result;
}

void handle_advise(void *context, struct http_request *r)
{
    static const char *const queries[] = {NULL};
    struct control *c = context;
    struct error e = {0};
    struct located at;
    struct cluster_event event = {.kind = CLUSTER_ADVISE};
    int result = http_request_check_query(&e, r, queries);
    if (result == 0)
        result = resolve_own(&e, c, r, &event.advise.workload, &at);
    if (result == 0)
        result = read_advice(&e, r, &event);
    if (result < 0) {
        http_answer_error(r, &e);
        return;
    }
    step_about(c, r, &event, event.advise.workload);
}

void handle_cancel(void *context, struct http_request *r)
{
    stop(context, r, CLUSTER_CANCEL);
}

void handle_requeue(void *context, struct http_request *r)
{
    stop(context, r, CLUSTER_REQUEUE);
}

void handle_suspend(void *context, struct http_request *r)
{
    stop(context, r, CLUSTER_SUSPEND);
}

void handle_resume(void *context, struct http_request *r)
{
    stop(context, r, CLUSTER_RESUME);
}

/* ---- signal and input: passed to the node ---- */

static int pass_on(struct error *e, struct control *c, struct http_request *r, uint64_t id,
                   const struct located *at, struct nodemsg *msg)
{
    if (!at->attempt || !at->open)
        return error_set(e, ERR_CONFLICT, "it is not running");
    msg->workload = id;
    msg->attempt = at->attempt;
    return waiter_pass_on(e, c, r, at->node, msg);
}

static int parse_signal(struct error *e, json_t *value, int *ret)
{
    json_int_t number = json_is_integer(value) ? json_integer_value(value) : 0;
    const char *name = json_string_value(value);
    if (name && str_starts_with(name, "SIG"))
        name += 3;
    for (int i = 1; i < NSIG && name && !number; i++)
        if (str_equal(sigabbrev_np(i), name))
            number = i;
    if (number < 1 || number >= NSIG)
        return error_set_field(e, ERR_INVALID, "signal",
                               "say which: a number or a name such as \"SIGUSR1\"");
    *ret = (int)number;
    return 0;
}

void handle_signal(void *context, struct http_request *r)
{
    static const char *const queries[] = {NULL};
    struct control *c = context;
    struct error e = {0};
    struct located at;
    uint64_t id;
    json_t *body = NULL;
    struct nodemsg msg = {.type = NODEMSG_SIGNAL};
    int result = http_request_check_query(&e, r, queries);
    if (result == 0)
        result = resolve_own(&e, c, r, &id, &at);
    if (result == 0)
        result = read_body(&e, r, "signal", NULL, &body);
    if (result == 0)
        result = parse_signal(&e, json_object_get(body, "signal"), &msg.signal);
    json_decref(body);
    if (result == 0)
        result = pass_on(&e, c, r, id, &at, &msg);
    if (result < 0)
        http_answer_error(r, &e);
}

void handle_input(void *context, struct http_request *r)
{
    static const char *const queries[] = {"offset", "end", NULL};
    struct control *c = context;
    struct error e = {0};
    struct located at;
    uint64_t id, end = 0;
    struct nodemsg msg = {.type = NODEMSG_INPUT};
    msg.data = http_request_body(r, &msg.length);
    int result = http_request_check_query(&e, r, queries);
    if (result == 0)
        result = control_query_number(&e, r, "offset", 0, INT64_MAX, &msg.offset);
    if (result == 0)
        result = control_query_number(&e, r, "end", 0, 1, &end);
    msg.end = end;
    if (result == 0 && msg.length > NODEMSG_DATA_MAX)
        result = error_set(&e, ERR_TOO_LARGE, "at most %d bytes at a time", NODEMSG_DATA_MAX);
    if (result == 0)
        result = resolve_own(&e, c, r, &id, &at);
    if (result == 0)
        result = pass_on(&e, c, r, id, &at, &msg);
    if (result < 0)
        http_answer_error(r, &e);
}
