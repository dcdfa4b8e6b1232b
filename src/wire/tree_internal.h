/* Declarations that the JSON and YAML builders of a tree share. */
#pragma once
#include "wire/tree.h"

struct tree_builder {
    struct error *e;
    struct arena *arena;
    int depth_max;
    size_t nodes;
};

/* Makes a new, empty value. Returns 0, -ERR_NO_MEMORY or -ERR_TOO_LARGE. */
int tree_builder_add(struct tree_builder *b, enum tree_kind kind, int line, struct tree **ret);
/* Appends the child to the parent; *last is the parent's last child, and becomes this child. */
void tree_append(struct tree *parent, struct tree **last, struct tree *child);
/* Refuses a text with NUL or invalid UTF-8. */
int tree_check_text(struct error *e, const char *text, size_t length);
