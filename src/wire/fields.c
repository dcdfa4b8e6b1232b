#include "wire/fields.h"

#include <assert.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/json_reader.h"

enum { KEY_MAX = 64 };
/* The end of the year 9999, the last time that the API can write. */
#define WALL_MS_MAX INT64_C(253402300799999)

static bool is_in(const struct field *f, enum fields_form form)
{
    return !f->in || f->in & form;
}

static const char *key_of(const struct field *f, enum fields_form form, char key[KEY_MAX])
{
    if (!(f->flags & FIELD_WALL) || form == FIELDS_API)
        return f->key;
    const char *suffix = form == FIELDS_FILE ? "_wall_ms" : "_ms";
    size_t length = strlen(f->key), rest = strlen(suffix) + 1;
    assert(length + rest <= KEY_MAX);
    memcpy(key, f->key, length);
    memcpy(key + length, suffix, rest);
    return key;
}

static void *at(const void *object, size_t offset)
{
    return (char *)object + offset;
}

/* Copies the pointer, because a pointer to a struct must not be accessed as a pointer to void. */
static void *pointer_at(const void *member)
{
    void *pointer;
    memcpy(&pointer, member, sizeof pointer);
    return pointer;
}

static size_t count_of(const struct field *f, const void *object)
{
    const void *count = at(object, f->count_offset);
    return f->count_size == sizeof(int) ? (size_t) * (const int *)count : *(const size_t *)count;
}

static void set_count(const struct field *f, void *object, size_t count)
{
    if (f->count_size == sizeof(int))
        *(int *)at(object, f->count_offset) = (int)count;
    else
        *(size_t *)at(object, f->count_offset) = count;
}

static bool is_number_unset(const struct field *f, double number)
{
    return f->unset < 0 ? number < 0 : number == f->unset;
}

static bool is_unset(const struct field *f, const void *object)
{
    const void *member = at(object, f->offset);
    if (f->list == FIELD_POINTER)
        return !pointer_at(member);
    if (f->list != FIELD_ONE)
        return count_of(f, object) == 0;
    switch ((enum field_kind)f->kind) {
    case FIELD_BOOL:
        return !*(const bool *)member;
    case FIELD_INT:
        return is_number_unset(f, *(const int *)member);
    case FIELD_UNSIGNED:
        return is_number_unset(f, *(const unsigned *)member);
    case FIELD_INT64:
        return is_number_unset(f, (double)*(const int64_t *)member);
    case FIELD_UINT64:
        return is_number_unset(f, (double)*(const uint64_t *)member);
    case FIELD_REAL:
        return is_number_unset(f, *(const double *)member);
    case FIELD_BUFFER:
        return !*(const char *)member;
    case FIELD_TEXT:
        return !*(const char *const *)member || !**(const char *const *)member;
    case FIELD_PAIRS:
        return ((const struct pairs *)member)->count == 0;
    default:
        return false;
    }
}

/* ---- writing ---- */

static void put_pairs(struct json_writer *w, const struct pairs *pairs)
{
    json_begin_object(w);
    for (size_t i = 0; i < pairs->count; i++)
        json_put_string(json_key(w, pairs->items[i].key), pairs->items[i].value);
    json_end_object(w);
}

static void put_counts(struct json_writer *w, const struct field *f, enum fields_form form,
                       const uint64_t *counts)
{
    json_begin_object(w);
    for (int i = 0; i < f->names->count; i++)
        if (counts[i] || form == FIELDS_API)
            json_put_uint(json_key(w, f->names->items[i]), counts[i]);
    json_end_object(w);
}

static void put_text(struct json_writer *w, const char *text)
{
    json_put_string(w, text ? text : "");
}

static void put_one(struct json_writer *w, const struct field *f, enum fields_form form,
                    const void *value)
{
    switch ((enum field_kind)f->kind) {
    case FIELD_BOOL:
        json_put_bool(w, *(const bool *)value);
        break;
    case FIELD_INT:
        json_put_int(w, *(const int *)value);
        break;
    case FIELD_UNSIGNED:
        if (f->names)
            json_put_string(w, names_get(f->names, *(const int *)value));
        else
            json_put_int(w, *(const unsigned *)value);
        break;
    case FIELD_INT64:
        if (f->flags & FIELD_WALL && form == FIELDS_API)
            json_put_time(w, *(const int64_t *)value);
        else
            json_put_int(w, *(const int64_t *)value);
        break;
    case FIELD_UINT64:
        json_put_uint(w, *(const uint64_t *)value);
        break;
    case FIELD_REAL:
        json_put_real(w, *(const double *)value);
        break;
    case FIELD_BUFFER:
        json_put_string(w, value);
        break;
    case FIELD_TEXT:
        put_text(w, *(const char *const *)value);
        break;
    case FIELD_PAIRS:
        put_pairs(w, value);
        break;
    case FIELD_COUNTS:
        put_counts(w, f, form, value);
        break;
    case FIELD_CUSTOM:
        f->custom->put(w, value);
        break;
    case FIELD_STRUCT:
    case FIELD_PART:
        fields_put(w, f->fields, form, value);
        break;
    }
}

static void put_list(struct json_writer *w, const struct field *f, enum fields_form form,
                     const void *object)
{
    const void *member = at(object, f->offset);
    const char *items = f->list == FIELD_ARRAY ? member : pointer_at(member);
    size_t count = count_of(f, object);
    json_begin_array(w);
    for (size_t i = 0; i < count; i++)
        put_one(w, f, form, items + i * f->size);
    json_end_array(w);
}

static void put_part(struct json_writer *w, const struct field *f, enum fields_form form,
                     const void *object)
{
    bool there = object && *(const bool *)at(object, f->offset);
    if (form != FIELDS_API) {
        if (there)
            fields_put_members(w, f->fields, form, object);
        return;
    }
    fields_put(json_plain_key(w, f->key), f->fields, form, there ? object : NULL);
}

static void put_member(struct json_writer *w, const struct field *f, enum fields_form form,
                       const void *object)
{
    char key[KEY_MAX];
    if (f->kind == FIELD_PART) {
        put_part(w, f, form, object);
        return;
    }
    bool unset = !object || (f->flags & (FIELD_OMIT | FIELD_NULL) && is_unset(f, object));
    if (unset && f->flags & FIELD_OMIT && form != FIELDS_API)
        return;
    json_plain_key(w, key_of(f, form, key));
    if (!object || (unset && f->flags & FIELD_NULL && form == FIELDS_API))
        json_put_null(w);
    else if (f->list == FIELD_POINTER)
        put_one(w, f, form, pointer_at(at(object, f->offset)));
    else if (f->list != FIELD_ONE)
        put_list(w, f, form, object);
    else
        put_one(w, f, form, at(object, f->offset));
}

void fields_put_members(struct json_writer *w, const struct fields *table, enum fields_form form,
                        const void *object)
{
    for (size_t i = 0; i < table->count; i++)
        if (is_in(&table->members[i], form))
            put_member(w, &table->members[i], form, object);
}

void fields_put(struct json_writer *w, const struct fields *table, enum fields_form form,
                const void *object)
{
    if (!object) {
        json_put_null(w);
        return;
    }
    json_begin_object(w);
    fields_put_members(w, table, form, object);
    json_end_object(w);
}

int fields_write(const struct fields *table, enum fields_form form, const void *object,
                 struct str *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    fields_put(&w, table, form, object);
    return str_failed(out) ? -ERR_NO_MEMORY : 0;
}

/* ---- reading: an error names the field relative to the value; each caller adds its prefix ---- */

int field_fail(const struct field_reader *r, const char *format, ...)
{
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set(r->e, r->code, "%s", text);
}

static int no_memory(const struct field_reader *r)
{
    return error_set(r->e, ERR_NO_MEMORY, "out of memory");
}

/* Turns the error of a helper into one of this reader. */
static int recode(const struct field_reader *r, int result)
{
    if (result == 0 || result == -ERR_NO_MEMORY)
        return result;
    if (r->e)
        r->e->code = (int)r->code;
    return -(int)r->code;
}

static int take_whole(const struct field_reader *r, const struct field *f, json_t *value,
                      int64_t type_max, int64_t *ret)
{
    int64_t number = json_integer_value(value);
    int64_t most = f->most == 0 && f->least >= 0 ? type_max : f->most;
    if (f->flags & FIELD_WALL && r->form == FIELDS_FILE)
        most = WALL_MS_MAX;
    if (!json_is_integer(value))
        return field_fail(r, "must be a whole number");
    if (number < f->least || number > most)
        return field_fail(r, "%lld is not between %lld and %lld", (long long)number,
                          (long long)f->least, (long long)most);
    *ret = number;
    return 0;
}

static int take_name(const struct field_reader *r, const struct field *f, json_t *value, int *ret)
{
    const char *name = json_string_value(value);
    int found = name ? names_find(f->names, name) : -1;
    if (!name)
        return field_fail(r, "must be a string");
    if (found < 0)
        return field_fail(r, "unknown value '%.40s'", name);
    *ret = found;
    return 0;
}

static int take_uint64(const struct field_reader *r, const struct field *f, json_t *value,
                       uint64_t *ret)
{
    const char *text = json_string_value(value);
    uint64_t number = 0;
    bool good = text ? text[0] != '\0' : json_is_integer(value) && json_integer_value(value) >= 0;
    for (const char *p = text; p && *p && good; p++)
        good = *p >= '0' && *p <= '9' && !__builtin_mul_overflow(number, 10, &number) &&
               !__builtin_add_overflow(number, (uint64_t)(*p - '0'), &number);
    if (!good)
        return field_fail(r, "must be a whole number from 0 on");
    number = text ? number : (uint64_t)json_integer_value(value);
    if (f->most && number > (uint64_t)f->most)
        return field_fail(r, "%llu is more than %lld", (unsigned long long)number,
                          (long long)f->most);
    *ret = number;
    return 0;
}

static int take_real(const struct field_reader *r, const struct field *f, json_t *value,
                     double *ret)
{
    double number = json_number_value(value);
    if (!json_is_number(value))
        return field_fail(r, "must be a number");
    if (f->most && !(number >= (double)f->least && number <= (double)f->most))
        return field_fail(r, "must be between %lld and %lld", (long long)f->least,
                          (long long)f->most);
    *ret = number + 0.0; /* turns -0.0 into 0.0, which is read back the same */
    return 0;
}

/* Copies a text into the buffer, or for FIELD_TEXT into the arena. */
static int take_text(const struct field_reader *r, const struct field *f, json_t *value, void *ret)
{
    const char *text = json_string_value(value);
    size_t length = json_string_length(value);
    bool copied = f->kind == FIELD_TEXT;
    size_t most = !copied                           ? f->size - 1u
                  : f->most && f->list == FIELD_ONE ? (size_t)f->most
                                                    : SIZE_MAX;
    if (!text)
        return field_fail(r, "must be a string");
    if (f->flags & FIELD_FILLED && length == 0)
        return field_fail(r, "must not be empty");
    if (length > most && !(f->flags & FIELD_CUT))
        return field_fail(r, "must be at most %zu bytes long", most);
    if (copied) {
        char *copy = arena_strdup(r->arena, text);
        *(const char **)ret = copy;
        return copy ? 0 : no_memory(r);
    }
    if (!str_copy(ret, f->size, text))
        ((char *)ret)[str_utf8_prefix(ret, most)] = '\0';
    return 0;
}

static int take_pairs(const struct field_reader *r, const struct field *f, json_t *object,
                      struct pairs *ret)
{
    size_t count = json_object_size(object);
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return field_fail(r, "must be an object");
    if (f->most && count > (size_t)f->most)
        return field_fail(r, "must have at most %lld keys", (long long)f->most);
    struct pairs pairs = {.items = arena_array(r->arena, count, sizeof(struct pair))};
    if (!pairs.items)
        return no_memory(r);
    json_object_foreach(object, key, value)
    {
        if (!json_is_string(value)) {
            int result = field_fail(r, "must be a string");
            error_prefix_field(r->e, key);
            return result;
        }
        struct pair *pair = &pairs.items[pairs.count++];
        *pair = (struct pair){arena_strdup(r->arena, key),
                              arena_strdup(r->arena, json_string_value(value))};
        if (!pair->key || !pair->value)
            return no_memory(r);
    }
    *ret = pairs;
    return recode(r, pairs_sort(r->e, ret));
}

/* Reads an object of counters. Unknown names come from a newer version and are ignored. */
static int take_counts(const struct field_reader *r, const struct field *f, json_t *object,
                       uint64_t *ret)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return field_fail(r, "must be an object");
    json_object_foreach(object, key, value)
    {
        int i = names_find(f->names, key);
        int result = i >= 0 ? take_uint64(r, f, value, &ret[i]) : 0;
        if (result < 0) {
            error_prefix_field(r->e, key);
            return result;
        }
    }
    return 0;
}

static int take_one(const struct field_reader *r, const struct field *f, json_t *value, void *ret)
{
    int64_t number = 0;
    int result;
    switch ((enum field_kind)f->kind) {
    case FIELD_BOOL:
        if (!json_is_boolean(value))
            return field_fail(r, "must be true or false");
        *(bool *)ret = json_is_true(value);
        return 0;
    case FIELD_INT:
        result = take_whole(r, f, value, INT_MAX, &number);
        *(int *)ret = (int)number;
        return result;
    case FIELD_UNSIGNED:
        if (f->names)
            return take_name(r, f, value, ret);
        result = take_whole(r, f, value, UINT_MAX, &number);
        *(unsigned *)ret = (unsigned)number;
        return result;
    case FIELD_INT64:
        return take_whole(r, f, value, INT64_MAX, ret);
    case FIELD_UINT64:
        return take_uint64(r, f, value, ret);
    case FIELD_REAL:
        return take_real(r, f, value, ret);
    case FIELD_BUFFER:
    case FIELD_TEXT:
        return take_text(r, f, value, ret);
    case FIELD_PAIRS:
        return take_pairs(r, f, value, ret);
    case FIELD_COUNTS:
        return take_counts(r, f, value, ret);
    case FIELD_CUSTOM:
        return recode(r, f->custom->take(r, value, ret));
    case FIELD_STRUCT:
    case FIELD_PART:
        break;
    }
    return fields_take(r, f->fields, value, ret);
}

static size_t capacity_of(const struct field *f)
{
    return (size_t)f->array_bytes / f->size;
}

/* Makes room for a list. Elements beyond an array's room (FIELD_CUT) come from a newer version. */
static int make_room(const struct field_reader *r, const struct field *f, void *member,
                     size_t *count, char **ret_items)
{
    if (f->list == FIELD_ARRAY) {
        *count = *count < capacity_of(f) ? *count : capacity_of(f);
        *ret_items = member;
        return 0;
    }
    size_t room = *count + (f->kind == FIELD_TEXT);
    *ret_items = room ? arena_array(r->arena, room, f->size) : NULL;
    memcpy(member, ret_items, sizeof *ret_items);
    return *ret_items || !room ? 0 : no_memory(r);
}

static int take_list(const struct field_reader *r, const struct field *f, json_t *array,
                     void *object)
{
    size_t count = json_array_size(array);
    size_t most = f->flags & FIELD_CUT ? SIZE_MAX : f->most ? (size_t)f->most : capacity_of(f);
    char *items;
    if (!json_is_array(array))
        return field_fail(r, "must be a list");
    if (count > most)
        return field_fail(r, "must have at most %zu elements", most);
    int made = make_room(r, f, at(object, f->offset), &count, &items);
    if (made < 0)
        return made;
    for (size_t i = 0; i < count; i++) {
        int result = take_one(r, f, json_array_get(array, i), items + i * f->size);
        if (result < 0) {
            error_prefix_element(r->e, "", i);
            return result;
        }
    }
    set_count(f, object, count);
    return 0;
}

static int take_pointed(const struct field_reader *r, const struct field *f, json_t *value,
                        void *member)
{
    void *pointed = arena_alloc(r->arena, f->size);
    memcpy(member, &pointed, sizeof pointed);
    return pointed ? take_one(r, f, value, pointed) : no_memory(r);
}

static void set_unset(const struct field *f, void *member)
{
    if (f->kind == FIELD_INT)
        *(int *)member = f->unset;
    else if (f->kind == FIELD_INT64)
        *(int64_t *)member = f->unset;
    else if (f->kind == FIELD_REAL)
        *(double *)member = f->unset;
}

static int take_member(const struct field_reader *r, const struct field *f, json_t *object,
                       void *ret)
{
    char text[KEY_MAX];
    void *member = at(ret, f->offset);
    if (f->kind == FIELD_PART) {
        bool there = json_object_get(object, f->fields->members[0].key) != NULL;
        *(bool *)member = there;
        return there ? fields_take(r, f->fields, object, ret) : 0;
    }
    const char *key = key_of(f, r->form, text);
    json_t *value = json_object_get(object, key);
    if (f->flags & FIELD_OPTIONAL && (!value || json_is_null(value))) {
        set_unset(f, member);
        return 0;
    }
    int result;
    if (!value)
        result = field_fail(r, "'%s' is missing", key);
    else if (f->list == FIELD_POINTER)
        result = take_pointed(r, f, value, member);
    else if (f->list != FIELD_ONE)
        result = take_list(r, f, value, ret);
    else
        result = take_one(r, f, value, member);
    if (result < 0)
        error_prefix_field(r->e, key);
    return result;
}

int fields_take(const struct field_reader *r, const struct fields *table, json_t *object, void *ret)
{
    int result = json_is_object(object) ? 0 : field_fail(r, "must be a JSON object");
    for (size_t i = 0; i < table->count && result == 0; i++)
        if (is_in(&table->members[i], r->form))
            result = take_member(r, &table->members[i], object, ret);
    return result;
}

int fields_parse(const struct field_reader *r, const struct fields *table, const char *text,
                 size_t length, void *ret)
{
    json_t *root = NULL;
    void *object = calloc(1, table->bytes);
    int result = object ? json_parse_object(r->e, r->code, text, length, &root) : no_memory(r);
    if (result == 0)
        result = fields_take(r, table, root, object);
    json_decref(root);
    if (result == 0)
        memcpy(ret, object, table->bytes);
    free(object);
    return result;
}
