/*
 * What a node shows to control over the network, and by what it knows control: its key, its
 * certificate and the authority's, as files of its state directory.
 *
 *   ca.pem        the authority: who has a certificate of it is control, or another node
 *   node.pem      this node's certificate, with its name
 *   node.key      its key, which never leaves this directory
 *   node.key.next the key of a certificate that is being renewed
 *
 * A crash at any moment leaves a key and a certificate that belong together: the next key is
 * durable before its certificate is, and becomes node.key after that.
 */
#pragma once
#include "base/error.h"
#include "base/str.h"
#include "tls/certificate.h"

struct tls_context;

struct credentials {
    struct str ca, key, certificate; /* PEM */
    struct certificate_facts facts;  /* of the certificate */
};

void credentials_init(struct credentials *c);
void credentials_done(struct credentials *c);
/* -ERR_NOT_FOUND: this node has not joined; -ERR_CORRUPT: what is there does not fit together. */
int credentials_load(struct error *e, int directory_fd, struct credentials *c);
/* Makes them durable, replacing others of this node. */
int credentials_store(struct error *e, int directory_fd, const struct credentials *c);
/* Of connections on which a node speaks with control. */
int credentials_context(struct error *e, const struct credentials *c, struct tls_context **ret);
/* Reads what the certificate says. -ERR_DENIED: it is not of this authority, not a node's, or does
 * not belong to the key. */
int credentials_check(struct error *e, struct credentials *c);
