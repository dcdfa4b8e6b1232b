/* gpumux slo: the targets of services, and how gpumux keeps them. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/connect/client.h"
#include "cli/frame/output.h"
#include "cli/frame/show.h"
#include "cli/watch/attainment.h"
#include "cli/watch/watching.h"
#include "wire/spec.h"

enum { TARGET_MAX = 256, PAGE = 500, INTERVAL_MS = 2000, INTERVAL_MIN_MS = 100, TEXT_MAX = 8192 };

static const char no_control[] = "no controller";

/* Fetches all live services. */
static int fetch_all(struct error *e, struct client *c, json_t **ret)
{
    char target[TARGET_MAX], cursor[32] = "";
    json_t *all = json_array();
    int r = 0;
    do {
        json_t *page = NULL;
        (void)snprintf(target, sizeof target,
                       "/v1/workloads?limit=%d&kind=service&state="
                       "queued,placed,starting,running,suspending,suspended,resuming,stopping%s%s",
                       PAGE, *cursor ? "&cursor=" : "", cursor);
        r = client_get(e, c, target, &page);
        (void)json_array_extend(all, json_object_get(page, "workloads"));
        if (r < 0 || !str_copy(cursor, sizeof cursor, json_text(page, "next", "")))
            cursor[0] = '\0';
        json_decref(page);
    } while (r == 0 && *cursor);
    *ret = all;
    return r;
}

static int fetch_one(struct error *e, struct client *c, const char *reference, json_t **ret)
{
    json_t *workload = NULL;
    int r = client_get(e, c, client_path(c, "workloads", reference, ""), &workload);
    if (r == 0 && strcmp(json_text(workload, "kind", ""), "service") != 0)
        r = error_set(e, ERR_INVALID, "%s is not a service", reference);
    *ret = json_array();
    if (r == 0)
        (void)json_array_append(*ret, workload);
    json_decref(workload);
    return r;
}

static const json_t *control_of(const json_t *service)
{
    return json_object_get(json_object_get(service, "usage"), "control");
}

/* ---- table ---- */

static void add_attainment(struct output_table *t, const json_t *control, const char *period)
{
    char text[SHOW_TEXT_MAX];
    attainment_show(control, period, text);
    output_cell(t, text[0] == '-' ? OUTPUT_FAINT : OUTPUT_PLAIN, "%s", text);
}

static void add_row(struct output_table *t, const json_t *service)
{
    const json_t *control = control_of(service);
    const char *state = json_text(service, "state", "?");
    char text[SHOW_TEXT_MAX];
    bool is_unreachable = json_is_true(json_object_get(control, "is_unreachable"));
    bool is_trial = json_is_true(json_object_get(control, "is_trial"));
    output_cell(t, OUTPUT_BOLD, "%lld", (long long)json_number(service, "id", 0));
    output_cell(t, OUTPUT_PLAIN, "%s", json_text(service, "name", ""));
    if (!json_is_object(control)) {
        for (int i = 0; i < 8; i++)
            output_cell(t, OUTPUT_FAINT, "-");
        output_cell(t, OUTPUT_FAINT, "%s", strcmp(state, "running") == 0 ? no_control : state);
        return;
    }
    output_cell(t, is_unreachable ? OUTPUT_RED : OUTPUT_PLAIN, "%s",
                attainment_show_target(control, text));
    add_attainment(t, control, "1m");
    add_attainment(t, control, "10m");
    add_attainment(t, control, "1h");
    add_attainment(t, control, "");
    output_cell(t, OUTPUT_PLAIN, "%lld", (long long)json_number(control, "late", 0));
    output_cell(t, OUTPUT_PLAIN, "%s", json_text(control, "setting", "?"));
    output_cell(t, OUTPUT_PLAIN, "%s", attainment_show_tasks(control, text));
    output_cell(t, OUTPUT_FAINT, "%s%s%s", is_unreachable ? "unreachable" : "",
                is_unreachable && is_trial ? ", " : "", is_trial ? "trial" : "");
}

static int show_table(const json_t *services)
{
    static const char *const titles[] = {"ID",  "NAME", "TARGET",  "1 MIN", "10 MIN", "1 H",
                                         "ALL", "LATE", "SETTING", "TASKS", "NOTE",   NULL};
    struct output_table t;
    output_table_init(&t, titles);
    for (size_t i = 0; i < json_array_size(services); i++)
        add_row(&t, json_array_get(services, i));
    return output_table_print(&t);
}

static void show_details(const json_t *service)
{
    struct str out;
    const json_t *control = control_of(service);
    str_init(&out, TEXT_MAX);
    attainment_write(control, &out);
    attainment_write_history(control, output_has_utf8(), &out);
    if (out.length > 0)
        printf("\n%s", str_text(&out));
    str_done(&out);
}

/* ---- values ---- */

static json_t *value_of(const json_t *service)
{
    const json_t *control = control_of(service);
    return json_pack("{s:O, s:O, s:O, s:O, s:O?}", "id", json_object_get(service, "id"), "name",
                     json_object_get(service, "name"), "state", json_object_get(service, "state"),
                     "node", json_object_get(service, "node"), "control", control);
}

static int show_values(enum output_format format, const json_t *services)
{
    json_t *values = json_array();
    for (size_t i = 0; i < json_array_size(services); i++)
        (void)json_array_append_new(values, value_of(json_array_get(services, i)));
    json_t *value = json_pack("{s:o}", "services", values);
    int status = output_value(format, value);
    json_decref(value);
    return status;
}

static int show(const struct invocation *in, const json_t *services)
{
    enum output_format format = output_format(in);
    if (format == OUTPUT_JSON || format == OUTPUT_YAML)
        return show_values(format, services);
    int status = show_table(services);
    if (in->operand_count > 0)
        show_details(json_array_get(services, 0));
    return status;
}

static int look(const struct invocation *in, struct client *c)
{
    struct error e = {0};
    json_t *services = NULL;
    bool is_one = in->operand_count > 0;
    int r = is_one ? fetch_one(&e, c, in->operands[0], &services) : fetch_all(&e, c, &services);
    int status = r < 0 ? client_fail(c, &e) : show(in, services);
    if (status == COMMAND_OK && is_one &&
        attainment_is_missed(control_of(json_array_get(services, 0))))
        status = COMMAND_FAILED;
    json_decref(services);
    return status;
}

static int follow(const struct invocation *in, struct client *c, int64_t interval_ms)
{
    const struct timespec pause = {interval_ms / 1000, interval_ms % 1000 * 1000000};
    bool is_terminal = isatty(STDOUT_FILENO);
    for (bool is_first = true;; is_first = false) {
        if (is_terminal)
            printf("\033[H\033[J");
        else if (!is_first)
            printf("\n");
        int status = look(in, c);
        if (status != COMMAND_OK && status != COMMAND_FAILED)
            return status;
        if (fflush(stdout) != 0)
            return COMMAND_FAILED;
        (void)nanosleep(&pause, NULL);
    }
}

int slo_command(const struct invocation *in)
{
    int64_t interval_ms = INTERVAL_MS;
    struct error e = {0};
    const char *interval = option_value(in, "interval");
    if (interval && spec_parse_duration(&e, interval, &interval_ms) < 0) {
        fprintf(stderr, "gpumux: slo: --interval: %s\n", e.text);
        return COMMAND_USAGE;
    }
    if (interval_ms < INTERVAL_MIN_MS)
        interval_ms = INTERVAL_MIN_MS;
    struct client c;
    int status = client_init(&c, in);
    if (status != COMMAND_OK)
        return status;
    status = option_given(in, "follow") ? follow(in, &c, interval_ms) : look(in, &c);
    client_done(&c);
    return status;
}
