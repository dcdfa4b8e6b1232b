/*
 * A node's identity on the network, and the authority by which the node recognises control, as
 * files of the state directory.
 *
 *   ca.pem        the authority's certificate; trusted for peers that are control or nodes
 *   node.pem      this node's certificate, with its name
 *   node.key      this node's key, which never leaves the directory
 *   node.key.next the key of a certificate that is being renewed
 *
 * Key and certificate match after a crash at any moment: the next key is durable before its
 * certificate, and becomes node.key afterwards.
 */
#pragma once
#include "base/error.h"
#include "base/str.h"
#include "tls/certificate.h"

struct tls_context;

struct credentials {
    struct str ca, key, certificate; /* PEM */
    struct certificate_facts facts;  /* facts of the certificate */
};

void credentials_init(struct credentials *c);
void credentials_done(struct credentials *c);
/* Loads the files. Returns 0, -ERR_NOT_FOUND if this node has not joined, or -ERR_CORRUPT if the
 * files do not match. */
int credentials_load(struct error *e, int directory_fd, struct credentials *c);
/* Writes the files durably, and replaces older files. */
int credentials_store(struct error *e, int directory_fd, const struct credentials *c);
/* Makes the TLS context for connections from a node to control. */
int credentials_context(struct error *e, const struct credentials *c, struct tls_context **ret);
/* Reads the facts of the certificate. Returns 0, or -ERR_DENIED for a certificate of another
 * authority, of another role or of another key. */
int credentials_check(struct error *e, struct credentials *c);
