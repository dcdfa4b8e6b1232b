/*
 * A parsed document, JSON or YAML alike: what schemas (spec, config) are read from. Everything lies
 * in the arena; limits hold while it is built, so that no text makes it grow without bound.
 *
 * YAML is read without anchors, aliases, tags and keys that are not plain text; its scalars are
 * resolved by the YAML 1.2 core schema and keep their source text, so that `command: [sleep, 5]`
 * and `environment: {N: 007}` mean what they look like.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

#include "base/arena.h"
#include "base/error.h"

enum {
    TREE_NODES_MAX = 1 << 18, /* in one text */
    TREE_KEYS_MAX = 1 << 14,  /* in one map */
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
    int line;         /* in the text, from 1; 0: not known */
    const char *key;  /* of a member of a map, else NULL */
    const char *text; /* TREE_STRING, and the source of other YAML scalars; else NULL */
    int64_t integer;  /* TREE_INTEGER; TREE_BOOL: 0 or 1 */
    double real;      /* TREE_INTEGER, TREE_REAL */
    size_t count;     /* children of a list or map */
    struct tree *first, *next;
};

/* One value. -ERR_SYNTAX names the line, -ERR_TOO_LARGE, -ERR_NO_MEMORY. */
int tree_parse_json(struct error *e, struct arena *arena, const char *text, size_t length,
                    int depth_max, struct tree **ret);
/* A TREE_LIST of documents. Same errors. */
int tree_parse_yaml(struct error *e, struct arena *arena, const char *text, size_t length,
                    int depth_max, struct tree **ret_documents);
/* Copies what jansson has parsed. */
int tree_from_json(struct error *e, struct arena *arena, json_t *json, int depth_max,
                   struct tree **ret);
/* A scalar as it would stand, plain, in YAML. `text` is kept by reference. */
void tree_from_text(const char *text, struct tree *ret);

/* The member of a map with this key, or NULL. */
const struct tree *tree_get(const struct tree *map, const char *key);
/* An error about this value: names the field and, where it is known, the line. Returns -code. */
int tree_error(struct error *e, enum error_code code, const struct tree *at, const char *field,
               const char *format, ...) __attribute__((format(printf, 5, 6)));

#define tree_for_each(it, parent) for (const struct tree *it = (parent)->first; it; it = it->next)
