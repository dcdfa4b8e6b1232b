#include "wire/json_reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* ---- texts that are refused ---- */

enum { LEVELS_MAX = 32 }; /* of a field that is named: no document of ours is nearly as deep */

/* A list or object that is open, and the member that is being read. */
struct level {
    bool is_list, wants_key;
    size_t index;
    const char *key; /* as it is written in the text */
    size_t key_length;
};

struct place {
    struct level levels[LEVELS_MAX];
    size_t depth; /* may be more */
};

static void open_level(struct place *p, bool is_list)
{
    if (p->depth < LEVELS_MAX)
        p->levels[p->depth] = (struct level){.is_list = is_list, .wants_key = !is_list, .key = ""};
    p->depth++;
}

/* Reads on to the byte `end`; there was no fault before it. */
static void find_place(const char *text, size_t end, struct place *p)
{
    for (size_t i = 0; i < end; i++) {
        size_t start = i + 1;
        bool known = p->depth > 0 && p->depth <= LEVELS_MAX;
        struct level *top = known ? &p->levels[p->depth - 1] : NULL;
        switch (text[i]) {
        case '{':
        case '[':
            open_level(p, text[i] == '[');
            break;
        case '}':
        case ']':
            p->depth -= p->depth > 0;
            break;
        case ',':
            if (top) {
                top->index++;
                top->wants_key = !top->is_list;
            }
            break;
        case '"':
            for (i++; i < end && text[i] != '"'; i++)
                i += text[i] == '\\';
            if (top && top->wants_key) {
                top->key = text + start;
                top->key_length = (i < end ? i : end) - start;
                top->wants_key = false;
            }
            break;
        default:
            break;
        }
    }
}

static void name_field(struct error *e, const char *text, size_t end)
{
    struct place place = {.depth = 0};
    find_place(text, end, &place);
    if (place.depth > LEVELS_MAX)
        return;
    for (size_t i = place.depth; i-- > 0;) {
        const struct level *level = &place.levels[i];
        char part[ERROR_FIELD_MAX];
        if (level->is_list)
            snprintf(part, sizeof part, "[%zu]", level->index);
        else
            snprintf(part, sizeof part, "%.*s", (int)level->key_length, level->key);
        error_prefix_field(e, part);
    }
}

int json_refuse(struct error *e, enum error_code code, const char *text,
                const json_error_t *problem)
{
    const char *what = problem->text;
    enum json_error_code cause = json_error_code(problem);
    if (cause == json_error_out_of_memory)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    if (cause == json_error_numeric_overflow)
        what = "the number is too large";
    else if (cause == json_error_null_character)
        what = "a text cannot have NUL (\\u0000) in it";
    else if (cause == json_error_null_byte_in_key)
        what = "a key cannot have NUL (\\u0000) in it";
    int r = error_set(e, code, "line %d: %s", problem->line, what);
    if (e && (cause == json_error_numeric_overflow || cause == json_error_null_character))
        name_field(e, text, (size_t)problem->position);
    return r;
}

/* ---- objects ---- */

int json_parse_object(struct error *e, enum error_code code, const char *text, size_t length,
                      json_t **ret)
{
    json_error_t problem;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &problem);
    if (!root)
        return json_refuse(e, code, text, &problem);
    if (!json_is_object(root)) {
        json_decref(root);
        return error_set(e, code, "a JSON object is needed");
    }
    *ret = root;
    return 0;
}

void json_reader_init(struct json_reader *r, struct error *e, enum error_code code,
                      struct arena *arena, json_t *object)
{
    *r = (struct json_reader){.e = e, .code = code, .arena = arena, .object = object};
    if (!json_is_object(object))
        r->result = error_set(e, code, "a JSON object is needed");
}

bool json_has(const struct json_reader *r, const char *key)
{
    json_t *value = r->result == 0 ? json_object_get(r->object, key) : NULL;
    return value && !json_is_null(value);
}

void json_fail(struct json_reader *r, const char *key, const char *format, ...)
{
    if (r->result < 0)
        return;
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    r->result = error_set_field(r->e, r->code, key, "%s", text);
}

void json_fail_inner(struct json_reader *r, const char *key, int index, int result)
{
    if (r->result < 0 || result == 0)
        return;
    char prefix[ERROR_FIELD_MAX];
    if (index < 0)
        snprintf(prefix, sizeof prefix, "%s", key);
    else
        snprintf(prefix, sizeof prefix, "%s[%d]", key, index);
    error_prefix_field(r->e, prefix);
    r->result = result == -ERR_NO_MEMORY ? result : -(int)r->code;
    if (r->e)
        r->e->code = -r->result;
}

static json_t *member(struct json_reader *r, const char *key)
{
    if (r->result < 0)
        return NULL;
    json_t *value = json_object_get(r->object, key);
    if (!value)
        json_fail(r, key, "'%s' is missing", key);
    return value;
}

void json_take_int64(struct json_reader *r, const char *key, int64_t least, int64_t most,
                     int64_t *ret)
{
    json_t *value = member(r, key);
    if (!value)
        return;
    int64_t number = json_integer_value(value);
    if (!json_is_integer(value))
        json_fail(r, key, "a whole number is needed");
    else if (number < least || number > most)
        json_fail(r, key, "%lld is not between %lld and %lld", (long long)number, (long long)least,
                  (long long)most);
    else
        *ret = number;
}

void json_take_int(struct json_reader *r, const char *key, int least, int most, int *ret)
{
    int64_t number = 0;
    json_take_int64(r, key, least, most, &number);
    if (r->result == 0)
        *ret = (int)number;
}

/* The other form that json_put_uint() writes. */
static void take_digits(struct json_reader *r, const char *key, const char *text, uint64_t *ret)
{
    uint64_t number = 0;
    bool good = text[0] != '\0';
    for (const char *p = text; *p && good; p++)
        good = *p >= '0' && *p <= '9' && !__builtin_mul_overflow(number, 10, &number) &&
               !__builtin_add_overflow(number, (uint64_t)(*p - '0'), &number);
    if (good)
        *ret = number;
    else
        json_fail(r, key, "a number that is not negative is needed");
}

void json_take_uint(struct json_reader *r, const char *key, uint64_t *ret)
{
    json_t *value = member(r, key);
    if (!value)
        return;
    if (json_is_string(value)) {
        take_digits(r, key, json_string_value(value), ret);
        return;
    }
    int64_t number = 0;
    json_take_int64(r, key, 0, INT64_MAX, &number);
    if (r->result == 0)
        *ret = (uint64_t)number;
}

void json_take_real(struct json_reader *r, const char *key, double *ret)
{
    json_t *value = member(r, key);
    if (!value)
        return;
    if (json_is_number(value))
        *ret = json_number_value(value);
    else
        json_fail(r, key, "a number is needed");
}

void json_take_bool(struct json_reader *r, const char *key, bool *ret)
{
    json_t *value = member(r, key);
    if (!value)
        return;
    if (json_is_boolean(value))
        *ret = json_is_true(value);
    else
        json_fail(r, key, "true or false is needed");
}

const char *json_borrow_text(struct json_reader *r, const char *key)
{
    json_t *value = member(r, key);
    if (value && !json_is_string(value))
        json_fail(r, key, "a string is needed");
    return r->result == 0 ? json_string_value(value) : NULL;
}

void json_take_text(struct json_reader *r, const char *key, const char **ret)
{
    const char *text = json_borrow_text(r, key);
    if (!text)
        return;
    const char *copy = arena_strdup(r->arena, text);
    if (copy)
        *ret = copy;
    else
        r->result = error_set(r->e, ERR_NO_MEMORY, "out of memory");
}

void json_take_buffer(struct json_reader *r, const char *key, char *ret, size_t size)
{
    const char *text = json_borrow_text(r, key);
    if (!text)
        return;
    if (strlen(text) < size)
        str_copy(ret, size, text);
    else
        json_fail(r, key, "longer than %zu bytes", size - 1);
}

json_t *json_take_array(struct json_reader *r, const char *key, size_t most)
{
    json_t *value = member(r, key);
    if (value && !json_is_array(value))
        json_fail(r, key, "a list is needed");
    else if (value && json_array_size(value) > most)
        json_fail(r, key, "more than %zu elements", most);
    return r->result == 0 ? value : NULL;
}

json_t *json_take_object(struct json_reader *r, const char *key)
{
    json_t *value = member(r, key);
    if (value && !json_is_object(value))
        json_fail(r, key, "an object is needed");
    return r->result == 0 ? value : NULL;
}

void *json_alloc(struct json_reader *r, size_t count, size_t bytes)
{
    if (r->result < 0)
        return NULL;
    void *memory = arena_array(r->arena, count, bytes);
    if (!memory)
        r->result = error_set(r->e, ERR_NO_MEMORY, "out of memory");
    return memory;
}
