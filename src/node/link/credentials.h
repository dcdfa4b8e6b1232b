/*
 * A node's identity on the network, and the authority by which it recognises control, as files of
 * the state directory.
 *
 *   ca.pem        the authority's certificate; peers with a certificate of it are control or nodes
 *   node.pem      this node's certificate, with its name
 *   node.key      this node's key, which never leaves the directory
 *   node.key.next the key of a certificate that is being renewed
 *
 * After a crash at any moment key and certificate belong together: the next key is durable before
 * its certificate, and becomes node.key afterwards.
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
/* -ERR_NOT_FOUND: this node has not joined; -ERR_CORRUPT: the files do not belong together. */
int credentials_load(struct error *e, int directory_fd, struct credentials *c);
/* Writes the files durably, and replaces older ones. */
int credentials_store(struct error *e, int directory_fd, const struct credentials *c);
/* For connections from a node to control. */
int credentials_context(struct error *e, const struct credentials *c, struct tls_context **ret);
/* Fills in the facts of the certificate. -ERR_DENIED: another authority's, not a node's, or not of
 * this key. */
int credentials_check(struct error *e, struct credentials *c);
