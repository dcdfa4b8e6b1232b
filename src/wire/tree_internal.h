/* What the builders of a tree share. */
#pragma once
#include "wire/tree.h"

struct tree_builder {
    struct error *e;
    struct arena *arena;
    int depth_max;
    size_t nodes;
};

/* A new, empty value. -ERR_NO_MEMORY, -ERR_TOO_LARGE. */
int tree_builder_add(struct tree_builder *b, enum tree_kind kind, int line, struct tree **ret);
/* Puts child at the end; *last is the child before it. */
void tree_append(struct tree *parent, struct tree **last, struct tree *child);
/* Refuses text with NUL or what is not UTF-8. */
int tree_check_text(struct error *e, const char *text, size_t length);
