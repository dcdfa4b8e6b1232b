#include "node/link/join.h"

#include <fcntl.h>
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "node/link/credentials.h"
#include "node/identity.h"
#include "tls/context.h"
#include "wire/address.h"
#include "wire/http/http_client.h"
#include "wire/json_writer.h"

enum { BODY_MAX = 64 << 10 };

static int open_state(struct error *e, const char *directory, int *ret_fd)
{
    if (mkdir(directory, 0711) < 0 && errno != EEXIST)
        return error_set_errno(e, ERR_IO, errno, "%s cannot be made", directory);
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(e, ERR_IO, errno, "%s cannot be opened", directory);
    *ret_fd = fd;
    return 0;
}

/* Returns whether the present credentials are already those that joining would obtain. */
static bool has_joined(int directory_fd, const struct join_options *o, const char *name,
                       char ret_name[NODE_NAME_MAX])
{
    struct credentials c;
    struct fingerprint ca;
    credentials_init(&c);
    bool joined = credentials_load(NULL, directory_fd, &c) == 0 &&
                  fingerprint_of(NULL, str_text(&c.ca), &ca) == 0 &&
                  fingerprint_equal(&ca, &o->ca) && c.facts.until_wall_ms > clock_wall_ms() &&
                  (!o->name[0] || str_equal(c.facts.name, name)) &&
                  str_copy(ret_name, NODE_NAME_MAX, c.facts.name);
    credentials_done(&c);
    return joined;
}

/* ---- request and response ---- */

static int write_question(const struct join_options *o, const char *name, const char *request,
                          struct str *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_put_string(json_key(&w, "token"), o->token);
    json_put_string(json_key(&w, "name"), name);
    json_put_string(json_key(&w, "csr"), request);
    json_end_object(&w);
    return str_failed(out) ? -ERR_TOO_LARGE : 0;
}

static int read_answer(struct error *e, int status, const char *body, size_t length,
                       struct credentials *c)
{
    json_t *root = json_loadb(body, length, 0, NULL);
    const char *certificate = json_string_value(json_object_get(root, "certificate"));
    const char *ca = json_string_value(json_object_get(root, "ca"));
    const char *detail = json_string_value(json_object_get(root, "detail"));
    int r = 0;
    if (status == 200 && certificate && ca) {
        str_append(&c->certificate, certificate);
        str_append(&c->ca, ca);
    } else if (detail) {
        r = error_set(e, status == 503 ? ERR_UNAVAILABLE : ERR_DENIED, "%s", detail);
    } else {
        r = error_set(e, ERR_PROTOCOL, "control answers with status %d", status);
    }
    json_decref(root);
    return r;
}

static int ask(struct error *e, const struct join_options *o, struct tls_context *context,
               const struct str *question, struct credentials *c)
{
    struct http_client *client = http_client_new_tls(o->control, context, NULL);
    if (!client)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    const struct http_call call = {.method = "POST",
                                   .target = "/v1/join",
                                   .content_type = "application/json",
                                   .body = str_text(question),
                                   .body_length = question->length,
                                   .timeout_ms = o->timeout_ms};
    size_t length;
    int r = http_client_call(e, client, &call);
    if (r == 0) {
        const char *body = http_client_body(client, &length);
        r = read_answer(e, http_client_status(client), body, length, c);
    }
    http_client_free(client);
    return r;
}

/* Checks that the received certificate is for this key and from the named authority. */
static int check(struct error *e, const struct join_options *o, const char *name,
                 struct credentials *c)
{
    struct fingerprint ca;
    int r = fingerprint_of(e, str_text(&c->ca), &ca);
    if (r == 0 && !fingerprint_equal(&ca, &o->ca))
        r = error_set(e, ERR_DENIED, "the authority does not have the fingerprint that was given");
    if (r == 0)
        r = credentials_check(e, c);
    if (r == 0 && !str_equal(c->facts.name, name))
        r = error_set(e, ERR_PROTOCOL, "the certificate is for another name: %s", c->facts.name);
    return r;
}

static int obtain(struct error *e, const struct join_options *o, const char *name,
                  struct credentials *c)
{
    const struct tls_trust trust = {.fingerprint = o->ca};
    struct tls_context *context = NULL;
    struct str request, question;
    str_init(&request, CERTIFICATE_PEM_MAX);
    str_init(&question, BODY_MAX);
    int r = certificate_make_request(e, name, &c->key, &request);
    if (r == 0)
        r = write_question(o, name, str_text(&request), &question);
    if (r == 0)
        r = tls_context_new_client(e, &trust, NULL, TLS_HTTP, &context);
    if (r == 0)
        r = ask(e, o, context, &question, c);
    if (r == 0)
        r = check(e, o, name, c);
    tls_context_free(context);
    str_done(&request);
    str_done(&question);
    return r;
}

int join_cluster(struct error *e, const struct join_options *o, char ret_name[NODE_NAME_MAX],
                 bool *ret_before)
{
    char name[NODE_NAME_MAX];
    int fd = -1;
    int r = identity_name(e, o->name, name);
    if (r == 0)
        r = open_state(e, o->directory, &fd);
    if (r < 0)
        return r;
    *ret_before = has_joined(fd, o, name, ret_name);
    if (!*ret_before) {
        struct credentials c;
        credentials_init(&c);
        r = obtain(e, o, name, &c);
        if (r == 0)
            r = credentials_store(e, fd, &c);
        if (r == 0)
            (void)str_copy(ret_name, NODE_NAME_MAX, name);
        credentials_done(&c);
    }
    close(fd);
    return r;
}
