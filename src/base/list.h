/*
 * Intrusive doubly linked list. The head and every element embed a struct list; an element is in at
 * most one list per embedded member. list_remove() on an initialised element that is in no list is
 * a no-op.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next, *prev;
};

static inline void list_init(struct list *l)
{
    l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
    return l->next == l;
}

static inline void list_insert_before(struct list *at, struct list *element)
{
    element->prev = at->prev;
    element->next = at;
    at->prev->next = element;
    at->prev = element;
}

static inline void list_append(struct list *head, struct list *element)
{
    list_insert_before(head, element);
}

static inline void list_prepend(struct list *head, struct list *element)
{
    list_insert_before(head->next, element);
}

static inline void list_remove(struct list *element)
{
    element->prev->next = element->next;
    element->next->prev = element->prev;
    list_init(element);
}

/* Moves all elements of `from` to the end of `to`, in order; leaves `from` empty. */
static inline void list_move_all(struct list *from, struct list *to)
{
    if (list_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}

#define list_entry(pointer, type, member)                                                          \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* The loop body must not remove `it`; in the _safe form it may remove `it`, but no other
 * element. */
#define list_for_each(it, head) for (struct list *it = (head)->next; it != (head); it = it->next)
#define list_for_each_safe(it, head)                                                               \
    for (struct list *it = (head)->next, *it##_next = it->next; it != (head);                      \
         it = it##_next, it##_next = it->next)
