/*
 * POST /v1/workloads: parse, check rights, expand arrays, resolve names, then one SUBMIT event. The
 * response follows the durable commit. With dry_run=1 nothing is submitted: the response has the
 * place of each workload, or is the error that the submission would get.
 */
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/control_internal.h"
#include "wire/json_writer.h"
#include "wire/spec.h"

/* ---- reading ---- */

static bool media_type_is_known(const char *type)
{
    static const char *const known[] = {"application/json", "application/yaml",
                                        "application/x-yaml", "text/yaml"};
    if (!type)
        return true;
    size_t length = strcspn(type, "; ");
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strlen(known[i]) == length && strncasecmp(type, known[i], length) == 0)
            return true;
    return false;
}

static int read_specs(struct error *e, struct http_request *r, struct spec_list *ret)
{
    static const char *const queries[] = {"dry_run", NULL};
    if (http_request_check_query(e, r, queries) < 0)
        return -ERR_INVALID;
    if (!media_type_is_known(http_request_header(r, "Content-Type")))
        return error_set(e, ERR_MEDIA_TYPE, "send application/json or application/yaml");
    size_t length;
    const char *body = http_request_body(r, &length);
    if (length == 0)
        return error_set(e, ERR_INVALID, "the body is empty: send a workload description");
    return spec_parse(e, http_request_arena(r), body, length, ret);
}

/* ---- rights ---- */

/* Finds the account to run as, and checks whether the caller may use it. */
static int check_user(struct error *e, struct control *c, struct http_request *r,
                      const struct workload_spec *spec)
{
    struct store_owner caller = control_caller(c, r);
    uid_t target = caller.uid;
    bool remote = http_request_peer(r)->kind == HTTP_PEER_TOKEN;
    if (spec->user && !str_equal(spec->user, caller.user) &&
        auth_find_user(NULL, spec->user, &target) < 0) {
        if (!remote)
            return error_set_field(e, ERR_INVALID, "user", "there is no account '%s'", spec->user);
        target = UID_BY_NAME; /* the node checks whether the account exists */
    }
    bool is_other = spec->user && (target != caller.uid ||
                                   (target == UID_BY_NAME && !str_equal(spec->user, caller.user)));
    if (is_other && !control_is_admin(c, r))
        return error_set_field(e, ERR_DENIED, "user",
                               "only an administrator may run as somebody else ('%s')", spec->user);
    if (target == 0 && !c->config->allow_root)
        return error_set_field(e, ERR_DENIED, "user",
                               "workloads may not run as root: name another user, or set "
                               "allow_root: true in the configuration");
    if (spec->protection == PROTECTION_OFF && !control_is_admin(c, r))
        return error_set_field(e, ERR_DENIED, "protection",
                               "only an administrator may run a workload without protection");
    if (geteuid() != 0 && target != geteuid() && !remote)
        return error_set_field(e, ERR_DENIED, "user",
                               "this gpumux does not run as root, so it runs workloads only as the "
                               "user who started it");
    return 0;
}

/* ---- dependencies ---- */

enum { STORED_NAMES_MAX = 10000 }; /* names looked up in the store for one submission */

/* A name of this submission, and the adjacent items with that name. */
struct named {
    const char *name;
    size_t first, count;
    bool is_array;
};

struct resolving {
    struct control *control;
    struct http_request *http;
    struct submission *submission;
    size_t self;         /* index of the item being resolved */
    struct named *names; /* sorted; equal names in the order of the submission */
    size_t name_count;
    size_t asked;    /* names looked up in the store */
    size_t resolved; /* dependencies of all items so far */
    /* Scratch for one item, of WORKLOAD_ARRAY_MAX each; NULL until first needed. */
    struct cluster_after *after;
    uint64_t *ids;
    size_t count;
};

static int add_after(struct error *e, struct resolving *v, uint64_t workload, bool within,
                     bool succeeded)
{
    if (v->count == WORKLOAD_ARRAY_MAX)
        return error_set_field(e, ERR_TOO_LARGE, "after", "more than %d dependencies",
                               WORKLOAD_ARRAY_MAX);
    v->after[v->count++] =
        (struct cluster_after){.workload = workload, .within = within, .succeeded = succeeded};
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->first > y->first) - (x->first < y->first);
}

static int index_names(struct error *e, struct resolving *v, const struct spec_list *specs)
{
    v->names = arena_array(http_request_arena(v->http), specs->count, sizeof *v->names);
    if (!v->names)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    size_t first = 0;
    for (size_t i = 0; i < specs->count; i++) {
        const struct workload_spec *spec = &specs->items[i];
        size_t count = spec->array_count ? (size_t)spec->array_count : 1;
        v->names[i] = (struct named){
            .name = spec->name, .first = first, .count = count, .is_array = spec->array_count > 0};
        first += count;
    }
    v->name_count = specs->count;
    qsort(v->names, v->name_count, sizeof *v->names, by_name);
    return 0;
}

/* Returns the index of the first such name, or its place in the order. */
static size_t find_name(const struct resolving *v, const char *name)
{
    size_t low = 0, high = v->name_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(v->names[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Splits "sweep[3]" into "sweep" and 3. Returns -1 for an array as a whole, and for a number that
 * is not written as in the names of elements. */
static long split_element(const char *name, char base[WORKLOAD_NAME_MAX])
{
    char again[WORKLOAD_NAME_MAX];
    (void)str_copy(base, WORKLOAD_NAME_MAX, name);
    char *bracket = strchr(base, '[');
    if (!bracket)
        return -1;
    *bracket = '\0';
    long element = strtol(bracket + 1, NULL, 10);
    snprintf(again, sizeof again, "[%ld]", element);
    return strcmp(again, name + (bracket - base)) == 0 ? element : WORKLOAD_ARRAY_MAX;
}

/* Resolves a name among earlier items of this submission: an element by its name, an array by its
 * base name. */
static int resolve_within(struct error *e, struct resolving *v, const struct after *after)
{
    char base[WORKLOAD_NAME_MAX];
    long element = split_element(after->name, base);
    size_t before = v->count;
    for (size_t i = find_name(v, base); i < v->name_count; i++) {
        const struct named *n = &v->names[i];
        if (n->first >= v->self || strcmp(n->name, base) != 0)
            break;
        size_t first = element < 0 ? 0 : (size_t)element, end = element < 0 ? n->count : first + 1;
        if (element >= 0 && (!n->is_array || first >= n->count))
            continue;
        for (size_t k = first; k < end; k++) {
            int r = add_after(e, v, n->first + k, true, after->succeeded);
            if (r < 0)
                return r;
        }
    }
    return v->count > before;
}

static int resolve_stored(struct error *e, struct resolving *v, const struct after *after)
{
    struct control *c = v->control;
    const struct store_owner owner = {.uid = v->submission->uid, .user = v->submission->user};
    if (v->asked++ == STORED_NAMES_MAX)
        return error_set_field(e, ERR_TOO_LARGE, "after",
                               "more than %d names to look up in one submission: say ids",
                               STORED_NAMES_MAX);
    int found = store_resolve(e, c->store, &owner, after->name, v->ids, WORKLOAD_ARRAY_MAX);
    if (found == 0)
        return error_set_field(e, ERR_INVALID, "after", "you have no workload named '%s'",
                               after->name);
    for (int i = 0; i < found; i++) {
        int r = add_after(e, v, v->ids[i], false, after->succeeded);
        if (r < 0)
            return r;
    }
    return found;
}

/* Checks the cluster's limits before all dependencies are made. */
static int count_after(struct error *e, struct resolving *v, const struct submission_item *item)
{
    size_t elements = item->spec->array_count ? (size_t)item->spec->array_count : 1;
    v->resolved += item->after_count * elements;
    if (v->resolved > CLUSTER_DEPENDENCIES_MAX)
        return error_set_field(
            e, ERR_TOO_LARGE, "after",
            "more than %d dependencies in all: submit one small task that waits for the array, "
            "and let these wait for that task",
            CLUSTER_DEPENDENCIES_MAX);
    return 0;
}

static int resolve_after(struct error *e, struct resolving *v, struct submission_item *item)
{
    struct arena *arena = http_request_arena(v->http);
    v->count = 0;
    if (item->spec->after_count == 0)
        return 0;
    if (!v->after) {
        v->after = arena_array(arena, WORKLOAD_ARRAY_MAX, sizeof *v->after);
        v->ids = arena_array(arena, WORKLOAD_ARRAY_MAX, sizeof *v->ids);
    }
    if (!v->after || !v->ids)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < item->spec->after_count; i++) {
        const struct after *after = &item->spec->after[i];
        int r;
        if (strspn(after->name, "0123456789") == strlen(after->name)) {
            r = add_after(e, v, strtoull(after->name, NULL, 10), false, after->succeeded);
        } else {
            r = resolve_within(e, v, after);
            if (r == 0)
                r = resolve_stored(e, v, after);
        }
        if (r < 0)
            return r;
    }
    item->after_count = v->count;
    item->after = arena_array(arena, v->count, sizeof *item->after);
    if (!item->after)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    memcpy(item->after, v->after, v->count * sizeof *v->after);
    return count_after(e, v, item);
}

/* ---- expanding ---- */

static int expand(struct error *e, struct control *c, struct http_request *r,
                  const struct spec_list *specs, struct submission *s)
{
    struct arena *arena = http_request_arena(r);
    size_t total = 0;
    for (size_t i = 0; i < specs->count; i++)
        total += specs->items[i].array_count ? (size_t)specs->items[i].array_count : 1;
    if (total > c->cluster_config.queue_max)
        return error_set(e, ERR_QUEUE_FULL, "%zu workloads would pass the limit of %zu (queue_max)",
                         total, c->cluster_config.queue_max);
    s->items = arena_array(arena, total, sizeof *s->items);
    if (!s->items)
        return error_set(e, ERR_TOO_LARGE, "too many workloads in one request");
    struct resolving v = {.control = c, .http = r, .submission = s};
    if (index_names(e, &v, specs) < 0)
        return -ERR_NO_MEMORY;
    for (size_t i = 0; i < specs->count; i++) {
        const struct workload_spec *spec = &specs->items[i];
        v.self = s->count;
        struct submission_item first = {.spec = spec, .name = spec->name, .array_index = -1};
        int result = workload_spec_check_new(e, spec);
        if (result == 0)
            result = check_user(e, c, r, spec);
        if (result == 0)
            result = resolve_after(e, &v, &first);
        if (result < 0) {
            if (specs->count > 1)
                error_prefix_element(e, "workloads", i);
            return result;
        }
        struct str json;
        str_init(&json, SPEC_TEXT_MAX);
        result = spec_write(spec, &json);
        first.spec_json = result == 0 ? arena_strndup(arena, str_text(&json), json.length) : NULL;
        str_done(&json);
        if (!first.spec_json)
            return error_set(e, ERR_TOO_LARGE, "the description is too large");
        int elements = spec->array_count ? spec->array_count : 1;
        for (int k = 0; k < elements; k++) {
            struct submission_item *item = &s->items[s->count++];
            *item = first;
            if (!spec->array_count)
                continue;
            item->array_index = k;
            item->name = arena_printf(arena, "%s[%d]", spec->name, k);
            if (!item->name)
                return error_set(e, ERR_NO_MEMORY, "out of memory");
        }
    }
    return 0;
}

/* ---- responses ---- */

/* note: why the workload waits; NULL: it does not wait, or the reason is unknown. */
static void put_accepted(struct json_writer *out, uint64_t id, const char *name,
                         enum workload_state state, const char *note, bool never)
{
    json_begin_object(out);
    json_put_uint(json_key(out, "id"), id);
    json_put_string(json_key(out, "name"), name);
    json_put_string(json_key(out, "state"), workload_state_name(state));
    json_put_string(json_key(out, "text"), note ? note : "");
    json_put_bool(json_key(out, "never"), never);
    json_end_object(out);
}

static int put_stored(void *arg, const struct store_workload *row)
{
    put_accepted(arg, row->id, row->name, row->state, NULL, false);
    return 0;
}

/* Writes the workloads of the first request, from which a repeated request may differ; the store
 * has their names. A workload that is not live has ended; a deleted workload is left out. */
static int put_all_accepted(struct error *e, struct control *c, const struct submission *s,
                            const struct cluster_action *a, struct json_writer *out)
{
    for (size_t i = 0; i < a->count; i++) {
        uint64_t id = a->first + i;
        const struct workload_status *status =
            c->cluster && !a->repeated ? cluster_live_status(c->cluster, id) : NULL;
        bool never = false;
        const char *note = status ? cluster_note(c->cluster, id, &never) : NULL;
        int r = 0;
        if (status)
            put_accepted(out, id, s->items[i].name, status->state, note, never);
        else
            r = store_get(e, c->store, id, put_stored, out);
        if (r < 0 && r != -ERR_NOT_FOUND)
            return r;
    }
    return 0;
}

static void on_submitted(struct waiter *w, const struct cluster_action *a)
{
    struct control *c = w->control;
    struct http_request *r = w->http;
    const struct submission *s = w->arg;
    waiter_free(w);
    struct error e = {0};
    if (a->result < 0) {
        answer_refused(r, a);
        return;
    }
    struct str json;
    struct json_writer out;
    str_init(&json, HTTP_BODY_MAX);
    json_writer_init(&out, &json);
    json_begin_object(&out);
    json_begin_array(json_key(&out, "workloads"));
    int result = put_all_accepted(&e, c, s, a, &out);
    json_end_array(&out);
    json_put_bool(json_key(&out, "repeated"), a->repeated);
    json_end_object(&out);
    answer_json(r, result, &e, a->repeated ? 200 : 201, &json);
}

static void put_placement(struct json_writer *out, const struct control *c,
                          const struct cluster_preview *p)
{
    json_begin_object(out);
    json_put_string(json_key(out, "node"), p->node);
    show_device_list(out, c, p->node, p->devices, p->device_count);
    json_end_object(out);
}

/* Describes the items for the cluster. */
static void describe(struct control *c, const struct submission *s,
                     struct cluster_submission *ret_items)
{
    uint32_t allowance = allowances_find(c, s->user);
    uint64_t owner = control_owner_number(s->uid, s->user);
    struct policy_known known = {0};
    for (size_t i = 0; i < s->count; i++) {
        const struct submission_item *item = &s->items[i];
        if (i == 0 || item->spec != s->items[i - 1].spec)
            known = control_known(c, c->cluster, s->user, item->spec);
        ret_items[i] = (struct cluster_submission){.name = item->name,
                                                   .needs = &item->spec->needs,
                                                   .node_labels = &item->spec->node_labels,
                                                   .after_count = item->after_count,
                                                   .after = item->after,
                                                   .known = known,
                                                   .allowance = allowance,
                                                   .owner = owner,
                                                   .is_admin = s->is_admin};
    }
}

/* Adds the figures of a target that earlier attempts missed alone; null: none known. */
static void put_unreachable(struct json_writer *out, const struct control *c,
                            const struct submission *s, const struct workload_spec *spec)
{
    double alone_ms = control_alone_ms(c, s->user, spec);
    if (alone_ms <= spec->slo_latency_ms) {
        json_put_null(out);
        return;
    }
    json_begin_object(out);
    json_put_real(json_key(out, "slo_ms"), spec->slo_latency_ms);
    json_put_real(json_key(out, "alone_ms"), alone_ms);
    json_end_object(out);
}

static void answer_preview(const struct control *c, struct http_request *r,
                           const struct submission *s, const struct cluster_preview *previews)
{
    struct str json;
    struct json_writer out;
    str_init(&json, HTTP_BODY_MAX);
    json_writer_init(&out, &json);
    json_begin_object(&out);
    json_begin_array(json_key(&out, "workloads"));
    for (size_t i = 0; i < s->count; i++) {
        json_begin_object(&out);
        json_put_string(json_key(&out, "name"), s->items[i].name);
        if (previews[i].node[0])
            put_placement(json_key(&out, "placement"), c, &previews[i]);
        else
            json_put_null(json_key(&out, "placement"));
        json_put_string(json_key(&out, "text"), previews[i].text);
        json_put_bool(json_key(&out, "never"), previews[i].never);
        put_unreachable(json_key(&out, "unreachable"), c, s, s->items[i].spec);
        json_end_object(&out);
    }
    json_end_array(&out);
    json_end_object(&out);
    http_answer_json(r, 200, str_text(&json), json.length);
    str_done(&json);
}

static int preview(struct error *e, struct control *c, struct http_request *r,
                   const struct submission *s)
{
    struct cluster_submission *items = arena_array(http_request_arena(r), s->count, sizeof *items);
    struct cluster_preview *previews = calloc(s->count + 1, sizeof *previews);
    int result = -ERR_NO_MEMORY;
    if (items && previews) {
        describe(c, s, items);
        result = cluster_preview(e, c->cluster, items, s->count, previews);
    } else {
        error_set(e, ERR_NO_MEMORY, "out of memory");
    }
    if (result == 0)
        answer_preview(c, r, s, previews);
    free(previews);
    return result;
}

static int step_submit(struct error *e, struct control *c, struct http_request *r,
                       struct submission *s)
{
    struct arena *arena = http_request_arena(r);
    struct cluster_submission *items = arena_array(arena, s->count, sizeof *items);
    struct waiter *w = items ? waiter_new(c, r) : NULL;
    if (!w)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    describe(c, s, items);
    w->on_reply = on_submitted;
    w->arg = s;
    struct cluster_event event = {
        .kind = CLUSTER_SUBMIT,
        .request = w->request,
        .submit = {.uid = s->uid, .key = s->key, .count = s->count, .items = items}};
    c->submitting = s;
    int result = control_step(c, &event);
    c->submitting = NULL;
    if (result < 0 && hash_map_get(&c->requests, event.request)) {
        waiter_free(w);
        return error_set(e, ERR_UNAVAILABLE, "the state is being read back; try again in a moment");
    }
    return 0; /* answered already, or later */
}

/* Finds the submitter, and the key for repeated submissions. The cluster distinguishes keys by uid.
 * Accounts known only by name share a uid, so that their keys include the name. */
static int identify(struct error *e, struct control *c, struct http_request *r, const char *key,
                    struct submission *s)
{
    struct arena *arena = http_request_arena(r);
    struct store_owner caller = control_caller(c, r);
    s->uid = caller.uid;
    s->user = arena_strdup(arena, caller.user);
    s->is_admin = control_is_admin(c, r);
    s->key = key;
    if (key && s->user && s->uid == UID_BY_NAME) {
        char *hash = arena_alloc(arena, TOKEN_HASH_TEXT_MAX);
        const char *both = arena_printf(arena, "%s\n%s", s->user, key);
        s->key = hash && both && token_hash(e, both, hash) == 0 ? hash : NULL;
    }
    if (!s->user || (key && !s->key))
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    return 0;
}

void handle_submit(void *context, struct http_request *r)
{
    struct control *c = context;
    struct error e = {0};
    struct arena *arena = http_request_arena(r);
    struct spec_list specs = {0};
    const char *key = http_request_header(r, "Idempotency-Key");
    const char *dry_run = http_request_query(r, "dry_run");
    struct submission *s = arena_alloc(arena, sizeof *s);
    int result = s ? read_specs(&e, r, &specs) : error_set(&e, ERR_NO_MEMORY, "out of memory");
    if (result == 0 && key && (strlen(key) >= WORKLOAD_KEY_MAX || !str_is_utf8(key, strlen(key))))
        result = error_set_field(&e, ERR_INVALID, "Idempotency-Key", "longer than %d bytes",
                                 WORKLOAD_KEY_MAX - 1);
    if (result == 0 && dry_run && strcmp(dry_run, "1") != 0 && strcmp(dry_run, "0") != 0)
        result = error_set_field(&e, ERR_INVALID, "dry_run", "0 or 1, not '%s'", dry_run);
    if (result == 0) {
        result = identify(&e, c, r, key, s);
    }
    if (result == 0)
        result = expand(&e, c, r, &specs, s);
    if (result == 0 && !c->cluster)
        result = error_set(&e, ERR_UNAVAILABLE, "the state is being read back; try again");
    if (result == 0)
        result = dry_run && dry_run[0] == '1' ? preview(&e, c, r, s) : step_submit(&e, c, r, s);
    if (result < 0)
        http_answer_error(r, &e);
}
