/* Control: decide, store, then act, with interruptions at every point. */
#include <string.h>

#include "world.h"

struct clock_now world_control_clock(const struct world *w)
{
    return (struct clock_now){.wall_ms = w->now_ms + w->wall_offset_ms,
                              .boot_ms = w->now_ms + w->boot_offset_ms};
}

static void forget_all(struct world *w)
{
    store_drop_pending(w);
    store_rebuild_cluster(w);
}

void control_crash(struct world *w)
{
    world_trace(w, "control crashes");
    w->dead_connections = w->last_connection;
    for (int n = 0; n < WORLD_NODES; n++) {
        w->machines[n].connection = 0;
        w->machines[n].session = 0;
        w->control_connection[n] = 0;
    }
    forget_all(w);
}

static void judge_submit(struct world *w, const struct pending *p, const struct request *request)
{
    if (p->result != 0)
        return;
    for (size_t i = 0; i < p->count; i++) {
        world_check(w, p->first + i <= w->last_id && w->rows[p->first + i].exists,
                    "workload %llu was accepted and is not stored",
                    (unsigned long long)(p->first + i));
    }
    if (request->key < 0)
        return;
    /* Another submission may have taken the key since, but only after these workloads were
     * deleted. */
    if (!w->rows[p->first].deleted)
        world_check(w, w->keys[request->uid][request->key].first == p->first,
                    "key %d gives %llu instead of %llu", request->key, (unsigned long long)p->first,
                    (unsigned long long)w->keys[request->uid][request->key].first);
}

static void act_reply(struct world *w, const struct pending *p)
{
    const struct request *request = &w->requests[p->request % WORLD_PENDING];
    if (request->kind == CLUSTER_SUBMIT)
        judge_submit(w, p, request);
    else if (request->connection && p->result != 0 &&
             w->machines[request->node].connection == request->connection)
        machine_cut(w, request->node); /* refused, or its session is over */
}

static void act_send(struct world *w, struct pending *p)
{
    struct message *m = &p->message;
    const struct row *row = &w->rows[m->workload];
    m->service = row->needs.kind == WORKLOAD_SERVICE;
    if (m->type == MESSAGE_GRANT)
        world_check(w, row->exists && row->status.attempts_total >= m->attempt,
                    "grant of %llu.%d before it is stored", (unsigned long long)m->workload,
                    m->attempt);
    if (m->type == MESSAGE_SETTLE && row->exists && !workload_state_is_terminal(row->status.state))
        world_check(
            w,
            row->status.attempts_total > m->attempt || row->status.state == WORKLOAD_QUEUED ||
                row->status.attempts[row->status.attempts_kept - 1].node[1] != '0' + m->node,
            "%llu.%d is settled before its end is stored", (unsigned long long)m->workload,
            m->attempt);
    network_send(w, m);
}

static void check_counts(struct world *w)
{
    struct cluster_counts counts;
    cluster_count(w->cluster, &counts);
    world_check(w, counts.live == w->live_rows && counts.finished == w->kept_rows,
                "cluster holds %zu live and %zu finished, the store %zu and %zu", counts.live,
                counts.finished, w->live_rows, w->kept_rows);
}

void control_flush(struct world *w)
{
    if (w->pending_count == 0)
        return;
    uint64_t fate = w->calm ? 1000 : world_below(w, 1000);
    if (fate < 5) { /* crash before the commit */
        control_crash(w);
        return;
    }
    if (fate < 10) { /* failed commit: every request gets an error, connections stay */
        world_trace(w, "commit fails");
        forget_all(w);
        return;
    }
    store_commit_pending(w);
    check_counts(w);
    size_t count = w->pending_count;
    size_t acts = fate < 15 ? world_below(w, count + 1) : count;
    for (size_t i = 0; i < acts && !w->broken; i++) {
        struct pending *p = &w->pending[i];
        if (p->kind == CLUSTER_REPLY)
            act_reply(w, p);
        else if (p->kind >= CLUSTER_SEND_WELCOME)
            act_send(w, p);
    }
    store_drop_pending(w);
    if (fate < 15)
        control_crash(w); /* crash in the middle of the actions */
}

void control_step(struct world *w, struct cluster_event *event, const struct row *fresh,
                  const struct request *request)
{
    event->now = world_control_clock(w);
    event->request = ++w->request_count;
    w->requests[event->request % WORLD_PENDING] =
        request ? *request : (struct request){.kind = event->kind};
    world_check(w, cluster_step(w->cluster, event, &w->actions) == 0, "the step fails");
    store_keep(w, fresh);
    if (w->calm || w->pending_count > WORLD_PENDING / 4 || world_chance(w, 60))
        control_flush(w);
}

static struct attempt_report report_of(const struct run *r)
{
    return (struct attempt_report){.workload = r->workload,
                                   .attempt = r->attempt,
                                   .phase = r->phase,
                                   .failure = r->failure,
                                   .exit_code = r->exit_code,
                                   .signal = r->signal,
                                   .never_ran = r->never_ran,
                                   .turn = r->turn,
                                   .advice = r->advice,
                                   .suspension = r->suspension,
                                   .evicted = r->evicted};
}

void control_receive(struct world *w, const struct message *m)
{
    struct machine *from = &w->machines[m->node];
    struct request request = {.node = m->node, .connection = m->connection};
    struct cluster_event event = {.kind = CLUSTER_NODE_BEAT};
    struct attempt_report reports[WORLD_ATTEMPTS];
    if (m->type == MESSAGE_HELLO && m->connection < w->control_connection[m->node])
        return; /* as cluster.h requires: a newer connection has sent a hello */
    for (size_t i = 0; i < m->run_count; i++)
        reports[i] = report_of(&m->runs[i]);
    event.node.node = from->info.name;
    event.node.session = m->session;
    event.node.beat = m->beat;
    if (m->type == MESSAGE_HELLO) {
        event.kind = CLUSTER_NODE_HELLO;
        event.hello = (__typeof__(event.hello)){
            .info = &from->info, .count = m->run_count, .attempts = reports};
        w->control_connection[m->node] = m->connection;
    } else if (m->type == MESSAGE_REPORT) {
        event.kind = CLUSTER_NODE_REPORT;
        event.node.report = reports;
    } else if (m->type == MESSAGE_GONE) {
        if (w->control_connection[m->node] != m->connection)
            return;
        event.kind = CLUSTER_NODE_GONE;
        event.node.session = w->control_session[m->node];
    }
    request.kind = event.kind;
    control_step(w, &event, NULL, &request);
}
