/* gpumux ps: requests pages of the list until the wanted workloads are complete. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/connect/client.h"
#include "cli/frame/output.h"
#include "cli/frame/show.h"
#include "cli/watch/watching.h"
#include "model/workload.h"

enum { PAGE = 500, RECENT_SHOWN = 20, TARGET_MAX = 2048 };

static const char live_states[] =
    "queued,placed,starting,running,suspending,suspended,resuming,stopping";
static const char ended_states[] = "succeeded,failed,cancelled";

static void append_filter(struct str *target, const char *key, const char *value)
{
    if (!value)
        return;
    str_printf(target, "&%s=", key);
    http_append_encoded(target, value);
}

/* Appends at most `most` workloads in the given states. */
static int fetch(struct error *e, struct client *c, const char *states, size_t most, json_t *all)
{
    const struct invocation *in = c->in;
    char cursor[32] = "";
    size_t count = 0;
    while (count < most) {
        struct str target;
        str_init(&target, TARGET_MAX);
        size_t page = most - count < PAGE ? most - count : PAGE;
        str_printf(&target, "/v1/workloads?limit=%zu", page);
        append_filter(&target, "state", states);
        append_filter(&target, "kind", option_value(in, "kind"));
        append_filter(&target, "user", option_value(in, "user"));
        append_filter(&target, "name", option_value(in, "name"));
        append_filter(&target, "cursor", *cursor ? cursor : NULL);
        json_t *answer = NULL;
        int r = str_failed(&target) ? error_set(e, ERR_INVALID, "the filters are too long")
                                    : client_get(e, c, str_text(&target), &answer);
        str_done(&target);
        if (r < 0)
            return r;
        const json_t *workloads = json_object_get(answer, "workloads");
        count += json_array_size(workloads);
        (void)json_array_extend(all, (json_t *)workloads);
        bool more = str_copy(cursor, sizeof cursor, json_text(answer, "next", "")) && *cursor;
        json_decref(answer);
        if (!more)
            break;
    }
    return 0;
}

/* A workload that ended between the two requests appears in both responses; the later one
 * counts. */
static void drop_ended(json_t *all, size_t live_count)
{
    for (size_t i = live_count; i < json_array_size(all); i++) {
        int64_t id = json_number(json_array_get(all, i), "id", 0);
        for (size_t live = 0; live < live_count; live++)
            if (json_number(json_array_get(all, live), "id", 0) == id) {
                (void)json_array_remove(all, live);
                live_count--;
                i--;
                break;
            }
    }
}

static void add_row(struct output_table *t, const json_t *w, bool wide, int64_t now_wall_ms)
{
    char text[SHOW_TEXT_MAX];
    const char *state = json_text(w, "state", "?");
    output_cell(t, OUTPUT_BOLD, "%lld", (long long)json_number(w, "id", 0));
    output_cell(t, OUTPUT_PLAIN, "%s", json_text(w, "name", ""));
    output_cell(t, OUTPUT_PLAIN, "%s", json_text(w, "kind", ""));
    output_cell(t, show_state_colour(state), "%s", show_state(w, text));
    output_cell(t, OUTPUT_PLAIN, "%s", json_text(w, "user", ""));
    int64_t submitted = show_time_member(w, "submitted");
    output_cell(t, OUTPUT_PLAIN, "%s",
                show_duration(submitted < 0 ? -1 : now_wall_ms - submitted, text));
    output_cell(t, OUTPUT_PLAIN, "%s", show_run_time(w, now_wall_ms, text));
    struct str devices;
    str_init(&devices, 4096);
    show_devices(w, &devices);
    output_cell(t, OUTPUT_PLAIN, "%s", str_text(&devices));
    if (wide) {
        str_clear(&devices);
        show_uuids(w, &devices);
        output_cell(t, OUTPUT_PLAIN, "%s", json_text(w, "node", "-"));
        output_cell(t, OUTPUT_PLAIN, "%s", show_quota(w, text));
        output_cell(t, OUTPUT_PLAIN, "%s", show_share(json_object_get(w, "share"), text));
        output_cell(t, OUTPUT_PLAIN, "%lld", (long long)json_number(w, "priority", 0));
        output_cell(t, OUTPUT_PLAIN, "%lld", (long long)json_number(w, "attempt", 0));
        output_cell(t, OUTPUT_PLAIN, "%s", str_text(&devices));
        output_cell(t, OUTPUT_PLAIN, "%s", json_text(w, "command", ""));
    }
    str_done(&devices);
    output_cell(t, OUTPUT_FAINT, "%s", json_text(w, "text", ""));
}

static int show(const struct invocation *in, const json_t *all)
{
    static const char *const narrow_titles[] = {"ID",  "NAME", "KIND",    "STATE", "USER",
                                                "AGE", "RAN",  "DEVICES", "NOTE",  NULL};
    static const char *const wide_titles[] = {
        "ID",    "NAME",  "KIND",     "STATE",    "USER",  "AGE",     "RAN",  "DEVICES", "NODE",
        "QUOTA", "SHARE", "PRIORITY", "ATTEMPTS", "UUIDS", "COMMAND", "NOTE", NULL};
    bool wide = output_format(in) == OUTPUT_WIDE;
    struct output_table t;
    output_table_init(&t, wide ? wide_titles : narrow_titles);
    if (!wide)
        t.width_max = output_terminal_width(); /* the rest of a note is in describe */
    int64_t now = clock_wall_ms();
    for (size_t i = 0; i < json_array_size(all); i++)
        add_row(&t, json_array_get(all, i), wide, now);
    return output_table_print(&t);
}

/* Checks the states here, because a filter that can never match is a typo. */
static int check_states(const char *states)
{
    for (const char *word = states; word; word = strchr(word, ',')) {
        char name[32];
        enum workload_state state;
        word += *word == ',';
        size_t length = strcspn(word, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, word);
        if (length == 0 || (length < sizeof name && workload_state_parse(name, &state) == 0))
            continue;
        fprintf(stderr,
                "gpumux: ps: --state: there is no state '%.*s'; the states are: ", (int)length,
                word);
        for (unsigned i = 0; i < WORKLOAD_STATE_END; i++)
            fprintf(stderr, "%s%s", i ? ", " : "", workload_state_name((enum workload_state)i));
        fputc('\n', stderr);
        return COMMAND_USAGE;
    }
    return COMMAND_OK;
}

static int show_ids(const json_t *all)
{
    for (size_t i = 0; i < json_array_size(all); i++)
        printf("%lld\n", (long long)json_number(json_array_get(all, i), "id", 0));
    return COMMAND_OK;
}

int ps_command(const struct invocation *in)
{
    struct client c;
    int status = check_states(option_value(in, "state"));
    if (status == COMMAND_OK)
        status = client_init(&c, in);
    if (status != COMMAND_OK)
        return status;
    struct error e = {0};
    json_t *all = json_array();
    const char *states = option_value(in, "state");
    int r = 0;
    if (states || option_given(in, "all")) {
        r = fetch(&e, &c, states, SIZE_MAX, all);
    } else {
        r = fetch(&e, &c, live_states, SIZE_MAX, all);
        size_t live_count = json_array_size(all);
        if (r == 0)
            r = fetch(&e, &c, ended_states, RECENT_SHOWN, all);
        drop_ended(all, live_count);
    }
    enum output_format format = output_format(in);
    if (r < 0) {
        status = client_fail(&c, &e);
    } else if (option_given(in, "quiet")) {
        status = show_ids(all);
    } else if (format == OUTPUT_JSON || format == OUTPUT_YAML) {
        json_t *value = json_pack("{s:O}", "workloads", all);
        status = output_value(format, value);
        json_decref(value);
    } else {
        status = show(in, all);
    }
    json_decref(all);
    client_done(&c);
    return status;
}
