/* Rebuilds a cluster from the store. */
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster_internal.h"

int cluster_load_node(struct cluster *c, const struct node_info *info, bool drained)
{
    struct node *n = node_find(c, info->name);
    if (!n)
        n = node_add(c, info->name);
    if (!n || node_set_info(n, info) < 0)
        return -ERR_NO_MEMORY;
    n->drained = drained;
    return inventory_rebuild(c);
}

static int load_key(struct cluster *c, const struct cluster_stored *stored, struct submit_key **ret)
{
    struct submit_key *key = NULL;
    if (stored->key) {
        key = submit_key_find(c, stored->uid, stored->key);
        if (!key)
            key = submit_key_add(c, stored->uid, stored->key, stored->key_first, stored->key_count);
        if (key)
            key->references++;
        else if (c->failed)
            return -ERR_NO_MEMORY;
    }
    *ret = key;
    return 0;
}

static int load_finished(struct cluster *c, const struct cluster_stored *stored,
                         struct submit_key *key)
{
    struct finished row = {.id = stored->id,
                           .ended_wall_ms = stored->status->ended_wall_ms,
                           .key = key,
                           .state = stored->status->state};
    c->by_state[row.state]++;
    return finished_add(c, &row, true);
}

static int load_dependencies(struct workload *w, const struct cluster_stored *stored)
{
    if (stored->after_count == 0)
        return 0;
    w->dependencies = calloc(stored->after_count, sizeof *w->dependencies);
    if (!w->dependencies)
        return -ERR_NO_MEMORY;
    w->dependency_count = stored->after_count;
    for (size_t i = 0; i < stored->after_count; i++) {
        w->dependencies[i].on = stored->after[i].workload;
        w->dependencies[i].succeeded = stored->after[i].succeeded;
        list_init(&w->dependencies[i].among_dependents);
    }
    return 0;
}

static int load_status(struct cluster *c, struct workload *w, const struct workload_status *status)
{
    struct attempt *attempts = NULL;
    if (status->attempts_kept > 0) {
        size_t bytes = (size_t)status->attempts_kept * sizeof *attempts;
        attempts = malloc(bytes);
        if (!attempts)
            return -ERR_NO_MEMORY;
        memcpy(attempts, status->attempts, bytes);
    }
    c->by_state[w->status.state]--;
    w->status = *status;
    w->status.attempts = attempts;
    c->by_state[w->status.state]++;
    return 0;
}

/* Returns the phase that the stored state implies, until the node reports the exact one. */
static enum attempt_phase phase_of(const struct workload_status *status)
{
    switch (status->state) {
    case WORKLOAD_STARTING:
        return ATTEMPT_STARTING;
    case WORKLOAD_RUNNING:
    case WORKLOAD_SUSPENDING:
    case WORKLOAD_SUSPENDED:
    case WORKLOAD_RESUMING:
        return ATTEMPT_RUNNING;
    default:
        return ATTEMPT_PHASE_END;
    }
}

static int load_open_attempt(struct cluster *c, struct workload *w)
{
    const struct attempt *a = workload_status_attempt(&w->status);
    if (!a)
        return -ERR_CORRUPT;
    struct node *n = node_find(c, a->node);
    if (!n) {
        n = node_add(c, a->node);
        if (!n || inventory_rebuild(c) < 0)
            return -ERR_NO_MEMORY;
    }
    w->phase = phase_of(&w->status);
    w->stop_grace_ms = w->needs.grace_ms;
    attempt_attach(c, w, n);
    return 0;
}

int cluster_load_workload(struct cluster *c, const struct cluster_stored *stored)
{
    struct submit_key *key;
    int r = load_key(c, stored, &key);
    if (r < 0)
        return r;
    if (workload_state_is_terminal(stored->status->state))
        return load_finished(c, stored, key);
    struct workload_needs needs = *stored->needs;
    needs.suspect = stored->status->suspect;
    struct workload *w = workload_add(c, stored->id, stored->owner, &needs, stored->node_labels,
                                      &stored->known, stored->allowance);
    if (!w)
        return -ERR_NO_MEMORY;
    w->key = key;
    list_append(&c->unlinked, &w->touched);
    r = load_status(c, w, stored->status);
    if (r == 0)
        r = load_dependencies(w, stored);
    if (r == 0 && w->status.state != WORKLOAD_QUEUED)
        r = load_open_attempt(c, w);
    return r;
}

/* Durations start again now, because stored times may be of an earlier boot. */
static void resume_workload(struct cluster *c, struct workload *w)
{
    w->queued_boot_ms = w->booked_boot_ms = c->now.boot_ms;
    if (phase_of(&w->status) == ATTEMPT_RUNNING)
        w->running_boot_ms = c->now.boot_ms;
    suspend_load(c, w);
    depend_link(c, w);
    if (w->dependency_failed && w->status.state == WORKLOAD_QUEUED)
        timer_set(c, &w->timer, c->now.boot_ms);
    else if (w->status.state == WORKLOAD_QUEUED && w->status.backoff_ms > 0)
        timer_set(c, &w->timer, c->now.boot_ms + w->status.backoff_ms);
    else
        queue_consider(c, w);
}

void cluster_load_done(struct cluster *c, uint64_t last_id, struct clock_now now)
{
    c->now = now;
    finished_watch_clock(c);
    if (inventory_rebuild(c) < 0)
        c->failed = true; /* running workloads were booked before `now` was known */
    if (last_id > c->last_id)
        c->last_id = last_id;
    if (finished_sort(c) < 0)
        c->failed = true;
    while (!list_empty(&c->unlinked)) {
        struct workload *w = list_entry(c->unlinked.next, struct workload, touched);
        list_remove(&w->touched);
        resume_workload(c, w);
    }
    for (size_t i = 0; i < c->node_count; i++) {
        c->nodes[i]->heard_boot_ms = now.boot_ms;
        node_set_timer(c, c->nodes[i]);
    }
}
