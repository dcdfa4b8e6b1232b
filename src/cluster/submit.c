/* Submissions: all or nothing, and once for each idempotency key. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cluster/cluster_internal.h"

static void key_hashes(uint32_t uid, const char *key, uint64_t *ret_hash, uint64_t *ret_check)
{
    size_t length = strlen(key);
    *ret_hash = hash_bytes(key, length, uid);
    *ret_check = hash_bytes(key, length, *ret_hash ^ UINT64_C(0x5bd1e995c0ffee11));
}

struct submit_key *submit_key_find(const struct cluster *c, uint32_t uid, const char *key)
{
    uint64_t hash, check;
    key_hashes(uid, key, &hash, &check);
    struct submit_key *k = hash_map_get(&c->keys, hash);
    return k && k->check == check ? k : NULL;
}

struct submit_key *submit_key_add(struct cluster *c, uint32_t uid, const char *key, uint64_t first,
                                  size_t count)
{
    uint64_t hash, check;
    key_hashes(uid, key, &hash, &check);
    if (hash_map_get(&c->keys, hash))
        return NULL;
    struct submit_key *k = malloc(sizeof *k);
    if (!k || hash_map_put(&c->keys, hash, k) < 0) {
        free(k);
        c->failed = true;
        return NULL;
    }
    *k = (struct submit_key){.hash = hash, .check = check, .first = first, .count = count};
    return k;
}

void submit_key_put(struct cluster *c, struct submit_key *key)
{
    if (!key || --key->references > 0)
        return;
    (void)hash_map_remove(&c->keys, key->hash);
    free(key);
}

static void reply_accepted(struct cluster *c, uint64_t request, uint64_t first, size_t count,
                           bool repeated)
{
    struct cluster_action *reply = action_accept(c, request);
    if (!reply)
        return;
    reply->first = first;
    reply->count = count;
    reply->repeated = repeated;
}

static void reply_refused(struct cluster *c, uint64_t request, const struct error *why)
{
    struct cluster_action *reply = action_refuse(c, request, -why->code, "%s", why->text);
    if (reply)
        (void)str_copy(reply->field, sizeof reply->field, why->field);
}

static int check_dependency_count(struct error *e, const struct cluster *c,
                                  const struct cluster_submission *items, size_t item_count)
{
    size_t count = 0;
    for (size_t i = 0; i < item_count; i++)
        count += items[i].after_count;
    if (count == 0 || c->dependency_count + count <= CLUSTER_DEPENDENCIES_MAX)
        return 0;
    if (count > CLUSTER_DEPENDENCIES_MAX)
        return error_set_field(
            e, ERR_TOO_LARGE, "after",
            "%zu dependencies in all, %d are the limit: submit one small task that waits "
            "for the array, and let these wait for that task",
            count, CLUSTER_DEPENDENCIES_MAX);
    return error_set_field(
        e, ERR_QUEUE_FULL, "after",
        "%zu dependencies are waited for, %zu more would pass the limit of %d: let "
        "one small task wait for the array, and these for that task",
        c->dependency_count, count, CLUSTER_DEPENDENCIES_MAX);
}

/* Every dependency is on a kept workload, or on an earlier one of this submission. */
static int check_dependencies(struct error *e, const struct cluster *c,
                              const struct cluster_submission *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t a = 0; a < items[i].after_count; a++) {
            const struct cluster_after *after = &items[i].after[a];
            if (after->within && after->workload >= i)
                return error_set_field(
                    e, ERR_INVALID, "after",
                    "only workloads that stand before this one can be waited for");
            if (!after->within && !workload_find(c, after->workload) &&
                !finished_find(c, after->workload))
                return error_set_field(e, ERR_INVALID, "after",
                                       "there is no workload %llu, or it is no longer kept",
                                       (unsigned long long)after->workload);
        }
    }
    return 0;
}

/* Limits each owner except administrators, so that no user can fill the queue for all. */
static int check_owner(struct error *e, const struct cluster *c,
                       const struct cluster_submission *items, size_t count)
{
    const struct owner *o = hash_map_get(&c->owners, items[0].owner);
    size_t live = o ? o->live : 0, most = c->config.queue_max_user;
    if (most == 0 || items[0].is_admin || live + count <= most)
        return 0;
    return error_set(
        e, ERR_QUEUE_FULL,
        "%zu workloads of yours are not finished, %zu more would pass the limit of %zu "
        "for one user (queue_max_user): cancel some, or submit these when some have "
        "ended",
        live, count, most);
}

int submit_check(struct error *e, const struct cluster *c, const struct cluster_submission *items,
                 size_t count)
{
    if (count == 0)
        return error_set_field(e, ERR_INVALID, "workloads", "there is nothing in it");
    if (count > c->config.queue_max || c->live.count > c->config.queue_max - count)
        return error_set(e, ERR_QUEUE_FULL,
                         "%zu workloads are not finished, %zu more would pass the limit of %zu "
                         "(queue_max)",
                         c->live.count, count, c->config.queue_max);
    int r = check_owner(e, c, items, count);
    if (r == 0)
        r = check_dependency_count(e, c, items, count);
    return r < 0 ? r : check_dependencies(e, c, items, count);
}

static struct dependency *copy_dependencies(const struct cluster_submission *item, uint64_t first)
{
    struct dependency *all = calloc(item->after_count, sizeof *all);
    for (size_t a = 0; all && a < item->after_count; a++) {
        all[a].on = item->after[a].workload + (item->after[a].within ? first : 0);
        all[a].succeeded = item->after[a].succeeded;
    }
    return all;
}

static void accept(struct cluster *c, const struct cluster_event *event, size_t i, uint64_t first,
                   struct submit_key *key)
{
    const struct cluster_submission *item = &event->submit.items[i];
    struct workload *w = workload_add(c, first + i, item->owner, item->needs, item->node_labels,
                                      &item->known, item->allowance);
    if (!w) {
        c->failed = true;
        return;
    }
    w->is_new = true;
    w->item = i;
    w->status.submitted_wall_ms = c->now.wall_ms;
    if (key) {
        w->key = key;
        key->references++;
    }
    workload_touch(c, w);
    action_log(c, event_submitted, w->id, 0, NULL, "%s", item->name);
    if (item->after_count > 0) {
        w->dependencies = copy_dependencies(item, first);
        if (!w->dependencies) {
            c->failed = true;
            return;
        }
        w->dependency_count = item->after_count;
        depend_link(c, w);
    }
    if (w->dependency_failed)
        workload_tick(c, w);
    else
        queue_consider(c, w);
}

void submit_handle(struct cluster *c, const struct cluster_event *event)
{
    size_t count = event->submit.count;
    struct submit_key *key = NULL;
    if (event->submit.key)
        key = submit_key_find(c, event->submit.uid, event->submit.key);
    if (key) {
        reply_accepted(c, event->request, key->first, key->count, true);
        return;
    }
    struct error why = {0};
    if (submit_check(&why, c, event->submit.items, count) < 0) {
        reply_refused(c, event->request, &why);
        return;
    }
    uint64_t first = c->last_id + 1;
    if (event->submit.key)
        key = submit_key_add(c, event->submit.uid, event->submit.key, first, count);
    c->last_id += count;
    for (size_t i = 0; i < count && !c->failed; i++)
        accept(c, event, i, first, key);
    reply_accepted(c, event->request, first, count, false);
}
