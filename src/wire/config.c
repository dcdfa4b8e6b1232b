#include "wire/config.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "model/node.h"
#include "wire/hint.h"
#include "wire/spec.h"
#include "wire/spec_internal.h"
#include "wire/tree.h"

enum { CONFIG_TEXT_MAX = 1 << 20, CONFIG_DEPTH_MAX = 4, CONFIG_STRING_MAX = 4096 };

enum config_type {
    CONFIG_TYPE_STRING,
    CONFIG_TYPE_NUMBER,
    CONFIG_TYPE_DURATION,
    CONFIG_TYPE_BYTES,
    CONFIG_TYPE_FLAG,
    CONFIG_TYPE_PAIRS
};

/* A line of config.def; defaults and limits are the texts that a file would have. */
struct config_key {
    const char *key;
    enum config_reader reader;
    enum config_type type;
    size_t offset;
    const char *fallback, *least, *most;
    const char *help;
    size_t pairs_max;
};

#define AT(member) offsetof(struct config, member)
static const struct config_key config_keys[] = {
#define CONFIG_STRING(name, key, reader, fallback, help)                                           \
    {key, CONFIG_BY_##reader, CONFIG_TYPE_STRING, AT(name), fallback, NULL, NULL, help, 0},
#define CONFIG_NUMBER(name, key, reader, fallback, least, most, help)                              \
    {key, CONFIG_BY_##reader, CONFIG_TYPE_NUMBER, AT(name), #fallback, #least, #most, help, 0},
#define CONFIG_DURATION(name, key, reader, fallback, least, most, help)                            \
    {key, CONFIG_BY_##reader, CONFIG_TYPE_DURATION, AT(name##_ms), fallback, least, most, help, 0},
#define CONFIG_BYTES(name, key, reader, fallback, least, most, help)                               \
    {key, CONFIG_BY_##reader, CONFIG_TYPE_BYTES, AT(name##_bytes), fallback, least, most, help, 0},
#define CONFIG_FLAG(name, key, reader, fallback, help)                                             \
    {key, CONFIG_BY_##reader, CONFIG_TYPE_FLAG, AT(name), #fallback, NULL, NULL, help, 0},
#define CONFIG_PAIRS(name, key, reader, most, help)                                                \
    {key, CONFIG_BY_##reader, CONFIG_TYPE_PAIRS, AT(name), NULL, NULL, NULL, help, most},
#include "wire/config.def"
#undef CONFIG_STRING
#undef CONFIG_NUMBER
#undef CONFIG_DURATION
#undef CONFIG_BYTES
#undef CONFIG_FLAG
#undef CONFIG_PAIRS
};
#undef AT
enum { CONFIG_KEY_COUNT = sizeof config_keys / sizeof config_keys[0] };

static const struct config_key *find_key(const char *key)
{
    for (size_t i = 0; i < CONFIG_KEY_COUNT; i++)
        if (str_equal(config_keys[i].key, key))
            return &config_keys[i];
    return NULL;
}

enum config_reader config_reader(const char *key)
{
    const struct config_key *found = find_key(key);
    return found ? found->reader : CONFIG_BY_BOTH;
}

static int unknown_key(struct error *e, const struct tree *at, const char *key)
{
    struct hint hint;
    hint_init(&hint, key);
    for (size_t i = 0; i < CONFIG_KEY_COUNT; i++)
        hint_offer(&hint, config_keys[i].key);
    const char *nearest = hint_get(&hint);
    if (nearest)
        return tree_error(e, ERR_INVALID, at, key, "unknown key '%.60s', did you mean '%s'?", key,
                          nearest);
    return tree_error(e, ERR_INVALID, at, key, "unknown key '%.60s'", key);
}

/* ---- reading values ---- */

/* Parses a number, a time or a size as a whole number: bytes, milliseconds. */
static int parse_amount(struct error *e, enum config_type type, const char *text, int64_t *ret)
{
    if (type == CONFIG_TYPE_DURATION)
        return spec_parse_duration(e, text, ret);
    if (type == CONFIG_TYPE_BYTES) {
        uint64_t bytes;
        int r = spec_parse_bytes(e, text, &bytes);
        if (r == 0 && bytes > INT64_MAX)
            r = error_set(e, ERR_INVALID, "'%.40s' is too large", text);
        if (r == 0)
            *ret = (int64_t)bytes;
        return r;
    }
    struct tree number;
    tree_from_text(text, &number);
    if (number.kind != TREE_INTEGER)
        return error_set(e, ERR_INVALID, "'%.40s' is not a whole number within 64 bits", text);
    *ret = number.integer;
    return 0;
}

static int read_amount(struct error *e, const struct config_key *key, const struct tree *value,
                       void *member)
{
    bool quoted_number = key->type == CONFIG_TYPE_NUMBER && value->kind == TREE_STRING;
    bool scalar = value->text && value->kind != TREE_NULL && value->kind != TREE_BOOL;
    if (!scalar || quoted_number)
        return tree_error(e, ERR_INVALID, value, key->key, "must be %s",
                          key->type == CONFIG_TYPE_NUMBER     ? "a whole number"
                          : key->type == CONFIG_TYPE_DURATION ? "a time, such as 90s"
                                                              : "a size, such as 64m");
    struct error why;
    int64_t amount, least, most;
    if (parse_amount(&why, key->type, value->text, &amount) < 0)
        return tree_error(e, ERR_INVALID, value, key->key, "%s", why.text);
    if (parse_amount(&why, key->type, key->least, &least) < 0 ||
        parse_amount(&why, key->type, key->most, &most) < 0)
        return error_set_field(e, ERR_INTERNAL, key->key, "invalid limits: %s", why.text);
    if (amount < least || amount > most)
        return tree_error(e, ERR_INVALID, value, key->key, "%.40s is not between %s and %s",
                          value->text, key->least, key->most);
    *(int64_t *)member = amount;
    return 0;
}

/* Checks the values of keys with a fixed set of names; control checks the names of policies. */
static int check_string(struct error *e, const struct config_key *key, const struct tree *value)
{
    enum log_level level;
    if (str_equal(key->key, "log_level") && !log_level_parse(value->text, &level))
        return tree_error(e, ERR_INVALID, value, key->key, "must be error, warn, info or debug");
    if (str_equal(key->key, "log_format") && !str_equal(value->text, "text") &&
        !str_equal(value->text, "json"))
        return tree_error(e, ERR_INVALID, value, key->key, "must be text or json");
    if (str_equal(key->key, "mps") && !str_equal(value->text, "auto") &&
        !str_equal(value->text, "off"))
        return tree_error(e, ERR_INVALID, value, key->key, "must be auto or off");
    if (str_equal(key->key, "node_name") && value->text[0] && !node_name_is_valid(value->text))
        return tree_error(e, ERR_INVALID, value, key->key,
                          "must be at most %d letters, digits, '.', '_' or '-'", NODE_NAME_MAX - 1);
    return 0;
}

static int read_string(struct error *e, struct arena *arena, const struct config_key *key,
                       const struct tree *value, void *member)
{
    if (!value->text || value->kind == TREE_NULL)
        return tree_error(e, ERR_INVALID, value, key->key, "must be a string");
    if (strlen(value->text) >= CONFIG_STRING_MAX)
        return tree_error(e, ERR_INVALID, value, key->key, "must be at most %d bytes long",
                          CONFIG_STRING_MAX - 1);
    int r = check_string(e, key, value);
    if (r < 0)
        return r;
    const char *copy = arena_strdup(arena, value->text);
    if (!copy)
        return error_set_field(e, ERR_NO_MEMORY, key->key, "out of memory");
    *(const char **)member = copy;
    return 0;
}

static int check_pairs(struct error *e, const struct config_key *key, const struct tree *value,
                       const struct pairs *pairs)
{
    if (pairs->count > key->pairs_max)
        return tree_error(e, ERR_INVALID, value, key->key, "more than %zu names", key->pairs_max);
    for (size_t i = 0; i < pairs->count; i++) {
        const struct pair *pair = &pairs->items[i];
        if (!pair->key[0] || strchr(pair->key, '=') || strlen(pair->key) >= WORKLOAD_LABEL_MAX ||
            strlen(pair->value) >= WORKLOAD_LABEL_MAX)
            return tree_error(e, ERR_INVALID, value, key->key,
                              "'%.40s' is empty, too long or contains '='", pair->key);
    }
    return 0;
}

static int read_pairs(struct error *e, struct arena *arena, const struct config_key *key,
                      const struct tree *value, void *member)
{
    struct pairs pairs;
    int r = spec_read_pairs(e, arena, key->key, value, &pairs);
    if (r == 0)
        r = check_pairs(e, key, value, &pairs);
    if (r == 0)
        *(struct pairs *)member = pairs;
    return r;
}

static int read_value(struct error *e, struct arena *arena, const struct config_key *key,
                      const struct tree *value, struct config *config)
{
    void *member = (char *)config + key->offset;
    switch (key->type) {
    case CONFIG_TYPE_STRING:
        return read_string(e, arena, key, value, member);
    case CONFIG_TYPE_FLAG:
        if (value->kind != TREE_BOOL)
            return tree_error(e, ERR_INVALID, value, key->key, "must be true or false");
        *(bool *)member = value->integer != 0;
        return 0;
    case CONFIG_TYPE_PAIRS:
        return read_pairs(e, arena, key, value, member);
    default:
        return read_amount(e, key, value, member);
    }
}

/* Sets a key from a flag or a default; for pairs, "KEY=VALUE" adds one pair. */
static int read_text(struct error *e, struct arena *arena, const struct config_key *key,
                     const char *text, struct config *config)
{
    struct tree value;
    tree_from_text(text, &value);
    if (value.kind == TREE_NULL) /* an empty flag is an empty string */
        value.kind = TREE_STRING;
    if (key->type != CONFIG_TYPE_PAIRS)
        return read_value(e, arena, key, &value, config);
    const char *equals = strchr(text, '=');
    struct pairs *member = (struct pairs *)(void *)((char *)config + key->offset);
    if (!equals || equals == text)
        return error_set_field(e, ERR_INVALID, key->key, "must be KEY=VALUE");
    const char *name = arena_strndup(arena, text, (size_t)(equals - text));
    if (!name || pairs_set(arena, member, name, equals + 1) < 0)
        return error_set_field(e, ERR_NO_MEMORY, key->key, "out of memory");
    return check_pairs(e, key, NULL, member);
}

/* ---- documents ---- */

static int read_version(struct error *e, const struct tree *value)
{
    if (value->kind == TREE_INTEGER && value->integer == 1)
        return 0;
    return tree_error(e, ERR_INVALID, value, "version",
                      "unknown version; this gpumux reads version 1");
}

int config_check(struct error *e, const struct config *config)
{
    const struct {
        const char *less, *more;
        int64_t values[2];
    } ordered[] = {
        {"backoff_min", "backoff_max", {config->backoff_min_ms, config->backoff_max_ms}},
        {"monitor_memory_soft",
         "monitor_memory_hard",
         {config->monitor_memory_soft, config->monitor_memory_hard}},
        {"monitor_latency_soft",
         "monitor_latency_hard",
         {config->monitor_latency_soft, config->monitor_latency_hard}},
        {"monitor_hold_min",
         "monitor_hold_max",
         {config->monitor_hold_min_ms, config->monitor_hold_max_ms}},
    };
    for (size_t i = 0; i < sizeof ordered / sizeof *ordered; i++)
        if (ordered[i].values[0] > ordered[i].values[1])
            return error_set_field(e, ERR_INVALID, ordered[i].less, "must not be more than %s",
                                   ordered[i].more);
    if (config->beat_ms >= config->lease_ms)
        return error_set_field(e, ERR_INVALID, "beat", "must be shorter than lease");
    return 0;
}

static int read_document(struct error *e, struct arena *arena, const struct tree *document,
                         struct config *config)
{
    if (document->kind == TREE_NULL)
        return 0;
    if (document->kind != TREE_MAP)
        return tree_error(e, ERR_INVALID, document, "", "must be a map of keys to values");
    tree_for_each(child, document)
    {
        const struct config_key *key = find_key(child->key);
        int r = str_equal(child->key, "version") ? read_version(e, child)
                : key                            ? read_value(e, arena, key, child, config)
                                                 : unknown_key(e, child, child->key);
        if (r < 0)
            return r;
    }
    return config_check(e, config);
}

int config_default(struct arena *arena, struct config *ret)
{
    struct config config = {0};
    for (size_t i = 0; i < CONFIG_KEY_COUNT; i++) {
        const struct config_key *key = &config_keys[i];
        if (!key->fallback)
            continue;
        int r = read_text(NULL, arena, key, key->fallback, &config);
        if (r < 0)
            return r;
    }
    *ret = config;
    return 0;
}

int config_parse(struct error *e, struct arena *arena, const char *text, size_t length,
                 struct config *config)
{
    if (length > CONFIG_TEXT_MAX)
        return error_set(e, ERR_TOO_LARGE, "the configuration is larger than %d bytes",
                         CONFIG_TEXT_MAX);
    struct tree *documents = NULL;
    int r = tree_parse_yaml(e, arena, text, length, CONFIG_DEPTH_MAX, &documents);
    if (r < 0)
        return r;
    if (documents->count > 1)
        return tree_error(e, ERR_SYNTAX, documents->first->next, "",
                          "a configuration must be one document");
    struct config changed = *config;
    if (documents->first)
        r = read_document(e, arena, documents->first, &changed);
    if (r == 0)
        *config = changed;
    return r;
}

static int read_file(struct error *e, struct arena *arena, const char *path, char **ret_text,
                     size_t *ret_length)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_set_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno, "%s", path);
    char *text = arena_alloc(arena, CONFIG_TEXT_MAX + 1);
    size_t length = 0;
    int r = text ? 0 : error_set(e, ERR_NO_MEMORY, "out of memory");
    while (r == 0 && length <= CONFIG_TEXT_MAX) {
        ssize_t got = read(fd, text + length, CONFIG_TEXT_MAX + 1 - length);
        if (got < 0 && errno != EINTR)
            r = error_set_errno(e, ERR_IO, errno, "%s", path);
        if (got == 0)
            break;
        if (got > 0)
            length += (size_t)got;
    }
    close(fd);
    if (r == 0) {
        *ret_text = text;
        *ret_length = length;
    }
    return r;
}

int config_load(struct error *e, struct arena *arena, const char *path, struct config *config)
{
    char *text = NULL;
    size_t length = 0;
    int r = read_file(e, arena, path, &text, &length);
    if (r < 0)
        return r;
    struct error why;
    r = config_parse(&why, arena, text, length, config);
    if (r < 0)
        error_set_field(e, (enum error_code) - r, why.field, "%.300s: %.300s", path, why.text);
    return r;
}

int config_set(struct error *e, struct arena *arena, struct config *config, const char *key,
               const char *value)
{
    const struct config_key *known = find_key(key);
    if (!known)
        return unknown_key(e, NULL, key);
    if (!str_is_utf8(value, strlen(value)))
        return error_set_field(e, ERR_INVALID, key, "must be valid UTF-8");
    struct config changed = *config;
    int r = read_text(e, arena, known, value, &changed);
    if (r == 0)
        *config = changed;
    return r;
}

/* ---- writing ---- */

/* Writes only ASCII in double quotes, because YAML allows fewer characters than UTF-8 has. */
static void append_quoted(struct str *out, const char *text)
{
    str_append_char(out, '"');
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        unsigned bytes = *p < 0x80 ? 1 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;
        unsigned long point = bytes == 1 ? *p : *p & (0xffu >> (bytes + 1));
        for (unsigned i = 1; i < bytes; i++)
            point = point << 6 | (p[i] & 0x3f);
        if (point == '"' || point == '\\')
            str_printf(out, "\\%c", (int)point);
        else if (point >= 0x20 && point < 0x7f)
            str_append_char(out, (char)point);
        else if (point < 0x100)
            str_printf(out, "\\x%02lx", point);
        else
            str_printf(out, bytes < 4 ? "\\u%04lx" : "\\U%08lx", point);
        p += bytes;
    }
    str_append_char(out, '"');
}

/* Writes an exact number in the largest unit that divides it. */
static void append_bytes(struct str *out, int64_t bytes)
{
    static const char units[] = {'k', 'm', 'g', 't'};
    size_t unit = 0;
    while (bytes && bytes % 1024 == 0 && unit < sizeof units) {
        bytes /= 1024;
        unit++;
    }
    str_printf(out, "%lld", (long long)bytes);
    if (unit)
        str_append_char(out, units[unit - 1]);
}

static void append_pairs(struct str *out, const struct pairs *pairs)
{
    str_append_char(out, '{');
    for (size_t i = 0; i < pairs->count; i++) {
        str_append(out, i ? ", " : "");
        append_quoted(out, pairs->items[i].key);
        str_append(out, ": ");
        append_quoted(out, pairs->items[i].value);
    }
    str_append_char(out, '}');
}

static void append_value(struct str *out, const struct config_key *key, const void *member)
{
    char text[SPEC_QUANTITY_MAX];
    switch (key->type) {
    case CONFIG_TYPE_STRING:
        append_quoted(out, *(const char *const *)member);
        break;
    case CONFIG_TYPE_NUMBER:
        str_printf(out, "%lld", (long long)*(const int64_t *)member);
        break;
    case CONFIG_TYPE_DURATION:
        str_append(out, spec_format_duration(*(const int64_t *)member, text));
        break;
    case CONFIG_TYPE_BYTES:
        append_bytes(out, *(const int64_t *)member);
        break;
    case CONFIG_TYPE_FLAG:
        str_append(out, *(const bool *)member ? "true" : "false");
        break;
    case CONFIG_TYPE_PAIRS:
        append_pairs(out, member);
        break;
    }
}

int config_write(const struct config *config, struct str *out)
{
    str_append(out, "version: 1\n");
    for (size_t i = 0; i < CONFIG_KEY_COUNT; i++) {
        const struct config_key *key = &config_keys[i];
        str_printf(out, "\n# %s", key->help);
        if (key->least)
            str_printf(out, " (%s to %s)", key->least, key->most);
        str_printf(out, "\n%s: ", key->key);
        append_value(out, key, (const char *)config + key->offset);
        str_append_char(out, '\n');
    }
    return str_failed(out) ? -ERR_NO_MEMORY : 0;
}
