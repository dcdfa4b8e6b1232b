#include "control/authority.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/durable.h"
#include "tls/certificate.h"
#include "tls/context.h"
#include "tls/files.h"

enum { HOST_NAME_MAX_BYTES = 256, SERVER_HOSTS = 5, PARTS_OF_LIFE = 3 };

#define SERVER_LIFE_MS (INT64_C(90) * 86400000)
#define DUE_MS_MAX     INT64_C(86400000) /* checked at least daily, because clocks may be set */

struct authority {
    int directory_fd;
    struct str url, host, key, certificate;
    struct fingerprint fingerprint;
};

static const char directory_name[] = "tls";

static void init(struct authority *a)
{
    *a = (struct authority){.directory_fd = -1};
    str_init(&a->url, AUTHORITY_URL_MAX);
    str_init(&a->host, AUTHORITY_URL_MAX);
    str_init(&a->key, CERTIFICATE_PEM_MAX);
    str_init(&a->certificate, CERTIFICATE_PEM_MAX);
}

static void done(struct authority *a)
{
    if (a->directory_fd >= 0)
        close(a->directory_fd);
    str_done(&a->url);
    str_done(&a->host);
    str_done(&a->key);
    str_done(&a->certificate);
}

static int open_directory(struct error *e, const char *state_directory, bool make, int *ret_fd)
{
    int state_fd = open(state_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (state_fd < 0)
        return error_set_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno,
                               "%s cannot be opened", state_directory);
    int fd = -1, r = 0;
    if (make && mkdirat(state_fd, directory_name, 0700) < 0 && errno != EEXIST)
        r = error_set_errno(e, ERR_IO, errno, "%s/tls cannot be made", state_directory);
    if (r == 0)
        fd = openat(state_fd, directory_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (r == 0 && fd < 0)
        r = error_set_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno,
                            "%s/tls cannot be opened", state_directory);
    if (r == 0 && make && fsync(state_fd) < 0)
        r = error_set_errno(e, ERR_IO, errno, "%s cannot be made durable", state_directory);
    close(state_fd);
    if (r < 0 && fd >= 0)
        close(fd);
    if (r == 0)
        *ret_fd = fd;
    return r;
}

/* ---- control's own certificate ---- */

/* Issues control's certificate for the host of its URL and for the names of its machine. */
static int issue_server(struct error *e, const struct authority *a, struct str *ret_key,
                        struct str *ret_certificate)
{
    char own[HOST_NAME_MAX_BYTES] = "localhost";
    if (gethostname(own, sizeof own) < 0 || !memchr(own, '\0', sizeof own) || !own[0])
        (void)str_copy(own, sizeof own, "localhost");
    const char *const hosts[SERVER_HOSTS] = {str_text(&a->host), own, "localhost", "127.0.0.1",
                                             "::1"};
    const struct certificate_order order = {.name = "gpumux control",
                                            .role = CERTIFICATE_SERVER,
                                            .hosts = hosts,
                                            .host_count = SERVER_HOSTS,
                                            .now_wall_ms = clock_wall_ms(),
                                            .life_ms = SERVER_LIFE_MS};
    struct str request;
    str_init(&request, CERTIFICATE_PEM_MAX);
    int r = certificate_make_request(e, order.name, ret_key, &request);
    if (r == 0)
        r = certificate_issue(e, str_text(&a->key), str_text(&a->certificate), str_text(&request),
                              &order, ret_certificate);
    str_done(&request);
    return r;
}

/* Writes the key first: after a crash the pair does not match, and is renewed. */
static int renew_server(struct error *e, const struct authority *a)
{
    struct str key, certificate;
    str_init(&key, CERTIFICATE_PEM_MAX);
    str_init(&certificate, CERTIFICATE_PEM_MAX);
    int r = issue_server(e, a, &key, &certificate);
    if (r == 0)
        r = tls_write_key(e, a->directory_fd, "server.key", str_text(&key));
    if (r == 0)
        r = tls_write_certificate(e, a->directory_fd, "server.pem", str_text(&certificate));
    str_done(&key);
    str_done(&certificate);
    return r;
}

static int64_t due_ms(int64_t until_wall_ms, int64_t life_ms, int64_t now_wall_ms)
{
    return until_wall_ms - life_ms / PARTS_OF_LIFE - now_wall_ms;
}

/* Loads control's certificate. Returns -ERR_NOT_FOUND if none is valid for long enough. */
static int load_server(struct error *e, const struct authority *a, struct tls_context **ret,
                       int64_t *ret_due_ms)
{
    struct str key, certificate;
    struct certificate_facts facts;
    str_init(&key, CERTIFICATE_PEM_MAX);
    str_init(&certificate, CERTIFICATE_PEM_MAX);
    int r = -ERR_NOT_FOUND;
    if (tls_read_key(e, a->directory_fd, "server.key", &key) == 0 &&
        tls_read_certificate(e, a->directory_fd, "server.pem", &certificate) == 0 &&
        certificate_read(e, str_text(&certificate), &facts) == 0) {
        const struct tls_identity own = {.key = str_text(&key),
                                         .certificate = str_text(&certificate)};
        int64_t left_ms = due_ms(facts.until_wall_ms, SERVER_LIFE_MS, clock_wall_ms());
        if (left_ms > 0 && tls_context_new_server(e, &own, str_text(&a->certificate), ret) == 0) {
            *ret_due_ms = left_ms < DUE_MS_MAX ? left_ms : DUE_MS_MAX;
            r = 0;
        }
    }
    str_done(&key);
    str_done(&certificate);
    return r;
}

int authority_server_context(struct error *e, const struct authority *a, struct tls_context **ret,
                             int64_t *ret_due_ms)
{
    if (load_server(NULL, a, ret, ret_due_ms) == 0)
        return 0;
    int r = renew_server(e, a);
    return r < 0 ? r : load_server(e, a, ret, ret_due_ms);
}

/* ---- life ---- */

int authority_make(struct error *e, const char *state_directory, const char *url, const char *host)
{
    struct authority a;
    struct stat st;
    init(&a);
    int r = open_directory(e, state_directory, true, &a.directory_fd);
    if (r == 0 && fstatat(a.directory_fd, "ca.pem", &st, AT_SYMLINK_NOFOLLOW) == 0)
        r = error_set(
            e, ERR_CONFLICT,
            "%s/tls has a certificate authority already, which nodes may have joined. For "
            "one more node: gpumux token create --role node. To start over, and have "
            "every node join again, remove %s/tls first",
            state_directory, state_directory);
    str_append(&a.host, host);
    if (r == 0)
        r = certificate_make_ca(e, clock_wall_ms(), &a.key, &a.certificate);
    if (r == 0)
        r = renew_server(e, &a);
    if (r == 0)
        r = durable_write(e, a.directory_fd, "url", url, strlen(url));
    if (r == 0)
        r = durable_write(e, a.directory_fd, "host", host, strlen(host));
    if (r == 0)
        r = tls_write_key(e, a.directory_fd, "ca.key", str_text(&a.key));
    if (r == 0)
        r = tls_write_certificate(e, a.directory_fd, "ca.pem", str_text(&a.certificate));
    done(&a);
    return r;
}

int authority_open(struct error *e, const char *state_directory, struct authority **ret)
{
    struct authority *a = malloc(sizeof *a);
    if (!a)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    init(a);
    int r = open_directory(e, state_directory, false, &a->directory_fd);
    if (r == 0)
        r = tls_read_certificate(e, a->directory_fd, "ca.pem", &a->certificate);
    if (r == -ERR_NOT_FOUND)
        r = error_set(
            e, ERR_NOT_FOUND,
            "there is no certificate authority in %s/tls: 'gpumux control init --state %s "
            "--url https://HOST:PORT' makes one",
            state_directory, state_directory);
    else if (r == 0)
        r = tls_read_key(e, a->directory_fd, "ca.key", &a->key);
    if (r == 0)
        r = durable_read(e, a->directory_fd, "url", geteuid(), &a->url);
    if (r == 0)
        r = durable_read(e, a->directory_fd, "host", geteuid(), &a->host);
    if (r == 0)
        r = fingerprint_of(e, str_text(&a->certificate), &a->fingerprint);
    if (r < 0) {
        authority_free(a);
        return r;
    }
    *ret = a;
    return 0;
}

void authority_free(struct authority *a)
{
    if (a)
        done(a);
    free(a);
}

const char *authority_url(const struct authority *a)
{
    return str_text(&a->url);
}

const char *authority_certificate(const struct authority *a)
{
    return str_text(&a->certificate);
}

const struct fingerprint *authority_fingerprint(const struct authority *a)
{
    return &a->fingerprint;
}

/* ---- nodes ---- */

int authority_issue_node(struct error *e, const struct authority *a, const char *request,
                         const char *name, int64_t life_ms, struct str *ret_certificate)
{
    const struct certificate_order order = {
        .name = name, .role = CERTIFICATE_NODE, .now_wall_ms = clock_wall_ms(), .life_ms = life_ms};
    return certificate_issue(e, str_text(&a->key), str_text(&a->certificate), request, &order,
                             ret_certificate);
}

int64_t authority_renew_ms(int64_t until_wall_ms, int64_t life_ms, int64_t now_wall_ms)
{
    int64_t left_ms = due_ms(until_wall_ms, life_ms, now_wall_ms);
    return left_ms > 0 ? left_ms : 1;
}
