/*
 * A parsed document, JSON or YAML alike: the input of the schemas (spec, config). The arena owns
 * the tree. Limits apply while the tree is built, so that no text makes the tree grow without
 * bound.
 *
 * The YAML reader refuses anchors, aliases, tags, and keys that are not plain text. The YAML 1.2
 * core schema resolves the scalars. The scalars keep their source text, so that
 * `command: [sleep, 5]` and `environment: {N: 007}` keep the spelling that the user wrote.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

#include "base/arena.h"
#include "base/error.h"

enum {
    TREE_NODES_MAX = 1 << 18, /* nodes of the tree of one text */
    TREE_KEYS_MAX = 1 << 14,  /* keys of one map */
};

enum tree_kind {
    TREE_NULL,
    TREE_BOOL,
    TREE_INTEGER,
    TREE_REAL, /* also whole numbers past 64 bits, and YAML's .inf and .nan */
    TREE_STRING,
    TREE_LIST,
    TREE_MAP
};

struct tree {
    enum tree_kind kind;
    int line;         /* line in the text, from 1; 0: unknown */
    const char *key;  /* key of a member of a map, else NULL */
    const char *text; /* TREE_STRING, and the source of other YAML scalars; else NULL */
    int64_t integer;  /* value of TREE_INTEGER; TREE_BOOL: 0 or 1 */
    double real;      /* value of TREE_INTEGER and TREE_REAL */
    size_t count;     /* number of children of a list or map */
    struct tree *first, *next;
};

/* Parses one value. Returns 0, -ERR_SYNTAX (the error names the line), -ERR_TOO_LARGE or
 * -ERR_NO_MEMORY. */
int tree_parse_json(struct error *e, struct arena *arena, const char *text, size_t length,
                    int depth_max, struct tree **ret);
/* Parses a text into a TREE_LIST of documents. Returns the errors of tree_parse_json(). */
int tree_parse_yaml(struct error *e, struct arena *arena, const char *text, size_t length,
                    int depth_max, struct tree **ret_documents);
/* Copies a tree of jansson. */
int tree_from_json(struct error *e, struct arena *arena, json_t *json, int depth_max,
                   struct tree **ret);
/* Resolves a text as a plain YAML scalar. *ret borrows the text. */
void tree_from_text(const char *text, struct tree *ret);

/* Returns the member of a map with this key, or NULL. */
const struct tree *tree_get(const struct tree *map, const char *key);
/* Sets an error about the value `at`, with the field and, if known, the line. Returns -code. */
int tree_error(struct error *e, enum error_code code, const struct tree *at, const char *field,
               const char *format, ...) __attribute__((format(printf, 5, 6)));

#define tree_for_each(it, parent) for (const struct tree *it = (parent)->first; it; it = it->next)
