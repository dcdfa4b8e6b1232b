/*
 * A binary heap whose members store their position, so that any member can be removed or moved in
 * O(log n). A member embeds a struct heap_member. The heap does not own its members.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct heap_member {
    size_t position; /* 1-based index in heap->members; 0: in no heap */
};

/* Returns whether a precedes b. */
typedef bool (*heap_before_fn)(const struct heap_member *a, const struct heap_member *b);

struct heap {
    struct heap_member **members;
    size_t count, capacity;
    heap_before_fn before;
};

void heap_init(struct heap *h, heap_before_fn before);
void heap_done(struct heap *h);
/* Returns the first member; NULL if the heap is empty. */
struct heap_member *heap_first(const struct heap *h);
/* Inserts a member that is in no heap. Returns 0 or -ERR_NO_MEMORY. */
int heap_insert(struct heap *h, struct heap_member *m);
/* Removes a member. No-op if the member is in no heap. */
void heap_remove(struct heap *h, struct heap_member *m);
/* Restores the order after a member's key changed. No-op if the member is in no heap. */
void heap_moved(struct heap *h, struct heap_member *m);
