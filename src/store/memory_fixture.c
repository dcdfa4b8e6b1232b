/*
 * The store in memory, for tests. Rows are one array in the order of their ids. A commit first
 * makes everything that can fail (copies, room), then links the results, so that a commit is atomic
 * like a durable one. One mutex protects the store, which writer and reader use on two threads.
 */
#include "store/memory_fixture.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/str.h"
#include "store/store_internal.h"

struct spec {
    uint64_t id;
    size_t references;
    char *json, *summary; /* summary: NULL if there is none */
};

struct row {
    struct store_workload data; /* strings are owned by the row, but for `spec` */
    struct spec *spec;
};

struct node_row {
    char *name, *json;
    bool drained;
};

struct token_row {
    struct list link;
    struct store_token data; /* strings are owned by the row */
};

struct memory_store {
    struct store base;
    pthread_mutex_t lock;
    struct row **rows; /* ascending ids */
    size_t row_count, row_capacity;
    struct hash_map specs;  /* id → struct spec */
    struct node_row *nodes; /* ascending names */
    size_t node_count, node_capacity;
    struct list tokens; /* list of struct token_row, in the order of their addition */
    uint64_t last_token;
    struct store_event *events; /* ascending revisions, without gaps */
    size_t event_count, event_capacity;
    uint64_t revision, last_id;
    struct store_counters counters;
};

static struct memory_store *memory_of(struct store *s)
{
    return (struct memory_store *)s;
}

/* ---- pieces ---- */

static char *copy_of(const char *s)
{
    return s ? strdup(s) : NULL;
}

static void row_free(struct row *row)
{
    if (!row)
        return;
    free((char *)row->data.user);
    free((char *)row->data.name);
    free((char *)row->data.base);
    free((char *)row->data.key);
    free((char *)row->data.after);
    free((char *)row->data.status);
    free(row);
}

static struct row *row_new(const struct store_workload *from)
{
    struct row *row = calloc(1, sizeof *row);
    if (!row)
        return NULL;
    row->data = *from;
    row->data.user = copy_of(from->user);
    row->data.name = copy_of(from->name);
    row->data.base = copy_of(from->base);
    row->data.key = copy_of(from->key);
    row->data.after = copy_of(from->after);
    row->data.status = copy_of(from->status);
    if (!row->data.user || !row->data.name || !row->data.base || !row->data.after ||
        !row->data.status || (from->key && !row->data.key)) {
        row_free(row);
        return NULL;
    }
    return row;
}

static void token_free(struct token_row *row)
{
    if (!row)
        return;
    free((char *)row->data.hash);
    free((char *)row->data.role);
    free((char *)row->data.account);
    free((char *)row->data.creator);
    free(row);
}

static struct token_row *token_new(const struct store_token *from)
{
    struct token_row *row = calloc(1, sizeof *row);
    if (!row)
        return NULL;
    row->data = *from;
    row->data.hash = copy_of(from->hash);
    row->data.role = copy_of(from->role);
    row->data.account = copy_of(from->account);
    row->data.creator = copy_of(from->creator);
    if (row->data.hash && row->data.role && row->data.account && row->data.creator)
        return row;
    token_free(row);
    return NULL;
}

/* Returns the token with this id, or with this hash unless the hash is NULL. */
static struct token_row *token_find(const struct memory_store *m, uint64_t id, const char *hash)
{
    list_for_each (it, &m->tokens) {
        struct token_row *row = list_entry(it, struct token_row, link);
        if (row->data.id == id || (hash && str_equal(row->data.hash, hash)))
            return row;
    }
    return NULL;
}

static void spec_free(struct spec *spec)
{
    if (!spec)
        return;
    free(spec->json);
    free(spec->summary);
    free(spec);
}

static void event_done(struct store_event *event)
{
    free((char *)event->node);
    free((char *)event->what);
    free((char *)event->text);
}

static int event_copy(const struct store_event *from, struct store_event *ret)
{
    struct store_event copy = *from;
    copy.node = copy_of(from->node);
    copy.what = copy_of(from->what);
    copy.text = copy_of(from->text);
    if (!copy.node || !copy.what || !copy.text) {
        event_done(&copy);
        return -ERR_NO_MEMORY;
    }
    *ret = copy;
    return 0;
}

/* Returns the index of the first row whose id is not below `id`. */
static size_t row_position(const struct memory_store *m, uint64_t id)
{
    size_t low = 0, high = m->row_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m->rows[middle]->data.id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct row *row_find(const struct memory_store *m, uint64_t id)
{
    size_t i = row_position(m, id);
    return i < m->row_count && m->rows[i]->data.id == id ? m->rows[i] : NULL;
}

static int reserve(void **items, size_t *capacity, size_t need, size_t item_bytes)
{
    if (need <= *capacity)
        return 0;
    size_t bigger = *capacity * 2 > need ? *capacity * 2 : need;
    void *moved = reallocarray(*items, bigger, item_bytes);
    if (!moved)
        return -ERR_NO_MEMORY;
    *items = moved;
    *capacity = bigger;
    return 0;
}

/* ---- commit: prepare what can fail, then link ---- */

/* Memory of one operation; all NULL once linked. */
struct prepared {
    struct row *row;
    struct spec *spec;
    char *text; /* text of a status */
    struct node_row node;
    struct token_row *token;
    struct store_event event;
};

struct plan {
    struct prepared *items; /* one item for each operation */
    size_t count, rows, nodes, events;
    struct hash_map new_rows;
};

static void plan_done(struct plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        struct prepared *p = &plan->items[i];
        row_free(p->row);
        spec_free(p->spec);
        free(p->text);
        free(p->node.name);
        free(p->node.json);
        token_free(p->token);
        event_done(&p->event);
    }
    free(plan->items);
    hash_map_done(&plan->new_rows);
}

static int prepare_spec(struct error *e, struct memory_store *m, const struct store_op *op,
                        struct prepared *p)
{
    if (hash_map_get(&m->specs, op->spec.id))
        return store_error_spec_exists(e, op->spec.id);
    struct spec *spec = calloc(1, sizeof *spec);
    if (!spec)
        return -ERR_NO_MEMORY;
    *spec = (struct spec){
        .id = op->spec.id, .json = copy_of(op->spec.json), .summary = copy_of(op->spec.summary)};
    if (!spec->json || (op->spec.summary && !spec->summary) ||
        hash_map_put(&m->specs, spec->id, spec) < 0) {
        spec_free(spec);
        return -ERR_NO_MEMORY;
    }
    p->spec = spec;
    return 0;
}

static int prepare_workload(struct error *e, struct memory_store *m, const struct store_op *op,
                            struct plan *plan, struct prepared *p)
{
    uint64_t id = op->workload.id;
    if (row_find(m, id) || hash_map_get(&plan->new_rows, id))
        return store_error_workload_exists(e, id);
    p->row = row_new(&op->workload);
    plan->rows++;
    return p->row ? hash_map_put(&plan->new_rows, id, p->row) : -ERR_NO_MEMORY;
}

static int prepare(struct error *e, struct memory_store *m, const struct store_op *op,
                   struct plan *plan, struct prepared *p)
{
    switch (op->kind) {
    case STORE_OP_SPEC:
        return prepare_spec(e, m, op, p);
    case STORE_OP_WORKLOAD:
        return prepare_workload(e, m, op, plan, p);
    case STORE_OP_STATUS:
        p->text = copy_of(op->status.json);
        return p->text ? 0 : -ERR_NO_MEMORY;
    case STORE_OP_NODE:
        plan->nodes++;
        p->node = (struct node_row){.name = copy_of(op->node.name),
                                    .json = copy_of(op->node.json),
                                    .drained = op->node.drained};
        return p->node.name && p->node.json ? 0 : -ERR_NO_MEMORY;
    case STORE_OP_EVENT:
        plan->events++;
        return event_copy(&op->event, &p->event);
    case STORE_OP_TOKEN:
        if (token_find(m, op->token.id, op->token.hash))
            return store_error_token_exists(e, op->token.id);
        p->token = token_new(&op->token);
        return p->token ? 0 : -ERR_NO_MEMORY;
    case STORE_OP_DELETE:
    case STORE_OP_DELETE_TOKEN:
        return 0;
    }
    return -ERR_INTERNAL;
}

static int prepare_all(struct error *e, struct memory_store *m, const struct store_batch *b,
                       struct plan *plan)
{
    plan->items = calloc(b->count, sizeof *plan->items);
    if (!plan->items)
        return -ERR_NO_MEMORY;
    plan->count = b->count;
    int r = 0;
    size_t i = 0;
    for (const struct store_op *op = b->first; op && r == 0; op = op->next)
        r = prepare(e, m, op, plan, &plan->items[i++]);
    if (r == 0)
        r = reserve((void **)&m->rows, &m->row_capacity, m->row_count + plan->rows,
                    sizeof(struct row *));
    if (r == 0)
        r = reserve((void **)&m->nodes, &m->node_capacity, m->node_count + plan->nodes,
                    sizeof(struct node_row));
    if (r == 0)
        r = reserve((void **)&m->events, &m->event_capacity, m->event_count + plan->events,
                    sizeof(struct store_event));
    for (i = 0; r < 0 && i < plan->count; i++)
        if (plan->items[i].spec)
            hash_map_remove(&m->specs, plan->items[i].spec->id);
    return r;
}

static void link_row(struct memory_store *m, struct row *row)
{
    size_t at = row_position(m, row->data.id);
    memmove(&m->rows[at + 1], &m->rows[at], (m->row_count - at) * sizeof(struct row *));
    m->rows[at] = row;
    m->row_count++;
    row->spec = hash_map_get(&m->specs, row->data.spec_id);
    if (row->spec)
        row->spec->references++;
    if (row->data.id > m->last_id)
        m->last_id = row->data.id;
}

static void unlink_row(struct memory_store *m, uint64_t id)
{
    size_t at = row_position(m, id);
    if (at == m->row_count || m->rows[at]->data.id != id)
        return;
    struct row *row = m->rows[at];
    m->row_count--;
    memmove(&m->rows[at], &m->rows[at + 1], (m->row_count - at) * sizeof(struct row *));
    if (row->spec && --row->spec->references == 0) {
        hash_map_remove(&m->specs, row->spec->id);
        spec_free(row->spec);
    }
    row_free(row);
}

static void link_node(struct memory_store *m, struct node_row *node)
{
    size_t at = 0;
    while (at < m->node_count && strcmp(m->nodes[at].name, node->name) < 0)
        at++;
    if (at < m->node_count && strcmp(m->nodes[at].name, node->name) == 0) {
        struct node_row old = m->nodes[at];
        m->nodes[at] = *node;
        free(old.name);
        free(old.json);
    } else {
        memmove(&m->nodes[at + 1], &m->nodes[at], (m->node_count - at) * sizeof *node);
        m->nodes[at] = *node;
        m->node_count++;
    }
    *node = (struct node_row){0};
}

static void apply(struct memory_store *m, const struct store_op *op, struct prepared *p)
{
    switch (op->kind) {
    case STORE_OP_SPEC:
        p->spec = NULL; /* owned by the map from here on */
        break;
    case STORE_OP_WORKLOAD:
        link_row(m, p->row);
        p->row = NULL;
        break;
    case STORE_OP_STATUS: {
        struct row *row = row_find(m, op->status.id);
        if (!row)
            break;
        row->data.state = op->status.state;
        row->data.ended_wall_ms = op->status.ended_wall_ms;
        char *old = (char *)row->data.status;
        row->data.status = p->text;
        p->text = old;
        break;
    }
    case STORE_OP_DELETE:
        unlink_row(m, op->delete.id);
        break;
    case STORE_OP_NODE:
        link_node(m, &p->node);
        break;
    case STORE_OP_TOKEN:
        list_append(&m->tokens, &p->token->link);
        m->last_token = p->token->data.id > m->last_token ? p->token->data.id : m->last_token;
        p->token = NULL;
        break;
    case STORE_OP_DELETE_TOKEN: {
        struct token_row *row = token_find(m, op->delete_token.id, NULL);
        if (row)
            list_remove(&row->link);
        token_free(row);
        break;
    }
    case STORE_OP_EVENT:
        p->event.revision = ++m->revision;
        m->events[m->event_count++] = p->event;
        p->event = (struct store_event){0};
        break;
    }
}

static int memory_commit(struct error *e, struct store *s, const struct store_batch *b)
{
    struct memory_store *m = memory_of(s);
    struct plan plan = {0};
    pthread_mutex_lock(&m->lock);
    int r = prepare_all(e, m, b, &plan);
    if (r == 0) {
        size_t i = 0;
        for (const struct store_op *op = b->first; op; op = op->next)
            apply(m, op, &plan.items[i++]);
        m->counters.commits++;
        m->counters.operations += b->count;
    }
    pthread_mutex_unlock(&m->lock);
    plan_done(&plan);
    if (r == -ERR_NO_MEMORY)
        return error_set(e, ERR_NO_MEMORY, "no memory to store a batch of %zu operations",
                         b->count);
    return r;
}

static int memory_trim(struct error *e, struct store *s, uint64_t keep_events)
{
    (void)e;
    struct memory_store *m = memory_of(s);
    pthread_mutex_lock(&m->lock);
    size_t drop = m->event_count > keep_events ? m->event_count - (size_t)keep_events : 0;
    for (size_t i = 0; i < drop; i++)
        event_done(&m->events[i]);
    m->event_count -= drop;
    if (drop)
        memmove(m->events, m->events + drop, m->event_count * sizeof *m->events);
    pthread_mutex_unlock(&m->lock);
    return 0;
}

/* ---- reading ---- */

static bool is_owned(const struct store_workload *w, const struct store_owner *owner)
{
    return !owner ||
           (owner->uid == w->uid && (owner->uid != UID_BY_NAME || str_equal(owner->user, w->user)));
}

static bool row_matches(const struct row *row, const struct store_filter *f)
{
    const struct store_workload *w = &row->data;
    return (f->states == 0 || (f->states & (1u << w->state))) &&
           (f->kind < 0 || f->kind == (int)w->kind) && is_owned(w, f->owner) &&
           (!f->name || str_equal(f->name, w->name) || str_equal(f->name, w->base)) &&
           (f->before == 0 || w->id < f->before);
}

static int hand_out(const struct row *row, bool summaries, store_workload_fn fn, void *arg)
{
    struct store_workload w = row->data;
    w.summary = summaries && row->spec ? row->spec->summary : NULL;
    w.spec = row->spec && (!w.summary || w.state == WORKLOAD_STARTING) ? row->spec->json : NULL;
    return fn(arg, &w);
}

static int memory_list(struct error *e, struct store *s, const struct store_filter *filter,
                       store_workload_fn fn, void *arg)
{
    (void)e;
    struct memory_store *m = memory_of(s);
    pthread_mutex_lock(&m->lock);
    int r = 0;
    size_t left = filter->limit;
    for (size_t i = m->row_count; i > 0 && left > 0 && r == 0; i--) {
        if (row_matches(m->rows[i - 1], filter)) {
            r = hand_out(m->rows[i - 1], filter->summaries, fn, arg);
            left--;
        }
    }
    pthread_mutex_unlock(&m->lock);
    return r;
}

static int memory_get(struct error *e, struct store *s, uint64_t id, store_workload_fn fn,
                      void *arg)
{
    struct memory_store *m = memory_of(s);
    pthread_mutex_lock(&m->lock);
    struct row *row = row_find(m, id);
    int r = row ? hand_out(row, false, fn, arg) : store_error_no_workload(e, id);
    pthread_mutex_unlock(&m->lock);
    return r;
}

static int memory_resolve(struct error *e, struct store *s, const struct store_owner *owner,
                          const char *name, uint64_t *ret_ids, size_t room)
{
    (void)e;
    struct memory_store *m = memory_of(s);
    struct store_filter filter = {.kind = -1, .owner = owner, .name = name};
    size_t count = 0;
    pthread_mutex_lock(&m->lock);
    size_t i = m->row_count;
    while (i > 0 && !row_matches(m->rows[i - 1], &filter))
        i--;
    if (i > 0 && room > 0) {
        const struct store_workload *newest = &m->rows[i - 1]->data;
        if (str_equal(newest->name, name)) {
            ret_ids[count++] = newest->id;
        } else {
            for (size_t j = row_position(m, newest->group); j < i && count < room; j++)
                if (m->rows[j]->data.group == newest->group)
                    ret_ids[count++] = m->rows[j]->data.id;
        }
    }
    pthread_mutex_unlock(&m->lock);
    return (int)count;
}

/* Called under the lock. */
static int hand_out_nodes(struct memory_store *m, store_node_fn fn, void *arg)
{
    int r = 0;
    for (size_t i = 0; i < m->node_count && r == 0; i++)
        r = fn(arg, m->nodes[i].name, m->nodes[i].drained, m->nodes[i].json);
    return r;
}

static int memory_nodes(struct error *e, struct store *s, store_node_fn fn, void *arg)
{
    (void)e;
    struct memory_store *m = memory_of(s);
    pthread_mutex_lock(&m->lock);
    int r = hand_out_nodes(m, fn, arg);
    pthread_mutex_unlock(&m->lock);
    return r;
}

static int memory_load(struct error *e, struct store *s, store_node_fn node_fn,
                       store_workload_fn workload_fn, void *arg, uint64_t *ret_last_id)
{
    (void)e;
    struct memory_store *m = memory_of(s);
    pthread_mutex_lock(&m->lock);
    int r = hand_out_nodes(m, node_fn, arg);
    for (size_t i = 0; i < m->row_count && r == 0; i++) {
        struct store_workload w = m->rows[i]->data;
        bool finished = workload_state_is_terminal(w.state);
        w.spec = !finished && m->rows[i]->spec ? m->rows[i]->spec->json : NULL;
        if (finished)
            w.status = NULL;
        r = workload_fn(arg, &w);
    }
    if (r == 0)
        *ret_last_id = m->last_id;
    pthread_mutex_unlock(&m->lock);
    return r;
}

static int memory_tokens(struct error *e, struct store *s, store_token_fn fn, void *arg,
                         uint64_t *ret_last_id)
{
    (void)e;
    struct memory_store *m = memory_of(s);
    pthread_mutex_lock(&m->lock);
    int r = 0;
    list_for_each (it, &m->tokens) {
        r = fn(arg, &list_entry(it, struct token_row, link)->data);
        if (r != 0)
            break;
    }
    if (r == 0)
        *ret_last_id = m->last_token;
    pthread_mutex_unlock(&m->lock);
    return r;
}

static int memory_events(struct error *e, struct store *s, uint64_t since, uint64_t workload,
                         size_t limit, store_event_fn fn, void *arg)
{
    struct memory_store *m = memory_of(s);
    pthread_mutex_lock(&m->lock);
    uint64_t oldest = m->revision - m->event_count;
    int r = since < oldest ? store_error_events_gone(e, since, oldest) : 0;
    for (size_t i = since - oldest; r == 0 && limit > 0 && i < m->event_count; i++) {
        if (workload && m->events[i].workload != workload)
            continue;
        r = fn(arg, &m->events[i]);
        limit--;
    }
    pthread_mutex_unlock(&m->lock);
    return r;
}

static uint64_t memory_revision(struct store *s)
{
    struct memory_store *m = memory_of(s);
    pthread_mutex_lock(&m->lock);
    uint64_t revision = m->revision;
    pthread_mutex_unlock(&m->lock);
    return revision;
}

static void memory_count(struct store *s, struct store_counters *ret)
{
    struct memory_store *m = memory_of(s);
    pthread_mutex_lock(&m->lock);
    *ret = m->counters;
    pthread_mutex_unlock(&m->lock);
}

static int memory_check(struct error *e, struct store *s)
{
    struct memory_store *m = memory_of(s);
    pthread_mutex_lock(&m->lock);
    int r = 0;
    for (size_t i = 0; i < m->row_count && r == 0; i++)
        if (!m->rows[i]->spec)
            r = error_set(e, ERR_CORRUPT, "workload %llu has no spec",
                          (unsigned long long)m->rows[i]->data.id);
    pthread_mutex_unlock(&m->lock);
    return r;
}

static void memory_close(struct store *s)
{
    struct memory_store *m = memory_of(s);
    for (size_t i = 0; i < m->row_count; i++)
        row_free(m->rows[i]);
    free(m->rows);
    size_t cursor = 0;
    void *spec;
    while (hash_map_next(&m->specs, &cursor, NULL, &spec))
        spec_free(spec);
    hash_map_done(&m->specs);
    for (size_t i = 0; i < m->node_count; i++) {
        free(m->nodes[i].name);
        free(m->nodes[i].json);
    }
    free(m->nodes);
    while (!list_empty(&m->tokens)) {
        struct token_row *row = list_entry(m->tokens.next, struct token_row, link);
        list_remove(&row->link);
        token_free(row);
    }
    for (size_t i = 0; i < m->event_count; i++)
        event_done(&m->events[i]);
    free(m->events);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static const struct store_ops memory_ops = {
    .close = memory_close,
    .commit = memory_commit,
    .trim = memory_trim,
    .list = memory_list,
    .get = memory_get,
    .resolve = memory_resolve,
    .load = memory_load,
    .nodes = memory_nodes,
    .tokens = memory_tokens,
    .events = memory_events,
    .revision = memory_revision,
    .count = memory_count,
    .check = memory_check,
};

int store_open_memory(struct error *e, struct store **ret)
{
    struct memory_store *m = calloc(1, sizeof *m);
    if (!m)
        return error_set(e, ERR_NO_MEMORY, "no memory for a store");
    m->base.ops = &memory_ops;
    pthread_mutex_init(&m->lock, NULL);
    hash_map_init(&m->specs);
    list_init(&m->tokens);
    *ret = &m->base;
    return 0;
}
