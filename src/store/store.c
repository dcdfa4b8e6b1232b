#include "store/store.h"

#include <assert.h>
#include <inttypes.h>

#include "store/store_internal.h"

void store_close(struct store *s)
{
    if (s)
        s->ops->close(s);
}

int store_commit(struct error *e, struct store *s, const struct store_batch *b)
{
    return b->count == 0 ? 0 : s->ops->commit(e, s, b);
}

int store_trim(struct error *e, struct store *s, uint64_t keep_events)
{
    return s->ops->trim(e, s, keep_events);
}

int store_list(struct error *e, struct store *s, const struct store_filter *filter,
               store_workload_fn fn, void *arg)
{
    assert(filter->limit <= STORE_PAGE_MAX);
    return s->ops->list(e, s, filter, fn, arg);
}

int store_get(struct error *e, struct store *s, uint64_t id, store_workload_fn fn, void *arg)
{
    return s->ops->get(e, s, id, fn, arg);
}

int store_resolve(struct error *e, struct store *s, const struct store_owner *owner,
                  const char *name, uint64_t *ret_ids, size_t room)
{
    return s->ops->resolve(e, s, owner, name, ret_ids, room);
}

int store_load(struct error *e, struct store *s, store_node_fn node_fn,
               store_workload_fn workload_fn, void *arg, uint64_t *ret_last_id)
{
    return s->ops->load(e, s, node_fn, workload_fn, arg, ret_last_id);
}

int store_nodes(struct error *e, struct store *s, store_node_fn fn, void *arg)
{
    return s->ops->nodes(e, s, fn, arg);
}

int store_tokens(struct error *e, struct store *s, store_token_fn fn, void *arg,
                 uint64_t *ret_last_id)
{
    return s->ops->tokens(e, s, fn, arg, ret_last_id);
}

int store_events(struct error *e, struct store *s, uint64_t since, uint64_t workload, size_t limit,
                 store_event_fn fn, void *arg)
{
    return s->ops->events(e, s, since, workload, limit, fn, arg);
}

uint64_t store_revision(struct store *s)
{
    return s->ops->revision(s);
}

void store_count(struct store *s, struct store_counters *ret)
{
    s->ops->count(s, ret);
}

int store_check(struct error *e, struct store *s)
{
    return s->ops->check(e, s);
}

int store_error_spec_exists(struct error *e, uint64_t spec_id)
{
    return error_set(e, ERR_CONFLICT, "there is already a spec %" PRIu64, spec_id);
}

int store_error_workload_exists(struct error *e, uint64_t id)
{
    return error_set(e, ERR_CONFLICT, "there is already a workload %" PRIu64, id);
}

int store_error_token_exists(struct error *e, uint64_t id)
{
    return error_set(e, ERR_CONFLICT, "there is already a token %" PRIu64, id);
}

int store_error_no_workload(struct error *e, uint64_t id)
{
    return error_set(e, ERR_NOT_FOUND, "there is no workload %" PRIu64, id);
}

int store_error_events_gone(struct error *e, uint64_t since, uint64_t oldest)
{
    return error_set(e, ERR_GONE,
                     "events after revision %" PRIu64 " are no longer all kept; the oldest that a "
                     "watcher can resume at is %" PRIu64,
                     since, oldest);
}
