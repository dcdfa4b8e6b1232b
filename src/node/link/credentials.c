#include "node/link/credentials.h"

#include <stdio.h>
#include <unistd.h>

#include "tls/context.h"
#include "tls/files.h"

static const char ca_file[] = "ca.pem", certificate_file[] = "node.pem", key_file[] = "node.key",
                  next_key_file[] = "node.key.next";

void credentials_init(struct credentials *c)
{
    *c = (struct credentials){0};
    str_init(&c->ca, CERTIFICATE_PEM_MAX);
    str_init(&c->key, CERTIFICATE_PEM_MAX);
    str_init(&c->certificate, CERTIFICATE_PEM_MAX);
}

void credentials_done(struct credentials *c)
{
    str_done(&c->ca);
    str_done(&c->key);
    str_done(&c->certificate);
}

int credentials_context(struct error *e, const struct credentials *c, struct tls_context **ret)
{
    const struct tls_trust trust = {.ca = str_text(&c->ca)};
    const struct tls_identity own = {.key = str_text(&c->key),
                                     .certificate = str_text(&c->certificate)};
    return tls_context_new_client(e, &trust, &own, TLS_NODE, ret);
}

int credentials_check(struct error *e, struct credentials *c)
{
    struct tls_context *context;
    struct certificate_facts facts;
    int r = certificate_read(e, str_text(&c->certificate), &facts);
    /* The check is for the time of issue: control, whose clock counts, decides about expiry. */
    if (r == 0)
        r = certificate_verify(e, str_text(&c->certificate), str_text(&c->ca), CERTIFICATE_NODE,
                               facts.from_wall_ms + CERTIFICATE_EARLY_MS);
    if (r == 0)
        r = credentials_context(e, c, &context);
    if (r < 0)
        return r;
    tls_context_free(context);
    c->facts = facts;
    return 0;
}

static int sync_rename(struct error *e, int directory_fd, const char *from, const char *to)
{
    if (renameat(directory_fd, from, directory_fd, to) < 0 || fsync(directory_fd) < 0)
        return error_set_errno(e, ERR_IO, errno, "%s cannot become %s", from, to);
    return 0;
}

int credentials_load(struct error *e, int directory_fd, struct credentials *c)
{
    int r = tls_read_certificate(e, directory_fd, ca_file, &c->ca);
    if (r == 0)
        r = tls_read_certificate(e, directory_fd, certificate_file, &c->certificate);
    if (r == 0)
        r = tls_read_key(e, directory_fd, key_file, &c->key);
    /* A node stopped while joining or renewing has only a next key, or lacks the last step. */
    if (r == 0 && credentials_check(e, c) == 0)
        return 0;
    if (r < 0 && r != -ERR_NOT_FOUND)
        return r;
    bool whole = r == 0;
    str_clear(&c->key);
    if (c->certificate.length > 0 &&
        tls_read_key(NULL, directory_fd, next_key_file, &c->key) == 0 &&
        credentials_check(NULL, c) == 0)
        return sync_rename(e, directory_fd, next_key_file, key_file);
    if (!whole)
        return r;
    return error_set(e, ERR_CORRUPT,
                     "node.pem, node.key and ca.pem do not belong together: put them back from a "
                     "copy, or join again with a new token");
}

int credentials_store(struct error *e, int directory_fd, const struct credentials *c)
{
    int r = tls_write_certificate(e, directory_fd, ca_file, str_text(&c->ca));
    if (r == 0)
        r = tls_write_key(e, directory_fd, next_key_file, str_text(&c->key));
    if (r == 0)
        r = tls_write_certificate(e, directory_fd, certificate_file, str_text(&c->certificate));
    if (r == 0)
        r = sync_rename(e, directory_fd, next_key_file, key_file);
    return r;
}
