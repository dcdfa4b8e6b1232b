#include "wire/json_reader.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* ---- texts that are refused ---- */

/* deepest level of a field that errors name; no document of gpumux comes near this depth */
enum { LEVELS_MAX = 32 };

/* An open list or object, and the member that is being read. */
struct level {
    bool is_list, wants_key;
    size_t index;
    const char *key; /* points into the text, with its escapes */
    size_t key_length;
};

struct place {
    struct level levels[LEVELS_MAX];
    size_t depth; /* may exceed LEVELS_MAX */
};

static void open_level(struct place *p, bool is_list)
{
    if (p->depth < LEVELS_MAX)
        p->levels[p->depth] = (struct level){.is_list = is_list, .wants_key = !is_list, .key = ""};
    p->depth++;
}

/* Reads up to the byte `end`; the text before has no fault. */
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
        what = "a text must not contain NUL (\\u0000)";
    else if (cause == json_error_null_byte_in_key)
        what = "a key must not contain NUL (\\u0000)";
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
        return error_set(e, code, "the document must be a JSON object");
    }
    *ret = root;
    return 0;
}
