#include "tls/tls_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/clock.h"

static void party_init(struct tls_party *p)
{
    str_init(&p->key, CERTIFICATE_PEM_MAX);
    str_init(&p->certificate, CERTIFICATE_PEM_MAX);
}

void tls_fixture_done(struct tls_party *p)
{
    str_done(&p->key);
    str_done(&p->certificate);
}

struct tls_identity tls_fixture_identity(const struct tls_party *p)
{
    return (struct tls_identity){.key = str_text(&p->key),
                                 .certificate = str_text(&p->certificate)};
}

void tls_fixture_ca(struct tls_party *ret)
{
    struct error e = {0};
    party_init(ret);
    if (certificate_make_ca(&e, clock_wall_ms(), &ret->key, &ret->certificate) < 0)
        fail_msg("%s", e.text);
}

void tls_fixture_issue(const struct tls_party *ca, const char *name, enum certificate_role role,
                       int64_t life_ms, struct tls_party *ret)
{
    static const char *const hosts[] = {"localhost", "127.0.0.1", "::1"};
    struct str request;
    struct error e = {0};
    party_init(ret);
    str_init(&request, CERTIFICATE_PEM_MAX);
    struct certificate_order order = {.name = name,
                                      .role = role,
                                      .hosts = hosts,
                                      .host_count = role == CERTIFICATE_SERVER ? 3 : 0,
                                      .now_wall_ms = clock_wall_ms(),
                                      .life_ms = life_ms};
    if (certificate_make_request(&e, name, &ret->key, &request) < 0 ||
        certificate_issue(&e, str_text(&ca->key), str_text(&ca->certificate), str_text(&request),
                          &order, &ret->certificate) < 0)
        fail_msg("%s", e.text);
    str_done(&request);
}

struct tls_context *tls_fixture_server(const struct tls_party *ca, const struct tls_party *own)
{
    struct error e = {0};
    struct tls_context *c = NULL;
    struct tls_identity identity = tls_fixture_identity(own);
    if (tls_context_new_server(&e, &identity, str_text(&ca->certificate), &c) < 0)
        fail_msg("%s", e.text);
    return c;
}

struct tls_context *tls_fixture_client(const struct tls_party *ca, const struct tls_party *own,
                                       enum tls_protocol protocol)
{
    struct error e = {0};
    struct tls_context *c = NULL;
    struct tls_trust trust = {.ca = str_text(&ca->certificate)};
    struct tls_identity identity = own ? tls_fixture_identity(own) : (struct tls_identity){0};
    if (tls_context_new_client(&e, &trust, own ? &identity : NULL, protocol, &c) < 0)
        fail_msg("%s", e.text);
    return c;
}
