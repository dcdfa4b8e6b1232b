/*
 * The connection of a process to its supervisor, for reports. Replies are read before the next
 * command is sent, so that no call waits for one.
 *
 * A thread that finds the connection in use, and a process that the supervisor has disconnected a
 * short time ago, send over a connection of their own, and close it at once.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/client_internal.h"

enum {
    /* A connection that ends sooner was refused: the supervisor has no room for one more. */
    ROOM_MS = 5000,
    NO_ROOM_MS = 60000, /* time without a connection after that */
};

static void forget(struct gpumux_connection *c)
{
    c->is_open = false;
    c->replies_due = 0;
    c->advice_due = 0;
}

/* Returns a number that no other socket has; 0: not a socket, or an old kernel. */
static uint64_t cookie_of(int fd)
{
    uint64_t cookie = 0;
    socklen_t length = sizeof cookie;
    return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &length) == 0 ? cookie : 0;
}

static bool is_same_file(const struct gpumux_connection *c)
{
    return cookie_of(c->fd) == c->cookie;
}

/* Closes the connection, unless its descriptor now belongs to another file: a program that becomes
 * a daemon closes all descriptors. */
static void end(struct gpumux_connection *c)
{
    if (c->is_open && is_same_file(c))
        close(c->fd);
    forget(c);
}

/* Returns whether this process may use the connection. A child of fork() closes its copy. */
static bool is_usable(struct gpumux_connection *c)
{
    if (!c->is_open)
        return false;
    if (c->owner == getpid() && is_same_file(c))
        return true;
    end(c);
    return false;
}

static int begin(struct gpumux *g, struct gpumux_connection *c)
{
    int fd;
    int r = gpumux_client_connect(g->control_path, &fd);
    if (r < 0)
        return r;
    uint64_t cookie = cookie_of(fd);
    if (cookie == 0) {
        close(fd);
        return -ENOPROTOOPT;
    }
    forget(c);
    c->is_open = true;
    c->fd = fd;
    c->owner = getpid();
    c->cookie = cookie;
    c->since_ms = gpumux_client_clock_ms();
    return 0;
}

/* Takes "ok SEQUENCE BATCH CHECKPOINTS", the answer to "advice". */
static void take_advice(struct gpumux *g, const char *reply)
{
    uint64_t sequence, batch, checkpoints;
    if (sscanf(reply, CONTROL_OK " %20" SCNu64 " %20" SCNu64 " %20" SCNu64, &sequence, &batch,
               &checkpoints) != 3)
        return;
    atomic_store(&g->told_batch, batch);
    atomic_store(&g->told_checkpoints, checkpoints);
    atomic_store(&g->told_sequence, sequence);
}

static void take_reply(struct gpumux *g, struct gpumux_connection *c, const char *reply)
{
    if (c->replies_due == 0)
        return;
    bool was_advice = c->advice_due & 1;
    c->advice_due >>= 1;
    c->replies_due--;
    if (!was_advice)
        return;
    if (strncmp(reply, "error", 5) == 0)
        atomic_store(&g->has_no_advice, true); /* an older supervisor */
    else
        take_advice(g, reply);
}

/* Reads all replies that have arrived. Ends the connection if the supervisor has ended it. */
static void read_replies(struct gpumux *g, struct gpumux_connection *c)
{
    char reply[CONTROL_REPLY_MAX + 1];
    ssize_t n;
    while ((n = recv(c->fd, reply, CONTROL_REPLY_MAX, MSG_DONTWAIT)) > 0) {
        reply[n] = '\0';
        take_reply(g, c, reply);
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    int64_t now_ms = gpumux_client_clock_ms();
    if (now_ms - c->since_ms < ROOM_MS)
        c->without_until_ms = now_ms + NO_ROOM_MS;
    end(c);
}

static int send_now(struct gpumux_connection *c, const char *command, bool is_advice)
{
    if (c->replies_due == GPUMUX_CLIENT_REPLIES_MAX)
        return -EAGAIN; /* the supervisor hangs */
    if (send(c->fd, command, strlen(command), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return -errno;
    if (is_advice)
        c->advice_due |= UINT64_C(1) << c->replies_due;
    c->replies_due++;
    return 0;
}

static int send_over(struct gpumux *g, struct gpumux_connection *c, const char *command,
                     bool is_advice)
{
    if (is_usable(c))
        read_replies(g, c);
    int r = 0;
    bool keeps = c->is_open || gpumux_client_clock_ms() >= c->without_until_ms;
    if (keeps && !c->is_open)
        r = begin(g, c);
    if (r == -ENOPROTOOPT) { /* the kernel cannot tell whether a descriptor is still the same */
        c->without_until_ms = INT64_MAX;
        keeps = false;
    }
    if (!keeps)
        return is_advice ? 0 : gpumux_client_send(g->control_path, command, 0);
    r = r < 0 ? r : send_now(c, command, is_advice);
    if (r == 0 || r == -EAGAIN || !c->is_open)
        return r;
    end(c); /* the supervisor has ended the connection since */
    r = begin(g, c);
    return r < 0 ? r : send_now(c, command, is_advice);
}

/* The lock contains the process, since a child of fork() inherits locks of threads that it does not
 * have. */
static bool try_lock(struct gpumux_connection *c)
{
    int32_t self = (int32_t)getpid(), holder = 0;
    if (atomic_compare_exchange_strong(&c->holder, &holder, self))
        return true;
    return holder != self && atomic_compare_exchange_strong(&c->holder, &holder, self);
}

int gpumux_client_report(struct gpumux *g, const char *command, bool is_advice)
{
    struct gpumux_connection *c = &g->connection;
    if (!try_lock(c))
        return is_advice ? 0 : gpumux_client_send(g->control_path, command, 0);
    int r = send_over(g, c, command, is_advice);
    atomic_store(&c->holder, 0);
    return r;
}

/* Older supervisors lose the last command of a program that closes without reading the replies. */
void gpumux_client_disconnect(struct gpumux *g)
{
    if (is_usable(&g->connection))
        read_replies(g, &g->connection);
    end(&g->connection);
}
