#include "node/link/renewal.h"

#include <event2/event.h>

#include "base/clock.h"
#include "node/agent_internal.h"
#include "node/link/dial.h"

enum {
    /* divisor of the spread: nodes that joined together do not renew at the same moment */
    SPREAD_PART = 20,
    AGAIN_MS = 60000,   /* longest wait for an answer */
    AGAIN_MS_MIN = 500, /* wait for certificates of a few seconds, in tests */
};

static void ask_in(struct agent *a, int64_t wait_ms)
{
    const struct timeval wait = {.tv_sec = wait_ms / 1000, .tv_usec = wait_ms % 1000 * 1000};
    event_add(a->renewal.timer, &wait);
}

static void ask(struct agent *a)
{
    struct renewal *n = &a->renewal;
    struct error e = {0};
    struct str request;
    str_init(&request, CERTIFICATE_PEM_MAX);
    str_clear(&n->key);
    if (certificate_make_request(&e, a->info.name, &n->key, &request) == 0) {
        const struct nodemsg msg = {.type = NODEMSG_RENEW, .pem = str_text(&request)};
        link_send(a, &msg);
    } else {
        log_write(a->log, LOG_ERROR, "certificate request failed", "error=\"%s\"", e.text);
    }
    str_done(&request);
    ask_in(a, n->again_ms);
}

static void on_due(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    ask(arg);
}

void renewal_start(struct agent *a, int64_t renew_ms)
{
    struct renewal *n = &a->renewal;
    if (!a->networked || renew_ms <= 0)
        return;
    if (!n->timer) {
        n->timer = evtimer_new(a->base, on_due, a);
        str_init(&n->key, CERTIFICATE_PEM_MAX);
    }
    if (!n->timer)
        return; /* the next welcome tries again */
    n->again_ms = renew_ms / SPREAD_PART;
    if (n->again_ms > AGAIN_MS)
        n->again_ms = AGAIN_MS;
    if (n->again_ms < AGAIN_MS_MIN)
        n->again_ms = AGAIN_MS_MIN;
    ask_in(a, renew_ms + (int64_t)rng_below(&a->link.rng, (uint64_t)(renew_ms / SPREAD_PART + 1)));
}

void renewal_stop(struct agent *a)
{
    if (a->renewal.timer)
        event_del(a->renewal.timer);
}

void renewal_done(struct agent *a)
{
    if (a->renewal.timer)
        event_free(a->renewal.timer);
    str_done(&a->renewal.key);
}

/* Changes the files first, so that the certificate in use is always the one after a restart. */
static int change(struct error *e, struct agent *a, const char *certificate)
{
    struct credentials next;
    struct tls_context *context;
    credentials_init(&next);
    str_append(&next.ca, str_text(&a->credentials.ca));
    str_append(&next.key, str_text(&a->renewal.key));
    str_append(&next.certificate, certificate);
    int r = credentials_check(e, &next);
    if (r == 0 && !str_equal(next.facts.name, a->info.name))
        r = error_set(e, ERR_PROTOCOL, "it is for a node of the name %s", next.facts.name);
    if (r == 0)
        r = credentials_store(e, a->directory_fd, &next);
    if (r == 0)
        r = credentials_context(e, &next, &context);
    if (r < 0) {
        credentials_done(&next);
        return r;
    }
    dial_trust(a->link.dial, context);
    credentials_done(&a->credentials);
    a->credentials = next;
    return 0;
}

void renewal_take(struct agent *a, const struct nodemsg *msg)
{
    struct error e = {0};
    char until[CLOCK_TEXT_MAX];
    if (!a->networked || a->renewal.key.length == 0)
        return; /* not requested */
    if (change(&e, a, msg->pem) < 0) {
        log_write(a->log, LOG_ERROR, "certificate rejected", "error=\"%s\"", e.text);
        return; /* the request is repeated */
    }
    str_clear(&a->renewal.key);
    log_write(a->log, LOG_INFO, "certificate renewed", "until=%s",
              clock_format(a->credentials.facts.until_wall_ms, until));
    renewal_start(a, msg->renew_ms);
}
