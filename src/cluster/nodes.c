/* Nodes: their descriptions, sessions, and the attempts of lost nodes. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cluster/cluster_internal.h"

/* Returns the node's key: the hash of the name, or the next free number if another name has the
 * same hash. Nodes are never removed, so the search is correct. */
static uint64_t name_key(const struct cluster *c, const char *name, struct node **ret)
{
    uint64_t key = hash_string(name);
    while ((*ret = hash_map_get(&c->nodes_by_name, key)) && strcmp((*ret)->info.name, name) != 0)
        key++;
    return key;
}

struct node *node_find(const struct cluster *c, const char *name)
{
    struct node *n;
    (void)name_key(c, name, &n);
    return n;
}

struct node *node_add(struct cluster *c, const char *name)
{
    struct node *n = calloc(1, sizeof *n), *other;
    if (!n)
        return NULL;
    if (c->node_count == c->node_capacity) {
        size_t capacity = c->node_capacity ? c->node_capacity * 2 : 8;
        struct node **nodes = realloc(c->nodes, capacity * sizeof *nodes);
        if (!nodes) {
            free(n);
            return NULL;
        }
        c->nodes = nodes;
        c->node_capacity = capacity;
    }
    if (hash_map_put(&c->nodes_by_name, name_key(c, name, &other), n) < 0) {
        free(n);
        return NULL;
    }
    (void)str_copy(n->info.name, sizeof n->info.name, name);
    n->index = c->node_count;
    n->heard_boot_ms = c->now.boot_ms;
    n->timer.owner = TIMER_NODE;
    list_init(&n->open);
    c->nodes[c->node_count++] = n;
    return n;
}

void node_free(struct node *n)
{
    labels_free(&n->info.labels);
    free(n);
}

int node_set_info(struct node *n, const struct node_info *info)
{
    struct pairs labels;
    if (labels_copy(&info->labels, &labels) < 0)
        return -ERR_NO_MEMORY;
    labels_free(&n->info.labels);
    n->info = *info;
    n->info.labels = labels;
    /* A monitoring node reports health right away; without a monitor, devices count as healthy. */
    for (int i = 0; i < info->device_count; i++)
        n->health[i] = (struct device_health){.state = DEVICE_HEALTHY, .admits = ADMIT_ALL};
    return 0;
}

static bool device_equal(const struct device *a, const struct device *b)
{
    return strcmp(a->uuid, b->uuid) == 0 && strcmp(a->model, b->model) == 0 &&
           a->index == b->index && a->memory_bytes == b->memory_bytes &&
           a->sm_count == b->sm_count && a->emulated == b->emulated;
}

static bool info_equal(const struct node_info *a, const struct node_info *b)
{
    if (strcmp(a->instance, b->instance) != 0 || strcmp(a->version, b->version) != 0 ||
        a->cores != b->cores || a->device_count != b->device_count ||
        !labels_equal(&a->labels, &b->labels))
        return false;
    for (int i = 0; i < a->device_count; i++)
        if (!device_equal(&a->devices[i], &b->devices[i]))
            return false;
    return true;
}

static int find_device(const struct node *n, const char *uuid)
{
    for (int i = 0; i < n->info.device_count; i++)
        if (strcmp(n->info.devices[i].uuid, uuid) == 0)
            return i;
    return -1;
}

void cluster_device_name(const struct cluster *c, const char *node, const char *uuid,
                         char ret[DEVICE_NAME_MAX])
{
    const struct node *n = node_find(c, node);
    int d = n ? find_device(n, uuid) : -1;
    if (d < 0)
        (void)str_copy(ret, DEVICE_NAME_MAX, uuid);
    else
        device_write_name(node, n->info.devices[d].index, ret);
}

static void log_state(struct cluster *c, const struct node *n, const struct device_health *health)
{
    char name[DEVICE_NAME_MAX];
    cluster_device_name(c, n->info.name, health->uuid, name);
    action_log(c, event_device_state, 0, 0, n->info.name, "device %s is %s%s%s", name,
               device_state_name(health->state), health->cause[0] ? ": " : "", health->cause);
}

void node_health(struct cluster *c, struct node *n, const struct device_health *health,
                 size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int d = find_device(n, health[i].uuid);
        if (d < 0)
            continue;
        struct device_health before = n->health[d];
        size_t device = c->policy_nodes[n->index].first_device + (size_t)d;
        if (health[i].needs_operator && !before.needs_operator)
            c->held_due = true; /* suspended tasks may have to move elsewhere */
        if (before.state != health[i].state)
            log_state(c, n, &health[i]);
        n->health[d] = health[i];
        c->policy_devices[device].admits = health[i].admits;
        if (before.admits != health[i].admits || before.state != health[i].state ||
            strcmp(before.cause, health[i].cause) != 0)
            inventory_device_changed(c, device);
        if (health[i].admits < before.admits)
            queue_room_appeared(c);
    }
}

const struct device_health *cluster_device_health(const struct cluster *c, const char *node,
                                                  const char *uuid)
{
    const struct node *n = node_find(c, node);
    int d = n ? find_device(n, uuid) : -1;
    return d < 0 ? NULL : &n->health[d];
}

static void log_notes(struct cluster *c, const struct node *n, const struct cluster_event *event)
{
    for (size_t i = 0; i < event->node.note_count; i++) {
        const struct device_note *note = &event->node.notes[i];
        char name[DEVICE_NAME_MAX];
        cluster_device_name(c, n->info.name, note->uuid, name);
        if (find_device(n, note->uuid) >= 0)
            action_log(c, note->alarm ? event_device_alarm : event_device_note, 0, 0, n->info.name,
                       "device %s: %s", name, note->text);
    }
}

static int64_t service_lost_boot_ms(const struct cluster *c, const struct node *n)
{
    return n->heard_boot_ms + c->config.lease_ms;
}

static int64_t task_lost_boot_ms(const struct cluster *c, const struct node *n)
{
    return n->heard_boot_ms + c->config.lease_ms + c->config.fence_ms + c->config.drain_ms +
           c->config.margin_ms;
}

static int64_t next_boot_ms(const struct cluster *c, const struct node *n)
{
    if (n->connected || (n->open_count > 0 && c->now.boot_ms < service_lost_boot_ms(c, n)))
        return service_lost_boot_ms(c, n);
    return n->lost ? INT64_MAX : task_lost_boot_ms(c, n);
}

void node_set_timer(struct cluster *c, struct node *n)
{
    int64_t due = next_boot_ms(c, n);
    if (n->doubtful && n->doubted_until_boot_ms < due)
        due = n->doubted_until_boot_ms;
    if (due < INT64_MAX)
        timer_set(c, &n->timer, due);
    else
        timer_clear(c, &n->timer);
}

static void disconnect(struct cluster *c, struct node *n, const char *why)
{
    n->connected = false;
    inventory_refresh_node(c, n);
    action_log(c, event_node_gone, 0, 0, n->info.name, "not connected: %s", why);
}

/* Closes attempts on a node that was not connected for too long. */
static void lose_attempts(struct cluster *c, struct node *n)
{
    list_for_each_safe (it, &n->open) {
        struct workload *w = list_entry(it, struct workload, on_node);
        if (w->needs.kind == WORKLOAD_SERVICE || w->needs.on_node_lost == ON_NODE_LOST_REQUEUE ||
            w->status.stop != STOP_NONE) {
            if (n->lost || w->needs.kind == WORKLOAD_SERVICE)
                attempt_lose(c, w);
        } else if (n->lost) {
            workload_set_text(w,
                              "node %s is lost; waits for the node to return (on_node_lost: wait)",
                              n->info.name);
            workload_touch(c, w);
        }
    }
}

void node_tick(struct cluster *c, struct node *n)
{
    doubt_tick(c, n);
    if (n->connected && c->now.boot_ms >= service_lost_boot_ms(c, n))
        disconnect(c, n, "no message arrived for a whole lease");
    if (!n->connected && !n->lost && c->now.boot_ms >= service_lost_boot_ms(c, n)) {
        n->lost = c->now.boot_ms >= task_lost_boot_ms(c, n);
        if (n->lost && n->open_count > 0)
            action_log(c, event_node_lost, 0, 0, n->info.name, "%zu attempts were on the node",
                       n->open_count);
        lose_attempts(c, n);
    }
    node_set_timer(c, n);
}

/* Another machine may take over a name only when no attempt of the first can be alive. */
static bool hello_is_refused(const struct node *n, const struct node_info *info)
{
    if (!n || !n->info.instance[0] || strcmp(n->info.instance, info->instance) == 0)
        return false;
    return n->connected || (n->open_count > 0 && !n->lost);
}

static void update_info(struct cluster *c, struct node *n, const struct node_info *info,
                        bool is_new)
{
    if (!is_new && info_equal(&n->info, info))
        return;
    if (node_set_info(n, info) < 0 || inventory_rebuild(c) < 0) {
        c->failed = true;
        return;
    }
    struct cluster_action *a = action_add(c, CLUSTER_STORE_NODE);
    if (!a)
        return;
    a->node = n->info.name;
    a->drained = n->drained;
    a->info = &n->info;
}

static void open_session(struct cluster *c, struct node *n, uint64_t request)
{
    n->session = ++c->last_session;
    n->sequence = 0;
    n->connected = true;
    n->lost = false;
    n->heard_boot_ms = c->now.boot_ms;
    inventory_refresh_node(c, n);
    node_set_timer(c, n);
    action_log(c, event_node_joined, 0, 0, n->info.name, "%d device%s, version %s",
               n->info.device_count, n->info.device_count == 1 ? "" : "s", n->info.version);
    struct cluster_action *a = action_add(c, CLUSTER_SEND_WELCOME);
    if (!a)
        return;
    a->node = n->info.name;
    a->session = n->session;
    a->request = request;
}

/* Compares the open attempts of a node with the list in its hello. */
static void reconcile(struct cluster *c, struct node *n)
{
    list_for_each (it, &n->open) {
        struct workload *w = list_entry(it, struct workload, on_node);
        bool listed = w->listed;
        w->listed = false;
        w->forgotten = false;
        if (w->status.state == WORKLOAD_STOPPING) {
            workload_send_stop(c, w);
        } else if (listed) {
            suspend_tick(c, w);
            advise_tick(c, w);
        } else if (w->status.state == WORKLOAD_PLACED) {
            w->phase = ATTEMPT_PHASE_END;
            workload_send_grant(c, w);
        } else {
            /*
             * The attempt ran, and the node does not list it: the node's disk was erased, or the
             * hello is old. The answer to a stop decides this, because after it nothing of the
             * attempt is alive.
             */
            w->forgotten = true;
            workload_send_stop(c, w);
        }
    }
}

void node_hello(struct cluster *c, const struct cluster_event *event)
{
    const struct node_info *info = event->hello.info;
    struct node *n = node_find(c, info->name);
    bool is_new = !n;
    if (hello_is_refused(n, info)) {
        action_refuse(c, event->request, -ERR_CONFLICT,
                      "another node of the name %s is connected or may still have workloads",
                      info->name);
        return;
    }
    if (is_new) {
        n = node_add(c, info->name);
        if (!n || inventory_rebuild(c) < 0) {
            c->failed = true;
            return;
        }
    }
    update_info(c, n, info, is_new);
    if (c->failed)
        return;
    node_health(c, n, event->hello.health, event->hello.health_count);
    open_session(c, n, event->request);
    list_for_each (it, &n->open)
        list_entry(it, struct workload, on_node)->listed = false;
    for (size_t i = 0; i < event->hello.count; i++)
        attempt_report(c, n, &event->hello.attempts[i]);
    reconcile(c, n);
    action_accept(c, event->request);
}

/* Handles REPORT, BEAT and GONE, the messages of a session. */
void node_message(struct cluster *c, const struct cluster_event *event)
{
    struct node *n = node_find(c, event->node.node);
    if (!n || !n->connected || n->session != event->node.session) {
        if (event->kind != CLUSTER_NODE_GONE)
            action_refuse(c, event->request, -ERR_CONFLICT,
                          "this session is over: say hello again");
        return;
    }
    if (event->kind == CLUSTER_NODE_GONE) {
        disconnect(c, n, "the connection ended");
        node_set_timer(c, n);
        return;
    }
    n->heard_boot_ms = c->now.boot_ms;
    if (event->kind == CLUSTER_NODE_REPORT) {
        attempt_report(c, n, event->node.report);
        return;
    }
    node_health(c, n, event->node.health, event->node.health_count);
    log_notes(c, n, event);
    struct cluster_action *a = action_add(c, CLUSTER_SEND_BEAT);
    if (!a)
        return;
    a->node = n->info.name;
    a->session = n->session;
    a->beat = event->node.beat;
}

void node_drain(struct cluster *c, const struct cluster_event *event)
{
    struct node *n = node_find(c, event->drain.node);
    if (!n) {
        action_refuse(c, event->request, -ERR_NOT_FOUND, "there is no node %s", event->drain.node);
        return;
    }
    if (!event->drain.on)
        doubt_end(c, n);
    if (n->drained != event->drain.on) {
        n->drained = event->drain.on;
        inventory_refresh_node(c, n);
        struct cluster_action *a = action_add(c, CLUSTER_STORE_NODE);
        if (a) {
            a->node = n->info.name;
            a->drained = n->drained;
            a->info = &n->info;
        }
        action_log(
            c, n->drained ? event_node_drained : event_node_undrained, 0, 0, n->info.name, "%s",
            n->drained ? "the node takes no new workloads" : "the node takes workloads again");
    }
    action_accept(c, event->request);
}

bool cluster_node_held(const struct cluster *c, const char *node)
{
    const struct node *n = node_find(c, node);
    return n && n->held;
}

bool cluster_node_connected(const struct cluster *c, const char *node)
{
    const struct node *n = node_find(c, node);
    return n && n->connected;
}

bool cluster_session_is_open(const struct cluster *c, const char *node, uint64_t session)
{
    const struct node *n = node_find(c, node);
    return n && n->connected && n->session == session;
}
