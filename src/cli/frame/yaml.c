/* JSON values as YAML in block style. Ambiguous strings are quoted. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "cli/frame/output.h"

static int append(void *arg, unsigned char *bytes, size_t length)
{
    struct str *out = arg;
    str_append_bytes(out, bytes, length);
    return !str_failed(out);
}

/* Returns whether YAML reads the unquoted text as this string. */
static bool is_plain(const char *text)
{
    static const char *const words[] = {"null", "true", "false", "yes", "no",   "on",
                                        "off",  "~",    "y",     "n",   ".inf", ".nan"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(text, words[i]) == 0)
            return false;
    return *text && !strchr("0123456789+-.=<", *text) && !strpbrk(text, "\n\t");
}

static int emit_scalar(yaml_emitter_t *emitter, const char *text, bool quoted)
{
    yaml_event_t event;
    return yaml_scalar_event_initialize(
               &event, NULL, NULL, (const yaml_char_t *)text, (int)strlen(text), 1, 1,
               quoted ? YAML_DOUBLE_QUOTED_SCALAR_STYLE : YAML_PLAIN_SCALAR_STYLE) &&
           yaml_emitter_emit(emitter, &event);
}

static int emit(yaml_emitter_t *emitter, const json_t *value)
{
    yaml_event_t event;
    if (json_is_object(value)) {
        const char *key;
        json_t *member;
        int ok =
            yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE) &&
            yaml_emitter_emit(emitter, &event);
        json_object_foreach((json_t *)value, key, member) ok =
            ok && emit_scalar(emitter, key, !is_plain(key)) && emit(emitter, member);
        return ok && yaml_mapping_end_event_initialize(&event) &&
               yaml_emitter_emit(emitter, &event);
    }
    if (json_is_array(value)) {
        int ok = yaml_sequence_start_event_initialize(&event, NULL, NULL, 1,
                                                      YAML_BLOCK_SEQUENCE_STYLE) &&
                 yaml_emitter_emit(emitter, &event);
        for (size_t i = 0; ok && i < json_array_size(value); i++)
            ok = emit(emitter, json_array_get(value, i));
        return ok && yaml_sequence_end_event_initialize(&event) &&
               yaml_emitter_emit(emitter, &event);
    }
    if (json_is_string(value))
        return emit_scalar(emitter, json_string_value(value), !is_plain(json_string_value(value)));
    char text[64] = "null";
    if (json_is_boolean(value))
        (void)str_copy(text, sizeof text, json_is_true(value) ? "true" : "false");
    else if (json_is_integer(value))
        snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, sizeof text, "%.17g", json_real_value(value));
    return emit_scalar(emitter, text, false);
}

int output_write_yaml(struct str *out, const json_t *value)
{
    yaml_emitter_t emitter;
    yaml_event_t event;
    if (!yaml_emitter_initialize(&emitter))
        return -ERR_NO_MEMORY;
    yaml_emitter_set_output(&emitter, append, out);
    yaml_emitter_set_unicode(&emitter, 1);
    int ok = yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING) &&
             yaml_emitter_emit(&emitter, &event) &&
             yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1) &&
             yaml_emitter_emit(&emitter, &event) && emit(&emitter, value) &&
             yaml_document_end_event_initialize(&event, 1) && yaml_emitter_emit(&emitter, &event) &&
             yaml_stream_end_event_initialize(&event) && yaml_emitter_emit(&emitter, &event);
    yaml_emitter_delete(&emitter);
    return ok && !str_failed(out) ? 0 : -ERR_NO_MEMORY;
}
