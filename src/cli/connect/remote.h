/*
 * gpumux on another machine: where it is (--url, $GPUMUX_URL), whom to trust there ($GPUMUX_CA: a
 * file with the authority's certificate, or its fingerprint) and the token to show ($GPUMUX_TOKEN,
 * or a file that only its owner may read: $GPUMUX_TOKEN_FILE). The files are looked for in
 * $XDG_CONFIG_HOME/gpumux (~/.config/gpumux) as ca.pem and token.
 */
#pragma once
#include "base/arena.h"
#include "base/error.h"
#include "wire/address.h"

struct http_client;
struct tls_context;

struct remote {
    const char *url; /* NULL: gpumux is on this machine */
    struct address address;
    struct tls_context *tls; /* owned */
    const char *token;       /* in the arena; NULL: none was found */
};

/* url: of --url, or NULL. Leaves ret->url NULL where no URL is given at all. Strings are in the
 * arena. -ERR_INVALID, -ERR_DENIED, -ERR_NOT_FOUND: with a word on what to set. */
int remote_find(struct error *e, struct arena *arena, const char *url, struct remote *ret);
void remote_done(struct remote *r);
/* A client that connects to it, with the token. NULL: no memory. */
struct http_client *remote_open(const struct remote *r);
