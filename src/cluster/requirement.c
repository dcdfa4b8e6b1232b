/* Requirements: equal for workloads that a policy cannot distinguish. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cluster/cluster_internal.h"

int labels_copy(const struct pairs *from, struct pairs *ret)
{
    struct pairs copy = {0};
    if (from && from->count > 0) {
        size_t bytes = from->count * sizeof *copy.items;
        for (size_t i = 0; i < from->count; i++)
            bytes += strlen(from->items[i].key) + strlen(from->items[i].value) + 2;
        copy.items = malloc(bytes);
        if (!copy.items)
            return -ERR_NO_MEMORY;
        copy.count = from->count;
        char *text = (char *)(copy.items + copy.count);
        for (size_t i = 0; i < copy.count; i++) {
            copy.items[i].key = text;
            text = stpcpy(text, from->items[i].key) + 1;
            copy.items[i].value = text;
            text = stpcpy(text, from->items[i].value) + 1;
        }
    }
    *ret = copy;
    return 0;
}

void labels_free(struct pairs *labels)
{
    free(labels->items);
    *labels = (struct pairs){0};
}

bool labels_equal(const struct pairs *a, const struct pairs *b)
{
    return a->count == b->count && pairs_contain(a, b);
}

/* Copies the fields that placement depends on and clears all other bytes, for comparison by memcmp.
 */
static void placement_needs(const struct workload_needs *needs, struct workload_needs *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->kind = needs->kind;
    ret->suspect = needs->suspect;
    ret->wary = needs->wary;
    ret->devices = needs->devices;
    ret->quota_bytes = needs->quota_bytes;
    ret->share_min_percent = needs->share_min_percent;
    (void)str_copy(ret->model, sizeof ret->model, needs->model);
}

static uint64_t hash_of(const struct workload_needs *needs, const struct pairs *labels,
                        uint32_t kind, uint32_t allowance)
{
    uint64_t hash = hash_bytes(needs, sizeof *needs, (uint64_t)allowance << 32 | kind);
    for (size_t i = 0; i < labels->count; i++) {
        hash = hash_bytes(labels->items[i].key, strlen(labels->items[i].key), hash);
        hash = hash_bytes(labels->items[i].value, strlen(labels->items[i].value), hash);
    }
    return hash;
}

static struct requirement *requirement_new(struct cluster *c, uint64_t hash,
                                           const struct workload_needs *needs,
                                           const struct pairs *labels, uint32_t kind,
                                           uint32_t allowance)
{
    struct requirement *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->hash = hash;
    r->needs = *needs;
    r->kind = kind;
    r->allowance = allowance;
    r->timer.owner = TIMER_REQUIREMENT;
    r->next = hash_map_get(&c->requirements, hash);
    list_init(&r->refused);
    heap_init(&r->queue, queue_workload_before);
    if (labels_copy(labels, &r->node_labels) < 0 || hash_map_put(&c->requirements, hash, r) < 0) {
        labels_free(&r->node_labels);
        free(r);
        return NULL;
    }
    return r;
}

struct requirement *requirement_get(struct cluster *c, const struct workload_needs *needs,
                                    const struct pairs *labels, uint32_t kind, uint32_t allowance)
{
    static const struct pairs none = {0};
    struct workload_needs wanted;
    if (!labels)
        labels = &none;
    placement_needs(needs, &wanted);
    uint64_t hash = hash_of(&wanted, labels, kind, allowance);
    struct requirement *r = hash_map_get(&c->requirements, hash);
    while (r && (r->kind != kind || r->allowance != allowance ||
                 memcmp(&r->needs, &wanted, sizeof wanted) != 0 ||
                 !labels_equal(&r->node_labels, labels)))
        r = r->next;
    if (!r)
        r = requirement_new(c, hash, &wanted, labels, kind, allowance);
    if (r)
        r->references++;
    return r;
}

void requirement_put(struct cluster *c, struct requirement *r)
{
    if (--r->references > 0)
        return;
    struct requirement *head = hash_map_get(&c->requirements, r->hash);
    if (head == r) {
        if (r->next)
            (void)hash_map_put(&c->requirements, r->hash, r->next); /* replacing cannot fail */
        else
            (void)hash_map_remove(&c->requirements, r->hash);
    } else {
        while (head->next != r)
            head = head->next;
        head->next = r->next;
    }
    heap_remove(&c->ready, &r->ready);
    list_remove(&r->refused);
    timer_clear(c, &r->timer);
    heap_done(&r->queue);
    labels_free(&r->node_labels);
    free(r);
}
