/*
 * Network addresses of daemons: HOST:PORT, and the URL https://HOST:PORT. A host is a name, an IPv4
 * address, or an IPv6 address in brackets.
 */
#pragma once
#include "base/error.h"
#include "base/str.h"

enum { ADDRESS_HOST_MAX = 254, ADDRESS_PORT_MAX = 6, ADDRESS_TEXT_MAX = 8 + 254 + 2 + 6 };

struct address {
    char host[ADDRESS_HOST_MAX]; /* host without brackets */
    char port[ADDRESS_PORT_MAX]; /* decimal port from 0 to 65535, as getaddrinfo() takes it */
};

/* Parses "HOST:PORT". With a default host, ":PORT" and "PORT" are accepted too; NULL: no default.
 * Returns 0 or -ERR_INVALID. */
int address_parse(struct error *e, const char *text, const char *host_default, struct address *ret);
/* Parses "https://HOST:PORT", optionally followed by '/'. Returns 0 or -ERR_INVALID; the error for
 * an http:// URL says that gpumux requires TLS. */
int address_parse_url(struct error *e, const char *text, struct address *ret);
/* Appends HOST:PORT; an IPv6 address gets brackets. */
void address_write(const struct address *a, struct str *out);
