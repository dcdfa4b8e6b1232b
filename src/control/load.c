/* Building a cluster from what the store holds: at start, and after a commit that failed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/str.h"
#include "control/control_internal.h"
#include "wire/record.h"
#include "wire/spec.h"

struct loading {
    struct control *control;
    struct cluster *cluster;
    struct error *error;
    char user[USER_NAME_MAX]; /* whose allowance was last looked up */
    uint32_t allowance;
};

static int load_node(void *arg, const char *name, bool drained, const char *json)
{
    struct loading *l = arg;
    struct arena arena;
    arena_init(&arena, SPEC_TEXT_MAX);
    struct node_info *info = arena_alloc(&arena, sizeof *info);
    int r = info ? record_parse_node(l->error, &arena, json, info)
                 : error_set(l->error, ERR_NO_MEMORY, "out of memory");
    if (r < 0)
        error_prefix_field(l->error, name);
    else
        r = cluster_load_node(l->cluster, info, drained);
    arena_done(&arena);
    return r;
}

static int load_after(struct loading *l, struct arena *arena, const char *text,
                      struct cluster_stored *stored)
{
    struct after_id *ids;
    size_t count;
    int r = record_parse_after(l->error, arena, text, &ids, &count);
    if (r < 0)
        return r;
    struct cluster_after *after = arena_array(arena, count, sizeof *after);
    if (!after)
        return error_set(l->error, ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < count; i++)
        after[i] =
            (struct cluster_after){.workload = ids[i].workload, .succeeded = ids[i].succeeded};
    stored->after = after;
    stored->after_count = count;
    return 0;
}

static int load_live(struct loading *l, struct arena *arena, const struct store_workload *row,
                     struct cluster_stored *stored, struct workload_status *status)
{
    struct spec_list specs;
    int r = spec_parse(l->error, arena, row->spec, strlen(row->spec), &specs);
    if (r == 0 && specs.count != 1)
        r = error_set(l->error, ERR_CORRUPT, "not one workload");
    if (r == 0)
        r = record_parse_status(l->error, arena, row->status, status);
    if (r == 0)
        r = load_after(l, arena, row->after, stored);
    if (r < 0)
        return r;
    stored->needs = &specs.items[0].needs;
    stored->node_labels = &specs.items[0].node_labels;
    stored->known = control_known(l->control, l->cluster, row->user, &specs.items[0]);
    if (strcmp(l->user, row->user) != 0) {
        l->allowance = allowances_find(l->control, row->user);
        (void)str_copy(l->user, sizeof l->user, row->user);
    }
    stored->allowance = l->allowance;
    stored->owner = control_owner_number(row->uid, row->user);
    return 0;
}

static int load_workload(void *arg, const struct store_workload *row)
{
    struct loading *l = arg;
    struct arena arena;
    arena_init(&arena, HTTP_REQUEST_ARENA_MAX); /* what was accepted in as much is read again */
    struct workload_status status = {.state = row->state,
                                     .submitted_wall_ms = row->submitted_wall_ms,
                                     .ended_wall_ms = row->ended_wall_ms};
    struct cluster_stored stored = {.id = row->id,
                                    .uid = row->uid,
                                    .name = row->name,
                                    .key = row->key,
                                    .key_first = row->first,
                                    .key_count = row->submitted,
                                    .status = &status};
    int r = 0;
    if (!workload_state_is_terminal(row->state))
        r = load_live(l, &arena, row, &stored, &status);
    if (r < 0) {
        char id[32];
        snprintf(id, sizeof id, "workload %llu", (unsigned long long)row->id);
        error_prefix_field(l->error, id);
        if (l->error)
            l->error->code = ERR_CORRUPT;
    } else {
        r = cluster_load_workload(l->cluster, &stored);
    }
    arena_done(&arena);
    return r;
}

int control_load_cluster(struct error *e, struct control *c, struct cluster **ret)
{
    struct loading l = {.control = c, .error = e};
    /* Sessions are numbered from the seed: those of an earlier cluster must not be valid again. */
    c->cluster_config.seed = rng_os_seed();
    int r = cluster_new(&c->cluster_config, &l.cluster);
    if (r < 0)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    uint64_t last_id = 0;
    r = store_load(e, c->store, load_node, load_workload, &l, &last_id);
    if (r < 0) {
        cluster_free(l.cluster);
        return r;
    }
    cluster_load_done(l.cluster, last_id, clock_read());
    *ret = l.cluster;
    return 0;
}
