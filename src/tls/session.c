#include "tls/session.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tls/tls_internal.h"

struct tls_session {
    SSL *ssl;
    bool is_client;
};

/* ---- errors ---- */

static int peer_refused(struct error *e, unsigned long code)
{
    int reason = ERR_GET_REASON(code);
    switch (reason) {
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
        return error_set(e, ERR_DENIED, "our certificate has expired, says the other side");
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
        return error_set(e, ERR_DENIED,
                         "our certificate is from another authority, says the other side");
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        return error_set(e, ERR_DENIED, "our certificate is not accepted: %s",
                         ERR_reason_error_string(code));
    default:
        return 0;
    }
}

/* Sets the error for a failed handshake, or for a failed read after a handshake. */
static int explain(struct error *e, SSL *ssl, unsigned long code)
{
    long verified = ssl ? SSL_get_verify_result(ssl) : X509_V_OK;
    if (verified == TLS_WRONG_FINGERPRINT)
        return error_set(e, ERR_DENIED,
                         "the other side's authority does not have the expected fingerprint");
    if (verified != X509_V_OK)
        return error_set(e, ERR_DENIED, "the other side's certificate is not accepted: %s",
                         X509_verify_cert_error_string(verified));
    int r = ERR_GET_LIB(code) == ERR_LIB_SSL ? peer_refused(e, code) : 0;
    if (r < 0)
        return r;
    switch (ERR_GET_REASON(code)) {
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
        return error_set(e, ERR_PROTOCOL, "plain HTTP, where TLS is spoken");
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_BAD_RECORD_TYPE:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
        return error_set(e, ERR_PROTOCOL, "not TLS");
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
        return error_set(e, ERR_PROTOCOL, "older than TLS 1.3");
    default:
        return error_set(e, ERR_PROTOCOL, "TLS failed: %s",
                         code ? ERR_reason_error_string(code) : "no reason was given");
    }
}

/* Evaluates a call whose result was ≤ 0. */
static int judge(struct error *e, struct tls_session *s, int result, int saved_errno,
                 enum tls_want *ret_want)
{
    int kind = SSL_get_error(s->ssl, result);
    unsigned long code = ERR_peek_error();
    ERR_clear_error();
    switch (kind) {
    case SSL_ERROR_WANT_READ:
        *ret_want = TLS_WANT_READ;
        return 0;
    case SSL_ERROR_WANT_WRITE:
        *ret_want = TLS_WANT_WRITE;
        return 0;
    case SSL_ERROR_ZERO_RETURN:
        *ret_want = TLS_DONE;
        return 0;
    case SSL_ERROR_SYSCALL:
        return error_set_errno(e, ERR_UNAVAILABLE, saved_errno ? saved_errno : ECONNRESET,
                               "the connection broke");
    default:
        return explain(e, s->ssl, code);
    }
}

/*
 * ---- SIGPIPE: a broken pipe is an error, not the end of a command ----
 * OpenSSL writes with write(2). Daemons ignore SIGPIPE; a command keeps SIGPIPE for its output.
 */

struct quiet {
    bool on;
    sigset_t before;
};

static void quiet_begin(const struct tls_session *s, struct quiet *q)
{
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    q->on = s->is_client && pthread_sigmask(SIG_BLOCK, &pipe, &q->before) == 0 &&
            !sigismember(&q->before, SIGPIPE);
}

static void quiet_end(const struct quiet *q)
{
    if (!q->on)
        return;
    int saved = errno;
    sigset_t pipe;
    const struct timespec now = {0};
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    (void)sigtimedwait(&pipe, NULL, &now);
    (void)pthread_sigmask(SIG_SETMASK, &q->before, NULL);
    errno = saved;
}

/* ---- sessions ---- */

/* Sets the name or address that the peer's certificate must have. */
static bool expect_host(SSL *ssl, const char *host)
{
    unsigned char address[16];
    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

static int ssl_new(struct error *e, struct tls_context *context, const char *host, SSL **ret)
{
    ERR_clear_error();
    SSL *ssl = SSL_new(context->ssl);
    if (!ssl || (host && !expect_host(ssl, host))) {
        SSL_free(ssl);
        return tls_error(e, ERR_NO_MEMORY, "starting TLS");
    }
    *ret = ssl;
    return 0;
}

int tls_session_new(struct error *e, struct tls_context *context, int fd, const char *host,
                    struct tls_session **ret)
{
    SSL *ssl;
    int r = ssl_new(e, context, host, &ssl);
    if (r < 0)
        return r;
    struct tls_session *s = calloc(1, sizeof *s);
    if (!s || SSL_set_fd(ssl, fd) != 1) {
        SSL_free(ssl);
        free(s);
        return tls_error(e, ERR_NO_MEMORY, "starting TLS");
    }
    *s = (struct tls_session){.ssl = ssl, .is_client = host != NULL};
    if (host)
        SSL_set_connect_state(ssl);
    else
        SSL_set_accept_state(ssl);
    *ret = s;
    return 0;
}

void tls_session_free(struct tls_session *s)
{
    if (!s)
        return;
    SSL_free(s->ssl);
    free(s);
}

int tls_session_handshake(struct error *e, struct tls_session *s, enum tls_want *ret_want)
{
    struct quiet q;
    quiet_begin(s, &q);
    ERR_clear_error();
    errno = 0;
    int result = SSL_do_handshake(s->ssl);
    int saved = errno;
    quiet_end(&q);
    if (result == 1) {
        *ret_want = TLS_DONE;
        return 0;
    }
    enum tls_want want;
    int r = judge(e, s, result, saved, &want);
    if (r == 0 && want == TLS_DONE)
        return error_set(e, ERR_UNAVAILABLE, "the other side closed the connection");
    if (r == 0)
        *ret_want = want;
    return r;
}

int tls_session_read(struct error *e, struct tls_session *s, void *data, size_t room,
                     size_t *ret_bytes, enum tls_want *ret_want)
{
    struct quiet q;
    size_t bytes = 0;
    quiet_begin(s, &q); /* a read may answer the peer's key update */
    ERR_clear_error();
    errno = 0;
    int result = SSL_read_ex(s->ssl, data, room, &bytes);
    int saved = errno;
    quiet_end(&q);
    enum tls_want want = TLS_DONE;
    int r = result == 1 ? 0 : judge(e, s, result, saved, &want);
    if (r < 0)
        return r;
    *ret_bytes = result == 1 ? bytes : 0;
    *ret_want = want;
    return 0;
}

bool tls_session_has_more(const struct tls_session *s)
{
    return SSL_pending(s->ssl) > 0;
}

int tls_session_write(struct error *e, struct tls_session *s, const void *data, size_t length,
                      size_t *ret_bytes, enum tls_want *ret_want)
{
    struct quiet q;
    size_t bytes = 0;
    quiet_begin(s, &q);
    ERR_clear_error();
    errno = 0;
    int result = length > 0 ? SSL_write_ex(s->ssl, data, length, &bytes) : 1;
    int saved = errno;
    quiet_end(&q);
    enum tls_want want = TLS_DONE;
    int r = result == 1 ? 0 : judge(e, s, result, saved, &want);
    if (r == 0 && result != 1 && want == TLS_DONE)
        r = error_set(e, ERR_UNAVAILABLE, "the other side closed the connection");
    if (r < 0)
        return r;
    *ret_bytes = result == 1 ? bytes : 0;
    *ret_want = want;
    return 0;
}

void tls_session_shutdown(struct tls_session *s)
{
    struct quiet q;
    quiet_begin(s, &q);
    if (SSL_is_init_finished(s->ssl))
        (void)SSL_shutdown(s->ssl);
    quiet_end(&q);
    ERR_clear_error();
}

enum tls_protocol tls_session_protocol(const struct tls_session *s)
{
    const unsigned char *name;
    unsigned length;
    SSL_get0_alpn_selected(s->ssl, &name, &length);
    return length == strlen("gpumux-node/1") ? TLS_NODE : TLS_HTTP;
}

int tls_session_peer(struct error *e, const struct tls_session *s, struct certificate_facts *ret)
{
    X509 *certificate = SSL_get0_peer_certificate(s->ssl);
    if (!certificate)
        return error_set(e, ERR_NOT_FOUND, "the other side showed no certificate");
    return certificate_facts_of_x509(e, certificate, ret);
}

/* ---- streams ---- */

struct bufferevent *tls_session_into_stream(struct tls_session *s, struct event_base *base, int fd)
{
    struct bufferevent *stream = bufferevent_openssl_socket_new(
        base, fd, s->ssl, BUFFEREVENT_SSL_OPEN, BEV_OPT_CLOSE_ON_FREE);
    if (!stream) {
        SSL_free(s->ssl);
        close(fd);
    }
    free(s);
    return stream;
}

struct bufferevent *tls_stream_connect(struct error *e, struct tls_context *context,
                                       struct event_base *base, int fd, const char *host)
{
    SSL *ssl;
    if (ssl_new(e, context, host, &ssl) < 0) {
        close(fd);
        return NULL;
    }
    struct bufferevent *stream = bufferevent_openssl_socket_new(
        base, fd, ssl, BUFFEREVENT_SSL_CONNECTING, BEV_OPT_CLOSE_ON_FREE);
    if (!stream) {
        SSL_free(ssl);
        close(fd);
        error_set(e, ERR_NO_MEMORY, "starting TLS");
    }
    return stream;
}

int tls_stream_error(struct error *e, struct bufferevent *stream)
{
    unsigned long code = bufferevent_get_openssl_error(stream);
    SSL *ssl = bufferevent_openssl_get_ssl(stream);
    if (!code && (!ssl || SSL_get_verify_result(ssl) == X509_V_OK))
        return error_set(e, ERR_UNAVAILABLE, "the connection broke");
    /* SSL_ERROR_SYSCALL, which is no code of OpenSSL's queue, is libevent's code for a failed
     * socket, also while connecting. */
    if (code == SSL_ERROR_SYSCALL)
        return error_set(e, ERR_UNAVAILABLE, "the connection failed");
    return explain(e, ssl, code);
}
