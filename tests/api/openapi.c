#include "openapi.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "wire/tree.h"

enum { DOCUMENT_MAX = 8 << 20, DEPTH_MAX = 64, SEEN_MAX = 1024, ARENA_MAX = 256 << 20 };

struct openapi {
    struct arena arena;
    const struct tree *root, *paths;
    const struct tree *seen[SEEN_MAX]; /* responses checked so far */
    size_t seen_count;
};

/* ---- loading ---- */

static char *read_file(const char *path, size_t *ret_length)
{
    FILE *f = fopen(path, "re");
    char *text = f ? malloc(DOCUMENT_MAX) : NULL;
    if (text)
        *ret_length = fread(text, 1, DOCUMENT_MAX, f);
    if (f)
        fclose(f);
    return text;
}

int openapi_load(struct error *e, const char *path, struct openapi **ret)
{
    size_t length = 0;
    char *text = read_file(path, &length);
    if (!text)
        return error_set_errno(e, ERR_IO, errno, "%s", path);
    struct openapi *o = calloc(1, sizeof *o);
    struct tree *documents;
    arena_init(&o->arena, ARENA_MAX);
    int r = tree_parse_yaml(e, &o->arena, text, length, DEPTH_MAX, &documents);
    free(text);
    if (r == 0) {
        o->root = documents->first;
        o->paths = o->root ? tree_get(o->root, "paths") : NULL;
        if (!o->paths)
            r = error_set(e, ERR_INVALID, "%s has no paths", path);
    }
    if (r < 0) {
        openapi_free(o);
        return r;
    }
    *ret = o;
    return 0;
}

void openapi_free(struct openapi *o)
{
    if (!o)
        return;
    arena_done(&o->arena);
    free(o);
}

/* Follows "#/a/b/c"; returns NULL if the target does not exist. */
static const struct tree *follow(const struct openapi *o, const char *reference)
{
    const struct tree *at = o->root;
    if (strncmp(reference, "#/", 2) != 0)
        return NULL;
    const char *p = reference + 2;
    while (at && *p) {
        char key[128];
        size_t length = strcspn(p, "/");
        snprintf(key, sizeof key, "%.*s", (int)length, p);
        at = tree_get(at, key);
        p += length + (p[length] == '/');
    }
    return at;
}

static const struct tree *resolve(const struct openapi *o, const struct tree *t)
{
    const struct tree *reference = t && t->kind == TREE_MAP ? tree_get(t, "$ref") : NULL;
    return reference && reference->text ? follow(o, reference->text) : t;
}

/* ---- schemas ---- */

struct place {
    struct error *e;
    const struct openapi *o;
    char path[ERROR_FIELD_MAX];
};

static int wrong(struct place *at, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int wrong(struct place *at, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set_field(at->e, ERR_INVALID, at->path, "%s", text);
}

static const char *kind_name(const struct tree *v)
{
    static const char *const names[] = {
        [TREE_NULL] = "null",   [TREE_BOOL] = "boolean",  [TREE_INTEGER] = "integer",
        [TREE_REAL] = "number", [TREE_STRING] = "string", [TREE_LIST] = "array",
        [TREE_MAP] = "object"};
    return names[v->kind];
}

static bool type_fits(const char *type, const struct tree *v)
{
    return strcmp(type, kind_name(v)) == 0 ||
           (strcmp(type, "number") == 0 && v->kind == TREE_INTEGER) ||
           (strcmp(type, "integer") == 0 && v->kind == TREE_REAL && floor(v->real) == v->real);
}

static int check_type(struct place *at, const struct tree *type, const struct tree *v)
{
    if (type->kind != TREE_LIST)
        return type_fits(type->text, v)
                   ? 0
                   : wrong(at, "is %s and should be %s", kind_name(v), type->text);
    tree_for_each(one, type) if (type_fits(one->text, v)) return 0;
    return wrong(at, "is %s, which is none of its types", kind_name(v));
}

static bool scalars_equal(const struct tree *a, const struct tree *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind == TREE_STRING)
        return strcmp(a->text, b->text) == 0;
    return a->kind == TREE_NULL || a->integer == b->integer;
}

static int check_enum(struct place *at, const struct tree *choices, const struct tree *v)
{
    tree_for_each(one, choices) if (scalars_equal(one, v)) return 0;
    return wrong(at, "'%s' is none of the values allowed", v->text ? v->text : kind_name(v));
}

static int check_value(struct place *at, const struct tree *schema, const struct tree *v);

static int check_member(struct place *at, const struct tree *schema, const struct tree *v,
                        const char *key, int index)
{
    struct place inner = {.e = at->e, .o = at->o};
    if (key)
        snprintf(inner.path, sizeof inner.path, "%.90s.%.30s", at->path, key);
    else
        snprintf(inner.path, sizeof inner.path, "%.100s[%d]", at->path, index);
    return check_value(&inner, schema, v);
}

static int check_object(struct place *at, const struct tree *schema, const struct tree *v)
{
    const struct tree *required = tree_get(schema, "required");
    const struct tree *properties = tree_get(schema, "properties");
    const struct tree *more = tree_get(schema, "additionalProperties");
    if (required)
        tree_for_each(name, required) if (!tree_get(v, name->text)) return wrong(
            at, "'%s' is missing", name->text);
    tree_for_each(member, v)
    {
        const struct tree *known = properties ? tree_get(properties, member->key) : NULL;
        if (!known && more && more->kind == TREE_BOOL && !more->integer)
            return wrong(at, "'%s' should not be there", member->key);
        if (!known && more && more->kind == TREE_MAP)
            known = more;
        int r = known ? check_member(at, known, member, member->key, 0) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

/* Returns whether the schema, or one of its parts, names the property. */
static bool is_evaluated(const struct openapi *o, const struct tree *schema, const char *key)
{
    schema = resolve(o, schema);
    const struct tree *properties = schema ? tree_get(schema, "properties") : NULL;
    const struct tree *all = schema ? tree_get(schema, "allOf") : NULL;
    if (properties && tree_get(properties, key))
        return true;
    if (all)
        tree_for_each(part, all) if (is_evaluated(o, part, key)) return true;
    return false;
}

static int check_composition(struct place *at, const struct tree *schema, const struct tree *v)
{
    const struct tree *all = tree_get(schema, "allOf"), *one = tree_get(schema, "oneOf");
    const struct tree *rest = tree_get(schema, "unevaluatedProperties");
    if (all)
        tree_for_each(part, all)
        {
            int r = check_value(at, part, v);
            if (r < 0)
                return r;
        }
    int fits = 0;
    if (one)
        tree_for_each(part, one) fits += check_value(at, part, v) == 0;
    if (one && fits != 1)
        return fits ? wrong(at, "fits %d of the choices, not one", fits) : -ERR_INVALID;
    if (rest && v->kind == TREE_MAP)
        tree_for_each(member, v) if (!is_evaluated(at->o, schema, member->key)) return wrong(
            at, "'%s' should not be there", member->key);
    return 0;
}

/* Rejects keywords that this code does not check. */
static int check_keywords(struct place *at, const struct tree *schema)
{
    static const char *const known[] = {"type",
                                        "enum",
                                        "required",
                                        "properties",
                                        "allOf",
                                        "oneOf",
                                        "minimum",
                                        "maximum",
                                        "items",
                                        "$ref",
                                        "description",
                                        "additionalProperties",
                                        "unevaluatedProperties"};
    tree_for_each(keyword, schema)
    {
        size_t i = 0, count = sizeof known / sizeof known[0];
        while (i < count && strcmp(known[i], keyword->key) != 0)
            i++;
        if (i == count)
            return wrong(at, "the schema's keyword '%s' is not checked by this test", keyword->key);
    }
    return 0;
}

static int check_value(struct place *at, const struct tree *schema, const struct tree *v)
{
    schema = resolve(at->o, schema);
    if (!schema)
        return wrong(at, "its schema's $ref leads nowhere");
    const struct tree *type = tree_get(schema, "type"), *choices = tree_get(schema, "enum");
    const struct tree *items = tree_get(schema, "items");
    const struct tree *least = tree_get(schema, "minimum"), *most = tree_get(schema, "maximum");
    bool number = v->kind == TREE_INTEGER || v->kind == TREE_REAL;
    int r = check_keywords(at, schema);
    if (r == 0 && type)
        r = check_type(at, type, v);
    if (r == 0 && choices)
        r = check_enum(at, choices, v);
    if (r == 0 && number && ((least && v->real < least->real) || (most && v->real > most->real)))
        r = wrong(at, "%g is out of its range", v->real);
    if (r == 0 && v->kind == TREE_MAP)
        r = check_object(at, schema, v);
    int index = 0;
    if (r == 0 && v->kind == TREE_LIST && items)
        for (const struct tree *item = v->first; item && r == 0; item = item->next)
            r = check_member(at, items, item, NULL, index++);
    return r == 0 ? check_composition(at, schema, v) : r;
}

/* ---- responses ---- */

static bool template_fits(const char *template, const char *path)
{
    while (*template && *path) {
        if (*template == '{') {
            size_t length = strcspn(path, "/");
            if (length == 0)
                return false;
            template += strcspn(template, "}") + 1;
            path += length;
        } else if (*template ++ != *path++) {
            return false;
        }
    }
    return !*template && !*path;
}

static void lower(char *to, size_t size, const char *from, size_t length)
{
    size_t i = 0;
    for (; i < length && i + 1 < size; i++)
        to[i] = (char)tolower((unsigned char)from[i]);
    to[i] = '\0';
}

static const struct tree *find_operation(const struct openapi *o, const char *method,
                                         const char *path, bool exact)
{
    char key[16];
    lower(key, sizeof key, method, strlen(method));
    tree_for_each(item, o->paths) if (exact ? strcmp(item->key, path) == 0
                                            : template_fits(item->key, path)) return tree_get(item,
                                                                                              key);
    return NULL;
}

bool openapi_has_route(const struct openapi *o, const char *method, const char *template)
{
    return find_operation(o, method, template, true) != NULL;
}

static bool was_seen(const struct openapi *o, const struct tree *response)
{
    for (size_t i = 0; i < o->seen_count; i++)
        if (o->seen[i] == response)
            return true;
    return false;
}

static int check_json(struct error *e, const struct openapi *o, const struct tree *schema,
                      const char *body, size_t length)
{
    struct arena arena;
    struct tree *value;
    struct place at = {.e = e, .o = o, .path = "body"};
    arena_init(&arena, ARENA_MAX);
    int r = tree_parse_json(e, &arena, body, length, DEPTH_MAX, &value);
    if (r == 0)
        r = check_value(&at, schema, value);
    arena_done(&arena);
    return r;
}

static int check_body(struct error *e, const struct openapi *o, const struct tree *response,
                      const char *content_type, const char *body, size_t length)
{
    const struct tree *content = tree_get(response, "content");
    if (!content)
        return length == 0 ? 0 : error_set(e, ERR_INVALID, "it should have no body");
    char type[64];
    lower(type, sizeof type, content_type, strcspn(content_type, "; "));
    const struct tree *media = tree_get(content, type);
    if (!media)
        return error_set(e, ERR_INVALID, "its type '%s' is not in the document", type);
    const struct tree *schema = tree_get(media, "schema");
    bool json =
        strcmp(type, "application/json") == 0 || strcmp(type, "application/problem+json") == 0;
    if (json && !schema)
        return error_set(e, ERR_INVALID, "the document has no schema for it");
    return json ? check_json(e, o, schema, body, length) : 0;
}

int openapi_check(struct error *e, struct openapi *o, const char *method, const char *path,
                  int status, const char *content_type, const char *body, size_t length)
{
    const struct tree *operation = find_operation(o, method, path, false);
    if (!operation)
        return error_set(e, ERR_NOT_FOUND, "%s %s is not in the document", method, path);
    char key[16];
    snprintf(key, sizeof key, "%d", status);
    const struct tree *responses = tree_get(operation, "responses");
    const struct tree *listed = responses ? tree_get(responses, key) : NULL;
    const struct tree *response = resolve(o, listed);
    if (!response)
        return error_set(e, ERR_INVALID, "%s %s answered %d, which is not in the document", method,
                         path, status);
    int r = check_body(e, o, response, content_type, body, length);
    if (r == 0 && !was_seen(o, listed) && o->seen_count < SEEN_MAX)
        o->seen[o->seen_count++] = listed;
    return r;
}

/* ---- queries ---- */

typedef void (*operation_fn)(void *arg, const char *method, const struct tree *item,
                             const struct tree *operation);

static void each_operation(const struct openapi *o, operation_fn fn, void *arg)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "DELETE", "PATCH"};
    tree_for_each(item, o->paths)
    {
        for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
            const struct tree *operation = find_operation(o, methods[i], item->key, true);
            if (operation)
                fn(arg, methods[i], item, operation);
        }
    }
}

struct unseen {
    const struct openapi *o;
    struct str *out;
    size_t count;
};

static void list_unseen(void *arg, const char *method, const struct tree *item,
                        const struct tree *operation)
{
    struct unseen *u = arg;
    const struct tree *responses = tree_get(operation, "responses");
    if (!responses)
        return;
    tree_for_each(response, responses)
    {
        if (was_seen(u->o, response))
            continue;
        str_printf(u->out, "%s %s %s\n", method, item->key, response->key);
        u->count++;
    }
}

size_t openapi_list_unseen(const struct openapi *o, struct str *out)
{
    struct unseen u = {.o = o, .out = out};
    each_operation(o, list_unseen, &u);
    return u.count;
}

static void list_operation(void *arg, const char *method, const struct tree *item,
                           const struct tree *operation)
{
    (void)operation;
    str_printf(arg, "%s %s\n", method, item->key);
}

void openapi_list_operations(const struct openapi *o, struct str *out)
{
    each_operation(o, list_operation, out);
}
