/* Builds a tree from libyaml's events. Surprising parts of YAML are refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/str.h"
#include "wire/tree_internal.h"

struct yaml_reader {
    struct tree_builder builder;
    yaml_parser_t parser;
    bool is_of_value; /* the error concerns one value, whose field the caller adds */
};

static int next_event(struct yaml_reader *y, yaml_event_t *event)
{
    if (yaml_parser_parse(&y->parser, event))
        return 0;
    if (y->parser.error == YAML_MEMORY_ERROR)
        return error_set(y->builder.e, ERR_NO_MEMORY, "out of memory for this document");
    return error_set(y->builder.e, ERR_SYNTAX, "line %zu: %s", y->parser.problem_mark.line + 1,
                     y->parser.problem ? y->parser.problem : "invalid YAML");
}

static int line_of(const yaml_event_t *event)
{
    return (int)event->start_mark.line + 1;
}

static int refuse(struct yaml_reader *y, const yaml_event_t *event, const char *what)
{
    return error_set(y->builder.e, ERR_SYNTAX, "line %d: %s", line_of(event), what);
}

/* Refuses anchors, aliases and tags: gpumux needs none of them, and all have been used in
 * attacks. */
static int check_plainness(struct yaml_reader *y, const yaml_event_t *event)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return refuse(y, event, "aliases are not allowed");
    case YAML_SCALAR_EVENT:
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
        break;
    default:
        break;
    }
    if (anchor)
        return refuse(y, event, "anchors are not allowed");
    return tag ? refuse(y, event, "tags are not allowed") : 0;
}

/* Copies the scalar's text into the arena. */
static int take_text(struct yaml_reader *y, const yaml_event_t *event, const char **ret)
{
    const char *value = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    if (!str_is_utf8(value, length)) /* YAML's escape "\0" produces NUL */
        return refuse(y, event, "a text contains NUL or invalid UTF-8");
    *ret = arena_strndup(y->builder.arena, value, length);
    return *ret ? 0 : error_set(y->builder.e, ERR_NO_MEMORY, "out of memory for this document");
}

static int read_scalar(struct yaml_reader *y, const yaml_event_t *event, struct tree *node)
{
    const char *text = NULL;
    int r = take_text(y, event, &text);
    y->is_of_value = r < 0;
    if (r < 0)
        return r;
    int line = node->line;
    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        tree_from_text(text, node);
    else
        *node = (struct tree){.kind = TREE_STRING, .text = text};
    node->line = line;
    return 0;
}

static int compare_keys(const void *a, const void *b)
{
    const struct tree *const *x = a, *const *y = b;
    return strcmp((*x)->key, (*y)->key);
}

static int check_duplicates(struct yaml_reader *y, const struct tree *map)
{
    if (map->count < 2)
        return 0;
    if (map->count > TREE_KEYS_MAX)
        return error_set(y->builder.e, ERR_TOO_LARGE, "line %d: more than %d keys in one map",
                         map->line, TREE_KEYS_MAX);
    const struct tree **sorted = calloc(map->count, sizeof(struct tree *));
    if (!sorted)
        return error_set(y->builder.e, ERR_NO_MEMORY, "out of memory for this document");
    size_t count = 0;
    tree_for_each(child, map) sorted[count++] = child;
    qsort(sorted, count, sizeof(struct tree *), compare_keys);
    int r = 0;
    for (size_t i = 1; i < count && r == 0; i++)
        if (compare_keys(&sorted[i - 1], &sorted[i]) == 0)
            r = tree_error(y->builder.e, ERR_SYNTAX, sorted[i], sorted[i]->key,
                           "duplicate key '%.60s'", sorted[i]->key);
    free(sorted);
    return r;
}

static int read_value(struct yaml_reader *y, const yaml_event_t *event, int depth,
                      struct tree **ret);

/* Reads the value whose first event comes next. */
static int read_next(struct yaml_reader *y, int depth, struct tree **ret)
{
    yaml_event_t event;
    int r = next_event(y, &event);
    if (r < 0)
        return r;
    r = read_value(y, &event, depth, ret);
    yaml_event_delete(&event);
    return r;
}

static void name_field(struct yaml_reader *y, const struct tree *parent, const char *key)
{
    char place[24];
    (void)snprintf(place, sizeof place, "[%zu]", parent->count);
    if (y->is_of_value)
        error_prefix_field(y->builder.e, key ? key : place);
}

static int read_children(struct yaml_reader *y, struct tree *node, int depth)
{
    struct tree *last = NULL;
    for (;;) {
        yaml_event_t event;
        int r = next_event(y, &event);
        if (r < 0)
            return r;
        struct tree *child = NULL;
        const char *key = NULL;
        bool ends = event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT;
        if (ends) {
        } else if (node->kind == TREE_LIST) {
            r = read_value(y, &event, depth, &child);
            if (r < 0)
                name_field(y, node, NULL);
        } else if (event.type != YAML_SCALAR_EVENT) {
            r = refuse(y, &event, "a key must be plain text");
        } else {
            r = check_plainness(y, &event);
            if (r == 0)
                r = take_text(y, &event, &key);
        }
        yaml_event_delete(&event);
        if (r == 0 && key && (r = read_next(y, depth, &child)) < 0)
            name_field(y, node, key);
        if (r < 0 || ends)
            return r;
        child->key = key;
        tree_append(node, &last, child);
    }
}

static int read_value(struct yaml_reader *y, const yaml_event_t *event, int depth,
                      struct tree **ret)
{
    enum tree_kind kind = event->type == YAML_SEQUENCE_START_EVENT  ? TREE_LIST
                          : event->type == YAML_MAPPING_START_EVENT ? TREE_MAP
                                                                    : TREE_STRING;
    int r = check_plainness(y, event);
    if (r < 0)
        return r;
    if (kind != TREE_STRING && depth + 1 > y->builder.depth_max)
        return error_set(y->builder.e, ERR_SYNTAX, "line %d: nested deeper than %d levels",
                         line_of(event), y->builder.depth_max);
    struct tree *node;
    r = tree_builder_add(&y->builder, kind, line_of(event), &node);
    if (r < 0)
        return r;
    if (kind == TREE_STRING)
        r = read_scalar(y, event, node);
    else
        r = read_children(y, node, depth + 1);
    if (r == 0 && kind == TREE_MAP)
        r = check_duplicates(y, node);
    if (r == 0)
        *ret = node;
    return r;
}

static int read_documents(struct yaml_reader *y, struct tree *documents)
{
    struct tree *last = NULL;
    for (;;) {
        yaml_event_t event;
        int r = next_event(y, &event);
        if (r < 0)
            return r;
        yaml_event_type_t type = event.type;
        yaml_event_delete(&event);
        if (type == YAML_STREAM_END_EVENT)
            return 0;
        if (type != YAML_DOCUMENT_START_EVENT)
            continue;
        struct tree *document = NULL;
        r = read_next(y, 0, &document);
        if (r < 0)
            return r;
        tree_append(documents, &last, document);
    }
}

int tree_parse_yaml(struct error *e, struct arena *arena, const char *text, size_t length,
                    int depth_max, struct tree **ret_documents)
{
    int r = tree_check_text(e, text, length);
    if (r < 0)
        return r;
    struct yaml_reader y = {.builder = {.e = e, .arena = arena, .depth_max = depth_max}};
    if (!yaml_parser_initialize(&y.parser))
        return error_set(e, ERR_NO_MEMORY, "out of memory for this document");
    yaml_parser_set_encoding(&y.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&y.parser, (const unsigned char *)text, length);
    struct tree *documents;
    r = tree_builder_add(&y.builder, TREE_LIST, 1, &documents);
    if (r == 0)
        r = read_documents(&y, documents);
    yaml_parser_delete(&y.parser);
    if (r == 0)
        *ret_documents = documents;
    return r;
}
