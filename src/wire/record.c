#include "wire/record.h"

#include <string.h>

#include "wire/json_reader.h"
#include "wire/objects.h"

int record_write_status(const struct workload_status *status, struct str *out)
{
    return fields_write(&workload_status_fields, FIELDS_STORED, status, out);
}

int record_write_node(const struct node_info *info, struct str *out)
{
    return fields_write(&node_info_fields, FIELDS_STORED, info, out);
}

static int parse(struct error *e, struct arena *arena, const struct fields *table, const char *text,
                 void *ret)
{
    const struct field_reader r = {
        .e = e, .code = ERR_CORRUPT, .arena = arena, .form = FIELDS_STORED};
    return fields_parse(&r, table, text, strlen(text), ret);
}

int record_parse_status(struct error *e, struct arena *arena, const char *text,
                        struct workload_status *ret)
{
    return parse(e, arena, &workload_status_fields, text, ret);
}

int record_parse_node(struct error *e, struct arena *arena, const char *text, struct node_info *ret)
{
    return parse(e, arena, &node_info_fields, text, ret);
}

/* ---- dependencies ---- */

int record_write_after(const struct after_id *after, size_t count, struct str *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_array(&w);
    for (size_t i = 0; i < count; i++) {
        json_begin_array(&w);
        json_put_uint(&w, after[i].workload);
        json_put_bool(&w, after[i].succeeded);
        json_end_array(&w);
    }
    json_end_array(&w);
    return str_failed(out) ? -ERR_NO_MEMORY : 0;
}

static bool take_after(json_t *pair, struct after_id *ret)
{
    json_t *id = json_array_get(pair, 0), *succeeded = json_array_get(pair, 1);
    if (json_array_size(pair) != 2 || json_integer_value(id) <= 0 || !json_is_boolean(succeeded))
        return false;
    ret->workload = (uint64_t)json_integer_value(id);
    ret->succeeded = json_is_true(succeeded);
    return true;
}

int record_parse_after(struct error *e, struct arena *arena, const char *text,
                       struct after_id **ret, size_t *ret_count)
{
    json_t *list = json_loads(text, 0, NULL);
    size_t count = json_array_size(list);
    bool good = json_is_array(list) && count <= WORKLOAD_ARRAY_MAX;
    struct after_id *after = good ? arena_array(arena, count, sizeof *after) : NULL;
    for (size_t i = 0; after && good && i < count; i++)
        good = take_after(json_array_get(list, i), &after[i]);
    json_decref(list);
    if (!good)
        return error_set_field(e, ERR_CORRUPT, "after", "must be a list of dependencies");
    if (!after)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    *ret = after;
    *ret_count = count;
    return 0;
}
