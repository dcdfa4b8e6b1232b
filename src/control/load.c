/*
 * Building a cluster from the store, at the start and after a failed commit.
 *
 * A live workload with an unreadable record must not prevent serving the others: the start sets
 * such a workload aside. That is, the workload counts as failed, and the unreadable text stays
 * unchanged for an operator. Many unreadable records are no accident, and another version may be
 * able to read them: then nothing is changed, and control does not start.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/str.h"
#include "control/control_internal.h"
#include "wire/record.h"
#include "wire/spec.h"

enum { SET_ASIDE_MAX = 4 };

struct unreadable {
    uint64_t id;
    char why[WORKLOAD_TEXT_MAX];
};

struct loading {
    struct control *control;
    struct cluster *cluster;
    struct error *error;
    char user[USER_NAME_MAX]; /* user of the last lookup of an allowance */
    uint32_t allowance;
    size_t unreadable_count;
    struct unreadable unreadable[SET_ASIDE_MAX]; /* the first unreadable records */
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

static int load_after(struct error *e, struct arena *arena, const char *text,
                      struct cluster_stored *stored)
{
    struct after_id *ids;
    size_t count;
    int r = record_parse_after(e, arena, text, &ids, &count);
    if (r < 0)
        return r;
    struct cluster_after *after = arena_array(arena, count, sizeof *after);
    if (!after)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < count; i++)
        after[i] =
            (struct cluster_after){.workload = ids[i].workload, .succeeded = ids[i].succeeded};
    stored->after = after;
    stored->after_count = count;
    return 0;
}

static int load_live(struct loading *l, struct error *e, struct arena *arena,
                     const struct store_workload *row, struct cluster_stored *stored,
                     struct workload_status *status)
{
    struct spec_list specs;
    int r = spec_parse(e, arena, row->spec, strlen(row->spec), &specs);
    if (r == 0 && specs.count != 1)
        r = error_set(e, ERR_CORRUPT, "not one workload");
    if (r == 0)
        r = record_parse_status(e, arena, row->status, status);
    if (r == 0)
        r = load_after(e, arena, row->after, stored);
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

void control_say_unreadable(const struct error *why, char text[WORKLOAD_TEXT_MAX])
{
    (void)snprintf(text, WORKLOAD_TEXT_MAX, "its record cannot be read: %.40s%s%.110s", why->field,
                   why->field[0] ? ": " : "", why->text);
}

/* Notes an unreadable record, and continues to find the others, though the cluster is not used. */
static void note_unreadable(struct loading *l, uint64_t id, const struct error *why)
{
    if (l->unreadable_count++ >= SET_ASIDE_MAX)
        return;
    struct unreadable *u = &l->unreadable[l->unreadable_count - 1];
    u->id = id;
    control_say_unreadable(why, u->why);
}

static int load_workload(void *arg, const struct store_workload *row)
{
    struct loading *l = arg;
    struct arena arena;
    /* as large as the arena in which the request was accepted */
    arena_init(&arena, HTTP_REQUEST_ARENA_MAX);
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
    struct error why = {0};
    int r = 0;
    if (!workload_state_is_terminal(row->state))
        r = load_live(l, &why, &arena, row, &stored, &status);
    if (r == 0) {
        r = cluster_load_workload(l->cluster, &stored);
        if (r == -ERR_CORRUPT)
            (void)error_set(&why, ERR_CORRUPT, "it is %s without an attempt",
                            workload_state_name(status.state));
    }
    if (r == -ERR_NO_MEMORY) {
        (void)error_set(l->error, ERR_NO_MEMORY, "no memory for workload %llu",
                        (unsigned long long)row->id);
    } else if (r < 0) {
        note_unreadable(l, row->id, &why);
        r = 0;
    }
    arena_done(&arena);
    return r;
}

struct setting_aside {
    struct store_batch *batch;
    const char *why;
    int64_t now_wall_ms;
};

/* Books the failure; the status changes too, unless the status is the unreadable part. */
static int book_failure(struct setting_aside *s, const struct store_workload *row)
{
    struct arena arena;
    struct str json;
    struct workload_status status;
    arena_init(&arena, HTTP_REQUEST_ARENA_MAX);
    str_init(&json, SPEC_TEXT_MAX);
    const char *text = row->status;
    if (record_parse_status(NULL, &arena, row->status, &status) == 0) {
        status.state = WORKLOAD_FAILED;
        status.ended_wall_ms = s->now_wall_ms;
        (void)str_copy(status.text, sizeof status.text, s->why);
        if (record_write_status(&status, &json) == 0)
            text = str_text(&json);
    }
    int r = store_batch_status(s->batch, row->id, WORKLOAD_FAILED, s->now_wall_ms, text);
    str_done(&json);
    arena_done(&arena);
    return r;
}

static int set_aside_row(void *arg, const struct store_workload *row)
{
    struct setting_aside *s = arg;
    const struct store_event event = {.wall_ms = s->now_wall_ms,
                                      .workload = row->id,
                                      .uid = row->uid,
                                      .node = "",
                                      .what = "failed",
                                      .text = s->why};
    int r = book_failure(s, row);
    return r < 0 ? r : store_batch_event(s->batch, &event);
}

/* Sets workloads aside before the committer exists, whose thread is otherwise the only writer. */
static int set_aside(struct error *e, struct control *c, const struct loading *l)
{
    struct setting_aside s = {.batch = store_batch_new(), .now_wall_ms = clock_wall_ms()};
    int r = s.batch ? 0 : error_set(e, ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < l->unreadable_count && r == 0; i++) {
        s.why = l->unreadable[i].why;
        r = store_get(e, c->store, l->unreadable[i].id, set_aside_row, &s);
    }
    if (r == 0)
        r = store_commit(e, c->store, s.batch);
    for (size_t i = 0; i < l->unreadable_count && r == 0; i++)
        log_write(c->log, LOG_ERROR, "workload set aside", "workload=%llu error=\"%s\"",
                  (unsigned long long)l->unreadable[i].id, l->unreadable[i].why);
    store_batch_free(s.batch);
    return r;
}

static int refuse(struct error *e, const struct loading *l)
{
    return error_set(e, ERR_CORRUPT,
                     "live workloads that cannot be read: %zu, the first is workload %llu (%s); "
                     "nothing was changed: the gpumux that wrote them may read them, and "
                     "`gpumux state export` shows what is there",
                     l->unreadable_count, (unsigned long long)l->unreadable[0].id,
                     l->unreadable[0].why);
}

static int load_cluster(struct error *e, struct control *c, struct loading *l, struct cluster **ret)
{
    *l = (struct loading){.control = c, .error = e};
    /* The seed numbers sessions: those of an earlier cluster must not become valid again. */
    c->cluster_config.seed = rng_os_seed();
    int r = cluster_new(&c->cluster_config, &l->cluster);
    if (r < 0)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    uint64_t last_id = 0;
    r = store_load(e, c->store, load_node, load_workload, l, &last_id);
    if (r == 0 && l->unreadable_count > 0)
        r = refuse(e, l);
    if (r < 0) {
        cluster_free(l->cluster);
        return r;
    }
    cluster_load_done(l->cluster, last_id, clock_read());
    *ret = l->cluster;
    return 0;
}

int control_load_cluster(struct error *e, struct control *c, struct cluster **ret)
{
    struct loading l;
    int r = load_cluster(e, c, &l, ret);
    if (r == 0 || l.unreadable_count == 0 || l.unreadable_count > SET_ASIDE_MAX || c->committer)
        return r;
    r = set_aside(e, c, &l);
    return r < 0 ? r : load_cluster(e, c, &l, ret);
}
