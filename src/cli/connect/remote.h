/*
 * A gpumux on another machine: its address (--url, $GPUMUX_URL), its authority ($GPUMUX_CA: a file
 * with the authority's certificate, or its fingerprint) and the token to send ($GPUMUX_TOKEN, or a
 * file that only its owner may read: $GPUMUX_TOKEN_FILE). Default files are ca.pem and token in
 * $XDG_CONFIG_HOME/gpumux (~/.config/gpumux).
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
    const char *token;       /* in the arena; NULL: none */
};

/* Finds the address for `url` of --url (NULL: not given). Without any URL, ret->url is NULL.
 * Strings are in the arena. Returns 0, or -ERR_INVALID, -ERR_DENIED or -ERR_NOT_FOUND; the error
 * names the setting to change. */
int remote_find(struct error *e, struct arena *arena, const char *url, struct remote *ret);
void remote_done(struct remote *r);
/* Makes a client for this address with the token. Returns NULL when out of memory. */
struct http_client *remote_open(const struct remote *r);
