#include "policy/rounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "policy/matching.h"
#include "policy/place.h"

#define AGE_WEIGHT_MAX 0.2
#define HOUR_MS        3600000.0
#define MOVE_WITHIN_MS 600000.0
/* A running task moves only if the move gains more than STAY_BONUS, and only if its present gain is
 * at most MOVER_GAIN_MAX. */
#define STAY_BONUS     0.05
#define MOVER_GAIN_MAX 0.6
/* Smallest weight of an edge. */
#define WEIGHT_MIN 0.001

/* A workload that may get a device. */
struct row {
    struct policy_waiting waiting;
    size_t index;       /* in snapshot->waiting, if waiting */
    size_t group, rank; /* group of the row, and its number in the group */
    size_t from;        /* device of a running workload; FLEET_NONE: waiting */
    double bonus, stay; /* added to every edge; weight of the edge to stay */
};

/* Rows with the same gains for every class of devices. */
struct group {
    uint64_t hash;
    size_t row_count;
    double *gains;   /* by class; −INFINITY: no edge */
    size_t *devices; /* best first, as many as the rows can use */
    size_t device_count;
};

struct round {
    const struct policy *policy;
    const struct policy_snapshot *snapshot;
    struct row *rows;
    size_t row_count, waiting_rows;
    struct group groups[ROUNDS_GROUPS_MAX];
    size_t group_count;
    struct hash_map by_hash;
    size_t *columns; /* devices with an edge */
    uint32_t *column_of;
    size_t column_count;
    uint32_t *matched; /* matched column of each row */
};

static uint64_t row_hash(const struct policy_waiting *w)
{
    uint64_t hash = hash_string(w->needs->model);
    hash = hash_u64(hash ^ w->needs->quota_bytes);
    hash = hash_u64(hash ^ w->needs->swappable);
    hash = hash_u64(hash ^ ((uint64_t)w->needs->share_min_percent << 32 | w->known.kind));
    hash = hash_u64(hash ^ ((uint64_t)w->needs->wary << 2 | (uint64_t)w->takes_kept << 1 |
                            (uint64_t)w->needs->suspect));
    for (size_t i = 0; w->node_labels && i < w->node_labels->count; i++) {
        hash = hash_u64(hash ^ hash_string(w->node_labels->items[i].key));
        hash = hash_u64(hash ^ hash_string(w->node_labels->items[i].value));
    }
    return hash;
}

/* ---- rows ---- */

/* Computes the gain of every class through one of these workloads. */
static int fill_group(struct round *r, struct group *g, const struct policy_waiting *like)
{
    const struct fleet *fleet = r->snapshot->fleet;
    g->gains = malloc((fleet->class_count + 1) * sizeof *g->gains);
    if (!g->gains)
        return -ERR_NO_MEMORY;
    for (size_t i = 0; i < fleet->class_count; i++) {
        struct policy_candidate c = {.misfit = POLICY_MISFIT_END};
        if (fleet->classes[i].device_count > 0)
            policy_consider(r->policy, r->snapshot, like, i, &c);
        bool wanted = c.misfit == POLICY_FITS && c.objection == POLICY_OBJECTS_NONE;
        g->gains[i] = wanted ? c.speed_after - c.speed_before : -INFINITY;
    }
    return 0;
}

/* Returns 1 if there are too many groups. */
static int add_row(struct round *r, const struct row *row)
{
    uint64_t hash = row_hash(&row->waiting);
    size_t index = (size_t)(uintptr_t)hash_map_get(&r->by_hash, hash);
    if (index == 0) {
        if (r->group_count == ROUNDS_GROUPS_MAX)
            return 1;
        struct group *g = &r->groups[r->group_count];
        *g = (struct group){.hash = hash};
        index = ++r->group_count;
        if (fill_group(r, g, &row->waiting) < 0 ||
            hash_map_put(&r->by_hash, hash, (void *)(uintptr_t)index) < 0)
            return -ERR_NO_MEMORY;
    }
    struct row *added = &r->rows[r->row_count++];
    *added = *row;
    added->group = index - 1;
    added->rank = r->groups[index - 1].row_count++;
    return 0;
}

static int add_waiting(struct round *r)
{
    for (size_t i = 0; i < r->snapshot->waiting_count; i++) {
        struct row row = {.waiting = r->snapshot->waiting[i], .index = i, .from = FLEET_NONE};
        row.bonus = fmin((double)row.waiting.waited_ms / HOUR_MS, AGE_WEIGHT_MAX);
        int result = add_row(r, &row);
        if (result < 0)
            return result;
    }
    r->waiting_rows = r->row_count;
    return 0;
}

/* Returns the speed that the device would lose without its member i. */
static double gain_of_member(const struct fleet *fleet, const struct fleet_class *c, size_t i)
{
    struct forecast_set without = c->set;
    struct forecast_answer answer;
    double gain = 1 / c->answer.pd[i];
    forecast_set_remove(&without, i);
    fleet->forecast->together(fleet->forecast->context, &without, &answer);
    for (size_t j = 0; j < without.count; j++)
        gain += 1 / c->answer.pd[j < i ? j : j + 1] - 1 / answer.pd[j];
    return gain;
}

static int add_mover(struct round *r, size_t device, size_t i)
{
    const struct fleet *fleet = r->snapshot->fleet;
    const struct fleet_member *m = &fleet->devices[device].members[i];
    const struct fleet_class *c = &fleet->classes[fleet->devices[device].class_index];
    if (!m->checkpoints || m->needs->devices != 1 || fleet_member_is_service(m) ||
        c->answer.pd[i] <= 1)
        return 0;
    double gain = gain_of_member(fleet, c, i), left_ms;
    if (gain > MOVER_GAIN_MAX)
        return 0;
    left_ms = fleet_remaining_ms(fleet, device, i, r->snapshot->now_ms);
    struct row row = {.from = device, .stay = fmax(gain, 0) + STAY_BONUS};
    row.bonus = -ROUNDS_RESTART_MS / fmin(left_ms, MOVE_WITHIN_MS);
    row.waiting = (struct policy_waiting){.workload = m->workload,
                                          .needs = m->needs,
                                          .node_labels = m->node_labels,
                                          .known = {.kind = m->kind}};
    return add_row(r, &row);
}

static int add_movers(struct round *r)
{
    const struct fleet *fleet = r->snapshot->fleet;
    size_t most = r->waiting_rows + ROUNDS_MOVERS_MAX;
    size_t most_groups = r->group_count + ROUNDS_MOVER_GROUPS_MAX;
    for (size_t d = 0; d < fleet->device_count; d++)
        for (size_t i = 0; i < fleet->devices[d].member_count && r->row_count < most &&
                           r->group_count < most_groups;
             i++) {
            int result = add_mover(r, d, i);
            if (result < 0)
                return result;
        }
    return 0;
}

/* ---- columns ---- */

static int find_columns(struct round *r)
{
    const struct fleet *fleet = r->snapshot->fleet;
    r->columns = malloc((fleet->device_count + 1) * sizeof *r->columns);
    r->column_of = malloc((fleet->device_count + 1) * sizeof *r->column_of);
    if (!r->columns || !r->column_of)
        return -ERR_NO_MEMORY;
    for (size_t i = 0; i < fleet->class_count; i++) {
        fleet->class_numbers[i] = 0;
        for (size_t g = 0; g < r->group_count; g++)
            if (r->groups[g].gains[i] > -INFINITY)
                fleet->class_numbers[i] = 1;
    }
    for (size_t d = 0; d < fleet->device_count; d++) {
        r->column_of[d] = MATCHING_NONE;
        if (fleet->class_numbers[fleet->devices[d].class_index] <= 0)
            continue;
        r->column_of[d] = (uint32_t)r->column_count;
        r->columns[r->column_count++] = d;
    }
    return 0;
}

static double weight_of(const struct round *r, const struct row *row, size_t device)
{
    const struct fleet *fleet = r->snapshot->fleet;
    double gain = r->groups[row->group].gains[fleet->devices[device].class_index];
    if (device == row->from || gain <= 0)
        return 0;
    return gain + row->bonus > WEIGHT_MIN ? gain + row->bonus : 0;
}

/* ---- dense ---- */

/* The columns are the devices, plus one column per running task for staying. */
static int match_dense(struct round *r)
{
    size_t movers = r->row_count - r->waiting_rows, columns = r->column_count + movers;
    double *weights = calloc(r->row_count * columns + 1, sizeof *weights), total;
    if (!weights)
        return -ERR_NO_MEMORY;
    for (size_t i = 0; i < r->row_count; i++) {
        double *to = &weights[i * columns];
        for (size_t c = 0; c < r->column_count; c++)
            to[c] = weight_of(r, &r->rows[i], r->columns[c]);
        if (i >= r->waiting_rows)
            to[r->column_count + i - r->waiting_rows] = r->rows[i].stay;
    }
    int result = matching_dense(weights, r->row_count, columns, r->matched, &total);
    free(weights);
    return result;
}

/* ---- sparse ---- */

struct scored_class {
    double gain;
    size_t index;
};

static int compare_scored(const void *a, const void *b)
{
    const struct scored_class *x = a, *y = b;
    if (x->gain != y->gain)
        return x->gain > y->gain ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static int list_best(struct round *r, struct group *g, struct scored_class *work)
{
    const struct fleet *fleet = r->snapshot->fleet;
    size_t most = g->row_count + ROUNDS_BEST, count = 0;
    g->devices = malloc((most + 1) * sizeof *g->devices);
    if (!g->devices)
        return -ERR_NO_MEMORY;
    for (size_t i = 0; i < fleet->class_count; i++)
        if (g->gains[i] > 0)
            work[count++] = (struct scored_class){.gain = g->gains[i], .index = i};
    qsort(work, count, sizeof *work, compare_scored);
    for (size_t i = 0; i < count; i++)
        for (size_t d = fleet->classes[work[i].index].first;
             d != FLEET_NONE && g->device_count < most; d = fleet->devices[d].next)
            g->devices[g->device_count++] = d;
    return 0;
}

static size_t add_edge(const struct round *r, const struct row *row, size_t device,
                       struct matching_edge *edges, size_t count)
{
    double weight = weight_of(r, row, device);
    if (!(weight > 0))
        return count;
    uint32_t column = r->column_of[device];
    for (size_t i = 0; i < count; i++)
        if (edges[i].column == column)
            return count;
    edges[count] = (struct matching_edge){.column = column, .weight = (float)weight};
    return count + 1;
}

static size_t edges_of_row(const struct round *r, size_t i, struct rng *rng,
                           struct matching_edge *edges)
{
    const struct row *row = &r->rows[i];
    const struct group *g = &r->groups[row->group];
    size_t count = 0, device_count = r->snapshot->fleet->device_count;
    for (size_t k = 0; k < ROUNDS_BEST && k < g->device_count; k++)
        count = add_edge(r, row, g->devices[(row->rank + k) % g->device_count], edges, count);
    for (size_t k = 0; k < ROUNDS_RANDOM; k++)
        count = add_edge(r, row, rng_below(rng, device_count), edges, count);
    if (i >= r->waiting_rows)
        edges[count++] =
            (struct matching_edge){.column = (uint32_t)(r->column_count + i - r->waiting_rows),
                                   .weight = (float)row->stay};
    return count;
}

static int match_sparse(struct round *r)
{
    const struct fleet *fleet = r->snapshot->fleet;
    enum { ROW_EDGES_MAX = ROUNDS_BEST + ROUNDS_RANDOM + 1 };
    struct scored_class *work = malloc((fleet->class_count + 1) * sizeof *work);
    size_t *first = malloc((r->row_count + 1) * sizeof *first), count = 0;
    struct matching_edge *edges = malloc((r->row_count * ROW_EDGES_MAX + 1) * sizeof *edges);
    struct matching_result matched;
    struct rng rng;
    int result = work && first && edges ? 0 : -ERR_NO_MEMORY;
    for (size_t g = 0; result == 0 && g < r->group_count; g++)
        result = list_best(r, &r->groups[g], work);
    rng_seed(&rng, r->snapshot->seed);
    for (size_t i = 0; result == 0 && i < r->row_count; i++) {
        first[i] = count;
        count += edges_of_row(r, i, &rng, &edges[count]);
        first[i + 1] = count;
    }
    if (result == 0) {
        struct matching_graph graph = {.rows = r->row_count,
                                       .columns = r->column_count + r->row_count - r->waiting_rows,
                                       .first_edges = first,
                                       .edges = edges};
        result = matching_sparse(&graph, ROUNDS_GAP, r->matched, NULL, &matched);
    }
    free(work);
    free(first);
    free(edges);
    return result;
}

/* ---- the round ---- */

static void report(const struct round *r, struct policy_round *ret)
{
    const struct policy_snapshot *snapshot = r->snapshot;
    ret->decision_count = ret->move_count = 0;
    for (size_t i = 0; i < r->row_count; i++) {
        const struct row *row = &r->rows[i];
        if (r->matched[i] == MATCHING_NONE || r->matched[i] >= r->column_count)
            continue;
        size_t device = r->columns[r->matched[i]];
        if (i >= r->waiting_rows) {
            if (ret->move_count < POLICY_MOVES_MAX)
                ret->moves[ret->move_count++] = (struct policy_move){
                    .workload = row->waiting.workload, .from = row->from, .to = device};
            continue;
        }
        struct policy_decision *d = &ret->decisions[ret->decision_count++];
        *d = (struct policy_decision){
            .waiting = row->index, .node = snapshot->devices[device].node, .device_count = 1};
        d->devices[0] = device;
    }
}

static int match(struct round *r, bool moves)
{
    int result = add_waiting(r);
    if (result == 0 && moves)
        result = add_movers(r);
    if (result == 0)
        result = find_columns(r);
    if (result < 0 || r->row_count == 0 || r->column_count == 0)
        return result < 0 ? result : 1;
    bool small = r->row_count <= ROUNDS_DENSE_MAX && r->column_count <= ROUNDS_DENSE_MAX;
    return small ? match_dense(r) : match_sparse(r);
}

int policy_match_round(const struct policy *policy, const struct policy_snapshot *snapshot,
                       bool moves, struct policy_round *ret_round)
{
    size_t most = snapshot->waiting_count + (moves ? ROUNDS_MOVERS_MAX : 0);
    struct round *r = calloc(1, sizeof *r);
    int result = -ERR_NO_MEMORY;
    if (!r)
        return result;
    r->policy = policy;
    r->snapshot = snapshot;
    hash_map_init(&r->by_hash);
    r->rows = malloc((most + 1) * sizeof *r->rows);
    r->matched = malloc((most + 1) * sizeof *r->matched);
    if (r->rows && r->matched)
        result = match(r, moves);
    if (result == 0)
        report(r, ret_round);
    else if (result > 0)
        ret_round->decision_count = ret_round->move_count = 0;
    for (size_t g = 0; g < r->group_count; g++) {
        free(r->groups[g].gains);
        free(r->groups[g].devices);
    }
    hash_map_done(&r->by_hash);
    free(r->rows);
    free(r->matched);
    free(r->columns);
    free(r->column_of);
    free(r);
    return result < 0 ? result : 0;
}
