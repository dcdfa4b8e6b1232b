/* The schema as a table, and declarations that the files of spec share. */
#pragma once
#include "wire/json_writer.h"
#include "wire/spec.h"
#include "wire/tree.h"

struct spec_key;

/* The state of reading one value. Errors name reader->key->path. */
struct spec_reader {
    struct error *e;
    struct arena *arena;
    struct workload_spec *spec;
    const struct spec_key *key;
};

/* The functions that read and write the values of one type. */
struct spec_type {
    /* Reads a value from a document, or from a flag as a scalar. */
    int (*read)(struct spec_reader *r, const struct tree *value, void *member);
    /* Adds a flag's value to the member; NULL for a type whose flag is written like a scalar in a
     * document. */
    int (*add)(struct spec_reader *r, const char *text, void *member);
    /* Returns whether the spec sets the key. */
    bool (*said)(const struct spec_key *key, const struct workload_spec *spec, const void *member);
    void (*write)(struct json_writer *w, const struct workload_spec *spec, const void *member);
};

struct spec_key {
    const char *path;
    const struct spec_type *type;
    size_t offset; /* offset in struct workload_spec */
    int unset;
};

/* The keys in the order of spec_schema.def; the last entry's path is NULL. */
extern const struct spec_key spec_keys[];

/* Reads and validates one workload. Errors name fields relative to the workload. */
int spec_from_tree(struct error *e, struct arena *arena, const struct tree *tree,
                   struct workload_spec *ret);
/* Reads a map of scalars as sorted pairs. Errors name `field` or field.KEY. */
int spec_read_pairs(struct error *e, struct arena *arena, const char *field,
                    const struct tree *value, struct pairs *ret);
