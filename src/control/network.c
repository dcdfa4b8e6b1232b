/* Control on the network: one port for the API and for nodes, with TLS only. */
#include <event2/event.h>

#include "base/clock.h"
#include "control/authority.h"
#include "control/control_internal.h"
#include "tls/certificate.h"
#include "tls/context.h"
#include "wire/address.h"

/* pause after a certificate could not be made, for example on a full disk */
enum { RETRY_MS = 60000 };

static void on_node(void *context, struct bufferevent *stream, const struct certificate_facts *peer)
{
    (void)links_take(context, stream, peer);
}

static void arm(struct control *c, int64_t wait_ms)
{
    const struct timeval wait = {.tv_sec = wait_ms / 1000, .tv_usec = wait_ms % 1000 * 1000};
    evtimer_add(c->tls_due, &wait);
}

/* Renews the certificate. Open connections keep the certificate with which they began. */
static void on_due(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct control *c = arg;
    struct error e = {0};
    struct tls_context *context;
    int64_t due_ms;
    if (authority_server_context(&e, c->authority, &context, &due_ms) < 0) {
        log_write(c->log, LOG_ERROR, "control certificate renewal failed", "error=\"%s\"", e.text);
        arm(c, RETRY_MS);
        return;
    }
    http_server_replace_tls(c->http, context);
    tls_context_free(c->tls);
    c->tls = context;
    arm(c, due_ms);
}

int network_listen(struct error *e, struct control *c, const struct address *at)
{
    int64_t due_ms = 0;
    int r = authority_open(e, c->directory, &c->authority);
    if (r == 0)
        r = authority_server_context(e, c->authority, &c->tls, &due_ms);
    if (r == 0)
        r = http_server_listen_tls(e, c->http, at->host, at->port, c->tls, on_node, &c->port);
    if (r < 0)
        return r;
    c->tls_due = evtimer_new(c->base, on_due, c);
    if (!c->tls_due)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    arm(c, due_ms);
    return 0;
}

void network_done(struct control *c)
{
    if (c->tls_due)
        event_free(c->tls_due);
    tls_context_free(c->tls);
    authority_free(c->authority);
}

int network_issue(struct error *e, const struct control *c, const char *request, const char *name,
                  struct str *ret_certificate)
{
    if (!c->authority)
        return error_set(e, ERR_UNSUPPORTED, "this control is not on a network");
    return authority_issue_node(e, c->authority, request, name, c->config->node_certificate_ms,
                                ret_certificate);
}

int64_t network_renew_ms(const struct control *c, int64_t until_wall_ms)
{
    return authority_renew_ms(until_wall_ms, c->config->node_certificate_ms, clock_wall_ms());
}
