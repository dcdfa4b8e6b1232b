/*
 * Certificates of a cluster: its own authority (CA), made once, and the certificates that the
 * authority issues to control and to nodes. Keys are on the curve P-256. Texts are PEM; every
 * result is appended to a struct str of the caller.
 *
 * Each daemon makes its own key and sends a request (CSR) that proves possession of the key. The
 * issuer takes only the public key from the request, and sets every other field itself.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum {
    CERTIFICATE_PEM_MAX = 16 << 10, /* bytes of a PEM text; a chain has two certificates */
    CERTIFICATE_NAME_MAX = 64,      /* bytes with NUL; X.509 allows one byte more */
    CERTIFICATE_HOSTS_MAX = 16,
    CERTIFICATE_EARLY_MS = 300000, /* start of validity before now, for clocks that are behind */
};
#define CERTIFICATE_CA_LIFE_MS INT64_C(315360000000) /* ten years */

/* The purpose of a certificate: the OU of its subject and its extended key usage. */
enum certificate_role { CERTIFICATE_CA, CERTIFICATE_SERVER, CERTIFICATE_NODE };

struct certificate_facts {
    char name[CERTIFICATE_NAME_MAX]; /* CN of the subject */
    enum certificate_role role;
    int64_t from_wall_ms, until_wall_ms;
};

struct certificate_order {
    const char *name;
    enum certificate_role role; /* never CERTIFICATE_CA */
    const char *const *hosts;   /* DNS names and addresses of a server */
    size_t host_count;
    int64_t now_wall_ms, life_ms; /* certificates have a resolution of one second */
};

int certificate_make_ca(struct error *e, int64_t now_wall_ms, struct str *ret_key,
                        struct str *ret_certificate);
/* Makes a new key, and the request for its certificate. */
int certificate_make_request(struct error *e, const char *name, struct str *ret_key,
                             struct str *ret_request);
/* Issues a certificate. Returns 0, -ERR_SYNTAX (no request in the text), -ERR_DENIED (the request's
 * signature does not match its key, or the key is of another kind) or -ERR_INVALID (the order's
 * name or a host does not fit into a certificate). */
int certificate_issue(struct error *e, const char *ca_key, const char *ca_certificate,
                      const char *request, const struct certificate_order *order,
                      struct str *ret_certificate);
/* Reads the facts of the first certificate in the text. Returns 0, or -ERR_SYNTAX if the text has
 * no certificate of a cluster. */
int certificate_read(struct error *e, const char *pem, struct certificate_facts *ret);
/* Checks that `ca` issued `pem` for this role, and that `pem` is valid at this time. Returns 0, or
 * -ERR_DENIED with the reason. */
int certificate_verify(struct error *e, const char *pem, const char *ca, enum certificate_role role,
                       int64_t now_wall_ms);
