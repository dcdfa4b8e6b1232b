#include <stdlib.h>

#include "store/store_internal.h"

struct store_batch *store_batch_new(void)
{
    struct store_batch *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    arena_init(&b->arena, STORE_BATCH_BYTES_MAX);
    b->last = &b->first;
    return b;
}

void store_batch_free(struct store_batch *b)
{
    if (!b)
        return;
    arena_done(&b->arena);
    free(b);
}

void store_batch_clear(struct store_batch *b)
{
    arena_done(&b->arena);
    b->first = NULL;
    b->last = &b->first;
    b->count = 0;
}

size_t store_batch_count(const struct store_batch *b)
{
    return b->count;
}

static struct store_op *op_new(struct store_batch *b, enum store_op_kind kind)
{
    struct store_op *op = arena_alloc(&b->arena, sizeof *op);
    if (op)
        op->kind = kind;
    return op;
}

static void op_append(struct store_batch *b, struct store_op *op)
{
    *b->last = op;
    b->last = &op->next;
    b->count++;
}

/* Copies *s in place; NULL stays NULL. Returns false when out of memory. */
static bool keep(struct store_batch *b, const char **s)
{
    if (!*s)
        return true;
    *s = arena_strdup(&b->arena, *s);
    return *s != NULL;
}

int store_batch_spec(struct store_batch *b, uint64_t spec_id, const char *json, const char *summary)
{
    struct store_op *op = op_new(b, STORE_OP_SPEC);
    if (!op || !keep(b, &json) || !keep(b, &summary))
        return -ERR_NO_MEMORY;
    op->spec.id = spec_id;
    op->spec.json = json;
    op->spec.summary = summary;
    op_append(b, op);
    return 0;
}

int store_batch_workload(struct store_batch *b, const struct store_workload *row)
{
    struct store_op *op = op_new(b, STORE_OP_WORKLOAD);
    if (!op)
        return -ERR_NO_MEMORY;
    struct store_workload *copy = &op->workload;
    *copy = *row;
    /* The spec is an operation of its own, so that the elements of an array share it. */
    copy->spec = copy->summary = NULL;
    if (!copy->after)
        copy->after = "[]";
    if (!keep(b, &copy->user) || !keep(b, &copy->name) || !keep(b, &copy->base) ||
        !keep(b, &copy->key) || !keep(b, &copy->after) || !keep(b, &copy->status))
        return -ERR_NO_MEMORY;
    op_append(b, op);
    return 0;
}

int store_batch_status(struct store_batch *b, uint64_t id, enum workload_state state,
                       int64_t ended_wall_ms, const char *json)
{
    struct store_op *op = op_new(b, STORE_OP_STATUS);
    if (!op || !keep(b, &json))
        return -ERR_NO_MEMORY;
    op->status.id = id;
    op->status.state = state;
    op->status.ended_wall_ms = ended_wall_ms;
    op->status.json = json;
    op_append(b, op);
    return 0;
}

int store_batch_delete(struct store_batch *b, uint64_t id)
{
    struct store_op *op = op_new(b, STORE_OP_DELETE);
    if (!op)
        return -ERR_NO_MEMORY;
    op->delete.id = id;
    op_append(b, op);
    return 0;
}

int store_batch_node(struct store_batch *b, const char *name, bool drained, const char *json)
{
    struct store_op *op = op_new(b, STORE_OP_NODE);
    if (!op || !keep(b, &name) || !keep(b, &json))
        return -ERR_NO_MEMORY;
    op->node.name = name;
    op->node.drained = drained;
    op->node.json = json;
    op_append(b, op);
    return 0;
}

int store_batch_token(struct store_batch *b, const struct store_token *token)
{
    struct store_op *op = op_new(b, STORE_OP_TOKEN);
    if (!op)
        return -ERR_NO_MEMORY;
    op->token = *token;
    if (!keep(b, &op->token.hash) || !keep(b, &op->token.role) || !keep(b, &op->token.account) ||
        !keep(b, &op->token.creator))
        return -ERR_NO_MEMORY;
    op_append(b, op);
    return 0;
}

int store_batch_delete_token(struct store_batch *b, uint64_t id)
{
    struct store_op *op = op_new(b, STORE_OP_DELETE_TOKEN);
    if (!op)
        return -ERR_NO_MEMORY;
    op->delete_token.id = id;
    op_append(b, op);
    return 0;
}

int store_batch_event(struct store_batch *b, const struct store_event *event)
{
    struct store_op *op = op_new(b, STORE_OP_EVENT);
    if (!op)
        return -ERR_NO_MEMORY;
    op->event = *event;
    if (!op->event.node)
        op->event.node = "";
    if (!op->event.text)
        op->event.text = "";
    if (!keep(b, &op->event.node) || !keep(b, &op->event.what) || !keep(b, &op->event.text))
        return -ERR_NO_MEMORY;
    op_append(b, op);
    return 0;
}
