/* gpumux events: past events, and with -f new ones. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/connect/client.h"
#include "cli/connect/follow.h"
#include "cli/frame/output.h"
#include "cli/watch/watching.h"

enum { PAGE = 1000, STEP_MS = 1000, TARGET_MAX = 1024, RECENT_SHOWN = 100 };

struct viewer {
    enum output_format format;
    bool colour;
    uint64_t last;
};

/* Prints one event on a line; in YAML as a document, because a stream has no end. */
static void print_event(struct viewer *v, const json_t *event)
{
    v->last = (uint64_t)json_number(event, "revision", (json_int_t)v->last);
    if (v->format == OUTPUT_JSON) {
        json_dumpf(event, stdout, JSON_COMPACT);
        putchar('\n');
        return;
    }
    if (v->format == OUTPUT_YAML) {
        printf("---\n");
        (void)output_value(OUTPUT_YAML, event);
        return;
    }
    const char *what = json_text(event, "what", "?");
    const char *faint = v->colour ? output_colour_code(OUTPUT_FAINT) : "";
    const char *bold = v->colour ? output_colour_code(OUTPUT_BOLD) : "";
    const char *end = v->colour ? "\033[0m" : "";
    printf("%s%s%s ", faint, json_text(event, "time", "-"), end);
    if (v->format == OUTPUT_WIDE)
        printf("%-8lld ", (long long)json_number(event, "revision", 0));
    if (json_number(event, "workload", 0) > 0)
        printf("%-8lld ", (long long)json_number(event, "workload", 0));
    else
        printf("%-8s ", "-");
    printf("%s%-12s%s", bold, what, end);
    const char *node = json_text(event, "node", ""), *text = json_text(event, "text", "");
    if (*node)
        printf(" %s%s%s", faint, node, end);
    printf("%s%s\n", *text ? " " : "", text);
}

static int on_event(void *arg, const struct sse_event *event)
{
    json_t *data = json_loads(event->data, 0, NULL);
    if (data)
        print_event(arg, data);
    json_decref(data);
    fflush(stdout);
    return ferror(stdout) ? -ERR_IO : 0;
}

static int get_page(struct error *e, struct client *c, uint64_t since, const char *workload,
                    int limit, json_t **ret)
{
    struct str target;
    str_init(&target, TARGET_MAX);
    str_printf(&target, "/v1/events?limit=%d&since=%llu", limit, (unsigned long long)since);
    if (workload) {
        str_append(&target, "&workload=");
        http_append_encoded(&target, workload);
    }
    int r = str_failed(&target) ? error_set(e, ERR_INVALID, "the name of the workload is too long")
                                : client_get(e, c, str_text(&target), ret);
    str_done(&target);
    return r;
}

/* Finds the least revision from which all events are kept, by binary search. */
static int find_oldest(struct error *e, struct client *c, uint64_t newest, uint64_t *ret)
{
    uint64_t gone = 0, kept = newest;
    while (gone < kept) {
        uint64_t middle = gone + (kept - gone) / 2;
        json_t *answer = NULL;
        int r = get_page(e, c, middle, NULL, 1, &answer);
        json_decref(answer);
        if (r == 0)
            kept = middle;
        else if (r == -ERR_GONE)
            gone = middle + 1;
        else
            return r;
    }
    *ret = kept;
    return 0;
}

/* Chooses the default start: the last few events, or all events of one workload. */
static int choose_start(struct error *e, struct client *c, bool follows, const char *workload,
                        uint64_t *ret)
{
    uint64_t newest = 0;
    int r = follow_revision(e, c, &newest);
    if (r < 0 || follows) {
        *ret = newest;
        return r;
    }
    uint64_t oldest = 0;
    r = find_oldest(e, c, newest, &oldest);
    bool all = workload || newest - oldest < RECENT_SHOWN;
    *ret = all ? oldest : newest - RECENT_SHOWN;
    return r;
}

/* Prints all events from `since` to now. */
static int print_past(struct error *e, struct client *c, struct viewer *v, const char *workload)
{
    for (;;) {
        json_t *answer = NULL;
        int r = get_page(e, c, v->last, workload, PAGE, &answer);
        if (r < 0)
            return r;
        const json_t *events = json_object_get(answer, "events");
        size_t count = json_array_size(events);
        for (size_t i = 0; i < count; i++)
            print_event(v, json_array_get(events, i));
        json_decref(answer);
        if (count < PAGE)
            return 0;
    }
}

static int follow(struct error *e, struct client *c, struct viewer *v, const char *workload)
{
    struct follow_events events;
    int r = follow_events_init(e, &events, c, workload, v->last, on_event, v);
    while (r == 0)
        r = follow_events_step(e, &events, STEP_MS);
    follow_events_done(&events);
    return r;
}

int events_command(const struct invocation *in)
{
    struct viewer v = {.format = output_format(in), .colour = output_has_colour(stdout)};
    const char *since = option_value(in, "since");
    if (since) {
        char *end;
        v.last = strtoull(since, &end, 10);
        if (!*since || *end || since[0] == '-') {
            fprintf(stderr, "gpumux: events: --since must be the number of a revision, not '%s'\n",
                    since);
            return COMMAND_USAGE;
        }
    }
    struct client c;
    int status = client_init(&c, in);
    if (status != COMMAND_OK)
        return status;
    struct error e = {0};
    const char *workload = in->operand_count ? in->operands[0] : NULL;
    bool follows = option_given(in, "follow");
    int r = since ? 0 : choose_start(&e, &c, follows, workload, &v.last);
    if (r == 0)
        r = follows ? follow(&e, &c, &v, workload) : print_past(&e, &c, &v, workload);
    if (r < 0)
        status = client_fail(&c, &e);
    client_done(&c);
    return status;
}
