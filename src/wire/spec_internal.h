/* The schema as a table, and what the parts of spec share. */
#pragma once
#include "wire/json_writer.h"
#include "wire/spec.h"
#include "wire/tree.h"

struct spec_key;

/* Reads one value; errors name reader->key->path. */
struct spec_reader {
    struct error *e;
    struct arena *arena;
    struct workload_spec *spec;
    const struct spec_key *key;
};

/* How values of one type are read and written. */
struct spec_type {
    /* From a document, or (as a scalar) from a flag. */
    int (*read)(struct spec_reader *r, const struct tree *value, void *member);
    /* From a flag, where that is not a scalar of a document; else NULL. Adds to what is there. */
    int (*add)(struct spec_reader *r, const char *text, void *member);
    /* Was it said? */
    bool (*said)(const struct spec_key *key, const struct workload_spec *spec, const void *member);
    void (*write)(struct json_writer *w, const struct workload_spec *spec, const void *member);
};

struct spec_key {
    const char *path;
    const struct spec_type *type;
    size_t offset; /* in struct workload_spec */
    int unset;
};

/* In the order of spec_schema.def; ends with a path of NULL. */
extern const struct spec_key spec_keys[];

/* One workload, validated. The fields that errors name are relative to it. */
int spec_from_tree(struct error *e, struct arena *arena, const struct tree *tree,
                   struct workload_spec *ret);
/* A duration with its fraction of a millisecond. */
int spec_parse_real_duration(struct error *e, const char *text, double *ret_ms);
/* A map of scalars: sorted pairs. Errors name field, or field.KEY. */
int spec_read_pairs(struct error *e, struct arena *arena, const char *field,
                    const struct tree *value, struct pairs *ret);
