/*
 * Certificates of a cluster: one authority (CA) of its own, made once, and what it issues to
 * control and to nodes. Keys are on the curve P-256. Texts are PEM; what comes out of here is
 * appended to a struct str of the caller's.
 *
 * Everybody makes their own key and sends a request (CSR) that proves to have it; only the public
 * key is taken from the request, what the certificate says is up to the issuer.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum {
    CERTIFICATE_PEM_MAX = 16 << 10, /* of any text here; a chain has two certificates */
    CERTIFICATE_NAME_MAX = 64,      /* with NUL; X.509 allows one byte more */
    CERTIFICATE_HOSTS_MAX = 16,
    CERTIFICATE_EARLY_MS = 300000, /* valid from before now, for clocks that are behind */
};
#define CERTIFICATE_CA_LIFE_MS INT64_C(315360000000) /* ten years */

/* What a certificate is for: stands in its subject as OU and in its extended key usage. */
enum certificate_role { CERTIFICATE_CA, CERTIFICATE_SERVER, CERTIFICATE_NODE };

struct certificate_facts {
    char name[CERTIFICATE_NAME_MAX]; /* CN */
    enum certificate_role role;
    int64_t from_wall_ms, until_wall_ms;
};

struct certificate_order {
    const char *name;
    enum certificate_role role; /* not CERTIFICATE_CA */
    const char *const *hosts;   /* of a server: DNS names and addresses that it answers to */
    size_t host_count;
    int64_t now_wall_ms, life_ms; /* whole seconds are what a certificate can say */
};

int certificate_make_ca(struct error *e, int64_t now_wall_ms, struct str *ret_key,
                        struct str *ret_certificate);
/* A new key, and the request for its certificate. */
int certificate_make_request(struct error *e, const char *name, struct str *ret_key,
                             struct str *ret_request);
/* -ERR_SYNTAX: the request is none; -ERR_DENIED: it is not signed by its own key, or the key is not
 * of our kind; -ERR_INVALID: the order's name or a host does not fit into a certificate. */
int certificate_issue(struct error *e, const char *ca_key, const char *ca_certificate,
                      const char *request, const struct certificate_order *order,
                      struct str *ret_certificate);
/* Of the first certificate in the text. -ERR_SYNTAX: there is none, or not one of a cluster. */
int certificate_read(struct error *e, const char *pem, struct certificate_facts *ret);
/* Whether `pem` was issued by `ca`, is for that role and valid at that time; -ERR_DENIED says why
 * not. */
int certificate_verify(struct error *e, const char *pem, const char *ca, enum certificate_role role,
                       int64_t now_wall_ms);
