#include "cli/connect/reference.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/frame/output.h"
#include "model/workload.h"

enum { PAGE = 1000, TARGET_MAX = 1024 };

static bool may_be_array(const char *word)
{
    return word[strspn(word, "0123456789")] && !strchr(word, '[');
}

static int get_page(struct error *e, struct client *c, const char *name, const char *cursor,
                    json_t **ret)
{
    struct str target;
    str_init(&target, TARGET_MAX);
    str_printf(&target, "/v1/workloads?limit=%d&name=", PAGE);
    http_append_encoded(&target, name);
    if (*cursor)
        str_printf(&target, "&cursor=%s", cursor);
    int r = str_failed(&target) ? error_set(e, ERR_INVALID, "the name is too long")
                                : client_get(e, c, str_text(&target), ret);
    str_done(&target);
    return r;
}

/* Chooses among workloads of one name, newest first: the user's newest submission, else the newest
 * of any user. */
static uint64_t choose_group(const json_t *all)
{
    uint64_t newest = 0;
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *w = json_array_get(all, i);
        uint64_t group = (uint64_t)json_number(w, "group", 0);
        if (json_number(w, "uid", -1) == (json_int_t)geteuid())
            return group;
        if (newest == 0)
            newest = group;
    }
    return newest;
}

static bool has_ended(const json_t *w)
{
    enum workload_state state;
    return workload_state_parse(json_text(w, "state", ""), &state) == 0 &&
           workload_state_is_terminal(state);
}

static int add_elements(struct error *e, struct client *c, const json_t *all, enum array_part part,
                        struct references *list, size_t room)
{
    uint64_t group = choose_group(all);
    for (size_t i = json_array_size(all); i > 0; i--) { /* oldest first: element 0 leads */
        const json_t *w = json_array_get(all, i - 1);
        if ((uint64_t)json_number(w, "group", 0) != group || (part == ARRAY_LIVE && has_ended(w)))
            continue;
        const char *id = arena_printf(&c->arena, "%lld", (long long)json_number(w, "id", 0));
        if (!id || list->count == room)
            return error_set(e, ERR_TOO_LARGE, "more than %zu workloads", room);
        list->items[list->count++] = id;
    }
    return 0;
}

static int expand(struct error *e, struct client *c, const char *name, enum array_part part,
                  struct references *list, size_t room)
{
    char cursor[32] = "";
    json_t *all = json_array();
    int r = 0;
    do {
        json_t *page = NULL;
        r = get_page(e, c, name, cursor, &page);
        (void)json_array_extend(all, json_object_get(page, "workloads"));
        if (!str_copy(cursor, sizeof cursor, json_text(page, "next", "")))
            cursor[0] = '\0';
        json_decref(page);
    } while (r == 0 && *cursor && json_array_size(all) < WORKLOAD_ARRAY_MAX * 2);
    if (r == 0)
        r = add_elements(e, c, all, part, list, room);
    json_decref(all);
    return r;
}

int references_expand(struct error *e, struct client *c, size_t count, char *const *words,
                      enum array_part part, struct references *ret)
{
    size_t room = count + WORKLOAD_ARRAY_MAX * 2;
    struct references list = {.items = arena_array(&c->arena, room, sizeof *list.items),
                              .ended = arena_array(&c->arena, count + 1, sizeof *list.ended)};
    if (!list.items || !list.ended)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < count; i++) {
        int r = 0;
        if (may_be_array(words[i])) {
            r = client_get(NULL, c, client_path(c, "workloads", words[i], ""), NULL);
            /* gpumux explains a name of several workloads; the other errors are the command's. */
            if (r == -ERR_CONFLICT) {
                size_t before = list.count;
                r = expand(e, c, words[i], part, &list, room);
                if (r < 0)
                    return r;
                if (list.count == before)
                    list.ended[list.ended_count++] = words[i];
                continue;
            }
        }
        if (list.count == room)
            return error_set(e, ERR_TOO_LARGE, "more than %zu workloads", room);
        list.items[list.count++] = words[i];
    }
    *ret = list;
    return 0;
}

int references_tell_ended(const struct invocation *in, const struct references *list)
{
    for (size_t i = 0; i < list->ended_count; i++)
        fprintf(stderr, "gpumux: %s: %s: every element has already ended\n", in->command->name,
                list->ended[i]);
    return list->ended_count > 0 ? COMMAND_FAILED : COMMAND_OK;
}

static int show_one(struct client *c, const char *path, enum output_format format, bool is_first,
                    int (*show)(const json_t *answer))
{
    struct error e = {0};
    json_t *answer = NULL;
    int status;
    if (client_get(&e, c, path, &answer) < 0) {
        status = client_fail(c, &e);
    } else if (format == OUTPUT_JSON || format == OUTPUT_YAML) {
        status = output_value(format, answer);
    } else {
        printf("%s", is_first ? "" : "\n");
        status = show(answer);
    }
    json_decref(answer);
    return status;
}

int references_show(const struct invocation *in, enum array_part part, const char *suffix,
                    int (*show)(const json_t *answer))
{
    struct client c;
    int status = client_init(&c, in);
    if (status != COMMAND_OK)
        return status;
    enum output_format format = output_format(in);
    struct error e = {0};
    struct references list = {0};
    if (references_expand(&e, &c, in->operand_count, in->operands, part, &list) < 0)
        status = client_fail(&c, &e);
    else
        status = references_tell_ended(in, &list);
    for (size_t i = 0; i < list.count; i++) {
        const char *path = client_path(&c, "workloads", list.items[i], suffix);
        int one = show_one(&c, path, format, i == 0, show);
        if (status == COMMAND_OK)
            status = one;
    }
    client_done(&c);
    return status;
}
