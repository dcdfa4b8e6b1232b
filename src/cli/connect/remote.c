#include "cli/connect/remote.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "tls/certificate.h"
#include "tls/context.h"
#include "tls/token.h"
#include "wire/http/http_client.h"

enum { TOKEN_FILE_MAX = 4096 };

/* Returns NULL when out of memory or without a home. */
static const char *config_file(struct arena *arena, const char *name)
{
    const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (base && base[0] == '/')
        return arena_printf(arena, "%s/gpumux/%s", base, name);
    return home && home[0] == '/' ? arena_printf(arena, "%s/.config/gpumux/%s", home, name) : NULL;
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* Reads a whole file. secret: only the owner may have access. Returns -ERR_NOT_FOUND without a
 * file. */
static int read_file(struct error *e, const char *path, bool secret, struct str *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0)
        return error_set_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno, "%s", path);
    if (secret && fstat(fd, &st) == 0 && (st.st_mode & 077)) {
        close(fd);
        return error_set(e, ERR_DENIED, "other users may read %s: run chmod 600 %s", path, path);
    }
    char block[4096];
    ssize_t n;
    while ((n = read(fd, block, sizeof block)) > 0 && !str_failed(out))
        str_append_bytes(out, block, (size_t)n);
    int failed = n < 0 ? errno : 0;
    close(fd);
    explicit_bzero(block, sizeof block);
    if (failed)
        return error_set_errno(e, ERR_IO, failed, "%s", path);
    return str_failed(out) ? error_set(e, ERR_TOO_LARGE, "%s is too large", path) : 0;
}

/* ---- certificate authority ---- */

static int find_trust(struct error *e, struct arena *arena, struct remote *r)
{
    const char *given = variable("GPUMUX_CA");
    struct tls_trust trust = {0};
    if (given && str_starts_with(given, "sha256:")) {
        int found = fingerprint_parse(e, given, &trust.fingerprint);
        return found < 0 ? found : tls_context_new_client(e, &trust, NULL, TLS_HTTP, &r->tls);
    }
    const char *path = given ? given : config_file(arena, "ca.pem");
    struct str pem;
    str_init(&pem, CERTIFICATE_PEM_MAX);
    int found = path ? read_file(e, path, false, &pem) : -ERR_NOT_FOUND;
    if (found == -ERR_NOT_FOUND)
        error_set(e, ERR_NOT_FOUND,
                  "no certificate authority is known for %s: set GPUMUX_CA to its fingerprint "
                  "(sha256:…) or to a file with its certificate%s%s",
                  r->url, path ? "; there is no file " : "", path ? path : "");
    trust.ca = str_text(&pem);
    if (found == 0)
        found = tls_context_new_client(e, &trust, NULL, TLS_HTTP, &r->tls);
    str_done(&pem);
    return found;
}

/* ---- token ---- */

static int read_token(struct error *e, struct arena *arena, const char *path, const char **ret)
{
    struct str text;
    str_init(&text, TOKEN_FILE_MAX);
    int r = read_file(e, path, true, &text);
    if (r == 0) {
        size_t length = strcspn(str_text(&text), " \t\r\n");
        *ret = arena_strndup(arena, str_text(&text), length);
    }
    if (text.data)
        explicit_bzero(text.data, text.length);
    str_done(&text);
    return r == 0 && !*ret ? error_set(e, ERR_NO_MEMORY, "out of memory") : r;
}

static int find_token(struct error *e, struct arena *arena, const char **ret)
{
    const char *token = variable("GPUMUX_TOKEN"), *path = variable("GPUMUX_TOKEN_FILE");
    const char *usual = config_file(arena, "token");
    int r = 0;
    if (!token && path)
        r = read_token(e, arena, path, &token);
    else if (!token && usual)
        r = read_token(e, arena, usual, &token);
    if (r == -ERR_NOT_FOUND && !path)
        r = 0; /* gpumux itself reports a missing token, and how to get one */
    if (r == 0 && token && !token_is_formed(TOKEN_API, token))
        r = error_set(e, ERR_INVALID,
                      "the token is not valid: tokens of 'gpumux token create' begin with gmx_");
    if (r == 0)
        *ret = token;
    return r;
}

int remote_find(struct error *e, struct arena *arena, const char *url, struct remote *ret)
{
    struct remote r = {.url = url ? url : variable("GPUMUX_URL")};
    if (!r.url) {
        *ret = r;
        return 0;
    }
    int found = address_parse_url(e, r.url, &r.address);
    if (found == 0)
        found = find_token(e, arena, &r.token);
    if (found == 0)
        found = find_trust(e, arena, &r);
    if (found == 0)
        *ret = r;
    return found;
}

void remote_done(struct remote *r)
{
    tls_context_free(r->tls);
    *r = (struct remote){0};
}

struct http_client *remote_open(const struct remote *r)
{
    return http_client_new_tls(&r->address, r->tls, r->token);
}
