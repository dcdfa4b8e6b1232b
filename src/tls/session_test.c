/* Both ends of a connection in one thread, neither of which ever blocks. */
#include <errno.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <openssl/ssl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "tls/session.h"
#include "tls/tls_fixture.h"

enum { HOUR_MS = 3600000, TURNS_MAX = 100 };

/* The common start of all tests: an authority, a server "localhost" and a node "box". */
struct world {
    struct tls_party ca, server, node;
    struct tls_context *serving;
};

static int set_up(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    tls_fixture_ca(&w->ca);
    tls_fixture_issue(&w->ca, "control", CERTIFICATE_SERVER, HOUR_MS, &w->server);
    tls_fixture_issue(&w->ca, "box", CERTIFICATE_NODE, HOUR_MS, &w->node);
    w->serving = tls_fixture_server(&w->ca, &w->server);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    tls_context_free(w->serving);
    tls_fixture_done(&w->ca);
    tls_fixture_done(&w->server);
    tls_fixture_done(&w->node);
    free(w);
    return 0;
}

struct pair {
    int fds[2]; /* server, client */
    struct tls_session *server, *client;
    int server_result, client_result;
    struct error server_error, client_error;
};

static struct tls_context *pinned_client(const struct fingerprint *pin)
{
    struct error e = {0};
    struct tls_trust trust = {.fingerprint = *pin};
    struct tls_context *c = NULL;
    if (tls_context_new_client(&e, &trust, NULL, TLS_HTTP, &c) < 0)
        fail_msg("%s", e.text);
    return c;
}

/* Reads the server's refusal of a certificate, which comes after the client's handshake. */
static void read_verdict(struct pair *p)
{
    char byte;
    size_t bytes;
    enum tls_want want;
    if (p->client_result == 0 && p->server_result < 0)
        p->client_result = tls_session_read(&p->client_error, p->client, &byte, 1, &bytes, &want);
}

static void shake_hands(struct pair *p, struct tls_context *server, struct tls_context *client,
                        const char *host)
{
    *p = (struct pair){0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p->fds), 0);
    assert_int_equal(tls_session_new(&p->server_error, server, p->fds[0], NULL, &p->server), 0);
    assert_int_equal(tls_session_new(&p->client_error, client, p->fds[1], host, &p->client), 0);
    enum tls_want of_server = TLS_WANT_READ, of_client = TLS_WANT_READ;
    for (int i = 0; i < TURNS_MAX && (of_server || of_client); i++) {
        if (of_client && p->client_result == 0)
            p->client_result = tls_session_handshake(&p->client_error, p->client, &of_client);
        if (of_server && p->server_result == 0)
            p->server_result = tls_session_handshake(&p->server_error, p->server, &of_server);
        if (p->client_result < 0 && p->server_result < 0)
            break;
    }
    read_verdict(p);
}

static void pair_done(struct pair *p)
{
    tls_session_free(p->server);
    tls_session_free(p->client);
    for (int i = 0; i < 2; i++)
        if (p->fds[i] >= 0)
            close(p->fds[i]);
}

static void session_delivers_bytes_and_shutdown(void **state)
{
    struct world *w = *state;
    struct pair p;
    struct tls_context *c = tls_fixture_client(&w->ca, NULL, TLS_HTTP);
    shake_hands(&p, w->serving, c, "localhost");
    if (p.client_result < 0 || p.server_result < 0)
        fail_msg("%s / %s", p.client_error.text, p.server_error.text);
    tls_context_free(c); /* the connection lives on */
    struct error e = {0};
    struct certificate_facts facts;
    assert_int_equal(tls_session_peer(&e, p.server, &facts), -ERR_NOT_FOUND);
    assert_int_equal(tls_session_peer(&e, p.client, &facts), 0);
    assert_int_equal(facts.role, CERTIFICATE_SERVER);
    assert_int_equal(tls_session_protocol(p.server), TLS_HTTP);

    char text[8];
    size_t bytes;
    enum tls_want want;
    assert_int_equal(tls_session_read(&e, p.server, text, sizeof text, &bytes, &want), 0);
    assert_int_equal(want, TLS_WANT_READ);
    assert_int_equal(tls_session_write(&e, p.client, "hello", 5, &bytes, &want), 0);
    assert_int_equal(bytes, 5);
    assert_int_equal(tls_session_read(&e, p.server, text, sizeof text, &bytes, &want), 0);
    assert_int_equal(bytes, 5);
    assert_memory_equal(text, "hello", 5);
    tls_session_shutdown(p.client);
    assert_int_equal(tls_session_read(&e, p.server, text, sizeof text, &bytes, &want), 0);
    assert_int_equal(bytes, 0);
    assert_int_equal(want, TLS_DONE);
    pair_done(&p);
}

static void session_certificate_identifies_node(void **state)
{
    struct world *w = *state;
    struct pair p;
    struct certificate_facts facts;
    struct tls_context *c = tls_fixture_client(&w->ca, &w->node, TLS_NODE);
    shake_hands(&p, w->serving, c, "127.0.0.1");
    assert_int_equal(p.server_result, 0);
    assert_int_equal(tls_session_protocol(p.server), TLS_NODE);
    assert_int_equal(tls_session_peer(NULL, p.server, &facts), 0);
    assert_string_equal(facts.name, "box");
    assert_int_equal(facts.role, CERTIFICATE_NODE);
    tls_context_free(c);
    pair_done(&p);
}

static void pinned_authority_fingerprint_authenticates_server(void **state)
{
    struct world *w = *state;
    struct pair p;
    struct fingerprint pin;
    assert_int_equal(fingerprint_of(NULL, str_text(&w->ca.certificate), &pin), 0);
    struct tls_context *c = pinned_client(&pin);
    shake_hands(&p, w->serving, c, "::1");
    assert_int_equal(p.client_result, 0);
    assert_int_equal(p.server_result, 0);
    pair_done(&p);
    shake_hands(&p, w->serving, c, "elsewhere.example");
    assert_int_equal(p.client_result, -ERR_DENIED);
    pair_done(&p);
    tls_context_free(c);

    /* The server's own certificate cannot issue others. */
    assert_int_equal(fingerprint_of(NULL, str_text(&w->server.certificate), &pin), 0);
    c = pinned_client(&pin);
    shake_hands(&p, w->serving, c, "localhost");
    assert_int_equal(p.client_result, -ERR_DENIED);
    pair_done(&p);
    tls_context_free(c);
    pin.bytes[0] ^= 1;
    c = pinned_client(&pin);
    shake_hands(&p, w->serving, c, "localhost");
    assert_int_equal(p.client_result, -ERR_DENIED);
    assert_non_null(strstr(p.client_error.text, "fingerprint"));
    assert_true(p.server_result < 0);
    pair_done(&p);
    tls_context_free(c);
}

static void foreign_authority_is_refused_both_ways(void **state)
{
    struct world *w = *state;
    struct tls_party other, stranger;
    struct pair p;
    tls_fixture_ca(&other);
    tls_fixture_issue(&other, "box", CERTIFICATE_NODE, HOUR_MS, &stranger);

    struct tls_context *c = tls_fixture_client(&other, NULL, TLS_HTTP);
    shake_hands(&p, w->serving, c, "localhost");
    assert_int_equal(p.client_result, -ERR_DENIED);
    assert_int_equal(p.server_result, -ERR_DENIED);
    pair_done(&p);
    tls_context_free(c);

    c = tls_fixture_client(&w->ca, &stranger, TLS_NODE);
    shake_hands(&p, w->serving, c, "localhost");
    assert_int_equal(p.server_result, -ERR_DENIED);
    assert_int_equal(p.client_result, -ERR_DENIED);
    pair_done(&p);
    tls_context_free(c);
    tls_fixture_done(&other);
    tls_fixture_done(&stranger);
}

static void expired_and_misused_certificates_are_refused(void **state)
{
    struct world *w = *state;
    struct tls_party expired;
    struct pair p;
    tls_fixture_issue(&w->ca, "box", CERTIFICATE_NODE, -2000, &expired);
    struct tls_context *c = tls_fixture_client(&w->ca, &expired, TLS_NODE);
    shake_hands(&p, w->serving, c, "localhost");
    assert_int_equal(p.server_result, -ERR_DENIED);
    assert_non_null(strstr(p.server_error.text, "expired"));
    assert_int_equal(p.client_result, -ERR_DENIED);
    assert_non_null(strstr(p.client_error.text, "expired"));
    pair_done(&p);
    tls_context_free(c);
    tls_fixture_done(&expired);

    /* A node that acts as server. */
    struct tls_context *server = tls_fixture_server(&w->ca, &w->node);
    c = tls_fixture_client(&w->ca, NULL, TLS_HTTP);
    shake_hands(&p, server, c, "localhost");
    assert_int_equal(p.client_result, -ERR_DENIED);
    pair_done(&p);
    tls_context_free(server);
    tls_context_free(c);
}

static void handshake_error_names_foreign_protocol(void **state)
{
    struct world *w = *state;
    static const struct {
        const char *sent, *says;
    } cases[] = {{"GET / HTTP/1.1\r\n\r\n", "plain HTTP"}, {"\x80\x80 nothing known", "not TLS"}};
    for (size_t i = 0; i < 2; i++) {
        int fds[2];
        struct error e = {0};
        struct tls_session *s;
        enum tls_want want;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
        assert_int_equal(tls_session_new(&e, w->serving, fds[0], NULL, &s), 0);
        assert_true(write(fds[1], cases[i].sent, strlen(cases[i].sent)) > 0);
        assert_int_equal(tls_session_handshake(&e, s, &want), -ERR_PROTOCOL);
        assert_non_null(strstr(e.text, cases[i].says));
        tls_session_free(s);
        close(fds[0]);
        close(fds[1]);
    }
    /* A client of OpenSSL alone, limited to TLS 1.2. */
    SSL_CTX *old = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_max_proto_version(old, TLS1_2_VERSION);
    SSL *client = SSL_new(old);
    int fds[2];
    struct error e = {0};
    struct tls_session *s;
    enum tls_want want;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    SSL_set_fd(client, fds[1]);
    assert_true(SSL_connect(client) <= 0);
    assert_int_equal(tls_session_new(&e, w->serving, fds[0], NULL, &s), 0);
    assert_int_equal(tls_session_handshake(&e, s, &want), -ERR_PROTOCOL);
    assert_non_null(strstr(e.text, "TLS 1.3"));
    tls_session_free(s);
    SSL_free(client);
    SSL_CTX_free(old);
    close(fds[0]);
    close(fds[1]);
}

static void session_peer_gone_fails_without_signal(void **state)
{
    struct world *w = *state;
    struct pair p;
    struct tls_context *c = tls_fixture_client(&w->ca, NULL, TLS_HTTP);
    shake_hands(&p, w->serving, c, "localhost");
    tls_session_free(p.server);
    p.server = NULL;
    close(p.fds[0]);
    p.fds[0] = -1;
    struct error e = {0};
    size_t bytes;
    enum tls_want want;
    int r = 0;
    for (int i = 0; i < TURNS_MAX && r == 0; i++)
        r = tls_session_write(&e, p.client, "x", 1, &bytes, &want);
    assert_int_equal(r, -ERR_UNAVAILABLE);
    pair_done(&p);
    tls_context_free(c);
}

/* ---- streams ---- */

struct ends {
    struct event_base *base;
    int connected, failed;
    struct error error;
};

static void on_event(struct bufferevent *stream, short what, void *arg)
{
    struct ends *ends = arg;
    if (what & BEV_EVENT_CONNECTED)
        ends->connected++;
    if (what & (BEV_EVENT_ERROR | BEV_EVENT_EOF)) {
        ends->failed++;
        tls_stream_error(&ends->error, stream);
    }
    event_base_loopbreak(ends->base);
}

static void on_read(struct bufferevent *stream, void *arg)
{
    (void)stream;
    event_base_loopbreak(((struct ends *)arg)->base);
}

static void shake_stream(struct tls_session *server, struct ends *ends)
{
    enum tls_want want = TLS_WANT_READ;
    for (int i = 0; i < 10 * TURNS_MAX && want && !ends->failed; i++) {
        assert_true(event_base_loop(ends->base, EVLOOP_NONBLOCK) >= 0);
        if (want && tls_session_handshake(&ends->error, server, &want) < 0)
            break;
    }
}

static void session_becomes_working_stream(void **state)
{
    struct world *w = *state;
    struct ends ends = {.base = event_base_new()};
    struct tls_context *c = tls_fixture_client(&w->ca, &w->node, TLS_NODE);
    int fds[2];
    struct tls_session *server;
    struct certificate_facts facts;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    assert_int_equal(tls_session_new(NULL, w->serving, fds[0], NULL, &server), 0);
    struct bufferevent *near = tls_stream_connect(NULL, c, ends.base, fds[1], "localhost");
    assert_non_null(near);
    bufferevent_setcb(near, on_read, NULL, on_event, &ends);
    bufferevent_enable(near, EV_READ | EV_WRITE);
    shake_stream(server, &ends);
    assert_int_equal(ends.failed, 0);
    while (!ends.connected)
        event_base_loop(ends.base, EVLOOP_ONCE);
    assert_int_equal(tls_session_peer(NULL, server, &facts), 0);
    assert_string_equal(facts.name, "box");
    struct bufferevent *far = tls_session_into_stream(server, ends.base, fds[0]);
    assert_non_null(far);
    bufferevent_setcb(far, on_read, NULL, on_event, &ends);
    bufferevent_enable(far, EV_READ | EV_WRITE);
    bufferevent_write(near, "beat\n", 5);
    event_base_dispatch(ends.base);
    char text[8];
    assert_int_equal(bufferevent_read(far, text, sizeof text), 5);
    assert_memory_equal(text, "beat\n", 5);
    bufferevent_free(near);
    bufferevent_free(far);
    tls_context_free(c);
    event_base_free(ends.base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(session_delivers_bytes_and_shutdown, set_up, tear_down),
        cmocka_unit_test_setup_teardown(session_certificate_identifies_node, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pinned_authority_fingerprint_authenticates_server, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(foreign_authority_is_refused_both_ways, set_up, tear_down),
        cmocka_unit_test_setup_teardown(expired_and_misused_certificates_are_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(handshake_error_names_foreign_protocol, set_up, tear_down),
        cmocka_unit_test_setup_teardown(session_peer_gone_fails_without_signal, set_up, tear_down),
        cmocka_unit_test_setup_teardown(session_becomes_working_stream, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
