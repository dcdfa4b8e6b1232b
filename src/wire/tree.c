#include "wire/tree.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "wire/json_reader.h"
#include "wire/tree_internal.h"

int tree_builder_add(struct tree_builder *b, enum tree_kind kind, int line, struct tree **ret)
{
    if (++b->nodes > TREE_NODES_MAX)
        return error_set(b->e, ERR_TOO_LARGE, "line %d: more than %d values in one document", line,
                         TREE_NODES_MAX);
    struct tree *node = arena_alloc(b->arena, sizeof *node);
    if (!node)
        return error_set(b->e, ERR_NO_MEMORY, "out of memory for this document");
    node->kind = kind;
    node->line = line;
    *ret = node;
    return 0;
}

void tree_append(struct tree *parent, struct tree **last, struct tree *child)
{
    if (*last)
        (*last)->next = child;
    else
        parent->first = child;
    *last = child;
    parent->count++;
}

int tree_check_text(struct error *e, const char *text, size_t length)
{
    if (memchr(text, '\0', length))
        return error_set(e, ERR_SYNTAX, "the text contains a NUL byte");
    if (!str_is_utf8(text, length))
        return error_set(e, ERR_SYNTAX, "the text is not valid UTF-8");
    return 0;
}

const struct tree *tree_get(const struct tree *map, const char *key)
{
    tree_for_each(child, map) if (str_equal(child->key, key)) return child;
    return NULL;
}

int tree_error(struct error *e, enum error_code code, const struct tree *at, const char *field,
               const char *format, ...)
{
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (at && at->line > 0)
        return error_set_field(e, code, field, "line %d: %s", at->line, text);
    return error_set_field(e, code, field, "%s", text);
}

/* ---- scalars: the YAML 1.2 core schema ---- */

static bool is_one_of(const char *text, const char *const words[])
{
    for (; *words; words++)
        if (str_equal(text, *words))
            return true;
    return false;
}

/* [-+]? digits, 0o octal or 0x hexadecimal; all within 64 bits. */
static bool resolve_integer(const char *text, int64_t *ret)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    int base = str_starts_with(text, "0o") ? 8 : str_starts_with(text, "0x") ? 16 : 10;
    const char *start = base == 10 ? text + (*text == '-' || *text == '+') : text + 2;
    char allowed[sizeof digits] = "";
    memcpy(allowed, digits, base == 8 ? 8 : base == 10 ? 10 : sizeof digits - 1);
    if (!*start || start[strspn(start, allowed)])
        return false;
    errno = 0;
    int64_t number = strtoll(base == 10 ? text : start, NULL, base);
    if (errno)
        return false;
    *ret = number;
    return true;
}

/* [-+]? ( .digits | digits [ . digits? ] ) [ e [-+]? digits ] */
static bool resolve_real(const char *text, double *ret)
{
    const char *p = text + (*text == '-' || *text == '+');
    size_t whole = strspn(p, "0123456789");
    p += whole;
    size_t fraction = 0;
    if (*p == '.') {
        fraction = strspn(p + 1, "0123456789");
        p += 1 + fraction;
    }
    if (whole + fraction == 0)
        return false;
    if (*p == 'e' || *p == 'E') {
        p += 1 + (p[1] == '-' || p[1] == '+');
        if (!*p)
            return false;
        p += strspn(p, "0123456789");
    }
    if (*p)
        return false;
    *ret = strtod(text, NULL);
    return true;
}

void tree_from_text(const char *text, struct tree *ret)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    static const char *const infinite[] = {".inf",  ".Inf",  ".INF",  "+.inf", "+.Inf",
                                           "+.INF", "-.inf", "-.Inf", "-.INF", NULL};
    static const char *const not_numbers[] = {".nan", ".NaN", ".NAN", NULL};

    *ret = (struct tree){.kind = TREE_STRING, .text = text};
    if (is_one_of(text, nulls)) {
        ret->kind = TREE_NULL;
    } else if (is_one_of(text, trues) || is_one_of(text, falses)) {
        ret->kind = TREE_BOOL;
        ret->integer = is_one_of(text, trues);
    } else if (resolve_integer(text, &ret->integer)) {
        ret->kind = TREE_INTEGER;
        ret->real = (double)ret->integer;
    } else if (resolve_real(text, &ret->real)) {
        ret->kind = TREE_REAL;
    } else if (is_one_of(text, infinite) || is_one_of(text, not_numbers)) {
        ret->kind = TREE_REAL;
        ret->real = is_one_of(text, not_numbers) ? (double)NAN
                    : text[0] == '-'             ? -(double)INFINITY
                                                 : (double)INFINITY;
    }
}

/* ---- JSON ---- */

static int copy_json(struct tree_builder *b, json_t *json, int depth, struct tree **ret);

static int copy_children(struct tree_builder *b, json_t *json, int depth, struct tree *node)
{
    if (depth > b->depth_max)
        return error_set(b->e, ERR_SYNTAX, "nested deeper than %d levels", b->depth_max);
    if (json_object_size(json) > TREE_KEYS_MAX)
        return error_set(b->e, ERR_TOO_LARGE, "more than %d keys in one object", TREE_KEYS_MAX);
    struct tree *last = NULL, *child = NULL;
    const char *key;
    json_t *value;
    size_t i;
    json_array_foreach(json, i, value)
    {
        int r = copy_json(b, value, depth, &child);
        if (r < 0)
            return r;
        tree_append(node, &last, child);
    }
    json_object_foreach(json, key, value)
    {
        int r = copy_json(b, value, depth, &child);
        if (r < 0)
            return r;
        child->key = arena_strdup(b->arena, key);
        if (!child->key)
            return error_set(b->e, ERR_NO_MEMORY, "out of memory for this document");
        tree_append(node, &last, child);
    }
    return 0;
}

static int copy_json(struct tree_builder *b, json_t *json, int depth, struct tree **ret)
{
    static const enum tree_kind kinds[] = {
        [JSON_OBJECT] = TREE_MAP,      [JSON_ARRAY] = TREE_LIST, [JSON_STRING] = TREE_STRING,
        [JSON_INTEGER] = TREE_INTEGER, [JSON_REAL] = TREE_REAL,  [JSON_TRUE] = TREE_BOOL,
        [JSON_FALSE] = TREE_BOOL,      [JSON_NULL] = TREE_NULL,
    };
    struct tree *node;
    int r = tree_builder_add(b, kinds[json_typeof(json)], 0, &node);
    if (r < 0)
        return r;
    node->integer = json_is_true(json) ? 1 : json_integer_value(json);
    node->real = json_number_value(json);
    if (json_is_string(json)) {
        node->text = arena_strdup(b->arena, json_string_value(json));
        if (!node->text)
            return error_set(b->e, ERR_NO_MEMORY, "out of memory for this document");
    }
    r = copy_children(b, json, depth + 1, node);
    if (r == 0)
        *ret = node;
    return r;
}

int tree_from_json(struct error *e, struct arena *arena, json_t *json, int depth_max,
                   struct tree **ret)
{
    struct tree_builder b = {.e = e, .arena = arena, .depth_max = depth_max};
    return copy_json(&b, json, 0, ret);
}

int tree_parse_json(struct error *e, struct arena *arena, const char *text, size_t length,
                    int depth_max, struct tree **ret)
{
    int r = tree_check_text(e, text, length);
    if (r < 0)
        return r;
    json_error_t problem;
    json_t *json = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &problem);
    if (!json)
        return json_refuse(e, ERR_SYNTAX, text, &problem);
    r = tree_from_json(e, arena, json, depth_max, ret);
    json_decref(json);
    return r;
}
