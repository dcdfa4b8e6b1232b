/*
 * Tokens: the table in memory of the stored tokens, their routes, and the tokens with which nodes
 * join. A token is valid once its commit is durable, and invalid at once when revoked, used or
 * expired. An expired token is kept for a while, because the wall clock may be wrong.
 */
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "control/authority.h"
#include "control/control_internal.h"
#include "wire/json_reader.h"
#include "wire/json_writer.h"
#include "wire/spec.h"

#define TTL_DEFAULT_MS      INT64_C(7776000000) /* 90 days */
#define TTL_JOIN_DEFAULT_MS INT64_C(86400000)   /* a day */
#define TTL_LEAST_MS        INT64_C(1000)
#define EXPIRED_KEEP_MS     INT64_C(86400000) /* a day, on the boot clock */

enum { EXPIRY_LOOK_MS = 60000, NOT_READY_LOOK_MS = 1000 };

static const char node_role[] = "node";

/* ---- the table ---- */

static bool has_expired(const struct token *t, int64_t now_wall_ms)
{
    return t->expires_wall_ms && t->expires_wall_ms <= now_wall_ms;
}

static void token_remove(struct token *t)
{
    list_remove(&t->link);
    free(t);
}

static void forget_all(struct control *c)
{
    while (!list_empty(&c->tokens))
        token_remove(list_entry(c->tokens.next, struct token, link));
}

static int load_token(void *arg, const struct store_token *row)
{
    struct control *c = arg;
    struct token *t = calloc(1, sizeof *t);
    if (!t)
        return -ERR_NO_MEMORY;
    *t = (struct token){.id = row->id,
                        .for_node = str_equal(row->role, node_role),
                        .created_wall_ms = row->created_wall_ms,
                        .expires_wall_ms = row->expires_wall_ms};
    if (has_expired(t, clock_wall_ms()))
        t->expired_boot_ms = clock_boot_ms();
    list_append(&c->tokens, &t->link);
    if (str_copy(t->hash, sizeof t->hash, row->hash) &&
        str_copy(t->account, sizeof t->account, row->account) &&
        str_copy(t->creator, sizeof t->creator, row->creator) &&
        (t->for_node || control_role_parse(row->role, &t->role)))
        return 0;
    log_write(c->log, LOG_ERROR, "token rejected", "token=%llu reason=\"unreadable record\"",
              (unsigned long long)row->id);
    token_remove(t);
    return 0;
}

/* Finds the token of a text. The search compares all tokens, so that its time reveals nothing. */
static struct token *find(struct control *c, enum token_kind kind, const char *text)
{
    char hash[TOKEN_HASH_TEXT_MAX];
    struct token *found = NULL;
    if (!token_is_formed(kind, text) || token_hash(NULL, text, hash) < 0)
        return NULL;
    list_for_each (it, &c->tokens) {
        struct token *t = list_entry(it, struct token, link);
        if (token_hash_equal(t->hash, hash) && t->for_node == (kind == TOKEN_JOIN))
            found = t;
    }
    return found && !found->revoked && !has_expired(found, clock_wall_ms()) ? found : NULL;
}

const struct token *tokens_find(struct control *c, const char *text)
{
    return find(c, TOKEN_API, text);
}

static struct token *find_id(struct control *c, uint64_t id)
{
    list_for_each (it, &c->tokens) {
        struct token *t = list_entry(it, struct token, link);
        if (t->id == id && !t->revoked)
            return t;
    }
    return NULL;
}

static const char *role_of(const struct token *t)
{
    return t->for_node ? node_role : control_role_name(t->role);
}

/* ---- changes, added to the filling round ---- */

static int book_event(struct control *c, const struct token *t, const char *what, const char *who,
                      const char *node)
{
    char text[WORKLOAD_TEXT_MAX];
    snprintf(text, sizeof text, "token %llu, role %s%s%s, by %s", (unsigned long long)t->id,
             role_of(t), t->account[0] ? " of " : "", t->account, who);
    struct store_event event = {
        .wall_ms = clock_wall_ms(), .node = node, .what = what, .text = text};
    int r = store_batch_event(c->filling.batch, &event);
    if (r < 0)
        return r;
    return control_log_later(c, what, "token=%llu role=%s account=%s by=%s node=%s",
                             (unsigned long long)t->id, role_of(t), t->account, who, node);
}

static int book_new(struct control *c, const struct token *t)
{
    struct store_token row = {.id = t->id,
                              .hash = t->hash,
                              .role = role_of(t),
                              .account = t->account,
                              .creator = t->creator,
                              .created_wall_ms = t->created_wall_ms,
                              .expires_wall_ms = t->expires_wall_ms};
    int r = store_batch_token(c->filling.batch, &row);
    return r == 0 ? book_event(c, t, "token_created", t->creator, "") : r;
}

static int book_end(struct control *c, const struct token *t, const char *what, const char *who,
                    const char *node)
{
    int r = store_batch_delete_token(c->filling.batch, t->id);
    return r == 0 ? book_event(c, t, what, who, node) : r;
}

/* Arms the timer for the next expiry, or earlier, because the wall clock may jump. */
static void arm(struct control *c, int64_t now_wall_ms)
{
    int64_t wait_ms = EXPIRY_LOOK_MS;
    list_for_each (it, &c->tokens) {
        const struct token *t = list_entry(it, struct token, link);
        int64_t left_ms = t->expires_wall_ms - now_wall_ms;
        if (t->expires_wall_ms && !t->expired_boot_ms && left_ms < wait_ms)
            wait_ms = left_ms > 1 ? left_ms : 1;
    }
    if ((!c->cluster || c->stalled) && wait_ms < NOT_READY_LOOK_MS)
        wait_ms = NOT_READY_LOOK_MS; /* nothing can be stored now */
    const struct timeval wait = {.tv_sec = wait_ms / 1000, .tv_usec = wait_ms % 1000 * 1000};
    evtimer_add(c->token_due, &wait);
}

static int note_expired(struct control *c, struct token *t, int64_t now_boot_ms)
{
    t->expired_boot_ms = now_boot_ms;
    if (t->told)
        return 0;
    t->told = true;
    return control_commit(c, NULL, book_event(c, t, "token_expired", "time", ""));
}

static int forget_expired(struct control *c, struct token *t)
{
    int booked = t->told ? store_batch_delete_token(c->filling.batch, t->id)
                         : book_end(c, t, "token_expired", "time", "");
    token_remove(t);
    return control_commit(c, NULL, booked);
}

/* Ends expired tokens and the streams that they opened. */
static void on_due(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct control *c = arg;
    struct clock_now now = clock_read();
    list_for_each_safe (it, &c->tokens) {
        struct token *t = list_entry(it, struct token, link);
        int r = 0;
        if (!has_expired(t, now.wall_ms)) {
            t->expired_boot_ms = 0; /* or the clock was wrong */
            continue;
        }
        if (t->revoked)
            continue;
        http_server_end_token(c->http, t->id);
        if (!c->cluster || c->stalled)
            continue;
        if (!t->expired_boot_ms)
            r = note_expired(c, t, now.boot_ms);
        else if (now.boot_ms - t->expired_boot_ms >= EXPIRED_KEEP_MS)
            r = forget_expired(c, t);
        if (r < 0)
            break; /* all tokens were read again */
    }
    arm(c, now.wall_ms);
}

static int find_join(struct error *e, struct control *c, const char *text, const char *node,
                     struct token **ret)
{
    struct token *t = find(c, TOKEN_JOIN, text);
    if (!t)
        return error_set(e, ERR_UNAUTHENTICATED,
                         "this token is not known: it was used, was revoked, has expired, or is "
                         "for another gpumux. 'gpumux token create --role node' on control's "
                         "machine makes one");
    if (t->account[0] && strcmp(t->account, node) != 0)
        return error_set(e, ERR_DENIED, "this token is for a node named '%s', not '%s'", t->account,
                         node);
    *ret = t;
    return 0;
}

int tokens_check_join(struct error *e, struct control *c, const char *text, const char *node,
                      bool *ret_named)
{
    struct token *t = NULL;
    int r = find_join(e, c, text, node, &t);
    if (r == 0)
        *ret_named = t->account[0] != '\0';
    return r;
}

int tokens_load(struct error *e, struct control *c)
{
    if (!c->token_due)
        c->token_due = evtimer_new(c->base, on_due, c);
    if (!c->token_due)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    forget_all(c);
    int r = store_tokens(e, c->store, load_token, c, &c->token_last);
    arm(c, clock_wall_ms());
    return r == -ERR_NO_MEMORY ? error_set(e, ERR_NO_MEMORY, "out of memory") : r;
}

void tokens_done(struct control *c)
{
    forget_all(c);
    if (c->token_due)
        event_free(c->token_due);
}

int tokens_take_join(struct error *e, struct control *c, const char *text, const char *node,
                     struct waiter *w, int booked)
{
    struct token *t = NULL;
    int r = find_join(e, c, text, node, &t);
    if (r < 0)
        return r;
    if (booked == 0)
        booked = book_end(c, t, "token_used", node, node);
    token_remove(t);
    if (control_commit(c, w, booked) < 0)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    return 0;
}

/* ---- routes ---- */

static void put_token(struct json_writer *w, const struct token *t)
{
    json_put_uint(json_key(w, "id"), t->id);
    json_put_string(json_key(w, "role"), role_of(t));
    json_put_string(json_key(w, t->for_node ? "name" : "account"),
                    t->account[0] ? t->account : NULL);
    json_put_string(json_key(w, "creator"), t->creator);
    json_put_time(json_key(w, "created"), t->created_wall_ms);
    json_put_time(json_key(w, "expires"), t->expires_wall_ms);
}

void handle_tokens(void *context, struct http_request *r)
{
    static const char *const queries[] = {NULL};
    struct control *c = context;
    struct error e = {0};
    if (http_request_check_query(&e, r, queries) < 0) {
        http_answer_error(r, &e);
        return;
    }
    struct str json;
    struct json_writer w;
    str_init(&json, HTTP_BODY_MAX);
    json_writer_init(&w, &json);
    json_begin_object(&w);
    json_begin_array(json_key(&w, "tokens"));
    list_for_each (it, &c->tokens) {
        const struct token *t = list_entry(it, struct token, link);
        if (t->revoked || has_expired(t, clock_wall_ms()))
            continue;
        json_begin_object(&w);
        put_token(&w, t);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
    http_answer_json(r, 200, str_text(&json), json.length);
    str_done(&json);
}

/* A new token on its way to the store, and its text, which is shown once. */
struct creation {
    struct token *token;
    char text[TOKEN_TEXT_MAX];
};

static void creation_free(struct creation *made)
{
    if (!made)
        return;
    explicit_bzero(made->text, sizeof made->text);
    free(made->token);
    free(made);
}

/* Writes the command with which a node joins; only a control on a network has one. */
static void put_command(struct json_writer *w, const struct control *c, const char *text)
{
    char pin[FINGERPRINT_TEXT_MAX], line[AUTHORITY_URL_MAX + FINGERPRINT_TEXT_MAX + 128];
    if (!c->authority) {
        json_put_null(w);
        return;
    }
    snprintf(line, sizeof line, "gpumux node --control %s --ca %s --token %s",
             authority_url(c->authority),
             fingerprint_format(authority_fingerprint(c->authority), pin), text);
    json_put_string(w, line);
    explicit_bzero(line, sizeof line);
}

static void on_created(struct waiter *w, const struct cluster_action *a)
{
    struct control *c = w->control;
    struct http_request *r = w->http;
    struct creation *made = w->arg;
    waiter_free(w);
    if (a->result < 0) {
        answer_refused(r, a);
        creation_free(made);
        return;
    }
    struct str json;
    struct json_writer out;
    str_init(&json, HTTP_BODY_MAX);
    json_writer_init(&out, &json);
    json_begin_object(&out);
    put_token(&out, made->token);
    json_put_string(json_key(&out, "token"), made->text);
    if (made->token->for_node)
        put_command(json_key(&out, "command"), c, made->text);
    json_end_object(&out);
    http_answer_json(r, 201, str_text(&json), json.length);
    if (json.data)
        explicit_bzero(json.data, json.length);
    str_done(&json);
    list_append(&c->tokens, &made->token->link);
    made->token = NULL;
    creation_free(made);
    arm(c, clock_wall_ms());
}

static bool is_name(const char *text)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t length = strlen(text);
    return length > 0 && length < USER_NAME_MAX && strspn(text, letters) == length &&
           text[0] != '-';
}

static int read_fields(struct error *e, const json_t *body, const char **role, const char **name,
                       const char **ttl)
{
    static const struct {
        const char *key;
        size_t at;
    } fields[] = {{"role", 0}, {"account", 1}, {"name", 1}, {"ttl", 2}};
    const char *values[3] = {NULL, NULL, NULL};
    bool for_node = str_equal(json_string_value(json_object_get(body, "role")), node_role);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)body, key, value)
    {
        size_t i = 0;
        while (i < 4 && strcmp(fields[i].key, key) != 0)
            i++;
        if (i == 4 || strcmp(key, for_node ? "account" : "name") == 0)
            return error_set_field(e, ERR_INVALID, key, "no such key here");
        if (!json_is_string(value))
            return error_set_field(e, ERR_INVALID, key, "must be text");
        values[fields[i].at] = json_string_value(value);
    }
    *role = values[0];
    *name = values[1];
    *ttl = values[2];
    return 0;
}

/* Reads the properties of the requested token. */
static int fill(struct error *e, const json_t *body, struct token *t)
{
    const char *role = NULL, *name = NULL, *ttl = NULL;
    int r = read_fields(e, body, &role, &name, &ttl);
    if (r < 0)
        return r;
    t->for_node = str_equal(role, node_role);
    if (!role || (!t->for_node && !control_role_parse(role, &t->role)))
        return error_set_field(e, ERR_INVALID, "role", "viewer, user, admin or node");
    if (!t->for_node && !name)
        return error_set_field(e, ERR_INVALID, "account", "name the account it acts for");
    if (name && !is_name(name))
        return error_set_field(e, ERR_INVALID, t->for_node ? "name" : "account",
                               "letters, digits and . _ -, at most %d", USER_NAME_MAX - 1);
    int64_t ttl_ms = t->for_node ? TTL_JOIN_DEFAULT_MS : TTL_DEFAULT_MS;
    if (ttl && (r = spec_parse_duration(e, ttl, &ttl_ms)) < 0) {
        error_prefix_field(e, "ttl");
        return r;
    }
    if (ttl_ms < TTL_LEAST_MS || ttl_ms > WORKLOAD_TIME_MS_MAX)
        return error_set_field(e, ERR_INVALID, "ttl", "from 1s to ten years");
    str_copy(t->account, sizeof t->account, name ? name : "");
    t->created_wall_ms = clock_wall_ms();
    t->expires_wall_ms = t->created_wall_ms + ttl_ms;
    return 0;
}

static int create(struct error *e, struct control *c, struct http_request *r, struct creation *made)
{
    size_t length;
    const char *text = http_request_body(r, &length);
    json_t *body;
    int result = json_parse_object(e, ERR_SYNTAX, text, length, &body);
    if (result < 0)
        return result;
    result = fill(e, body, made->token);
    json_decref(body);
    if (result < 0)
        return result;
    size_t count = 0;
    list_for_each (it, &c->tokens)
        count++;
    if (count >= TOKENS_MAX)
        return error_set(e, ERR_CONFLICT,
                         "there are %d tokens already, with those that have just expired: "
                         "revoke some",
                         TOKENS_MAX);
    if (!c->cluster)
        return error_set(e, ERR_UNAVAILABLE, "the state is being read back; try again");
    result = token_make(e, made->token->for_node ? TOKEN_JOIN : TOKEN_API, made->text);
    if (result == 0)
        result = token_hash(e, made->text, made->token->hash);
    if (result < 0)
        return result;
    made->token->id = ++c->token_last;
    str_copy(made->token->creator, sizeof made->token->creator, control_caller(c, r).user);
    struct waiter *w = waiter_new(c, r);
    if (!w)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    w->on_reply = on_created;
    w->arg = made;
    if (control_commit(c, w, book_new(c, made->token)) == 0)
        return 0;
    waiter_free(w);
    return error_set(e, ERR_NO_MEMORY, "out of memory");
}

void handle_token_create(void *context, struct http_request *r)
{
    static const char *const queries[] = {NULL};
    struct control *c = context;
    struct error e = {0};
    struct creation *made = calloc(1, sizeof *made);
    if (made)
        made->token = calloc(1, sizeof *made->token);
    int result = http_request_check_query(&e, r, queries);
    if (!made || !made->token)
        result = error_set(&e, ERR_NO_MEMORY, "out of memory");
    if (result == 0)
        result = create(&e, c, r, made);
    if (result < 0) {
        creation_free(made);
        http_answer_error(r, &e);
    }
}

static void on_revoked(struct waiter *w, const struct cluster_action *a)
{
    struct control *c = w->control;
    struct http_request *r = w->http;
    uint64_t id = *(uint64_t *)w->arg;
    waiter_free(w);
    if (a->result < 0) {
        answer_refused(r, a);
        return;
    }
    list_for_each_safe (it, &c->tokens) {
        struct token *t = list_entry(it, struct token, link);
        if (t->id == id)
            token_remove(t);
    }
    http_answer_text(r, 204, NULL, "", 0);
    http_server_end_token(c->http, id);
}

static int revoke(struct error *e, struct control *c, struct http_request *r)
{
    static const char *const queries[] = {NULL};
    uint64_t id = 0;
    int result = http_request_check_query(e, r, queries);
    if (result == 0)
        result = control_number(e, "id", http_request_part(r, "id"), 1, INT64_MAX, &id);
    if (result < 0)
        return result;
    struct token *t = find_id(c, id);
    if (!t)
        return error_set(e, ERR_NOT_FOUND, "there is no token %llu", (unsigned long long)id);
    if (!c->cluster)
        return error_set(e, ERR_UNAVAILABLE, "the state is being read back; try again");
    uint64_t *kept = arena_alloc(http_request_arena(r), sizeof *kept);
    struct waiter *w = kept ? waiter_new(c, r) : NULL;
    if (!w)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    *kept = id;
    w->on_reply = on_revoked;
    w->arg = kept;
    t->revoked = true;
    if (control_commit(c, w, book_end(c, t, "token_revoked", control_caller(c, r).user, "")) == 0)
        return 0;
    waiter_free(w);
    return error_set(e, ERR_NO_MEMORY, "out of memory");
}

void handle_token_revoke(void *context, struct http_request *r)
{
    struct error e = {0};
    if (revoke(&e, context, r) < 0)
        http_answer_error(r, &e);
}
