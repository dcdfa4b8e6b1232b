/*
 * Connections of nodes. A link is born by accept, gets its node's name by hello and its session by the
 * cluster's welcome, and dies by error, by refusal, or when its node says hello on a newer one.
 */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/skew.h"
#include "base/version.h"
#include "control/control_internal.h"
#include "wire/spec.h"

enum {
    LINKS_MAX = 4096,
    LINK_OUTPUT_MAX =
        64 << 20, /* a node that does not read is cut off; it gets all again by hello */
    LINK_ARENA_MAX = 64 << 20,
};

struct node_link {
    struct list link; /* control.links */
    struct control *control;
    struct bufferevent *stream;
    char node[NODE_NAME_MAX]; /* "" until hello */
    uint64_t session;         /* 0 until welcome */
    uint64_t request; /* marks its events, so that a refusal finds it; grows with each link */
    size_t device_usage_count;
    struct device_usage device_usage[NODE_DEVICES_MAX];
    size_t attempt_usage_count;
    struct attempt_usage *attempt_usage;
};

static void link_free(struct node_link *link)
{
    struct control *c = link->control;
    list_remove(&link->link);
    bufferevent_free(link->stream);
    list_for_each_safe (it, &c->waiters) {
        struct waiter *w = list_entry(it, struct waiter, link);
        if (w->asked == link)
            w->on_answer(w, NULL);
    }
    free(link->attempt_usage);
    free(link);
}

/* Ends a link and tells the cluster, if it was the one in use. */
static void link_lose(struct node_link *link, const char *why)
{
    struct control *c = link->control;
    char node[NODE_NAME_MAX];
    str_copy(node, sizeof node, link->node);
    uint64_t session = link->session;
    log_write(c->log, session ? LOG_WARN : LOG_INFO, "node connection ended", "node=%s why=\"%s\"",
              node, why);
    link_free(link);
    if (!session)
        return;
    struct cluster_event event = {.kind = CLUSTER_NODE_GONE,
                                  .node = {.node = node, .session = session}};
    (void)control_step(c, &event);
}

static int link_write(struct node_link *link, const struct nodemsg *msg)
{
    struct evbuffer *output = bufferevent_get_output(link->stream);
    struct str line;
    str_init(&line, NODEMSG_LINE_MAX);
    int r = nodemsg_write(msg, &line);
    if (r == 0 && evbuffer_get_length(output) + line.length > LINK_OUTPUT_MAX)
        r = -ERR_UNAVAILABLE;
    if (r == 0 && bufferevent_write(link->stream, str_text(&line), line.length) < 0)
        r = -ERR_NO_MEMORY;
    str_done(&line);
    return r;
}

static void link_refuse(struct node_link *link, const char *text)
{
    struct nodemsg msg = {.type = NODEMSG_REFUSE, .text = text};
    (void)link_write(link, &msg);
    /* Best effort: one write now, since the link ends here. Only its stream may take from its buffer
     * until that is unfrozen. */
    struct evbuffer *output = bufferevent_get_output(link->stream);
    (void)evbuffer_unfreeze(output, 1);
    (void)evbuffer_write(output, bufferevent_getfd(link->stream));
    link_lose(link, text);
}

/* ---- what nodes say ---- */

/* The newest connection of that node which is newer than `after`, or NULL. */
static struct node_link *link_newest(struct control *c, const char *node, uint64_t after)
{
    struct node_link *newest = NULL;
    list_for_each (it, &c->links) {
        struct node_link *link = list_entry(it, struct node_link, link);
        if (strcmp(link->node, node) == 0 && link->request > (newest ? newest->request : after))
            newest = link;
    }
    return newest;
}

static int on_hello(struct node_link *link, const struct nodemsg *msg)
{
    struct control *c = link->control;
    if (msg->protocol != NODEMSG_PROTOCOL || !skew_is_allowed(GPUMUX_VERSION, msg->node->version)) {
        char text[160];
        snprintf(text, sizeof text,
                 "node has gpumux %s (protocol %d), control %s (%d): they may be at most one minor "
                 "version apart",
                 msg->node->version, msg->protocol, GPUMUX_VERSION, NODEMSG_PROTOCOL);
        link_refuse(link, text);
        return -ERR_PROTOCOL;
    }
    if (link->node[0]) {
        link_refuse(link, "a second hello on one connection");
        return -ERR_PROTOCOL;
    }
    if (link_newest(c, msg->node->name, link->request)) {
        link_refuse(link, "this node has said hello on a newer connection");
        return -ERR_CONFLICT;
    }
    str_copy(link->node, sizeof link->node, msg->node->name);
    struct cluster_event event = {
        .kind = CLUSTER_NODE_HELLO,
        .request = link->request,
        .hello = {.info = msg->node, .count = msg->attempt_count, .attempts = msg->attempts}};
    return control_step(c, &event);
}

static void keep_usage(struct node_link *link, const struct nodemsg *msg)
{
    size_t count = msg->device_usage_count;
    link->device_usage_count = count < NODE_DEVICES_MAX ? count : NODE_DEVICES_MAX;
    if (link->device_usage_count)
        memcpy(link->device_usage, msg->device_usage,
               link->device_usage_count * sizeof *msg->device_usage);
    size_t bytes = msg->attempt_usage_count * sizeof *msg->attempt_usage;
    struct attempt_usage *usage = realloc(link->attempt_usage, bytes ? bytes : 1);
    link->attempt_usage_count = usage ? msg->attempt_usage_count : 0;
    if (!usage)
        return;
    link->attempt_usage = usage;
    if (bytes)
        memcpy(usage, msg->attempt_usage, bytes);
}

static void on_answer(struct control *c, const struct nodemsg *msg)
{
    struct waiter *w = hash_map_get(&c->requests, msg->request);
    if (w && w->on_answer)
        w->on_answer(w, msg);
}

/* false: the link is gone. */
static bool on_message(struct node_link *link, const struct nodemsg *msg)
{
    struct control *c = link->control;
    if (msg->type == NODEMSG_HELLO)
        return on_hello(link, msg) == 0;
    struct cluster_event event = {.request = link->request,
                                  .node = {.node = link->node, .session = link->session}};
    switch (msg->type) {
    case NODEMSG_REPORT:
        event.kind = CLUSTER_NODE_REPORT;
        event.node.report = msg->attempts;
        break;
    case NODEMSG_BEAT:
        keep_usage(link, msg);
        event.kind = CLUSTER_NODE_BEAT;
        event.node.beat = msg->beat;
        break;
    case NODEMSG_LOG:
    case NODEMSG_DONE:
        on_answer(c, msg);
        return true;
    default:
        return true; /* a newer version may say more */
    }
    /* A rebuilt cluster closes every link: then this one is gone too. */
    return !link->session || control_step(c, &event) == 0;
}

/* One line; false: the link is gone. */
static bool on_line(struct node_link *link, const char *line, size_t length)
{
    struct arena arena;
    struct error e = {0};
    struct nodemsg msg;
    arena_init(&arena, LINK_ARENA_MAX);
    bool alive;
    if (nodemsg_parse(&e, &arena, line, length, &msg) < 0) {
        link_refuse(link, e.text);
        alive = false;
    } else {
        alive = on_message(link, &msg);
    }
    arena_done(&arena);
    return alive;
}

static void on_readable(struct bufferevent *stream, void *arg)
{
    struct node_link *link = arg;
    struct evbuffer *input = bufferevent_get_input(stream);
    char *line;
    size_t length;
    while ((line = evbuffer_readln(input, &length, EVBUFFER_EOL_LF))) {
        bool alive = on_line(link, line, length);
        free(line);
        if (!alive)
            return;
    }
    if (evbuffer_get_length(input) > NODEMSG_LINE_MAX)
        link_refuse(link, "a message is too long");
}

static void on_ended(struct bufferevent *stream, short what, void *arg)
{
    (void)stream;
    link_lose(arg, what & BEV_EVENT_EOF ? "closed by the node" : "connection error");
}

/* ---- listening ---- */

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address,
                      int length, void *arg)
{
    (void)listener, (void)address, (void)length;
    struct control *c = arg;
    size_t count = 0;
    list_for_each (it, &c->links)
        count++;
    struct ucred peer;
    socklen_t size = sizeof peer;
    bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
                 (peer.uid == 0 || peer.uid == geteuid());
    struct node_link *link = known && count < LINKS_MAX ? calloc(1, sizeof *link) : NULL;
    if (!link) {
        log_write(c->log, LOG_WARN, "node connection refused", "why=\"%s\"",
                  known ? "too many" : "neither root nor our own user");
        close(fd);
        return;
    }
    link->control = c;
    link->request = ++c->request_last;
    link->stream = bufferevent_socket_new(c->base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (!link->stream) {
        close(fd);
        free(link);
        return;
    }
    list_append(&c->links, &link->link);
    bufferevent_setcb(link->stream, on_readable, NULL, on_ended, link);
    bufferevent_setwatermark(link->stream, EV_READ, 0, 2 * NODEMSG_LINE_MAX);
    bufferevent_enable(link->stream, EV_READ | EV_WRITE);
}

int links_listen(struct error *e, struct control *c, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!str_copy(address.sun_path, sizeof address.sun_path, path))
        return error_set(e, ERR_INVALID,
                         "socket path '%s' is longer than %zu bytes: choose a shorter --state",
                         path, sizeof address.sun_path - 1);
    /* The state directory's lock is ours, so a socket that is still here belongs to nobody. */
    (void)unlink(path);
    mode_t mask = umask(0177);
    c->node_listener = evconnlistener_new_bind(c->base, on_accept, c,
                                               LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 128,
                                               (struct sockaddr *)&address, sizeof address);
    int bind_errno = errno;
    umask(mask);
    if (!c->node_listener)
        return error_set_errno(e, ERR_IO, bind_errno, "cannot listen on '%s'", path);
    return 0;
}

void links_close_all(struct control *c)
{
    while (!list_empty(&c->links))
        link_free(list_entry(c->links.next, struct node_link, link));
}

/* ---- what the cluster says ---- */

struct node_link *links_find(struct control *c, const char *node)
{
    list_for_each (it, &c->links) {
        struct node_link *link = list_entry(it, struct node_link, link);
        if (link->session && strcmp(link->node, node) == 0)
            return link;
    }
    return NULL;
}

void links_refuse(struct control *c, const struct cluster_action *reply)
{
    list_for_each_safe (it, &c->links) {
        struct node_link *link = list_entry(it, struct node_link, link);
        if (link->request == reply->request) {
            link_refuse(link, reply->text);
            return;
        }
    }
}

/* The welcome goes to the connection whose hello is the newest; an older one of that node ends. */
static struct node_link *welcome(struct control *c, const struct cluster_action *a)
{
    struct node_link *newest = link_newest(c, a->node, 0);
    list_for_each_safe (it, &c->links) {
        struct node_link *link = list_entry(it, struct node_link, link);
        if (link != newest && link->session && strcmp(link->node, a->node) == 0)
            link_free(link);
    }
    if (newest)
        newest->session = a->session;
    return newest;
}

struct granting {
    struct nodemsg *msg;
    struct node_link *link;
    int result;
};

static int send_grant(void *arg, const struct store_workload *row)
{
    struct granting *g = arg;
    struct grant *grant = &g->msg->grant;
    grant->group = row->group;
    grant->array_index = row->array_index;
    grant->name = row->name;
    grant->uid = row->uid;
    grant->user = row->user;
    grant->spec_json = row->spec;
    g->result = link_write(g->link, g->msg);
    return 0;
}

void links_send(struct control *c, const struct deferred *d)
{
    const struct cluster_action *a = &d->action;
    struct node_link *link =
        a->kind == CLUSTER_SEND_WELCOME ? welcome(c, a) : links_find(c, a->node);
    if (!link || link->session != a->session)
        return; /* gone meanwhile: its next hello brings all of this up again */
    struct nodemsg msg = {.session = a->session,
                          .sequence = a->sequence,
                          .workload = a->workload,
                          .attempt = a->attempt,
                          .grace_ms = a->grace_ms,
                          .beat = a->beat};
    switch (a->kind) {
    case CLUSTER_SEND_WELCOME:
        msg.type = NODEMSG_WELCOME;
        msg.protocol = NODEMSG_PROTOCOL;
        msg.version = GPUMUX_VERSION;
        msg.lease_ms = c->cluster_config.lease_ms;
        msg.fence_ms = c->cluster_config.fence_ms;
        msg.drain_ms = c->cluster_config.drain_ms;
        break;
    case CLUSTER_SEND_GRANT: {
        msg.type = NODEMSG_GRANT;
        msg.grant.workload = a->workload;
        msg.grant.attempt = a->attempt;
        msg.grant.device_count = a->placed->device_count;
        for (int i = 0; i < a->placed->device_count; i++)
            msg.grant.devices[i] = a->placed->devices[i];
        struct granting g = {.msg = &msg, .link = link, .result = -ERR_NOT_FOUND};
        (void)store_get(NULL, c->store, a->workload, send_grant, &g);
        if (g.result == -ERR_UNAVAILABLE)
            link_lose(link, "it does not read what it is sent");
        return;
    }
    case CLUSTER_SEND_STOP:
        msg.type = NODEMSG_STOP;
        break;
    case CLUSTER_SEND_SETTLE:
        msg.type = NODEMSG_SETTLE;
        break;
    default:
        msg.type = NODEMSG_BEAT;
    }
    if (link_write(link, &msg) == -ERR_UNAVAILABLE)
        link_lose(link, "it does not read what it is sent");
}

int link_ask(struct node_link *link, struct waiter *w, struct nodemsg *msg)
{
    msg->request = w->request;
    w->asked = link;
    return link_write(link, msg) < 0 ? -ERR_UNAVAILABLE : 0;
}

const struct device_usage *link_device_usage(const struct node_link *link, const char *uuid)
{
    for (size_t i = 0; link && i < link->device_usage_count; i++)
        if (strcmp(link->device_usage[i].uuid, uuid) == 0)
            return &link->device_usage[i];
    return NULL;
}

const struct attempt_usage *link_attempt_usage(const struct node_link *link, uint64_t workload,
                                               int attempt)
{
    for (size_t i = 0; link && i < link->attempt_usage_count; i++)
        if (link->attempt_usage[i].workload == workload &&
            link->attempt_usage[i].attempt == attempt)
            return &link->attempt_usage[i];
    return NULL;
}
