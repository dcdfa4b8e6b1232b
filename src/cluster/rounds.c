/*
 * Rounds: a policy periodically assigns many waiting workloads to many devices at once, and moves
 * running tasks that have a checkpoint. A move ends the task and restarts it at its destination, if
 * there is still room.
 */
#include <stdlib.h>

#include "cluster/cluster_internal.h"

enum { ROUND_WAITING_MAX = 20000 };

bool rounds_are_held(const struct cluster *c)
{
    return c->config.policy->round && c->config.policy->round_ms > 0 &&
           !c->config.options.without[POLICY_PART_MATCHING];
}

void rounds_arm(struct cluster *c)
{
    if (rounds_are_held(c) && !c->round_timer.member.position && c->live.count > 0)
        timer_set(c, &c->round_timer, c->now.boot_ms + c->config.policy->round_ms);
}

static int compare_queued(const void *a, const void *b)
{
    struct workload *const *x = a, *const *y = b;
    if (queue_workload_before(&(*x)->queued, &(*y)->queued))
        return -1;
    return *x != *y;
}

/* Returns the queued tasks with one device, in the order of the queue; NULL if out of memory. */
static struct workload **gather(struct cluster *c, size_t *ret_count)
{
    struct workload **all = malloc((c->live.count + 1) * sizeof(*all));
    size_t count = 0, cursor = 0;
    void *value;
    while (all && hash_map_next(&c->requirements, &cursor, NULL, &value))
        for (const struct requirement *r = value; r; r = r->next) {
            if (r->needs.devices != 1 || r->needs.kind != WORKLOAD_TASK)
                continue;
            for (size_t i = 0; i < r->queue.count; i++)
                all[count++] = list_entry(r->queue.members[i], struct workload, queued);
        }
    if (all)
        qsort(all, count, sizeof(*all), compare_queued);
    *ret_count = count < ROUND_WAITING_MAX ? count : ROUND_WAITING_MAX;
    return all;
}

static void place_all(struct cluster *c, struct workload *const *all,
                      const struct policy_snapshot *snapshot, const struct policy_round *round)
{
    c->decisions += round->decision_count;
    for (size_t i = 0; !c->failed && i < round->decision_count; i++) {
        const struct policy_decision *d = &round->decisions[i];
        const struct requirement *r = all[d->waiting]->requirement;
        /* Earlier placements of the round may have used up the room. */
        if (allowance_is_spent(c, r->allowance, &r->needs) ||
            policy_device_fit(snapshot, &c->policy_devices[d->devices[0]],
                              &snapshot->waiting[d->waiting],
                              c->config.max_neighbours) != POLICY_FITS)
            continue;
        queue_leave(c, all[d->waiting]);
        attempt_open(c, all[d->waiting], d);
    }
}

static void move_all(struct cluster *c, const struct policy_round *round)
{
    for (size_t i = 0; i < round->move_count; i++) {
        const struct policy_move *m = &round->moves[i];
        struct workload *w = workload_find(c, m->workload);
        if (!w || w->status.state != WORKLOAD_RUNNING || w->status.stop != STOP_NONE ||
            !w->known.checkpoints)
            continue;
        size_t node = c->policy_devices[m->to].node;
        w->wish_node = c->nodes[node];
        w->wish_device = m->to - c->policy_nodes[node].first_device;
        stop_move(c, w);
    }
}

void rounds_run(struct cluster *c)
{
    struct policy_snapshot snapshot;
    struct policy_round round = {0};
    struct policy_waiting *waiting = NULL;
    size_t count;
    if (!c->round_due)
        return;
    c->round_due = false;
    rounds_arm(c);
    inventory_snapshot(c, &snapshot);
    struct workload **all = gather(c, &count);
    if (all) {
        waiting = malloc((count + 1) * sizeof *waiting);
        round.decisions = malloc((count + 1) * sizeof *round.decisions);
        round.moves = malloc(POLICY_MOVES_MAX * sizeof *round.moves);
    }
    if (c->failed || !all || !waiting || !round.decisions || !round.moves) {
        c->failed = true;
    } else {
        for (size_t i = 0; i < count; i++)
            waiting[i] = queue_waiting(c, all[i]);
        snapshot.waiting = waiting;
        snapshot.waiting_count = count;
        snapshot.seed = hash_u64(c->config.seed + ++c->round);
        if (c->config.policy->round(&snapshot, &round) < 0)
            c->failed = true;
        else
            place_all(c, all, &snapshot, &round);
        if (!c->failed)
            move_all(c, &round);
    }
    free(all);
    free(waiting);
    free(round.decisions);
    free(round.moves);
}

bool rounds_place_wished(struct cluster *c, struct workload *w)
{
    struct node *n = w->wish_node;
    struct policy_snapshot snapshot;
    struct policy_waiting waiting = queue_waiting(c, w);
    w->wish_node = NULL;
    if (!n || w->wish_device >= c->policy_nodes[n->index].device_count)
        return false;
    size_t device = c->policy_nodes[n->index].first_device + w->wish_device;
    inventory_snapshot(c, &snapshot);
    if (policy_device_fit(&snapshot, &c->policy_devices[device], &waiting,
                          c->config.max_neighbours) != POLICY_FITS)
        return false;
    struct policy_decision decision = {.node = n->index, .device_count = 1, .devices = {device}};
    attempt_open(c, w, &decision);
    return true;
}
