/*
 * The types of the schema: the functions that read a value of each type, recognise whether it is
 * set, and write it. A new key is a line of spec_schema.def; a new type is three functions and a
 * line of TYPE here.
 */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "wire/spec_internal.h"

enum { PORT_MAX = 65535 };

static int fail(struct spec_reader *r, const struct tree *value, const char *what)
{
    return tree_error(r->e, ERR_INVALID, value, r->key->path, "%s", what);
}

static int no_memory(struct spec_reader *r)
{
    return error_set_field(r->e, ERR_NO_MEMORY, r->key->path, "out of memory");
}

static bool number_said(const struct spec_key *key, const struct workload_spec *spec,
                        const void *member)
{
    (void)spec;
    return *(const int *)member != key->unset;
}

/* ---- whole numbers ---- */

static int read_whole(struct spec_reader *r, const struct tree *value, int64_t least, int64_t most,
                      int64_t *ret)
{
    bool numeric = value->kind == TREE_INTEGER || value->kind == TREE_REAL;
    if (!numeric || isnan(value->real))
        return fail(r, value, "must be a whole number");
    if (value->real < 0 && least >= 0)
        return fail(r, value, "must not be negative");
    if (fabs(value->real) >= 0x1p63)
        return fail(r, value, "the number is too large");
    if (value->kind == TREE_REAL)
        return fail(r, value, "must be a whole number");
    if (value->integer < least || value->integer > most)
        return tree_error(r->e, ERR_INVALID, value, r->key->path,
                          "%lld is not between %lld and %lld", (long long)value->integer,
                          (long long)least, (long long)most);
    *ret = value->integer;
    return 0;
}

static int read_int(struct spec_reader *r, const struct tree *value, int least, int most,
                    void *member)
{
    int64_t number;
    int result = read_whole(r, value, least, most, &number);
    if (result == 0)
        *(int *)member = (int)number;
    return result;
}

static int read_integer(struct spec_reader *r, const struct tree *value, void *member)
{
    return read_int(r, value, INT_MIN, INT_MAX, member);
}

static int read_count(struct spec_reader *r, const struct tree *value, void *member)
{
    return read_int(r, value, 0, INT_MAX, member);
}

static int read_percent(struct spec_reader *r, const struct tree *value, void *member)
{
    return read_int(r, value, 1, 100, member);
}

static int read_copies(struct spec_reader *r, const struct tree *value, void *member)
{
    return read_int(r, value, 1, WORKLOAD_ARRAY_MAX, member);
}

static int read_port(struct spec_reader *r, const struct tree *value, void *member)
{
    return read_int(r, value, 1, PORT_MAX, member);
}

static void write_int(struct json_writer *w, const struct workload_spec *spec, const void *member)
{
    (void)spec;
    json_put_int(w, *(const int *)member);
}

static int read_batch(struct spec_reader *r, const struct tree *value, void *member)
{
    return read_whole(r, value, 1, WORKLOAD_BATCH_MAX, member);
}

static bool int64_said(const struct spec_key *key, const struct workload_spec *spec,
                       const void *member)
{
    (void)spec;
    return *(const int64_t *)member != key->unset;
}

static void write_int64(struct json_writer *w, const struct workload_spec *spec, const void *member)
{
    (void)spec;
    json_put_int(w, *(const int64_t *)member);
}

static int read_version(struct spec_reader *r, const struct tree *value, void *member)
{
    (void)member;
    int64_t version;
    int result = read_whole(r, value, 0, INT64_MAX, &version);
    if (result == 0 && version != 1)
        return fail(r, value, "unknown version; this gpumux reads version 1");
    return result;
}

static bool never_said(const struct spec_key *key, const struct workload_spec *spec,
                       const void *member)
{
    (void)key;
    (void)spec;
    (void)member;
    return false;
}

/* Reads one number as both guarantee and cap, which are written as share.min and share.max. */
static int read_share(struct spec_reader *r, const struct tree *value, void *member)
{
    struct workload_needs *needs = member;
    int64_t percent;
    int result = read_whole(r, value, 1, 100, &percent);
    if (result == 0)
        needs->share_min_percent = needs->share_max_percent = (int)percent;
    return result;
}

/* ---- other numbers ---- */

static int read_real(struct spec_reader *r, const struct tree *value, void *member)
{
    if (value->kind != TREE_INTEGER && value->kind != TREE_REAL)
        return fail(r, value, "must be a number");
    if (!isfinite(value->real))
        return fail(r, value, "must be a finite number");
    if (value->real <= 0)
        return fail(r, value, "must be a number above 0");
    *(double *)member = value->real;
    return 0;
}

static bool real_said(const struct spec_key *key, const struct workload_spec *spec,
                      const void *member)
{
    (void)key;
    (void)spec;
    return *(const double *)member != 0;
}

static void write_real(struct json_writer *w, const struct workload_spec *spec, const void *member)
{
    (void)spec;
    json_put_real(w, *(const double *)member);
}

static int read_bytes(struct spec_reader *r, const struct tree *value, void *member)
{
    int64_t number;
    uint64_t bytes;
    struct error why;
    if (!value->text || value->kind == TREE_INTEGER) {
        int result = read_whole(r, value, 0, INT64_MAX, &number);
        if (result < 0)
            return result;
        bytes = (uint64_t)number;
    } else if (spec_parse_bytes(&why, value->text, &bytes) < 0) {
        return fail(r, value, why.text);
    }
    /* 0 means "not given" and is never written. */
    if (bytes == 0)
        return fail(r, value, "must not be 0; leave the key out for the whole device");
    *(uint64_t *)member = bytes;
    return 0;
}

/* Reads a time in a document: text with units, or a number of seconds. */
static int read_time(struct spec_reader *r, const struct tree *value, double *ret_ms)
{
    bool numeric = value->kind == TREE_INTEGER || value->kind == TREE_REAL;
    if (value->kind != TREE_STRING && !numeric)
        return fail(r, value, "must be a time, such as 90s, 250ms or 1h30m");
    if (numeric && isnan(value->real))
        return fail(r, value, "must be a time, such as 90s, 250ms or 1h30m");
    if (numeric && value->real < 0)
        return fail(r, value, "must not be negative");
    if (numeric && value->real * 1000 > (double)WORKLOAD_TIME_MS_MAX)
        return fail(r, value, "must not be longer than ten years");
    if (numeric) {
        *ret_ms = value->real * 1000;
        return 0;
    }
    struct error why;
    if (spec_parse_real_duration(&why, value->text, ret_ms) < 0)
        return fail(r, value, why.text);
    return 0;
}

static int read_duration(struct spec_reader *r, const struct tree *value, void *member)
{
    double ms;
    int result = read_time(r, value, &ms);
    if (result < 0)
        return result;
    if (ms > 0 && ms < 0.5)
        return fail(r, value, "must be at least a millisecond");
    *(int64_t *)member = llround(ms);
    return 0;
}

static void write_duration(struct json_writer *w, const struct workload_spec *spec,
                           const void *member)
{
    (void)spec;
    char text[SPEC_QUANTITY_MAX];
    json_put_string(w, spec_format_duration(*(const int64_t *)member, text));
}

/* Limit below which the number in write_latency()'s text would have an exponent. */
#define LATENCY_MS_MIN 1e-3

static int read_latency(struct spec_reader *r, const struct tree *value, void *member)
{
    double ms;
    int result = read_time(r, value, &ms);
    if (result < 0)
        return result;
    if (ms < LATENCY_MS_MIN)
        return fail(r, value, "must be at least a microsecond");
    *(double *)member = ms;
    return 0;
}

/* Writes all digits, so that the value reads back equal. */
static void write_latency(struct json_writer *w, const struct workload_spec *spec,
                          const void *member)
{
    (void)spec;
    char text[64];
    snprintf(text, sizeof text, "%.17gms", *(const double *)member);
    json_put_string(w, text);
}

/* ---- words from a list ---- */

static const char *scalar_text(const struct tree *value)
{
    return value->kind == TREE_NULL ? NULL : value->text;
}

#define ENUM_TYPE(name, type, wants)                                                               \
    static int read_##name(struct spec_reader *r, const struct tree *value, void *member)          \
    {                                                                                              \
        const char *text = scalar_text(value);                                                     \
        if (!text || type##_parse(text, member) < 0)                                               \
            return fail(r, value, wants);                                                          \
        return 0;                                                                                  \
    }                                                                                              \
    static bool name##_said(const struct spec_key *key, const struct workload_spec *spec,          \
                            const void *member)                                                    \
    {                                                                                              \
        (void)spec;                                                                                \
        return (int)*(const enum type *)member != key->unset;                                      \
    }                                                                                              \
    static void write_##name(struct json_writer *w, const struct workload_spec *spec,              \
                             const void *member)                                                   \
    {                                                                                              \
        (void)spec;                                                                                \
        json_put_string(w, type##_name(*(const enum type *)member));                               \
    }

ENUM_TYPE(kind, workload_kind, "must be task or service")
ENUM_TYPE(node_lost, on_node_lost, "must be requeue or wait")
ENUM_TYPE(protection, protection, "must be on or off")
ENUM_TYPE(latency_source, latency_source, "must be auto, vllm, sglang, triton or prometheus")
ENUM_TYPE(proxy, proxy_kind, "must be http or off")

static int read_flag(struct spec_reader *r, const struct tree *value, void *member)
{
    if (value->kind != TREE_BOOL)
        return fail(r, value, "must be true or false");
    *(bool *)member = value->integer != 0;
    return 0;
}

static bool flag_said(const struct spec_key *key, const struct workload_spec *spec,
                      const void *member)
{
    (void)key;
    (void)spec;
    return *(const bool *)member;
}

static void write_flag(struct json_writer *w, const struct workload_spec *spec, const void *member)
{
    (void)spec;
    json_put_bool(w, *(const bool *)member);
}

/* ---- texts ---- */

static int read_string(struct spec_reader *r, const struct tree *value, void *member)
{
    const char *text = scalar_text(value);
    if (!text)
        return fail(r, value, "must be a string");
    if (text[0] == '\0')
        return fail(r, value, "must not be empty; leave the key out instead");
    const char *copy = arena_strdup(r->arena, text);
    if (!copy)
        return no_memory(r);
    *(const char **)member = copy;
    return 0;
}

static bool string_said(const struct spec_key *key, const struct workload_spec *spec,
                        const void *member)
{
    (void)key;
    (void)spec;
    return *(const char *const *)member;
}

static void write_string(struct json_writer *w, const struct workload_spec *spec,
                         const void *member)
{
    (void)spec;
    json_put_string(w, *(const char *const *)member);
}

/* Reads the device model, the only text that the struct itself contains. */
static int read_buffer(struct spec_reader *r, const struct tree *value, void *member)
{
    const char *text = scalar_text(value);
    if (!text || text[0] == '\0')
        return fail(r, value, "must be a string");
    if (strlen(text) >= DEVICE_MODEL_MAX)
        return fail(r, value, "is too long");
    str_copy(member, DEVICE_MODEL_MAX, text);
    return 0;
}

static bool buffer_said(const struct spec_key *key, const struct workload_spec *spec,
                        const void *member)
{
    (void)key;
    (void)spec;
    return *(const char *)member;
}

static void write_buffer(struct json_writer *w, const struct workload_spec *spec,
                         const void *member)
{
    (void)spec;
    json_put_string(w, member);
}

/* ---- commands ---- */

/* Copies the texts of a list; an element that is no scalar is an error at path[i]. */
static int copy_words(struct spec_reader *r, const struct tree *list, const char **items)
{
    size_t i = 0;
    tree_for_each(child, list)
    {
        const char *text = scalar_text(child);
        if (!text) {
            int result = tree_error(r->e, ERR_INVALID, child, "", "must be a string");
            error_prefix_element(r->e, r->key->path, i);
            return result;
        }
        items[i] = arena_strdup(r->arena, text);
        if (!items[i++])
            return no_memory(r);
    }
    return 0;
}

static int read_words(struct spec_reader *r, const struct tree *value, void *member)
{
    const char *text = scalar_text(value);
    const struct tree words[] = {
        {.kind = TREE_STRING, .text = "sh", .next = (struct tree *)&words[1]},
        {.kind = TREE_STRING, .text = "-c", .next = (struct tree *)&words[2]},
        {.kind = TREE_STRING, .text = text},
    };
    const struct tree shell = {.kind = TREE_LIST, .count = 3, .first = (struct tree *)&words[0]};
    if (text && text[0])
        value = &shell;
    if (value->kind != TREE_LIST || value->count == 0)
        return fail(r, value, "must be a list of words or one string");
    if (value->count > WORKLOAD_COMMAND_MAX)
        return fail(r, value, "has too many words");
    struct words read = {.count = value->count,
                         .items = arena_array(r->arena, value->count + 1, sizeof(char *))};
    if (!read.items)
        return no_memory(r);
    int result = copy_words(r, value, read.items);
    if (result == 0)
        *(struct words *)member = read;
    return result;
}

static bool words_said(const struct spec_key *key, const struct workload_spec *spec,
                       const void *member)
{
    (void)key;
    (void)spec;
    return ((const struct words *)member)->count > 0;
}

static void write_words(struct json_writer *w, const struct workload_spec *spec, const void *member)
{
    (void)spec;
    const struct words *words = member;
    json_begin_array(w);
    for (size_t i = 0; i < words->count; i++)
        json_put_string(w, words->items[i]);
    json_end_array(w);
}

/* ---- pairs ---- */

int spec_read_pairs(struct error *e, struct arena *arena, const char *field,
                    const struct tree *value, struct pairs *ret)
{
    if (value->kind != TREE_MAP)
        return tree_error(e, ERR_INVALID, value, field, "must be a map of names to values");
    struct pairs read = {.count = value->count,
                         .items = arena_array(arena, value->count, sizeof(struct pair))};
    size_t i = 0;
    if (!read.items)
        return error_set_field(e, ERR_NO_MEMORY, field, "out of memory");
    tree_for_each(child, value)
    {
        const char *text = scalar_text(child);
        if (!text) {
            int result = tree_error(e, ERR_INVALID, child, child->key,
                                    "must be a string (\"\" for an empty string)");
            error_prefix_field(e, field);
            return result;
        }
        read.items[i] = (struct pair){arena_strdup(arena, child->key), arena_strdup(arena, text)};
        if (!read.items[i].key || !read.items[i].value)
            return error_set_field(e, ERR_NO_MEMORY, field, "out of memory");
        i++;
    }
    int result = pairs_sort(e, &read);
    if (result < 0)
        error_prefix_field(e, field);
    else
        *ret = read;
    return result;
}

static int read_pairs(struct spec_reader *r, const struct tree *value, void *member)
{
    return spec_read_pairs(r->e, r->arena, r->key->path, value, member);
}

static int add_pair(struct spec_reader *r, const char *text, void *member)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return fail(r, NULL, "must be KEY=VALUE");
    const char *key = arena_strndup(r->arena, text, (size_t)(equals - text));
    if (!key || pairs_set(r->arena, member, key, equals + 1) < 0)
        return no_memory(r);
    return 0;
}

static bool pairs_said(const struct spec_key *key, const struct workload_spec *spec,
                       const void *member)
{
    (void)key;
    (void)spec;
    return ((const struct pairs *)member)->count > 0;
}

static void write_pairs(struct json_writer *w, const struct workload_spec *spec, const void *member)
{
    (void)spec;
    const struct pairs *pairs = member;
    json_begin_object(w);
    for (size_t i = 0; i < pairs->count; i++)
        json_put_string(json_key(w, pairs->items[i].key), pairs->items[i].value);
    json_end_object(w);
}

/* ---- readiness: one of four kinds, two of which have a value ---- */

static int set_ready(struct spec_reader *r, const struct tree *value, enum ready_kind kind)
{
    if (r->spec->ready != READY_STARTED)
        return fail(r, value, "must have either a command or a port");
    r->spec->ready = kind;
    return 0;
}

static int read_ready(struct spec_reader *r, const struct tree *value, void *member)
{
    const char *text = scalar_text(value);
    enum ready_kind kind;
    if (!text || ready_kind_parse(text, &kind) < 0 || kind == READY_COMMAND || kind == READY_PORT)
        return fail(r, value, "must be started, client, {command: ...} or {port: ...}");
    *(enum ready_kind *)member = kind;
    return 0;
}

static bool ready_said(const struct spec_key *key, const struct workload_spec *spec,
                       const void *member)
{
    (void)key;
    (void)member;
    return spec->ready == READY_CLIENT;
}

static void write_ready(struct json_writer *w, const struct workload_spec *spec, const void *member)
{
    (void)member;
    json_put_string(w, ready_kind_name(spec->ready));
}

static int read_ready_command(struct spec_reader *r, const struct tree *value, void *member)
{
    int result = set_ready(r, value, READY_COMMAND);
    return result < 0 ? result : read_words(r, value, member);
}

static bool ready_command_said(const struct spec_key *key, const struct workload_spec *spec,
                               const void *member)
{
    (void)key;
    (void)member;
    return spec->ready == READY_COMMAND;
}

static int read_ready_port(struct spec_reader *r, const struct tree *value, void *member)
{
    int64_t port;
    int result = read_whole(r, value, 1, PORT_MAX, &port);
    if (result == 0)
        result = set_ready(r, value, READY_PORT);
    if (result == 0)
        *(int *)member = (int)port;
    return result;
}

static bool ready_port_said(const struct spec_key *key, const struct workload_spec *spec,
                            const void *member)
{
    (void)key;
    (void)member;
    return spec->ready == READY_PORT;
}

/* ---- after ---- */

static int parse_after(struct spec_reader *r, const struct tree *at, const char *text,
                       size_t length, struct after *ret)
{
    const char *colon = memchr(text, ':', length);
    size_t name_length = colon ? (size_t)(colon - text) : length;
    size_t how_length = length - name_length;
    bool ended = how_length == 6 && strncmp(colon, ":ended", 6) == 0;
    bool succeeded = how_length == 10 && strncmp(colon, ":succeeded", 10) == 0;
    if (name_length == 0 || (colon && !ended && !succeeded))
        return fail(r, at, "must be NAME or ID, alone or with :succeeded or :ended");
    *ret = (struct after){arena_strndup(r->arena, text, name_length), !ended};
    return ret->name ? 0 : no_memory(r);
}

static int read_after(struct spec_reader *r, const struct tree *value, void *member)
{
    struct tree only = *value;
    only.next = NULL;
    const struct tree single = {.kind = TREE_LIST, .count = 1, .first = &only};
    if (value->kind != TREE_LIST)
        value = &single;
    struct after *read = arena_array(r->arena, value->count, sizeof *read);
    size_t count = 0;
    if (!read)
        return no_memory(r);
    tree_for_each(child, value)
    {
        char id[24];
        const char *text = scalar_text(child);
        if (child->kind == TREE_INTEGER && !text) {
            snprintf(id, sizeof id, "%lld", (long long)child->integer);
            text = id;
        }
        if (!text)
            return fail(r, child, "must be names or ids of workloads");
        int result = parse_after(r, child, text, strlen(text), &read[count++]);
        if (result < 0)
            return result;
    }
    r->spec->after_count = count;
    *(struct after **)member = read;
    return 0;
}

/* Adds one or more dependencies from a flag, separated by commas. */
static int add_after(struct spec_reader *r, const char *text, void *member)
{
    size_t added = 1, count = r->spec->after_count;
    for (const char *p = text; *p; p++)
        added += *p == ',';
    struct after *all = arena_array(r->arena, count + added, sizeof *all);
    if (!all)
        return no_memory(r);
    if (count)
        memcpy(all, r->spec->after, count * sizeof *all);
    for (size_t i = 0; i < added; i++) {
        size_t length = strcspn(text, ",");
        int result = parse_after(r, NULL, text, length, &all[count + i]);
        if (result < 0)
            return result;
        text += length + 1;
    }
    r->spec->after_count = count + added;
    *(struct after **)member = all;
    return 0;
}

static bool after_said(const struct spec_key *key, const struct workload_spec *spec,
                       const void *member)
{
    (void)key;
    (void)member;
    return spec->after_count > 0;
}

static void write_after(struct json_writer *w, const struct workload_spec *spec, const void *member)
{
    (void)member;
    json_begin_array(w);
    for (size_t i = 0; i < spec->after_count; i++) {
        char text[WORKLOAD_NAME_MAX + sizeof ":ended"];
        snprintf(text, sizeof text, "%s%s", spec->after[i].name,
                 spec->after[i].succeeded ? "" : ":ended");
        json_put_string(w, text);
    }
    json_end_array(w);
}

/* ---- the table ---- */

#define TYPE(name, ...) static const struct spec_type type_##name = {__VA_ARGS__}
TYPE(VERSION, read_version, NULL, never_said, NULL);
TYPE(KIND, read_kind, NULL, kind_said, write_kind);
TYPE(STRING, read_string, NULL, string_said, write_string);
TYPE(WORDS, read_words, NULL, words_said, write_words);
TYPE(PAIRS, read_pairs, add_pair, pairs_said, write_pairs);
TYPE(COUNT, read_count, NULL, number_said, write_int);
TYPE(PERCENT, read_percent, NULL, number_said, write_int);
TYPE(COPIES, read_copies, NULL, number_said, write_int);
TYPE(INTEGER, read_integer, NULL, number_said, write_int);
TYPE(BUFFER, read_buffer, NULL, buffer_said, write_buffer);
TYPE(BYTES, read_bytes, NULL, int64_said, write_int64);
TYPE(SHARE, read_share, NULL, never_said, NULL);
TYPE(BATCH, read_batch, NULL, int64_said, write_int64);
TYPE(REAL, read_real, NULL, real_said, write_real);
TYPE(LATENCY, read_latency, NULL, real_said, write_latency);
TYPE(DURATION, read_duration, NULL, int64_said, write_duration);
TYPE(NODE_LOST, read_node_lost, NULL, node_lost_said, write_node_lost);
TYPE(PROTECTION, read_protection, NULL, protection_said, write_protection);
TYPE(READY, read_ready, NULL, ready_said, write_ready);
TYPE(READY_COMMAND, read_ready_command, NULL, ready_command_said, write_words);
TYPE(READY_PORT, read_ready_port, NULL, ready_port_said, write_int);
TYPE(PORT, read_port, NULL, number_said, write_int);
TYPE(LATENCY_SOURCE, read_latency_source, NULL, latency_source_said, write_latency_source);
TYPE(PROXY, read_proxy, NULL, proxy_said, write_proxy);
TYPE(AFTER, read_after, add_after, after_said, write_after);
TYPE(FLAG, read_flag, NULL, flag_said, write_flag);

const struct spec_key spec_keys[] = {
#define SPEC_KEY(path, type, member, unset, help)                                                  \
    {path, &type_##type, offsetof(struct workload_spec, member), unset},
#include "wire/spec_schema.def"
#undef SPEC_KEY
    {0},
};
