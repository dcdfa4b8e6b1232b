#include "wire/address.h"

#include <string.h>

static bool is_host(const char *text, size_t length, bool bracketed)
{
    static const char of_names[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    static const char of_addresses[] = "0123456789abcdefABCDEF:.";
    size_t good = strspn(text, bracketed ? of_addresses : of_names);
    return length > 0 && length < ADDRESS_HOST_MAX && good >= length;
}

static bool is_port(const char *text, size_t length)
{
    unsigned value = 0;
    if (length == 0 || length >= ADDRESS_PORT_MAX)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (unsigned)(text[i] - '0');
    }
    return value <= 65535;
}

/* Parses HOST:PORT of a given length; the host may be empty only if there is a default. */
static bool parse(const char *text, size_t length, const char *host_default, struct address *ret)
{
    struct address a = {0};
    const char *host = text, *colon = NULL;
    size_t host_length = 0;
    bool bracketed = length > 0 && text[0] == '[';
    if (bracketed) {
        const char *end = memchr(text, ']', length);
        if (!end || end + 1 >= text + length || end[1] != ':')
            return false;
        host = text + 1;
        host_length = (size_t)(end - host);
        colon = end + 1;
    } else {
        colon = memchr(text, ':', length);
        host_length = colon ? (size_t)(colon - text) : 0;
    }
    const char *port = colon ? colon + 1 : text;
    size_t port_length = (size_t)(text + length - port);
    if (!is_port(port, port_length))
        return false;
    if (host_length == 0 && !bracketed && host_default) {
        if (!str_copy(a.host, sizeof a.host, host_default))
            return false;
    } else {
        if (!is_host(host, host_length, bracketed))
            return false;
        memcpy(a.host, host, host_length);
    }
    memcpy(a.port, port, port_length);
    *ret = a;
    return true;
}

int address_parse(struct error *e, const char *text, const char *host_default, struct address *ret)
{
    if (parse(text, strlen(text), host_default, ret))
        return 0;
    return error_set(e, ERR_INVALID, "an address must be %s, such as 127.0.0.1:7443, not '%.100s'",
                     host_default ? "[HOST:]PORT" : "HOST:PORT", text);
}

int address_parse_url(struct error *e, const char *text, struct address *ret)
{
    static const char scheme[] = "https://";
    if (str_starts_with(text, "http://"))
        return error_set(
            e, ERR_INVALID,
            "a URL must begin with https://, since gpumux speaks only TLS, not '%.100s'", text);
    if (str_starts_with(text, scheme)) {
        const char *rest = text + sizeof scheme - 1;
        size_t length = strlen(rest);
        if (length > 0 && rest[length - 1] == '/')
            length--;
        if (parse(rest, length, NULL, ret))
            return 0;
    }
    return error_set(e, ERR_INVALID, "a URL must be https://HOST:PORT, not '%.100s'", text);
}

void address_write(const struct address *a, struct str *out)
{
    bool six = strchr(a->host, ':') != NULL;
    str_printf(out, "%s%s%s:%s", six ? "[" : "", a->host, six ? "]" : "", a->port);
}
