#include "cluster/heap.h"

#include <stdlib.h>

#include "base/error.h"

void heap_init(struct heap *h, heap_before_fn before)
{
    *h = (struct heap){.before = before};
}

void heap_done(struct heap *h)
{
    free(h->members);
    h->members = NULL;
    h->count = h->capacity = 0;
}

struct heap_member *heap_first(const struct heap *h)
{
    return h->count ? h->members[0] : NULL;
}

static void put(struct heap *h, size_t at, struct heap_member *m)
{
    h->members[at] = m;
    m->position = at + 1;
}

static void sift_up(struct heap *h, size_t at)
{
    struct heap_member *m = h->members[at];
    while (at > 0 && h->before(m, h->members[(at - 1) / 2])) {
        put(h, at, h->members[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    put(h, at, m);
}

static void sift_down(struct heap *h, size_t at)
{
    struct heap_member *m = h->members[at];
    for (size_t child; (child = 2 * at + 1) < h->count; at = child) {
        if (child + 1 < h->count && h->before(h->members[child + 1], h->members[child]))
            child++;
        if (!h->before(h->members[child], m))
            break;
        put(h, at, h->members[child]);
    }
    put(h, at, m);
}

int heap_insert(struct heap *h, struct heap_member *m)
{
    if (h->count == h->capacity) {
        size_t capacity = h->capacity ? h->capacity * 2 : 8;
        struct heap_member **members = realloc(h->members, capacity * sizeof *members);
        if (!members)
            return -ERR_NO_MEMORY;
        h->members = members;
        h->capacity = capacity;
    }
    put(h, h->count++, m);
    sift_up(h, h->count - 1);
    return 0;
}

void heap_remove(struct heap *h, struct heap_member *m)
{
    if (!m->position)
        return;
    size_t at = m->position - 1;
    struct heap_member *last = h->members[--h->count];
    m->position = 0;
    if (last == m)
        return;
    put(h, at, last);
    heap_moved(h, last);
}

void heap_moved(struct heap *h, struct heap_member *m)
{
    if (!m->position)
        return;
    sift_up(h, m->position - 1);
    sift_down(h, m->position - 1);
}
