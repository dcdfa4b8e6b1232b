#include "way.h"

#include <event2/bufferevent.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "model/workload.h"
#include "tls/certificate.h"
#include "tls/context.h"
#include "tls/files.h"
#include "tls/session.h"
#include "wire/address.h"

enum { CERTIFICATE_LIFE_MS = 24 * 3600 * 1000 };

struct way {
    struct sockaddr_un unix_address; /* without contexts */
    struct address address;
    struct addrinfo *resolved;
    size_t nodes;
    struct tls_context **contexts; /* indexed by node; owned */
};

void way_node_name(size_t node, char *name, size_t size)
{
    snprintf(name, size, "n%04zu", node);
}

int way_new_unix(struct error *e, const char *path, struct way **ret)
{
    struct way *w = calloc(1, sizeof *w);
    if (!w)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    w->unix_address.sun_family = AF_UNIX;
    if (!str_copy(w->unix_address.sun_path, sizeof w->unix_address.sun_path, path)) {
        way_free(w);
        return error_set(e, ERR_INVALID, "the path is too long: %s", path);
    }
    *ret = w;
    return 0;
}

static int make_context(struct error *e, struct way *w, size_t node, const char *ca_key,
                        const char *ca)
{
    char name[NODE_NAME_MAX];
    struct str key, request, certificate;
    str_init(&key, CERTIFICATE_PEM_MAX);
    str_init(&request, CERTIFICATE_PEM_MAX);
    str_init(&certificate, CERTIFICATE_PEM_MAX);
    way_node_name(node, name, sizeof name);
    const struct certificate_order order = {.name = name,
                                            .role = CERTIFICATE_NODE,
                                            .now_wall_ms = clock_wall_ms(),
                                            .life_ms = CERTIFICATE_LIFE_MS};
    int r = certificate_make_request(e, name, &key, &request);
    if (r == 0)
        r = certificate_issue(e, ca_key, ca, str_text(&request), &order, &certificate);
    if (r == 0) {
        const struct tls_trust trust = {.ca = ca};
        const struct tls_identity own = {.key = str_text(&key),
                                         .certificate = str_text(&certificate)};
        r = tls_context_new_client(e, &trust, &own, TLS_NODE, &w->contexts[node]);
    }
    str_done(&key);
    str_done(&request);
    str_done(&certificate);
    return r;
}

static int make_contexts(struct error *e, struct way *w, const char *state)
{
    char path[4096];
    struct str ca_key, ca;
    str_init(&ca_key, CERTIFICATE_PEM_MAX);
    str_init(&ca, CERTIFICATE_PEM_MAX);
    snprintf(path, sizeof path, "%s/tls", state);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = fd < 0 ? error_set_errno(e, ERR_IO, errno, "%s cannot be opened", path) : 0;
    if (r == 0)
        r = tls_read_key(e, fd, "ca.key", &ca_key);
    if (r == 0)
        r = tls_read_certificate(e, fd, "ca.pem", &ca);
    for (size_t i = 0; r == 0 && i < w->nodes; i++)
        r = make_context(e, w, i, str_text(&ca_key), str_text(&ca));
    if (fd >= 0)
        close(fd);
    str_done(&ca_key);
    str_done(&ca);
    return r;
}

int way_new_tls(struct error *e, const char *url, const char *state, size_t nodes, struct way **ret)
{
    const struct addrinfo numeric = {.ai_family = AF_UNSPEC,
                                     .ai_socktype = SOCK_STREAM,
                                     .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct way *w = calloc(1, sizeof *w);
    if (w)
        w->contexts = calloc(nodes, sizeof *w->contexts);
    if (!w || !w->contexts) {
        free(w);
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    }
    w->nodes = nodes;
    int r = address_parse_url(e, url, &w->address);
    if (r == 0 && getaddrinfo(w->address.host, w->address.port, &numeric, &w->resolved) != 0)
        r = error_set(e, ERR_INVALID, "not an address: %s", w->address.host);
    if (r == 0)
        r = make_contexts(e, w, state);
    if (r < 0) {
        way_free(w);
        return r;
    }
    *ret = w;
    return 0;
}

void way_free(struct way *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->nodes; i++)
        tls_context_free(w->contexts[i]);
    free(w->contexts);
    if (w->resolved)
        freeaddrinfo(w->resolved);
    free(w);
}

static struct bufferevent *connect_unix(struct way *w, struct event_base *base)
{
    struct bufferevent *stream =
        bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
    if (stream && bufferevent_socket_connect(stream, (struct sockaddr *)&w->unix_address,
                                             sizeof w->unix_address) < 0) {
        bufferevent_free(stream);
        stream = NULL;
    }
    return stream;
}

struct bufferevent *way_connect(struct way *w, struct event_base *base, size_t node)
{
    if (!w->contexts)
        return connect_unix(w, base);
    const int on = 1;
    struct error e = {0};
    int fd = socket(w->resolved->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 ||
        (connect(fd, w->resolved->ai_addr, w->resolved->ai_addrlen) < 0 && errno != EINPROGRESS)) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return tls_stream_connect(&e, w->contexts[node], base, fd, w->address.host);
}
