/*
 * POST /v1/join: a node with only a token gets its certificate.
 *
 *   {"token": "gmj_…", "name": "node-1", "csr": "-----BEGIN CERTIFICATE REQUEST-----…"}
 *   {"certificate": "…", "ca": "…"}
 *
 * Before the certificate leaves, it is durable that the token is used and the name taken. A taken
 * name is given again only for a token that is restricted to this name, so that no node can replace
 * another.
 */
#include <stdlib.h>
#include <string.h>

#include "control/authority.h"
#include "control/control_internal.h"
#include "tls/certificate.h"
#include "wire/fields.h"
#include "wire/json_reader.h"
#include "wire/json_writer.h"
#include "wire/record.h"

enum { NODE_RECORD_MAX = 4096, ANSWER_MAX = 64 << 10 };

struct joining {
    struct list link; /* in control.joinings */
    char name[NODE_NAME_MAX];
    struct str certificate;
};

struct question {
    const char *token, *name, *csr;
};

static void joining_free(struct joining *j)
{
    if (!j)
        return;
    list_remove(&j->link);
    str_done(&j->certificate);
    free(j);
}

static int find_name(void *arg, const char *name, bool drained, const char *json)
{
    (void)drained, (void)json;
    return strcmp(arg, name) == 0;
}

/* Returns 1 if a node has this name or is joining with it. */
static int is_taken(struct error *e, struct control *c, const char *name)
{
    list_for_each (it, &c->joinings)
        if (strcmp(list_entry(it, struct joining, link)->name, name) == 0)
            return 1;
    return store_nodes(e, c->store, find_name, (void *)(uintptr_t)name);
}

#define OF struct question
static const struct field question_members[] = {
    FIELD("token", token),
    FIELD("name", name),
    FIELD("csr", csr),
};
#undef OF
static const struct fields question_fields = FIELDS(struct question, question_members);

static int read_question(struct error *e, struct http_request *r, struct question *ret)
{
    static const char *const queries[] = {NULL};
    int result = http_request_check_query(e, r, queries);
    size_t length;
    const char *text = http_request_body(r, &length);
    json_t *body = NULL;
    if (result == 0)
        result = json_parse_object(e, ERR_SYNTAX, text, length, &body);
    if (result < 0)
        return result;
    const struct field_reader reader = {
        .e = e, .code = ERR_INVALID, .arena = http_request_arena(r), .form = FIELDS_API};
    result = fields_take(&reader, &question_fields, body, ret);
    json_decref(body);
    if (result == 0 && !node_name_is_valid(ret->name))
        return error_set_field(e, ERR_INVALID, "name",
                               "a node's name has letters, digits and . _ -, at most %d",
                               NODE_NAME_MAX - 1);
    return result;
}

/* Sends the certificate after the commit. */
static void on_joined(struct waiter *w, const struct cluster_action *a)
{
    struct control *c = w->control;
    struct http_request *r = w->http;
    struct joining *j = w->arg;
    waiter_free(w);
    if (a->result < 0) {
        answer_refused(r, a);
    } else {
        struct str json;
        struct json_writer out;
        str_init(&json, ANSWER_MAX);
        json_writer_init(&out, &json);
        json_begin_object(&out);
        json_put_string(json_key(&out, "certificate"), str_text(&j->certificate));
        json_put_string(json_key(&out, "ca"), authority_certificate(c->authority));
        json_end_object(&out);
        http_answer_json(r, 200, str_text(&json), json.length);
        str_done(&json);
    }
    joining_free(j);
}

/* Records the name as taken before the node's first hello. */
static int book_name(struct control *c, const char *name)
{
    struct node_info *info = calloc(1, sizeof *info);
    struct str json;
    str_init(&json, NODE_RECORD_MAX);
    int r = -ERR_NO_MEMORY;
    if (info && str_copy(info->name, sizeof info->name, name))
        r = record_write_node(info, &json);
    if (r == 0)
        r = store_batch_node(c->filling.batch, name, false, str_text(&json));
    str_done(&json);
    free(info);
    return r;
}

static int admit(struct error *e, struct control *c, struct http_request *r,
                 const struct question *q, struct joining *j)
{
    bool named = false;
    int result = tokens_check_join(e, c, q->token, q->name, &named);
    int taken = result == 0 ? is_taken(e, c, q->name) : result;
    if (taken == 1 && !named)
        return error_set(e, ERR_CONFLICT,
                         "there is a node of the name %s already. Join with another --name; or, if "
                         "this machine takes its place, with a token for that name: gpumux token "
                         "create --role node --name %s",
                         q->name, q->name);
    result = taken;
    if (result >= 0)
        result = network_issue(e, c, q->csr, q->name, &j->certificate);
    if (result < 0)
        return result;
    str_copy(j->name, sizeof j->name, q->name);
    struct waiter *w = waiter_new(c, r);
    if (!w)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    w->on_reply = on_joined;
    w->arg = j;
    int booked = taken ? 0 : book_name(c, q->name);
    result = tokens_take_join(e, c, q->token, q->name, w, booked);
    if (result < 0)
        waiter_free(w);
    else
        list_append(&c->joinings, &j->link);
    return result;
}

void handle_join(void *context, struct http_request *r)
{
    struct control *c = context;
    struct error e = {0};
    struct question q = {0};
    struct joining *j = calloc(1, sizeof *j);
    int result = j ? 0 : error_set(&e, ERR_NO_MEMORY, "out of memory");
    if (j) {
        list_init(&j->link);
        str_init(&j->certificate, CERTIFICATE_PEM_MAX);
    }
    if (result == 0)
        result = read_question(&e, r, &q);
    if (result == 0 && !c->authority)
        result = error_set(&e, ERR_UNAVAILABLE, "this control takes no nodes over the network");
    if (result == 0 && !c->cluster)
        result = error_set(&e, ERR_UNAVAILABLE, "the state is being read back; try again");
    if (result == 0)
        result = admit(&e, c, r, &q, j);
    if (result < 0) {
        joining_free(j);
        http_answer_error(r, &e);
    }
}
