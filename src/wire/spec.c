#include "wire/spec.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "wire/fields.h"
#include "wire/hint.h"
#include "wire/spec_internal.h"

enum { PATH_MAX_BYTES = 64 }; /* bytes of a key; every known key is much shorter */

static const struct spec_key *find_key(const char *path)
{
    for (const struct spec_key *key = spec_keys; key->path; key++)
        if (str_equal(key->path, path))
            return key;
    return NULL;
}

/* Returns whether path is a map of keys, such as "share" for "share.min". */
static bool is_group(const char *path)
{
    size_t length = strlen(path);
    for (const struct spec_key *key = spec_keys; key->path; key++)
        if (strncmp(key->path, path, length) == 0 && key->path[length] == '.')
            return true;
    return false;
}

/* Sets the error for an unknown word after the prefix "" or "share.". */
static int unknown_key(struct error *e, const struct tree *at, const char *prefix, const char *word)
{
    struct hint hint;
    hint_init(&hint, word);
    size_t skip = strlen(prefix);
    for (const struct spec_key *key = spec_keys; key->path; key++) {
        if (strncmp(key->path, prefix, skip) != 0)
            continue;
        char known[HINT_WORD_MAX];
        str_copy(known, sizeof known, key->path + skip);
        known[strcspn(known, ".")] = '\0';
        hint_offer(&hint, known);
    }
    char path[ERROR_FIELD_MAX];
    snprintf(path, sizeof path, "%s%s", prefix, word);
    const char *nearest = hint_get(&hint);
    if (nearest)
        return tree_error(e, ERR_INVALID, at, path, "unknown key '%.60s', did you mean '%s'?", word,
                          nearest);
    return tree_error(e, ERR_INVALID, at, path, "unknown key '%.60s'", word);
}

static void *member_of(const struct spec_key *key, struct workload_spec *spec)
{
    return (char *)spec + key->offset;
}

static int read_map(struct spec_reader *r, const struct tree *map, const char *prefix)
{
    size_t before = strlen(prefix);
    tree_for_each(child, map)
    {
        char path[PATH_MAX_BYTES];
        size_t length = before + strlen(child->key);
        bool fits = length > 0 && length < sizeof path - 1 && !strchr(child->key, '.');
        if (fits) {
            memcpy(path, prefix, before);
            memcpy(path + before, child->key, length - before + 1);
        }
        r->key = fits ? find_key(path) : NULL;
        int result;
        if (child->kind == TREE_MAP && fits && is_group(path)) {
            str_copy(path + length, sizeof path - length, ".");
            result = read_map(r, child, path);
        } else if (r->key) {
            result = r->key->type->read(r, child, member_of(r->key, r->spec));
        } else if (fits && is_group(path)) {
            result = tree_error(r->e, ERR_INVALID, child, path, "must be a map");
        } else {
            result = unknown_key(r->e, child, prefix, child->key);
        }
        if (result < 0)
            return result;
    }
    return 0;
}

static int read_workload(struct error *e, struct arena *arena, const struct tree *tree,
                         struct workload_spec *ret)
{
    if (tree->kind != TREE_MAP)
        return tree_error(e, ERR_INVALID, tree, "", "a workload must be a map of keys to values");
    struct workload_spec spec;
    workload_spec_init(&spec);
    struct spec_reader r = {.e = e, .arena = arena, .spec = &spec};
    int result = read_map(&r, tree, "");
    if (result == 0)
        *ret = spec;
    return result;
}

int spec_from_tree(struct error *e, struct arena *arena, const struct tree *tree,
                   struct workload_spec *ret)
{
    struct workload_spec spec;
    int r = read_workload(e, arena, tree, &spec);
    if (r == 0)
        r = workload_spec_validate(e, arena, &spec);
    if (r == 0)
        *ret = spec;
    return r;
}

/* ---- documents ---- */

/* Finds the list in {version, workloads: […]}. */
static int open_list(struct error *e, struct arena *arena, const struct tree *document,
                     const struct tree **ret)
{
    struct workload_spec unused;
    workload_spec_init(&unused);
    struct spec_reader r = {.e = e, .arena = arena, .spec = &unused};
    tree_for_each(child, document)
    {
        int result = 0;
        if (str_equal(child->key, "version")) {
            r.key = find_key("version");
            result = r.key->type->read(&r, child, &unused);
        } else if (!str_equal(child->key, "workloads")) {
            result = tree_error(e, ERR_INVALID, child, child->key,
                                "unknown key '%.60s' beside 'workloads'", child->key);
        } else if (child->kind != TREE_LIST || child->count == 0) {
            result = tree_error(e, ERR_INVALID, child, "workloads",
                                "must be a list of at least one workload");
        } else {
            *ret = child;
        }
        if (result < 0)
            return result;
    }
    return 0;
}

/* Returns how many workloads a document has, if the document is well-formed. */
static size_t count_workloads(const struct tree *document)
{
    const struct tree *list = document->kind == TREE_MAP ? tree_get(document, "workloads") : NULL;
    return list ? list->count : 1;
}

/* Appends one workload to a list that has room. `many`: errors name the workload's index. */
static int append_workload(struct error *e, struct arena *arena, const struct tree *tree, bool many,
                           struct spec_list *list)
{
    int r = read_workload(e, arena, tree, &list->items[list->count]);
    if (r < 0 && many)
        error_prefix_element(e, "workloads", list->count);
    if (r == 0)
        list->count++;
    return r;
}

static int append_document(struct error *e, struct arena *arena, const struct tree *document,
                           bool many, struct spec_list *list)
{
    if (document->kind != TREE_MAP || !tree_get(document, "workloads"))
        return append_workload(e, arena, document, many, list);
    const struct tree *workloads = NULL;
    int r = open_list(e, arena, document, &workloads);
    if (r < 0)
        return r;
    tree_for_each(child, workloads)
    {
        r = append_workload(e, arena, child, true, list);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Parses a text into a list of documents; JSON has one document. */
static int parse_text(struct error *e, struct arena *arena, const char *text, size_t length,
                      struct tree **ret)
{
    size_t start = 0;
    while (start < length && memchr(" \t\r\n", text[start], 4))
        start++;
    if (start == length)
        return error_set(e, ERR_SYNTAX, "the document is empty: describe at least one workload");
    if (text[start] != '{' && text[start] != '[')
        return tree_parse_yaml(e, arena, text, length, SPEC_DEPTH_MAX, ret);
    struct tree *document = NULL;
    int r = tree_parse_json(e, arena, text, length, SPEC_DEPTH_MAX, &document);
    if (r < 0)
        return r;
    struct tree *documents = arena_alloc(arena, sizeof *documents);
    if (!documents)
        return error_set(e, ERR_NO_MEMORY, "out of memory for this document");
    *documents = (struct tree){.kind = TREE_LIST, .count = 1, .first = document};
    *ret = documents;
    return 0;
}

int spec_parse_partial(struct error *e, struct arena *arena, const char *text, size_t length,
                       struct spec_list *ret)
{
    if (length > SPEC_TEXT_MAX)
        return error_set(e, ERR_TOO_LARGE, "the document is larger than %d bytes", SPEC_TEXT_MAX);
    struct tree *documents = NULL;
    int r = parse_text(e, arena, text, length, &documents);
    if (r < 0)
        return r;
    if (documents->count == 0)
        return error_set(e, ERR_SYNTAX, "the document is empty: describe at least one workload");
    size_t count = 0;
    tree_for_each(document, documents) count += count_workloads(document);
    if (count > SPEC_WORKLOADS_MAX)
        return error_set_field(e, ERR_TOO_LARGE, "workloads",
                               "more than %d workloads in one document", SPEC_WORKLOADS_MAX);
    struct spec_list list = {.items = arena_array(arena, count, sizeof list.items[0])};
    if (!list.items)
        return error_set(e, ERR_NO_MEMORY, "out of memory for this document");
    tree_for_each(document, documents)
    {
        r = append_document(e, arena, document, documents->count > 1, &list);
        if (r < 0)
            return r;
    }
    *ret = list;
    return 0;
}

int spec_parse(struct error *e, struct arena *arena, const char *text, size_t length,
               struct spec_list *ret)
{
    struct spec_list list;
    int r = spec_parse_partial(e, arena, text, length, &list);
    if (r < 0)
        return r;
    for (size_t i = 0; i < list.count; i++) {
        r = workload_spec_validate(e, arena, &list.items[i]);
        if (r < 0 && list.count > 1)
            error_prefix_element(e, "workloads", i);
        if (r < 0)
            return r;
    }
    *ret = list;
    return 0;
}

/* ---- one key ---- */

int spec_set(struct error *e, struct arena *arena, struct workload_spec *spec, const char *key,
             const char *value)
{
    const struct spec_key *known = find_key(key);
    if (!known && is_group(key))
        return error_set_field(e, ERR_INVALID, key, "is a map: name one of its keys");
    if (!known)
        return unknown_key(e, NULL, "", key);
    if (!str_is_utf8(value, strlen(value)))
        return error_set_field(e, ERR_INVALID, key, "must be valid UTF-8");
    struct workload_spec changed = *spec;
    /* A flag replaces the earlier readiness; a document may not give two. */
    if (str_starts_with(key, "ready"))
        changed.ready = READY_STARTED;
    struct spec_reader r = {.e = e, .arena = arena, .spec = &changed, .key = known};
    struct tree scalar;
    tree_from_text(value, &scalar);
    /* An empty flag means an empty string, never null. */
    if (scalar.kind == TREE_NULL)
        scalar = (struct tree){.kind = TREE_STRING, .text = value};
    void *member = member_of(known, &changed);
    int result = known->type->add ? known->type->add(&r, value, member)
                                  : known->type->read(&r, &scalar, member);
    if (result == 0)
        *spec = changed;
    return result;
}

/* ---- writing ---- */

int spec_write(const struct workload_spec *spec, struct str *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    const char *group = NULL; /* the path of the open group's first key */
    size_t group_length = 0;
    for (const struct spec_key *key = spec_keys; key->path; key++) {
        const void *member = (const char *)spec + key->offset;
        if (!key->type->said(key, spec, member))
            continue;
        size_t length = strcspn(key->path, ".");
        bool grouped = key->path[length] == '.';
        bool same =
            group && grouped && group_length == length && memcmp(group, key->path, length) == 0;
        if (group && !same) {
            json_end_object(&w);
            group = NULL;
        }
        if (grouped && !same) {
            group = key->path;
            group_length = length;
            json_begin_object(json_plain_key_bytes(&w, group, length));
        }
        json_plain_key(&w, grouped ? key->path + length + 1 : key->path);
        key->type->write(&w, spec, member);
    }
    if (group)
        json_end_object(&w);
    json_end_object(&w);
    return str_failed(out) ? -ERR_NO_MEMORY : 0;
}

/* ---- the summary ---- */

static void put_command(struct json_writer *w, const void *member)
{
    const struct words *command = member;
    struct str line;
    str_init(&line, SPEC_TEXT_MAX);
    /* A command given as one string is shown as that string. */
    bool shell = command->count == 3 && strcmp(command->items[0], "sh") == 0 &&
                 strcmp(command->items[1], "-c") == 0;
    for (size_t i = shell ? 2 : 0; i < command->count; i++) {
        if (line.length)
            str_append_char(&line, ' ');
        str_append(&line, command->items[i]);
    }
    json_put_string(w, str_text(&line));
    str_done(&line);
}

static const struct field_custom command_custom = {.put = put_command};

#define OF struct workload_needs
static const struct field share_members[] = {
    FIELD("min", share_min_percent),
    FIELD("max", share_max_percent),
};
static const struct fields share_fields = FIELDS(OF, share_members);
#undef OF

#define OF struct workload_spec
static const struct field summary_members[] = {
    FIELD("devices_wanted", needs.devices),
    FIELD("quota_bytes", needs.quota_bytes),
    FIELD("share", needs, .fields = &share_fields),
    FIELD_AS("command", command, &command_custom),
    FIELD("labels", labels),
};
static const struct fields summary_fields = FIELDS(OF, summary_members);
#undef OF

int spec_write_summary(const struct workload_spec *spec, struct str *out)
{
    return fields_write(&summary_fields, FIELDS_API, spec, out);
}
