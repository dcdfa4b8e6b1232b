/*
 * Connections of nodes. accept() makes a link; hello sets its node's name, and the cluster's
 * welcome its session. A link ends by an error, by silence, by refusal, or when its node says hello
 * on a newer link.
 *
 * A node on this machine connects through a unix socket, and is trusted if it runs as root or as
 * control's own user. A node on the network has a certificate, and must say hello with the name in
 * its certificate.
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

#include "base/clock.h"
#include "base/skew.h"
#include "base/version.h"
#include "control/control_internal.h"
#include "tls/certificate.h"
#include "wire/spec.h"

enum {
    LINKS_MAX = 4096,
    LINK_OUTPUT_MAX =
        /* bytes of output for a node that does not read, whose link is then closed; the next hello
         * repeats everything */
    64 << 20,
    LINK_ARENA_MAX = 64 << 20,
    HELLO_MS = 15000,        /* longest time from accept() to hello */
    SILENCE_MS_LEAST = 1000, /* shortest silence that ends a link, however short the lease is */
    PARTING_MS = 2000,       /* time in which a refused node can read the reason */
    LISTEN_AGAIN_MS = 200,   /* pause after descriptors or memory were exhausted */
};

struct node_link {
    struct list link; /* in control.links */
    struct control *control;
    struct bufferevent *stream;
    char certified[NODE_NAME_MAX]; /* name in the certificate; "": from the unix socket */
    int64_t certified_until_wall_ms;
    char node[NODE_NAME_MAX]; /* "" until hello */
    char instance[NODE_INSTANCE_MAX];
    uint64_t session; /* 0 until welcome */
    /* number of the node's events, by which a refusal finds the link; increases with each link */
    uint64_t request;
    int device_count; /* number of devices in the hello */
    struct {
        char uuid[DEVICE_UUID_MAX];
        struct forecast_device type;
    } devices[NODE_DEVICES_MAX];
    size_t device_usage_count;
    struct device_usage device_usage[NODE_DEVICES_MAX];
    size_t attempt_usage_count;
    struct attempt_usage *attempt_usage;
};

/* A refused connection, open until the node has read the reason. */
struct parting {
    struct list link; /* in control.partings */
    struct bufferevent *stream;
    struct event *limit;
};

/* A session whose connection ended while stalled; its node may continue it on a new connection. */
struct broken_session {
    /* in control.broken_sessions, which never has more entries than there were links */
    struct list link;
    char node[NODE_NAME_MAX];
    char instance[NODE_INSTANCE_MAX];
    uint64_t session;
};

/* Frees the link. Returns its stream, which the caller owns; NULL: none. */
static struct bufferevent *link_release(struct node_link *link)
{
    struct control *c = link->control;
    struct bufferevent *stream = link->stream;
    list_remove(&link->link);
    if (link->session)
        hash_map_remove(&c->links_by_session, link->session);
    list_for_each_safe (it, &c->waiters) {
        struct waiter *w = list_entry(it, struct waiter, link);
        if (w->asked == link)
            w->on_answer(w, NULL);
    }
    free(link->attempt_usage);
    free(link);
    return stream;
}

static void link_free(struct node_link *link)
{
    bufferevent_free(link_release(link));
}

static void tell_gone(struct control *c, const char *node, uint64_t session)
{
    struct cluster_event event = {.kind = CLUSTER_NODE_GONE,
                                  .node = {.node = node, .session = session}};
    (void)control_step(c, &event);
}

static void keep_session(const struct node_link *link)
{
    struct broken_session *broken = calloc(1, sizeof *broken);
    if (!broken)
        return; /* then the node's lease expires */
    str_copy(broken->node, sizeof broken->node, link->node);
    str_copy(broken->instance, sizeof broken->instance, link->instance);
    broken->session = link->session;
    list_append(&link->control->broken_sessions, &broken->link);
}

static void broken_session_free(struct broken_session *broken)
{
    list_remove(&broken->link);
    free(broken);
}

/* Ends a link, and reports the loss to the cluster if the link had a session. */
static struct bufferevent *link_end(struct node_link *link, const char *why)
{
    struct control *c = link->control;
    char node[NODE_NAME_MAX];
    str_copy(node, sizeof node, link->node);
    uint64_t session = link->session;
    log_write(c->log, session ? LOG_WARN : LOG_INFO, "node connection ended",
              "node=%s certificate=%s reason=\"%s\"", node, link->certified, why);
    if (session && c->stalled)
        keep_session(link);
    struct bufferevent *stream = link_release(link);
    if (session)
        tell_gone(c, node, session);
    return stream;
}

static void link_lose(struct node_link *link, const char *why)
{
    bufferevent_free(link_end(link, why));
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

/* ---- refusing: the node reads the reason before the connection ends ---- */

static void parting_free(struct parting *p)
{
    list_remove(&p->link);
    bufferevent_free(p->stream);
    event_free(p->limit);
    free(p);
}

static void on_parting_over(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    parting_free(arg);
}

static void on_parting_ended(struct bufferevent *stream, short what, void *arg)
{
    (void)stream, (void)what;
    parting_free(arg);
}

/* Reads and drops: closing a connection with unread bytes resets it, and the reason is lost. */
static void on_parting_readable(struct bufferevent *stream, void *arg)
{
    (void)arg;
    struct evbuffer *input = bufferevent_get_input(stream);
    (void)evbuffer_drain(input, evbuffer_get_length(input));
}

static void part(struct control *c, struct bufferevent *stream)
{
    static const struct timeval limit = {.tv_sec = PARTING_MS / 1000};
    struct parting *p = calloc(1, sizeof *p);
    if (p)
        p->limit = evtimer_new(c->base, on_parting_over, p);
    if (!p || !p->limit || evtimer_add(p->limit, &limit) < 0) {
        if (p && p->limit)
            event_free(p->limit);
        free(p);
        bufferevent_free(stream);
        return;
    }
    p->stream = stream;
    list_append(&c->partings, &p->link);
    bufferevent_set_timeouts(stream, NULL, NULL);
    bufferevent_setcb(stream, on_parting_readable, NULL, on_parting_ended, p);
}

static void link_refuse(struct node_link *link, const char *text)
{
    struct control *c = link->control;
    struct nodemsg msg = {.type = NODEMSG_REFUSE, .text = text};
    (void)link_write(link, &msg);
    part(c, link_end(link, text));
}

/* ---- messages of nodes ---- */

/* Returns whether the same node, not another of the same name, said hello on a newer connection. */
static bool has_newer(const struct node_link *than, const struct node_info *info)
{
    list_for_each (it, &than->control->links) {
        const struct node_link *link = list_entry(it, struct node_link, link);
        if (link->request > than->request && strcmp(link->node, info->name) == 0 &&
            strcmp(link->instance, info->instance) == 0)
            return true;
    }
    return false;
}

static bool is_of(const struct node_link *link, const char *node, const char *instance)
{
    return strcmp(link->node, node) == 0 && strcmp(link->instance, instance) == 0;
}

/* Returns the session that the node had when storing failed, on a connection that has ended or is
 * broken unnoticed; 0: none. */
static uint64_t session_of(const struct node_link *newer)
{
    struct control *c = newer->control;
    uint64_t session = 0;
    list_for_each (it, &c->links) {
        const struct node_link *link = list_entry(it, struct node_link, link);
        if (link->session && is_of(newer, link->node, link->instance))
            session = link->session;
    }
    list_for_each_safe (it, &c->broken_sessions) {
        struct broken_session *broken = list_entry(it, struct broken_session, link);
        if (!is_of(newer, broken->node, broken->instance))
            continue;
        session = broken->session;
        broken_session_free(broken);
    }
    return session;
}

/* While stalled, no session is opened, but a node may continue its open session on a new
 * connection, and thus keep its lease (hold_lease()). */
static int take_up_session(struct node_link *link)
{
    struct control *c = link->control;
    const struct deferred welcome = {.action = {.kind = CLUSTER_SEND_WELCOME,
                                                .request = link->request,
                                                .node = link->node,
                                                .session = session_of(link)}};
    if (!welcome.action.session)
        return -ERR_UNAVAILABLE;
    links_send(c, &welcome);
    return hash_map_get(&c->links_by_session, welcome.action.session) == link ? 0
                                                                              : -ERR_UNAVAILABLE;
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
    if (link->certified[0] && strcmp(link->certified, msg->node->name) != 0) {
        char text[160 + 3 * NODE_NAME_MAX];
        snprintf(text, sizeof text,
                 "the certificate is for a node of the name %s, not %s: start it as that, or join "
                 "again with a token for %s",
                 link->certified, msg->node->name, msg->node->name);
        link_refuse(link, text);
        return -ERR_DENIED;
    }
    if (has_newer(link, msg->node)) {
        link_refuse(link, "this node has said hello on a newer connection");
        return -ERR_CONFLICT;
    }
    str_copy(link->node, sizeof link->node, msg->node->name);
    str_copy(link->instance, sizeof link->instance, msg->node->instance);
    link->device_count = msg->node->device_count;
    for (int i = 0; i < link->device_count; i++) {
        str_copy(link->devices[i].uuid, DEVICE_UUID_MAX, msg->node->devices[i].uuid);
        forecast_device_make(&msg->node->devices[i], &link->devices[i].type);
    }
    if (c->stalled)
        return take_up_session(link);
    struct cluster_event event = {.kind = CLUSTER_NODE_HELLO,
                                  .request = link->request,
                                  .hello = {.info = msg->node,
                                            .count = msg->attempt_count,
                                            .attempts = msg->attempts,
                                            .health_count = msg->health_count,
                                            .health = msg->health}};
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

/* Passes the reported usage to learning. */
static void learn_usage(const struct node_link *link)
{
    for (int i = 0; link->session && i < link->device_count; i++) {
        const struct device_usage *usage = link_device_usage(link, link->devices[i].uuid);
        if (usage)
            control_learn(link->control, link, link->node, usage, &link->devices[i].type);
    }
}

static void on_answer(struct control *c, const struct nodemsg *msg)
{
    struct waiter *w = hash_map_get(&c->requests, msg->request);
    if (w && w->on_answer)
        w->on_answer(w, msg);
}

/* Issues a new certificate for a node with a valid one: the same name, another key. */
static void on_renew(struct node_link *link, const char *request)
{
    struct control *c = link->control;
    struct error e = {0};
    struct str pem;
    struct certificate_facts facts;
    str_init(&pem, CERTIFICATE_PEM_MAX);
    int r = link->certified[0] ? network_issue(&e, c, request, link->certified, &pem)
                               : error_set(&e, ERR_INVALID, "it has none");
    if (r == 0)
        r = certificate_read(&e, str_text(&pem), &facts);
    if (r == 0) {
        const struct nodemsg msg = {.type = NODEMSG_CERTIFICATE,
                                    .pem = str_text(&pem),
                                    .renew_ms = network_renew_ms(c, facts.until_wall_ms)};
        link->certified_until_wall_ms = facts.until_wall_ms;
        (void)link_write(link, &msg); /* on failure the node asks again */
    } else {
        log_write(c->log, LOG_WARN, "node certificate renewal failed", "node=%s error=\"%s\"",
                  link->node, e.text);
    }
    str_done(&pem);
}

/*
 * Handles a message while stalled. Control decides nothing, so that no other node gets this node's
 * tasks, and extends its lease. The next hello repeats every fact except the notes of devices,
 * which are logged. Returns false if the link is gone.
 */
static bool hold_lease(struct node_link *link, const struct nodemsg *msg)
{
    const struct nodemsg answer = {
        .type = NODEMSG_BEAT, .session = link->session, .beat = msg->beat};
    if (msg->type != NODEMSG_BEAT)
        return true;
    for (size_t i = 0; i < msg->note_count; i++)
        log_write(link->control->log, LOG_WARN, "device note dropped",
                  "node=%s device=%s reason=stalled detail=\"%s\"", link->node, msg->notes[i].uuid,
                  msg->notes[i].text);
    if (link_write(link, &answer) != -ERR_UNAVAILABLE)
        return true;
    link_lose(link, "it does not read what it is sent");
    return false;
}

/* Returns false if the link is gone. */
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
        if (link->certified[0] && clock_wall_ms() > link->certified_until_wall_ms) {
            link_refuse(link,
                        "the certificate of this node has expired, and it did not renew it: join "
                        "again with a new token");
            return false;
        }
        keep_usage(link, msg);
        learn_usage(link);
        event.kind = CLUSTER_NODE_BEAT;
        event.node.beat = msg->beat;
        event.node.health_count = msg->health_count;
        event.node.health = msg->health;
        event.node.note_count = msg->note_count;
        event.node.notes = msg->notes;
        break;
    case NODEMSG_LOG:
    case NODEMSG_DONE:
        on_answer(c, msg);
        return true;
    case NODEMSG_RENEW:
        if (link->session)
            on_renew(link, msg->pem);
        return true;
    default:
        return true; /* message of a newer version */
    }
    if (!link->session)
        return true;
    if (c->stalled)
        return hold_lease(link, msg);
    /* A rebuilt cluster closes every link, this one included. */
    return control_step(c, &event) == 0;
}

/* Handles one line. Returns false if the link is gone. */
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
    link_lose(arg, what & BEV_EVENT_TIMEOUT ? "nothing was heard of it"
                   : what & BEV_EVENT_EOF   ? "closed by the node"
                                            : "connection error");
}

/* ---- listening ---- */

static struct timeval milliseconds(int64_t ms)
{
    return (struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
}

static bool has_room(const struct control *c)
{
    size_t count = 0;
    list_for_each (it, &c->links)
        count++;
    list_for_each (it, &c->partings)
        count++;
    return count < LINKS_MAX;
}

int links_take(struct control *c, struct bufferevent *stream,
               const struct certificate_facts *certificate)
{
    const char *name = certificate ? certificate->name : "";
    struct node_link *link = has_room(c) ? calloc(1, sizeof *link) : NULL;
    if (!link || !str_copy(link->certified, sizeof link->certified, name)) {
        log_write(c->log, LOG_WARN, "node connection refused", "certificate=%s reason=\"%s\"", name,
                  link ? "the name in the certificate is too long" : "too many connections");
        free(link);
        bufferevent_free(stream);
        return -ERR_UNAVAILABLE;
    }
    const struct timeval hello = milliseconds(HELLO_MS);
    link->control = c;
    link->request = ++c->request_last;
    link->stream = stream;
    link->certified_until_wall_ms = certificate ? certificate->until_wall_ms : 0;
    list_append(&c->links, &link->link);
    bufferevent_setcb(stream, on_readable, NULL, on_ended, link);
    bufferevent_setwatermark(stream, EV_READ, 0, 2 * NODEMSG_LINE_MAX);
    bufferevent_set_timeouts(stream, &hello, NULL);
    bufferevent_enable(stream, EV_READ | EV_WRITE);
    return 0;
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address,
                      int length, void *arg)
{
    (void)listener, (void)address, (void)length;
    struct control *c = arg;
    struct ucred peer;
    socklen_t size = sizeof peer;
    bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
                 (peer.uid == 0 || peer.uid == geteuid());
    struct bufferevent *stream =
        known ? bufferevent_socket_new(c->base, fd, BEV_OPT_CLOSE_ON_FREE) : NULL;
    if (!stream) {
        log_write(c->log, LOG_WARN, "node connection refused", "reason=\"%s\"",
                  known ? "out of memory" : "the peer is neither root nor the user of control");
        close(fd);
        return;
    }
    (void)links_take(c, stream, NULL);
}

/* Without a free descriptor the loop would spin on the waiting connection. */
static void on_accept_error(struct evconnlistener *listener, void *arg)
{
    const struct timeval again = milliseconds(LISTEN_AGAIN_MS);
    struct control *c = arg;
    log_write(c->log, LOG_WARN, "node connection accept failed", "error=\"%s\"", strerror(errno));
    evconnlistener_disable(listener);
    evtimer_add(c->listen_again, &again);
}

static void on_listen_again(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct control *c = arg;
    evconnlistener_enable(c->node_listener);
}

int links_listen(struct error *e, struct control *c, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!str_copy(address.sun_path, sizeof address.sun_path, path))
        return error_set(e, ERR_INVALID,
                         "socket path '%s' is longer than %zu bytes: choose a shorter --state",
                         path, sizeof address.sun_path - 1);
    /* This process has the state directory's lock, so that a remaining socket is stale. */
    (void)unlink(path);
    mode_t mask = umask(0177);
    c->node_listener = evconnlistener_new_bind(c->base, on_accept, c,
                                               LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 128,
                                               (struct sockaddr *)&address, sizeof address);
    int bind_errno = errno;
    umask(mask);
    if (!c->node_listener)
        return error_set_errno(e, ERR_IO, bind_errno, "cannot listen on '%s'", path);
    c->listen_again = evtimer_new(c->base, on_listen_again, c);
    if (!c->listen_again)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    evconnlistener_set_error_cb(c->node_listener, on_accept_error);
    return 0;
}

void links_close_all(struct control *c)
{
    while (!list_empty(&c->links))
        link_free(list_entry(c->links.next, struct node_link, link));
    while (!list_empty(&c->partings))
        parting_free(list_entry(c->partings.next, struct parting, link));
    while (!list_empty(&c->broken_sessions))
        broken_session_free(list_entry(c->broken_sessions.next, struct broken_session, link));
}

void links_end_strangers(struct control *c)
{
    list_for_each_safe (it, &c->links) {
        struct node_link *link = list_entry(it, struct node_link, link);
        if (link->session &&
            !(c->cluster && cluster_session_is_open(c->cluster, link->node, link->session)))
            link_free(link);
    }
}

/* ---- actions of the cluster ---- */

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

/*
 * Sends the welcome on the connection of the hello, and ends an older link of the node. From now on
 * silence ends the link: a live node sends something four times during a lease.
 */
static struct node_link *welcome(struct control *c, const struct cluster_action *a)
{
    struct node_link *welcomed = NULL;
    list_for_each_safe (it, &c->links) {
        struct node_link *link = list_entry(it, struct node_link, link);
        if (link->request == a->request)
            welcomed = link;
        else if (link->session && strcmp(link->node, a->node) == 0)
            link_free(link);
    }
    if (!welcomed) { /* the link ended before it had its session, and its loss was not reported */
        tell_gone(c, a->node, a->session);
        return NULL;
    }
    int64_t lease_ms = c->cluster_config.lease_ms;
    const struct timeval silence =
        milliseconds(lease_ms < SILENCE_MS_LEAST ? SILENCE_MS_LEAST : lease_ms);
    if (hash_map_put(&c->links_by_session, a->session, welcomed) < 0) {
        link_lose(welcomed, "out of memory");
        tell_gone(c, a->node, a->session);
        return NULL;
    }
    welcomed->session = a->session;
    bufferevent_set_timeouts(welcomed->stream, &silence, NULL);
    return welcomed;
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
    struct node_link *link = a->kind == CLUSTER_SEND_WELCOME
                                 ? welcome(c, a)
                                 : hash_map_get(&c->links_by_session, a->session);
    if (!link)
        return; /* link lost meanwhile: the next hello repeats everything */
    struct nodemsg msg = {.session = a->session,
                          .sequence = a->sequence,
                          .workload = a->workload,
                          .attempt = a->attempt,
                          .grace_ms = a->grace_ms,
                          .turn = a->turn,
                          .advice = a->advice,
                          .beat = a->beat};
    switch (a->kind) {
    case CLUSTER_SEND_WELCOME:
        msg.type = NODEMSG_WELCOME;
        msg.protocol = NODEMSG_PROTOCOL;
        msg.version = GPUMUX_VERSION;
        msg.lease_ms = c->cluster_config.lease_ms;
        msg.fence_ms = c->cluster_config.fence_ms;
        msg.drain_ms = c->cluster_config.drain_ms;
        if (link->certified[0])
            msg.renew_ms = network_renew_ms(c, link->certified_until_wall_ms);
        break;
    case CLUSTER_SEND_GRANT: {
        msg.type = NODEMSG_GRANT;
        msg.grant.workload = a->workload;
        msg.grant.attempt = a->attempt;
        msg.grant.suspect = a->suspect;
        msg.grant.ran_before = a->ran_before;
        msg.grant.device_count = a->placed->device_count;
        memcpy(msg.grant.devices, a->placed->devices, sizeof msg.grant.devices);
        struct granting g = {.msg = &msg, .link = link, .result = -ERR_NOT_FOUND};
        (void)store_get(NULL, c->store, a->workload, send_grant, &g);
        if (g.result == -ERR_UNAVAILABLE)
            link_lose(link, "it does not read what it is sent");
        return;
    }
    case CLUSTER_SEND_STOP:
        msg.type = NODEMSG_STOP;
        break;
    case CLUSTER_SEND_SUSPEND:
        msg.type = NODEMSG_SUSPEND;
        break;
    case CLUSTER_SEND_RESUME:
        msg.type = NODEMSG_RESUME;
        break;
    case CLUSTER_SEND_ADVISE:
        msg.type = NODEMSG_ADVISE;
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

void links_visit_usage(const struct control *c,
                       void (*visit)(void *arg, const char *node,
                                     const struct attempt_usage *usage),
                       void *arg)
{
    list_for_each (it, &c->links) {
        const struct node_link *link = list_entry(it, struct node_link, link);
        for (size_t i = 0; i < link->attempt_usage_count; i++)
            visit(arg, link->node, &link->attempt_usage[i]);
    }
}
