/*
 * A binary heap whose members know where they are in it, so that any of them can be removed or
 * moved in O(log n). A member embeds a struct heap_member; the heap does not own its members.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct heap_member {
    size_t position; /* 1-based in heap->members; 0: in no heap */
};

/* Does a come before b? */
typedef bool (*heap_before_fn)(const struct heap_member *a, const struct heap_member *b);

struct heap {
    struct heap_member **members;
    size_t count, capacity;
    heap_before_fn before;
};

void heap_init(struct heap *h, heap_before_fn before);
void heap_done(struct heap *h);
/* NULL when empty. */
struct heap_member *heap_first(const struct heap *h);
/* The member must be in no heap. 0 or -ERR_NO_MEMORY. */
int heap_insert(struct heap *h, struct heap_member *m);
/* No-op on a member that is in no heap. */
void heap_remove(struct heap *h, struct heap_member *m);
/* To be called after a member's order changed. No-op on a member that is in no heap. */
void heap_moved(struct heap *h, struct heap_member *m);
