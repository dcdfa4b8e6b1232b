/* The store: rows that exist or not, and all rules about writing them. */
#include <stdlib.h>
#include <string.h>

#include "world.h"

static int node_of(const char *name)
{
    return name[1] - '0';
}

/* Copies a status, including its attempts. */
static struct workload_status copy_status(const struct workload_status *status)
{
    struct workload_status copy = *status;
    size_t bytes = (size_t)status->attempts_kept * sizeof *status->attempts;
    copy.attempts = NULL;
    if (bytes > 0) {
        copy.attempts = malloc(bytes);
        memcpy(copy.attempts, status->attempts, bytes);
    }
    return copy;
}

static enum message_type message_of(enum cluster_action_kind kind)
{
    switch (kind) {
    case CLUSTER_SEND_WELCOME:
        return MESSAGE_WELCOME;
    case CLUSTER_SEND_GRANT:
        return MESSAGE_GRANT;
    case CLUSTER_SEND_STOP:
        return MESSAGE_STOP;
    case CLUSTER_SEND_SUSPEND:
        return MESSAGE_SUSPEND;
    case CLUSTER_SEND_RESUME:
        return MESSAGE_RESUME;
    case CLUSTER_SEND_ADVISE:
        return MESSAGE_ADVISE;
    case CLUSTER_SEND_SETTLE:
        return MESSAGE_SETTLE;
    default:
        return MESSAGE_BEAT_ANSWER;
    }
}

static void keep_message(struct world *w, struct pending *p, const struct cluster_action *a)
{
    int node = node_of(a->node);
    if (a->kind == CLUSTER_SEND_WELCOME)
        w->control_session[node] = a->session;
    p->message = (struct message){.type = message_of(a->kind),
                                  .node = node,
                                  .connection = w->control_connection[node],
                                  .session = a->session,
                                  .sequence = a->sequence,
                                  .beat = a->beat,
                                  .workload = a->workload,
                                  .attempt = a->attempt,
                                  .turn = a->turn,
                                  .advice = a->advice.sequence,
                                  .grace_ms = a->grace_ms};
}

static void keep_fresh(struct world *w, struct pending *p, const struct cluster_action *a,
                       const struct row *fresh)
{
    p->fresh = fresh[a->item];
    p->fresh.first = a->workload - a->item;
    for (size_t i = 0; i < p->fresh.after_count; i++)
        if (p->fresh.after[i].within) {
            p->fresh.after[i].within = false;
            p->fresh.after[i].workload += p->fresh.first;
        }
    if (a->workload > w->pending_last_id)
        w->pending_last_id = a->workload;
}

static void keep(struct world *w, const struct cluster_action *a, const struct row *fresh)
{
    if (a->kind == CLUSTER_EVENT_LOG) {
        world_trace(w, "  %s %llu.%d %s: %s", a->what, (unsigned long long)a->workload, a->attempt,
                    a->node ? a->node : "", a->text);
        return;
    }
    world_check(w, w->pending_count < WORLD_PENDING, "too many actions in one commit");
    if (w->pending_count == WORLD_PENDING)
        return;
    struct pending *p = &w->pending[w->pending_count++];
    p->kind = a->kind;
    p->id = a->workload;
    p->status.attempts = NULL;
    if (a->kind == CLUSTER_STORE_NEW)
        keep_fresh(w, p, a, fresh);
    if (a->kind == CLUSTER_STORE_NEW || a->kind == CLUSTER_STORE_STATUS)
        p->status = copy_status(a->status);
    if (a->kind == CLUSTER_STORE_NODE) {
        p->node = node_of(a->node);
        p->drained = a->drained;
        p->devices_present = a->info->device_count;
        memcpy(p->instance, a->info->instance, sizeof p->instance);
    }
    if (a->kind >= CLUSTER_SEND_WELCOME)
        keep_message(w, p, a);
    if (a->kind == CLUSTER_REPLY) {
        p->request = a->request;
        p->result = a->result;
        p->first = a->first;
        p->count = a->count;
        p->repeated = a->repeated;
    }
}

void store_keep(struct world *w, const struct row *fresh)
{
    for (size_t i = 0; i < w->actions.count; i++)
        keep(w, &w->actions.items[i], fresh);
    w->actions.count = 0;
}

static void book(struct world *w, const struct row *row, int sign)
{
    const struct attempt *a = workload_status_attempt(&row->status);
    if (!a || row->status.state == WORKLOAD_QUEUED || workload_state_is_terminal(row->status.state))
        return;
    w->node_attempts[node_of(a->node)] += sign;
    w->node_cpu_only[node_of(a->node)] += row->needs.devices == 0 ? sign : 0;
    if (row->status.off_device)
        return;
    for (int i = 0; i < a->device_count; i++) {
        struct booking *b = &w->bookings[a->devices[i][0] - '0'][a->devices[i][1] - '0'];
        b->quota_bytes += (uint64_t)sign * row->needs.quota_bytes;
        b->share_percent += sign * row->needs.share_min_percent;
        b->neighbours += sign;
        b->whole += sign * (row->needs.quota_bytes == 0);
    }
}

static void check_attempts(struct world *w, int n)
{
    int most = w->config.attempts_max, cpu_most = w->config.cpu_tasks_max;
    int attempts = w->node_attempts[n], cpu_only = w->node_cpu_only[n];
    if (cpu_most == 0)
        cpu_most = w->machines[n].info.cores > 0 ? 2 * w->machines[n].info.cores : most;
    world_check(w, attempts <= most && 4 * cpu_only <= 3 * most && cpu_only <= cpu_most,
                "node %d has too many attempts: %d, %d of them without devices", n, attempts,
                cpu_only);
}

static void check_bookings(struct world *w)
{
    for (int n = 0; n < WORLD_NODES; n++)
        check_attempts(w, n);
    int most = w->config.policy->one_a_device ? 1 : w->config.max_neighbours;
    for (int n = 0; n < WORLD_NODES; n++)
        for (int d = 0; d < WORLD_DEVICES; d++) {
            const struct booking *b = &w->bookings[n][d];
            world_check(w,
                        b->quota_bytes <= 100 && b->share_percent <= 100 && b->neighbours <= most &&
                            (b->whole == 0 || b->neighbours == 1),
                        "device %d of node %d is overbooked: quota %llu share %d neighbours %d "
                        "whole %d",
                        d, n, (unsigned long long)b->quota_bytes, b->share_percent, b->neighbours,
                        b->whole);
        }
}

static void commit_new(struct world *w, struct pending *p)
{
    struct row *row = &w->rows[p->id];
    world_check(w, p->id == w->last_id + 1 || p->id <= w->pending_last_id, "id %llu out of order",
                (unsigned long long)p->id);
    world_check(w, !row->exists, "id %llu is given twice", (unsigned long long)p->id);
    *row = p->fresh;
    row->exists = true;
    if (p->id > w->last_id)
        w->last_id = p->id;
    w->live_rows++;
    if (row->key < 0 || p->id != row->first)
        return;
    uint64_t first = w->keys[row->uid][row->key].first;
    for (size_t i = 0; first && i < w->keys[row->uid][row->key].count; i++)
        world_check(w, w->rows[first + i].deleted, "key %d was accepted twice: %llu and %llu",
                    row->key, (unsigned long long)first, (unsigned long long)p->id);
    w->keys[row->uid][row->key].first = p->id;
    w->keys[row->uid][row->key].count = row->submitted;
}

/* Checks that devices that others may use now are not in use. */
static void check_off_device(struct world *w, const struct row *row, uint64_t id)
{
    const struct attempt *a = workload_status_attempt(&row->status);
    if (!row->status.off_device)
        return;
    world_check(w, a && row->needs.kind == WORKLOAD_TASK && row->status.hold != HOLD_NONE,
                "workload %llu is off its device for no reason", (unsigned long long)id);
    if (a)
        world_check(w, !machine_uses_device(w, node_of(a->node), id, a->number),
                    "workload %llu is on the device that was given to others",
                    (unsigned long long)id);
}

static void commit_status(struct world *w, struct pending *p)
{
    struct row *row = &w->rows[p->id];
    world_check(w, row->exists && !row->deleted, "status of %llu, which is not stored",
                (unsigned long long)p->id);
    world_check(w, !workload_state_is_terminal(row->status.state),
                "workload %llu leaves its end: %d → %d", (unsigned long long)p->id,
                (int)row->status.state, (int)p->status.state);
    book(w, row, -1);
    free(row->status.attempts);
    row->status = p->status;
    p->status.attempts = NULL;
    book(w, row, 1);
    check_off_device(w, row, p->id);
    if (!workload_state_is_terminal(row->status.state))
        return;
    w->live_rows--;
    w->kept_rows++;
    world_check(w, row->living == 0 || row->needs.kind == WORKLOAD_SERVICE,
                "task %llu ended while a copy lives", (unsigned long long)p->id);
}

static void commit_delete(struct world *w, const struct pending *p)
{
    struct row *row = &w->rows[p->id];
    world_check(w, row->exists && !row->deleted && workload_state_is_terminal(row->status.state),
                "workload %llu is deleted before its end", (unsigned long long)p->id);
    row->deleted = true;
    w->kept_rows--;
}

static void commit_node(struct world *w, const struct pending *p)
{
    w->node_known[p->node] = true;
    w->node_drained[p->node] = p->drained;
    w->node_stored[p->node] = w->machines[p->node].info;
    w->node_stored[p->node].device_count = p->devices_present;
    memcpy(w->node_stored[p->node].instance, p->instance, sizeof p->instance);
}

void store_commit_pending(struct world *w)
{
    for (size_t i = 0; i < w->pending_count && !w->broken; i++) {
        struct pending *p = &w->pending[i];
        if (p->kind == CLUSTER_STORE_NEW)
            commit_new(w, p);
        if (p->kind == CLUSTER_STORE_NEW || p->kind == CLUSTER_STORE_STATUS)
            commit_status(w, p);
        if (p->kind == CLUSTER_STORE_DELETE)
            commit_delete(w, p);
        if (p->kind == CLUSTER_STORE_NODE)
            commit_node(w, p);
    }
    check_bookings(w);
}

void store_drop_pending(struct world *w)
{
    for (size_t i = 0; i < w->pending_count; i++)
        free(w->pending[i].status.attempts);
    w->pending_count = 0;
    w->pending_last_id = w->last_id;
}

static void load_row(struct world *w, uint64_t id)
{
    static struct pair gpu[] = {{"gpu", "yes"}};
    static const struct pairs labels = {.count = 1, .items = gpu};
    const struct row *row = &w->rows[id];
    char key[8] = {'k', (char)('a' + row->key), '\0'};
    struct cluster_stored stored = {.id = id,
                                    .uid = row->uid,
                                    .name = "w",
                                    .key = row->key < 0 ? NULL : key,
                                    .key_first = row->first,
                                    .key_count = row->submitted,
                                    .needs = &row->needs,
                                    .node_labels = row->labelled ? &labels : NULL,
                                    .after_count = row->after_count,
                                    .after = row->after,
                                    .allowance = 1 + row->uid,
                                    .owner = row->uid,
                                    .status = &row->status};
    if (row->exists && !row->deleted)
        world_check(w, cluster_load_workload(w->cluster, &stored) == 0, "%llu does not load",
                    (unsigned long long)id);
}

void store_rebuild_cluster(struct world *w)
{
    cluster_free(w->cluster);
    w->cluster = NULL;
    w->config.seed = w->seed * 1000003 + ++w->cluster_lives;
    world_check(w, cluster_new(&w->config, &w->cluster) == 0, "no memory");
    for (int n = 0; n < WORLD_NODES; n++)
        if (w->node_known[n])
            world_check(w,
                        cluster_load_node(w->cluster, &w->node_stored[n], w->node_drained[n]) == 0,
                        "node %d does not load", n);
    for (uint64_t id = w->last_id; id > 0; id--)
        load_row(w, id);
    /* A new boot, perhaps of another machine, so its clock may show anything. */
    w->boot_offset_ms = (int64_t)world_below(w, 1000000);
    cluster_load_done(w->cluster, w->last_id, world_control_clock(w));
}

void store_done(struct world *w)
{
    for (uint64_t id = 1; id <= w->last_id; id++) {
        struct row *row = &w->rows[id];
        world_check(w, row->exists && workload_state_is_terminal(row->status.state),
                    "workload %llu never ended: state %d (%s)", (unsigned long long)id,
                    (int)row->status.state, row->status.text);
        world_check(w, row->living == 0, "workload %llu lives on", (unsigned long long)id);
        free(row->status.attempts);
        *row = (struct row){0};
    }
}
