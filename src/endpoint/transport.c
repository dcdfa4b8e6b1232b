/* The bytes of a connection on the wire: plain on a unix socket, through TLS on TCP. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "endpoint/connection_internal.h"
#include "tls/session.h"

enum { RECORD_BYTES = 16 << 10 }; /* largest TLS record */

/* Sets errno for a TLS call that failed or must wait. Returns -1. */
static ssize_t not_now(int result)
{
    errno = result < 0 ? ECONNRESET : EAGAIN;
    return -1;
}

static ssize_t receive_tls(struct connection *c, void *data, size_t room)
{
    size_t bytes = 0;
    enum tls_want want;
    int r = tls_session_read(NULL, c->tls, data, room, &bytes, &want);
    if (r < 0 || want == TLS_WANT_READ)
        return not_now(r);
    if (want == TLS_WANT_WRITE) {
        c->read_wants_write = true;
        return not_now(event_add(c->write_event, NULL));
    }
    return (ssize_t)bytes;
}

ssize_t transport_receive(struct connection *c, void *data, size_t room)
{
    return c->tls ? receive_tls(c, data, room) : recv(c->fd, data, room, MSG_DONTWAIT);
}

bool transport_has_more(const struct connection *c)
{
    return c->tls && tls_session_has_more(c->tls);
}

/* Sends head and body of a response in one record. After a partial write the caller offers the same
 * unsent bytes first, as TLS requires. */
static ssize_t send_tls(struct connection *c, const struct iovec *pieces, int count)
{
    char record[RECORD_BYTES];
    size_t length = 0, sent = 0;
    for (int i = 0; i < count && length < sizeof record; i++) {
        size_t room = sizeof record - length;
        size_t here = pieces[i].iov_len < room ? pieces[i].iov_len : room;
        memcpy(record + length, pieces[i].iov_base, here);
        length += here;
    }
    enum tls_want want;
    int r = tls_session_write(NULL, c->tls, record, length, &sent, &want);
    if (r == 0 && want == TLS_WANT_READ)
        r = -ERR_PROTOCOL; /* TLS 1.3 never has to read before it can write */
    return r < 0 || want != TLS_DONE ? not_now(r) : (ssize_t)sent;
}

ssize_t transport_send(struct connection *c, const struct iovec *pieces, int count)
{
    if (c->tls)
        return send_tls(c, pieces, count);
    struct msghdr message = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)count};
    return sendmsg(c->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void transport_end(struct connection *c)
{
    if (c->tls)
        tls_session_shutdown(c->tls);
    (void)shutdown(c->fd, SHUT_WR);
}
