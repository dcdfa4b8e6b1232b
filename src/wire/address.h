/*
 * Where something listens: HOST:PORT, and the URL https://HOST:PORT. A host is a name, an IPv4
 * address, or an IPv6 address in brackets.
 */
#pragma once
#include "base/error.h"
#include "base/str.h"

enum { ADDRESS_HOST_MAX = 254, ADDRESS_PORT_MAX = 6, ADDRESS_TEXT_MAX = 8 + 254 + 2 + 6 };

struct address {
    char host[ADDRESS_HOST_MAX]; /* without brackets */
    char port[ADDRESS_PORT_MAX]; /* a number from 0 to 65535, as getaddrinfo takes it */
};

/* "HOST:PORT", or ":PORT" and "PORT" with the host given. -ERR_INVALID. */
int address_parse(struct error *e, const char *text, const char *host_default, struct address *ret);
/* "https://HOST:PORT", a '/' may follow. -ERR_INVALID: anything else, http:// with a word why. */
int address_parse_url(struct error *e, const char *text, struct address *ret);
/* Appends HOST:PORT, with brackets where they are needed. */
void address_write(const struct address *a, struct str *out);
