/*
 * Nodes where starts fail, because a mount, a directory or an account is missing. Such a node is
 * always free and would attract one workload after another. A missing command fails on every node,
 * however, and is no fault of a node. Therefore:
 *
 *   - A failed start puts the node in doubt until a start succeeds there or some time has passed.
 *   - A workload whose start failed is tried on a node that is not in doubt, if such a node could
 *     hold it. Only after a few failures in a row does one count as the workload's own.
 *   - If the workload runs there, the first node gets a strike. After a few strikes without a
 *     successful start, the node takes no new workloads for a while, and each time for longer.
 */
#include "base/str.h"
#include "cluster/cluster_internal.h"

enum {
    DOUBT_MIN_MS = 60 * 1000,
    DOUBT_MAX_MS = 60 * 60 * 1000,
    HOLD_AFTER = 3,    /* strikes until a node is held */
    ELSEWHERE_MAX = 3, /* failed starts in a row before one counts */
};

static void set_doubt(struct cluster *c, struct node *n, bool doubtful, bool held)
{
    bool was_held = n->held;
    if (n->doubtful == doubtful && was_held == held)
        return;
    n->doubtful = doubtful;
    n->held = held;
    inventory_refresh_node(c, n);
    node_set_timer(c, n);
    if (was_held && !held)
        action_log(c, event_node_released, 0, 0, n->info.name, "the node takes workloads again");
}

void doubt_end(struct cluster *c, struct node *n)
{
    n->doubt_ms = 0;
    n->strikes = 0;
    set_doubt(c, n, false, false);
}

void doubt_tick(struct cluster *c, struct node *n)
{
    if (n->doubtful && c->now.boot_ms >= n->doubted_until_boot_ms)
        set_doubt(c, n, false, false);
}

/* Returns whether a node without doubt could hold the workload if the node were empty. */
static bool could_go_elsewhere(const struct cluster *c, const struct workload *w)
{
    struct workload_needs needs = w->needs;
    const struct policy_waiting waiting = {
        .needs = &needs, .node_labels = &w->requirement->node_labels, .takes_kept = true};
    struct policy_snapshot snapshot;
    needs.wary = true;
    cluster_inventory(c, &snapshot);
    for (size_t i = 0; i < snapshot.node_count; i++) {
        const struct policy_node *n = &snapshot.nodes[i];
        enum policy_misfit misfit = policy_node_fit(n, &waiting);
        int count = 0;
        if (misfit != POLICY_FITS && (misfit != POLICY_NODE_FULL || needs.devices > 0))
            continue;
        for (size_t d = n->first_device; d < n->first_device + n->device_count; d++)
            count += policy_device_could(&snapshot, &snapshot.devices[d], &waiting);
        if (count >= needs.devices)
            return true;
    }
    return false;
}

static int starts_failed(const struct workload_status *status)
{
    int count = 0;
    while (count < status->attempts_kept &&
           status->attempts[status->attempts_kept - 1 - count].failure == FAILURE_START)
        count++;
    return count;
}

bool doubt_failed(struct cluster *c, struct workload *w, struct node *n)
{
    if (!n->doubtful) {
        n->doubt_ms = n->doubt_ms ? n->doubt_ms * 2 : DOUBT_MIN_MS;
        if (n->doubt_ms > DOUBT_MAX_MS)
            n->doubt_ms = DOUBT_MAX_MS;
        n->doubted_until_boot_ms = c->now.boot_ms + n->doubt_ms;
        set_doubt(c, n, true, false);
    }
    bool elsewhere = starts_failed(&w->status) <= ELSEWHERE_MAX && could_go_elsewhere(c, w);
    workload_set_wary(c, w, elsewhere);
    return elsewhere;
}

static void hold(struct cluster *c, struct node *n)
{
    char until[CLOCK_TEXT_MAX];
    n->doubted_until_boot_ms = c->now.boot_ms + n->doubt_ms;
    set_doubt(c, n, true, true);
    action_log(c, event_node_held, 0, 0, n->info.name,
               "the node takes no new workloads until %s: the start of %d workloads failed on this "
               "node and succeeded on another",
               clock_format(c->now.wall_ms + n->doubt_ms, until), n->strikes);
}

void doubt_worked(struct cluster *c, struct workload *w)
{
    const struct workload_status *status = &w->status;
    doubt_end(c, w->node);
    for (int i = status->attempts_kept - 2; i >= 0; i--) {
        const struct attempt *a = &status->attempts[i];
        struct node *n = a->failure == FAILURE_START ? node_find(c, a->node) : NULL;
        if (!n)
            break;
        if (n->doubtful && !n->held && ++n->strikes >= HOLD_AFTER)
            hold(c, n);
    }
}
